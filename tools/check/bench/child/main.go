// Command child is our side of the comparison: the runtime in a program without fmt and os, like
// those that ship, on plain memory that the bench shares. It answers the requests that
// tools/check/bench/c/serve.c lists, except that WAY is a limit on the time of each run in hours
// (0: none). It has two more requests:
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
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/check/bench/plain"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

const memoryFD = 3 // file descriptor of the device's memory

func main() {
	words := args.CommandLine()
	runtime.DedicateProcess()
	if len(words) != 1 {
		exitWith(&hal.Fault{Code: hal.Usage, Reason: "usage: child IMAGE"})
	}
	c := openImage(words[0])
	exitOnError(c.replay.Freeze())
	c.serve()
}

// server is one loaded image.
type server struct {
	path   string
	file   *runtime.File
	memory []byte
	view   *fbs.View
	replay *runtime.Replay
}

// exitWith prints an error and ends the process.
func exitWith(err error) {
	printTo(2, "child: "+err.Error()+"\n")
	unix.Exit(max(hal.CodeOf(err).ExitStatus(), 1))
}

func exitOnError(err error) {
	if err != nil {
		exitWith(err)
	}
}

func must[T any](value T, err error) T {
	exitOnError(err)
	return value
}

func printTo(fd int, text string) {
	for data := []byte(text); len(data) > 0; {
		n, err := hal.Write(fd, data)
		if err != nil && err != unix.EINTR {
			return
		}
		data = data[max(n, 0):]
	}
}

func openImage(path string) *server {
	c := &server{path: path}
	file, view := openVerified(path)
	c.file = file
	c.memory = must(unix.Mmap(memoryFD, 0, int(plain.Size(view)), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED))
	c.view, c.replay = view, c.load(view)
	return c
}

func openVerified(path string) (*runtime.File, *fbs.View) {
	file := must(runtime.Open(path))
	return file, must(file.Verify())
}

func (c *server) load(view *fbs.View) *runtime.Replay {
	return must(runtime.Load(view, runtime.AnyTLBWindow, plain.Devices(view, c.memory)...))
}

// serve answers requests until its input ends.
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
		// The bench sends one request and waits for its answer.
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
		exitOnError(unix.SchedSetaffinity(0, &set))
		printTo(1, "0\n")
	case "run":
		c.replay.SetLimit(int64(n[2]) * int64(time.Hour))
		c.timeRuns(n[0], n[1])
	case "load":
		c.timeLoads(n[0])
	case "hash":
		c.timeReads(n[0], func(data []byte) { fbs.Checksum(data) })
	case "read":
		c.timeReads(n[0], func([]byte) {})
	case "frames":
		c.timeFrames(n[0], n[1], int64(n[2]))
	default:
		exitWith(&hal.Fault{Code: hal.Usage, Reason: words[0]})
	}
}

func (c *server) timeRuns(sequence, count int) {
	var result runtime.Result
	began := now()
	for ; count > 0 && result.Code == hal.OK; count-- {
		result = c.replay.Run(sequence)
	}
	took := now() - began
	text := decimal(took)
	for _, n := range []int64{int64(result.Code.ExitStatus()), int64(result.Command),
		int64(c.outputsChecksum()),
		int64(result.IgnoredFailures)} {
		text += " " + decimal(n)
	}
	printTo(1, text+"\n")
}

// outputsChecksum returns the checksum of all outputs, one after another.
func (c *server) outputsChecksum() uint32 {
	var all []byte
	view := c.view
	for i := range view.Tensors {
		if view.Tensors[i].Role == gen.RoleOutput {
			all = append(all, c.replay.Output(i)...)
		}
	}
	return fbs.Checksum(all)
}

func (c *server) timeLoads(count int) {
	began := now()
	for range count {
		file, view := openVerified(c.path)
		exitOnError(c.load(view).Close())
		exitOnError(file.Close())
	}
	printTo(1, decimal(now()-began)+"\n")
}

// timeReads opens the file, which copies its envelope, and calls inspect with its bytes.
func (c *server) timeReads(count int, inspect func(data []byte)) {
	began := now()
	for range count {
		file := must(runtime.Open(c.path))
		inspect(file.Bytes())
		exitOnError(file.Close())
	}
	printTo(1, decimal(now()-began)+"\n")
}

func (c *server) timeFrames(sequence, count int, period int64) {
	took := make([]int64, count)
	for i := range took {
		took[i] = -1 // makes every page present
	}
	var next unix.Timespec
	exitOnError(unix.ClockGettime(unix.CLOCK_MONOTONIC, &next))
	for i := range took {
		next = unix.NsecToTimespec(next.Nano() + period)
		sleepUntil(&next)
		began := now()
		result := c.replay.Run(sequence)
		took[i] = now() - began
		if result.Code != hal.OK {
			exitWith(result.Code)
		}
	}
	printTo(1, decimal(int64(count))+"\n")
	printTo(1, unsafe.String((*byte)(unsafe.Pointer(unsafe.SliceData(took))), 8*count))
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

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
