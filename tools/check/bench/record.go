package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"lightmetal/hal"
	"lightmetal/tools/capture/recorder"
	"lightmetal/tools/image/fail"

	"golang.org/x/sys/unix"
)

const (
	// recordMax is how long one recorded run may take.
	recordMax = 30 * time.Second

	// recordGoal is what an access may take, in nanoseconds.
	recordGoal = 60_000
)

// recordings measures what an access costs that lm record makes in a program's
// place, beside the program's own, on a file that is taken for a BAR.
func (b *bench) recordings() {
	count, rounds := 2_000, 3
	if b.full {
		count, rounds = 20_000, 9
	}
	what := "an access under lm record"
	var each, bare []float64
	for range rounds {
		took, forbidden := recorded(count)
		if forbidden != "" {
			b.add(row{Section: "goals", What: what, Note: "not measured: " + forbidden})
			return
		}
		each, bare = append(each, took), append(bare, touch(1_000_000))
	}
	r := row{Section: "goals", What: what, Unit: "us", Ours: value(median(each) / 1e3),
		Note: fmt.Sprintf("loads and stores of 4 bytes by turns, of memory; the program's own "+
			"%.1f ns", median(bare))}
	b.add(r.atMost(median(each), recordGoal, "<= 60 us"))
}

// recorded has another process record this program, which makes count accesses.
// It gives the time of one, or why programs may not be traced here.
func recorded(count int) (nanoseconds float64, forbidden string) {
	limit, cancel := context.WithTimeout(context.Background(), recordMax)
	defer cancel()
	command := exec.CommandContext(limit, os.Args[0], "-record", strconv.Itoa(count))
	var complaint bytes.Buffer
	command.Stderr = &complaint
	out, err := command.Output()
	if command.ProcessState != nil && command.ProcessState.ExitCode() == hal.Denied.ExitStatus() {
		return 0, strings.TrimSpace(complaint.String())
	}
	if err != nil {
		fail.On(fmt.Errorf("recording %d accesses: %w %s", count, err, &complaint))
	}
	return fail.Must(strconv.ParseFloat(strings.TrimSpace(string(out)), 64)), ""
}

// recordChild is that process.
func recordChild(count string) {
	result, err := recorder.Run(recorder.Options{
		Program: []string{os.Args[0], "-touch", count},
		Files:   []recorder.File{{Path: "memfd:" + barName}}, Out: io.Discard, Complaint: os.Stderr,
	})
	var failure *recorder.Failure
	switch n, _ := strconv.Atoi(count); {
	case errors.As(err, &failure) && failure.Kind == recorder.Forbidden:
		fmt.Fprintln(os.Stderr, failure)
		os.Exit(hal.Denied.ExitStatus())
	case err != nil:
		fail.On(err)
	case result.Exit != 0 || result.Gaps != 0 || result.Accesses != uint64(n):
		fail.On(fmt.Errorf("%d of %d accesses recorded, %d gaps, exit status %d", result.Accesses,
			n, result.Gaps, result.Exit))
	}
}

// barName is the file without a path that stands for a BAR.
const barName = "bench-bar"

// touch loads from a file that is mapped, and stores to it, by turns.
func touch(count int) (nanoseconds float64) {
	fd := fail.Must(unix.MemfdCreate(barName, unix.MFD_CLOEXEC))
	defer unix.Close(fd)
	fail.On(unix.Ftruncate(fd, pageSize))
	memory := fail.Must(unix.Mmap(fd, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))
	defer func() { _ = unix.Munmap(memory) }()
	window := hal.MappedAperture(memory, 0, pageSize, 0)
	began := time.Now()
	for i := range count / 2 {
		at := uint64(4 * i % pageSize)
		v, _ := window.Load(uint32(at), 4)
		window.Store(uint32(at), 4, (v+1)&0xffffffff)
	}
	return float64(time.Since(began)) / float64(count)
}
