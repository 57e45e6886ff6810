// Package boards describes devices as data: PCI ids, BARs, which accesses they
// accept, and how their windows are configured. Every constant names its
// source. There is one file a board, all with the same order of things;
// README.md says how to add one.
package boards

// Board is one kind of PCIe device.
type Board struct {
	Name           string    // as it stands in images and after "mock:"
	Vendor, Device uint16    // PCI ids
	Bars           [6]uint64 // usual size in bytes of each BAR an image may use, 0: none

	// Rules says which accesses a BAR accepts. The first rule that covers an
	// access decides; what none covers is refused.
	Rules []Rule

	// TLB describes movable windows; nil where the device has none.
	TLB *TLB

	// Reset holds the cores of a tile in reset; zero where the device has no
	// tiles.
	Reset Reset

	// Closed lists what no window may show of tiles.
	Closed []Closed

	// Outbound is how tiles reach host memory; nil where there are none.
	Outbound *Outbound
}

// Rule covers the bytes First..Last of a BAR.
type Rule struct {
	Bar         uint8
	First, Last uint64
	Widths      uint8 // accepted access widths in bytes, ORed: 1|2|4|8; always naturally aligned
	Memory      bool  // plain memory: bulk copies may widen accesses, stores have no side effects
	LoadOnly    bool  // an image may load and not store
	Name        string
}

// Reset is a register of a tile: a core runs while its bit is clear.
type Reset struct {
	Address uint64
	Mask    uint32 // the cores' bits; setting others stops parts a replay has no use for
}

// TLB is the layout of a device's movable windows and of the registers that
// aim them, 8 bytes a window or 3 x 4, little endian.
type TLB struct {
	Groups []Group
	Fields FieldWidths

	ConfigBar    uint8
	ConfigOffset uint64 // of the first window's registers in ConfigBar
	ConfigStride uint64 // bytes of one window's registers; the next's follow
	ConfigWidth  uint8  // bytes of one store to them, lowest address first: 4 or 8
}

// Group is a run of windows of one size.
type Group struct {
	Bar         uint8
	First       int // index of the first window
	Count       int
	Offset      uint64 // of the first window in the BAR
	Size        uint64 // bytes of each window, a power of two
	AddressBits uint8  // the lowest of a configuration: address / Size
	KernelOwned int    // this many at the end belong to the kernel driver
}

// Fields is how many bits each part of a configuration has, from the address
// upwards; 0: the device does not have it.
type FieldWidths [11]uint8

const (
	XEnd = iota
	YEnd
	XStart
	YStart
	NoC
	Multicast
	Ordering    // 0 default, 1 strict, 2 posted
	Linked      // never set
	UseStaticVC // where StaticVC is a number: on
	Unused      // never set
	StaticVC    // one bit: on; else the channel number
)

// All lists every board.
var All = []*Board{&Edu, &Ivshmem, &Nvme, &Wormhole, &Blackhole}

// ByID finds the board of a PCI device, nil if there is none.
func FindByID(vendor, device uint16) *Board {
	for _, b := range All {
		if b.Vendor == vendor && b.Device == device {
			return b
		}
	}
	return nil
}

// Rule gives the rule that covers a whole access of size bytes, nil if the
// access is refused.
func (b *Board) FindRule(bar uint8, offset, size uint64) *Rule {
	for i := range b.Rules {
		r := &b.Rules[i]
		if r.Bar == bar && offset >= r.First && offset <= r.Last && size-1 <= r.Last-offset {
			return r
		}
	}
	return nil
}
