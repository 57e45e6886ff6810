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

// segment is one of the sequences into which Frame and Stop cut a trace.
type segment uint8

const (
	segmentInit segment = iota
	segmentFrame
	segmentBetween // accesses between the frame and stop, or after stop: left out
	segmentStop
)

func (s segment) String() string { return [...]string{"init", "frame", "", "stop"}[s] }

// cutState determines which segment an access belongs to.
type cutState struct {
	frame, stop      partState
	enabled, hasStop bool
	current          segment
	// Stores of the program to host memory in accesses that are left out
	leftOutStores []hostStore
}

func (c *cutState) init(o *Options) {
	c.enabled, c.hasStop = o.Frame != Part{}, o.Stop != Part{}
	c.frame.init(o.Frame)
	c.stop.init(o.Stop)
}

func (c *cutState) segmentOf(a *traces.Access) segment {
	frame := c.frame.contains(a)
	stop := c.hasStop && c.frame.began && !frame && c.stop.contains(a)
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

// checkParts returns an error if the trace does not contain the frame or stop.
func (c *cutState) checkParts(lines int) error {
	if !c.enabled {
		return nil
	}
	if err := c.frame.validate("frame", lines); err != nil || !c.hasStop {
		return err
	}
	return c.stop.validate("stop", lines)
}

// enterSegment reports whether an access or a mark belongs to the image. If it is the first of a
// sequence, enterSegment starts that sequence.
func (l *lifter) enterSegment(a *traces.Access) bool {
	in := l.part.contains(a)
	if !l.cut.enabled {
		return in
	}
	now := l.cut.segmentOf(a)
	if in && now != l.cut.current {
		l.startSegment(now, a)
	}
	return in && now != segmentBetween
}

// startSegment ends the current sequence and starts another, which must point its windows again.
func (l *lifter) startSegment(now segment, a *traces.Access) {
	if l.isInHostFrame() {
		l.addHostParts(0, a.Time)
	}
	l.flushDeviceWrites(a.Time)
	l.cut.current = now
	if now == segmentBetween {
		return
	}
	for _, s := range l.tlbStates {
		s.lastTarget = -1
	}
	l.steps.appendStep(step{op: stepSequenceStart, line: uint32(a.Line), time: a.Time, count: 1,
		target:  -1,
		operand: int32(now)})
	l.lastStore, l.host.slotStep, l.host.storedSinceSlot = step{}, -1, false
	for _, s := range l.cut.leftOutStores {
		bus := l.hostSpaces[s.host].bus + s.offset
		if !l.options.isInHostRing(bus, uint64(len(s.data))) {
			l.placeStore(a.Line, a.Time, s)
		}
	}
	l.cut.leftOutStores = nil
}

func (m *commandBuilder) endSequence(s *step) {
	m.fences.emitLastFence(m)
	m.fences = fencer{count: m.fences.count}
	clear(m.pointedTo)
	m.finishSequence(segment(s.operand))
}

// finishSequence makes a sequence of the commands since the last cut, if there are any. `next` is
// the segment of the commands that follow.
func (m *commandBuilder) finishSequence(next segment) {
	if m.commands.Len() > 0 {
		m.addSequence(m.currentSegment.String())
		m.sequenceSummaries = append(m.sequenceSummaries, fmt.Sprintf("%s: %s", m.currentSegment,
			english.Count(m.commands.Len(), "command")))
	}
	m.commands, m.currentSegment = &lmb.Packed{}, next
}

// addSequence makes a sequence of the commands that belong to none yet.
func (m *commandBuilder) addSequence(name string) {
	m.sequences = append(m.sequences, lmb.Sequence{Name: name, Stream: m.commands.All()})
}

// finishCut makes the last sequence, and reports the sequences and their sizes.
func (m *commandBuilder) finishCut() (out passResult, err error) {
	if m.options.Frame == (Part{}) {
		m.addSequence("main")
		return out, nil
	}
	m.finishSequence(segmentBetween)
	out.summary = strings.Join(m.sequenceSummaries, ", ")
	if !slices.ContainsFunc(m.sequences,
		func(s lmb.Sequence) bool { return s.Name == segmentFrame.String() }) {
		return out, traces.TraceError(0, "the frame contains no access to the device: "+
			"choose other lines with --frame")
	}
	return out, nil
}

// ParsePart parses FROM..TO. FROM and TO are line numbers, from 1, or texts of marks; either may be
// empty. These lines belong to the part.
func ParsePart(text string) (Part, error) {
	from, to, ok := strings.Cut(text, "..")
	p := Part{strings.TrimSpace(from), strings.TrimSpace(to)}
	if !ok || p == (Part{}) {
		return p,
			traces.UsageError(
				"part %q must have the form FROM..TO with lines or marks of the trace, "+
					"such as 1200..2400, 'frame 2'..'frame 3' or 1200..", text)
	}
	first, last := lineNumber(p.From), lineNumber(p.To)
	if p.From == "0" || p.To == "0" {
		return p, traces.UsageError("part %q: line numbers must be at least 1", text)
	}
	if first > 0 && last > 0 && last < first {
		return p, traces.UsageError("part %q: the last line, %d, is before the first line, %d",
			text, last, first)
	}
	return p, nil
}

// Part selects a part of a trace by line numbers or texts of marks. The importer still follows TLB
// windows and host memory from the start of the trace.
type Part struct{ From, To string }

func lineNumber(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// partState determines which accesses belong to a part.
type partState struct {
	Part
	first, last  int // line numbers; 0: given as a mark, or not at all
	inside       bool
	began, ended bool
	outsideCount int // number of accesses outside the part
}

func (s *partState) init(p Part) {
	s.Part, s.first, s.last = p, lineNumber(p.From), lineNumber(p.To)
	s.inside = s.From == ""
	s.began = s.inside
}

// advanceTo updates the state for a line.
func (s *partState) advanceTo(line int) {
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

// contains reports whether an access or a mark belongs to the part. A part includes the marks at
// which it begins and ends.
func (s *partState) contains(a *traces.Access) bool {
	s.advanceTo(a.Line)
	name := strings.TrimSpace(a.Name)
	switch {
	case a.Op != traces.OpMark:
	case !s.began && s.first == 0 && name == s.From:
		s.inside, s.began = true, true
	case s.inside && s.To != "" && s.last == 0 && name == s.To:
		s.ended = true // the part ends before the next line
	}
	return s.inside
}

// validate returns an error if the trace does not contain the part. `what` names the part in the
// error.
func (s *partState) validate(what string, lines int) error {
	switch {
	case !s.began && s.first > 0:
		return traces.UsageError("the %s begins at line %d, but the trace has %d lines", what,
			s.first,
			lines)
	case s.last > lines:
		return traces.UsageError("the %s ends at line %d, but the trace has %d lines", what, s.last,
			lines)
	case !s.began:
		return traces.UsageError("the trace has no mark %q, at which the %s must begin", s.From,
			what)
	case s.To != "" && s.last == 0 && !s.ended:
		return traces.UsageError("the trace has no mark %q after the start of the %s", s.To, what)
	}
	return nil
}
