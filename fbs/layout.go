package fbs

// This file has the preamble, the limits and the structs of an image, which are
// read where they lie in the file.

import (
	"unsafe"

	"lightmetal/boards"
	"lightmetal/fbs/gen"
)

// Values of the preamble.
const (
	Identifier  = "LMB1"
	FormatMajor = 2 // files with another major version are rejected
	FormatMinor = 0 // files with a larger minor version are rejected
	SchemaHash  = gen.SchemaHash

	PreambleSize   = 72
	checksumOffset = 12 // of Preamble.Checksum
)

// Preamble is the first struct of a file. Integers are little endian.
type Preamble struct {
	Root         uint32 // position of the root table
	Identifier   [4]byte
	Major, Minor uint16
	Checksum     uint32 // CRC-32C of the envelope with these four bytes zero
	Schema       uint64 // SchemaHash
	File         uint64 // bytes of the file without a signature
	Envelope     uint64 // bytes of the envelope, preamble included
	Reserved     [32]byte
}

// ReadStruct returns a copy of the struct at the start of data. If data is shorter,
// the rest of the struct is zero.
func ReadStruct[T any](data []byte) (value T) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&value)), unsafe.Sizeof(value)), data)
	return value
}

// Limits of the format.
const (
	SegmentAlign = 4096 // segments start at multiples of a page
	ArenaAlign   = 64   // tensors start at multiples of a cache line

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
	BytesMax     = 1 << 46 // bytes of a tensor or segment, and largest offset of either
	DelayMaxUs   = 10_000_000
)

// NoSlot is the Window.Slot of a window that may use any TLB window.
const NoSlot = 0xffff

// FlagWriteCombining requests a write-combining mapping, if the device has one.
const FlagWriteCombining = 1

// The structs of image.fbs, which describes each field. flatc generates their Go.
type (
	Command     = gen.CommandT
	Window      = gen.WindowT
	Rule        = gen.RuleT
	Sequence    = gen.SequenceT
	Segment     = gen.SegmentT
	Reservation = gen.ReservationT
	Tensor      struct{ gen.TensorT }
	DeviceInfo  struct{ gen.DeviceT } // requirements of an image on one of its devices
)

// Name is a range of View.Text: offset << 8 | number of bytes.
type Name = uint32

// Shape returns the number of elements along each of Dims dimensions, then zeros.
func (t *Tensor) Shape() *[DimsMax]uint32 { return (*[DimsMax]uint32)(unsafe.Pointer(&t.Shape0)) }

// BarSizes returns the least size in bytes of each BAR, 0 for one that is not used.
func (t *DeviceInfo) BarSizes() *[6]uint64 { return (*[6]uint64)(unsafe.Pointer(&t.Bar0)) }

// CommandSize is the size of a Command in bytes.
const CommandSize = 32

// CommandsIn returns the commands in memory without copying them. The address of
// memory is a multiple of 8.
func CommandsIn(memory []byte) []Command {
	return unsafe.Slice((*Command)(unsafe.Pointer(unsafe.SliceData(memory))),
		len(memory)/CommandSize)
}

// TileRange is the tile, or the rectangle of tiles, that a TLB window points at.
type TileRange = boards.TileRange

// WidthMask returns the value that has all bits of width bytes set: 1, 2, 4 or 8.
func WidthMask(width uint8) uint64 { return ^uint64(0) >> (64 - 8*uint(width)) }

// DTypeSize returns the size of one element in bytes, or 0 for an unknown type.
func DTypeSize(d gen.DType) uint8 {
	sizes := [...]uint8{0, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8} // in the order of image.fbs
	if int(d) >= len(sizes) {
		return 0
	}
	return sizes[d]
}

// The compiler checks that Go lays out the structs as image.fbs does: a struct of
// another size, or with a field at another offset, is an array of another length,
// which does not compile.
var (
	_ [PreambleSize]byte   = [unsafe.Sizeof(Preamble{})]byte{}
	_ [CommandSize]byte    = [unsafe.Sizeof(Command{})]byte{}
	_ [24]byte             = [unsafe.Sizeof(Window{})]byte{}
	_ [24]byte             = [unsafe.Sizeof(Rule{})]byte{}
	_ [12]byte             = [unsafe.Sizeof(Sequence{})]byte{}
	_ [24]byte             = [unsafe.Sizeof(Segment{})]byte{}
	_ [48]byte             = [unsafe.Sizeof(Reservation{})]byte{}
	_ [64]byte             = [unsafe.Sizeof(Tensor{})]byte{}
	_ [64]byte             = [unsafe.Sizeof(DeviceInfo{})]byte{}
	_ [SignatureBytes]byte = [unsafe.Sizeof(Signature{})]byte{}
)

// EnvelopeChecksum and SplitSignature skip checksums by these offsets.
var (
	_ [checksumOffset]byte          = [unsafe.Offsetof(Preamble{}.Checksum)]byte{}
	_ [signatureChecksumOffset]byte = [unsafe.Offsetof(Signature{}.Checksum)]byte{}
)

// The runtime's loops in assembly load the fields of a command at these offsets.
var (
	_ [0]byte  = [unsafe.Offsetof(Command{}.Opcode)]byte{}
	_ [1]byte  = [unsafe.Offsetof(Command{}.Width)]byte{}
	_ [2]byte  = [unsafe.Offsetof(Command{}.Mode)]byte{}
	_ [3]byte  = [unsafe.Offsetof(Command{}.Option)]byte{}
	_ [4]byte  = [unsafe.Offsetof(Command{}.Window)]byte{}
	_ [6]byte  = [unsafe.Offsetof(Command{}.Index)]byte{}
	_ [8]byte  = [unsafe.Offsetof(Command{}.Offset)]byte{}
	_ [12]byte = [unsafe.Offsetof(Command{}.Amount)]byte{}
	_ [16]byte = [unsafe.Offsetof(Command{}.Value)]byte{}
	_ [24]byte = [unsafe.Offsetof(Command{}.Mask)]byte{}
)

// Tensor.Shape and DeviceInfo.BarSizes read eight and six fields as an array.
var (
	_ [DimsMax * 4]byte = [unsafe.Sizeof(Tensor{}) - unsafe.Offsetof(Tensor{}.Shape0)]byte{}
	_ [0]byte           = [unsafe.Offsetof(DeviceInfo{}.Bar0)]byte{}
	_ [6 * 8]byte       = [unsafe.Offsetof(DeviceInfo{}.Board)]byte{}
)
