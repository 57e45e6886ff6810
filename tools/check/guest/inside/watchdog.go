package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func init() { scenarios["watchdog"] = watchdog }

// Timeouts of the watchdog, in seconds of guest time: of what is to be reset, and
// of what feeds it every half a second however the host stalls; and more than either.
const (
	hangs, feeds = "2", "6"
	wellBeyond   = 60 * time.Second
)

// watchdog runs lmrun with a watchdog. What should be reset waits for it, and
// tells when it was not.
func watchdog(args []string) int {
	modules, _ := filepath.Glob("/modules/*.ko")
	for _, name := range []string{"watchdog.ko", "i6300esb.ko"} {
		if err := insmod(name); err != nil && strings.Contains(strings.Join(modules, " "), name) {
			fmt.Println("inside:", err)
			return 1
		}
	}
	run := func(timeout string, flags ...string) (*exec.Cmd, error) {
		return spawn("/lmrun",
			append([]string{"-device", "pci:1234:11e8", "-watchdog", "/dev/watchdog0=" + timeout},
				append(flags, "/image.lmb")...)...)
	}
	var c *exec.Cmd
	var err error
	switch args[0] {
	case "frames": // they take longer than the timeout, in all
		c, err = run(feeds, "-sequence", "frame", "-loop", "16")
	case "kill":
		c, err = run(feeds, "-sequence", "frame", "-loop", "forever")
	case "hang", "fail":
		c, err = run(hangs, "-sequence", args[0])
	}
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	if args[0] == "frames" {
		exit := ended(c, 0)
		time.Sleep(8 * time.Second) // a watchdog that was not stopped would end this
		return exit
	}
	if args[0] == "kill" {
		a, _, err := bar("1234:11e8", 0)
		if err != nil || !await(&a, 4, 0xfffffffe) {
			return 1
		}
		_ = c.Process.Kill()
	}
	fmt.Println("inside: waiting to be reset")
	_ = os.Stdout.Sync()
	time.Sleep(wellBeyond)
	fmt.Println("inside: still here")
	return 0
}
