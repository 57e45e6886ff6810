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

	PreambleSize = 72
	checksumAt   = 12 // of Preamble.Checksum
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
func As[T any](data []byte) (value T) {
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
	TargetsMax   = 8
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

// Command is the Command struct of image.fbs as it lies in the file.
type Command struct {
	Opcode gen.Opcode
	Width  uint8
	Mode   uint8
	Option uint8
	Window uint16
	Index  uint16
	Offset uint32
	Amount uint32
	Value  uint64
	Mask   uint64
}

// CommandSize is the bytes of a Command.
const CommandSize = 32

// CommandsIn is memory, of whole commands at a multiple of 8, as those.
func CommandsIn(memory []byte) []Command {
	return unsafe.Slice((*Command)(unsafe.Pointer(unsafe.SliceData(memory))), len(memory)/CommandSize)
}

// Window is the Window struct of image.fbs as it lies in the file.
type Window struct {
	Kind     gen.WindowKind
	Device   uint8
	Bar      uint8
	Flags    uint8
	Slot     uint16
	Reserved uint16
	Offset   uint64
	Size     uint64
}

// head is all of a command in front of the offset: opcode to index.
func head(m *Command) uint64 { return *(*uint64)(unsafe.Pointer(m)) }

// both is amount << 32 | offset.
func both(m *Command) uint64 { return *(*uint64)(unsafe.Pointer(&m.Offset)) }

// Name is a run of View.Text: where it begins << 8 | how many bytes it has.
type Name uint32

// Identity is what an image asks of a device it is for, the Target struct of
// image.fbs as it lies in the file.
type Identity struct {
	Bars           [6]uint64 // least size in bytes, 0: not used
	Board          Name
	Vendor, Device uint16
	Subsystem      uint32 // as at 0x2c of configuration space, 0: any
	Reserved       uint32
}

// Rule is the Rule struct of image.fbs as it lies in the file.
type Rule struct {
	First, Last                 uint64 // bytes of the BAR
	Target, Bar, Widths, Memory uint8
	Name                        Name
}

// Sequence is the Sequence struct of image.fbs as it lies in the file:
// Commands[First : First+Count], the last of them End.
type Sequence struct {
	Name         Name
	First, Count uint32
}

// Tensor is the Tensor struct of image.fbs as it lies in the file.
type Tensor struct {
	Name           Name
	Role           gen.Role
	Recorded       uint8 // 1: the payload holds Size bytes of default or golden data
	DType          gen.DType
	Dims           uint8  // 0: one element
	Size           uint64 // bytes
	ArenaOffset    uint64
	RecordedOffset uint64 // bytes into Payload
	Sides          [DimsMax]uint32
}

// Shape is the number of elements along each dimension.
func (t *Tensor) Shape() []uint32 { return t.Sides[:t.Dims] }

// Segment is the Segment struct of image.fbs as it lies in the file.
type Segment struct {
	Offset   uint64
	Size     uint64
	CRC32C   uint32
	Reserved uint32
}

// Reservation is the Reservation struct of image.fbs as it lies in the file.
type Reservation struct {
	ArenaBytes   uint64
	HostBytes    uint64
	PayloadBytes uint64
	Commands     uint32
	Windows      uint32
	Tensors      uint32
	Sequences    uint32
	Segments     uint32
	Targets      uint32
}

// Target is where a TLB window points.
type Target = boards.Target

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
