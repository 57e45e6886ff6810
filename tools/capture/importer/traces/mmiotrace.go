package traces

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"

	"lightmetal/boards"
)

// mmiotraceVersion is the only version of the text format there has been
// (Linux, kernel/trace/trace_mmiotrace.c).
const mmiotraceVersion = "20070824"

// mmiotrace reads Linux's mmiotrace text format.
type mmiotrace struct {
	*lineReader
	o       Source
	to      Sink
	only    bool // count, and take nothing
	version bool
	devices []*pciDevice
	slots   map[string][]*pciDevice
	ranges  []*pciRange // sorted by base, nil: a device has come since
	last    *pciRange   // the range of the access before: most are in the same
	chosen  *pciDevice  // the first that was wanted and accessed
	board   *boards.Board
	outside int      // accesses outside every BAR, where a device was asked for by name
	lost    int      // line of the first of them
	early   []Access // marks in front of the first access
	marks   int
}

// mmiotraceRecords are the kinds of lines there are.
var mmiotraceRecords = map[string]func(m *mmiotrace, kind string, f fields) error{
	"VERSION": (*mmiotrace).versionRecord,
	"PCIDEV":  (*mmiotrace).pcidevRecord,
	"MAP":     (*mmiotrace).mapRecord,
	"UNMAP":   (*mmiotrace).unmapRecord,
	"R":       (*mmiotrace).accessRecord,
	"W":       (*mmiotrace).accessRecord,
	"UNKNOWN": (*mmiotrace).unknownRecord,
	"MARK":    (*mmiotrace).markRecord,
	"LSPCI":   (*mmiotrace).lspciRecord,
}

func readMmiotrace(r io.Reader, o Source, to Sink) (*Trace, error) {
	m := newMmiotrace(r, o)
	m.to = to
	if err := m.each(m.record); err != nil {
		return nil, err
	}
	return m.trace()
}

func newMmiotrace(r io.Reader, o Source) *mmiotrace {
	return &mmiotrace{lineReader: newLineReader(r, o.Progress), o: o,
		slots: map[string][]*pciDevice{}}
}

func (m *mmiotrace) record(text []byte) error {
	f := fields{text}
	kind := f.next()
	if len(kind) == 0 || kind[0] == '#' {
		return m.hides("comment", text) // ftrace's own
	}
	record := mmiotraceRecords[string(kind)]
	switch {
	case record == nil && (string(text) == "rw what?" || string(text) == "map what?"):
		return Refuse(m.line, "%q: the kernel could not decode this access", text)
	case record == nil && lostEvents.Match(text):
		return m.lostRecord(text)
	case record == nil:
		return Refuse(m.line, "%s is not a line of mmiotrace", shown(text))
	case !m.version && string(kind) != "VERSION" && string(kind) != "LSPCI":
		return Refuse(m.line,
			"%s before VERSION, which only trace_pipe has: cat "+
				"/sys/kernel/tracing/trace_pipe >FILE after mmiotrace is enabled", kind)
	}
	return record(m, string(kind), f)
}

// cut is the error for a record with a missing or broken field.
func (m *mmiotrace) cut(kind, field string, got []byte) error {
	if len(got) == 0 {
		return Refuse(m.line, "%s line without %s: the line is cut", kind, field)
	}
	return Refuse(m.line, "%s line: %s %s is not a number of the expected form", kind, field,
		shown(got))
}

// columns parses the fields of a record, in the order of the kernel's
// mmio_print_rw and mmio_print_map.
func (m *mmiotrace) columns(kind string, f *fields, list ...column) error {
	if bad, text := f.parse(list); bad < len(list) {
		// else the values of each line would be garbage
		return m.cut(kind, strings.Clone(list[bad].name), text)
	}
	return nil
}

// whole is columns for a record that has nothing behind its last field.
func (m *mmiotrace) whole(kind string, f *fields, list ...column) error {
	if err := m.columns(kind, f, list...); err != nil {
		return err
	}
	if more := f.next(); len(more) > 0 {
		return Refuse(m.line, "%s line has too many fields: %s", kind, shown(more))
	}
	return nil
}

func (m *mmiotrace) versionRecord(_ string, f fields) error {
	if v := f.next(); string(v) != mmiotraceVersion {
		return Refuse(m.line, "version %s of mmiotrace is unknown; it must be %s", shown(v),
			mmiotraceVersion)
	}
	m.version = true
	return nil
}

func (m *mmiotrace) mapRecord(kind string, f fields) error {
	return m.whole(kind, &f, column{"time", seconds, nil}, column{"map id", signed, nil},
		column{"address", hex, nil},
		column{"virtual address", hex, nil}, column{"length", hex, nil}, column{"pc", hex, nil},
		column{"pid", signed, nil})
}

func (m *mmiotrace) unmapRecord(kind string, f fields) error {
	return m.whole(kind, &f, column{"time", seconds, nil}, column{"map id", signed, nil},
		column{"pc", hex, nil}, column{"pid", signed, nil})
}

func (m *mmiotrace) lspciRecord(kind string, f fields) error {
	return m.hides(kind+" record",
		f.rest)
}

// hides refuses free text with an access in it: the line before has lost its end.
func (m *mmiotrace) hides(kind string, text []byte) error {
	if found := accessInText.Find(text); found != nil {
		return Refuse(m.line, "%s contains an access: %s", kind, shown(found))
	}
	return nil
}

var accessInText = regexp.MustCompile(`[RW] [1248] [0-9]+\.[0-9]+ -?[0-9]+ 0x[0-9a-f]+ 0x[0-9a-f]+`)

func (m *mmiotrace) unknownRecord(kind string, f fields) error {
	var address uint64
	if err := m.whole(kind, &f, column{"time", seconds, nil}, column{"map id", signed, nil},
		column{"address", hex, &address},
		column{"opcode bytes", opcodes, nil}, column{"pc", hex, nil},
		column{"pid", signed, nil}); err != nil {
		return err
	}
	lost := Refuse(m.line,
		"UNKNOWN: the kernel could not decode the instruction that accessed 0x%x: the access is "+
			"lost", address)
	r := m.find(address)
	switch {
	case r == nil && (m.o.Device == "" || m.only):
		return lost
	case r == nil:
		return m.nowhere(address)
	}
	r.of.unknowns++
	if r.of.unknown == nil {
		r.of.unknown = lost
	}
	if r.of.wanted && (len(m.devices) == 1 || r.of == m.chosen) || m.only {
		return lost
	}
	return nil
}

func (m *mmiotrace) markRecord(kind string, f fields) error {
	at := f.next()
	ns, ok := seconds(at)
	if !ok {
		return m.cut(kind, "time", at)
	}
	text := strings.TrimSpace(string(f.rest))
	// The kernel's own mark has no time (mmio_print_mark, mmio_reset_data); a
	// user's may say the same.
	if ns == 0 && lostEvents.MatchString(text) {
		return m.lostRecord([]byte(text))
	}
	if err := m.hides(kind, f.rest); err != nil {
		return err
	}
	m.marks++
	a := Access{Line: m.line, Op: OpMark, Time: int64(ns), Name: text}
	if m.chosen == nil {
		m.early = append(m.early, a)
		return nil
	}
	return m.give(&a)
}

// lostEvents is mmiotrace's own mark, and what trace_pipe puts in where its
// buffer was full.
var lostEvents = regexp.MustCompile(`^(?:CPU:[0-9]+ \[LOST|Lost) ([0-9]+) (?:events\.?|EVENTS\])$`)

func (m *mmiotrace) lostRecord(text []byte) error {
	n := lostEvents.FindSubmatch(text)[1]
	return Refuse(m.line,
		"the kernel lost %s events: the trace is incomplete (record again with a larger "+
			"buffer_size_kb)", n)
}

// give has the sink take an access or a mark, once it is known what the trace is of.
func (m *mmiotrace) give(a *Access) error {
	if m.only || m.board == nil {
		return nil
	}
	return m.to.Access(a)
}

// pcidevRecord reads where a device's BARs lie (mmio_print_pcidev): seven
// resource starts with their flags in the low four bits, then seven sizes.
func (m *mmiotrace) pcidevRecord(kind string, f fields) error {
	text := string(bytes.TrimSpace(f.rest))
	var slot, ids uint64
	var resources [14]uint64
	if err := m.columns(kind, &f, column{"bus and function", hexDigits, &slot},
		column{"vendor and device", hexDigits, &ids},
		column{"irq", hexDigits, nil}); err != nil {
		return err
	}
	for i := range resources {
		field := f.next()
		v, ok := hexDigits(field)
		if !ok {
			return m.cut(kind, fmt.Sprintf("resource %d", i%7), field)
		}
		resources[i] = v
	}
	driver := f.next()
	if more := f.next(); len(more) > 0 {
		return Refuse(m.line, "PCIDEV line has too many fields: %s", shown(more))
	}
	if err := m.hides("PCIDEV record", driver); err != nil {
		return err
	}
	if slot > 0xffff || ids > 0xffffffff {
		return Refuse(m.line, "PCIDEV line has ids of more than 16 bits")
	}
	d := &pciDevice{
		text: text, slot: fmt.Sprintf("%02x:%02x.%x", slot>>8, slot>>3&31, slot&7),
		vendor: uint16(ids >> 16), device: uint16(ids),
	}
	for i := range d.ranges {
		d.ranges[i] = pciRange{of: d, bar: uint8(i), base: resources[i] &^ 0xf,
			size: resources[7+i]}
		if i < expansionROM && resources[i]&1 != 0 {
			d.ranges[i].size = 0 // I/O ports
		}
	}
	d.wanted = !m.only && m.o.wants(d)
	return m.add(d)
}

func (m *mmiotrace) accessRecord(kind string, f fields) error {
	var width, at, address, value uint64
	if err := m.whole(kind, &f, column{"width", decimal, &width}, column{"time", seconds, &at},
		column{"map id", signed, nil},
		column{"address", hex, &address}, column{"value", hex, &value}, column{"pc", hex, nil},
		column{"pid", signed, nil}); err != nil {
		return err
	}
	r := m.find(address)
	if reason := checkAccess(width, address, value, r != nil && r.of.wanted); reason != "" {
		return Refuse(m.line, "%s", reason)
	}
	if r == nil {
		return m.nowhere(address)
	}
	op := OpStore
	if kind == "R" {
		op = OpLoad
	}
	return m.take(r, Access{
		Line: m.line, Op: op, Width: uint8(width), Bar: r.bar, Offset: address - r.base,
		Value: value, Time: int64(at),
	})
}

func (m *mmiotrace) take(r *pciRange, a Access) error {
	if uint64(a.Width) > r.size-a.Offset {
		return Refuse(m.line, "%d bytes at offset 0x%x exceed the end of %s of %s", a.Width,
			a.Offset, r.name(), r.of)
	}
	r.stats.count(a)
	r.of.accesses++
	if !r.of.wanted {
		return nil
	}
	if r.bar == expansionROM {
		return Refuse(m.line, "offset 0x%x of %s of %s: an image cannot access that", a.Offset,
			r.name(), r.of)
	}
	if m.chosen == nil {
		m.choice(r.of)
		for i := range m.early {
			if err := m.give(&m.early[i]); err != nil {
				return err
			}
		}
		m.early = nil
	}
	if r.of != m.chosen {
		m.board = nil // trace says which there are
	}
	return m.give(&a)
}

// trace gives what was read of the one device that was asked for.
func (m *mmiotrace) trace() (*Trace, error) {
	if !m.version {
		return nil, Refuse(0, "no VERSION line: this is not an mmiotrace")
	}
	d, err := m.choose()
	if err != nil {
		return nil, err
	}
	if d.unknown != nil {
		return nil, d.unknown
	}
	t := &Trace{Board: m.board, Vendor: d.vendor, Device: d.device, Lines: m.line}
	if t.Board == nil {
		return nil,
			Usage("no board for %s; boards: %s; use --board generic for any device, or "+
				"--device and --board if a board is similar", d,
				BoardList())
	}
	if b := t.Board; b.Vendor != 0 && (b.Vendor != d.vendor || b.Device != d.device) {
		t.Warnings = append(t.Warnings, Warning{0,
			fmt.Sprintf("%s is imported as board %s (%04x:%04x)", d, t.Board.Name, t.Board.Vendor,
				t.Board.Device)})
	}
	for _, other := range m.devices {
		if other != d && other.accesses > 0 {
			t.Ignored = append(t.Ignored, Count{"accesses to " + other.String(), other.accesses})
		}
		if other != d && other.unknowns > 0 {
			t.Ignored = append(t.Ignored, Count{"accesses that the kernel could not decode to " +
				other.String(), other.unknowns})
		}
	}
	if m.outside > 0 {
		t.Ignored = append(t.Ignored, Count{"accesses outside every BAR", m.outside})
		t.Warnings = append(t.Warnings, Warning{m.lost,
			"the first access outside the BARs of PCIDEV lines; it was left out"})
	}
	return t, nil
}

// summary counts what a trace holds, whatever device it is.
func (m *mmiotrace) summary() *Summary {
	s := &Summary{Lines: m.line}
	for _, d := range m.devices {
		for i := range d.ranges {
			r := &d.ranges[i]
			if r.stats.Loads+r.stats.Stores == 0 {
				continue
			}
			r.stats.Name = d.String() + " " + r.name()
			s.Regions = append(s.Regions, r.stats)
		}
	}
	if m.marks > 0 {
		s.Other = append(s.Other, Count{"marks", m.marks})
	}
	if m.outside > 0 {
		s.Other = append(s.Other, Count{"accesses outside every BAR", m.outside})
	}
	return s
}
