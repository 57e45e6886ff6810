package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func init() { scenarios["runs"] = runs }

// runs makes the devices with these ids ready for a lane, and has lmrun run as
// the lines of /runs say: an exit status, words that it is to say and its
// arguments, with tabs between: runs LANE IDS... . What must exist lies in the guest.
func runs(args []string) int {
	for _, ids := range args[1:] {
		if _, err := ready(args[0], ids); err != nil {
			fmt.Println("inside:", err)
			return 1
		}
	}
	list, err := os.ReadFile("/runs")
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	began, count, failed := time.Now(), 0, 0
	for line := range strings.Lines(string(list)) {
		fields := strings.Split(strings.TrimRight(line, "\n"), "\t")
		want, err := strconv.Atoi(fields[0])
		if err != nil || !expect(want, fields[1], "/lmrun", fields[2:]...) {
			failed = 1
		}
		count++
	}
	fmt.Printf("inside: %d runs in %v\n", count, time.Since(began).Round(time.Millisecond))
	return failed
}
