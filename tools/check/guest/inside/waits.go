package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func init() { steps["waits"] = step{"DEVICE COUNT BUSY POLLS SLEEPS [IMAGE...]", compareWaits} }

// frameCost is what a frame of a loop takes: time, and the part of a processor.
type frameCost struct {
	mean      time.Duration
	processor float64
}

// compareWaits prints what a frame of each image takes. SLEEPS has the pauses of POLLS, which an
// interrupt ends, and BUSY short ones.
func compareWaits(_ *guest, args []string) error {
	costs := make([]frameCost, len(args)-2)
	for i, image := range args[2:] {
		var err error
		if costs[i], err = measureFrames(args[0], args[1], image); err != nil {
			return err
		}
	}
	busy, polls, sleeps := costs[0], costs[1], costs[2]
	if sleeps.mean > polls.mean*7/8 || sleeps.processor > busy.processor/4 {
		return fmt.Errorf("sleeping takes %v, polling %v and %v: no interrupt ends the pauses",
			sleeps, polls, busy)
	}
	return nil
}

// measureFrames measures the processor time from 1.5 to 3 s after the start: loads are not in it.
func measureFrames(device, count, image string) (cost frameCost, err error) {
	c := exec.Command("/lmrun", "-device", device, "-seal", "-loop", count, "-sequence", "main",
		image)
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		return cost, err
	}
	const first, measured = 1500 * time.Millisecond, 1500 * time.Millisecond
	time.Sleep(first)
	before, began := processorTime(c.Process.Pid), time.Now()
	time.Sleep(measured)
	used, took := processorTime(c.Process.Pid)-before, time.Since(began)
	exit := waitExit(c)
	us := regexp.MustCompile(`in us: least \S+, mean (\S+), most \S+`).FindStringSubmatch(
		out.String())
	if exit != 0 || us == nil || used <= 0 {
		return cost, fmt.Errorf("exit status %d, %v of the processor: %s", exit, used,
			out.String())
	}
	mean, _ := strconv.ParseFloat(strings.TrimSuffix(us[1], ","), 64)
	cost.mean = time.Duration(mean * float64(time.Microsecond))
	cost.processor = float64(used) / float64(took)
	fmt.Printf("inside: %s: %s; %.1f %% of a processor\n", image, us[0], 100*cost.processor)
	return cost, nil
}

// processorTime returns the time that the threads of a process were on a processor.
func processorTime(pid int) (sum time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, path := range files {
		text, _ := os.ReadFile(path)
		first, _, _ := strings.Cut(string(text), " ")
		ns, _ := strconv.ParseInt(first, 10, 64)
		sum += time.Duration(ns)
	}
	return sum
}
