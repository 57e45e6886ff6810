package main

import (
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
)

// frames runs one sequence again and again, with new data each time.
type frames struct {
	replay   *runtime.Replay
	sequence int
	before   int // -1: none
	after    int
	clock    hal.Device
	inputs   []stream
	outputs  []stream
	watchdog watchdog
}

// prepareFrames opens all that the runs need. The watchdog comes last: from
// then on there is no way back but a run or a reset.
func prepareFrames(r *runtime.Replay, o options, clock hal.Device) (f *frames, err error) {
	f = &frames{replay: r, before: -1, after: -1, clock: clock}
	for _, s := range [...]struct {
		name  string
		index *int
	}{{o.sequence, &f.sequence}, {o.before, &f.before}, {o.after, &f.after}} {
		if *s.index = r.View().SequenceByName(s.name); *s.index < 0 && (s.name != "" || s.index == &f.sequence) {
			return nil, bad("no sequence " + s.name + " in the image; it has " + sequences(r))
		}
	}
	if f.inputs, err = openStreams(r, o.inputs, gen.RoleInput, clock); err != nil {
		return nil, err
	}
	if f.outputs, err = openStreams(r, o.outputs, gen.RoleOutput, clock); err != nil {
		return nil, err
	}
	r.Limit(o.deadline)
	f.watchdog, err = openWatchdog(o.watchdog)
	return f, err
}

// loop runs until the count is reached (0: never), the inputs end, or a run
// fails.
func (f *frames) loop(count uint64) outcome {
	var end outcome
	if !f.run(f.before, &end) {
		return end
	}
	for count == 0 || end.runs < count {
		ended, err := receive(f.replay, f.inputs)
		if ended || err != nil {
			end.err = err
			break
		}
		began := f.clock.Now()
		if !f.run(f.sequence, &end) {
			return end
		}
		now := f.clock.Now()
		end.count(now - began)
		if end.err = send(f.replay, f.outputs, false); end.err != nil {
			break
		}
		release(f.inputs)
		f.watchdog.feed(now)
	}
	if end.err != nil || !f.run(f.after, &end) || !f.sound(&end) {
		return end
	}
	if end.runs > 0 {
		end.err = send(f.replay, f.outputs, true)
	}
	if end.err == nil {
		f.watchdog.stop()
	}
	return end
}

// run runs one sequence, if there is one.
func (f *frames) run(sequence int, end *outcome) bool {
	if sequence < 0 {
		return true
	}
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
	if safe := f.replay.View().SequenceByName("safe"); safe >= 0 {
		end.result.Safe, end.result.SafeRan = f.replay.Run(safe).Code, true
	}
	return false
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
