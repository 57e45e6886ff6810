package main

// This file supervises a replay on a simulator, where a wait of milliseconds may take minutes: it
// shows what the replay waits for, and ends the replay on a signal.

import (
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"lightmetal/fbs"
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

// supervise lets a signal or the limit of real time end the runs of a session on simulators, and
// shows their waits on a terminal, until stop is called.
func (f *replayFlags) supervise(s *session) (stop func()) {
	devices := s.simulators()
	if len(devices) == 0 {
		return func() {}
	}
	for _, d := range devices {
		d.SetWaitLimit(f.waitLimit)
	}
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go stopOnSignal(devices, signals, done)
	hide := s.showWaits()
	return func() {
		signal.Stop(signals)
		close(done)
		hide()
	}
}

// stopOnSignal stops devices when the first signal arrives. A second one ends the process.
func stopOnSignal(devices []*ttsim.Device, signals chan os.Signal, done chan struct{}) {
	select {
	case <-done:
	case got := <-signals:
		signal.Stop(signals)
		for _, d := range devices {
			d.Stop(unix.SignalName(got.(syscall.Signal)) + " ended it")
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
	executed int64 // commands, when the line was last updated
	since    time.Time
	shown    bool
}

// update shows the current command, if it has been that since the last update. executed is the
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
	text := fmt.Sprintf("%s: waiting for %v", where, time.Since(l.since).Round(time.Second))
	if most := terminalColumns() - 1; len(text) > most {
		text = text[:most]
	}
	fmt.Fprintf(stderr.to, "\r%s\x1b[K", files.OneLine(text))
	l.shown = true
}

// clear removes the line.
func (l *waitLine) clear() {
	if l.shown {
		fmt.Fprint(stderr.to, "\r\x1b[K")
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
