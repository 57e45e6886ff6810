package main

import (
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/runtime/report"
	"lightmetal/tools/lmrun/files"
)

// This file runs a sequence in a loop, with new data for each run. After prepareRuns has
// returned, the code allocates nothing and makes no system call that a seal forbids.

// frameLoop holds the sequences, limits and data streams of the runs of one invocation.
type frameLoop struct {
	replay         *runtime.Replay
	sequence       int           // index of the sequence that each run executes
	sequenceBefore int           // index of the sequence named by -before; -1: no such sequence
	sequenceAfter  int           // index of the sequence named by -after; -1: no such sequence
	clock          hal.Device    // the device whose Now method measures the duration of runs
	limitNs        int64         // time limit of one run, in nanoseconds; 0: no limit
	streams        []stream      // all inputs, followed by all outputs
	files          files.Outputs // the files and pipes that outputs are written to
	watchdog       watchdog
	sealed         bool // system calls that allocate, map or open are forbidden
}

// openStreams opens inputs, outputs and the watchdog. It must be called before the seal and
// before the first store to a device: a bad path then fails before anything has run. The
// watchdog is opened last: once it is open, it resets the machine unless runs complete.
func (f *frameLoop) openStreams(r *runtime.Replay, clock hal.Device) (err error) {
	defer f.recoverRingFault(&err)
	f.replay, f.clock = r, clock
	r.SetStopFlag(&stopping)
	for i := range f.streams {
		s := &f.streams[i]
		err = s.open(r)
		if s.file != nil {
			f.files = append(f.files, s.file)
		}
		if err != nil {
			return err
		}
	}
	return f.watchdog.start()
}

// runLoop executes all runs and finishes the outputs. A failure outside the commands, such as
// an input that cannot be read, also runs the sequence safe. A failure to write the final
// outputs does not, since all runs have completed by then.
func (f *frameLoop) runLoop(count uint64) (end outcome) {
	end.leastNs = 1<<63 - 1
	end.err = f.runFrames(count, &end)
	if end.err == nil {
		end.err = f.finishOutputs(end.runs)
		return end
	}
	if end.result.Code == hal.OK {
		f.runSafe(&end)
	}
	return end
}

// runSafe runs the sequence safe, if the image has one, after a failure that was not caused by
// a command. Replay.Run runs the sequence safe itself after a command has failed.
func (f *frameLoop) runSafe(end *outcome) {
	end.result.Code, end.result.Command = hal.CodeOf(end.err), -1
	if safe := f.replay.View().SequenceByName("safe"); safe >= 0 {
		f.replay.SetLimit(0)
		end.result.Safe, end.result.SafeRan = f.replay.Run(safe).Code, true
	}
}

// runFrames runs the sequence of -before, then the runs, then the sequence of -after. The runs
// end after count runs (0: no limit), at the end of the inputs, after a signal, or when a run
// fails.
func (f *frameLoop) runFrames(count uint64, end *outcome) error {
	err := f.runSequence(f.sequenceBefore, 0, end)
	ended := false
	for err == nil && !ended && (count == 0 || end.runs < count) && stopping.Load() == 0 {
		ended, err = f.runFrame(end)
	}
	if err == nil {
		err = f.runSequence(f.sequenceAfter, 0, end)
	}
	if err != nil {
		return err
	}
	// All commands can succeed although a DMA transfer of the device has failed. Therefore
	// the devices' error status is checked as well.
	code := f.replay.Diagnose()
	if code != hal.OK {
		err = hal.NewFault(code, "found after the last run")
	}
	return err
}

// runFrame receives the inputs of one run, runs the sequence, sends the outputs and feeds the
// watchdog. It returns ended as true, and runs nothing, if the inputs have ended.
func (f *frameLoop) runFrame(end *outcome) (ended bool, err error) {
	ended, err = f.receiveInputs()
	if ended && end.runs == 0 && stopping.Load() == 0 {
		err = hal.NewFault(hal.BadTensor, "the inputs ended before the first run")
	}
	if ended || err != nil {
		return ended, err
	}
	start := f.clock.Now()
	if err = f.runSequence(f.sequence, f.limitNs, end); err != nil {
		return false, err
	}
	now := f.clock.Now()
	end.countRun(now - start)
	if err = f.sendOutputs(); err == nil {
		f.watchdog.feed(now)
	}
	return false, err
}

// countRun adds a completed run and its duration to the outcome.
func (end *outcome) countRun(durationNs int64) {
	end.runs++
	end.totalNs += durationNs
	end.leastNs = min(end.leastNs, durationNs)
	end.mostNs = max(end.mostNs, durationNs)
}

// runSequence runs the sequence with the given index for at most limitNs nanoseconds (0: no
// limit) and stores its result in end. It does nothing if the index is -1.
func (f *frameLoop) runSequence(sequence int, limitNs int64, end *outcome) error {
	if sequence < 0 {
		return nil
	}
	f.replay.SetLimit(limitNs)
	end.result = f.replay.Run(sequence)
	switch code := end.result.Code; code {
	case hal.OK:
		return nil
	case hal.InputMissing:
		return hal.NewFault(code, "an input has no default data; bind it with -input NAME=FILE")
	default:
		text := report.AppendFailure(nil, f.replay.View(), &end.result)
		return hal.NewFault(code, string(text))
	}
}

// recoverRingFault must be called by defer. It turns a memory fault in a ring into an error that
// names the ring's file. Any other panic becomes an internal error with the text of the panic.
// The process therefore continues, and runs the sequence safe.
func (f *frameLoop) recoverRingFault(err *error) {
	problem := recover()
	if problem == nil {
		return
	}
	*err = hal.NewFault(hal.Internal, problem.(error).Error())
	fault, ok := problem.(interface{ Addr() uintptr })
	if !ok {
		return
	}
	for i := range f.streams {
		if r := f.streams[i].ring; r != nil && r.contains(fault.Addr()) {
			const reason = ": cannot access the ring's memory; was the file truncated?"
			*err = hal.NewFault(hal.IO, r.path+reason)
		}
	}
}
