package ttsim

// This file ends runs on the simulator by real time. Deadlines of polls count virtual time, of
// which a millisecond may take seconds.

import (
	"fmt"
	"sync/atomic"
	"time"

	"lightmetal/hal"
)

// safeTime is the real time that accesses may take after a run was stopped: those of its sequence
// safe.
const safeTime = 10 * time.Second

// stopper decides whether the next access of a device fails.
type stopper struct {
	request atomic.Pointer[string] // reason of a stop that no access has met yet
	reason  string                 // why an access was stopped, empty if none was

	waitLimit time.Duration // real time that a program may wait for one place, 0: no limit
	waiting   time.Time     // when the first load of that place was
	end       time.Time     // when every access fails, zero: never
}

// SetWaitLimit limits the real time between the first and the last of loads of one place, with no
// other access between them, as polls make them. An access after that fails with hal.FrameLate. 0
// is no limit.
func (d *Device) SetWaitLimit(limit time.Duration) { d.stop.waitLimit = limit }

// Stop makes the next access fail with hal.FrameLate. Refusal then returns the reason. Any
// goroutine may call Stop. Accesses after that one succeed for ten seconds, so that a sequence safe
// can run.
func (d *Device) Stop(reason string) { d.stop.request.Store(&reason) }

// stopped returns hal.OK, or the code with which an access fails.
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

// late returns hal.OK, or the code with which a load fails if the program has waited for too long.
func (s *stopper) late() hal.Code {
	if !s.isLate() {
		return hal.OK
	}
	return s.fail(fmt.Sprintf("it waited for more than %v of real time", s.waitLimit))
}

// isLate reports whether the program has waited for one place for too long.
func (s *stopper) isLate() bool {
	return s.waitLimit > 0 && !s.waiting.IsZero() && time.Since(s.waiting) > s.waitLimit
}

// fail notes the reason of the first stop.
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
