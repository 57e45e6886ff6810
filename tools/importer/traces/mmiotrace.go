package traces

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
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

// pciDevice is one PCIDEV line.
type pciDevice struct {
	text           string
	slot           string // bus, device and function as lspci writes them
	vendor, device uint16
	ranges         [7]pciRange // BAR 0..5 and the expansion ROM
	order          int         // among the devices
	wanted         bool
	accesses       int
	unknown        error // an access that the kernel could not decode
	unknowns       int
}

// pciRange is where one BAR lies, or the expansion ROM.
type pciRange struct {
	of         *pciDevice
	bar        uint8 // 6: expansion ROM
	base, size uint64
	furthest   uint64 // end of this range and of those sorted before it
	stats      RegionSummary
}

const expansionROM = 6

func (r *pciRange) name() string {
	if r.bar == expansionROM {
		return "the expansion ROM"
	}
	return fmt.Sprintf("BAR %d", r.bar)
}

func (d *pciDevice) String() string {
	return fmt.Sprintf("%s %04x:%04x", d.slot, d.vendor, d.device)
}

// mmiotraceRecords are the kinds of lines there are.
var mmiotraceRecords = map[string]func(*mmiotrace, fields) error{
	"VERSION": (*mmiotrace).versionRecord,
	"PCIDEV":  (*mmiotrace).pcidevRecord,
	"MAP":     (*mmiotrace).mapRecord,
	"UNMAP":   (*mmiotrace).unmapRecord,
	"R":       (*mmiotrace).loadRecord,
	"W":       (*mmiotrace).storeRecord,
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
	return &mmiotrace{lineReader: newLineReader(r, o.Progress), o: o, slots: map[string][]*pciDevice{}}
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
		return Refuse(m.line, "%q: the kernel could not say what it recorded", text)
	case record == nil:
		return Refuse(m.line, "%s is no record of mmiotrace", shown(text))
	case !m.version && string(kind) != "VERSION" && string(kind) != "LSPCI":
		return Refuse(m.line, "%s before VERSION: the start of the trace is missing", kind)
	}
	return record(m, f)
}

// cut is the error for a record with a missing or broken field.
func (m *mmiotrace) cut(kind, field string, got []byte) error {
	if len(got) == 0 {
		return Refuse(m.line, "%s record without %s: the line is cut", kind, field)
	}
	return Refuse(m.line, "%s record: %s %s is not a number of its form", kind, field, shown(got))
}

// form is how the kernel prints a field.
type form uint8

const (
	formDecimal form = iota
	formSigned
	formHex    // 0x...
	formDigits // hexadecimal without 0x
	formSeconds
	formOpcodes // 0f,1f,44
)

func (f form) parse(b []byte) (v uint64, ok bool) {
	switch f {
	case formDecimal:
		return decimal(b)
	case formSigned:
		return 0, signed(b)
	case formHex:
		return hex(b)
	case formDigits:
		return hexDigits(b)
	case formSeconds:
		ns, ok := seconds(b)
		return uint64(ns), ok
	}
	for part := range bytes.SplitSeq(b, []byte(",")) {
		if _, ok := hexDigits(part); !ok {
			return 0, false
		}
	}
	return 0, bytes.Count(b, []byte(",")) == 2
}

// column is one field of a record.
type column struct {
	name string
	form form
}

// The fields of the records, in order (mmio_print_rw and mmio_print_map).
var (
	accessColumns = []column{{"width", formDecimal}, {"time", formSeconds}, {"map id", formSigned},
		{"address", formHex}, {"value", formHex}, {"pc", formHex}, {"pid", formSigned}}
	mapColumns = []column{{"time", formSeconds}, {"map id", formSigned}, {"address", formHex},
		{"virtual address", formHex}, {"length", formHex}, {"pc", formHex}, {"pid", formSigned}}
	unmapColumns   = []column{{"time", formSeconds}, {"map id", formSigned}, {"pc", formHex}, {"pid", formSigned}}
	unknownColumns = []column{{"time", formSeconds}, {"map id", formSigned}, {"address", formHex},
		{"opcode bytes", formOpcodes}, {"pc", formHex}, {"pid", formSigned}}
	pcidevColumns = []column{{"bus and function", formDigits}, {"vendor and device", formDigits}, {"irq", formDigits}}
)

// columns parses the fields of a record into values.
func (m *mmiotrace) columns(kind string, f *fields, list []column, values []uint64) error {
	for i, c := range list {
		text := f.next()
		v, ok := c.form.parse(text)
		if !ok {
			return m.cut(kind, c.name, text)
		}
		values[i] = v
	}
	return nil
}

// whole is columns for a record that has nothing behind its last field.
func (m *mmiotrace) whole(kind string, f *fields, list []column, values []uint64) error {
	if err := m.columns(kind, f, list, values); err != nil {
		return err
	}
	if more := f.next(); len(more) > 0 {
		return Refuse(m.line, "%s record with more than its fields: %s", kind, shown(more))
	}
	return nil
}

func (m *mmiotrace) versionRecord(f fields) error {
	if v := f.next(); string(v) != mmiotraceVersion {
		return Refuse(m.line, "version %s of mmiotrace is unknown, only %s is", shown(v), mmiotraceVersion)
	}
	m.version = true
	return nil
}

func (m *mmiotrace) mapRecord(f fields) error {
	var v [7]uint64
	return m.whole("MAP", &f, mapColumns, v[:])
}

func (m *mmiotrace) unmapRecord(f fields) error {
	var v [4]uint64
	return m.whole("UNMAP", &f, unmapColumns, v[:])
}

func (m *mmiotrace) lspciRecord(f fields) error { return m.hides("LSPCI record", f.rest) }

// hides refuses free text with an access in it: the line before has lost its
// end.
func (m *mmiotrace) hides(kind string, text []byte) error {
	if found := accessInText.Find(text); found != nil {
		return Refuse(m.line, "%s with an access in it: %s", kind, shown(found))
	}
	return nil
}

var accessInText = regexp.MustCompile(`[RW] [1248] [0-9]+\.[0-9]+ -?[0-9]+ 0x[0-9a-f]+ 0x[0-9a-f]+`)

func (m *mmiotrace) unknownRecord(f fields) error {
	var v [6]uint64
	if err := m.whole("UNKNOWN", &f, unknownColumns, v[:]); err != nil {
		return err
	}
	lost := Refuse(m.line, "UNKNOWN: the kernel could not decode the instruction that accessed 0x%x: the access is lost", v[2])
	r := m.find(v[2])
	switch {
	case r == nil && (m.o.Device == "" || m.only):
		return lost
	case r == nil:
		return m.nowhere(v[2])
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

func (m *mmiotrace) markRecord(f fields) error {
	at := f.next()
	ns, ok := seconds(at)
	if !ok {
		return m.cut("MARK", "time", at)
	}
	text := strings.TrimSpace(string(f.rest))
	// The kernel's own mark has no time (mmio_print_mark, mmio_reset_data); a
	// user's may say the same.
	if lost := lostEvents.FindStringSubmatch(text); lost != nil && ns == 0 {
		return Refuse(m.line, "the kernel lost %s events: the trace is incomplete (record again with a larger buffer_size_kb)", lost[1])
	}
	if err := m.hides("MARK", f.rest); err != nil {
		return err
	}
	m.marks++
	a := Access{Line: m.line, Op: OpMark, Time: ns, Name: text}
	if m.chosen == nil {
		m.early = append(m.early, a)
		return nil
	}
	return m.give(&a)
}

var lostEvents = regexp.MustCompile(`^Lost ([0-9]+) events\.?$`)

// give has the sink take an access or a mark, once it is known what the trace
// is of.
func (m *mmiotrace) give(a *Access) error {
	if m.only || m.board == nil {
		return nil
	}
	return m.to.Access(a)
}

// pcidevRecord reads where a device's BARs lie (mmio_print_pcidev): seven
// resource starts with their flags in the low four bits, then seven sizes.
func (m *mmiotrace) pcidevRecord(f fields) error {
	text := string(bytes.TrimSpace(f.rest))
	var id [3]uint64
	var resources [14]uint64
	if err := m.columns("PCIDEV", &f, pcidevColumns, id[:]); err != nil {
		return err
	}
	for i := range resources {
		field := f.next()
		v, ok := hexDigits(field)
		if !ok {
			return m.cut("PCIDEV", fmt.Sprintf("resource %d", i%7), field)
		}
		resources[i] = v
	}
	driver := f.next()
	if more := f.next(); len(more) > 0 {
		return Refuse(m.line, "PCIDEV record with more than its fields: %s", shown(more))
	}
	if err := m.hides("PCIDEV record", driver); err != nil {
		return err
	}
	if id[0] > 0xffff || id[1] > 0xffffffff {
		return Refuse(m.line, "PCIDEV record with ids wider than PCI has")
	}
	d := &pciDevice{
		text: text, slot: fmt.Sprintf("%02x:%02x.%x", id[0]>>8, id[0]>>3&31, id[0]&7),
		vendor: uint16(id[1] >> 16), device: uint16(id[1]),
	}
	for i := range d.ranges {
		d.ranges[i] = pciRange{of: d, bar: uint8(i), base: resources[i] &^ 0xf, size: resources[7+i]}
		if i < expansionROM && resources[i]&1 != 0 {
			d.ranges[i].size = 0 // I/O ports
		}
	}
	d.wanted = !m.only && m.o.wants(d)
	return m.add(d)
}

// add takes a device; trace_pipe repeats all of them each time it is opened.
// Lines do not tell the PCI domain: where a device was asked for, one with the
// slot of another is one of another domain.
func (m *mmiotrace) add(d *pciDevice) error {
	for _, old := range m.slots[d.slot] {
		if old.text == d.text {
			return nil
		}
		if m.o.Device == "" && !m.only {
			return Refuse(m.line, "PCIDEV %s has other ids or ranges than before", d.slot)
		}
	}
	d.order = len(m.devices)
	m.devices, m.slots[d.slot], m.ranges = append(m.devices, d), append(m.slots[d.slot], d), nil
	return nil
}

// wants tells whether a device can be the one to import.
func (o *Source) wants(d *pciDevice) bool {
	id := fmt.Sprintf("%04x:%04x", d.vendor, d.device)
	switch {
	case o.Device != "":
		return strings.EqualFold(o.Device, id) || strings.EqualFold(o.Device, d.slot) ||
			strings.EqualFold(strings.TrimPrefix(o.Device, "0000:"), d.slot)
	case o.Board != nil && o.Board.Vendor != 0:
		return o.Board.Vendor == d.vendor && o.Board.Device == d.device
	}
	return true
}

func (m *mmiotrace) loadRecord(f fields) error  { return m.access(OpLoad, "R", f) }
func (m *mmiotrace) storeRecord(f fields) error { return m.access(OpStore, "W", f) }

func (m *mmiotrace) access(op Op, kind string, f fields) error {
	var v [7]uint64
	if err := m.whole(kind, &f, accessColumns, v[:]); err != nil {
		return err
	}
	width, address, value := v[0], v[3], v[4]
	if reason := checkAccess(width, address, value); reason != "" {
		return Refuse(m.line, "%s", reason)
	}
	r := m.find(address)
	if r == nil {
		return m.nowhere(address)
	}
	return m.take(r, Access{
		Line: m.line, Op: op, Width: uint8(width), Bar: r.bar, Offset: address - r.base, Value: value, Time: int64(v[1]),
	})
}

// find gives the range that holds an address, of several that of the first
// device.
func (m *mmiotrace) find(address uint64) (found *pciRange) {
	if m.last != nil && address-m.last.base < m.last.size {
		return m.last
	}
	if m.ranges == nil {
		m.sortRanges()
	}
	after, _ := slices.BinarySearchFunc(m.ranges, address, func(r *pciRange, address uint64) int {
		if r.base <= address {
			return -1
		}
		return 1
	})
	for i := after - 1; i >= 0 && m.ranges[i].furthest > address; i-- {
		if r := m.ranges[i]; address-r.base < r.size && (found == nil || r.of.order < found.of.order) {
			found = r
		}
	}
	if found != nil {
		m.last = found
	}
	return found
}

func (m *mmiotrace) sortRanges() {
	for _, d := range m.devices {
		for i := range d.ranges {
			if r := &d.ranges[i]; r.base != 0 && r.size != 0 {
				m.ranges = append(m.ranges, r)
			}
		}
	}
	slices.SortStableFunc(m.ranges, func(a, b *pciRange) int { return cmp.Compare(a.base, b.base) })
	furthest := uint64(0)
	for _, r := range m.ranges {
		furthest = max(furthest, r.base+r.size)
		r.furthest = furthest
	}
}

// nowhere refuses an access that belongs to no device of the trace, unless the
// user has named the device that counts.
func (m *mmiotrace) nowhere(address uint64) error {
	if m.o.Device == "" && !m.only {
		return Refuse(m.line, "address 0x%x lies in no BAR of a PCIDEV line", address)
	}
	if m.outside == 0 {
		m.lost = m.line
	}
	m.outside++
	return nil
}

func (m *mmiotrace) take(r *pciRange, a Access) error {
	if uint64(a.Width) > r.size-a.Offset {
		return Refuse(m.line, "%d bytes at offset 0x%x reach over the end of %s of %s", a.Width, a.Offset, r.name(), r.of)
	}
	r.stats.count(a)
	r.of.accesses++
	if !r.of.wanted {
		return nil
	}
	if r.bar == expansionROM {
		return Refuse(m.line, "offset 0x%x of %s of %s: an image cannot access that", a.Offset, r.name(), r.of)
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

// choice takes the first device that was wanted and accessed. Another one that
// is makes the choice the user's.
func (m *mmiotrace) choice(d *pciDevice) {
	m.chosen, m.board = d, m.o.Board
	if m.board == nil {
		m.board = boards.ByID(d.vendor, d.device)
	}
	if m.board != nil && !m.only {
		m.to.Start(m.board)
	}
}

// trace gives what was read of the one device that was asked for.
func (m *mmiotrace) trace() (*Trace, error) {
	if !m.version {
		return nil, Refuse(0, "no VERSION line: this is no mmiotrace")
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
		return nil, Usage("no board for %s; boards: %s; --board generic takes any, and name both, device and board, if one of them is like it", d, BoardList())
	}
	if b := t.Board; b.Vendor != 0 && (b.Vendor != d.vendor || b.Device != d.device) {
		t.Warnings = append(t.Warnings, Warning{0, fmt.Sprintf("%s is imported as board %s (%04x:%04x)", d, t.Board.Name, t.Board.Vendor, t.Board.Device)})
	}
	for _, other := range m.devices {
		if other != d && other.accesses > 0 {
			t.Ignored = append(t.Ignored, Count{"accesses to " + other.String(), other.accesses})
		}
		if other != d && other.unknowns > 0 {
			t.Ignored = append(t.Ignored, Count{"accesses that the kernel could not decode to " + other.String(), other.unknowns})
		}
	}
	if m.outside > 0 {
		t.Ignored = append(t.Ignored, Count{"accesses outside every BAR", m.outside})
		t.Warnings = append(t.Warnings, Warning{m.lost, "the first access that lies in no BAR of a PCIDEV line and was left out"})
	}
	return t, nil
}

func (m *mmiotrace) choose() (*pciDevice, error) {
	var chosen []*pciDevice
	for _, d := range m.devices {
		if d.wanted && d.accesses > 0 {
			chosen = append(chosen, d)
		}
	}
	switch {
	case len(chosen) == 1:
		return chosen[0], nil
	case len(chosen) > 1:
		return nil, Usage("accesses to several devices: %s; choose one by VVVV:DDDD or BB:DD.F", deviceList(chosen))
	case m.o.Device != "":
		return nil, Usage("no access to device %s; devices in the trace: %s", m.o.Device, deviceList(m.devices))
	case m.o.Board != nil:
		return nil, Usage("no access to board %s (%04x:%04x); devices in the trace: %s",
			m.o.Board.Name, m.o.Board.Vendor, m.o.Board.Device, deviceList(m.devices))
	}
	return nil, Refuse(0, "the trace holds no access to a device")
}

func deviceList(devices []*pciDevice) string {
	const shownMax = 8
	var list []string
	for i, d := range devices {
		if i == shownMax {
			list = append(list, fmt.Sprintf("and %d more", len(devices)-i))
			break
		}
		list = append(list, fmt.Sprintf("%s (%s)", d, Counted(d.accesses, "access")))
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
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
