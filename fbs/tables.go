package fbs

import (
	"lightmetal/boards"
	"lightmetal/fbs/gen"
)

// tables is an envelope whose tables are looked at, and what they add up to.
type tables struct {
	*View
	host, payload, arena, commands uint64
	end                            uint64 // of the envelope, or of the segment before
}

// verifyTables holds the reservation against the vectors, and checks all of
// them but the commands, which have a pass of their own.
func (v *View) verifyTables() *Error {
	t, r := &tables{View: v, end: uint64(len(v.Envelope))}, &v.Reservation
	list := [...]struct {
		name     string
		count    int
		reserved uint32
		needed   bool
		reason   func(index int) string // what is wrong with an element, empty if nothing is
	}{
		{"target", len(v.Targets), r.Targets, true, t.target},
		{"rule", len(v.Rules), uint32(len(v.Rules)), false, t.rule}, // the one that is not reserved
		{"window", len(v.Windows), r.Windows, true, t.window},
		{"sequence", len(v.Sequences), r.Sequences, true, t.sequence},
		{"segment", len(v.Segments), r.Segments, false, t.place},
		{"tensor", len(v.Tensors), r.Tensors, false, t.tensor},
		{"command", len(v.Commands), r.Commands, true, func(int) string { return "" }},
	}
	for _, l := range list {
		if l.needed && l.count == 0 {
			return &Error{"image", "has no " + l.name}
		}
		if uint64(l.count) != uint64(l.reserved) {
			return &Error{"reservation", Text("%d "+l.name+"s, the image has %d", uint64(l.reserved), uint64(l.count))}
		}
	}
	for _, l := range list {
		for i := range l.count {
			if reason := l.reason(i); reason != "" {
				return &Error{Text(l.name+" %d", uint64(i)), reason}
			}
		}
	}
	for _, sum := range [...]struct {
		place, reason string
		says, makes   uint64
	}{
		{"sequences", "cover %d of %d commands", t.commands, uint64(len(v.Commands))},
		{"reservation", "%d host bytes, the windows need %d", r.HostBytes, t.host},
		{"reservation", "%d payload bytes, the segments have %d", r.PayloadBytes, t.payload},
		{"reservation", "%d arena bytes, the tensors need %d", r.ArenaBytes, t.arena},
	} {
		if sum.says != sum.makes {
			return &Error{sum.place, Text(sum.reason, sum.says, sum.makes)}
		}
	}
	return nil
}

// name says what is wrong with a name.
func (t *tables) name(n Name) string {
	if n&NameMax == 0 {
		return "has no name"
	}
	if uint64(n>>8)+uint64(n&NameMax) > uint64(len(t.Text)) {
		return Text("name of %d bytes at %x lies outside the text of %d", uint64(n&NameMax), uint64(n>>8), uint64(len(t.Text)))
	}
	return ""
}

const reserved = "reserved field is not zero"

func (t *tables) target(index int) string {
	if t.Targets[index].Reserved != 0 {
		return reserved
	}
	return t.name(t.Targets[index].Board)
}

// rule checks a rule, and that rules are in order and apart.
func (t *tables) rule(index int) string {
	r, before := &t.Rules[index], &t.Rules[max(index, 1)-1]
	order := int(r.Target)<<8 + int(r.Bar) - int(before.Target)<<8 - int(before.Bar)
	switch {
	case int(r.Target) >= len(t.Targets):
		return Text("target %d does not exist", uint64(r.Target))
	case boards.ByID(t.Targets[r.Target].Vendor, t.Targets[r.Target].Device) != nil:
		return Text("target %d is of a board that is known, whose own rules hold", uint64(r.Target))
	case r.Bar >= 6 || r.First > r.Last || r.Last >= t.Targets[r.Target].Bars[r.Bar]:
		return Text("%x to %x do not lie in BAR %d", r.First, r.Last, uint64(r.Bar))
	case r.Widths == 0 || r.Widths > 15 || r.Memory > 1:
		return Text("widths %x are none of 1, 2, 4 and 8, or memory %d is not 0 or 1", uint64(r.Widths), uint64(r.Memory))
	case (r.First|(r.Last+1))&uint64(r.Widths&-r.Widths-1) != 0:
		return Text("%x to %x begin or end inside an access of the least width", r.First, r.Last)
	case order < 0 || order == 0 && index > 0 && r.First <= before.Last:
		return Text("%x to %x overlap the rule before, or belong in front of it", r.First, r.Last)
	}
	return t.name(r.Name)
}

func (t *tables) window(index int) string {
	w := &t.Windows[index]
	switch {
	case w.Kind == gen.WindowKindInvalid || w.Kind > gen.WindowKindConfig:
		return Text("unknown kind %d", uint64(w.Kind))
	case int(w.Device) >= len(t.Targets):
		return Text("target %d does not exist", uint64(w.Device))
	case w.Flags&^FlagWriteCombining != 0:
		return Text("unknown flags %x", uint64(w.Flags))
	case w.Reserved != 0:
		return reserved
	case w.Size == 0 || w.Size > WindowMax:
		return Text("size %x is not between 1 byte and 4 GiB", w.Size)
	case w.Kind != gen.WindowKindTlb && w.Slot != NoSlot:
		return "only a TLB window has a slot"
	case w.Kind != gen.WindowKindBar && (w.Bar != 0 || w.Offset != 0):
		return "only a BAR window has a BAR and an offset"
	case w.Kind == gen.WindowKindBar && w.Bar >= 6:
		return Text("BAR %d does not exist", uint64(w.Bar))
	case w.Kind == gen.WindowKindTlb && w.Size&(w.Size-1) != 0:
		return Text("size %x of a TLB window is not a power of two", w.Size)
	case w.Kind == gen.WindowKindConfig && w.Size != 256 && w.Size != 4096:
		return Text("configuration space has 256 or 4096 bytes, not %d", w.Size)
	}
	bar := t.Targets[w.Device].Bars[w.Bar]
	if w.Kind == gen.WindowKindBar && (w.Offset > bar || w.Size > bar-w.Offset) {
		return Text("%x bytes at %x do not fit BAR %d of %x", w.Size, w.Offset, uint64(w.Bar), bar)
	}
	if w.Kind == gen.WindowKindHost {
		t.host += roundUp(w.Size, SegmentAlign)
	}
	return ""
}

// sequence checks that the sequences cover the commands without a gap.
func (t *tables) sequence(index int) string {
	s, next := &t.Sequences[index], t.commands
	if uint64(s.First) != next || s.Count == 0 || uint64(s.Count) > uint64(len(t.Commands))-next {
		return Text("%d commands from %d do not continue at command %d of %d", uint64(s.Count), uint64(s.First), next, uint64(len(t.Commands)))
	}
	t.commands += uint64(s.Count)
	return t.name(s.Name)
}

// place checks that segments follow the envelope and each other.
func (t *tables) place(index int) string {
	s, first := &t.Segments[index], t.Segments[0].Offset
	switch start := roundUp(t.end, SegmentAlign); {
	case s.Size == 0 || s.Size > BytesMax || s.Offset > BytesMax:
		return Text("%d bytes at %x are none, or more than 64 TiB", s.Size, s.Offset)
	case s.Offset != start:
		return Text("offset is %x and should be %x", s.Offset, start)
	case s.Reserved != 0:
		return reserved
	}
	t.end = s.Offset + s.Size
	t.payload += s.Size
	t.stride = max((s.Offset-first)/uint64(max(index, 1)), 1) // the last counts
	return ""
}

// tensor checks a tensor, and that tensors fill the arena in order.
func (t *tables) tensor(index int) string {
	x, start := &t.Tensors[index], t.arena
	if reason := t.name(x.Name); reason != "" {
		return reason
	}
	switch size := x.shapeSize(); {
	case x.Role != gen.RoleInput && x.Role != gen.RoleOutput:
		return Text("unknown role %d", uint64(x.Role))
	case x.Recorded > 1:
		return Text("recorded is %d and should be 0 or 1", uint64(x.Recorded))
	case size == 0:
		return Text("element type %d or shape is unknown, has a zero, or more than 64 TiB", uint64(x.DType))
	case x.Size != size:
		return Text("size is %d, shape and element type make %d", x.Size, size)
	case x.ArenaOffset != start || start > BytesMax:
		return Text("arena offset is %x and should be %x", x.ArenaOffset, start)
	case x.Recorded == 0 && x.RecordedOffset != 0:
		return "has an offset of recorded data and no recorded data"
	case x.Recorded == 1:
		if _, end := t.segment(x.RecordedOffset); x.Size > end-min(end, x.RecordedOffset) {
			return Text("recorded data at payload offset %x lie outside every segment", x.RecordedOffset)
		}
	}
	t.arena = roundUp(start+x.Size, ArenaAlign)
	return ""
}

// shapeSize is the bytes that shape and element type make, 0 for impossible ones.
func (t *Tensor) shapeSize() uint64 {
	size := uint64(DTypeSize(t.DType))
	for i, n := range t.Sides {
		switch {
		case t.Dims > DimsMax, (i < int(t.Dims)) != (n != 0), n != 0 && size > BytesMax/uint64(n):
			return 0
		case n != 0:
			size *= uint64(n)
		}
	}
	return size
}

// segment gives first and end, in the payload, of the last segment that begins
// at or before an offset; 0 and 0 where there is no segment. Offsets come in any
// order, and segments are mostly of one size: so it looks there first.
func (v *View) segment(offset uint64) (first, end uint64) {
	if len(v.Segments) == 0 {
		return 0, 0
	}
	at, behind := 0, len(v.Segments)
	area := v.Segments[0].Offset
	guess := int(min(offset/v.stride, uint64(behind)-1))
	if s := &v.Segments[guess]; offset-(s.Offset-area) < s.Size {
		at, behind = guess, guess+1
	}
	for behind-at > 1 {
		if half := (at + behind) / 2; v.Segments[half].Offset-area <= offset {
			at = half
		} else {
			behind = half
		}
	}
	first = v.Segments[at].Offset - area
	return first, first + v.Segments[at].Size
}

// verifySegments checks the payload: its checksums, that it ends with the file,
// and that what lies between segments is zero.
func (v *View) verifySegments(data []byte) *Error {
	size, end := uint64(len(data)), uint64(len(v.Envelope))
	v.Payload = data[min(roundUp(end, SegmentAlign), size):]
	for i := range v.Segments {
		s := &v.Segments[i]
		reason := ""
		switch {
		case s.Offset > size || s.Size > size-s.Offset:
			reason = Text("%d bytes at %x do not fit a file of %d", s.Size, s.Offset, size)
		case !zeros(data[end:s.Offset]):
			reason = "bytes in front of it are not zero"
		default:
			end = s.Offset + s.Size
			if got := Checksum(data[s.Offset:end]); got != s.CRC32C {
				reason = Text("checksum is %x and should be %x", uint64(got), uint64(s.CRC32C))
			}
		}
		if reason != "" {
			return &Error{Text("segment %d", uint64(i)), reason}
		}
	}
	if end != size {
		return &Error{"segments", Text("end at %x, the file at %x", end, size)}
	}
	return nil
}

func zeros(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}

func roundUp(n, multiple uint64) uint64 { return (n + multiple - 1) / multiple * multiple }
