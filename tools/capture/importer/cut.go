package importer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/lmb"
)

// segment is one of the sequences that a trace is cut into.
type segment uint8

const (
	segmentInit segment = iota
	segmentFrame
	segmentBetween // the frame and stop, or after stop: left out
	segmentStop
)

func (s segment) String() string { return [...]string{"init", "frame", "", "stop"}[s] }

// cutState notes which sequence an access belongs to.
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

// at returns the segment of an access, or of a mark.
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

// inside reports whether the image has an access, or a mark, in it, and begins
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
		s.aim = -1
	}
	l.steps.add(step{op: stepCut, line: uint32(a.Line), time: a.Time, count: 1, aim: -1,
		to: int32(now)})
	l.lastStore, l.host.slot, l.host.due = step{}, -1, false
	for _, s := range l.cut.between {
		l.place(a.Line, a.Time, s)
	}
	l.cut.between = nil
}

// cut ends the commands of a sequence.
func (m *maker) cut(s *step) {
	m.fences.end(m)
	m.fences = fencer{n: m.fences.n}
	clear(m.shown)
	m.ended(segment(s.to))
}

// ended makes a sequence of the commands since the last one, if there are any, and
// notes which one comes next.
func (m *maker) ended(next segment) {
	if m.commands.Len() > 0 {
		m.addSequence(m.current.String())
		m.cutTo = append(m.cutTo, fmt.Sprintf("%s: %s", m.current,
			english.Count(m.commands.Len(), "command")))
	}
	m.commands, m.current = &lmb.Packed{}, next
}

// addSequence makes a sequence of the commands that are in none.
func (m *maker) addSequence(name string) {
	m.sequences = append(m.sequences, lmb.Sequence{Name: name, Stream: m.commands.All()})
}

// cutPass says what the trace was cut into.
func (m *maker) cutPass() (out outcome, err error) {
	if m.o.Frame == (Part{}) {
		m.addSequence("main")
		return out, nil
	}
	m.ended(segmentBetween)
	out.did = strings.Join(m.cutTo, ", ")
	if !slices.ContainsFunc(m.sequences,
		func(s lmb.Sequence) bool { return s.Name == segmentFrame.String() }) {
		return out, traces.Refuse(0, "the frame has no access to the device")
	}
	return out, nil
}

// ParsePart reads FROM..TO: numbers of lines, from 1, or texts of marks. The
// part begins and ends with these lines; either side may be empty.
func ParsePart(text string) (Part, error) {
	from, to, ok := strings.Cut(text, "..")
	p := Part{strings.TrimSpace(from), strings.TrimSpace(to)}
	if !ok || p == (Part{}) {
		return p,
			traces.Usage("part %q: the form is FROM..TO, lines or marks of the trace, such as "+
				"1200..2400, 'frame 2'..'frame 3' or 1200..", text)
	}
	first, last := lineNumber(p.From), lineNumber(p.To)
	if p.From == "0" || p.To == "0" || first > 0 && last > 0 && last < first {
		return p, traces.Usage("part %q ends before it starts; lines count from 1", text)
	}
	return p, nil
}

// Part is what to import of a trace: lines, or from one mark to another. Windows
// and host memory are followed from the start on.
type Part struct{ From, To string }

func lineNumber(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// partState notes which accesses belong to the part.
type partState struct {
	Part
	first, last  int // lines, 0: a mark, or none
	inside       bool
	began, ended bool
	left         int // accesses before and after
}

func (s *partState) init(p Part) {
	s.Part, s.first, s.last = p, lineNumber(p.From), lineNumber(p.To)
	s.inside = s.From == ""
	s.began = s.inside
}

// line goes on to a line.
func (s *partState) line(line int) {
	switch {
	case !s.began && s.first > 0 && line >= s.first:
		s.inside, s.began = true, true
	case s.ended && s.inside:
		s.inside = false
	}
	if s.inside && s.last > 0 && line > s.last {
		s.inside, s.ended = false, true
	}
}

// has reports whether an access belongs to the part, or a mark, where a part may
// begin or end; the mark that ends it belongs to it.
func (s *partState) has(a *traces.Access) bool {
	s.line(a.Line)
	name := strings.TrimSpace(a.Name)
	switch {
	case a.Op != traces.OpMark:
	case !s.began && s.first == 0 && name == s.From:
		s.inside, s.began = true, true
	case s.inside && s.To != "" && s.last == 0 && name == s.To:
		s.ended = true // with what comes next
	}
	return s.inside
}

// check refuses a part that the trace does not have; what is its name.
func (s *partState) check(what string, lines int) error {
	switch {
	case !s.began && s.first > 0:
		return traces.Usage("the %s begins at line %d, but the trace has %d lines", what, s.first,
			lines)
	case s.last > lines:
		return traces.Usage("the %s ends at line %d, but the trace has %d lines", what, s.last,
			lines)
	case !s.began:
		return traces.Usage("the trace has no mark %q for the %s to begin at", s.From, what)
	case s.To != "" && s.last == 0 && !s.ended:
		return traces.Usage("the trace has no mark %q after the start of the %s", s.To, what)
	}
	return nil
}
