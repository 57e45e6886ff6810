package traces

import (
	"fmt"
	"io"
	"math/bits"
	"strings"

	"lightmetal/tools/image/english"
)

// Summary is what a trace holds, whether or not it can be replayed.
type Summary struct {
	Lines   int             `json:"lines"`
	Regions []RegionSummary `json:"regions"`
	Other   []Count         `json:"other"` // lines that hold no access

	// Events lists what a recording tells of that is no access to a BAR or to host
	// memory, and that no image does.
	Events []Warning `json:"events,omitempty"`

	// Blocked lists the accesses that no image can carry out: of the regions of a
	// trace of QEMU that were chosen, where it is known where in a BAR they lie.
	Blocked []Warning `json:"blocked"`
}

// RegionSummary counts the accesses to one range of addresses: a BAR
// (mmiotrace, offsets from its start) or a memory region of QEMU's
// (guest-physical addresses; offsets in a BAR for vfio).
type RegionSummary struct {
	Name   string `json:"name"`
	Loads  int    `json:"loads"`
	Stores int    `json:"stores"`
	Widths [4]int `json:"widths"` // accesses of 1, 2, 4 and 8 bytes
	First  uint64 `json:"first"`  // lowest byte
	Last   uint64 `json:"last"`   // highest byte
}

func (s *RegionSummary) count(a Access) {
	last := a.Offset + uint64(a.Width) - 1
	if s.Loads+s.Stores == 0 {
		s.First = a.Offset
	}
	s.First, s.Last = min(s.First, a.Offset), max(s.Last, last)
	if a.Op == OpLoad {
		s.Loads++
	} else {
		s.Stores++
	}
	s.Widths[bits.TrailingZeros8(a.Width)]++
}

func (s RegionSummary) String() string {
	return fmt.Sprintf("%q at 0x%x..0x%x (%d loads, %d stores)", s.Name, s.First, s.Last, s.Loads,
		s.Stores)
}

// String returns the summary as text, a line for each region, event and kind of line.
func (s *Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", english.Count(s.Lines, "line"))
	for i := range s.Regions {
		r := &s.Regions[i]
		fmt.Fprintf(&b, "%s: %s, %s; 0x%x to 0x%x (%s)\n", r.Name, english.Count(r.Loads, "load"),
			english.Count(r.Stores, "store"), r.First, r.Last, r.widthsText())
	}
	for _, other := range s.Other {
		fmt.Fprintf(&b, "no access of a region: %s: %d\n", other.Name, other.N)
	}
	for _, event := range s.Events {
		fmt.Fprintf(&b, "%s\n", event)
	}
	for _, access := range s.Blocked {
		fmt.Fprintf(&b, "no image can do this: %s\n", access)
	}
	return b.String()
}

// widthsText returns the number of accesses of each width that occurs.
func (s *RegionSummary) widthsText() string {
	var parts []string
	for i, n := range s.Widths {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d of %s", n, english.Count(1<<i, "byte")))
		}
	}
	return strings.Join(parts, ", ")
}

// Summarize reads a trace and counts what is in it, device by device and
// region by region. It needs no Board and no Regions. blocked says why no image
// can carry out an access, empty if one can. The error is an *Error.
func Summarize(r io.Reader, o Source, blocked func(*Access) string) (*Summary, error) {
	switch o.From {
	case FromMmiotrace:
		m := newMmiotrace(r, o)
		m.only = true
		if err := m.each(m.record); err != nil {
			return nil, err
		}
		return m.summary(), nil
	case FromQemu:
		return summarizeQemu(r, o, blocked)
	case FromRecord:
		return summarizeRecord(r, o)
	}
	return nil, o.unknown()
}

func summarizeQemu(r io.Reader, o Source, blocked func(*Access) string) (*Summary, error) {
	if o.Board == nil {
		o.Regions = nil
	}
	s := &Summary{}
	q := newQemu(r, o, &tally{each: func(a *Access) {
		if reason := blocked(a); reason != "" {
			s.Blocked = append(s.Blocked, Warning{a.Line, reason})
		}
	}})
	q.only = true
	if err := q.checkRegions(); err != nil {
		return nil, err
	}
	if err := q.each(q.record); err != nil {
		return nil, err
	}
	s.Lines, s.Regions, s.Other = q.line, q.regionList(), q.otherList()
	if q.baseless != "" && (q.baseOf(q.baseless) == 0 || len(q.regions) > 1) {
		s.Blocked = nil
	}
	return s, nil
}
