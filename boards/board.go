// Package boards describes kinds of PCIe devices as data: PCI ids, BARs, the accesses that
// the BARs accept, and the registers that program TLB windows. Comments name the source of
// every constant. Each board has one file, and all files have the same order. README.md
// explains how to add a board.
package boards

// Board is one kind of PCIe device.
type Board struct {
	Name           string    // name of the board in images and in `mock:NAME`
	Vendor, Device uint16    // PCI ids
	Bars           [6]uint64 // usual size of each BAR in bytes; 0: images must not use the BAR

	// Rules lists the accesses that the BARs accept. The first rule that covers an access
	// applies. An access that no rule covers is rejected.
	Rules []Rule

	// TLB describes the TLB windows. It is nil if the device has no TLB windows.
	TLB *TLB

	// Reset is the register that keeps the cores of a tile in reset. It is zero if the device
	// has no tiles.
	Reset Reset

	// Closed lists the ranges of tile addresses that no window of an image may show.
	Closed []Closed

	// Outbound is the address translation through which tiles access host memory. It is nil if
	// the device has no such translation.
	Outbound *Outbound
}

// Rule describes which accesses one range of a BAR accepts. Accesses must be aligned.
type Rule struct {
	Bar         uint8  // number of the BAR, 0 to 5
	First, Last uint64 // offsets of the first and the last byte of the range in the BAR
	Widths      uint8  // accepted widths in bytes, ORed: 1|2|4|8
	Memory      bool   // the range is memory without side effects, and accepts bulk copies
	LoadOnly    bool   // images may load from the range, but not store to it
	Name        string // what messages call these registers or this memory
}

// Reset describes the reset register that every tile with cores has. A core runs while the
// core's bit in the register is 0.
type Reset struct {
	Address uint64 // address of the register in the tile
	Mask    uint32 // bits of the cores; the other bits reset units that a replay does not use
}

// TLB describes a device's TLB windows, and the registers that program them. Each TLB window
// has one register of 8 bytes or three registers of 4 bytes, little endian. Their value is
// the configuration of the TLB window.
type TLB struct {
	Groups []Group     // all TLB windows, in ascending order of their numbers and sizes
	Fields FieldWidths // fields of a configuration

	ConfigBar    uint8  // number of the BAR with the registers
	ConfigOffset uint64 // offset of the first TLB window's registers in ConfigBar
	ConfigStride uint64 // bytes from the registers of one TLB window to those of the next one
	ConfigWidth  uint8  // size of one register in bytes: 4 or 8
}

// Group is a range of consecutive TLB windows of the same size.
type Group struct {
	Bar         uint8  // number of the BAR in which the TLB windows lie
	First       int    // number of the first TLB window
	Count       int    // number of TLB windows
	Offset      uint64 // offset of the first TLB window in the BAR
	Size        uint64 // size of each TLB window in bytes, a power of two
	AddressBits uint8  // bits of the lowest field of a configuration, which is address / Size
	KernelOwned int    // the kernel driver uses this number of TLB windows at the group's end
}

// FieldWidths has the number of bits of each field of a configuration. The fields follow the
// address in the order of their indices, from lower to higher bits. A width of 0 means that
// the device has no such field.
type FieldWidths [11]uint8

// Indices of FieldWidths.
const (
	XEnd        = iota // column of the tile, or of the last corner of a rectangle
	YEnd               // row of the tile, or of the last corner of a rectangle
	XStart             // column of the first corner of a rectangle; 0 for a single tile
	YStart             // row of the first corner of a rectangle; 0 for a single tile
	NoC                // number of the NoC
	Multicast          // 0 for a single tile, 1 for a rectangle of tiles
	Ordering           // 0 default, 1 strict, 2 posted
	Linked             // always 0
	UseStaticVC        // 1 if StaticVC has the number of a static virtual channel
	Unused             // always 0
	StaticVC           // number of a channel; without UseStaticVC, 1 selects the only channel
)

// FindByID returns the board with the given PCI ids, or nil if no board has them.
func FindByID(vendor, device uint16) *Board {
	for _, b := range All {
		if b.Vendor == vendor && b.Device == device {
			return b
		}
	}
	return nil
}

// FindRule returns the first rule that covers all size bytes from the given offset of a BAR
// on. It returns nil if no rule does; the board then rejects the access.
func (b *Board) FindRule(bar uint8, offset, size uint64) *Rule {
	for i := range b.Rules {
		r := &b.Rules[i]
		if r.Bar == bar && offset >= r.First && offset <= r.Last && size-1 <= r.Last-offset {
			return r
		}
	}
	return nil
}
