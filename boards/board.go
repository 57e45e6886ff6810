// Package boards describes kinds of PCIe devices as data: PCI ids, BARs, the accesses that the BARs
// accept, and the registers that program TLB windows. Comments name the source of every constant.
// Each board has one file, and all these files list the data in the same order. README.md explains
// how to add a board.
//
// Some devices consist of tiles: processors, memories and controllers that a network on the chip
// (NoC) connects. The host accesses the tiles through TLB windows. A TLB window is a range of a BAR
// that shows a range of addresses of one tile, or of a rectangle of tiles. Registers of the device
// select the tiles and the addresses.
package boards

// Board describes one kind of PCIe device.
type Board struct {
	Name           string    // name of the board in images and in device names such as mock:edu
	Vendor, Device uint16    // PCI ids
	BarSizes       [6]uint64 // usual size of each BAR in bytes; 0: images must not use the BAR

	// Rules lists the accesses that the BARs accept. If several rules cover an access, the first of
	// these rules applies. The verifier rejects an access that no rule covers.
	Rules []AccessRule

	// TLB describes the TLB windows. TLB is nil if the device has no TLB windows.
	TLB *TLBLayout

	// Reset describes the register that keeps the cores of a tile in reset. It is zero if the
	// device has no tiles.
	Reset ResetRegister

	// ForbiddenRanges lists the ranges of tile addresses that no window of an image may show.
	ForbiddenRanges []ForbiddenRange

	// Outbound describes the address translation through which tiles access host memory. It is
	// nil if the device has no such translation.
	Outbound *OutboundTranslation
}

// AccessRule describes which accesses one range of a BAR accepts. The offset of an access must be a
// multiple of the width of the access.
type AccessRule struct {
	Bar         uint8  // number of the BAR, 0 to 5
	First, Last uint64 // offsets of the first and the last byte of the range in the BAR
	Widths      uint8  // set of accepted access widths in bytes: 1, 2, 4 and 8, ORed
	IsMemory    bool   // the range is memory without side effects; only memory accepts bulk copies
	LoadOnly    bool   // images may load from the range, but not store to it
	Name        string // name of the range in messages
}

// ResetRegister describes the reset register of a tile with processor cores. The register has one
// bit for each core. A core runs while its bit is 0.
type ResetRegister struct {
	Address uint64 // address of the register in the tile
	Mask    uint32 // bits of the cores; the other bits belong to units that a replay does not use
}

// TLBLayout describes the TLB windows of a device, and the registers that program them. Each TLB
// window has one 8-byte register, or three 4-byte registers, in little-endian order. The value
// of these registers is the configuration of the TLB window.
type TLBLayout struct {
	Groups    []WindowGroup // all TLB windows, in the order of their numbers; sizes never decrease
	FieldBits FieldBits     // number of bits of each field of a configuration

	ConfigBar    uint8  // number of the BAR that contains the registers
	ConfigOffset uint64 // offset in that BAR of the registers of TLB window 0
	ConfigStride uint64 // distance in bytes between the registers of consecutive TLB windows
	ConfigWidth  uint8  // size of one register in bytes: 4 or 8
}

// WindowGroup describes TLB windows with consecutive numbers and the same size.
type WindowGroup struct {
	Bar              uint8  // number of the BAR that contains the TLB windows
	First            int    // number of the first TLB window
	Count            int    // number of TLB windows
	Offset           uint64 // offset of the first TLB window in the BAR
	Size             uint64 // size of each TLB window in bytes, a power of two
	AddressBits      uint8  // number of bits of the address field, which contains address / Size
	KernelOwnedCount int    // the kernel driver owns the last KernelOwnedCount TLB windows
}

// FieldBits has the number of bits of each field of a configuration, except the address field. The
// address field has the lowest bits of the configuration. The other fields follow in the order of
// their indices in FieldBits. If the number of bits is 0, the device does not have the field.
type FieldBits [11]uint8

// Indices in FieldBits. The comments describe the contents of the fields.
const (
	FieldXEnd        = iota // column of the tile, or of the last corner of a rectangle
	FieldYEnd               // row of the tile, or of the last corner of a rectangle
	FieldXStart             // column of the first corner of a rectangle; 0 for a single tile
	FieldYStart             // row of the first corner of a rectangle; 0 for a single tile
	FieldNoC                // index of the NoC: 0 or 1
	FieldMulticast          // 0 for a single tile, 1 for a rectangle of tiles
	FieldOrdering           // ordering of requests: 0 default, 1 strict, 2 posted
	FieldLinked             // 1: a request is linked to the next request; always 0
	FieldUseStaticVC        // 1: requests use the static virtual channel in FieldStaticVC
	FieldUnused             // unused bit of the configuration; always 0
	FieldStaticVC           // static virtual channel: see EncodeWindow
)

// All lists every board.
var All = []*Board{&Edu, &Ivshmem, &Nvme, &Wormhole, &Blackhole}

// FindByID returns the board with the given PCI ids, or nil if no board has these ids.
func FindByID(vendor, device uint16) *Board {
	for _, b := range All {
		if b.Vendor == vendor && b.Device == device {
			return b
		}
	}
	return nil
}

// FindRule returns the first rule that covers all bytes of an access. The access has `size` bytes,
// and begins at the given offset of the BAR. If no rule covers the access, FindRule returns nil,
// and images must not access these bytes.
func (b *Board) FindRule(bar uint8, offset, size uint64) *AccessRule {
	for i := range b.Rules {
		r := &b.Rules[i]
		if r.Bar == bar && offset >= r.First && offset <= r.Last && size-1 <= r.Last-offset {
			return r
		}
	}
	return nil
}
