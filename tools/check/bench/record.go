package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"lightmetal/hal"
	"lightmetal/tools/capture/recorder"
	"lightmetal/tools/image/fail"

	"golang.org/x/sys/unix"
)

const (
	// recordLimit is the longest time of one recorded run.
	recordLimit = 30 * time.Second

	// Longest times of one recorded access, in nanoseconds: recordGoal for an access in a loop
	// (150,000 a second), stopGoal for an access that is a stop of ptrace.
	recordGoal, stopGoal = 1e9 / 150_000, 60_000

	// copyGoal is the longest time for recording a copy of copySize bytes, in seconds.
	copyGoal, copySize = 20, 100_000_000
)

// measureRecordings measures the time of one access under lm record, to a file that represents a
// BAR. For comparison, it measures a bare stop of ptrace, and the access without lm record.
func (b *bench) measureRecordings() {
	count, rounds := 2_000, 3
	if b.full {
		count, rounds = 20_000, 9
	}
	const what = "an access under lm record"
	var calls, loops, bare, stops []float64
	for range rounds {
		took, forbidden := runRecorded("-touch", count)
		if forbidden != "" {
			b.add(row{Section: "goals", What: what, Note: "not measured: " + forbidden})
			return
		}
		calls, bare = append(calls, took), append(bare, timeAccessCalls(1_000_000))
		took, _ = runRecorded("-loop", 10*count)
		loops, stops = append(loops, took), append(stops, ptraceStopTime(count))
	}
	r := row{Section: "goals", What: what, Unit: "us", Ours: pointerTo(median(calls) / 1e3),
		Note: fmt.Sprintf("loads and stores of 4 bytes by turns, of memory, with calls in "+
			"between; the program's own %.1f ns", median(bare))}
	b.add(r.atMost(median(calls), stopGoal, "<= 60 us"))
	r = row{Section: "goals", What: "the same, in a loop", Unit: "us",
		Ours: pointerTo(median(loops) / 1e3), Note: fmt.Sprintf("%.0f a second", 1e9/median(loops))}
	if runtime.GOARCH == "amd64" { // on other architectures, each access is a stop
		r = r.atMost(median(loops), recordGoal, "<= 6.67 us (150,000 a second)")
	}
	b.add(r, row{Section: "goals", What: "a bare stop of ptrace", Unit: "us",
		Ours: pointerTo(median(stops) / 1e3),
		Note: fmt.Sprintf("wait and PTRACE_SYSCALL alone: at most %.0f accesses a second if each "+
			"is a stop", 1e9/median(stops))})
	b.measureCopies()
}

// measureCopies measures the time of a copy under lm record.
func (b *bench) measureCopies() {
	took, _ := runRecorded("-fill", copySize)
	seconds := took * copySize / 1e9
	r := row{Section: "goals", What: "100 MB by memmove under lm record", Unit: "s",
		Ours: pointerTo(seconds), Note: "Go's, 1 MiB at a time"}
	b.add(r.atMost(seconds, copyGoal, "<= 20 s"))
}

// ptraceStopTime returns the time of one stop of ptrace. The traced program makes system calls.
func ptraceStopTime(count int) (nanoseconds float64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command := exec.Command(os.Args[0], "-call", strconv.Itoa(count))
	command.SysProcAttr = &unix.SysProcAttr{Ptrace: true}
	fail.On(command.Start())
	return timeStops(command.Process.Pid, unix.PtraceSyscall)
}

// timeStops resumes a traced process after each stop until the process ends. It returns the time
// from one stop to the next.
func timeStops(pid int, resume func(pid, signal int) error) (nanoseconds float64) {
	stops, status := 0, unix.WaitStatus(0)
	var began time.Time
	for {
		if _, err := unix.Wait4(pid, &status, unix.WALL, nil); err != nil || !status.Stopped() {
			return float64(time.Since(began)) / float64(max(stops, 1))
		}
		if stops++; stops == 1 {
			began = time.Now()
		}
		// ESRCH: the process was ended while it was stopped, and the next wait reports the end.
		if err := resume(pid, 0); err != unix.ESRCH {
			fail.On(err)
		}
	}
}

func init() {
	if len(os.Args) > 1 && os.Args[1] == "-call" {
		// Only the first thread is traced. The scheduler must not move main to another one.
		runtime.LockOSThread()
	}
}

// makeSystemCalls makes count system calls.
func makeSystemCalls(count int) {
	for range count {
		_, _, _ = unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
	}
}

// runRecorded starts a process that runs this program under the recorder. The recorded program
// makes count accesses, or copies count bytes. It returns the time of one, or the reason why
// tracing is not permitted.
func runRecorded(mode string, count int) (nanoseconds float64, forbidden string) {
	limit, cancel := context.WithTimeout(context.Background(), recordLimit)
	defer cancel()
	command := exec.CommandContext(limit, os.Args[0], "-record", mode, strconv.Itoa(count))
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if command.ProcessState != nil && command.ProcessState.ExitCode() == hal.Denied.ExitStatus() {
		return 0, strings.TrimSpace(stderr.String())
	}
	if err != nil {
		fail.On(fmt.Errorf("recording %d accesses: %w %s", count, err, &stderr))
	}
	return fail.Must(strconv.ParseFloat(strings.TrimSpace(string(out)), 64)), ""
}

// recordSelf runs this program under the recorder, and checks how many accesses were recorded.
func recordSelf(mode, count string) {
	result, err := recorder.Run(recorder.Options{
		Program: []string{os.Args[0], mode, count},
		Files:   []recorder.File{{Path: "memfd:" + barName}}, Out: io.Discard, Warnings: os.Stderr,
	})
	var failure *recorder.Failure
	switch n, _ := strconv.Atoi(count); {
	case errors.As(err, &failure) && failure.Kind == recorder.Forbidden:
		fmt.Fprintln(os.Stderr, failure)
		os.Exit(hal.Denied.ExitStatus())
	case err != nil:
		fail.On(err)
	case result.ExitStatus != 0 || result.Gaps != 0 ||
		result.Accesses != uint64(n) && (mode != "-fill" || result.Accesses < uint64(n)/64):
		fail.On(fmt.Errorf("%d of %d accesses recorded, %d gaps, exit status %d", result.Accesses,
			n, result.Gaps, result.ExitStatus))
	}
}

// barName is the name of the file in memory that represents a BAR.
const barName = "bench-bar"

// mapBar maps a file that represents a BAR.
func mapBar(size int) (memory []byte, done func()) {
	fd := fail.Must(unix.MemfdCreate(barName, unix.MFD_CLOEXEC))
	fail.On(unix.Ftruncate(fd, int64(size)))
	memory = fail.Must(unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))
	return memory, func() { _ = errors.Join(unix.Munmap(memory), unix.Close(fd)) }
}

// timeCopies copies count bytes to a mapped file, and returns the time of one byte.
func timeCopies(count int) (nanoseconds float64) {
	const size = 1 << 20
	memory, done := mapBar(size)
	defer done()
	source := bytes.Repeat([]byte("weights "), size/8)
	began := time.Now()
	for left := count; left > 0; left -= size {
		copy(memory, source[:min(left, size)])
	}
	return float64(time.Since(began)) / float64(count)
}

// timeAccessLoop is like timeAccessCalls, but accesses memory directly in a loop.
func timeAccessLoop(count int) (nanoseconds float64) {
	memory, done := mapBar(pageSize)
	defer done()
	words := unsafe.Slice((*uint32)(unsafe.Pointer(&memory[0])), pageSize/4)
	began := time.Now()
	for i := range count / 2 {
		words[i%len(words)]++
	}
	return float64(time.Since(began)) / float64(count)
}

// timeAccessCalls loads from a mapped file and stores to it in turn, each by a function call, and
// returns the time of one access.
func timeAccessCalls(count int) (nanoseconds float64) {
	memory, done := mapBar(pageSize)
	defer done()
	window := hal.MappedAperture(memory, 0, pageSize, 0)
	began := time.Now()
	for i := range count / 2 {
		at := uint64(4 * i % pageSize)
		v, _ := window.Load(uint32(at), 4)
		window.Store(uint32(at), 4, (v+1)&0xffffffff)
	}
	return float64(time.Since(began)) / float64(count)
}
