package fbs

// This file checks the tables of an image, all vectors but the commands. Each check
// function returns why an element is rejected, or an empty string.

import (
	"lightmetal/boards"
	"lightmetal/fbs/gen"
)

// tableChecker checks the tables of an image, and adds up what the reservation has
// to equal.
type tableChecker struct {
	*View
	host     uint64 // bytes of Host windows, each rounded up to a page
	payload  uint64 // bytes of segments
	arena    uint64 // bytes of tensors, each at a multiple of ArenaAlign
	commands uint64 // number of commands of sequences
}

// tableCheck is a table of the image and how to check it.
type tableCheck struct {
	element  string // name of one element
	count    int
	reserved uint32                 // the count in the reservation
	required bool                   // the table has at least one element
	check    func(index int) string // nil: verifyCommands checks the elements
}

// verifyTables compares the reservation with the vectors, and checks every table.
func (v *View) verifyTables() *Error {
	t, r := &tableChecker{View: v}, &v.Reservation
	rules := uint32(len(v.Rules)) // the reservation does not count rules
	tables := [...]tableCheck{
		{"device", len(v.Devices), r.Devices, true, t.checkDevice},
		{"rule", len(v.Rules), rules, false, t.checkRule},
		{"window", len(v.Windows), r.Windows, true, t.checkWindow},
		{"sequence", len(v.Sequences), r.Sequences, true, t.checkSequence},
		{"segment", len(v.Segments), r.Segments, false, t.checkSegment},
		{"tensor", len(v.Tensors), r.Tensors, false, t.checkTensor},
		{"command", len(v.Commands), r.Commands, true, nil},
	}
	for i := range tables {
		if err := tables[i].verifyCount(); err != nil {
			return err
		}
	}
	for i := range tables {
		if err := tables[i].verifyElements(); err != nil {
			return err
		}
	}
	if reason := t.checkSums(); reason != "" {
		return &Error{"reservation", reason}
	}
	return nil
}

func (c *tableCheck) verifyCount() *Error {
	if c.required && c.count == 0 {
		return &Error{"image", "has no " + c.element}
	}
	if uint64(c.count) != uint64(c.reserved) {
		reason := Text("%d "+c.element+"s, the image has %d", uint64(c.reserved), uint64(c.count))
		return &Error{"reservation", reason}
	}
	return nil
}

func (c *tableCheck) verifyElements() *Error {
	if c.check == nil {
		return nil
	}
	for i := range c.count {
		if reason := c.check(i); reason != "" {
			return &Error{Text(c.element+" %d", uint64(i)), reason}
		}
	}
	return nil
}

// checkSums compares the reservation with the sums of the tables.
func (t *tableChecker) checkSums() string {
	r := &t.Reservation
	if r.HostBytes != t.host {
		return Text("%d host bytes, the windows need %d", r.HostBytes, t.host)
	}
	if r.PayloadBytes != t.payload {
		return Text("%d payload bytes, the segments have %d", r.PayloadBytes, t.payload)
	}
	if r.ArenaBytes != t.arena {
		return Text("%d arena bytes, the tensors need %d", r.ArenaBytes, t.arena)
	}
	return ""
}

func (t *tableChecker) checkName(n Name) string {
	first, size, text := uint64(n>>8), uint64(n&NameMax), uint64(len(t.Text))
	if size == 0 {
		return "has no name"
	}
	if first+size > text {
		return Text("name of %d bytes at %x lies outside the text of %d", size, first, text)
	}
	if !IsPlainText(t.Text[first:][:size]) {
		return Text("name of %d bytes at %x has a control character, or is not UTF-8", size, first)
	}
	return ""
}

const (
	noDevice        = "device %d does not exist"
	reservedNotZero = "reserved field is not zero"
)

func (t *tableChecker) checkDevice(index int) string {
	d := &t.Devices[index]
	if d.Reserved != 0 {
		return reservedNotZero
	}
	return t.checkName(d.Board)
}

func (t *tableChecker) checkRule(index int) string {
	r := &t.Rules[index]
	if int(r.Device) >= len(t.Devices) {
		return Text(noDevice, uint64(r.Device))
	}
	device := &t.Devices[r.Device]
	if boards.FindByID(device.Vendor, device.Device) != nil {
		return Text("device %d has a known board, whose own rules apply", uint64(r.Device))
	}
	if r.Bar >= 6 || r.First > r.Last || r.Last >= device.BarSizes()[r.Bar] {
		return Text("%x to %x do not lie in BAR %d", r.First, r.Last, uint64(r.Bar))
	}
	if r.Widths == 0 || r.Widths > widthsAll {
		return Text("widths %x; must be a sum of 1, 2, 4 and 8", uint64(r.Widths))
	}
	if r.Memory > 1 {
		return Text("memory %d; must be 0 or 1", uint64(r.Memory))
	}
	leastWidth := uint64(r.Widths & -r.Widths)
	if (r.First|(r.Last+1))&(leastWidth-1) != 0 {
		return Text("%x to %x begin or end inside an access of %d bytes, the least width",
			r.First, r.Last, leastWidth)
	}
	if index > 0 && !isAfter(r, &t.Rules[index-1]) {
		return Text("%x to %x overlap the rule before, or belong in front of it", r.First, r.Last)
	}
	return t.checkName(r.Name)
}

// isAfter reports whether a rule follows another one without overlap, in the order
// of device, BAR and address.
func isAfter(r, before *Rule) bool {
	bar := func(r *Rule) int { return int(r.Device)<<8 + int(r.Bar) }
	if bar(r) != bar(before) {
		return bar(r) > bar(before)
	}
	return r.First > before.Last
}

func (t *tableChecker) checkWindow(index int) string {
	w := &t.Windows[index]
	if int(w.Device) >= len(t.Devices) {
		return Text(noDevice, uint64(w.Device))
	}
	if w.Kind == gen.WindowKindInvalid || w.Kind > gen.WindowKindConfig {
		return Text("unknown kind %d", uint64(w.Kind))
	}
	if w.Flags&^FlagWriteCombining != 0 {
		return Text("unknown flags %x", uint64(w.Flags))
	}
	if w.Reserved != 0 {
		return reservedNotZero
	}
	if w.Size == 0 || w.Size > WindowMax {
		return Text("size %x is not between 1 byte and 4 GiB", w.Size)
	}
	if w.Kind != gen.WindowKindTlb && w.Slot != NoSlot {
		return "only a TLB window has a slot"
	}
	if w.Kind == gen.WindowKindBar {
		return t.checkBarWindow(w)
	}
	if w.Bar != 0 || w.Offset != 0 {
		return "only a BAR window has a BAR and an offset"
	}
	return t.checkWindowSize(w)
}

func (t *tableChecker) checkBarWindow(w *Window) string {
	if w.Bar >= 6 {
		return Text("BAR %d does not exist", uint64(w.Bar))
	}
	bar := t.Devices[w.Device].BarSizes()[w.Bar]
	if w.Offset > bar || w.Size > bar-w.Offset {
		return Text("%x bytes at %x do not fit BAR %d of %x bytes",
			w.Size, w.Offset, uint64(w.Bar), bar)
	}
	return ""
}

// checkWindowSize checks the size of a Tlb, Host or Config window. A device with a Host
// window accesses host memory, so it needs bus mastering.
func (t *tableChecker) checkWindowSize(w *Window) string {
	switch w.Kind {
	case gen.WindowKindTlb:
		if w.Size&(w.Size-1) != 0 {
			return Text("size %x of a TLB window is not a power of two", w.Size)
		}
	case gen.WindowKindConfig:
		if w.Size != 256 && w.Size != 4096 {
			return Text("configuration space has 256 or 4096 bytes, not %d", w.Size)
		}
	default:
		t.host += RoundUp(w.Size, SegmentAlign)
		t.BusMasters |= 1 << w.Device
	}
	return ""
}

// checkSequence checks that sequences cover the commands without a gap, and that
// each ends with End.
func (t *tableChecker) checkSequence(index int) string {
	s, next, all := &t.Sequences[index], t.commands, uint64(len(t.Commands))
	end := next + uint64(s.Count)
	if uint64(s.First) != next || s.Count == 0 || end > all {
		return Text("%d commands from %d do not continue at command %d of %d",
			uint64(s.Count), uint64(s.First), next, all)
	}
	if index == len(t.Sequences)-1 && end != all {
		return Text("is the last, and the sequences cover %d of %d commands", end, all)
	}
	if t.Commands[end-1].Opcode != gen.OpcodeEnd {
		return Text("its last command, %d, is not End", end-1)
	}
	t.commands = end
	return t.checkName(s.Name)
}

// checkSegment checks that segments follow the envelope and each other without a
// gap, so that the payload is one range of bytes.
func (t *tableChecker) checkSegment(index int) string {
	s := &t.Segments[index]
	if s.Size == 0 || s.Size > BytesMax || s.Offset > BytesMax {
		return Text("%d bytes at %x: size is 0, or size or offset more than 64 TiB",
			s.Size, s.Offset)
	}
	if s.Size%SegmentAlign != 0 && index < len(t.Segments)-1 {
		return Text("%d bytes end inside a page, which only the last segment may do", s.Size)
	}
	start := RoundUp(uint64(len(t.Envelope)), SegmentAlign) + t.payload
	if s.Offset != start {
		return Text("offset is %x and should be %x", s.Offset, start)
	}
	if s.Reserved != 0 {
		return reservedNotZero
	}
	t.payload += s.Size
	return ""
}

// checkTensor checks a tensor, and that tensors fill the arena in their order.
func (t *tableChecker) checkTensor(index int) string {
	x := &t.Tensors[index]
	if reason := t.checkName(x.Name); reason != "" {
		return reason
	}
	if x.Role != gen.RoleInput && x.Role != gen.RoleOutput {
		return Text("unknown role %d", uint64(x.Role))
	}
	size := x.shapeSize()
	if size == 0 {
		return Text("element type %d or shape is unknown, has a zero, or more than 64 TiB",
			uint64(x.Dtype))
	}
	if x.Size != size {
		return Text("size is %d, shape and element type make %d", x.Size, size)
	}
	if x.ArenaOffset != t.arena || x.ArenaOffset > BytesMax {
		return Text("arena offset is %x and should be %x", x.ArenaOffset, t.arena)
	}
	t.arena = RoundUp(x.ArenaOffset+x.Size, ArenaAlign)
	return t.checkTensorData(x)
}

func (t *tableChecker) checkTensorData(x *Tensor) string {
	if x.HasData > 1 {
		return Text("has_data is %d and should be 0 or 1", uint64(x.HasData))
	}
	if x.HasData == 0 && x.DataOffset != 0 {
		return Text("data offset is %x and should be 0: the tensor has no data", x.DataOffset)
	}
	if x.HasData == 1 && x.Size > t.payload-min(t.payload, x.DataOffset) {
		return Text("data at payload offset %x lie outside the payload", x.DataOffset)
	}
	return ""
}

// shapeSize returns the bytes that shape and element type make, 0 if either is invalid.
func (t *Tensor) shapeSize() uint64 {
	size := uint64(DTypeSize(t.Dtype))
	if t.Dims > DimsMax {
		return 0
	}
	for i, n := range t.Shape() {
		isDimension := i < int(t.Dims)
		if isDimension != (n != 0) {
			return 0
		}
		if !isDimension {
			continue
		}
		if size > BytesMax/uint64(n) {
			return 0
		}
		size *= uint64(n)
	}
	return size
}

// findPayload checks that the payload is the rest of the file, and sets Payload.
func (v *View) findPayload(data []byte) *Error {
	size, start := uint64(len(data)), uint64(len(v.Envelope))
	if len(v.Segments) > 0 {
		start = RoundUp(start, SegmentAlign)
	}
	if end := start + v.Reservation.PayloadBytes; end != size {
		return &Error{"segments", Text("end at %x, the file at %x", end, size)}
	}
	v.Payload = data[start:]
	for _, padding := range data[len(v.Envelope):start] {
		if padding != 0 {
			return &Error{"segment 0", "bytes in front of it are not zero"}
		}
	}
	return nil
}

// VerifyPayload compares the checksums of the segments with the payload. The error is
// an *Error.
func (v *View) VerifyPayload() error {
	rest := v.Payload
	for i := range v.Segments {
		s := &v.Segments[i]
		got := Checksum(rest[:s.Size])
		rest = rest[s.Size:]
		if got != s.Crc32c {
			reason := Text("checksum is %x and should be %x", uint64(got), uint64(s.Crc32c))
			return &Error{Text("segment %d", uint64(i)), reason}
		}
	}
	return nil
}

// RoundUp returns the least multiple of a number that is at least n.
func RoundUp(n, multiple uint64) uint64 { return (n + multiple - 1) / multiple * multiple }
