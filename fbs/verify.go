package fbs

import (
	"lightmetal/fbs/gen"
)

// verifyCounts holds the reservation against the vectors.
func (v *View) verifyCounts() error {
	r := &v.Reservation
	for _, c := range [...]struct {
		name     string
		got      int
		reserved uint32
	}{
		{"windows", len(v.Windows), r.Windows},
		{"names", len(v.Names), r.Names},
		{"sequences", len(v.Sequences), r.Sequences},
		{"tensors", len(v.Tensors), r.Tensors},
		{"segments", len(v.Segments), r.Segments},
		{"commands", len(v.Commands), r.Commands},
	} {
		if uint64(c.got) != uint64(c.reserved) {
			return &Error{"reservation", Text("%d ", uint64(c.reserved)) + c.name + Text(", the image has %d", uint64(c.got))}
		}
	}
	switch {
	case len(v.Targets) == 0:
		return &Error{"image", "has no target"}
	case len(v.Windows) == 0:
		return &Error{"image", "has no window"}
	case len(v.Sequences) == 0:
		return &Error{"image", "has no sequence"}
	}
	return nil
}

// verifySegments checks place and checksum of every segment and that what lies
// between them is zero, and sets Payload.
func (v *View) verifySegments(data []byte, end uint64) error {
	size := uint64(len(data))
	envelope, sum := end, uint64(0)
	for i := range v.Segments {
		s := &v.Segments[i]
		place := Text("segment %d", uint64(i))
		start := roundUp(end, SegmentAlign)
		switch {
		case s.Offset != start:
			return &Error{place, Text("offset is %x and should be %x", s.Offset, start)}
		case s.Size == 0 || start > size || s.Size > size-start:
			return &Error{place, Text("%d bytes at %x do not fit a file of %d", s.Size, s.Offset, size)}
		case s.Reserved != 0:
			return &Error{place, "reserved field is not zero"}
		}
		for _, b := range data[end:start] {
			if b != 0 {
				return &Error{place, "bytes in front of it are not zero"}
			}
		}
		end = start + s.Size
		sum += s.Size
		if got := Checksum(data[start:end]); got != s.CRC32C {
			return &Error{place, Text("checksum is %x and should be %x", uint64(got), uint64(s.CRC32C))}
		}
	}
	if end != size {
		return &Error{"segments", Text("end at %x, the file at %x", end, size)}
	}
	if sum != v.Reservation.PayloadBytes {
		return &Error{"reservation", Text("%d payload bytes, the segments have %d", v.Reservation.PayloadBytes, sum)}
	}
	if len(v.Segments) > 0 {
		v.Payload = data[roundUp(envelope, SegmentAlign):]
	}
	return nil
}

// payloadHas tells whether a run of payload lies inside one segment.
func (v *View) payloadHas(offset, size uint64) bool {
	for i := range v.Segments {
		start := v.Segments[i].Offset - v.Segments[0].Offset
		if offset >= start && offset-start < v.Segments[i].Size {
			return size <= v.Segments[i].Size-(offset-start)
		}
	}
	return false
}

// verifyTables checks windows, sequences and tensors.
func (v *View) verifyTables() error {
	host := uint64(0)
	for i := range v.Windows {
		if reason := v.windowReason(&v.Windows[i]); reason != "" {
			return &Error{Text("window %d", uint64(i)), reason}
		}
		if v.Windows[i].Kind == gen.WindowKindHost {
			host += roundUp(v.Windows[i].Size, SegmentAlign)
		}
	}
	if host != v.Reservation.HostBytes {
		return &Error{"reservation", Text("%d host bytes, the windows need %d", v.Reservation.HostBytes, host)}
	}
	if err := v.verifySequences(); err != nil {
		return err
	}
	return v.verifyTensors()
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
	case w.Name != NoName && int(w.Name) >= len(v.Names):
		return Text("name %d does not exist", uint64(w.Name))
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

// verifySequences checks that the sequences cover the commands without a gap
// and that their names are unique.
func (v *View) verifySequences() error {
	next := uint64(0)
	for i := range v.Sequences {
		s := &v.Sequences[i]
		if v.SequenceByName(s.Name) != i {
			return &Error{Text("sequence %d", uint64(i)), "the name " + Quote(s.Name) + " is taken"}
		}
		if uint64(s.First) != next || s.Count == 0 || uint64(s.Count) > uint64(len(v.Commands))-next {
			return &Error{"sequence " + Quote(s.Name), Text("%d commands from %d do not continue at command %d of %d", uint64(s.Count), uint64(s.First), next, uint64(len(v.Commands)))}
		}
		next += uint64(s.Count)
	}
	if next != uint64(len(v.Commands)) {
		return &Error{"sequences", Text("cover %d of %d commands", next, uint64(len(v.Commands)))}
	}
	return nil
}

// verifyTensors checks every tensor and that they fill the arena in order.
func (v *View) verifyTensors() error {
	end := uint64(0)
	for i := range v.Tensors {
		t := &v.Tensors[i]
		if v.TensorByName(t.Name) != i {
			return &Error{Text("tensor %d", uint64(i)), "the name " + Quote(t.Name) + " is taken"}
		}
		if reason := v.tensorReason(t, end); reason != "" {
			return &Error{"tensor " + Quote(t.Name), reason}
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
	element := uint64(DTypeSize(t.DType))
	switch {
	case t.Role != gen.RoleInput && t.Role != gen.RoleOutput:
		return Text("unknown role %d", uint64(t.Role))
	case element == 0:
		return Text("unknown element type %d", uint64(t.DType))
	}
	size := element
	for _, n := range t.Shape {
		if n == 0 || size > BytesMax/uint64(n) {
			return "shape has a zero, or more than 64 TiB"
		}
		size *= uint64(n)
	}
	switch {
	case t.Size != size:
		return Text("size is %d, shape and element type make %d", t.Size, size)
	case t.ArenaOffset != start || start > BytesMax:
		return Text("arena offset is %x and should be %x", t.ArenaOffset, start)
	case t.Recorded && !v.payloadHas(t.RecordedOffset, t.Size):
		return Text("recorded data at payload offset %x lie outside every segment", t.RecordedOffset)
	case !t.Recorded && t.RecordedOffset != 0:
		return "has an offset of recorded data and no recorded data"
	}
	return ""
}

func roundUp(n, multiple uint64) uint64 { return (n + multiple - 1) / multiple * multiple }
