package fbs

import (
	"unsafe"

	"lightmetal/boards"
	"lightmetal/fbs/gen"
)

// Values of the preamble. A file with another identifier or schema hash is rejected.
const (
	FileIdentifier = "LMB1"
	FormatMajor    = 3              // files with another major version are rejected
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

// ReadStruct returns a copy of the struct at the start of data. If data is too short, the rest is
// zero.
func ReadStruct[T any](data []byte) (value T) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&value)), unsafe.Sizeof(value)), data)
	return value
}

// Alignments and limits of the format. Verify rejects an image that exceeds a limit.
const (
	SegmentAlign = 4096 // bytes: a page
	DMAPageSize  = 4096 // bytes: the smallest page of an IOMMU
	ArenaAlign   = 64   // bytes, for tensors: a cache line

	CommandsMax   = 1 << 24 // 512 MiB; FlatBuffers offsets have 32 bits
	WindowsMax    = 1 << 12
	WindowSizeMax = 1 << 32 // bytes of one window, because Command.Offset has 32 bits
	DevicesMax    = 8
	VectorsMax    = 2048 // of one device
	RulesMax      = 256
	RingsMax      = 32
	TensorsMax    = 1 << 12
	DimsMax       = 8       // of one tensor
	ScratchMax    = 1 << 12 // bytes of the arena for all scratch tensors
	SequencesMax  = 1 << 12
	SegmentsMax   = 1 << 12
	TextMax       = 1 << 24    // bytes of Image.text, which contains all names
	NameMax       = 255        // bytes of one name
	NotesMax      = 1 << 28    // bytes of the notes
	DataSizeMax   = 1 << 46    // bytes of one tensor or segment; also limits their offsets
	DelayMaxUs    = 10_000_000 // microseconds of one Delay command
)

// RoundUp rounds n up to a multiple of its second argument. The sum of both must be below 2^64.
func RoundUp(n, multiple uint64) uint64 { return (n + multiple - 1) / multiple * multiple }

// AnySlot in Window.Slot lets a Tlb window use any TLB window of the device that is large enough.
// Windows of other kinds must have this value.
const AnySlot = 0xffff

// Bits of Window.Flags.
const (
	// FlagWriteCombining requests a write-combining mapping, if the device has one.
	FlagWriteCombining = 1

	// FlagFixedBus requires the bus address in Window.Offset for a Host window. Without the flag,
	// the machine that replays the image chooses the address.
	FlagFixedBus = 2
)

// The structs of the schema. image.fbs describes the fields; flatc generates package gen from it.
type (
	Command     = gen.CommandT
	Window      = gen.WindowT
	AccessRule  = gen.RuleT
	Sequence    = gen.SequenceT
	Segment     = gen.SegmentT
	Ring        = gen.RingT
	Reservation = gen.ReservationT
	Tensor      struct{ gen.TensorT }
	DeviceInfo  struct{ gen.DeviceT } // board name, PCI ids, BAR sizes
)

// NameRange is a range of View.Text that contains a name: (offset << 8) | number of bytes.
type NameRange = uint32

// Shape returns the number of elements along each dimension; after the first t.Dims, 0.
func (t *Tensor) Shape() *[DimsMax]uint32 { return (*[DimsMax]uint32)(unsafe.Pointer(&t.Shape0)) }

// MinBarSizes returns the least size of each BAR in bytes; 0: the image does not use it.
func (t *DeviceInfo) MinBarSizes() *[6]uint64 { return (*[6]uint64)(unsafe.Pointer(&t.Bar0)) }

// FixedBusAddress returns the bus address that the window must have, or 0 if it may have any.
func FixedBusAddress(w *Window) uint64 {
	if w.Flags&FlagFixedBus == 0 {
		return 0
	}
	return w.Offset
}

// CommandSize is the size of a Command in bytes.
const CommandSize = 32

// CommandsIn returns the bytes of memory as commands, without a copy. Their address must be a
// multiple of 8.
func CommandsIn(memory []byte) []Command {
	return unsafe.Slice((*Command)(unsafe.Pointer(unsafe.SliceData(memory))),
		len(memory)/CommandSize)
}

func wordsOf(c *Command) *[CommandSize / 8]uint64 {
	return (*[CommandSize / 8]uint64)(unsafe.Pointer(c))
}

// following returns the command after m, which must not be the last one.
func following(m *Command) *Command {
	return (*Command)(unsafe.Add(unsafe.Pointer(m), CommandSize))
}

// TileRoute selects the tiles that a TLB window shows, and the route to them.
type TileRoute = boards.TileRoute

// If an ordering in package boards differs from the schema, the package does not compile.
var (
	_ = [1]struct{}{}[byte(boards.OrderingDefault)-byte(gen.OrderingDefault)]
	_ = [1]struct{}{}[byte(boards.OrderingStrict)-byte(gen.OrderingStrict)]
	_ = [1]struct{}{}[byte(boards.OrderingPosted)-byte(gen.OrderingPosted)]
)

// WidthMask returns the largest unsigned integer of width bytes: 1, 2, 4 or 8.
func WidthMask(width uint8) uint64 { return ^uint64(0) >> (64 - 8*uint(width)) }

// DTypeSize returns the bytes of one element, or 0 if d is unknown.
func DTypeSize(d gen.DType) uint8 {
	sizes := [...]uint8{0, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8}
	if int(d) >= len(sizes) {
		return 0
	}
	return sizes[d]
}

// If a size or an offset in a Go struct, on the right, differs from that in the file, on the left,
// the package does not compile.
var (
	_ [PreambleSize]byte  = [unsafe.Sizeof(Preamble{})]byte{}
	_ [CommandSize]byte   = [unsafe.Sizeof(Command{})]byte{}
	_ [24]byte            = [unsafe.Sizeof(Window{})]byte{}
	_ [24]byte            = [unsafe.Sizeof(AccessRule{})]byte{}
	_ [12]byte            = [unsafe.Sizeof(Sequence{})]byte{}
	_ [24]byte            = [unsafe.Sizeof(Segment{})]byte{}
	_ [32]byte            = [unsafe.Sizeof(Ring{})]byte{}
	_ [48]byte            = [unsafe.Sizeof(Reservation{})]byte{}
	_ [64]byte            = [unsafe.Sizeof(Tensor{})]byte{}
	_ [64]byte            = [unsafe.Sizeof(DeviceInfo{})]byte{}
	_ [SignatureSize]byte = [unsafe.Sizeof(Signature{})]byte{}
)

// EnvelopeChecksum and SplitSignature use these offsets.
var (
	_ [checksumOffset]byte          = [unsafe.Offsetof(Preamble{}.Checksum)]byte{}
	_ [signatureChecksumOffset]byte = [unsafe.Offsetof(Signature{}.Checksum)]byte{}
)

// The assembly of package hal uses these offsets.
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

// Tensor.Shape and DeviceInfo.MinBarSizes return fields without padding between them as arrays.
var (
	_ [DimsMax * 4]byte = [unsafe.Sizeof(Tensor{}) - unsafe.Offsetof(Tensor{}.Shape0)]byte{}
	_ [0]byte           = [unsafe.Offsetof(DeviceInfo{}.Bar0)]byte{}
	_ [6 * 8]byte       = [unsafe.Offsetof(DeviceInfo{}.Board)]byte{}
)
