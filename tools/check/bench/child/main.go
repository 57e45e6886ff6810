// Command child is our side of the comparison: the runtime in a program without fmt and os, like
// those that ship, on plain memory that the bench shares. It answers the requests that
// tools/check/bench/c/serve.c lists, without checksums and ways, and two more:
//
//	load COUNT -> TIME           opens, verifies, loads and closes the image
//	read COUNT -> TIME           opens the image, which copies its envelope
package main

import (
	"strconv"
	"strings"
	"time"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/check/bench/plain"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

const memoryFD = 3 // file descriptor of the device's memory

// server is one loaded image.
type server struct {
	path   string
	memory []byte
	replay *runtime.Replay
}

func main() {
	words := args.CommandLine()
	runtime.DedicateProcess()
	if len(words) != 1 {
		failOn(&hal.Fault{Code: hal.Usage, Reason: "usage: child IMAGE"})
	}
	_, view := openVerified(words[0])
	c := &server{path: words[0]}
	c.memory = must(unix.Mmap(memoryFD, 0, int(plain.Size(view)), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED))
	c.replay = c.load(view)
	failOn(c.replay.Freeze())
	c.serve()
}

// failOn prints an error, if there is one, and ends the process.
func failOn(err error) {
	if err != nil {
		_, _ = hal.Write(2, []byte("child: "+err.Error()+"\n"))
		unix.Exit(max(hal.CodeOf(err).ExitStatus(), 1))
	}
}

func must[T any](value T, err error) T {
	failOn(err)
	return value
}

// printAll writes data to standard output.
func printAll(data []byte) {
	for len(data) > 0 {
		n, err := hal.Write(1, data)
		if err != unix.EINTR {
			failOn(err)
		}
		data = data[max(n, 0):]
	}
}

// answer prints numbers as a line.
func answer(numbers ...int64) {
	var line []byte
	for _, n := range numbers {
		line = append(strconv.AppendInt(line, n, 10), ' ')
	}
	printAll(append(line, '\n'))
}

func openVerified(path string) (*runtime.File, *fbs.View) {
	file := must(runtime.Open(path))
	return file, must(file.Verify())
}

func (c *server) load(view *fbs.View) *runtime.Replay {
	return must(runtime.Load(view, runtime.AnyTLBWindow, plain.Devices(view, c.memory)...))
}

// serve answers requests until its input ends. The bench sends one and waits for its answer.
func (c *server) serve() {
	var buffer [128]byte
	for {
		n, err := hal.Read(0, buffer[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			unix.Exit(0)
		}
		c.handleRequest(strings.Fields(string(buffer[:n])))
	}
}

func (c *server) handleRequest(words []string) {
	var n [3]int
	for i, word := range words[1:] {
		n[i], _ = strconv.Atoi(word)
	}
	switch words[0] {
	case "pin":
		var set unix.CPUSet
		set.Set(n[0])
		failOn(unix.SchedSetaffinity(0, &set))
		answer(0)
	case "run":
		var result runtime.Result
		began := now()
		for count := n[1]; count > 0 && result.Code == hal.OK; count-- {
			result = c.replay.Run(n[0])
		}
		answer(now()-began, int64(result.Code.ExitStatus()), int64(result.Command), 0,
			int64(result.IgnoredFailures))
	case "load":
		timeAll(n[0], func() {
			file, view := openVerified(c.path)
			failOn(c.load(view).Close())
			failOn(file.Close())
		})
	case "read":
		timeAll(n[0], func() { failOn(must(runtime.Open(c.path)).Close()) })
	case "frames":
		c.timeFrames(n[0], n[1], int64(n[2]))
	default:
		failOn(&hal.Fault{Code: hal.Usage, Reason: words[0]})
	}
}

// timeAll answers how long count calls take.
func timeAll(count int, call func()) {
	began := now()
	for range count {
		call()
	}
	answer(now() - began)
}

func (c *server) timeFrames(sequence, count int, period int64) {
	took := make([]int64, count)
	for i := range took {
		took[i] = -1 // makes every page present
	}
	var next unix.Timespec
	failOn(unix.ClockGettime(unix.CLOCK_MONOTONIC, &next))
	for i := range took {
		next = unix.NsecToTimespec(next.Nano() + period)
		sleepUntil(&next)
		began := now()
		result := c.replay.Run(sequence)
		took[i] = now() - began
		if result.Code != hal.OK {
			failOn(result.Code)
		}
	}
	answer(int64(count))
	printAll(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(took))), 8*count))
}

// sleepUntil makes a raw system call, as the runtime does after Freeze.
func sleepUntil(next *unix.Timespec) {
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC,
			unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(next)), 0, 0, 0)
		if errno != unix.EINTR {
			return
		}
	}
}

var startTime = time.Now()

// now returns the time of a monotonic clock in nanoseconds, without a system call.
func now() int64 { return int64(time.Since(startTime)) }
