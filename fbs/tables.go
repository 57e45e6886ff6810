package fbs

import (
	"lightmetal/boards"
	"lightmetal/fbs/gen"
)

// verifyTables checks all tables but commands and segments.
func (v *View) verifyTables() *Error {
	rules := func() *Error { return each("rule", len(v.Rules), v.ruleReason) }
	for _, verify := range [...]func() *Error{v.verifyCounts, v.verifyTargets, rules, v.verifyWindows, v.verifySequences, v.verifyPlaces, v.verifyTensors} {
		if err := verify(); err != nil {
			return err
		}
	}
	return nil
}

// verifyCounts holds the reservation against the vectors.
func (v *View) verifyCounts() *Error {
	r := &v.Reservation
	for i, c := range [...]struct {
		name     string
		got      int
		reserved uint32
	}{
		{"target", len(v.Targets), r.Targets},
		{"window", len(v.Windows), r.Windows},
		{"sequence", len(v.Sequences), r.Sequences},
		{"command", len(v.Commands), r.Commands}, // none of which is missing
		{"tensor", len(v.Tensors), r.Tensors},
		{"segment", len(v.Segments), r.Segments},
	} {
		switch {
		case i <= 3 && c.got == 0:
			return &Error{"image", "has no " + c.name}
		case uint64(c.got) != uint64(c.reserved):
			return &Error{"reservation", Text("%d ", uint64(c.reserved)) + c.name + Text("s, the image has %d", uint64(c.got))}
		}
	}
	return nil
}

// nameReason says what is wrong with a name, empty if nothing is.
func (v *View) nameReason(n Name) string {
	if n&NameMax == 0 {
		return "has no name"
	}
	if uint64(n>>8)+uint64(n&NameMax) > uint64(len(v.Text)) {
		return Text("name of %d bytes at %x lies outside the text of %d", uint64(n&NameMax), uint64(n>>8), uint64(len(v.Text)))
	}
	return ""
}

// each says what is wrong with the first of several things that has something.
func each(what string, count int, reason func(i int) string) *Error {
	for i := range count {
		if why := reason(i); why != "" {
			return &Error{what + Text(" %d", uint64(i)), why}
		}
	}
	return nil
}

// reserves says that the reservation is of another sum, unless all is wrong already.
func reserves(err *Error, reason string, says, need uint64) *Error {
	if err == nil && says != need {
		return &Error{"reservation", Text(reason, says, need)}
	}
	return err
}

const reserved = "reserved field is not zero"

func (v *View) verifyTargets() *Error {
	return each("target", len(v.Targets), func(i int) string {
		if v.Targets[i].Reserved != 0 {
			return reserved
		}
		return v.nameReason(v.Targets[i].Board)
	})
}

// ruleReason says what is wrong with a rule, empty if nothing is.
func (v *View) ruleReason(i int) string {
	r, before := &v.Rules[i], &v.Rules[max(i, 1)-1]
	order := int(r.Target)<<8 + int(r.Bar) - int(before.Target)<<8 - int(before.Bar)
	switch {
	case int(r.Target) >= len(v.Targets):
		return Text("target %d does not exist", uint64(r.Target))
	case boards.ByID(v.Targets[r.Target].Vendor, v.Targets[r.Target].Device) != nil:
		return Text("target %d is of a board that is known, whose own rules hold", uint64(r.Target))
	case r.Bar >= 6 || r.First > r.Last || r.Last >= v.Targets[r.Target].Bars[r.Bar]:
		return Text("%x to %x do not lie in BAR %d", r.First, r.Last, uint64(r.Bar))
	case r.Widths == 0 || r.Widths > 15 || r.Memory > 1:
		return Text("widths %x are none of 1, 2, 4 and 8, or memory %d is not 0 or 1", uint64(r.Widths), uint64(r.Memory))
	case (r.First|(r.Last+1))&uint64(r.Widths&-r.Widths-1) != 0:
		return Text("%x to %x begin or end inside an access of the least width", r.First, r.Last)
	case order < 0 || order == 0 && i > 0 && r.First <= before.Last:
		return Text("%x to %x overlap the rule before, or belong in front of it", r.First, r.Last)
	}
	return v.nameReason(r.Name)
}

// Board is what is known of a target: by its ids, or as the image itself says.
func (v *View) Board(target int) *boards.Board {
	t := &v.Targets[target]
	if known := boards.ByID(t.Vendor, t.Device); known != nil {
		return known
	}
	b := &boards.Board{Name: v.Name(t.Board), Vendor: t.Vendor, Device: t.Device, Bars: t.Bars}
	for _, r := range v.Rules {
		if int(r.Target) == target {
			b.Rules = append(b.Rules, boards.Rule{Bar: r.Bar, First: r.First, Last: r.Last, Widths: r.Widths, Memory: r.Memory != 0, Name: v.Name(r.Name)})
		}
	}
	return b
}

func (v *View) verifyWindows() *Error {
	host := uint64(0)
	err := each("window", len(v.Windows), func(i int) string {
		if w := &v.Windows[i]; w.Kind == gen.WindowKindHost {
			host += roundUp(w.Size, SegmentAlign)
		}
		return v.windowReason(&v.Windows[i])
	})
	return reserves(err, "%d host bytes, the windows need %d", v.Reservation.HostBytes, host)
}

// windowReason says what is wrong with a window, empty if nothing is.
func (v *View) windowReason(w *Window) string {
	switch {
	case w.Kind == gen.WindowKindInvalid || w.Kind > gen.WindowKindConfig:
		return Text("unknown kind %d", uint64(w.Kind))
	case int(w.Device) >= len(v.Targets):
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
	bar := v.Targets[w.Device].Bars[w.Bar]
	if w.Kind == gen.WindowKindBar && (w.Offset > bar || w.Size > bar-w.Offset) {
		return Text("%x bytes at %x do not fit BAR %d of %x", w.Size, w.Offset, uint64(w.Bar), bar)
	}
	return ""
}

// verifySequences checks that the sequences cover the commands without a gap.
func (v *View) verifySequences() *Error {
	next := uint64(0)
	err := each("sequence", len(v.Sequences), func(i int) string {
		s := &v.Sequences[i]
		if uint64(s.First) != next || s.Count == 0 || uint64(s.Count) > uint64(len(v.Commands))-next {
			return Text("%d commands from %d do not continue at command %d of %d", uint64(s.Count), uint64(s.First), next, uint64(len(v.Commands)))
		}
		next += uint64(s.Count)
		return v.nameReason(s.Name)
	})
	if err == nil && next != uint64(len(v.Commands)) {
		return &Error{"sequences", Text("cover %d of %d commands", next, uint64(len(v.Commands)))}
	}
	return err
}

// verifyTensors checks every tensor and that they fill the arena in order.
func (v *View) verifyTensors() *Error {
	end := uint64(0)
	err := each("tensor", len(v.Tensors), func(i int) string {
		start := end
		end = roundUp(end+v.Tensors[i].Size, ArenaAlign)
		return v.tensorReason(&v.Tensors[i], start)
	})
	return reserves(err, "%d arena bytes, the tensors need %d", v.Reservation.ArenaBytes, end)
}

// tensorReason says what is wrong with a tensor that should start at arena
// offset start, empty if nothing is.
func (v *View) tensorReason(t *Tensor, start uint64) string {
	if reason := v.nameReason(t.Name); reason != "" {
		return reason
	}
	switch {
	case t.Role != gen.RoleInput && t.Role != gen.RoleOutput:
		return Text("unknown role %d", uint64(t.Role))
	case t.Recorded > 1:
		return Text("recorded is %d and should be 0 or 1", uint64(t.Recorded))
	case t.shapeSize() == 0:
		return Text("element type %d or shape is unknown, has a zero, or more than 64 TiB", uint64(t.DType))
	case t.Size != t.shapeSize():
		return Text("size is %d, shape and element type make %d", t.Size, t.shapeSize())
	case t.ArenaOffset != start || start > BytesMax:
		return Text("arena offset is %x and should be %x", t.ArenaOffset, start)
	case t.Recorded == 0 && t.RecordedOffset != 0:
		return "has an offset of recorded data and no recorded data"
	case t.Recorded == 1:
		if _, end := v.segment(t.RecordedOffset); t.Size > end-min(end, t.RecordedOffset) {
			return Text("recorded data at payload offset %x lie outside every segment", t.RecordedOffset)
		}
	}
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

// verifyPlaces checks that segments follow each other and fit their reservation.
func (v *View) verifyPlaces() *Error {
	sum, end := uint64(0), uint64(len(v.Envelope))
	err := each("segment", len(v.Segments), func(i int) string {
		s := &v.Segments[i]
		start := roundUp(end, SegmentAlign)
		end = s.Offset + s.Size
		sum += s.Size
		switch {
		case s.Size == 0 || s.Size > BytesMax || s.Offset > BytesMax:
			return Text("%d bytes at %x are none, or more than 64 TiB", s.Size, s.Offset)
		case s.Offset != start:
			return Text("offset is %x and should be %x", s.Offset, start)
		case s.Reserved != 0:
			return reserved
		}
		return ""
	})
	v.stride = ^uint64(0)
	if n := uint64(len(v.Segments)); n > 1 {
		v.stride = (v.Segments[n-1].Offset - v.Segments[0].Offset) / (n - 1) // a page or more
	}
	return reserves(err, "%d payload bytes, the segments have %d", v.Reservation.PayloadBytes, sum)
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
func (v *View) verifySegments(data []byte, end uint64) *Error {
	size := uint64(len(data))
	v.Payload = data[min(roundUp(end, SegmentAlign), size):]
	err := each("segment", len(v.Segments), func(i int) string {
		s := &v.Segments[i]
		switch {
		case s.Offset > size || s.Size > size-s.Offset:
			return Text("%d bytes at %x do not fit a file of %d", s.Size, s.Offset, size)
		case !zeros(data[end:s.Offset]):
			return "bytes in front of it are not zero"
		}
		end = s.Offset + s.Size
		if got := Checksum(data[s.Offset:end]); got != s.CRC32C {
			return Text("checksum is %x and should be %x", uint64(got), uint64(s.CRC32C))
		}
		return ""
	})
	if err == nil && end != size {
		return &Error{"segments", Text("end at %x, the file at %x", end, size)}
	}
	return err
}

func roundUp(n, multiple uint64) uint64 { return (n + multiple - 1) / multiple * multiple }
