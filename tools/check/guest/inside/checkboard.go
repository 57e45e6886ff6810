package main

import (
	"fmt"
	"strings"
)

func init() {
	scenarios["check-board"] = func(args []string) int { return checkBoard(args[0]) }
}

// checkBoard has /lm look at this machine: as it is, with an image that has
// host memory, and once more when the machine is made ready for it as one lane
// wants it. The reports go to the console, a line each, for the host to check.
func checkBoard(lane string) int {
	const image = "/images/edu-dma.lmb"
	judge("plain")
	judge("before", "--image", image)
	b := &bench{lane: lane}
	for ids, name := range map[string]*string{eduIDs: &b.edu, ivshmemIDs: &b.ivshmem,
		nvmeIDs: &b.nvme} {
		at, err := address(ids)
		if err != nil {
			fmt.Println("inside:", err)
			return 1
		}
		*name = lane + ":" + at
	}
	if err := b.prepare(); err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	if err := reserveHugePages(8); err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	judge("after", "--image", image)
	// What the report promises holds.
	if !expect(0, "done", "/lmrun", "-device", b.edu, image) {
		return 1
	}
	return 0
}

func judge(name string, args ...string) {
	output, _ := run("/lm", append([]string{"check-board", "--json"}, args...)...)
	fmt.Printf("check-board %s %s\n", name, strings.TrimSpace(output))
}
