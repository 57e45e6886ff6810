package traces

import (
	"fmt"
	"io"
	"math/bits"
	"strings"

	"lightmetal/tools/image/english"
)

// Summary is the content of a trace, whether or not it can be replayed.
type Summary struct {
	Lines   int             `json:"lines"`
	Regions []RegionSummary `json:"regions"`
	Other   []Count         `json:"other"` // lines without an access, by kind

	// Blocks lists data that the trace stores and loads, as far as its board is known
	Blocks []Block `json:"blocks,omitempty"`

	// Events lists records that are neither accesses of a BAR nor of host memory. No image contains
	// them.
	Events []Warning `json:"events,omitempty"`

	// Blocked lists the accesses that no image can contain. For QEMU, only chosen regions with a
	// known base count.
	Blocked []Warning `json:"blocked"`
}

// Block is consecutive bytes that a trace stores or loads, one access after the other.
type Block struct {
	Stored bool   `json:"stored"`
	Place  string `json:"place"` // as in Flag, such as 1,1,0x20000
	Bytes  int    `json:"bytes"`
	Line   int    `json:"line"`  // of the first access
	Times  int    `json:"times"` // how often the trace stores or loads all of these bytes
	Guess  string `json:"guess"` // type and shape, and why
	Flag   string `json:"flag"`  // of lm import, which makes a tensor of the block
}

func (b *Block) String() string {
	verb, times := "loads", ""
	if b.Stored {
		verb = "stores"
	}
	if b.Times > 1 {
		times = fmt.Sprintf(", %d times", b.Times)
	}
	return fmt.Sprintf("line %d %s %s at %s%s, perhaps %s: %s", b.Line, verb,
		english.Count(b.Bytes, "byte"), b.Place, times, b.Guess, b.Flag)
}

// RegionSummary counts the accesses to one range of addresses. This is a BAR (mmiotrace and vfio,
// addresses are offsets in the BAR) or a memory region of QEMU (guest-physical addresses).
type RegionSummary struct {
	Name   string `json:"name"`
	Loads  int    `json:"loads"`
	Stores int    `json:"stores"`
	Widths [4]int `json:"widths"` // accesses of 1, 2, 4 and 8 bytes
	First  uint64 `json:"first"`  // lowest byte
	Last   uint64 `json:"last"`   // highest byte

	isVFIO bool // QEMU's events vfio_region, which show the guest's own widths
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

// String returns the summary as text, with a line for each region, event and kind of line.
func (s *Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", english.Count(s.Lines, "line"))
	for i := range s.Regions {
		r := &s.Regions[i]
		fmt.Fprintf(&b, "%s: %s, %s; addresses 0x%x to 0x%x (%s)\n", r.Name,
			english.Count(r.Loads, "load"), english.Count(r.Stores, "store"), r.First, r.Last,
			r.widthsText())
	}
	for i := range s.Blocks {
		fmt.Fprintf(&b, "%s\n", &s.Blocks[i])
	}
	for _, other := range s.Other {
		fmt.Fprintf(&b, "other: %s: %d\n", other.Name, other.N)
	}
	for _, event := range s.Events {
		fmt.Fprintf(&b, "%s\n", event)
	}
	for _, access := range s.Blocked {
		fmt.Fprintf(&b, "an image cannot contain this access: %s\n", access)
	}
	return b.String()
}

// widthsText returns the number of accesses for each width that occurs.
func (s *RegionSummary) widthsText() string {
	var parts []string
	for i, n := range s.Widths {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s of %s", english.Count(n, "access"),
				english.Count(1<<i, "byte")))
		}
	}
	return strings.Join(parts, ", ")
}

// Summarize reads a trace and counts its accesses by device and region. It needs no Board and no
// Regions. blocked returns the reason why no image can contain an access, or "". The error is an
// *Error.
func Summarize(r io.Reader, o Source, blocked func(*Access) string) (*Summary, error) {
	switch o.From {
	case FromMmiotrace:
		m := newMmiotrace(r, o)
		m.summaryOnly = true
		if err := m.eachLine(m.parseLine); err != nil {
			return nil, err
		}
		return m.summary(), nil
	case FromRwmmio:
		return summarizeRwmmio(r, o)
	case FromQemu:
		return summarizeQemu(r, o, blocked)
	case FromRecord:
		return summarizeRecord(r, o)
	}
	return nil, o.formatError()
}

func summarizeQemu(r io.Reader, o Source, blocked func(*Access) string) (*Summary, error) {
	if o.Board == nil {
		o.Regions = nil
	}
	s := &Summary{}
	q := newQemu(r, o, &tally{onAccess: func(a *Access) {
		if reason := blocked(a); reason != "" {
			s.Blocked = append(s.Blocked, Warning{a.Line, reason})
		}
	}})
	q.summaryOnly = true
	if err := q.checkRegions(); err != nil {
		return nil, err
	}
	if err := q.eachLine(q.parseLine); err != nil {
		return nil, err
	}
	s.Lines, s.Regions, s.Other = q.line, q.regionSummaries(), q.otherEventCounts()
	if q.baseless != "" && (q.baseOf(q.baseless) == 0 || len(q.regions) > 1) {
		s.Blocked = nil
	}
	return s, nil
}
