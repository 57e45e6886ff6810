// Command child is our side of the ratios: the runtime in a program like those
// of a target, without fmt and os, on plain memory that the bench shares. It
// answers the same requests as tools/check/bench/c/serve.c, which lists them, but that
// WAY is a limit on the time of each run in hours, 0: none; and two more:
//
//	read COUNT -> NS             opens the image, which copies its envelope
//	heap    -> OBJECTS CYCLES    allocated, and of the collector, since the start
package main

import (
	goruntime "runtime"
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

const memoryFile = 3 // the file descriptor of the device's memory

func main() {
	words := args.CommandLine()
	runtime.DedicateProcess()
	if len(words) != 2 {
		end(&hal.Fault{Code: hal.Usage, Reason: "child serve|once IMAGE"})
	}
	c := open(words[1])
	check(c.replay.Freeze())
	if words[0] == "once" {
		unix.Exit(c.replay.Run(0).Code.ExitStatus())
	}
	c.serve()
}

// child is one image, loaded.
type child struct {
	path   string
	file   *runtime.File
	memory []byte
	replay *runtime.Replay
}

// end is how a child that cannot go on ends.
func end(err error) {
	say(2, "child: "+err.Error()+"\n")
	unix.Exit(max(hal.CodeOf(err).ExitStatus(), 1))
}

func check(err error) {
	if err != nil {
		end(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func say(fd int, text string) {
	for data := []byte(text); len(data) > 0; {
		n, err := hal.Write(fd, data)
		if err != nil && err != unix.EINTR {
			return
		}
		data = data[max(n, 0):]
	}
}

func open(path string) *child {
	c := &child{path: path}
	file, view := verified(path)
	c.file = file
	c.memory = must(unix.Mmap(memoryFile, 0, int(plain.Size(view)), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED))
	c.replay = c.load(view)
	return c
}

func verified(path string) (*runtime.File, *fbs.View) {
	file := must(runtime.Open(path))
	return file, must(file.Verify())
}

func (c *child) load(view *fbs.View) *runtime.Replay {
	return must(runtime.Load(view, runtime.AnyTLBWindow, plain.Devices(view, c.memory)...))
}

// serve answers requests until there are no more.
func (c *child) serve() {
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
		c.answer(strings.Fields(string(buffer[:n])))
	}
}

func (c *child) answer(words []string) {
	var n [3]int
	for i, word := range words[1:] {
		n[i], _ = strconv.Atoi(word)
	}
	switch words[0] {
	case "pin":
		var set unix.CPUSet
		set.Set(n[0])
		check(unix.SchedSetaffinity(0, &set))
		say(1, "0\n")
	case "run":
		c.replay.SetLimit(int64(n[2]) * int64(time.Hour))
		c.run(n[0], n[1])
	case "load":
		c.reload(n[0])
	case "hash":
		c.read(n[0], func(data []byte) { fbs.Checksum(data) })
	case "read":
		c.read(n[0], func([]byte) {})
	case "heap":
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		say(1, number(int64(m.Mallocs))+" "+number(int64(m.NumGC))+"\n")
	case "frames":
		c.frames(n[0], n[1], int64(n[2]))
	default:
		end(&hal.Fault{Code: hal.Usage, Reason: words[0]})
	}
}

func (c *child) run(sequence, count int) {
	var result runtime.Result
	began := now()
	for ; count > 0 && result.Code == hal.OK; count-- {
		result = c.replay.Run(sequence)
	}
	took := now() - began
	text := number(took)
	for _, n := range []int64{int64(result.Code.ExitStatus()), int64(result.Command),
		int64(c.outputs()),
		int64(result.IgnoredFailures)} {
		text += " " + number(n)
	}
	say(1, text+"\n")
}

// outputs is the checksum of all outputs one after another.
func (c *child) outputs() uint32 {
	var all []byte
	view := c.replay.View()
	for i := range view.Tensors {
		if view.Tensors[i].Role == gen.RoleOutput {
			all = append(all, c.replay.Output(i)...)
		}
	}
	return fbs.Checksum(all)
}

func (c *child) reload(count int) {
	began := now()
	for range count {
		file, view := verified(c.path)
		check(c.load(view).Close())
		check(file.Close())
	}
	say(1, number(now()-began)+"\n")
}

// read opens the file, which copies its envelope, and has it looked at.
func (c *child) read(count int, look func(data []byte)) {
	began := now()
	for range count {
		file := must(runtime.Open(c.path))
		look(file.Bytes())
		check(file.Close())
	}
	say(1, number(now()-began)+"\n")
}

func (c *child) frames(sequence, count int, period int64) {
	took := make([]int64, count)
	for i := range took {
		took[i] = -1 // every page present
	}
	var next unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &next))
	for i := range took {
		next = unix.NsecToTimespec(next.Nano() + period)
		sleepUntil(&next)
		began := now()
		result := c.replay.Run(sequence)
		took[i] = now() - began
		if result.Code != hal.OK {
			end(result.Code)
		}
	}
	say(1, number(int64(count))+"\n")
	say(1, unsafe.String((*byte)(unsafe.Pointer(unsafe.SliceData(took))), 8*count))
}

// sleepUntil is a raw system call, as all behind Freeze.
func sleepUntil(next *unix.Timespec) {
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC,
			unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(next)), 0, 0, 0)
		if errno != unix.EINTR {
			return
		}
	}
}

var opened = time.Now()

// now is a monotonic clock in nanoseconds, without a system call.
func now() int64 { return int64(time.Since(opened)) }

func number(n int64) string { return strconv.FormatInt(n, 10) }
