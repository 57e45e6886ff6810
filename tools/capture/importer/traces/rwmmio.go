package traces

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"lightmetal/tools/image/english"
)

// rwmmio reads the events rwmmio of Linux (include/trace/events/rwmmio.h), as the kernel's files
// trace and trace_pipe print them. Their addresses are virtual addresses of the kernel.
//
// A store is a line rwmmio_write, a load a line rwmmio_post_read, which has the value.
type rwmmio struct {
	*lineReader
	source      Source
	sink        Sink
	summaryOnly bool
	pages       map[uint64]*RegionSummary // accesses by pages of 4 KiB
	otherLines  int
	others      int            // accesses outside the BARs
	taken       int            // accesses to the BARs
	begun       map[uint64]int // lines of loads without their values, by address
	stored      int            // lines of stores to the BARs: rwmmio_write
	storesEnded int            // rwmmio_post_write
}

func newRwmmio(r io.Reader, o Source, to Sink) *rwmmio {
	return &rwmmio{lineReader: newLineReader(r, o.Progress), source: o, sink: to,
		pages: map[uint64]*RegionSummary{}, begun: map[uint64]int{}}
}

func readRwmmio(r io.Reader, o Source, to Sink) (*Trace, error) {
	if o.Board == nil {
		return nil, UsageError("a trace of the events rwmmio does not name its device; "+
			"use --board; boards: %s", BoardList())
	}
	m := newRwmmio(r, o, to)
	if err := o.checkBases(); err != nil {
		return nil, err
	}
	to.Start(o.Board)
	if err := m.eachLine(m.parseLine); err != nil {
		return nil, err
	}
	return m.result()
}

// checkBases returns an error if a BAR does not exist, or if two overlap.
func (s *Source) checkBases() error {
	for i, r := range s.Regions {
		if int(r.Bar) >= len(s.Board.BarSizes) || s.Board.BarSizes[r.Bar] == 0 {
			return UsageError("board %s has no BAR %d", s.Board.Name, r.Bar)
		}
		for _, other := range s.Regions[:i] {
			low, high := other, r
			if low.Base > high.Base {
				low, high = r, other
			}
			if r.Bar == other.Bar || low.Base == high.Base || !s.BarSizesAreLimits &&
				high.Base-low.Base < s.Board.BarSizes[low.Bar] {
				return UsageError("--base %d=0x%x and --base %d=0x%x overlap or name the same BAR",
					other.Bar, other.Base, r.Bar, r.Base)
			}
		}
	}
	return nil
}

var (
	rwmmioLine = regexp.MustCompile(
		`(?:^|\s)(\d+\.\d+): (rwmmio_(?:post_)?(?:read|write)|tracing_mark_write): (.*)$`)
	rwmmioName   = regexp.MustCompile(`rwmmio_(?:post_)?(?:read|write)`)
	rwmmioBuffer = regexp.MustCompile(`^# entries-in-buffer/entries-written: (\d+)/(\d+)`)
)

func (m *rwmmio) parseLine(text []byte) error {
	if n := rwmmioBuffer.FindSubmatch(text); n != nil && !bytes.Equal(n[1], n[2]) {
		return m.passOn(&Access{Line: m.line, Op: OpLost, Name: fmt.Sprintf("the kernel kept %s "+
			"of %s events: record again with a larger buffer_size_kb, or read trace_pipe", n[1],
			n[2])})
	}
	if n := lostEvents.FindSubmatch(text); n != nil {
		return m.passOn(&Access{Line: m.line, Op: OpLost, Name: fmt.Sprintf(lostEventsText, n[1])})
	}
	event := rwmmioLine.FindSubmatch(text)
	if event == nil {
		if rwmmioName.Match(text) {
			return m.formError(text)
		}
		m.otherLines++
		return nil
	}
	ns, ok := seconds(event[1])
	if !ok || rwmmioName.Match(event[3]) {
		return m.formError(text)
	}
	if string(event[2]) == "tracing_mark_write" {
		return m.passOn(&Access{Line: m.line, Op: OpMark, Time: int64(ns), Name: string(event[3])})
	}
	return m.parseEvent(string(event[2]), event[3], Access{Line: m.line, Time: int64(ns)})
}

func (m *rwmmio) formError(text []byte) error {
	return TraceError(m.line, "%s has a rwmmio event that is cut or has an unknown form",
		quoteStart(text))
}

// parseEvent parses `acc_probe+0x60/0x1e0 [acc] width=32 val=0x1 addr=0xffff800085a00010`; a load
// without a value begins one.
func (m *rwmmio) parseEvent(event string, text []byte, a Access) error {
	var bits, address uint64
	found := 0
	for _, c := range [...]column{{"width", decimal, &bits}, {"val", parseSharp, &a.Value},
		{"addr", hex, &address}} {
		if c.name == "val" && event == "rwmmio_read" {
			continue
		}
		_, rest, _ := bytes.Cut(text, []byte(" "+c.name+"="))
		f := fields{rest}
		if v, ok := c.parse(f.nextField()); ok {
			*c.result = v
			found++
		}
	}
	if found < 2 || found < 3 && event != "rwmmio_read" {
		return m.formError(text)
	}
	if bits%8 != 0 {
		return TraceError(m.line, "the width must be 8, 16, 32 or 64 bits, not %d", bits)
	}
	if reason := checkAccess(bits/8, a.Value); reason != "" {
		return TraceError(m.line, "%s", reason)
	}
	a.Width, a.Offset = uint8(bits/8), address
	return m.addEvent(event, a)
}

func (m *rwmmio) addEvent(event string, a Access) error {
	address := a.Offset
	region := m.regionOf(address)
	if region != nil {
		a.Bar, a.Offset = region.Bar, address-region.Base
	}
	switch event {
	case "rwmmio_read":
		if region != nil {
			m.begun[address] = m.line
		}
		return nil
	case "rwmmio_post_write":
		if region != nil {
			m.storesEnded++
		}
		return nil
	case "rwmmio_post_read":
		a.Op = OpLoad
		delete(m.begun, address)
	default:
		a.Op = OpStore
	}
	m.count(address, a)
	if region == nil {
		m.others++
		return nil
	}
	m.taken++
	if a.Op == OpStore {
		m.stored++
	}
	if reason := alignmentText(uint64(a.Width), a.Offset); reason != "" {
		a.Op, a.Name = OpRejected, reason
	}
	return m.passOn(&a)
}

func (m *rwmmio) count(address uint64, a Access) {
	const pageSize = 4096
	s := m.pages[address/pageSize]
	if s == nil {
		s = &RegionSummary{Name: "addresses of the kernel"}
		m.pages[address/pageSize] = s
	}
	a.Offset = address
	s.count(a)
}

// regionOf returns the region of the BAR that contains an address, or nil. With BarSizesAreLimits
// there may be several: it returns the one that begins last.
func (m *rwmmio) regionOf(address uint64) (found *Region) {
	for i := range m.source.Regions {
		r := &m.source.Regions[i]
		if address-r.Base < m.source.Board.BarSizes[r.Bar] &&
			(found == nil || r.Base > found.Base) {
			found = r
		}
	}
	return found
}

func (m *rwmmio) passOn(a *Access) error {
	if m.summaryOnly || len(m.source.Regions) == 0 {
		return nil
	}
	return m.sink.Access(a)
}

func (m *rwmmio) result() (*Trace, error) {
	switch {
	case m.storesEnded > 0 && m.stored == 0:
		return nil, TraceError(0, "the trace has only the ends of stores (rwmmio_post_write); "+
			"record all events rwmmio")
	case len(m.begun) > 0:
		return nil, TraceError(slices.Min(slices.Collect(maps.Values(m.begun))),
			"the value of this load is missing, because no line rwmmio_post_read follows; "+
				"record all events rwmmio, and keep the end of the trace")
	case len(m.pages) == 0:
		return nil, TraceError(0, "the trace has no event rwmmio_write or rwmmio_post_read; "+
			"record all events rwmmio")
	case len(m.source.Regions) == 0:
		return nil, UsageError("choose the device with --base ADDRESS, the address at which the "+
			"driver mapped its BAR (see /proc/vmallocinfo); accesses: %s", m.regionsText())
	case m.taken == 0:
		return nil, UsageError("the trace contains no access to the BARs at --base; accesses: %s",
			m.regionsText())
	}
	t := &Trace{Board: m.source.Board, Lines: m.line}
	if m.others > 0 {
		t.Ignored = append(t.Ignored, Count{"accesses to other addresses", m.others})
	}
	if m.otherLines > 0 {
		t.Ignored = append(t.Ignored, Count{"other lines", m.otherLines})
	}
	return t, nil
}

// summaries returns the accesses of adjacent pages together.
func (m *rwmmio) summaries() (list []RegionSummary) {
	last := uint64(0)
	for _, page := range slices.SortedFunc(maps.Keys(m.pages), cmp.Compare) {
		s := m.pages[page]
		if n := len(list) - 1; n >= 0 && page == last+1 {
			to := &list[n]
			to.Loads, to.Stores, to.Last = to.Loads+s.Loads, to.Stores+s.Stores, s.Last
			for i := range s.Widths {
				to.Widths[i] += s.Widths[i]
			}
		} else {
			list = append(list, *s)
		}
		last = page
	}
	return list
}

func (m *rwmmio) regionsText() string {
	const shownMax = 8
	list, more := m.summaries(), ""
	if n := len(list) - shownMax; n > 0 {
		list, more = list[:shownMax], fmt.Sprintf("; and %d more ranges", n)
	}
	return english.Join(list, "; ", func(s RegionSummary) string {
		return strings.TrimPrefix(s.String(), fmt.Sprintf("%q at ", s.Name))
	}) + more
}

func summarizeRwmmio(r io.Reader, o Source) (*Summary, error) {
	m := newRwmmio(r, Source{Progress: o.Progress}, nil)
	m.summaryOnly = true
	if err := m.eachLine(m.parseLine); err != nil {
		return nil, err
	}
	s := &Summary{Lines: m.line, Regions: m.summaries()}
	if m.otherLines > 0 {
		s.Other = []Count{{"other lines", m.otherLines}}
	}
	return s, nil
}
