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
	clock    hal.Device
	inputs   []stream
	outputs  []stream
	watchdog watchdog
}

// prepareFrames opens all that the runs need. The watchdog comes last: from
// then on there is no way back but a run or a reset.
func prepareFrames(r *runtime.Replay, o options, clock hal.Device) (f *frames, err error) {
	f = &frames{replay: r, sequence: r.View().SequenceByName(o.sequence), clock: clock}
	if f.sequence < 0 {
		return nil, bad("no sequence " + o.sequence + " in the image; it has " + sequences(r))
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
	for count == 0 || end.runs < count {
		ended, err := receive(f.replay, f.inputs)
		if ended || err != nil {
			end.err = err
			break
		}
		began := f.clock.Now()
		end.result = f.replay.Run(f.sequence)
		now := f.clock.Now()
		if end.result.Code != hal.OK {
			end.place = place(f.replay, end.result.Command)
			return end
		}
		end.count(now - began)
		if end.err = send(f.replay, f.outputs, false); end.err != nil {
			break
		}
		release(f.inputs)
		f.watchdog.feed(now)
	}
	if end.err == nil && end.runs > 0 {
		end.err = send(f.replay, f.outputs, true)
	}
	if end.err == nil {
		f.watchdog.stop()
	}
	return end
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
