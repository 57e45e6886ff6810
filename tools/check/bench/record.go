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
	"lightmetal/hal/mock"
	"lightmetal/tools/capture/recorder"
	"lightmetal/tools/image/fail"

	"golang.org/x/sys/unix"
)

// recordLimit is the longest time of one recorded run. A run that misses its goal is shorter, also
// on a busy machine.
const recordLimit = 5 * time.Minute

// copySize is the number of bytes of the copy whose time has a goal.
const copySize = 100_000_000

// measureRecordings measures the time of one access under lm record, to a file that represents a
// BAR, and the time of a copy.
func (b *bench) measureRecordings() {
	const what = "an access under lm record"
	if _, forbidden := runRecorded("-touch", 2); forbidden != "" {
		b.addUnmeasured(what, forbidden)
		return
	}
	recorded := func(mode string, count int, factor float64) sampler {
		return func() float64 {
			nanoseconds, _ := runRecorded(mode, count)
			return nanoseconds * factor
		}
	}
	effort := &b.effort
	b.compare(comparison{what: what + ", by a call", unit: "us",
		ours: recorded("-touch", effort.accesses, 1e-3),
		others: []alternative{{"a stop of ptrace alone",
			func() float64 { return ptraceStopTime(effort.accesses) / 1e3 }}},
		goal: goal{ownNumber, 60}, rounds: effort.recordings,
		note: "loads and stores of 4 bytes in turn"})
	loop := comparison{what: what + ", in a loop", unit: "us",
		ours: recorded("-loop", 10*effort.accesses, 1e-3), rounds: effort.recordings,
		note: "150,000 a second take 6.667 us each"}
	if runtime.GOARCH == "amd64" { // on other architectures, each access is a stop
		loop.goal = goal{ownNumber, 1e6 / 150_000.}
	}
	b.compare(loop)
	b.compare(comparison{rounds: 1, what: "100 MB by memmove under lm record", unit: "s",
		ours: recorded("-fill", effort.copied, copySize/1e9), goal: goal{ownNumber, 20},
		note: "Go's, 1 MiB at a time"})
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

// tracedPrograms are what this program does while it is traced: each does something count times,
// such as an access to the bytes of a BAR.
var tracedPrograms = map[string]func(bar []byte, count int){
	"-touch": accessByCalls,
	"-loop":  accessInLoop,
	"-fill":  copyBytes,
	"-call":  makeSystemCalls,
}

// barName is the name of the file in memory that represents a BAR, and barSize its size.
const barName, barSize = "bench-bar", 1 << 20

// runTraced runs one of tracedPrograms and prints the nanoseconds of one access, byte or call.
func runTraced(mode, count string) {
	n := fail.Must(strconv.Atoi(count))
	bar := newMemory(barName, barSize)
	defer bar.close()
	began := time.Now()
	tracedPrograms[mode](bar.bytes, n)
	fmt.Println(float64(time.Since(began)) / float64(n))
}

// accessByCalls loads from a BAR and stores to it in turn, each by a function call.
func accessByCalls(bar []byte, count int) {
	window := hal.MappedAperture(bar, 0, pageSize, 0)
	for i := range count / 2 {
		at := uint32(4 * i % pageSize)
		v, _ := mock.LoadAt(&window, at, 4)
		mock.StoreAt(&window, at, 4, (v+1)&0xffffffff)
	}
}

// accessInLoop makes the same accesses directly in a loop.
func accessInLoop(bar []byte, count int) {
	words := unsafe.Slice((*uint32)(unsafe.Pointer(&bar[0])), pageSize/4)
	for i := range count / 2 {
		words[i%len(words)]++
	}
}

// copyBytes copies count bytes to a BAR.
func copyBytes(bar []byte, count int) {
	source := bytes.Repeat([]byte("weights "), len(bar)/8)
	for left := count; left > 0; left -= len(bar) {
		copy(bar, source[:min(left, len(bar))])
	}
}

func makeSystemCalls(_ []byte, count int) {
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
