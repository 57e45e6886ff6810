package traces

import (
	"fmt"
	"io"
	"math/bits"
)

// Summary is what a trace holds, whether or not it can be replayed.
type Summary struct {
	Lines   int             `json:"lines"`
	Regions []RegionSummary `json:"regions"`
	Other   []Count         `json:"other"` // lines that hold no access

	// Events lists what a recording tells of that is no access to a BAR or to host
	// memory, and that no image does.
	Events []Warning `json:"events,omitempty"`

	// Blocked lists the accesses that no image can carry out. Whoever makes one knows.
	Blocked []Warning `json:"blocked"`

	// Accesses are those of the regions of a trace of QEMU that were chosen, where
	// it is known where in a BAR they lie.
	Accesses []Access `json:"-"`
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
	return fmt.Sprintf("%q at 0x%x..0x%x (%d loads, %d stores)", s.Name, s.First, s.Last, s.Loads, s.Stores)
}

// Summarize reads a trace and counts what is in it, device by device and
// region by region. It needs no Board and no Regions. The error is an *Error.
func Summarize(r io.Reader, o Source) (*Summary, error) {
	switch o.From {
	case FromMmiotrace:
		m := newMmiotrace(r, o)
		m.only = true
		if err := m.each(m.record); err != nil {
			return nil, err
		}
		return m.summary(), nil
	case FromQemu:
		return summarizeQemu(r, o)
	case FromRecord:
		return summarizeRecord(r, o)
	}
	return nil, o.unknown()
}

func summarizeQemu(r io.Reader, o Source) (*Summary, error) {
	if o.Board == nil {
		o.Regions = nil
	}
	var c collector
	q := newQemu(r, o, &c)
	q.only = true
	if err := q.checkRegions(); err != nil {
		return nil, err
	}
	if err := q.each(q.record); err != nil {
		return nil, err
	}
	s := &Summary{Lines: q.line, Regions: q.regionList(), Other: q.otherList(), Accesses: c.list}
	if q.baseless != "" {
		base := q.baseOf(q.baseless)
		for i := range s.Accesses {
			s.Accesses[i].Offset -= base
		}
		if base == 0 || len(q.regions) > 1 {
			s.Accesses = nil
		}
	}
	return s, nil
}
