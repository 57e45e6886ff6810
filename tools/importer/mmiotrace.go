package importer

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"lightmetal/boards"
)

// mmiotraceVersion is the only version of the text format there has been
// (Linux, kernel/trace/trace_mmiotrace.c).
const mmiotraceVersion = "20070824"

// mmiotrace reads Linux's mmiotrace text format.
type mmiotrace struct {
	*lineReader
	o        Options
	only     bool // count, and take nothing
	version  bool
	devices  []*pciDevice
	last     *pciRange // the range of the access before: most are in the same
	outside  int       // accesses outside every BAR, where a device was asked for by name
	lost     int       // line of the first of them
	accesses []Access
	marks    int
}

// pciDevice is one PCIDEV line.
type pciDevice struct {
	text           string
	slot           string // bus, device and function as lspci writes them
	vendor, device uint16
	ranges         [7]pciRange // BAR 0..5 and the expansion ROM
	wanted         bool
	accesses       int
}

// pciRange is where one BAR lies, or the expansion ROM.
type pciRange struct {
	of         *pciDevice
	bar        uint8 // 6: expansion ROM
	base, size uint64
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

func readMmiotrace(r io.Reader, o Options) (*Trace, error) {
	m := &mmiotrace{lineReader: newLineReader(r, o.Progress), o: o}
	if err := m.read(); err != nil {
		return nil, err
	}
	return m.trace()
}

func (m *mmiotrace) read() error {
	for {
		text, err := m.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := m.record(text); err != nil {
			return err
		}
	}
}

func (m *mmiotrace) record(text []byte) error {
	f := fields{text}
	kind := f.next()
	if len(kind) == 0 || kind[0] == '#' {
		return nil // ftrace's own comments
	}
	record := mmiotraceRecords[string(kind)]
	switch {
	case record == nil && (string(text) == "rw what?" || string(text) == "map what?"):
		return refuse(m.line, "%q: the kernel could not say what it recorded", text)
	case record == nil:
		return refuse(m.line, "%s is no record of mmiotrace", shown(text))
	case !m.version && string(kind) != "VERSION" && string(kind) != "LSPCI":
		return refuse(m.line, "%s before VERSION: the start of the trace is missing", kind)
	}
	return record(m, f)
}

// cut is the error for a record with a missing or broken field.
func (m *mmiotrace) cut(kind, field string, got []byte) error {
	if len(got) == 0 {
		return refuse(m.line, "%s record without %s: the line is cut", kind, field)
	}
	return refuse(m.line, "%s record: %s %s is not a number of its form", kind, field, shown(got))
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
		return refuse(m.line, "%s record with more than its fields: %s", kind, shown(more))
	}
	return nil
}

func (m *mmiotrace) versionRecord(f fields) error {
	if v := f.next(); string(v) != mmiotraceVersion {
		return refuse(m.line, "version %s of mmiotrace is unknown, only %s is", shown(v), mmiotraceVersion)
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

func (m *mmiotrace) lspciRecord(fields) error { return nil }

func (m *mmiotrace) unknownRecord(f fields) error {
	var v [6]uint64
	if err := m.whole("UNKNOWN", &f, unknownColumns, v[:]); err != nil {
		return err
	}
	return refuse(m.line, "UNKNOWN: the kernel could not decode the instruction that accessed 0x%x: the access is lost", v[2])
}

func (m *mmiotrace) markRecord(f fields) error {
	at := f.next()
	ns, ok := seconds(at)
	if !ok {
		return m.cut("MARK", "time", at)
	}
	text := strings.TrimSpace(string(f.rest))
	var events uint64
	if n, _ := fmt.Sscanf(text, "Lost %d events", &events); n == 1 {
		return refuse(m.line, "the kernel lost %d events: the trace is incomplete (record again with a larger buffer_size_kb)", events)
	}
	m.accesses = append(m.accesses, Access{Line: m.line, Op: OpMark, Time: ns, Name: text})
	m.marks++
	return nil
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
	if id[0] > 0xffff || id[1] > 0xffffffff {
		return refuse(m.line, "PCIDEV record with ids wider than PCI has")
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
func (m *mmiotrace) add(d *pciDevice) error {
	for _, old := range m.devices {
		if old.slot == d.slot && old.text == d.text {
			return nil
		}
		if old.slot == d.slot {
			return refuse(m.line, "PCIDEV %s has other ids or ranges than before", d.slot)
		}
	}
	m.devices = append(m.devices, d)
	return nil
}

// wants tells whether a device can be the one to import.
func (o *Options) wants(d *pciDevice) bool {
	id := fmt.Sprintf("%04x:%04x", d.vendor, d.device)
	switch {
	case o.Device != "":
		return strings.EqualFold(o.Device, id) || strings.EqualFold(o.Device, d.slot) ||
			strings.EqualFold(strings.TrimPrefix(o.Device, "0000:"), d.slot)
	case o.Board != nil:
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
		return refuse(m.line, "%s", reason)
	}
	r := m.find(address)
	if r == nil {
		return m.nowhere(address)
	}
	return m.take(r, Access{
		Line: m.line, Op: op, Width: uint8(width), Bar: r.bar, Offset: address - r.base, Value: value, Time: int64(v[1]),
	})
}

// find gives the range that holds an address.
func (m *mmiotrace) find(address uint64) *pciRange {
	if m.last != nil && address-m.last.base < m.last.size {
		return m.last
	}
	for _, d := range m.devices {
		for i := range d.ranges {
			r := &d.ranges[i]
			if r.base != 0 && address-r.base < r.size {
				m.last = r
				return r
			}
		}
	}
	return nil
}

// nowhere refuses an access that belongs to no device of the trace, unless the
// user has named the device that counts.
func (m *mmiotrace) nowhere(address uint64) error {
	if m.o.Device == "" && !m.only {
		return refuse(m.line, "address 0x%x lies in no BAR of a PCIDEV line", address)
	}
	if m.outside == 0 {
		m.lost = m.line
	}
	m.outside++
	return nil
}

func (m *mmiotrace) take(r *pciRange, a Access) error {
	if uint64(a.Width) > r.size-a.Offset {
		return refuse(m.line, "%d bytes at offset 0x%x reach over the end of %s of %s", a.Width, a.Offset, r.name(), r.of)
	}
	r.stats.count(a)
	r.of.accesses++
	if !r.of.wanted {
		return nil
	}
	if r.bar == expansionROM {
		return refuse(m.line, "offset 0x%x of %s of %s: an image cannot access that", a.Offset, r.name(), r.of)
	}
	m.accesses = append(m.accesses, a)
	return nil
}

// trace gives the accesses of the one device that was asked for.
func (m *mmiotrace) trace() (*Trace, error) {
	if !m.version {
		return nil, refuse(0, "no VERSION line: this is no mmiotrace")
	}
	d, err := m.choose()
	if err != nil {
		return nil, err
	}
	t := &Trace{Accesses: m.accesses, Board: m.o.Board, Vendor: d.vendor, Device: d.device, Lines: m.line}
	if t.Board == nil {
		t.Board = boards.ByID(d.vendor, d.device)
	}
	if t.Board == nil {
		return nil, usage("no board for %s; boards: %s; name both, device and board, if one of them is like it", d, boardList())
	}
	if t.Board.Vendor != d.vendor || t.Board.Device != d.device {
		t.Warnings = append(t.Warnings, Warning{0, fmt.Sprintf("%s is imported as board %s (%04x:%04x)", d, t.Board.Name, t.Board.Vendor, t.Board.Device)})
	}
	for _, other := range m.devices {
		if other != d && other.accesses > 0 {
			t.Ignored = append(t.Ignored, Count{"accesses to " + other.String(), other.accesses})
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
		return nil, usage("accesses to several devices: %s; choose one by VVVV:DDDD or BB:DD.F", deviceList(chosen))
	case m.o.Device != "":
		return nil, usage("no access to device %s; devices in the trace: %s", m.o.Device, deviceList(m.devices))
	case m.o.Board != nil:
		return nil, usage("no access to board %s (%04x:%04x); devices in the trace: %s",
			m.o.Board.Name, m.o.Board.Vendor, m.o.Board.Device, deviceList(m.devices))
	}
	return nil, refuse(0, "the trace holds no access to a device")
}

func deviceList(devices []*pciDevice) string {
	var list []string
	for _, d := range devices {
		list = append(list, fmt.Sprintf("%s (%s)", d, counted(d.accesses, "access")))
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
