package main

import (
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/files"
	"lightmetal/tools/lmrun/args"
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
func check(view *fbs.View, o args.Options) error {
	for _, name := range [...]string{o.Sequence, o.Before, o.After} {
		if name != "" && view.SequenceByName(name) < 0 {
			return args.Bad("no sequence " + name + " in the image; it has " + sequences(view))
		}
	}
	for i, b := range o.Inputs {
		if _, err := tensor(view, b, gen.RoleInput); err != nil {
			return err
		}
		for _, other := range o.Inputs[:i] {
			if b.Name == other.Name {
				return args.Bad("-input " + b.Name + " is given twice")
			}
		}
	}
	for _, b := range o.Outputs {
		if _, err := tensor(view, b, gen.RoleOutput); err != nil {
			return err
		}
	}
	view.AllowedUs = uint64(o.Longest) / 1000
	if _, _, err := parseWatchdog(o.Watchdog); err != nil {
		return err
	}
	if err := runtime.CheckTime(view); err != nil {
		return err
	}
	return files.Distinct(paths(o.Outputs), append(paths(o.Inputs), o.Image, o.Key)...)
}

func paths(bindings []args.Binding) (list []string) {
	for _, b := range bindings {
		list = append(list, strings.TrimPrefix(b.Path, ringPrefix))
	}
	return list
}

// prepareFrames opens all that the runs need, for options that check has passed.
// The watchdog comes last: from then on there is no way back but a run or a reset.
func prepareFrames(r *runtime.Replay, o args.Options, clock hal.Device) (f *frames, err error) {
	view := r.View()
	f = &frames{replay: r, clock: clock, limit: o.Deadline,
		sequence: view.SequenceByName(o.Sequence), before: view.SequenceByName(o.Before), after: view.SequenceByName(o.After)}
	if f.inputs, err = openStreams(r, o.Inputs, gen.RoleInput); err == nil {
		f.outputs, err = openStreams(r, o.Outputs, gen.RoleOutput)
	}
	for i := range f.outputs {
		f.files = append(f.files, f.outputs[i].file)
	}
	if err == nil {
		f.watchdog, err = openWatchdog(o.Watchdog)
	}
	return f, err
}

// loop runs until the count is reached (0: never), the inputs end, a signal
// comes or a run fails.
func (f *frames) loop(count uint64) (end outcome) {
	if !f.run(f.before, 0, &end) {
		return end
	}
	for (count == 0 || end.runs < count) && stopping.Load() == 0 {
		ended, err := f.receive()
		if ended && end.runs == 0 && stopping.Load() == 0 {
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
		if end.err = f.deliver(); end.err != nil {
			break
		}
		f.watchdog.feed(now)
	}
	if end.err != nil {
		f.safe(&end)
		return end
	}
	if f.run(f.after, 0, &end) && f.sound(&end) && end.runs > 0 {
		if end.err = f.finish(); end.err == nil {
			end.err = f.files.Commit()
		}
	}
	return end
}

// receive, deliver and finish survive a ring whose file is cut short.
func (f *frames) receive() (ended bool, err error) {
	defer vanished(&err)
	return receive(f.replay, f.inputs)
}

// deliver gives the results of a run, and its inputs back.
func (f *frames) deliver() (err error) {
	defer vanished(&err)
	if err = send(f.replay, f.outputs, false); err == nil {
		release(f.inputs)
	}
	return err
}

func (f *frames) finish() (err error) {
	defer vanished(&err)
	return send(f.replay, f.outputs, true)
}

// vanished, deferred, gives an error instead of a bus error.
func vanished(err *error) {
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
