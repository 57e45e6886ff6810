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

// Region is a memory region of QEMU that is one BAR of the device.
//
// Name is the name of the region that QEMU writes in quotes, and Base is the guest-physical address
// of the BAR. If Name is empty, or the trace has no names (older QEMU), an access belongs to the
// region if its address is in the BAR at Base. For vfio_region events, Name is the device
// (0000:01:00.0, all its BARs) or one of its regions (0000:01:00.0:region0), and Base and Bar are
// not used.
type Region struct {
	Name string
	Base uint64
	Bar  uint8

	// QEMU's number of the region, which distinguishes regions of several devices with the same
	// name; 0: not known yet
	mr uint64
}

// qemuEvents maps the trace events for accesses (QEMU, system/trace-events and
// hw/vfio/trace-events) to the methods that parse them.
var qemuEvents = map[string]struct {
	take func(*qemu, Op, fields, int64) error
	op   Op
}{
	"memory_region_ops_read":  {(*qemu).parseOps, OpLoad},
	"memory_region_ops_write": {(*qemu).parseOps, OpStore},
	"vfio_region_read":        {(*qemu).parseVFIO, OpLoad},
	"vfio_region_write":       {(*qemu).parseVFIO, OpStore},
}

// backendPrefix matches the text that ftrace (with the time) and syslog put before the events of
// QEMU's trace backends ftrace and syslog.
var backendPrefix = regexp.MustCompile(
	`^(?:[^[]*-\d+ +\[\d+\] [^:]* (\d+\.\d+): tracing_mark_write: |` +
		`(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8} )?\S+ [^ :]+\[\d+\]: )`)

// unnamed is the name in summaries for regions without a name.
const unnamed = "(no name)"

// otherEventsMax is the maximum number of other events that are counted separately.
const otherEventsMax = 256

// qemu reads the output of QEMU's log trace backend.
type qemu struct {
	*lineReader
	source        Source
	regions       []Region // regions that are BARs of the device
	summaries     map[string]*RegionSummary
	otherEvents   map[string]int // numbers of lines with other events, by name
	baseless      string         // name of a chosen region without a base
	otherAccesses int            // number of accesses to regions that were not chosen
	// By QEMU's number: last line of accesses to regions that have the name of a chosen region, but
	// belong to another device
	otherDeviceLines map[uint64]int
	chosenAccesses   int // number of accesses to chosen regions
	sink             Sink
	summaryOnly      bool // only count accesses for a summary
}

func newQemu(r io.Reader, o Source, to Sink) *qemu {
	return &qemu{lineReader: newLineReader(r, o.Progress), source: o, sink: to,
		regions: slices.Clone(o.Regions), summaries: map[string]*RegionSummary{},
		otherEvents: map[string]int{}, otherDeviceLines: map[uint64]int{}}
}

func readQemu(r io.Reader, o Source, to Sink) (*Trace, error) {
	if o.Board == nil {
		return nil,
			UsageError("a trace of QEMU does not name its device; use --board; boards: %s",
				BoardList())
	}
	q := newQemu(r, o, to)
	if err := q.checkRegions(); err != nil {
		return nil, err
	}
	to.Start(o.Board)
	if err := q.eachLine(q.parseLine); err != nil {
		return nil, err
	}
	return q.result()
}

func (q *qemu) checkRegions() error {
	for _, r := range q.regions {
		if int(r.Bar) >= len(q.source.Board.BarSizes) || q.source.Board.BarSizes[r.Bar] == 0 {
			return UsageError("board %s has no BAR %d", q.source.Board.Name, r.Bar)
		}
		if r.Base%16 != 0 || r.Base > math.MaxUint64-q.source.Board.BarSizes[r.Bar] {
			return UsageError("--base 0x%x must be the address of a BAR: a multiple of 16, "+
				"and the BAR must end below 2^64", r.Base)
		}
	}
	return nil
}

func (q *qemu) parseLine(text []byte) error {
	rest, at := q.cutTimestamp(text)
	f := fields{rest}
	event := f.nextField()
	record, known := qemuEvents[string(event)]
	if !known && bytes.Contains(rest, []byte("_region_")) {
		if prefix := backendPrefix.FindSubmatch(rest); prefix != nil {
			// Syslog times are not read: they lack fractions of seconds
			stamp, _ := seconds(prefix[1])
			at = max(at, int64(stamp))
			f = fields{rest[len(prefix[0]):]}
			event = f.nextField()
			record, known = qemuEvents[string(event)]
		}
	}
	// No line may hide an access: neither an event that is cut, nor one after the text of another
	// writer.
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
			return TraceError(q.line, "%s begins like a %s event, "+
				"but the rest is cut or has an unknown form", quoteStart(rest[at[0]:]),
				rest[at[2]:at[3]])
		}
		rest = rest[at[1]:]
	}
	if cut := cutEvent(hidden); cut != nil {
		return TraceError(q.line, "%s begins like an event of QEMU, "+
			"but the rest is cut or has an unknown form", quoteStart(cut))
	}
	if known {
		return record.take(q, record.op, f, at)
	}
	q.countEvent(event)
	return nil
}

// cutMin is the minimum number of characters at the end of a line that count as the start of a cut
// event.
const cutMin = 8

// cutEvent returns the end of a line if that is the start of the name of an access event, or nil.
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

// accessEvent matches names of events that may be accesses.
var accessEvent = regexp.MustCompile(`(memory_region_ops|vfio_region)_[a-z0-9_]*`)

// vfioOther lists the vfio_region events that are not accesses (QEMU, hw/vfio/trace-events).
var vfioOther = map[string]bool{
	"vfio_region_setup": true, "vfio_region_mmap": true, "vfio_region_mmap_fault": true,
	"vfio_region_exit": true, "vfio_region_finalize": true,
	"vfio_region_mmaps_set_enabled": true, "vfio_region_unmap": true,
	"vfio_region_sparse_mmap_header": true, "vfio_region_sparse_mmap_entry": true,
}

// cutTimestamp removes the prefix TID@SECONDS.MICROSECONDS: that QEMU writes with -msg
// timestamp=on.
func (q *qemu) cutTimestamp(text []byte) (rest []byte, ns int64) {
	if rest, ns, ok := cutISOTime(text); ok {
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

// cutISOTime removes the prefix 2026-11-22T05:06:07.123456Z, and the (THREAD:NAME): that may
// follow. QEMU writes it before every line of its log with -msg timestamp=on, and since version
// 10.2 also before trace events.
func cutISOTime(text []byte) (rest []byte, ns int64, ok bool) {
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

func (q *qemu) countEvent(event []byte) {
	for _, c := range event {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			event = nil
			break
		}
	}
	name := string(event)
	if _, ok := q.otherEvents[name]; name == "" || !ok && len(q.otherEvents) >= otherEventsMax {
		name = "other text"
	}
	q.otherEvents[name]++
}

// parseOps parses `cpu 0 mr 0x55b6bee1c320 addr 0x10000000 value 0x10000ed size 4 name 'edu-mmio'`.
// addr is a guest-physical address.
func (q *qemu) parseOps(op Op, f fields, at int64) error {
	var mr, address, value, size uint64
	for _, c := range [...]column{{"cpu", signed, nil}, {"mr", hex, &mr},
		{"addr", parseSharp, &address},
		{"value", parseSharp, &value},
		{"size", decimal, &size}} {
		if c.result == nil && bytes.HasPrefix(f.rest, []byte("mr ")) {
			continue // before QEMU 2.5
		}
		key, text := f.nextField(), f.nextField()
		n, ok := c.parse(text)
		if string(key) != c.name || !ok {
			return TraceError(q.line,
				"memory_region_ops event: "+
					"expected %q with a number, found %s: the line is cut or has an unknown form",
				strings.Clone(c.name),
				quoteStart(bytes.TrimSpace(append(append(key[:len(key):len(key)], ' '), text...))))
		}
		if c.result != nil {
			*c.result = n
		}
	}
	name, err := q.parseName(f.rest)
	if err != nil {
		return err
	}
	return q.addAccess(op, name, mr, address, value, size, at)
}

// parseSharp parses the output of C's %#x, which QEMU used up to 2.6: 0 has no prefix 0x.
func parseSharp(b []byte) (v uint64, ok bool) {
	if string(b) == "0" {
		return 0, true
	}
	return hex(b)
}

// parseName parses the rest of a memory_region_ops event: nothing, or the name of the region in
// quotes.
func (q *qemu) parseName(rest []byte) (string, error) {
	rest = bytes.TrimSpace(rest)
	if len(rest) == 0 {
		return "", nil
	}
	quoted, ok := bytes.CutPrefix(rest, []byte("name '"))
	if !ok || len(quoted) < 1 || quoted[len(quoted)-1] != '\'' {
		return "",
			TraceError(q.line,
				"memory_region_ops event: %s is not the name of a region: the line is cut "+
					"or has an unknown form", quoteStart(rest))
	}
	return string(quoted[:len(quoted)-1]), nil
}

func (q *qemu) addAccess(op Op, name string, mr, address, value, size uint64, at int64) error {
	if op == OpLoad && size < 8 {
		// QEMU prints the value of the device model, before it is truncated for the guest
		value &= fbs.WidthMask(uint8(max(size, 1)))
	}
	r := q.chosenRegion(name, mr, address)
	if reason := checkAccess(size, value); reason != "" {
		return TraceError(q.line, "%s", reason)
	}
	a := Access{Line: q.line, Op: op, Width: uint8(size), Offset: address, Value: value, Time: at}
	q.summaryOf(name).count(a)
	switch {
	case r == nil:
		q.otherAccesses++
		return nil
	case !q.summaryOnly && address%size != 0:
		return q.passOn(&Access{Line: q.line, Time: at, Op: OpRejected,
			Name: alignmentText(size, address) + ": the guest made a smaller access; the events " +
				"memory_region_ops show the widths of QEMU's model of the device, not the " +
				"guest's (lm record in the guest records those)"})
	case r.Base == 0:
		q.baseless = r.Name
		// the BAR is aligned to its size
		a.Bar, a.Offset = r.Bar, address&(q.source.Board.BarSizes[r.Bar]-1)
		return q.passOn(&a) // only a summary uses the access; result returns an error
	case r.mr != mr && r.mr != 0 && q.source.Board.Vendor == 0:
		return TraceError(q.line,
			"QEMU has several regions with the name %q; "+
				"use a board file with the size of BAR %d to distinguish these regions",
			name, r.Bar)
	case r.mr == mr && q.otherDeviceLines[mr] != 0:
		return TraceError(q.line, "region %q is at 0x%x now, "+
			"but was at another address in line %d: the guest moved the BAR", name, r.Base,
			q.otherDeviceLines[mr])
	case address < r.Base:
		return TraceError(q.line, "address 0x%x is before the base 0x%x of region %q; check --base",
			address, r.Base, name)
	}
	a.Bar, a.Offset = r.Bar, address-r.Base
	if a.Offset >= q.source.Board.BarSizes[r.Bar] &&
		q.source.Board.FindRule(r.Bar, a.Offset, size) == nil {
		return TraceError(q.line,
			"address 0x%x is outside BAR %d of %s, which starts at 0x%x and has 0x%x bytes; "+
				"check --base",
			address, r.Bar, q.source.Board.Name, r.Base, q.source.Board.BarSizes[r.Bar])
	}
	return q.passOn(&a)
}

// passOn passes an access to the sink, unless the base of a region is unknown. A summary includes
// all accesses.
func (q *qemu) passOn(a *Access) error {
	q.chosenAccesses++
	if q.baseless != "" && !q.summaryOnly {
		return nil
	}
	return q.sink.Access(a)
}

// parseVFIO parses ` (0000:01:00.0:region0+0x1000, 0x1, 4)` for a store, and `
// (0000:01:00.0:region0+0x1000, 4) = 0x1` for a load.
func (q *qemu) parseVFIO(op Op, f fields, at int64) error {
	text := bytes.TrimSpace(f.rest)
	place, number, offset, value, size, ok := parseVFIOFields(op, text)
	if !ok {
		return TraceError(q.line, "vfio_region event: %s is cut or has an unknown form",
			quoteStart(text))
	}
	if op == OpLoad && size < 8 {
		value &= fbs.WidthMask(uint8(max(size, 1)))
	}
	name := fmt.Sprintf("%s:region%d", place, number)
	taken := slices.ContainsFunc(q.regions, func(r Region) bool {
		return r.Name == name ||
			r.Name == place
	})
	if reason := checkAccess(size, value); reason != "" {
		return TraceError(q.line, "%s", reason)
	}
	a := Access{Line: q.line, Op: op, Width: uint8(size), Bar: uint8(number), Offset: offset,
		Value: value, Time: at}
	q.summaryOf(name).count(a)
	q.summaryOf(name).isVFIO = true
	if !taken {
		q.otherAccesses++
		return nil
	}
	if reason := alignmentText(size, offset); reason != "" && !q.summaryOnly {
		return q.passOn(&Access{Line: q.line, Time: at, Op: OpRejected, Name: reason})
	}
	if number > 5 || q.source.Board.BarSizes[number] == 0 {
		return TraceError(q.line, "region %d is not a BAR of board %s", number, q.source.Board.Name)
	}
	return q.passOn(&a)
}

func parseVFIOFields(op Op, text []byte) (place string, number, offset, value, size uint64,
	ok bool) {
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
