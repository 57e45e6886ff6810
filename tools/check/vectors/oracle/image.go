// Package oracle is a reader of Light Metal images for tests. It was written from fbs/FORMAT.md and
// fbs/image.fbs, and shares no code with packages fbs, hal and runtime. It is written to be read,
// and not to be fast.
//
// It is the only model of a run. Tests of vectors compare the runtime and the C player with it. The
// guest lets it execute images on QEMU's trace (guest/follow.go), and simulated worlds compare each
// access of the runner with it (simulate/world/model.go).
//
// Of package boards it uses only the data: ids, rules, closed ranges, sizes of TLB windows, and
// registers of outbound translation. Of package gen it uses only the schema hash.
package oracle

import (
	"bytes"
	"encoding/binary"
)

// The structs of fbs/image.fbs, as they lie in a file.
type (
	// Command is one command.
	Command struct {
		Opcode, Width, Mode, Option uint8
		Window, Index               uint16
		Offset, Amount              uint32
		Value, Mask                 uint64
	}

	// Device is a device that the image needs.
	Device struct {
		Bars           [6]uint64
		Board          uint32
		Vendor, Device uint16
		Subsystem      uint32
		Vectors        uint16
		Interrupts     uint8
		Reserved       uint8
	}

	// Rule is a rule of the image for a device without a known board.
	Rule struct {
		First, Last                 uint64
		Device, Bar, Widths, Memory uint8
		Name                        uint32
	}

	// Window is a range that commands access.
	Window struct {
		Kind, Device, Bar, Flags uint8
		Slot, Reserved           uint16
		Offset, Size             uint64
	}

	// Sequence is a run of commands.
	Sequence struct{ Name, First, Count uint32 }

	// Tensor is an input, an output or scratch.
	Tensor struct {
		Name                          uint32
		Role, HasData, DType, Dims    uint8
		Size, ArenaOffset, DataOffset uint64
		Shape                         [8]uint32
	}

	// Ring is a position that moves from run to run.
	Ring struct {
		Begin, End, First uint64
		Name, Reserved    uint32
	}

	// Segment is a part of the payload.
	Segment struct {
		Offset, Size     uint64
		Sum, ReservedSum uint32
	}

	// Reservation has the counts and sums of an image.
	Reservation struct {
		Arena, Host, Payload                                     uint64
		Commands, Windows, Tensors, Sequences, Segments, Devices uint32
	}
)

// Image is what an image file contains.
type Image struct {
	Reservation Reservation
	Devices     []Device
	Rules       []Rule
	Rings       []Ring
	Windows     []Window
	Sequences   []Sequence
	Tensors     []Tensor
	Segments    []Segment
	Commands    []Command
	Text        []byte
	Payload     []byte

	// LongestUs has the longest time of each sequence in microseconds.
	LongestUs []uint64

	file     []byte // without a signature
	envelope uint64 // size of the envelope
}

// Fault is the reason why an image is rejected: a result code, and the place of the first error.
// testdata/vectors/README.md lists codes and places.
type Fault struct{ Code, Place string }

// Error returns the code and the place.
func (f *Fault) Error() string { return f.Code + " " + f.Place }

// preambleBytes is the size of the preamble, and the least position of a FlatBuffers object.
const preambleBytes = 72

// number returns an unsigned number of `size` bytes of the envelope.
func (m *Image) number(at uint64, size uint64) uint64 {
	n := uint64(0)
	for i := range size {
		n |= uint64(m.file[at+i]) << (8 * i)
	}
	return n
}

// isObject reports whether a range of the envelope can be read as a FlatBuffers object.
func (m *Image) isObject(at, size, align uint64) bool {
	return at >= preambleBytes && at <= m.envelope && size <= m.envelope-at && at%align == 0
}

// table is the root table of the FlatBuffer.
type table struct{ at, size, vtable, fields uint64 }

// readTable reads the vtable of the root table, which has at most `most` fields.
func (m *Image) readTable(most uint64) (t table, ok bool) {
	t.at = m.number(0, 4)
	if !m.isObject(t.at, 4, 4) {
		return t, false
	}
	distance := int64(int32(m.number(t.at, 4)))
	t.vtable = uint64(int64(t.at) - distance)
	if !m.isObject(t.vtable, 4, 2) {
		return t, false
	}
	size := m.number(t.vtable, 2)
	t.size = m.number(t.vtable+2, 2)
	if size < 4 || size%2 != 0 || t.size < 4 || (size-4)/2 > most {
		return t, false
	}
	t.fields = (size - 4) / 2
	return t, m.isObject(t.vtable, size, 2) && m.isObject(t.at, t.size, 4)
}

// field returns the position of a field of `size` bytes, 0 if the field is absent.
func (m *Image) field(t table, id, size uint64) (at uint64, ok bool) {
	if id >= t.fields {
		return 0, true
	}
	offset := m.number(t.vtable+4+2*id, 2)
	if offset == 0 {
		return 0, true
	}
	return t.at + offset, offset >= 4 && offset <= t.size && size <= t.size-offset
}

// readVector reads a vector of structs or bytes.
func readVector[T any](m *Image, t table, id, align, most uint64, list *[]T) (ok bool) {
	at, ok := m.field(t, id, 4)
	if !ok || at == 0 {
		return ok
	}
	if !m.isObject(at, 4, 4) {
		return false
	}
	at += m.number(at, 4)
	if !m.isObject(at, 4, 4) {
		return false
	}
	count := m.number(at, 4)
	if count > most {
		return false
	}
	if count == 0 {
		return true
	}
	var element T
	size := count * uint64(binary.Size(element))
	if !m.isObject(at+4, size, align) {
		return false
	}
	*list = make([]T, count)
	_, err := binary.Decode(m.file[at+4:][:size], binary.LittleEndian, *list)
	return err == nil
}

// readFlatBuffer reads the tables of the envelope (FORMAT.md section 1.2, step 2). The counts are
// the limits of section 2.
func (m *Image) readFlatBuffer() (ok bool) {
	if m.envelope < preambleBytes+4 {
		return false
	}
	t, ok := m.readTable(11)
	if !ok {
		return false
	}
	at, ok := m.field(t, 0, 48)
	if at != 0 && ok {
		if ok = m.isObject(at, 48, 8); ok {
			_, err := binary.Decode(m.file[at:][:48], binary.LittleEndian, &m.Reservation)
			ok = err == nil
		}
	}
	var notes []byte
	return ok &&
		readVector(m, t, 1, 8, 8, &m.Devices) &&
		readVector(m, t, 2, 8, 4096, &m.Windows) &&
		readVector(m, t, 3, 4, 4096, &m.Sequences) &&
		readVector(m, t, 4, 8, 4096, &m.Tensors) &&
		readVector(m, t, 5, 8, 4096, &m.Segments) &&
		readVector(m, t, 6, 8, 1<<24, &m.Commands) &&
		readVector(m, t, 7, 1, 1<<24, &m.Text) &&
		readVector(m, t, 8, 8, 1<<28, &notes) &&
		readVector(m, t, 9, 8, 256, &m.Rules) &&
		readVector(m, t, 10, 8, 32, &m.Rings)
}

// Name returns the bytes of a name that lies inside the text.
func (m *Image) Name(name uint32) []byte {
	first, size := uint64(name>>8), uint64(name&0xff)
	if first+size > uint64(len(m.Text)) {
		return nil
	}
	return m.Text[first:][:size]
}

// Find returns the index of the first sequence with a name, or -1.
func (m *Image) Find(name string) int {
	for i, s := range m.Sequences {
		if bytes.Equal(m.Name(s.Name), []byte(name)) {
			return i
		}
	}
	return -1
}

// UseTLBWindowsFrom makes the Tlb windows of the image use the TLB windows from `first` on, in the
// order of the image, as with the flag -window of lmrun.
func (m *Image) UseTLBWindowsFrom(first int) {
	for i := range m.Windows {
		if w := &m.Windows[i]; w.Kind == kindTlb {
			w.Slot = uint16(first)
			first++
		}
	}
}
