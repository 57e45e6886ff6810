package fbs

import (
	"unsafe"

	"lightmetal/fbs/gen"
)

// The preamble: 64 bytes between the file identifier and the first FlatBuffers
// object. Offsets are from the start of the file; integers are little endian.
const (
	Identifier = "LMB1" // at byte 4, as FlatBuffers puts it

	FormatMajor = 1 // another major cannot be read
	FormatMinor = 0 // a larger minor cannot be read either: there is no silent compatibility

	preambleMajor     = 8  // u16
	preambleMinor     = 10 // u16
	preambleChecksum  = 12 // u32, CRC-32C of the envelope with these four bytes zero
	preambleSchema    = 16 // u64, SchemaHash
	preambleFile      = 24 // u64, bytes of the whole file
	preambleEnvelope  = 32 // u64, bytes of the envelope, preamble included
	preambleReserved  = 40 // zero up to preambleEnd
	preambleEnd       = 72
	PreambleInsertion = preambleEnd - 8 // bytes that follow the identifier
)

// Limits of the format.
const (
	SegmentAlign = 4096 // segments start at multiples of it
	ArenaAlign   = 64   // tensors start at multiples of it, one cache line
	PayloadAlign = 64   // writers start each payload at a multiple of it

	CommandsMax  = 1 << 24 // 512 MiB of commands; FlatBuffers offsets are 32-bit
	WindowsMax   = 1 << 12
	WindowMax    = 1 << 32 // bytes of one window; Command.Offset is 32-bit
	TargetsMax   = 8
	TensorsMax   = 1 << 12
	DimsMax      = 8
	SequencesMax = 1 << 12
	SegmentsMax  = 1 << 12
	NamesMax     = 1 << 16
	NameMax      = 255     // bytes of one name
	OriginMax    = 1 << 12 // bytes of one text of the origin
	BytesMax     = 1 << 46
)

const (
	NoName = 0xffff // Window.Name of a window without one
	NoSlot = 0xffff // Window.Slot of a window that may sit anywhere
)

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

// Window is the Window struct of image.fbs as it lies in the file.
type Window struct {
	Kind   gen.WindowKind
	Device uint8
	Bar    uint8
	Flags  uint8
	Slot   uint16
	Name   uint16
	Offset uint64
	Size   uint64
}

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
	Names        uint32
}

const (
	commandSize     = 32
	windowSize      = 24
	segmentSize     = 24
	reservationSize = 48
)

// The build fails where the compiler lays the structs out otherwise.
const (
	_ = -(unsafe.Sizeof(Command{}) ^ commandSize)
	_ = -(unsafe.Sizeof(Window{}) ^ windowSize)
	_ = -(unsafe.Sizeof(Segment{}) ^ segmentSize)
	_ = -(unsafe.Sizeof(Reservation{}) ^ reservationSize)
)

// Target is where a TLB window points: a tile, or a rectangle of tiles from
// (XStart, YStart) to (X, Y) when Multicast is set. The address inside the
// tile is not part of it.
type Target struct {
	X, Y           uint8 // the tile, or the far corner
	XStart, YStart uint8 // zero unless Multicast
	NoC            uint8 // 0 or 1
	Ordering       gen.Ordering
	StaticVC       uint8 // 0: none; 1 + n: virtual channel n
	Multicast      bool
}

// Pack gives the target as Command.Mask of a Point command holds it: one byte
// a field in the order of Target's declaration, X in the lowest.
func (t Target) Pack() uint64 {
	p := uint64(t.X) | uint64(t.Y)<<8 | uint64(t.XStart)<<16 | uint64(t.YStart)<<24 |
		uint64(t.NoC)<<32 | uint64(t.Ordering)<<40 | uint64(t.StaticVC)<<48
	if t.Multicast {
		p |= 1 << 56
	}
	return p
}

// UnpackTarget is the inverse of Target.Pack; ok is false where p is not the
// packing of any target.
func UnpackTarget(p uint64) (t Target, ok bool) {
	t = Target{
		X: uint8(p), Y: uint8(p >> 8), XStart: uint8(p >> 16), YStart: uint8(p >> 24),
		NoC: uint8(p >> 32), Ordering: gen.Ordering(p >> 40), StaticVC: uint8(p >> 48),
		Multicast: p>>56 == 1,
	}
	ok = p>>56 <= 1 && t.NoC <= 1 && t.Ordering >= gen.OrderingDefault && t.Ordering <= gen.OrderingPosted && t.StaticVC <= 8 &&
		(t.Multicast || t.XStart == 0 && t.YStart == 0)
	return t, ok
}

// WidthMask is the value with all bits of a width of 1, 2, 4 or 8 bytes set.
func WidthMask(width uint8) uint64 {
	return ^uint64(0) >> (64 - 8*uint(width))
}

// Holds tells whether a loaded value satisfies a condition.
func Holds(c gen.Condition, loaded, value, mask uint64) bool {
	switch c {
	case gen.ConditionEqual:
		return loaded&mask == value
	case gen.ConditionNotEqual:
		return loaded&mask != value
	case gen.ConditionAnySet:
		return loaded&mask != 0
	case gen.ConditionAnyClear:
		return loaded&mask != mask
	}
	return false
}

// DTypeSize is the size of one element in bytes, 0 for no type at all.
func DTypeSize(d gen.DType) uint8 {
	switch d {
	case gen.DTypeInt8, gen.DTypeUint8:
		return 1
	case gen.DTypeInt16, gen.DTypeUint16, gen.DTypeFloat16, gen.DTypeBfloat16:
		return 2
	case gen.DTypeInt32, gen.DTypeUint32, gen.DTypeFloat32:
		return 4
	case gen.DTypeInt64, gen.DTypeUint64, gen.DTypeFloat64:
		return 8
	}
	return 0
}
