package fbs

// This file defines the preamble, the limits and the structs of an image. Structs are read
// in place, without a copy.

import (
	"unsafe"

	"lightmetal/boards"
	"lightmetal/fbs/gen"
)

// Values of the preamble.
const (
	Identifier  = "LMB1"
	FormatMajor = 2              // files with another major version are rejected
	FormatMinor = 0              // files with a larger minor version are rejected
	SchemaHash  = gen.SchemaHash // files with another schema hash are rejected

	PreambleSize   = 72 // bytes
	checksumOffset = 12 // offset of Preamble.Checksum in the file
)

// Preamble is the first struct of a file. Integers are little endian.
type Preamble struct {
	Root         uint32   // offset of the FlatBuffers root table in the file
	Identifier   [4]byte  // must equal Identifier
	Major, Minor uint16   // version of the format
	Checksum     uint32   // CRC-32C of the envelope; these four bytes count as zero
	Schema       uint64   // hash of the schema; must equal SchemaHash
	File         uint64   // size of the file in bytes, without a signature
	Envelope     uint64   // size of the envelope in bytes, preamble included
	Reserved     [32]byte // must be zero
}

// ReadStruct returns a copy of the struct at the start of data. If data is shorter than the
// struct, the remaining bytes of the copy are zero.
func ReadStruct[T any](data []byte) (value T) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&value)), unsafe.Sizeof(value)), data)
	return value
}

// Limits of the format.
const (
	SegmentAlign = 4096 // segments start at multiples of this number of bytes, a page
	ArenaAlign   = 64   // tensors start at multiples of this number of bytes, a cache line

	CommandsMax  = 1 << 24    // number of commands, 512 MiB; FlatBuffers offsets have 32 bits
	WindowsMax   = 1 << 12    // number of windows
	WindowMax    = 1 << 32    // bytes of one window, because Command.Offset has 32 bits
	DevicesMax   = 8          // number of devices
	RulesMax     = 256        // number of rules
	TensorsMax   = 1 << 12    // number of tensors
	DimsMax      = 8          // number of dimensions of one tensor
	SequencesMax = 1 << 12    // number of sequences
	SegmentsMax  = 1 << 12    // number of segments
	TextMax      = 1 << 24    // bytes of all names
	NameMax      = 255        // bytes of one name
	NotesMax     = 1 << 28    // bytes of the notes
	BytesMax     = 1 << 46    // bytes of one tensor or segment; also limits their offsets
	DelayMaxUs   = 10_000_000 // microseconds of one Delay command
)

// NoSlot is the value of Window.Slot if the image does not request a particular TLB window
// of the device. Windows of other kinds than Tlb always have it.
const NoSlot = 0xffff

// FlagWriteCombining is the bit of Window.Flags that requests a write-combining mapping. It
// has no effect on a device without such a mapping.
const FlagWriteCombining = 1

// The structs of image.fbs. image.fbs describes each field; flatc generates package gen.
type (
	Command     = gen.CommandT
	Window      = gen.WindowT
	Rule        = gen.RuleT
	Sequence    = gen.SequenceT
	Segment     = gen.SegmentT
	Reservation = gen.ReservationT
	Tensor      struct{ gen.TensorT }
	DeviceInfo  struct{ gen.DeviceT } // one device of an image: PCI ids and least BAR sizes
)

// Name is the place of a name in View.Text: offset << 8 | number of bytes.
type Name = uint32

// Shape returns the number of elements along each dimension. Entries from index Dims on
// are zero.
func (t *Tensor) Shape() *[DimsMax]uint32 { return (*[DimsMax]uint32)(unsafe.Pointer(&t.Shape0)) }

// BarSizes returns the least size of each BAR in bytes. It is 0 for a BAR that the image
// does not use.
func (t *DeviceInfo) BarSizes() *[6]uint64 { return (*[6]uint64)(unsafe.Pointer(&t.Bar0)) }

// CommandSize is the size of a Command in bytes.
const CommandSize = 32

// CommandsIn returns the commands in the given memory without copying them. The address of
// the memory must be a multiple of 8.
func CommandsIn(memory []byte) []Command {
	return unsafe.Slice((*Command)(unsafe.Pointer(unsafe.SliceData(memory))),
		len(memory)/CommandSize)
}

// TileRange is the tile, or the rectangle of tiles, that a TLB window points at.
type TileRange = boards.TileRange

// WidthMask returns the largest value that fits in an integer of width bytes. width must be
// 1, 2, 4 or 8.
func WidthMask(width uint8) uint64 { return ^uint64(0) >> (64 - 8*uint(width)) }

// DTypeSize returns the size of one element of type d in bytes, or 0 if d is unknown.
func DTypeSize(d gen.DType) uint8 {
	// The sizes are in the order in which image.fbs declares the types.
	sizes := [...]uint8{0, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8}
	if int(d) >= len(sizes) {
		return 0
	}
	return sizes[d]
}

// The declarations from here on compile only if Go lays out the structs exactly as they lie
// in the file. Each declares an array whose length is the expected size or offset, and
// assigns it an array whose length is the actual size or offset.
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

// EnvelopeChecksum and SplitSignature use these offsets to exclude the checksums themselves.
var (
	_ [checksumOffset]byte          = [unsafe.Offsetof(Preamble{}.Checksum)]byte{}
	_ [signatureChecksumOffset]byte = [unsafe.Offsetof(Signature{}.Checksum)]byte{}
)

// The assembly code of package hal loads the fields of a command from these offsets.
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

// Tensor.Shape and DeviceInfo.BarSizes return eight and six adjacent fields as an array.
// Therefore no padding may lie between these fields.
var (
	_ [DimsMax * 4]byte = [unsafe.Sizeof(Tensor{}) - unsafe.Offsetof(Tensor{}.Shape0)]byte{}
	_ [0]byte           = [unsafe.Offsetof(DeviceInfo{}.Bar0)]byte{}
	_ [6 * 8]byte       = [unsafe.Offsetof(DeviceInfo{}.Board)]byte{}
)
