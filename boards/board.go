// Package boards describes kinds of PCIe devices as data: PCI ids, BARs, which accesses
// they accept, and how their TLB windows are programmed. Every constant names its
// source. Each board has one file, and all files have the same order. README.md explains
// how to add a board.
package boards

// Board is one kind of PCIe device.
type Board struct {
	Name           string    // in images and after "mock:"
	Vendor, Device uint16    // PCI ids
	Bars           [6]uint64 // usual bytes of each BAR that images may use, 0: none

	// Rules lists the accesses that a BAR accepts. The first rule that covers an access
	// applies; an access that no rule covers is rejected.
	Rules []Rule

	// TLB describes the TLB windows; nil if the device has none.
	TLB *TLB

	// Reset is the register that keeps a tile's cores in reset; zero if the device has
	// no tiles.
	Reset Reset

	// Closed lists the ranges of tile addresses that no window may show.
	Closed []Closed

	// Outbound is the address translation through which tiles access host memory. It is nil on
	// devices without one.
	Outbound *Outbound
}

// Rule describes which accesses the bytes First to Last of a BAR accept.
type Rule struct {
	Bar         uint8
	First, Last uint64
	Widths      uint8 // accepted widths in bytes, ORed: 1|2|4|8; accesses must be aligned
	Memory      bool  // no side effects: bulk copies may use other widths
	LoadOnly    bool  // images may load but not store
	Name        string
}

// Reset is a register that every tile with cores has: a core runs while its bit is 0.
type Reset struct {
	Address uint64
	Mask    uint32 // the cores' bits; other bits stop parts that a replay does not use
}

// TLB is the layout of a device's TLB windows and of the registers that program them.
// Each window has one register of 8 bytes or three of 4 bytes, little endian.
type TLB struct {
	Groups []Group
	Fields FieldWidths

	ConfigBar    uint8
	ConfigOffset uint64 // of the first window's registers, in ConfigBar
	ConfigStride uint64 // bytes from one window's registers to the next window's
	ConfigWidth  uint8  // bytes of one register: 4 or 8
}

// Group is a range of consecutive TLB windows of one size.
type Group struct {
	Bar         uint8
	First       int // index of the first window
	Count       int
	Offset      uint64 // of the first window, in the BAR
	Size        uint64 // bytes of each window, a power of two
	AddressBits uint8  // width of the lowest field of a configuration, which is address / Size
	KernelOwned int    // number of windows at the end that the kernel driver uses
}

// FieldWidths lists the number of bits of each field of a configuration, from the one
// above the address upwards. A width of 0 means that the device has no such field.
type FieldWidths [11]uint8

// Indices of FieldWidths.
const (
	XEnd = iota
	YEnd
	XStart
	YStart
	NoC
	Multicast
	Ordering    // 0 default, 1 strict, 2 posted
	Linked      // always 0
	UseStaticVC // 1 selects the channel in StaticVC, if that is a number
	Unused      // always 0
	StaticVC    // if it has one bit: use the channel; otherwise the channel's number
)

// FindByID returns the board of a PCI device, nil if it is unknown.
func FindByID(vendor, device uint16) *Board {
	for _, b := range All {
		if b.Vendor == vendor && b.Device == device {
			return b
		}
	}
	return nil
}

// FindRule returns the rule that covers an access of size bytes completely, nil if the
// board rejects the access.
func (b *Board) FindRule(bar uint8, offset, size uint64) *Rule {
	for i := range b.Rules {
		r := &b.Rules[i]
		if r.Bar == bar && offset >= r.First && offset <= r.Last && size-1 <= r.Last-offset {
			return r
		}
	}
	return nil
}
