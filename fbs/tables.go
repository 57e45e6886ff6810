package fbs

import (
	"lightmetal/boards"
	"lightmetal/fbs/gen"
)

// tables is an envelope whose tables are looked at, and what they add up to.
type tableChecker struct {
	*View
	host, payload, arena, commands uint64
}

// verifyTables holds the reservation against the vectors, and checks all of
// them but the commands, which have a pass of their own.
func (v *View) verifyTables() *Error {
	t, r := &tableChecker{View: v}, &v.Reservation
	list := [...]struct {
		name     string
		count    int
		reserved uint32
		needed   bool
		reason   func(index int) string // what is wrong with an element, empty if nothing is
	}{
		{"target", len(v.Devices), r.Devices, true, t.checkDevice},
		// the one that is not reserved
		{"rule", len(v.Rules), uint32(len(v.Rules)), false, t.checkRule},
		{"window", len(v.Windows), r.Windows, true, t.checkWindow},
		{"sequence", len(v.Sequences), r.Sequences, true, t.checkSequence},
		{"segment", len(v.Segments), r.Segments, false, t.checkSegment},
		{"tensor", len(v.Tensors), r.Tensors, false, t.checkTensor},
		{"command", len(v.Commands), r.Commands, true, nil}, // in a pass of their own
	}
	for _, l := range list {
		if l.needed && l.count == 0 {
			return &Error{"image", "has no " + l.name}
		}
		if uint64(l.count) != uint64(l.reserved) {
			return &Error{"reservation", Text("%d "+l.name+"s, the image has %d",
				uint64(l.reserved), uint64(l.count))}
		}
	}
	for _, l := range list {
		for i := 0; i < l.count && l.reason != nil; i++ {
			if reason := l.reason(i); reason != "" {
				return &Error{Text(l.name+" %d", uint64(i)), reason}
			}
		}
	}
	if reason := firstNonEmpty(
		failIf(r.HostBytes != t.host, "%d host bytes, the windows need %d", r.HostBytes, t.host),
		failIf(r.PayloadBytes != t.payload, "%d payload bytes, the segments have %d",
			r.PayloadBytes, t.payload),
		failIf(r.ArenaBytes != t.arena, "%d arena bytes, the tensors need %d", r.ArenaBytes,
			t.arena),
	); reason != "" {
		return &Error{"reservation", reason}
	}
	return nil
}

// name says what is wrong with a name.
func (t *tableChecker) checkName(n Name) string {
	at, size, text := uint64(n>>8), uint64(n&NameMax), uint64(len(t.Text))
	if at+size <= text && !IsPlainText(t.Text[at:][:size]) {
		return Text("name of %d bytes at %x has a control character, or is not UTF-8", size, at)
	}
	return firstNonEmpty(
		failIf(size == 0, "has no name"),
		failIf(at+size > text, "name of %d bytes at %x lies outside the text of %d", size, at,
			text))
}

const (
	noDevice        = "target %d does not exist"
	reservedNotZero = "reserved field is not zero"
)

func (t *tableChecker) checkDevice(index int) string {
	x := &t.Devices[index]
	return firstNonEmpty(failIf(x.Reserved != 0, reservedNotZero), t.checkName(x.Board))
}

// rule checks a rule, and that rules are in order and apart.
func (t *tableChecker) checkRule(index int) string {
	r, before := &t.Rules[index], &t.Rules[max(index, 1)-1]
	if int(r.Device) >= len(t.Devices) {
		return Text(noDevice, uint64(r.Device))
	}
	of := &t.Devices[r.Device]
	order := int(r.Device)<<8 + int(r.Bar) - int(before.Device)<<8 - int(before.Bar)
	return firstNonEmpty(
		failIf(boards.FindByID(of.Vendor, of.Device) != nil,
			"target %d is of a board that is known, whose own rules hold", uint64(r.Device)),
		failIf(r.Bar >= 6 || r.First > r.Last ||
			r.Last >= of.BarSizes()[r.Bar], "%x to %x do not lie in BAR %d", r.First, r.Last,
			uint64(r.Bar)),
		failIf(r.Widths == 0 || r.Widths > 15 ||
			r.Memory > 1, "widths %x are none of 1, 2, 4 and 8, or memory %d is not 0 or 1",
			uint64(r.Widths), uint64(r.Memory)),
		failIf((r.First|(r.Last+1))&uint64(r.Widths&-r.Widths-1) != 0,
			"%x to %x begin or end inside an access of the least width", r.First, r.Last),
		failIf(order < 0 || order == 0 && index > 0 && r.First <= before.Last,
			"%x to %x overlap the rule before, or belong in front of it", r.First, r.Last),
		t.checkName(r.Name))
}

func (t *tableChecker) checkWindow(index int) string {
	w := &t.Windows[index]
	if int(w.Device) >= len(t.Devices) {
		return Text(noDevice, uint64(w.Device))
	}
	if w.Kind == gen.WindowKindHost {
		t.host += RoundUp(w.Size, SegmentAlign)
		t.BusMasters |= 1 << w.Device
	}
	isBar, size := w.Kind == gen.WindowKindBar, t.Devices[w.Device].BarSizes()[min(w.Bar, 5)]
	return firstNonEmpty(
		failIf(w.Kind == gen.WindowKindInvalid ||
			w.Kind > gen.WindowKindConfig, "unknown kind %d", uint64(w.Kind)),
		failIf(w.Flags&^FlagWriteCombining != 0, "unknown flags %x", uint64(w.Flags)),
		failIf(w.Reserved != 0, reservedNotZero),
		failIf(w.Size == 0 || w.Size > WindowMax, "size %x is not between 1 byte and 4 GiB",
			w.Size),
		failIf(w.Kind != gen.WindowKindTlb && w.Slot != NoSlot, "only a TLB window has a slot"),
		failIf(!isBar && (w.Bar != 0 || w.Offset != 0),
			"only a BAR window has a BAR and an offset"),
		failIf(w.Bar >= 6, "BAR %d does not exist", uint64(w.Bar)),
		failIf(w.Kind == gen.WindowKindTlb && w.Size&(w.Size-1) != 0,
			"size %x of a TLB window is not a power of two", w.Size),
		failIf(w.Kind == gen.WindowKindConfig && w.Size != 256 && w.Size != 4096,
			"configuration space has 256 or 4096 bytes, not %d", w.Size),
		failIf(isBar && (w.Offset > size || w.Size > size-w.Offset),
			"%x bytes at %x do not fit BAR %d of %x", w.Size, w.Offset, uint64(w.Bar), size))
}

// sequence checks that the sequences cover the commands without a gap, and that
// each ends.
func (t *tableChecker) checkSequence(index int) string {
	s, next, all := &t.Sequences[index], t.commands, uint64(len(t.Commands))
	t.commands += uint64(s.Count)
	return firstNonEmpty(
		failIf(uint64(s.First) != next || s.Count == 0 ||
			t.commands > all, "%d commands from %d do not continue at command %d of %d",
			uint64(s.Count), uint64(s.First), next, all),
		failIf(index == len(t.Sequences)-1 && t.commands != all,
			"is the last, and they cover %d of %d commands", t.commands, all),
		failIf(s.Count != 0 && t.commands <= all &&
			t.Commands[t.commands-1].Opcode != gen.OpcodeEnd, "its last command, %d, is no End",
			t.commands-1),
		t.checkName(s.Name))
}

// place checks that segments follow the envelope and each other without a gap:
// the payload is one run of bytes.
func (t *tableChecker) checkSegment(index int) string {
	s, start := &t.Segments[index], RoundUp(uint64(len(t.Envelope)), SegmentAlign)+t.payload
	t.payload += s.Size
	return firstNonEmpty(
		failIf(s.Size == 0 || s.Size > BytesMax ||
			s.Offset > BytesMax, "%d bytes at %x are none, or more than 64 TiB", s.Size, s.Offset),
		failIf(s.Size%SegmentAlign != 0 && index < len(t.Segments)-1,
			"%d bytes end inside a page, and it is not the last", s.Size),
		failIf(s.Offset != start, "offset is %x and should be %x", s.Offset, start),
		failIf(s.Reserved != 0, reservedNotZero))
}

// tensor checks a tensor, and that tensors fill the arena in order.
func (t *tableChecker) checkTensor(index int) string {
	x, start := &t.Tensors[index], t.arena
	size := x.shapeSize()
	t.arena = RoundUp(start+x.Size, ArenaAlign)
	return firstNonEmpty(
		t.checkName(x.Name),
		failIf(x.Role != gen.RoleInput && x.Role != gen.RoleOutput, "unknown role %d",
			uint64(x.Role)),
		failIf(x.HasData > 1, "recorded is %d and should be 0 or 1", uint64(x.HasData)),
		failIf(size == 0, "element type %d or shape is unknown, has a zero, or more than 64 TiB",
			uint64(x.Dtype)),
		failIf(x.Size != size, "size is %d, shape and element type make %d", x.Size, size),
		failIf(x.ArenaOffset != start || start > BytesMax, "arena offset is %x and should be %x",
			x.ArenaOffset, start),
		failIf(x.HasData == 0 && x.DataOffset != 0,
			"has an offset of recorded data and no recorded data"),
		failIf(x.HasData == 1 && x.Size > t.payload-min(t.payload, x.DataOffset),
			"recorded data at payload offset %x lie outside the payload", x.DataOffset))
}

// shapeSize is the bytes that shape and element type make, 0 for impossible ones.
func (t *Tensor) shapeSize() uint64 {
	size := uint64(DTypeSize(t.Dtype))
	for i, n := range t.Shape() {
		if t.Dims > DimsMax || (i < int(t.Dims)) != (n != 0) || size > BytesMax/uint64(max(n, 1)) {
			return 0
		}
		size *= uint64(max(n, 1))
	}
	return size
}

// findPayload checks that the payload is the rest of the file.
func (v *View) findPayload(data []byte) *Error {
	size, start := uint64(len(data)), uint64(len(v.Envelope))
	if len(v.Segments) > 0 {
		start = RoundUp(start, SegmentAlign)
	}
	if end := start + v.Reservation.PayloadBytes; end != size {
		return &Error{"segments", Text("end at %x, the file at %x", end, size)}
	}
	v.Payload = data[start:]
	if gap := data[len(v.Envelope):start]; string(gap) != string(make([]byte, len(gap))) {
		return &Error{"segment 0", "bytes in front of it are not zero"}
	}
	return nil
}

// VerifyPayload checks the checksums of the segments, which follow each other. The error is an
// *Error.
func (v *View) VerifyPayload() error {
	rest := v.Payload
	for i := range v.Segments {
		s := &v.Segments[i]
		got := Checksum(rest[:s.Size])
		rest = rest[s.Size:]
		if got != s.Crc32c {
			return &Error{Text("segment %d", uint64(i)),
				Text("checksum is %x and should be %x", uint64(got), uint64(s.Crc32c))}
		}
	}
	return nil
}

// RoundUp gives the next multiple of a number that is not below n.
func RoundUp(n, multiple uint64) uint64 { return (n + multiple - 1) / multiple * multiple }
