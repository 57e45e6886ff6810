//go:build world

package main

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// maxSteadyLoads is more than the number of loads of a poll whose pauses become longer.
const maxSteadyLoads = 2000

// runPoll checks the times of a poll's loads: that no pause is too long or too short, and that one
// load follows the deadline, no matter how late.
func (m *model) runPoll(do func(access) hal.Code, c *fbs.Command, a access) hal.Code {
	began := m.w.now
	deadline := began + int64(c.Amount)*1000
	for loads := 0; ; loads++ {
		before := m.w.now
		if code := do(a); code != hal.OK {
			return code
		}
		pause, most := m.arrivalTime-before, max(int64(c.Index)*1000, (before-began)/32)
		late := m.deadline != 0 && m.arrivalTime > m.deadline
		switch {
		case pause > most+m.w.clockJump || loads > maxSteadyLoads && c.Index == 0:
			m.w.errorf("load %d of a poll came %d ns after the previous load, allowed are %d ns",
				loads, pause, most)
		case pause < int64(c.Index)*1000 && m.arrivalTime < deadline && !late:
			m.w.errorf("load %d of a poll came only %d ns after the previous load", loads, pause)
		}
		m.w.clockJump = 0
		switch {
		case m.isLoadLost(c):
			return hal.DeviceGone
		case m.isConditionMet(c):
			return hal.OK
		case late:
			return m.failExpect(c, hal.FrameLate)
		case m.arrivalTime >= deadline:
			return m.failExpect(c, hal.DeadlinePassed)
		}
	}
}

func (m *model) applyPolicy(c *fbs.Command, code hal.Code) hal.Code {
	switch code {
	case hal.DeadlinePassed, hal.ExpectFailed, hal.CompareFailed, hal.FrameLate:
	default:
		return code
	}
	state := m.w.diagnosis
	if m.reference != nil {
		state = m.reference.machine.diagnosis
	}
	if state := state(); state != hal.OK {
		return state
	}
	if code == hal.FrameLate || gen.Policy(c.Option) == gen.PolicyFail {
		return code
	}
	m.ignored++
	m.mismatch = mismatch{}
	return hal.OK
}

func (m *model) runDelay(do func(access) hal.Code, c *fbs.Command) hal.Code {
	if m.reference != nil {
		return m.reference.runDelay(m, c)
	}
	until := m.w.now + int64(c.Amount)*1000
	for m.w.now < until && (m.deadline == 0 || m.w.now <= m.deadline) {
		if code := do(access{kind: sleep}); code != hal.OK {
			return code
		}
	}
	if m.deadline != 0 && m.w.now > m.deadline {
		return hal.FrameLate
	}
	return hal.OK
}
