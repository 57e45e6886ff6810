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
	"lightmetal/tools/recorder"

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
func (b *bench) recordings() error {
	count, rounds := 2_000, 3
	if b.full {
		count, rounds = 20_000, 9
	}
	what := "an access under lm record"
	var each, bare []float64
	for range rounds {
		took, forbidden, err := recorded(count)
		if err != nil {
			return err
		}
		if forbidden != "" {
			b.add(row{Section: "goals", What: what, Note: "not measured: " + forbidden})
			return nil
		}
		own, err := touch(1_000_000)
		if err != nil {
			return err
		}
		each, bare = append(each, took), append(bare, own)
	}
	r := row{Section: "goals", What: what, Unit: "us", Ours: value(median(each) / 1e3),
		Note: fmt.Sprintf("loads and stores of 4 bytes by turns, of memory; the program's own %.1f ns", median(bare))}
	b.add(r.atMost(median(each), recordGoal, "<= 60 us"))
	return nil
}

// recorded has another process record this program, which makes count accesses.
// It gives the time of one, or why programs may not be traced here.
func recorded(count int) (nanoseconds float64, forbidden string, err error) {
	limit, cancel := context.WithTimeout(context.Background(), recordMax)
	defer cancel()
	command := exec.CommandContext(limit, os.Args[0], "-record", strconv.Itoa(count))
	var complaint bytes.Buffer
	command.Stderr = &complaint
	out, err := command.Output()
	if command.ProcessState != nil && command.ProcessState.ExitCode() == hal.Denied.Exit() {
		return 0, strings.TrimSpace(complaint.String()), nil
	}
	if err != nil {
		return 0, "", fmt.Errorf("recording %d accesses: %w %s", count, err, &complaint)
	}
	nanoseconds, err = strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	return nanoseconds, "", err
}

// recordChild is that process.
func recordChild(count string) error {
	result, err := recorder.Run(recorder.Options{
		Program: []string{os.Args[0], "-touch", count}, Files: []recorder.File{{Path: "memfd:" + barName}}, Out: io.Discard, Complaint: os.Stderr,
	})
	var failure *recorder.Failure
	switch n, _ := strconv.Atoi(count); {
	case errors.As(err, &failure) && failure.Kind == recorder.Forbidden:
		fmt.Fprintln(os.Stderr, failure)
		os.Exit(hal.Denied.Exit())
	case err != nil:
		return err
	case result.Exit != 0 || result.Gaps != 0 || result.Accesses != uint64(n):
		return fmt.Errorf("%d of %d accesses recorded, %d gaps, exit status %d", result.Accesses, n, result.Gaps, result.Exit)
	}
	return nil
}

// touchChild is the program: it prints what an access took, in nanoseconds.
func touchChild(count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	each, err := touch(n)
	if err == nil {
		fmt.Println(each)
	}
	return err
}

// barName is the file without a path that stands for a BAR.
const barName = "bench-bar"

// touch loads from a file that is mapped, and stores to it, by turns.
func touch(count int) (nanoseconds float64, err error) {
	fd, err := unix.MemfdCreate(barName, unix.MFD_CLOEXEC)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, pageSize); err != nil {
		return 0, err
	}
	memory, err := unix.Mmap(fd, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Munmap(memory) }()
	window := hal.MappedAperture(memory, 0, pageSize, 0)
	began := time.Now()
	for i := range count / 2 {
		at := uint64(4 * i % pageSize)
		v, _ := window.Load(uint32(at), 4)
		window.Store(uint32(at), 4, (v+1)&0xffffffff)
	}
	return float64(time.Since(began)) / float64(count), nil
}
