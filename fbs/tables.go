package fbs

import "lightmetal/fbs/gen"

// verifyTables checks all tables but commands and segments.
func (v *View) verifyTables() *Error {
	for _, verify := range [...]func() *Error{v.verifyCounts, v.verifyTargets, v.verifyWindows, v.verifySequences, v.verifyPlaces, v.verifyTensors} {
		if err := verify(); err != nil {
			return err
		}
	}
	return nil
}

// verifyCounts holds the reservation against the vectors.
func (v *View) verifyCounts() *Error {
	r := &v.Reservation
	for _, c := range [...]struct {
		name     string
		got      int
		reserved uint32
		needed   bool
	}{
		{"target", len(v.Targets), r.Targets, true},
		{"window", len(v.Windows), r.Windows, true},
		{"sequence", len(v.Sequences), r.Sequences, true},
		{"tensor", len(v.Tensors), r.Tensors, false},
		{"segment", len(v.Segments), r.Segments, false},
		{"command", len(v.Commands), r.Commands, true},
	} {
		if c.needed && c.got == 0 {
			return &Error{"image", "has no " + c.name}
		}
		if uint64(c.got) != uint64(c.reserved) {
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

func (v *View) verifyTargets() *Error {
	for i := range v.Targets {
		if reason := v.nameReason(v.Targets[i].Board); reason != "" {
			return &Error{Text("target %d", uint64(i)), reason}
		}
	}
	return nil
}

func (v *View) verifyWindows() *Error {
	host := uint64(0)
	for i := range v.Windows {
		w := &v.Windows[i]
		if reason := v.windowReason(w); reason != "" {
			return &Error{Text("window %d", uint64(i)), reason}
		}
		if w.Kind == gen.WindowKindHost {
			host += roundUp(w.Size, SegmentAlign)
		}
	}
	if host != v.Reservation.HostBytes {
		return &Error{"reservation", Text("%d host bytes, the windows need %d", v.Reservation.HostBytes, host)}
	}
	return nil
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
		return "reserved field is not zero"
	case w.Size == 0 || w.Size > WindowMax:
		return Text("size %x is not between 1 byte and 4 GiB", w.Size)
	case w.Kind != gen.WindowKindTlb && w.Slot != NoSlot:
		return "only a TLB window has a slot"
	case w.Kind != gen.WindowKindBar && (w.Bar != 0 || w.Offset != 0):
		return "only a BAR window has a BAR and an offset"
	}
	switch w.Kind {
	case gen.WindowKindBar:
		if w.Bar >= 6 {
			return Text("BAR %d does not exist", uint64(w.Bar))
		}
		bar := v.Targets[w.Device].Bars[w.Bar]
		if w.Offset > bar || w.Size > bar-w.Offset {
			return Text("%x bytes at %x do not fit BAR %d of %x", w.Size, w.Offset, uint64(w.Bar), bar)
		}
	case gen.WindowKindTlb:
		if w.Size&(w.Size-1) != 0 {
			return Text("size %x of a TLB window is not a power of two", w.Size)
		}
	case gen.WindowKindConfig:
		if w.Size != 256 && w.Size != 4096 {
			return Text("configuration space has 256 or 4096 bytes, not %d", w.Size)
		}
	}
	return ""
}

// verifySequences checks that the sequences cover the commands without a gap.
func (v *View) verifySequences() *Error {
	next := uint64(0)
	for i := range v.Sequences {
		s := &v.Sequences[i]
		reason := v.nameReason(s.Name)
		if uint64(s.First) != next || s.Count == 0 || uint64(s.Count) > uint64(len(v.Commands))-next {
			reason = Text("%d commands from %d do not continue at command %d of %d", uint64(s.Count), uint64(s.First), next, uint64(len(v.Commands)))
		}
		if reason != "" {
			return &Error{Text("sequence %d", uint64(i)), reason}
		}
		next += uint64(s.Count)
	}
	if next != uint64(len(v.Commands)) {
		return &Error{"sequences", Text("cover %d of %d commands", next, uint64(len(v.Commands)))}
	}
	return nil
}

// verifyTensors checks every tensor and that they fill the arena in order.
func (v *View) verifyTensors() *Error {
	end := uint64(0)
	for i := range v.Tensors {
		t := &v.Tensors[i]
		if reason := v.tensorReason(t, end); reason != "" {
			return &Error{Text("tensor %d", uint64(i)), reason}
		}
		end = roundUp(end+t.Size, ArenaAlign)
	}
	if end != v.Reservation.ArenaBytes {
		return &Error{"reservation", Text("%d arena bytes, the tensors need %d", v.Reservation.ArenaBytes, end)}
	}
	return nil
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
	sum, end := uint64(0), uint64(0)
	for i := range v.Segments {
		s := &v.Segments[i]
		if i == 0 {
			end = s.Offset // where the first begins, verifySegments knows
		}
		reason := ""
		switch start := roundUp(end, SegmentAlign); {
		case s.Size == 0 || s.Size > BytesMax || s.Offset > BytesMax:
			reason = Text("%d bytes at %x are none, or more than 64 TiB", s.Size, s.Offset)
		case s.Offset != start:
			reason = Text("offset is %x and should be %x", s.Offset, start)
		case s.Reserved != 0:
			reason = "reserved field is not zero"
		}
		if reason != "" {
			return &Error{Text("segment %d", uint64(i)), reason}
		}
		end = s.Offset + s.Size
		sum += s.Size
	}
	v.stride = ^uint64(0)
	if n := uint64(len(v.Segments)); n > 1 {
		v.stride = (v.Segments[n-1].Offset - v.Segments[0].Offset) / (n - 1) // a page or more
	}
	if sum != v.Reservation.PayloadBytes {
		return &Error{"reservation", Text("%d payload bytes, the segments have %d", v.Reservation.PayloadBytes, sum)}
	}
	return nil
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
	if len(v.Segments) > 0 {
		area := roundUp(end, SegmentAlign)
		if at := v.Segments[0].Offset; at != area {
			return &Error{"segment 0", Text("offset is %x and should be %x", at, area)}
		}
		v.Payload = data[min(area, size):]
	}
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

func roundUp(n, multiple uint64) uint64 { return (n + multiple - 1) / multiple * multiple }
