package fbs

import (
	"unsafe"

	"lightmetal/boards"
	"lightmetal/fbs/gen"
)

const (
	Identifier  = "LMB1"
	FormatMajor = 2 // another major cannot be read
	FormatMinor = 0 // a larger minor cannot be read either: there is no silent compatibility
	SchemaHash  = gen.SchemaHash

	PreambleSize   = 72
	checksumOffset = 12 // of Preamble.Checksum
)

// Preamble is what a file begins with. Integers are little endian.
type Preamble struct {
	Root         uint32 // of the FlatBuffer
	Identifier   [4]byte
	Major, Minor uint16
	Checksum     uint32 // CRC-32C of the envelope with these four bytes zero
	Schema       uint64 // SchemaHash
	File         uint64 // bytes of the whole file
	Envelope     uint64 // bytes of the envelope, preamble included
	Reserved     [32]byte
}

// As is the struct that data begins with, zeros where they end.
func ReadStruct[T any](data []byte) (value T) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&value)), unsafe.Sizeof(value)), data)
	return value
}

// Limits of the format.
const (
	SegmentAlign = 4096 // segments start at multiples of it
	ArenaAlign   = 64   // tensors start at multiples of it, one cache line

	CommandsMax  = 1 << 24 // 512 MiB of commands; FlatBuffers offsets are 32-bit
	WindowsMax   = 1 << 12
	WindowMax    = 1 << 32 // bytes of one window; Command.Offset is 32-bit
	DevicesMax   = 8
	RulesMax     = 256
	TensorsMax   = 1 << 12
	DimsMax      = 8
	SequencesMax = 1 << 12
	SegmentsMax  = 1 << 12
	TextMax      = 1 << 24 // bytes of all names
	NameMax      = 255     // bytes of one name
	NotesMax     = 1 << 28 // bytes
	BytesMax     = 1 << 46
	DelayMaxUs   = 10_000_000
)

// NoSlot is Window.Slot of a window that may sit anywhere.
const NoSlot = 0xffff

// FlagWriteCombining asks for a write-combining mapping where the device has one.
const FlagWriteCombining = 1

// The structs of image.fbs as they lie in the file, whose text says what each
// field is: flatc makes the Go of them, too.
type (
	Command     = gen.CommandT
	Window      = gen.WindowT
	Rule        = gen.RuleT
	Sequence    = gen.SequenceT
	Segment     = gen.SegmentT
	Reservation = gen.ReservationT
	Tensor      struct{ gen.TensorT }
	DeviceInfo  struct{ gen.DeviceT } // what an image asks of a device it is for
	// a run of View.Text: where it begins << 8 | how many bytes it has
	Name = uint32
)

// Sides is the number of elements along each of Dims dimensions, then zeros.
func (t *Tensor) Shape() *[DimsMax]uint32 { return (*[DimsMax]uint32)(unsafe.Pointer(&t.Shape0)) }

// Bars is the least size in bytes of each BAR, 0 where it is not used.
func (t *DeviceInfo) BarSizes() *[6]uint64 { return (*[6]uint64)(unsafe.Pointer(&t.Bar0)) }

// CommandSize is the bytes of a Command.
const CommandSize = 32

// CommandsIn is memory, of whole commands at a multiple of 8, as those.
func CommandsIn(memory []byte) []Command {
	return unsafe.Slice((*Command)(unsafe.Pointer(unsafe.SliceData(memory))),
		len(memory)/CommandSize)
}

// Target is where a TLB window points.
type TileRange = boards.TileRange

// WidthMask is the value with all bits of a width of 1, 2, 4 or 8 bytes set.
func WidthMask(width uint8) uint64 { return ^uint64(0) >> (64 - 8*uint(width)) }

// DTypeSize is the size of one element in bytes, 0 for no type at all.
func DTypeSize(d gen.DType) uint8 {
	sizes := [...]uint8{0, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8} // in the order of image.fbs
	if int(d) >= len(sizes) {
		return 0
	}
	return sizes[d]
}
