package traces

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"

	"lightmetal/boards"
)

// mmiotraceVersion is the only version of the text format so far (Linux,
// kernel/trace/trace_mmiotrace.c).
const mmiotraceVersion = "20070824"

// mmiotrace reads Linux's mmiotrace text format.
type mmiotrace struct {
	*lineReader
	source       Source
	sink         Sink
	summaryOnly  bool // only count accesses for a summary
	hasVersion   bool
	devices      []*pciDevice
	slots        map[string][]*pciDevice
	ranges       []*pciRange // sorted by base; nil: must be sorted again because a device was added
	lastRange    *pciRange   // range of the last access, which most next accesses are in, too
	chosen       *pciDevice  // the first wanted device that was accessed
	board        *boards.Board
	outsideCount int // number of accesses outside every BAR, if the user has named a device
	outsideLine  int // line of the first access outside every BAR
	early        []earlyAccess
	markCount    int
	lostCount    int // lines that no image can repeat, for a summary
	firstLost    Warning
}

// earlyAccess is a mark, or a line that no image can repeat, before the first access to a BAR.
type earlyAccess struct {
	Access
	device *pciDevice // nil: any
}

// mmiotraceRecords maps the kinds of lines to the methods that parse them.
var mmiotraceRecords = map[string]func(m *mmiotrace, kind string, f fields) error{
	"VERSION": (*mmiotrace).parseVersion,
	"PCIDEV":  (*mmiotrace).parsePCIDev,
	"MAP":     (*mmiotrace).parseMap,
	"UNMAP":   (*mmiotrace).parseUnmap,
	"R":       (*mmiotrace).parseAccess,
	"W":       (*mmiotrace).parseAccess,
	"UNKNOWN": (*mmiotrace).parseUnknown,
	"MARK":    (*mmiotrace).parseMark,
	"LSPCI":   (*mmiotrace).parseLSPCI,
}

func readMmiotrace(r io.Reader, o Source, to Sink) (*Trace, error) {
	m := newMmiotrace(r, o)
	m.sink = to
	if err := m.eachLine(m.parseLine); err != nil {
		return nil, err
	}
	return m.result()
}

func newMmiotrace(r io.Reader, o Source) *mmiotrace {
	return &mmiotrace{lineReader: newLineReader(r, o.Progress), source: o,
		slots: map[string][]*pciDevice{}}
}

func (m *mmiotrace) parseLine(text []byte) error {
	f := fields{text}
	kind := f.nextField()
	if len(kind) == 0 || kind[0] == '#' {
		return m.checkNoAccess("comment", text) // a comment of ftrace
	}
	record := mmiotraceRecords[string(kind)]
	switch {
	case record == nil && (string(text) == "rw what?" || string(text) == "map what?"):
		return TraceError(m.line, "%q: the kernel could not decode this access, so the trace "+
			"lacks it; record with lm record or QEMU instead", text)
	case record == nil && lostEvents.Match(text):
		return m.addLost(text)
	case record == nil:
		return TraceError(m.line, "%s is not a line of mmiotrace", quoteStart(text))
	case !m.hasVersion && string(kind) != "VERSION" && string(kind) != "LSPCI":
		return TraceError(m.line,
			"the VERSION line must come before this %s line: "+
				"enable mmiotrace, then run cat /sys/kernel/tracing/trace_pipe >FILE", kind)
	}
	return record(m, string(kind), f)
}

// fieldError returns the error for a record with a missing or invalid field.
func (m *mmiotrace) fieldError(kind, field string, got []byte) error {
	if len(got) == 0 {
		return TraceError(m.line, "the %s line is cut: %s is missing", kind, field)
	}
	return TraceError(m.line, "%s line: %s %s is not a number of the expected form", kind, field,
		quoteStart(got))
}

// parseFirst parses the first fields of a record, in the order of the kernel's mmio_print_rw and
// mmio_print_map.
func (m *mmiotrace) parseFirst(kind string, f *fields, list ...column) error {
	if bad, text := f.parseColumns(list); bad < len(list) {
		// clone the name, or else the parsed values would be allocated for each line
		return m.fieldError(kind, strings.Clone(list[bad].name), text)
	}
	return nil
}

// parseAll parses all fields of a record, and returns an error if more follow.
func (m *mmiotrace) parseAll(kind string, f *fields, list ...column) error {
	if err := m.parseFirst(kind, f, list...); err != nil {
		return err
	}
	if more := f.nextField(); len(more) > 0 {
		return TraceError(m.line, "%s line has too many fields: %s", kind, quoteStart(more))
	}
	return nil
}

func (m *mmiotrace) parseVersion(_ string, f fields) error {
	if v := f.nextField(); string(v) != mmiotraceVersion {
		return TraceError(m.line, "version %s of mmiotrace is unknown; it must be %s",
			quoteStart(v),
			mmiotraceVersion)
	}
	m.hasVersion = true
	return nil
}

func (m *mmiotrace) parseMap(kind string, f fields) error {
	return m.parseAll(kind, &f, column{"time", seconds, nil}, column{"map id", signed, nil},
		column{"address", hex, nil},
		column{"virtual address", hex, nil}, column{"length", hex, nil}, column{"pc", hex, nil},
		column{"pid", signed, nil})
}

func (m *mmiotrace) parseUnmap(kind string, f fields) error {
	return m.parseAll(kind, &f, column{"time", seconds, nil}, column{"map id", signed, nil},
		column{"pc", hex, nil}, column{"pid", signed, nil})
}

func (m *mmiotrace) parseLSPCI(kind string, f fields) error {
	return m.checkNoAccess(kind+" record", f.rest)
}

// checkNoAccess returns an error if free text contains an access, because then the previous line
// has lost its end.
func (m *mmiotrace) checkNoAccess(kind string, text []byte) error {
	if found := accessInText.Find(text); found != nil {
		return TraceError(m.line,
			"the %s contains the text of an access (%s), so the trace is damaged: record again",
			kind, quoteStart(found))
	}
	return nil
}

var accessInText = regexp.MustCompile(`[RW] [1248] [0-9]+\.[0-9]+ -?[0-9]+ 0x[0-9a-f]+ 0x[0-9a-f]+`)

// unknownOpcode returns the bytes of the instruction in an UNKNOWN line.
func unknownOpcode(rest []byte) []byte {
	f := fields{rest}
	for range 3 { // time, map id, address
		f.nextField()
	}
	return f.nextField()
}

func (m *mmiotrace) parseUnknown(kind string, f fields) error {
	var address uint64
	opcode := unknownOpcode(f.rest)
	if err := m.parseAll(kind, &f, column{"time", seconds, nil}, column{"map id", signed, nil},
		column{"address", hex, &address},
		column{"opcode bytes", opcodes, nil}, column{"pc", hex, nil},
		column{"pid", signed, nil}); err != nil {
		return err
	}
	r := m.rangeAt(address)
	if r == nil && m.source.Device != "" && !m.summaryOnly {
		return m.countOutside(address)
	}
	var device *pciDevice
	if r != nil {
		device = r.device
		device.undecodedCount++
	}
	return m.addUnusable(device, OpLost, "UNKNOWN: the kernel could not decode the instruction "+
		"(%s) that accessed 0x%x: the access is lost; %s", opcode, address, undecodedRemedy(opcode))
}

// undecodedRemedy returns the cause of an UNKNOWN line and a remedy. mmiotrace cannot decode string
// instructions, which repeat an access.
func undecodedRemedy(opcode []byte) string {
	cause := ""
	for _, known := range [...][2]string{
		{"f3,a4", "rep movs, which copies: memcpy_toio or memcpy_fromio"},
		{"f3,a5", "rep movs, which copies: memcpy_toio or memcpy_fromio"},
		{"f3,aa", "rep stos, which fills: memset_io"},
		{"f3,ab", "rep stos, which fills: memset_io"},
	} {
		if bytes.HasPrefix(opcode, []byte(known[0])) {
			cause = "it is " + known[1] + "; "
		}
	}
	return cause + "record the driver in a virtual machine with QEMU's trace, " +
		"or import lines without it with --part"
}

// addUnusable passes on a line that no image can repeat: an error, unless it is left out.
func (m *mmiotrace) addUnusable(d *pciDevice, op Op, format string, a ...any) error {
	unusable := earlyAccess{Access{Line: m.line, Op: op, Name: fmt.Sprintf(format, a...)}, d}
	switch {
	case m.summaryOnly:
		if m.lostCount++; m.lostCount == 1 {
			m.firstLost = Warning{m.line, unusable.Name}
		}
	case m.chosen == nil:
		m.addEarly(unusable)
	case d == nil || d == m.chosen:
		return m.passOn(&unusable.Access)
	}
	return nil
}

// addEarly keeps a line until the device is known. Of more than two lines of one kind and device in
// a row, the first and the last are enough.
func (m *mmiotrace) addEarly(a earlyAccess) {
	n := len(m.early)
	isLike := func(b earlyAccess) bool {
		return b.Op == a.Op && a.Op != OpMark && b.device == a.device
	}
	if n >= 2 && isLike(m.early[n-1]) && isLike(m.early[n-2]) {
		m.early = m.early[:n-1]
	}
	m.early = append(m.early, a)
}

func (m *mmiotrace) parseMark(kind string, f fields) error {
	at := f.nextField()
	ns, ok := seconds(at)
	if !ok {
		return m.fieldError(kind, "time", at)
	}
	text := strings.TrimSpace(string(f.rest))
	// The kernel writes its own mark without a time (mmio_print_mark, mmio_reset_data). A user's
	// mark may have the same text.
	if ns == 0 && lostEvents.MatchString(text) {
		return m.addLost([]byte(text))
	}
	if err := m.checkNoAccess(kind, f.rest); err != nil {
		return err
	}
	m.markCount++
	a := Access{Line: m.line, Op: OpMark, Time: int64(ns), Name: text}
	if m.chosen == nil {
		m.addEarly(earlyAccess{a, nil})
		return nil
	}
	return m.passOn(&a)
}

// lostEvents matches the kernel's mark about lost events, and the text that trace_pipe inserts if
// its buffer was full.
var lostEvents = regexp.MustCompile(`^(?:CPU:[0-9]+ \[LOST|Lost) ([0-9]+) (?:events\.?|EVENTS\])$`)

const lostEventsText = "the kernel lost %s events: " +
	"the trace is incomplete (record again with a larger buffer_size_kb)"

func (m *mmiotrace) addLost(text []byte) error {
	return m.addUnusable(nil, OpLost, lostEventsText, lostEvents.FindSubmatch(text)[1])
}

// passOn passes an access or a mark to the sink, unless the board is unknown.
func (m *mmiotrace) passOn(a *Access) error {
	if m.summaryOnly || m.board == nil {
		return nil
	}
	return m.sink.Access(a)
}

// parsePCIDev parses the BARs of a device (mmio_print_pcidev): seven start addresses with flags in
// the lowest four bits, then seven sizes.
func (m *mmiotrace) parsePCIDev(kind string, f fields) error {
	text := string(bytes.TrimSpace(f.rest))
	var slot, ids uint64
	var resources [14]uint64
	if err := m.parseFirst(kind, &f, column{"bus and function", hexDigits, &slot},
		column{"vendor and device", hexDigits, &ids},
		column{"irq", hexDigits, nil}); err != nil {
		return err
	}
	for i := range resources {
		field := f.nextField()
		v, ok := hexDigits(field)
		if !ok {
			return m.fieldError(kind, fmt.Sprintf("resource %d", i%7), field)
		}
		resources[i] = v
	}
	driver := f.nextField()
	if more := f.nextField(); len(more) > 0 {
		return TraceError(m.line, "PCIDEV line has too many fields: %s", quoteStart(more))
	}
	if err := m.checkNoAccess("PCIDEV record", driver); err != nil {
		return err
	}
	if slot > 0xffff || ids > 0xffffffff {
		return TraceError(m.line, "in the PCIDEV line, the slot %x must have at most 4 "+
			"hexadecimal digits, and the ids %x at most 8", slot, ids)
	}
	d := &pciDevice{
		text: text, slot: fmt.Sprintf("%02x:%02x.%x", slot>>8, slot>>3&31, slot&7),
		vendor: uint16(ids >> 16), device: uint16(ids),
	}
	for i := range d.ranges {
		d.ranges[i] = pciRange{device: d, bar: uint8(i), base: resources[i] &^ 0xf,
			size: resources[7+i]}
		if i < expansionROM && resources[i]&1 != 0 {
			d.ranges[i].size = 0 // I/O ports
		}
	}
	d.isWanted = !m.summaryOnly && m.source.mayImport(d)
	return m.addDevice(d)
}

func (m *mmiotrace) parseAccess(kind string, f fields) error {
	var width, at, address, value uint64
	if err := m.parseAll(kind, &f, column{"width", decimal, &width}, column{"time", seconds, &at},
		column{"map id", signed, nil},
		column{"address", hex, &address}, column{"value", hex, &value}, column{"pc", hex, nil},
		column{"pid", signed, nil}); err != nil {
		return err
	}
	r := m.rangeAt(address)
	if reason := checkAccess(width, value); reason != "" {
		return TraceError(m.line, "%s", reason)
	}
	if r == nil {
		return m.countOutside(address)
	}
	if reason := alignmentText(width, address); reason != "" && r.device.isWanted {
		return m.addUnusable(r.device, OpRejected, "%s", reason)
	}
	op := OpStore
	if kind == "R" {
		op = OpLoad
	}
	return m.addAccess(r, Access{
		Line: m.line, Op: op, Width: uint8(width), Bar: r.bar, Offset: address - r.base,
		Value: value, Time: int64(at),
	})
}

func (m *mmiotrace) addAccess(r *pciRange, a Access) error {
	if uint64(a.Width) > r.size-a.Offset {
		return m.addUnusable(r.device, OpRejected,
			"%d bytes at offset 0x%x exceed the end of %s of %s", a.Width, a.Offset, r.name(),
			r.device)
	}
	r.stats.count(a)
	if r.bar == expansionROM && r.device.isWanted {
		r.device.romAccesses++
		return m.addUnusable(r.device, OpRejected,
			"access to offset 0x%x of %s of %s: an image can access only BARs; "+
				"import lines without it with --part", a.Offset, r.name(), r.device)
	}
	r.device.accesses++
	if !r.device.isWanted {
		return nil
	}
	if m.chosen == nil {
		m.chooseFirst(r.device)
		for i := range m.early {
			e := &m.early[i]
			if e.device != nil && e.device != m.chosen {
				continue
			}
			if err := m.passOn(&e.Access); err != nil {
				return err
			}
		}
		m.early = nil
	}
	if r.device != m.chosen {
		m.board = nil // several devices were accessed: result returns an error that lists them
	}
	return m.passOn(&a)
}

func (m *mmiotrace) result() (*Trace, error) {
	if !m.hasVersion {
		return nil,
			TraceError(0, "the VERSION line is missing, so the file is not a trace of mmiotrace")
	}
	d, err := m.chosenDevice()
	if err != nil {
		return nil, err
	}
	t := &Trace{Board: m.board, Vendor: d.vendor, Device: d.device, Lines: m.line}
	if t.Board == nil {
		return nil,
			UsageError("lm has no board for %s; use --board generic, "+
				"or --device and --board for a similar board; boards: %s", d, BoardList())
	}
	if b := t.Board; b.Vendor != 0 && (b.Vendor != d.vendor || b.Device != d.device) {
		t.Warnings = append(t.Warnings, Warning{0,
			fmt.Sprintf("%s is imported as board %s (%04x:%04x)", d, t.Board.Name, t.Board.Vendor,
				t.Board.Device)})
	}
	for _, other := range m.devices {
		if n := other.accesses + other.romAccesses; other != d && n > 0 {
			t.Ignored = append(t.Ignored, Count{"accesses to " + other.String(), n})
		}
		if other != d && other.undecodedCount > 0 {
			t.Ignored = append(t.Ignored, Count{"accesses to " + other.String() +
				" that the kernel could not decode", other.undecodedCount})
		}
	}
	if m.outsideCount > 0 {
		t.Ignored = append(t.Ignored, Count{"accesses outside every BAR", m.outsideCount})
		t.Warnings = append(t.Warnings, Warning{m.outsideLine,
			"this and all other accesses outside the BARs of PCIDEV lines are left out"})
	}
	return t, nil
}

// summary returns the numbers of accesses to all devices.
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
	if m.markCount > 0 {
		s.Other = append(s.Other, Count{"marks", m.markCount})
	}
	if m.outsideCount > 0 {
		s.Other = append(s.Other, Count{"accesses outside every BAR", m.outsideCount})
		if len(m.devices) == 0 {
			s.Blocked = append(s.Blocked, Warning{m.outsideLine, noPCIDevText})
		}
	}
	if m.lostCount > 0 {
		s.Other = append(s.Other, Count{"lines that no image can repeat", m.lostCount})
		s.Blocked = append(s.Blocked, m.firstLost)
	}
	return s
}
