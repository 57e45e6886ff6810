package importer

import (
	"fmt"

	"lightmetal/tools/importer/traces"
	"lightmetal/tools/lmb"
)

// segment is one of the sequences that a trace is cut into.
type segment uint8

const (
	segmentInit segment = iota
	segmentFrame
	segmentBetween // the frame and stop, or behind stop: left out
	segmentStop
)

func (s segment) String() string { return [...]string{"init", "frame", "", "stop"}[s] }

// cutState tells which sequence an access belongs to.
type cutState struct {
	frame, stop partState
	on, stops   bool
	now         segment
	between     []hostStore // of the program, in what is left out
}

func (c *cutState) init(o *Options) {
	c.on, c.stops = o.Frame != Part{}, o.Stop != Part{}
	c.frame.init(o.Frame)
	c.stop.init(o.Stop)
}

// at gives the segment of an access, or of a mark.
func (c *cutState) at(a *traces.Access) segment {
	frame := c.frame.has(a)
	stop := c.stops && c.frame.began && !frame && c.stop.has(a)
	switch {
	case frame:
		return segmentFrame
	case !c.frame.began:
		return segmentInit
	case stop:
		return segmentStop
	}
	return segmentBetween
}

// check refuses parts that the trace does not have.
func (c *cutState) check(lines int) error {
	if !c.on {
		return nil
	}
	if err := c.frame.check("frame", lines); err != nil || !c.stops {
		return err
	}
	return c.stop.check("stop", lines)
}

// inside tells whether the image has an access, or a mark, in it, and begins
// the sequence that it is the first of.
func (l *lifter) inside(a *traces.Access) bool {
	in := l.part.has(a)
	if !l.cut.on {
		return in
	}
	now := l.cut.at(a)
	if in && now != l.cut.now {
		l.begin(now, a)
	}
	return in && now != segmentBetween
}

// begin ends a sequence and begins another, which points its windows itself.
func (l *lifter) begin(now segment, a *traces.Access) {
	l.settle(a.Time)
	l.cut.now = now
	if now == segmentBetween {
		return
	}
	for _, s := range l.slots {
		s.aim, s.step = -1, -1
	}
	l.steps.add(step{op: stepCut, line: uint32(a.Line), time: a.Time, count: 1, aim: -1, to: int32(now)})
	l.lastStore, l.host.slot, l.host.due = step{}, -1, false
	for _, s := range l.cut.between {
		l.place(a.Line, a.Time, s)
	}
	l.cut.between = nil
}

// sequence is commands with a name: those up to end, from where the one before
// ends.
type sequence struct {
	segment
	end int
}

// cut ends the commands of a sequence.
func (m *maker) cut(s *step) {
	m.fences.end(m)
	m.fences.open, m.fences.waited = false, false
	if !m.dry {
		m.ended(segment(s.to))
	}
}

// ended notes where the commands of a sequence end, and which one comes next.
func (m *maker) ended(next segment) {
	m.sequences = append(m.sequences, sequence{m.current, len(m.commands)})
	m.current = next
}

// sequenceList gives the commands cut into sequences; "main" has all where
// nothing is to be cut, and an empty one is none.
func (m *maker) sequenceList() (list []lmb.Sequence) {
	if m.o.Frame == (Part{}) {
		return []lmb.Sequence{{Name: "main", Commands: m.commands}}
	}
	from := 0
	for _, s := range m.sequences {
		if s.end > from {
			list = append(list, lmb.Sequence{Name: s.String(), Commands: m.commands[from:s.end:s.end]})
		}
		from = s.end
	}
	return list
}

// cutPass says what the trace was cut into.
func (m *maker) cutPass() (out outcome, err error) {
	if m.o.Frame == (Part{}) {
		return out, nil
	}
	m.ended(segmentBetween)
	has := false
	for i, s := range m.sequenceList() {
		if i > 0 {
			out.did += ", "
		}
		out.did += fmt.Sprintf("%s: %s", s.Name, traces.Counted(len(s.Commands), "command"))
		has = has || s.Name == segmentFrame.String()
	}
	if !has {
		return out, traces.Refuse(0, "the frame has no access to the device")
	}
	return out, nil
}
