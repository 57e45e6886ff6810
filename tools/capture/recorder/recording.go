//go:build linux && (amd64 || arm64)

package recorder

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Options say what is to be recorded.
type Options struct {
	Program []string      // its path or name, and its arguments
	Out     io.Writer     // gets the record; see synced.NewWriter
	Sync    time.Duration // interval at which the record is synced; 0: synced.Interval
	Devices []string      // DDDD:BB:DD.F or VVVV:DDDD; none: all that the program maps
	Files   []File        // files that stand for BARs

	HostMemory uint64  // bytes of it that are compared before each store; more is not followed
	Watch      []Range // of it: what a device writes there is seen at the program's loads
	// of it: what the program may store to only by the recorder while a device may write there
	Protect Protect
	Compare bool // the kernel is not asked which pages the program writes, as if it could not tell

	Limit uint64 // accesses after which the program is ended; 0: none
	// after what cannot be recorded the program goes on unrecorded; else it is ended
	GoOn      bool
	Progress  io.Writer // told now and then how far it is; may be nil
	Complaint io.Writer // gets what is not recorded, a line each
}

// Result is what became of a program.
type Result struct {
	Exit     int    // its exit status, or 128 and the signal that ended it
	Accesses uint64 // written down
	Gaps     int    // what could not be written down: the record is not whole
	Devices  int    // of which it mapped something
	Stopped  string // why the recorder ended the program; empty: it did not
}

// Failure is why a program was not run, or not recorded to its end.
type Failure struct {
	Kind   Kind
	Reason string
}

func (f *Failure) Error() string { return f.Reason }

// Kind is what a Failure is about.
type Kind uint8

const (
	Internal  Kind = iota
	NoProgram      // there is none of that name
	Forbidden      // the system does not let it be traced
	Output         // the record cannot be written
)

// recording is one run.
type recording struct {
	options *Options
	out     *writer
	main    int // process
	threads map[int]*thread
	early   map[int]bool // threads that stopped before their parents told of them
	devices []*device
	bars    []*bar
	hosts   hosts
	driven  []*driven
	unused  map[string]*unused // by the device's name
	opened  []opened
	// ways to files of devices, by what is not recorded, that have been named
	byCall   map[string]bool
	accesses uint64
	loadedAt uint64    // address of the last access to a BAR if it was a load, else 0
	told     time.Time // when progress was last printed
	result   Result
	ending   bool

	comparing    time.Duration // that comparing host memory took since then
	mappingsTold int           // of host memory, printed then
}

// Run runs a program to its end and writes the record. The record is whole
// where the error is nil and there are no gaps.
func Run(o Options) (Result, error) {
	runtime.LockOSThread() // one thread is the tracer
	defer runtime.UnlockOSThread()
	out := newWriter(o.Out, o.Sync)
	r := &recording{options: &o, out: out, threads: map[int]*thread{}, early: map[int]bool{},
		unused: map[string]*unused{}, byCall: map[string]bool{},
		told: time.Now()}
	if err := r.start(); err != nil {
		_ = out.close()
		return r.result, err
	}
	defer r.forward()()
	r.resume(r.threads[r.main], 0)
	r.loop()
	out.noteTimes()
	r.result.Accesses, r.result.Devices = r.accesses, len(r.devices)
	if err := out.close(); err != nil {
		return r.result, &Failure{Output, err.Error()}
	}
	return r.result, nil
}

// forward passes on what asks the recorder to end. A terminal sends SIGINT to
// the program too; the record is ended when the program has ended.
func (r *recording) forward() (stop func()) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	go func() {
		asked := 0
		for s := range signals {
			asked++
			if asked > 2 {
				s = unix.SIGKILL
			}
			if s != unix.SIGINT || asked > 1 {
				_ = unix.Kill(r.main, s.(unix.Signal))
			}
		}
	}()
	return func() { signal.Stop(signals); close(signals) }
}

func (r *recording) loop() {
	for len(r.threads) > 0 {
		tid, status, err := wait(-1)
		if err != nil {
			return
		}
		r.out.work()
		t := r.threads[tid]
		switch {
		case t == nil && status.Stopped():
			r.early[tid] = true
		case t == nil:
		case status.Stopped():
			r.stopped(t, status)
		default:
			r.ended(t, status)
		}
		r.progress()
		r.out.rest()
	}
}

// progress prints about once a second how far it is, and what takes long.
func (r *recording) progress() {
	since := time.Since(r.told)
	if r.options.Progress == nil || since < time.Second ||
		r.accesses == 0 && r.hosts.mappings == 0 {
		return
	}
	text := fmt.Sprintf("%d accesses recorded", r.accesses)
	if n := r.hosts.mappings; n != r.mappingsTold {
		r.mappingsTold = n
		text += fmt.Sprintf("; host memory mapped %d times (%d KiB now)", n, r.hosts.bytes>>10)
	}
	const much = 2 // the part of the time that is worth a word: one half
	if r.comparing*much > since {
		text += fmt.Sprintf("; comparing %d KiB of host memory before each store takes %d %% of "+
			"the time", r.hosts.bytes>>10,
			min(100*r.comparing/since, 100))
	}
	r.told, r.comparing = time.Now(), 0
	// which erases the rest of a longer line
	fmt.Fprintf(r.options.Progress, "\rlm: %s \x1b[K", text)
}

// gap writes down, and says, that something is missing in the record.
func (r *recording) gap(format string, a ...any) {
	r.result.Gaps++
	r.say("GAP ", fmt.Sprintf(format, a...))
}

// report writes down, and says, what the program did that is no access, or that
// the record does not have for a reason of the user's.
func (r *recording) report(format string, a ...any) {
	r.say("EVENT ", fmt.Sprintf(format, a...))
}

func (r *recording) say(kind, text string) {
	r.out.line("%s%s", kind, text)
	if r.options.Complaint != nil {
		fmt.Fprintln(r.options.Complaint, text)
	}
}

// end ends the program: all its processes.
func (r *recording) end(reason string) {
	if r.ending {
		return
	}
	r.ending, r.result.Stopped = true, reason
	for _, t := range r.threads {
		_ = unix.Kill(t.process, unix.SIGKILL)
	}
}
