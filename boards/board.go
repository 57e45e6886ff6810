// Package boards describes kinds of PCIe devices as data, with a source for every constant.
// README.md explains how to add a board.
//
// Tiles are processors, memories and controllers on a network on the chip (NoC). A TLB window is a
// range of a BAR that shows addresses of one tile, or of a rectangle of tiles.
package boards

// Board describes one kind of PCIe device.
type Board struct {
	Name           string    // in images, and in device names such as mock:edu
	Vendor, Device uint16    // PCI ids
	BarSizes       [6]uint64 // usual sizes in bytes; 0: images cannot use it

	Rules           []AccessRule  // sorted, without overlaps; images access no other bytes
	TLB             *TLBLayout    // nil: no TLB windows
	Reset           ResetRegister // zero: no tiles
	ForbiddenRanges []ForbiddenRange
	Outbound        *OutboundTranslation // nil: tiles access no host memory
}

// AccessRule is what one range of a BAR accepts, at offsets that are multiples of the width.
type AccessRule struct {
	Bar         uint8  // 0 to 5
	First, Last uint64 // offsets of the first and the last byte
	Widths      uint8  // in bytes, ORed: 1, 2, 4, 8
	IsMemory    bool   // without side effects; with all widths, accepts bulk copies
	LoadOnly    bool   // images must not store
	Name        string // in messages
}

// ResetRegister keeps the cores of a tile in reset: a core runs while its bit is 0.
type ResetRegister struct {
	Address uint64 // in the tile
	Mask    uint32 // bits of the cores; replays use no other bits
}

// TLBLayout describes the TLB windows and their registers: for each TLB window one of 8 bytes, or
// three of 4 bytes, little endian.
type TLBLayout struct {
	Groups    []WindowGroup // sorted by number; sizes never decrease
	FieldBits FieldBits

	ConfigBar    uint8
	ConfigOffset uint64 // of the registers of TLB window 0
	ConfigStride uint64 // in bytes, from one TLB window to the next
	ConfigWidth  uint8  // bytes of one register: 4 or 8
}

// WindowGroup describes TLB windows with consecutive numbers and the same size.
type WindowGroup struct {
	Bar              uint8
	First            int // number of the first TLB window
	Count            int
	Offset           uint64 // of the first TLB window
	Size             uint64 // of each TLB window in bytes, a power of two
	AddressBits      uint8  // of the address field, which contains address / Size
	KernelOwnedCount int    // of the last TLB windows, which the kernel driver uses
}

// FieldBits has the number of bits of each field of a configuration; 0: no such field. The fields
// follow the address field, the first in the lowest bits.
type FieldBits [11]uint8

// Indices in FieldBits.
const (
	FieldXEnd = iota // column of the tile, or of the rectangle's last corner
	FieldYEnd
	FieldXStart // column of the first corner; 0 for a single tile
	FieldYStart
	FieldNoC         // 0 or 1
	FieldMulticast   // 1: a rectangle
	FieldOrdering    // 0 default, 1 strict, 2 posted
	FieldLinked      // always 0
	FieldUseStaticVC // 1: use FieldStaticVC
	FieldUnused      // always 0
	FieldStaticVC    // see EncodeWindow
)

// All lists every board.
var All = []*Board{&Edu, &Ivshmem, &Nvme, &Wormhole, &Blackhole}

// FindByID returns the board with these PCI ids, or nil.
func FindByID(vendor, device uint16) *Board {
	for _, b := range All {
		if b.Vendor == vendor && b.Device == device {
			return b
		}
	}
	return nil
}

// FindRule returns the rule that covers all bytes of an access, or nil.
func (b *Board) FindRule(bar uint8, offset, size uint64) *AccessRule {
	for i := range b.Rules {
		r := &b.Rules[i]
		if r.Bar == bar && offset >= r.First && offset <= r.Last && size-1 <= r.Last-offset {
			return r
		}
	}
	return nil
}
