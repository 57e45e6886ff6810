// Package boards describes devices as data: PCI ids, BARs, which accesses they
// accept, and how their windows are configured. Every constant names its
// source. There is one file a board, all with the same order of things.
package boards

import "lightmetal/fbs"

// Board is one kind of PCIe device.
type Board struct {
	Name           string    // as it stands in images and after "mock:"
	Title          string    // for people
	Vendor, Device uint16    // PCI ids
	Bars           [6]uint64 // size in bytes of each BAR an image may use, 0: none

	// Rules says which accesses a BAR accepts. The first rule that covers an
	// access decides; what none covers is refused.
	Rules []Rule

	// Status lists registers that change by themselves. An importer makes a
	// bounded poll of every read of one.
	Status []Status

	// TLB describes movable windows; nil where the device has none.
	TLB *TLB
}

// Rule covers the bytes First..Last of a BAR.
type Rule struct {
	Bar         uint8
	First, Last uint64
	Widths      uint8 // accepted access widths in bytes, ORed: 1|2|4|8; always naturally aligned
	Memory      bool  // plain memory: bulk copies may widen accesses, stores have no side effects
	Name        string
}

// Status is a register whose value changes without a store.
type Status struct {
	Bar    uint8
	Offset uint64
	Mask   uint64 // the bits to poll; the rest may be anything
	Name   string
}

// TLB is the layout of a device's movable windows and of the registers that
// aim them.
type TLB struct {
	Groups []Group

	ConfigBar    uint8
	ConfigOffset uint64 // of the first window's registers in ConfigBar
	ConfigStride uint64 // bytes from one window's registers to the next's
	ConfigWidth  uint8  // bytes of one store to them: 4 or 8
	ConfigWords  int    // stores that make one configuration, lowest address first
}

// Group is a run of windows of one size.
type Group struct {
	Bar         uint8
	First       int // index of the first window
	Count       int
	Offset      uint64 // of the first window in the BAR
	Size        uint64 // bytes of each window, a power of two
	KernelOwned int    // this many at the end belong to the kernel driver
	Fields      Fields
}

// Fields places each part of a configuration in its bits, counted from bit 0
// of the lowest word. A part of zero Bits does not exist on the device.
type Fields struct {
	Address        Field // holds address / window size
	XEnd, YEnd     Field
	XStart, YStart Field
	NoC            Field
	Multicast      Field
	Ordering       Field // 0 default, 1 strict, 2 posted
	Linked         Field // never set
	StaticVC       Field // one bit: on; else the channel number
	UseStaticVC    Field // where StaticVC is a number: on
}

// Field is a run of bits.
type Field struct{ Low, Bits uint8 }

// All lists every board.
var All = []*Board{&Edu, &Ivshmem, &Nvme, &Wormhole, &Blackhole}

// ByName finds a board, nil if there is none of that name.
func ByName(name string) *Board {
	for _, b := range All {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// ByID finds the board of a PCI device, nil if there is none.
func ByID(vendor, device uint16) *Board {
	for _, b := range All {
		if b.Vendor == vendor && b.Device == device {
			return b
		}
	}
	return nil
}

// Rule gives the rule that covers a whole access of size bytes, nil if the
// access is refused.
func (b *Board) Rule(bar uint8, offset, size uint64) *Rule {
	for i := range b.Rules {
		r := &b.Rules[i]
		if r.Bar == bar && offset >= r.First && offset <= r.Last && size-1 <= r.Last-offset {
			return r
		}
	}
	return nil
}

// Words is the configuration of one window, as ConfigWords stores of
// ConfigWidth bytes hold it.
type Words [3]uint64

// Encode gives the configuration that points a window of group g at address in
// the target. ok is false where the device cannot express it.
func (l *TLB) Encode(g *Group, t fbs.Target, address uint64) (w Words, ok bool) {
	panic("todo")
}

// Decode is the inverse of Encode: what a configuration points at. ok is false
// where it sets bits that no target sets (linked, reserved).
func (l *TLB) Decode(g *Group, w Words) (t fbs.Target, address uint64, ok bool) {
	panic("todo")
}

// Group gives the group that a window belongs to, nil for no such window.
func (l *TLB) Group(slot int) *Group {
	for i := range l.Groups {
		g := &l.Groups[i]
		if slot >= g.First && slot < g.First+g.Count {
			return g
		}
	}
	return nil
}

// Slot gives the window that covers an offset in a BAR, and the offset inside
// it; ok is false where no window lies.
func (l *TLB) Slot(bar uint8, offset uint64) (slot int, inside uint64, ok bool) {
	for i := range l.Groups {
		g := &l.Groups[i]
		if g.Bar != bar || offset < g.Offset || offset-g.Offset >= uint64(g.Count)*g.Size {
			continue
		}
		return g.First + int((offset-g.Offset)/g.Size), (offset - g.Offset) % g.Size, true
	}
	return 0, 0, false
}
