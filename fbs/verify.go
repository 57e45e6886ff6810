package fbs

import (
	"strconv"

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
			return &Error{"reservation", decimal(uint64(c.reserved)) + " " + c.name + ", the image has " + decimal(uint64(c.got))}
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
		place := "segment " + strconv.Itoa(i)
		start := roundUp(end, SegmentAlign)
		switch {
		case s.Offset != start:
			return &Error{place, "offset is " + hex(s.Offset) + " and should be " + hex(start)}
		case s.Size == 0 || start > size || s.Size > size-start:
			return &Error{place, decimal(s.Size) + " bytes at " + hex(s.Offset) + " do not fit a file of " + decimal(size)}
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
			return &Error{place, "checksum is " + hex(uint64(got)) + " and should be " + hex(uint64(s.CRC32C))}
		}
	}
	if end != size {
		return &Error{"segments", "end at " + hex(end) + ", the file at " + hex(size)}
	}
	if sum != v.Reservation.PayloadBytes {
		return &Error{"reservation", decimal(v.Reservation.PayloadBytes) + " payload bytes, the segments have " + decimal(sum)}
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

// verifyTables checks names, targets, windows, sequences and tensors.
func (v *View) verifyTables() error {
	for i, name := range v.Names {
		if err := verifyName(name, "name", i); err != nil {
			return err
		}
	}
	for i := range v.Targets {
		if err := verifyName(v.Targets[i].Board, "target", i); err != nil {
			return err
		}
	}
	host := uint64(0)
	for i := range v.Windows {
		if reason := v.windowReason(&v.Windows[i]); reason != "" {
			return &Error{"window " + strconv.Itoa(i), reason}
		}
		if v.Windows[i].Kind == gen.WindowKindHost {
			host += roundUp(v.Windows[i].Size, SegmentAlign)
		}
	}
	if host != v.Reservation.HostBytes {
		return &Error{"reservation", decimal(v.Reservation.HostBytes) + " host bytes, the windows need " + decimal(host)}
	}
	if err := v.verifySequences(); err != nil {
		return err
	}
	return v.verifyTensors()
}

func verifyName(name, what string, index int) error {
	if len(name) == 0 || len(name) > NameMax {
		return &Error{what + " " + strconv.Itoa(index), "name has " + strconv.Itoa(len(name)) + " bytes and should have 1 to 255"}
	}
	return nil
}

// windowReason says what is wrong with a window, empty if nothing is.
func (v *View) windowReason(w *Window) string {
	switch {
	case w.Kind == gen.WindowKindInvalid || w.Kind > gen.WindowKindConfig:
		return "unknown kind " + decimal(uint64(w.Kind))
	case int(w.Device) >= len(v.Targets):
		return "target " + decimal(uint64(w.Device)) + " does not exist"
	case w.Flags&^FlagWriteCombining != 0:
		return "unknown flags " + hex(uint64(w.Flags))
	case w.Name != NoName && int(w.Name) >= len(v.Names):
		return "name " + decimal(uint64(w.Name)) + " does not exist"
	case w.Size == 0 || w.Size > WindowMax:
		return "size " + hex(w.Size) + " is not between 1 byte and 4 GiB"
	case w.Kind != gen.WindowKindTlb && w.Slot != NoSlot:
		return "only a TLB window has a slot"
	case w.Kind != gen.WindowKindBar && (w.Bar != 0 || w.Offset != 0):
		return "only a BAR window has a BAR and an offset"
	}
	switch w.Kind {
	case gen.WindowKindBar:
		if w.Bar >= 6 {
			return "BAR " + decimal(uint64(w.Bar)) + " does not exist"
		}
		bar := v.Targets[w.Device].Bars[w.Bar]
		if w.Offset > bar || w.Size > bar-w.Offset {
			return hex(w.Size) + " bytes at " + hex(w.Offset) + " do not fit BAR " + decimal(uint64(w.Bar)) + " of " + hex(bar)
		}
	case gen.WindowKindTlb:
		if w.Size&(w.Size-1) != 0 {
			return "size " + hex(w.Size) + " of a TLB window is not a power of two"
		}
	case gen.WindowKindConfig:
		if w.Size != 256 && w.Size != 4096 {
			return "configuration space has 256 or 4096 bytes, not " + decimal(w.Size)
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
		if err := verifyName(s.Name, "sequence", i); err != nil {
			return err
		}
		if v.SequenceByName(s.Name) != i {
			return &Error{"sequence " + strconv.Itoa(i), "the name " + strconv.Quote(s.Name) + " is taken"}
		}
		if uint64(s.First) != next || s.Count == 0 || uint64(s.Count) > uint64(len(v.Commands))-next {
			return &Error{"sequence " + strconv.Quote(s.Name), decimal(uint64(s.Count)) + " commands from " + decimal(uint64(s.First)) +
				" do not continue at command " + decimal(next) + " of " + strconv.Itoa(len(v.Commands))}
		}
		next += uint64(s.Count)
	}
	if next != uint64(len(v.Commands)) {
		return &Error{"sequences", "cover " + decimal(next) + " of " + strconv.Itoa(len(v.Commands)) + " commands"}
	}
	return nil
}

// verifyTensors checks every tensor and that they fill the arena in order.
func (v *View) verifyTensors() error {
	end := uint64(0)
	for i := range v.Tensors {
		t := &v.Tensors[i]
		if err := verifyName(t.Name, "tensor", i); err != nil {
			return err
		}
		if v.TensorByName(t.Name) != i {
			return &Error{"tensor " + strconv.Itoa(i), "the name " + strconv.Quote(t.Name) + " is taken"}
		}
		if reason := v.tensorReason(t, end); reason != "" {
			return &Error{"tensor " + strconv.Quote(t.Name), reason}
		}
		end = roundUp(end+t.Size, ArenaAlign)
	}
	if end != v.Reservation.ArenaBytes {
		return &Error{"reservation", decimal(v.Reservation.ArenaBytes) + " arena bytes, the tensors need " + decimal(end)}
	}
	return nil
}

// tensorReason says what is wrong with a tensor that should start at arena
// offset start, empty if nothing is.
func (v *View) tensorReason(t *Tensor, start uint64) string {
	element := uint64(DTypeSize(t.DType))
	switch {
	case t.Role != gen.RoleInput && t.Role != gen.RoleOutput:
		return "unknown role " + decimal(uint64(t.Role))
	case element == 0:
		return "unknown element type " + decimal(uint64(t.DType))
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
		return "size is " + decimal(t.Size) + ", shape and element type make " + decimal(size)
	case t.ArenaOffset != start || start > BytesMax:
		return "arena offset is " + hex(t.ArenaOffset) + " and should be " + hex(start)
	case t.Recorded && !v.payloadHas(t.RecordedOffset, t.Size):
		return "recorded data at payload offset " + hex(t.RecordedOffset) + " lie outside every segment"
	case !t.Recorded && t.RecordedOffset != 0:
		return "has an offset of recorded data and no recorded data"
	}
	return ""
}

func roundUp(n, multiple uint64) uint64 { return (n + multiple - 1) / multiple * multiple }
