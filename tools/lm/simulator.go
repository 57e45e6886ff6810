package main

// Supervision of a replay: a signal ends its runs. On a simulator, where a wait of milliseconds may
// take minutes, a terminal also shows what the replay waits for.

import (
	"fmt"
	"sync/atomic"
	"time"

	"lightmetal/fbs"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/devices/ttsim"
	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

// simulators returns the devices of a session that are simulated by the vendor's library.
func (s *session) simulators() (list []*ttsim.Device) {
	for _, device := range s.devices {
		if d, ok := device.(*ttsim.Device); ok {
			list = append(list, d)
		}
	}
	return list
}

// stopRequest is the request of a signal to end the runs of a replay early. Another goroutine makes
// the request, so the fields are atomic.
type stopRequest struct {
	signal    atomic.Pointer[string] // name of the signal; set before requested
	requested atomic.Uint32          // not 0: start no further run; the runtime reads it in a run
}

// signalName returns the name of the signal that requested the end, and "" if no signal did.
func (r *stopRequest) signalName() string {
	if r.requested.Load() == 0 {
		return ""
	}
	return *r.signal.Load()
}

// supervise lets a signal end the runs of a session. Until the caller calls releaseSignals, the
// first signal does not end the process: a signal after the last run must not prevent the writing
// of the outputs. On simulators, the limit of real time ends a run, too, and a terminal shows the
// waits, until the caller calls hideWaits.
func (f *replayFlags) supervise(s *session) (hideWaits, releaseSignals func()) {
	devices := s.simulators()
	for _, d := range devices {
		d.SetWaitLimit(f.waitLimit)
	}
	s.replay.SetStopFlag(&s.stop.requested)
	pending.handleNext(func(got unix.Signal) {
		name := unix.SignalName(got)
		s.stop.signal.Store(&name)
		s.stop.requested.Store(1)
		for _, d := range devices {
			d.Stop(name + " ended the run")
		}
		time.AfterFunc(mockGrace, s.haltMocks)
	})
	hideWaits = func() {}
	if len(devices) > 0 {
		hideWaits = s.showWaits()
	}
	return hideWaits, func() { pending.handler.Store(nil) }
}

// mockGrace is the real time that the run on a mock may still take after a signal. The runtime's
// own limit counts virtual time, of which the cores of a mock may take hours.
const mockGrace = time.Second

// haltMocks halts the processors of all mocks, so that the current run soon reaches a deadline.
func (s *session) haltMocks() {
	for _, device := range s.devices {
		if d, ok := device.(mock.Halter); ok {
			d.Halt()
		}
	}
}

// showInterval is the time between two updates of what a terminal shows.
const showInterval = time.Second

// showWaits shows on a terminal each command that takes more than showInterval of real time.
func (s *session) showWaits() (hide func()) {
	if !onTerminal() || s.profiler != nil {
		return func() {}
	}
	var current, count atomic.Int64
	s.replay.SetObserver(func(command int) {
		current.Store(int64(command))
		count.Add(1)
	})
	ticker, done, ended := time.NewTicker(showInterval), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var line waitLine
		for {
			select {
			case <-done:
				line.clear()
				return
			case <-ticker.C:
				line.update(s.view, int(current.Load()), count.Load())
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
		<-ended
	}
}

// waitLine is the line of a terminal that shows a wait.
type waitLine struct {
	executed int64 // number of commands at the last update
	since    time.Time
	shown    bool
}

// update shows the current command if it has not changed since the last update. executed is the
// number of commands that have begun, of all runs.
func (l *waitLine) update(view *fbs.View, command int, executed int64) {
	if executed == 0 {
		return
	}
	if executed != l.executed {
		l.executed, l.since = executed, time.Now()
		l.clear()
		return
	}
	where := failureText(view, &runtime.Result{Command: int32(command)})
	text := fmt.Sprintf("%s: has waited for %v", where, time.Since(l.since).Round(time.Second))
	if most := terminalColumns() - 1; len(text) > most {
		text = text[:most]
	}
	fmt.Fprintf(stderr.file, "\r%s\x1b[K", files.OneLine(text))
	l.shown = true
}

func (l *waitLine) clear() {
	if l.shown {
		fmt.Fprint(stderr.file, "\r\x1b[K")
		l.shown = false
	}
}

// terminalColumns returns the width of lines on standard error, which is a terminal.
func terminalColumns() int {
	if stderr.screen == nil {
		return columnsMax
	}
	return stderr.screen.columns
}
