package fbs

// This file defines the preamble, the limits and the structs of an image. The Go structs have
// the same layout as the bytes of the image. Therefore package fbs can use most of these bytes
// as Go structs, without copying them.

import (
	"unsafe"

	"lightmetal/boards"
	"lightmetal/fbs/gen"
)

// Values of the preamble. A file with another identifier or schema hash is rejected.
const (
	FileIdentifier = "LMB1"
	FormatMajor    = 2              // files with another major version are rejected
	FormatMinor    = 0              // files with a larger minor version are rejected
	SchemaHash     = gen.SchemaHash // hash of image.fbs without comments

	PreambleSize   = 72 // size of a Preamble in bytes
	checksumOffset = 12 // offset of Preamble.Checksum in the file
)

// Preamble is the struct at the start of every image. Integers are little endian.
type Preamble struct {
	RootOffset   uint32   // offset of the FlatBuffers root table in the file
	Identifier   [4]byte  // must equal FileIdentifier
	Major, Minor uint16   // version of the format
	Checksum     uint32   // CRC-32C of the envelope, computed as if this field were zero
	SchemaHash   uint64   // hash of the schema; must equal the constant SchemaHash
	FileSize     uint64   // size of the file in bytes, without a signature
	EnvelopeSize uint64   // size in bytes of the envelope, which begins with this preamble
	Reserved     [32]byte // must be zero
}

// ReadStruct returns a copy of the struct at the start of the given bytes. If there are fewer
// bytes than the struct has, the remaining bytes of the copy are zero.
func ReadStruct[T any](data []byte) (value T) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&value)), unsafe.Sizeof(value)), data)
	return value
}

// Alignments and limits of the format. A constant with a name ...Max is the largest number or
// size that an image may have. Verify rejects an image that exceeds one of the limits.
const (
	SegmentAlign = 4096 // segments start at multiples of this number of bytes (a page)
	DMAPageSize  = 4096 // smallest page of an IOMMU, in bytes
	ArenaAlign   = 64   // tensors start at multiples of this number of bytes (a cache line)

	CommandsMax   = 1 << 24    // number of commands (512 MiB); FlatBuffers offsets have 32 bits
	WindowsMax    = 1 << 12    // number of windows
	WindowSizeMax = 1 << 32    // bytes of one window, because Command.Offset has 32 bits
	DevicesMax    = 8          // number of devices
	RulesMax      = 256        // number of rules
	TensorsMax    = 1 << 12    // number of tensors
	DimsMax       = 8          // number of dimensions of one tensor
	SequencesMax  = 1 << 12    // number of sequences
	SegmentsMax   = 1 << 12    // number of segments
	TextMax       = 1 << 24    // bytes of Image.text, which contains all names
	NameMax       = 255        // bytes of one name
	NotesMax      = 1 << 28    // bytes of the notes
	DataSizeMax   = 1 << 46    // bytes of one tensor or segment; also limits their offsets
	DelayMaxUs    = 10_000_000 // microseconds of one Delay command
)

// RoundUp rounds n up to a multiple.
func RoundUp(n, multiple uint64) uint64 { return (n + multiple - 1) / multiple * multiple }

// AnySlot is the value of Window.Slot if the image does not choose the device's TLB window: a
// window of kind Tlb may then use any TLB window of the device that is large enough. For all other
// kinds of windows, Window.Slot must be AnySlot.
const AnySlot = 0xffff

// Bits of Window.Flags.
const (
	// FlagWriteCombining requests a write-combining mapping. The bit has no effect if the device
	// has no write-combining mapping.
	FlagWriteCombining = 1

	// FlagFixedBus is a bit of Host windows: the window must have the bus address in
	// Window.Offset. Without the bit, the machine that replays the image chooses the bus address.
	FlagFixedBus = 2
)

// These types are the structs of the schema. The comments in image.fbs describe each field. The
// program flatc generates package gen from the schema.
type (
	Command     = gen.CommandT
	Window      = gen.WindowT
	AccessRule  = gen.RuleT
	Sequence    = gen.SequenceT
	Segment     = gen.SegmentT
	Reservation = gen.ReservationT
	Tensor      struct{ gen.TensorT }
	DeviceInfo  struct{ gen.DeviceT } // board name, PCI ids, BAR sizes
)

// NameRange is a range of View.Text that contains a name: (offset << 8) | number of bytes.
type NameRange = uint32

// Shape returns the number of elements along each dimension of a tensor. The first t.Dims
// entries are used. All other entries are zero.
func (t *Tensor) Shape() *[DimsMax]uint32 { return (*[DimsMax]uint32)(unsafe.Pointer(&t.Shape0)) }

// MinBarSizes returns the minimum size of each BAR in bytes. The size is 0 if the image does not
// use the BAR.
func (t *DeviceInfo) MinBarSizes() *[6]uint64 { return (*[6]uint64)(unsafe.Pointer(&t.Bar0)) }

// FixedBusAddress returns the bus address that the window must have, or 0 if the window need not
// have a particular bus address.
func FixedBusAddress(w *Window) uint64 {
	if w.Flags&FlagFixedBus == 0 {
		return 0
	}
	return w.Offset
}

// ConditionMet reports whether the loaded value meets the condition of the Expect command c.
//
// The condition Reached is for counters that return to 0 after their largest value, c.Mask. Half of
// all values, those from c.Value on, count as reached or passed (as with serial numbers, RFC 1982).
func ConditionMet(c *Command, loaded uint64) bool {
	switch gen.Condition(c.Mode) {
	case gen.ConditionEqual:
		return loaded&c.Mask == c.Value
	case gen.ConditionNotEqual:
		return loaded&c.Mask != c.Value
	}
	return (loaded-c.Value)&c.Mask <= c.Mask>>1
}

// CommandSize is the size of a Command in bytes.
const CommandSize = 32

// CommandsIn returns the commands in the given memory as a slice, without copying them. The address
// of the memory must be a multiple of 8.
func CommandsIn(memory []byte) []Command {
	return unsafe.Slice((*Command)(unsafe.Pointer(unsafe.SliceData(memory))),
		len(memory)/CommandSize)
}

func wordsOf(c *Command) *[CommandSize / 8]uint64 {
	return (*[CommandSize / 8]uint64)(unsafe.Pointer(c))
}

// TileRoute selects the tiles that a TLB window shows, and the route to them.
type TileRoute = boards.TileRoute

// Check at compile time that the orderings in package boards equal those in the schema. If two of
// them differ, an index is not 0, and the package does not compile.
var (
	_ = [1]struct{}{}[byte(boards.OrderingDefault)-byte(gen.OrderingDefault)]
	_ = [1]struct{}{}[byte(boards.OrderingStrict)-byte(gen.OrderingStrict)]
	_ = [1]struct{}{}[byte(boards.OrderingPosted)-byte(gen.OrderingPosted)]
)

// WidthMask returns the largest value that fits in an unsigned integer of `width` bytes. The
// width must be 1, 2, 4 or 8.
func WidthMask(width uint8) uint64 { return ^uint64(0) >> (64 - 8*uint(width)) }

// DTypeSize returns the size in bytes of one element of the type d, or 0 if d is unknown.
func DTypeSize(d gen.DType) uint8 {
	// The index of a size is the value of the type in enum DType of image.fbs.
	sizes := [...]uint8{0, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8}
	if int(d) >= len(sizes) {
		return 0
	}
	return sizes[d]
}

// These declarations, and all declarations below, check the layout of the Go structs at compile
// time. The length of the array type on the left is a size or an offset in the file, in bytes.
// The length of the array on the right is the same size or offset in the Go struct. If the two
// lengths differ, the package does not compile.
var (
	_ [PreambleSize]byte  = [unsafe.Sizeof(Preamble{})]byte{}
	_ [CommandSize]byte   = [unsafe.Sizeof(Command{})]byte{}
	_ [24]byte            = [unsafe.Sizeof(Window{})]byte{}
	_ [24]byte            = [unsafe.Sizeof(AccessRule{})]byte{}
	_ [12]byte            = [unsafe.Sizeof(Sequence{})]byte{}
	_ [24]byte            = [unsafe.Sizeof(Segment{})]byte{}
	_ [48]byte            = [unsafe.Sizeof(Reservation{})]byte{}
	_ [64]byte            = [unsafe.Sizeof(Tensor{})]byte{}
	_ [64]byte            = [unsafe.Sizeof(DeviceInfo{})]byte{}
	_ [SignatureSize]byte = [unsafe.Sizeof(Signature{})]byte{}
)

// These declarations check the offsets of the checksum fields. EnvelopeChecksum and SplitSignature
// need these offsets, because a checksum does not cover its own field.
var (
	_ [checksumOffset]byte          = [unsafe.Offsetof(Preamble{}.Checksum)]byte{}
	_ [signatureChecksumOffset]byte = [unsafe.Offsetof(Signature{}.Checksum)]byte{}
)

// These declarations check the offsets of a command's fields. The assembly code of package hal
// loads the fields from these offsets.
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

// These declarations check that no padding lies between the fields Shape0 to Shape7 of a
// tensor, and between the fields Bar0 to Bar5 of a device. Tensor.Shape and DeviceInfo.MinBarSizes
// return these fields as arrays.
var (
	_ [DimsMax * 4]byte = [unsafe.Sizeof(Tensor{}) - unsafe.Offsetof(Tensor{}.Shape0)]byte{}
	_ [0]byte           = [unsafe.Offsetof(DeviceInfo{}.Bar0)]byte{}
	_ [6 * 8]byte       = [unsafe.Offsetof(DeviceInfo{}.Board)]byte{}
)
