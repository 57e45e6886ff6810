package ttsim

// Runs on the simulator can end after an amount of real time: deadlines of polls count virtual
// time, and a millisecond of it may take seconds of real time.

import (
	"fmt"
	"sync/atomic"
	"time"

	"lightmetal/hal"
)

// safeTime is the real time during which accesses succeed after a run was stopped, for its sequence
// safe.
const safeTime = 10 * time.Second

// stopper contains the state that decides whether the next access of a device must fail.
type stopper struct {
	request atomic.Pointer[string] // reason for a stop, until the next access fails because of it
	reason  string                 // reason for the first stop; "" if there was none

	waitLimit time.Duration // largest real time of a wait for one address; 0: no limit
	waiting   time.Time     // time of the first load of the current wait; zero: no wait
	end       time.Time     // time from which every access fails; zero: never
}

// SetWaitLimit limits the real time of a wait: of consecutive loads of the same address, as a poll
// makes them. A load after this time fails with hal.FrameLate. If limit is 0, there is no limit.
func (d *Device) SetWaitLimit(limit time.Duration) { d.stop.waitLimit = limit }

// Stop makes the next access fail with hal.FrameLate. Refusal then returns the reason. Any
// goroutine may call Stop. Later accesses succeed for ten seconds, so that the sequence safe can
// run.
func (d *Device) Stop(reason string) { d.stop.request.Store(&reason) }

// stopped returns the code with which the next access must fail, or hal.OK.
func (d *Device) stopped() hal.Code {
	s := &d.stop
	if reason := s.request.Swap(nil); reason != nil {
		return s.fail(*reason)
	}
	if !s.end.IsZero() && time.Now().After(s.end) {
		return hal.FrameLate
	}
	return hal.OK
}

// late returns the code with which a load must fail because the wait takes too long, or hal.OK.
func (s *stopper) late() hal.Code {
	if !s.isLate() {
		return hal.OK
	}
	return s.fail(fmt.Sprintf("the run waited for more than %v of real time, the limit of "+
		"--wait-limit",
		s.waitLimit))
}

func (s *stopper) isLate() bool {
	return s.waitLimit > 0 && !s.waiting.IsZero() && time.Since(s.waiting) > s.waitLimit
}

// fail returns hal.FrameLate, and stores the reason for the first stop.
func (s *stopper) fail(reason string) hal.Code {
	if s.reason == "" {
		s.reason, s.end = reason, time.Now().Add(safeTime)
	}
	s.waiting = time.Time{}
	return hal.FrameLate
}

// isStopping reports whether the next access will fail. A Sleep then ends early.
func (d *Device) isStopping() bool {
	s := &d.stop
	return s.request.Load() != nil || s.isLate() || !s.end.IsZero() && time.Now().After(s.end)
}
