//go:build world

package main

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// hogMost is more loads than a wait makes that looks less often the longer it is.
const hogMost = 2000

// wait holds the times of loads against the format: how long a pause may be, and
// that one load comes after the deadline, however late that is.
func (m *model) wait(do func(access) hal.Code, c *fbs.Command, a access) hal.Code {
	began := m.w.now
	deadline := began + int64(c.Amount)*1000
	for loads := 0; ; loads++ {
		before := m.w.now
		if code := do(a); code != hal.OK {
			return code
		}
		pause, most := m.arrived-before, max(int64(c.Index)*1000, (before-began)/32)
		late := m.end != 0 && m.arrived > m.end
		switch {
		case pause > most+m.w.jumped || loads > hogMost && c.Index == 0:
			m.w.violate("load %d of a wait comes %d ns after the one before, at most %d are right",
				loads, pause, most)
		case pause < int64(c.Index)*1000 && m.arrived < deadline && !late:
			m.w.violate("load %d of a wait comes %d ns after the one before, which is too early",
				loads, pause)
		}
		m.w.jumped = 0
		switch {
		case m.lost(c):
			return hal.DeviceGone
		case m.holds(c):
			return hal.OK
		case late:
			return m.saw(c, hal.FrameLate)
		case m.arrived >= deadline:
			return m.saw(c, hal.DeadlinePassed)
		}
	}
}

func (m *model) settle(c *fbs.Command, code hal.Code) hal.Code {
	switch code {
	case hal.DeadlinePassed, hal.ExpectFailed, hal.CompareFailed, hal.FrameLate:
	default:
		return code
	}
	state := m.w.state
	if m.still != nil {
		state = m.still.machine.state
	}
	if state := state(); state != hal.OK {
		return state
	}
	if code == hal.FrameLate || gen.Policy(c.Option) == gen.PolicyFail {
		return code
	}
	m.ignored++
	m.seen = seen{}
	return hal.OK
}

func (m *model) delay(do func(access) hal.Code, c *fbs.Command) hal.Code {
	if m.still != nil {
		return m.still.delay(m, c)
	}
	until := m.w.now + int64(c.Amount)*1000
	for m.w.now < until && (m.end == 0 || m.w.now <= m.end) {
		if code := do(access{kind: nap}); code != hal.OK {
			return code
		}
	}
	if m.end != 0 && m.w.now > m.end {
		return hal.FrameLate
	}
	return hal.OK
}
