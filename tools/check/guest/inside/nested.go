package main

import (
	"fmt"
	"os"
	"strings"
)

func init() { scenarios["nested"] = nested }

// nested has a QEMU of this guest's own pass the device with these ids on, by
// VFIO and without mappings, to a machine that runs /program. It prints what that
// QEMU traces:
//
//	IDS
func nested(args []string) int {
	at, err := address(args[0])
	if err == nil {
		err = (&bench{lane: "vfio", edu: at, ivshmem: at, nvme: at}).prepare()
	}
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	const trace = "/tmp/trace"
	output, exit := run("/usr/bin/qemu-system-aarch64", "-M", "virt,highmem=off", "-accel", "tcg",
		"-cpu", "cortex-a53", "-m", "16", "-nodefaults", "-display", "none",
		"-device", "vfio-pci,host="+at+",x-no-mmap=on,addr=1,rombar=0", "-kernel", "/program",
		"-trace", "vfio_region_*", "-D", trace)
	fmt.Println("inside:", output)
	lines, _ := os.ReadFile(trace)
	for line := range strings.Lines(string(lines)) {
		fmt.Print("trace: ", line)
	}
	return exit
}
