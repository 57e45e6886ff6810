package main

import (
	"runtime/debug"
	"strings"
	"sync/atomic"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/files"

	"golang.org/x/sys/unix"
)

// frames runs one sequence again and again, with new data each time.
type frames struct {
	replay   *runtime.Replay
	sequence int
	before   int // -1: none
	after    int // the same
	clock    hal.Device
	limit    int64 // of a run, in nanoseconds; 0: none
	inputs   []stream
	outputs  []stream
	files    files.Outputs // of the outputs, nil for a ring
	watchdog watchdog
	sealed   bool
}

// check holds the names in the options against the image, before a device is
// opened for it.
func check(view *fbs.View, o options) error {
	for _, name := range [...]string{o.sequence, o.before, o.after} {
		if name != "" && view.SequenceByName(name) < 0 {
			return bad("no sequence " + name + " in the image; it has " + sequences(view))
		}
	}
	for i, b := range o.inputs {
		if _, err := tensor(view, b, gen.RoleInput); err != nil {
			return err
		}
		for _, other := range o.inputs[:i] {
			if b.name == other.name {
				return bad("-input " + b.name + " is given twice")
			}
		}
	}
	for _, b := range o.outputs {
		if _, err := tensor(view, b, gen.RoleOutput); err != nil {
			return err
		}
	}
	if _, _, err := parseWatchdog(o.watchdog); err != nil {
		return err
	}
	return files.Distinct(paths(o.outputs), append(paths(o.inputs), o.image, o.key)...)
}

func paths(bindings []binding) (list []string) {
	for _, b := range bindings {
		list = append(list, strings.TrimPrefix(b.path, ringPrefix))
	}
	return list
}

// prepareFrames opens all that the runs need, for options that check has passed.
// The watchdog comes last: from then on there is no way back but a run or a reset.
func prepareFrames(r *runtime.Replay, o options, clock hal.Device) (f *frames, err error) {
	view := r.View()
	f = &frames{replay: r, clock: clock, limit: o.deadline,
		sequence: view.SequenceByName(o.sequence), before: view.SequenceByName(o.before), after: view.SequenceByName(o.after)}
	if f.inputs, err = openStreams(r, o.inputs, gen.RoleInput); err == nil {
		f.outputs, err = openStreams(r, o.outputs, gen.RoleOutput)
	}
	for i := range f.outputs {
		f.files = append(f.files, f.outputs[i].file)
	}
	if err == nil {
		f.watchdog, err = openWatchdog(o.watchdog)
	}
	return f, err
}

// stopping is set by a signal: the run that goes on is the last.
var stopping atomic.Bool

// stopOnSignal makes SIGTERM and SIGINT end the runs in order. A second one
// ends the process.
func stopOnSignal() {
	signals := listen(unix.SIGTERM, unix.SIGINT)
	go func() {
		<-signals
		stopping.Store(true)
		unix.Exit(128 + int(<-signals))
	}()
}

// loop runs until the count is reached (0: never), the inputs end, a signal
// comes or a run fails.
func (f *frames) loop(count uint64) (end outcome) {
	if !f.run(f.before, 0, &end) {
		return end
	}
	for (count == 0 || end.runs < count) && !stopping.Load() {
		ended, err := f.receive()
		if ended && end.runs == 0 && !stopping.Load() {
			err = &hal.Fault{Code: hal.BadTensor, Reason: "the inputs ended before the first run"}
		}
		if ended || err != nil {
			end.err = err
			break
		}
		began := f.clock.Now()
		if !f.run(f.sequence, f.limit, &end) {
			return end
		}
		now := f.clock.Now()
		end.count(now - began)
		if end.err = f.send(false); end.err != nil {
			break
		}
		release(f.inputs)
		f.watchdog.feed(now)
	}
	if end.err != nil {
		f.safe(&end)
		return end
	}
	if f.run(f.after, 0, &end) && f.sound(&end) && end.runs > 0 {
		if end.err = f.send(true); end.err == nil {
			end.err = f.files.Commit()
		}
	}
	return end
}

// receive and send survive a ring whose file was cut short.
func (f *frames) receive() (ended bool, err error) {
	defer vanished(debug.SetPanicOnFault(true), &err)
	return receive(f.replay, f.inputs)
}

func (f *frames) send(atEnd bool) (err error) {
	defer vanished(debug.SetPanicOnFault(true), &err)
	return send(f.replay, f.outputs, atEnd)
}

func vanished(panics bool, err *error) {
	debug.SetPanicOnFault(panics)
	if recover() != nil {
		*err = &hal.Fault{Code: hal.IO, Reason: "the memory of a ring is gone: was its file cut short?"}
	}
}

// run runs one sequence, if there is one, for so many nanoseconds at most (0:
// as long as it takes).
func (f *frames) run(sequence int, limit int64, end *outcome) bool {
	if sequence < 0 {
		return true
	}
	f.replay.Limit(limit)
	end.result = f.replay.Run(sequence)
	if end.result.Code == hal.OK {
		return true
	}
	end.place = place(f.replay, end.result.Command)
	return false
}

// sound asks the devices whether all went well that no command looked at: a
// device may go on as if its DMA had reached memory.
func (f *frames) sound(end *outcome) bool {
	code := f.replay.Diagnose()
	if code == hal.OK {
		return true
	}
	end.result, end.place = runtime.Result{Code: code, Command: -1}, "after the last run"
	f.safe(end)
	return false
}

// safe brings the devices to rest after a failure that was no command's.
func (f *frames) safe(end *outcome) {
	if safe := f.replay.View().SequenceByName("safe"); safe >= 0 {
		f.replay.Limit(0)
		end.result.Safe, end.result.SafeRan = f.replay.Run(safe).Code, true
	}
}

// count adds a run that took so many nanoseconds.
func (end *outcome) count(took int64) {
	if end.runs == 0 {
		end.least = took
	}
	end.runs++
	end.total += took
	end.least, end.most = min(end.least, took), max(end.most, took)
}
