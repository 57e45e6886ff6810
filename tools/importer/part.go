package importer

import (
	"strconv"
	"strings"

	"lightmetal/tools/importer/traces"
)

// ParsePart reads FROM..TO: numbers of lines, from 1, or texts of marks. The
// part begins and ends with these lines; either side may be empty.
func ParsePart(text string) (Part, error) {
	from, to, ok := strings.Cut(text, "..")
	p := Part{strings.TrimSpace(from), strings.TrimSpace(to)}
	if !ok || p == (Part{}) {
		return p, traces.Usage("part %q: the form is FROM..TO, lines or marks of the trace, such as 1200..2400, 'frame 2'..'frame 3' or 1200..", text)
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

// partState tells which accesses belong to the part.
type partState struct {
	Part
	first, last  int // lines, 0: a mark, or none
	inside       bool
	began, ended bool
	left         int // accesses before and behind
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

// has tells whether an access belongs to the part, or a mark, where a part may
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
		return traces.Usage("the %s begins at line %d, the trace has %d", what, s.first, lines)
	case !s.began:
		return traces.Usage("the trace has no mark %q for the %s to begin at", s.From, what)
	case s.To != "" && s.last == 0 && !s.ended:
		return traces.Usage("the trace has no mark %q behind the start of the %s", s.To, what)
	}
	return nil
}
