package traces

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"lightmetal/fbs"
)

// Region is a memory region of QEMU's that is one BAR of the device.
//
// Name is the region's name as QEMU writes it between quotes, Base the
// guest-physical address of the BAR. Where the trace has no names (older
// QEMU), and where Name is empty, the BAR's range from Base on decides. For
// vfio_region events Name is the device (0000:01:00.0, all its BARs) or one
// region of it (0000:01:00.0:region0), and Base and Bar are not used.
type Region struct {
	Name string
	Base uint64
	Bar  uint8

	mr uint64 // QEMU's own number of it: another device's of that name has another; 0: not seen yet
}

// qemuEvents are the trace events that hold an access (QEMU, system/trace-events and
// hw/vfio/trace-events).
var qemuEvents = map[string]struct {
	take func(*qemu, Op, fields, int64) error
	op   Op
}{
	"memory_region_ops_read":  {(*qemu).ops, OpLoad},
	"memory_region_ops_write": {(*qemu).ops, OpStore},
	"vfio_region_read":        {(*qemu).vfio, OpLoad},
	"vfio_region_write":       {(*qemu).vfio, OpStore},
}

// backendPrefix is what ftrace, with the time, and syslog put in front of what
// QEMU's backends of these names write.
var backendPrefix = regexp.MustCompile(
	`^(?:[^[]*-\d+ +\[\d+\] [^:]* (\d+\.\d+): tracing_mark_write: |` +
		`(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8} )?\S+ [^ :]+\[\d+\]: )`)

// unnamed is how a summary calls what QEMU gave no name.
const unnamed = "(no name)"

// otherEventsMax bounds the names that are counted apart; the rest is one.
const otherEventsMax = 256

// qemu reads the output of QEMU's log trace backend.
type qemu struct {
	*lineReader
	o        Source
	regions  []Region // that make up the device
	seen     map[string]*RegionSummary
	other    map[string]int // lines of other events
	baseless string         // a chosen region whose base is not known
	outside  int            // accesses of regions that were not chosen
	apart    map[uint64]int // lines of those that have a chosen one's name, by QEMU's number
	taken    int            // of those that were
	to       Sink
	only     bool // count, wherever it is
}

func newQemu(r io.Reader, o Source, to Sink) *qemu {
	return &qemu{lineReader: newLineReader(r, o.Progress), o: o, to: to,
		regions: slices.Clone(o.Regions), seen: map[string]*RegionSummary{},
		other: map[string]int{}, apart: map[uint64]int{}}
}

func readQemu(r io.Reader, o Source, to Sink) (*Trace, error) {
	if o.Board == nil {
		return nil,
			Usage("a trace of QEMU does not name its device; use --board; boards: %s",
				BoardList())
	}
	q := newQemu(r, o, to)
	if err := q.checkRegions(); err != nil {
		return nil, err
	}
	to.Start(o.Board)
	if err := q.each(q.record); err != nil {
		return nil, err
	}
	return q.trace()
}

func (q *qemu) checkRegions() error {
	for _, r := range q.regions {
		if int(r.Bar) >= len(q.o.Board.BarSizes) || q.o.Board.BarSizes[r.Bar] == 0 {
			return Usage("board %s has no BAR %d", q.o.Board.Name, r.Bar)
		}
		if r.Base%16 != 0 || r.Base > math.MaxUint64-q.o.Board.BarSizes[r.Bar] {
			return Usage("base 0x%x is not the address of a BAR", r.Base)
		}
	}
	return nil
}

func (q *qemu) record(text []byte) error {
	rest, at := q.timestamp(text)
	f := fields{rest}
	event := f.next()
	record, known := qemuEvents[string(event)]
	if !known && bytes.Contains(rest, []byte("_region_")) {
		if prefix := backendPrefix.FindSubmatch(rest); prefix != nil {
			stamp, _ := seconds(prefix[1]) // syslog's are not read: they have no fractions
			at = max(at, int64(stamp))
			f = fields{rest[len(prefix[0]):]}
			event = f.next()
			record, known = qemuEvents[string(event)]
		}
	}
	// Nothing may hide an access: neither one that is cut, nor one that another writer's text has
	// got in front of.
	hidden := text
	if known {
		hidden = f.rest
	}
	for rest := hidden; bytes.Contains(rest, []byte("_region_")); {
		at := accessEvent.FindSubmatchIndex(rest)
		if at == nil {
			break
		}
		if !vfioOther[string(rest[at[0]:at[1]])] {
			return Refuse(q.line, "%s begins like a %s event, but the rest is cut or has an "+
				"unknown form", shown(rest[at[0]:]),
				rest[at[2]:at[3]])
		}
		rest = rest[at[1]:]
	}
	if cut := cutEvent(hidden); cut != nil {
		return Refuse(q.line, "%s begins like an event of QEMU, but the rest is cut or has an "+
			"unknown form", shown(cut))
	}
	if known {
		return record.take(q, record.op, f, at)
	}
	q.count(event)
	return nil
}

// cutMin letters at the end of a line may be an event that is cut.
const cutMin = 8

// cutEvent gives the end of a line that is the start of an event with an access, nil if it is none.
func cutEvent(text []byte) []byte {
	for i := max(0, len(text)-len("memory_region_ops_write")); i+cutMin <= len(text); i++ {
		for name := range qemuEvents {
			if strings.HasPrefix(name, string(text[i:])) {
				return text[i:]
			}
		}
	}
	return nil
}

// accessEvent is the name of an event that may hold an access, wherever it is.
var accessEvent = regexp.MustCompile(`(memory_region_ops|vfio_region)_[a-z0-9_]*`)

// vfioOther are the vfio_region events that hold no access (QEMU, hw/vfio/trace-events).
var vfioOther = map[string]bool{
	"vfio_region_setup": true, "vfio_region_mmap": true, "vfio_region_mmap_fault": true,
	"vfio_region_exit": true, "vfio_region_finalize": true,
	"vfio_region_mmaps_set_enabled": true, "vfio_region_unmap": true,
	"vfio_region_sparse_mmap_header": true, "vfio_region_sparse_mmap_entry": true,
}

// timestamp takes off the TID@SECONDS.MICROSECONDS: that -msg timestamp=on puts in front.
func (q *qemu) timestamp(text []byte) (rest []byte, ns int64) {
	if rest, ns, ok := isoTime(text); ok {
		return rest, ns
	}
	tid, rest, ok := bytes.Cut(text, []byte("@"))
	if _, number := decimal(tid); !ok || !number {
		return text, 0
	}
	at, rest, ok := bytes.Cut(rest, []byte(":"))
	stamp, number := seconds(at)
	if !ok || !number {
		return text, 0
	}
	return rest, int64(stamp)
}

// isoTime takes off the 2026-11-22T05:06:07.123456Z that QEMU puts in front of
// every line of its log with -msg timestamp=on, since 10.2 of trace events
// too, and the (THREAD:NAME): that may follow it.
func isoTime(text []byte) (rest []byte, ns int64, ok bool) {
	stamp, rest, ok := bytes.Cut(text, []byte(" "))
	if !ok || len(stamp) < len("2026-11-22T05:06:07Z") || stamp[4] != '-' {
		return text, 0, false
	}
	at, err := time.Parse(time.RFC3339Nano, string(bytes.TrimSuffix(stamp, []byte(":"))))
	if err != nil {
		return text, 0, false
	}
	if thread, after, found := bytes.Cut(rest, []byte("): ")); found && len(thread) > 0 &&
		thread[0] == '(' {
		rest = after
	}
	return rest, at.UnixNano(), true
}

func (q *qemu) count(event []byte) {
	for _, c := range event {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			event = nil
			break
		}
	}
	name := string(event)
	if _, ok := q.other[name]; name == "" || !ok && len(q.other) >= otherEventsMax {
		name = "other text"
	}
	q.other[name]++
}

// ops reads `cpu 0 mr 0x55b6bee1c320 addr 0x10000000 value 0x10000ed size 4
// name 'edu-mmio'`; addr is guest-physical.
func (q *qemu) ops(op Op, f fields, at int64) error {
	var mr, address, value, size uint64
	for _, c := range [...]column{{"cpu", signed, nil}, {"mr", hex, &mr}, {"addr", sharp, &address},
		{"value", sharp, &value},
		{"size", decimal, &size}} {
		if c.to == nil && bytes.HasPrefix(f.rest, []byte("mr ")) {
			continue // before QEMU 2.5
		}
		key, text := f.next(), f.next()
		n, ok := c.parse(text)
		if string(key) != c.name || !ok {
			return Refuse(q.line,
				"memory_region_ops event: expected %q with a number, found %s: the line is "+
					"cut or has an unknown form",
				strings.Clone(c.name),
				shown(bytes.TrimSpace(append(append(key[:len(key):len(key)], ' '), text...))))
		}
		if c.to != nil {
			*c.to = n
		}
	}
	name, err := q.name(f.rest)
	if err != nil {
		return err
	}
	return q.access(op, name, mr, address, value, size, at)
}

// sharp parses what %#x of C prints, as QEMU did up to 2.6: of 0 no 0x.
func sharp(b []byte) (v uint64, ok bool) {
	if string(b) == "0" {
		return 0, true
	}
	return hex(b)
}

// name reads the rest of a memory_region_ops event: nothing, or the region's name between quotes.
func (q *qemu) name(rest []byte) (string, error) {
	rest = bytes.TrimSpace(rest)
	if len(rest) == 0 {
		return "", nil
	}
	quoted, ok := bytes.CutPrefix(rest, []byte("name '"))
	if !ok || len(quoted) < 1 || quoted[len(quoted)-1] != '\'' {
		return "",
			Refuse(q.line,
				"memory_region_ops event: %s is not the name of a region: the line is cut "+
					"or has an unknown form", shown(rest))
	}
	return string(quoted[:len(quoted)-1]), nil
}

func (q *qemu) access(op Op, name string, mr, address, value, size uint64, at int64) error {
	if op == OpLoad && size < 8 {
		// QEMU prints what the device's function returned, not what the guest saw
		value &= fbs.WidthMask(uint8(max(size, 1)))
	}
	r := q.chosen(name, mr, address)
	if reason := checkAccess(size, address, value, r != nil && !q.only); reason != "" {
		return Refuse(q.line, "%s", reason)
	}
	a := Access{Line: q.line, Op: op, Width: uint8(size), Offset: address, Value: value, Time: at}
	q.stats(name).count(a)
	switch {
	case r == nil:
		q.outside++
		return nil
	case r.Base == 0:
		q.baseless = r.Name
		// of one BAR, which is aligned to its size
		a.Bar, a.Offset = r.Bar, address&(q.o.Board.BarSizes[r.Bar]-1)
		return q.give(&a) // for a summary; trace refuses
	case r.mr != mr && r.mr != 0 && q.o.Board.Vendor == 0:
		return Refuse(q.line,
			"a second region of QEMU has the name %q; use a board file with the size of BAR "+
				"%d to distinguish them", name, r.Bar)
	case r.mr == mr && q.apart[mr] != 0:
		return Refuse(q.line, "region %q was not at 0x%x in line %d: the guest moved the BAR", name,
			r.Base, q.apart[mr])
	case address < r.Base:
		return Refuse(q.line, "address 0x%x is before the base 0x%x of region %q", address,
			r.Base, name)
	}
	a.Bar, a.Offset = r.Bar, address-r.Base
	if a.Offset >= q.o.Board.BarSizes[r.Bar] && q.o.Board.FindRule(r.Bar, a.Offset, size) == nil {
		return Refuse(q.line,
			"address 0x%x is outside BAR %d of %s, 0x%x bytes from 0x%x on; check --base",
			address, r.Bar, q.o.Board.Name, q.o.Board.BarSizes[r.Bar], r.Base)
	}
	return q.give(&a)
}

// give has the sink take an access, unless it is not known where in the BAR it is; a summary takes
// those, too.
func (q *qemu) give(a *Access) error {
	q.taken++
	if q.baseless != "" && !q.only {
		return nil
	}
	return q.to.Access(a)
}

// vfio reads ` (0000:01:00.0:region0+0x1000, 0x1, 4)` of a store, and
// ` (0000:01:00.0:region0+0x1000, 4) = 0x1` of a load.
func (q *qemu) vfio(op Op, f fields, at int64) error {
	text := bytes.TrimSpace(f.rest)
	place, number, offset, value, size, ok := vfioFields(op, text)
	if !ok {
		return Refuse(q.line, "vfio_region event: %s is cut or has an unknown form", shown(text))
	}
	if op == OpLoad && size < 8 {
		value &= fbs.WidthMask(uint8(max(size, 1)))
	}
	name := fmt.Sprintf("%s:region%d", place, number)
	taken := slices.ContainsFunc(q.regions, func(r Region) bool {
		return r.Name == name ||
			r.Name == place
	})
	if reason := checkAccess(size, offset, value, taken && !q.only); reason != "" {
		return Refuse(q.line, "%s", reason)
	}
	a := Access{Line: q.line, Op: op, Width: uint8(size), Bar: uint8(number), Offset: offset,
		Value: value, Time: at}
	q.stats(name).count(a)
	if !taken {
		q.outside++
		return nil
	}
	if number > 5 || q.o.Board.BarSizes[number] == 0 {
		return Refuse(q.line, "region %d is not a BAR of board %s", number, q.o.Board.Name)
	}
	return q.give(&a)
}

func vfioFields(op Op, text []byte) (place string, number, offset, value, size uint64, ok bool) {
	inner, result, found := bytes.Cut(text, []byte(")"))
	inner, open := bytes.CutPrefix(inner, []byte("("))
	parts := bytes.Split(inner, []byte(", "))
	at := bytes.LastIndex(parts[0], []byte(":region"))
	if !found || !open || at < 0 {
		return
	}
	place = string(parts[0][:at])
	region, off, _ := bytes.Cut(parts[0][at+len(":region"):], []byte("+"))
	number, ok1 := decimal(region)
	offset, ok2 := hex(off)
	var ok3, ok4 bool
	switch {
	case op == OpStore && len(parts) == 3 && len(result) == 0:
		value, ok3 = hex(parts[1])
		size, ok4 = decimal(parts[2])
	case op == OpLoad && len(parts) == 2 && bytes.HasPrefix(result, []byte(" = ")):
		size, ok3 = decimal(parts[1])
		value, ok4 = hex(result[3:])
	}
	return place, number, offset, value, size, ok1 && ok2 && ok3 && ok4 && number <= 255
}
