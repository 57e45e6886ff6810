//go:build linux && (amd64 || arm64)

package recorder

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"time"

	"lightmetal/tools/image/english"
	"lightmetal/tools/image/fail"

	"golang.org/x/sys/unix"
)

// Options selects what is recorded and how.
type Options struct {
	Program []string      // path or name of the program, and its arguments
	Out     io.Writer     // receives the record; see synced.NewWriter
	Sync    time.Duration // interval at which the record is synced; 0: synced.Interval
	Devices []string      // DDDD:BB:DD.F or VVVV:DDDD; empty: all devices that the program maps
	Files   []File        // files that represent BARs or host memory

	// most bytes of host memory that are compared before each store to a BAR; a mapping that
	// exceeds the limit is not recorded
	HostMemoryLimit uint64
	// bus addresses of host memory at which each load of the program is checked for writes of a
	// device
	Watch []Range
	// host memory that is protected: the recorder makes the program's stores to it as long as a
	// device may write there
	Protect        Protect
	IgnoreTracking bool // do not use the kernel's record of which pages the program has written

	AccessLimit uint64 // number of accesses after which the program is killed; 0: no limit
	// After an access that cannot be recorded, the program continues without being recorded.
	// Otherwise it is killed.
	ContinueUnrecorded bool
	Marks              string    // file; each line in it becomes a MARK line; may be ""
	Notes              []string  // NOTE lines at the start of the record
	Progress           io.Writer // receives a progress line about once a second; may be nil
	Warnings           io.Writer // receives a line for each gap and event of the record; may be nil
}

// Result describes a finished run of a program.
type Result struct {
	// exit status of the program, or 128 plus the number of the signal that ended it
	ExitStatus int
	Accesses   uint64 // number of recorded accesses
	Gaps       int    // number of gaps: if it is not 0, the record is incomplete
	Devices    int    // number of devices of which the program mapped something
	KillReason string // reason why the recorder killed the program; "": it did not
}

// Failure is the error of Run: the program was not started, or was not recorded to its end.
type Failure struct {
	Kind   Kind
	Reason string
}

func (f *Failure) Error() string { return f.Reason }

// Kind is the cause of a Failure.
type Kind uint8

const (
	Internal  Kind = iota
	NoProgram      // no program has this name
	Forbidden      // the system does not permit tracing the program
	Output         // the record cannot be written
)

// recording is the state of one call of Run.
type recording struct {
	options *Options
	out     *writer
	mainPID int // process id of the program's first process
	threads map[int]*thread
	// threads that stopped before the stop of their parent announced them
	stoppedEarly    map[int]bool
	devices         []*device
	bars            []*bar
	hostMemory      hostMemory
	driverDevices   []*driverDevice
	unmappedDevices map[string]*unmappedDevice // by the name of the device
	vfioFDs         []vfioFD
	// sources of interrupts: eventfds by the kernel's number, and files of drivers by path
	eventSources  map[uint64]*interruptSource
	driverSources map[string]*interruptSource
	marks         markFile
	// Keys of the reports that are made only once, such as the path of a device file that system
	// calls access.
	reportedOnce map[string]bool
	accesses     uint64
	// address of the last access to a BAR if it was a load; 0 if it was a store
	lastLoadAddress uint64
	lastProgress    time.Time // time at which progress was last printed
	result          Result
	isKilled        bool

	compareTime     time.Duration // time spent on comparing host memory since lastProgress
	mappingsPrinted int           // number of host memory mappings at lastProgress
}

// Run runs a program to its end and writes the record. The record is complete if the error is nil
// and Result.Gaps is 0.
func Run(o Options) (Result, error) {
	runtime.LockOSThread() // one thread is the tracer
	defer runtime.UnlockOSThread()
	out := newWriter(o.Out, o.Sync)
	r := &recording{options: &o, out: out, threads: map[int]*thread{}, stoppedEarly: map[int]bool{},
		unmappedDevices: map[string]*unmappedDevice{}, reportedOnce: map[string]bool{},
		eventSources:  map[uint64]*interruptSource{},
		driverSources: map[string]*interruptSource{}, lastProgress: time.Now()}
	if o.Warnings != nil {
		out.file.OnError(func(err error) {
			fmt.Fprintln(o.Warnings, "the recording cannot be written:", err)
		})
	}
	for _, note := range o.Notes {
		out.Line("NOTE %s", note)
	}
	if err := r.startProgram(); err != nil {
		_ = out.close()
		return r.result, err
	}
	defer r.forwardSignals()()
	r.resume(r.threads[r.mainPID], 0)
	r.handleStops()
	r.readMarks()
	out.noteTimes()
	r.result.Accesses, r.result.Devices = r.accesses, len(r.devices)
	if err := out.close(); err != nil {
		return r.result, &Failure{Output, fail.Reason(err)}
	}
	return r.result, nil
}

// forwardSignals passes SIGINT, SIGTERM and SIGHUP of the recorder on to the program. It does not
// pass on the first SIGINT, because a terminal sends it to the program too. The record ends when
// the program has ended.
func (r *recording) forwardSignals() (stop func()) {
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
				_ = unix.Kill(r.mainPID, s.(unix.Signal))
			}
		}
	}()
	return func() { signal.Stop(signals); close(signals) }
}

func (r *recording) handleStops() {
	for len(r.threads) > 0 {
		tid, status, err := waitForStop(-1)
		if err != nil {
			return
		}
		r.out.beginStop()
		r.readMarks()
		t := r.threads[tid]
		switch {
		case t == nil && status.Stopped():
			r.stoppedEarly[tid] = true
		case t == nil:
		case status.Stopped():
			r.handleStop(t, status)
		default:
			r.handleThreadEnd(t, status)
		}
		r.printProgress()
		r.out.endStop()
	}
}

// printProgress prints about once a second how many accesses are recorded, and what takes long.
func (r *recording) printProgress() {
	since := time.Since(r.lastProgress)
	if r.options.Progress == nil || since < time.Second ||
		r.accesses == 0 && r.hostMemory.mappingCount == 0 {
		return
	}
	text := english.Count(r.accesses, "access") + " recorded"
	if n := r.hostMemory.mappingCount; n != r.mappingsPrinted {
		r.mappingsPrinted = n
		text += fmt.Sprintf("; host memory mapped %s (%d KiB now)", english.Count(n, "time"),
			r.hostMemory.bytes>>10)
	}
	const much = 2 // the comparison is mentioned if it takes at least 1/2 of the time
	if r.compareTime*much > since {
		text += fmt.Sprintf("; comparing %d KiB of host memory "+
			"before each store takes %d %% of the time", r.hostMemory.bytes>>10,
			min(100*r.compareTime/since, 100))
	}
	r.lastProgress, r.compareTime = time.Now(), 0
	// The escape sequence erases the rest of a longer line before.
	fmt.Fprintf(r.options.Progress, "\rlm: %s \x1b[K", text)
}

// reportGap writes a GAP line, which says what is missing in the record, and prints its text.
func (r *recording) reportGap(format string, a ...any) {
	r.result.Gaps++
	r.writeReport("GAP ", fmt.Sprintf(format, a...))
}

// reportEvent writes an EVENT line. It names something that the program did that is not an access,
// or that is not recorded because of the user's options.
func (r *recording) reportEvent(format string, a ...any) {
	r.writeReport("EVENT ", fmt.Sprintf(format, a...))
}

func (r *recording) writeReport(kind, text string) {
	r.out.Line("%s%s", kind, text)
	if r.options.Warnings != nil {
		fmt.Fprintln(r.options.Warnings, text)
	}
}

// killProgram kills all processes of the program.
func (r *recording) killProgram(reason string) {
	if r.isKilled {
		return
	}
	r.isKilled, r.result.KillReason = true, reason
	for _, t := range r.threads {
		_ = unix.Kill(t.process, unix.SIGKILL)
	}
}
