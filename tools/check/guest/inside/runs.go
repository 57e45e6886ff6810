package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func init() { scenarios["runs"] = runs }

// runs makes devices ready, and has lmrun run as
// the lines of /runs say: an exit status, words that it is to say, answers to its system
// calls (answer.go) and its arguments, with tabs between: runs DEVICE... . What must
// exist lies in the guest. Devices are LANE:IDS.
func runs(args []string) int {
	for _, device := range args {
		lane, ids, _ := strings.Cut(device, ":")
		if _, err := ready(lane, ids); err != nil {
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
		if !runLine(fields) {
			failed = 1
		}
		count++
	}
	fmt.Printf("inside: %d runs in %v\n", count, time.Since(began).Round(time.Millisecond))
	return failed
}

func runLine(fields []string) bool {
	want, err := strconv.Atoi(fields[0])
	if err == nil && fields[2] == "" {
		return expect(want, fields[1], "/lmrun", fields[3:]...)
	}
	output, exit := "", 0
	if err == nil {
		output, exit, err = runAnswered(fields[2], "/lmrun", fields[3:]...)
	}
	if err != nil {
		fmt.Printf("inside: %q: %v; it said:\n%s\n", fields[2:], err, output)
		return false
	}
	return as(want, fields[1], output, exit, fields[2:])
}
