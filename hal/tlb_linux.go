package hal

// This file reserves and programs TLB windows. A TLB window is a range of a BAR. The device
// forwards accesses to this range to addresses of a tile, which is one unit of the chip. The
// configuration of the TLB window selects the tile and the addresses. With the backends pci and
// vfio, this program stores the configuration to registers of the device. With the backend tt,
// Tenstorrent's driver stores the configuration.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
)

// tlbWindows contains the state of the TLB windows of a device.
type tlbWindows struct {
	// Sizes and registers of the TLB windows, or nil if the device has no TLB windows.
	layout *boards.TLBLayout
	// The kernel driver that programs the TLB windows, or nil if this process programs them.
	driver tlbDriver
	// Address in this process of the registers of TLB window 0, or 0 if they are not mapped.
	registersAddress uintptr
	// Mappings of complete TLB windows, by number. An element is nil if the TLB window is unused.
	windows []*Aperture
}

// tlbDriver reserves and programs TLB windows through a kernel driver, which owns the TLB windows
// of the device. Only the backend tt implements this interface.
type tlbDriver interface {
	// allocateWindow reserves a TLB window of at least size bytes, and maps the complete TLB
	// window. It returns the number of the TLB window, or -1 if no such TLB window is free.
	allocateWindow(size uint64, writeCombining bool) (slot int, a *Aperture, err error)
	// programWindow implements Device.ProgramWindow.
	programWindow(a *Aperture, t fbs.TileRoute, address uint64) Code
}

// initFromBoard finds the board of the device by its PCI ids, and stores the board's layouts of
// TLB windows and outbound translation in d. For unknown ids it stores nothing. If a kernel driver
// programs the TLB windows, the driver also programs the outbound translation, and
// d.outbound.layout stays nil.
func (d *device) initFromBoard() {
	board := boards.FindByID(d.pciFunction.Vendor, d.pciFunction.Device)
	if board == nil {
		return
	}
	d.tlb.layout = board.TLB
	if d.tlb.driver == nil {
		d.outbound.layout = board.Outbound
	}
}

// mapTLBWindow reserves a TLB window for the Tlb window w of an image, and returns an aperture of
// the size of w. The TLB window may be larger than w. mapTLBWindow maps the complete TLB window,
// because a later Point command may move the aperture to any offset in the TLB window.
func (d *device) mapTLBWindow(w *fbs.Window) (*Aperture, error) {
	if d.tlb.layout == nil {
		return nil, d.fault(WrongDevice, "the device has no TLB windows")
	}
	if d.tlb.windows == nil {
		groups := d.tlb.layout.Groups
		last := &groups[len(groups)-1]
		d.tlb.windows = make([]*Aperture, last.First+last.Count)
	}
	slot, a, err := d.allocateTLBWindow(w.Slot, w.Size, w.Flags&fbs.FlagWriteCombining != 0)
	if err == nil && slot < 0 {
		const text = "no TLB window of %x bytes is free; use fewer or smaller TLB windows"
		err = d.fault(NoDevice, fbs.Text(text, w.Size))
	}
	if err != nil {
		return nil, err
	}
	d.tlb.windows[slot] = a
	// Leave the bus address 0, which means "none". A bus address would soon be wrong, because later
	// Point commands move the aperture inside the TLB window.
	return &Aperture{Base: a.Base, Size: w.Size, TLBWindow: slot}, nil
}

// allocateTLBWindow reserves and maps a TLB window of at least `size` bytes. The result `slot` is
// the number of the TLB window, or -1 if no suitable TLB window is free. Without a kernel driver
// for the TLB windows, allocateTLBWindow prefers the number preferredSlot, and the first call also
// maps the registers of all TLB windows.
func (d *device) allocateTLBWindow(preferredSlot uint16, size uint64, writeCombining bool) (
	slot int, a *Aperture, err error) {
	t := &d.tlb
	if t.driver != nil {
		return t.driver.allocateWindow(size, writeCombining)
	}
	if t.registersAddress == 0 {
		registersSize := t.layout.ConfigStride * uint64(len(t.windows))
		a, err = d.mapBar(t.layout.ConfigBar, false, t.layout.ConfigOffset, registersSize)
		if err != nil {
			return -1, nil, err
		}
		t.registersAddress = a.Base
	}
	inUse := func(slot int) bool { return t.windows[slot] != nil }
	slot = t.layout.ChooseWindow(preferredSlot, size, &d.pciFunction.BarSizes, inUse)
	if slot >= 0 {
		g := t.layout.GroupOf(slot)
		a, err = d.mapBar(g.Bar, writeCombining, g.WindowOffset(slot), g.Size)
	}
	return slot, a, err
}

// EncodePoint implements Device: it computes the values of the TLB window's registers, and stores
// the values in the command c. With these values, the aperture a begins at the given address of the
// tiles t. A TLB window shows a range of addresses that is aligned to the size of the TLB window.
// The aperture is a part of that range.
//
// EncodePoint returns Refused if the TLB window cannot show the address. With the backend tt, it
// also returns Refused if t needs a static virtual channel (a fixed channel of the on-chip network)
// that Tenstorrent's driver cannot select. The driver can select only channel 0, and only on a
// device with the register field UseStaticVC (tt-kmd wormhole.c, blackhole.c).
func (d *device) EncodePoint(a *Aperture, t fbs.TileRoute, address uint64,
	c *fbs.Command) (registers, windowBase uintptr, code Code) {
	if a.TLBWindow < 0 || a.TLBWindow >= len(d.tlb.windows) || d.tlb.windows[a.TLBWindow] == nil {
		return 0, 0, Internal
	}
	layout, window := d.tlb.layout, d.tlb.windows[a.TLBWindow]
	inside := address & (window.Size - 1)
	words, ok := layout.EncodeWindow(layout.GroupOf(a.TLBWindow), t, address-inside)
	if d.tlb.driver != nil && t.StaticVCPlusOne > layout.FieldBits[boards.FieldUseStaticVC] {
		ok = false
	}
	if !ok || inside+a.Size > window.Size {
		return 0, 0, Refused
	}
	c.Offset = uint32(uint64(a.TLBWindow) * layout.ConfigStride)
	c.Width = layout.ConfigWidth
	c.Amount = uint32(inside)
	c.Value, c.Mask = words[0], words[1]
	return d.tlb.registersAddress, window.Base, OK
}

// ProgramWindow implements Device: it programs the TLB window of the aperture a through the kernel
// driver. Without such a driver, ProgramWindow returns Internal, because the caller must then
// execute the Point command that EncodePoint has encoded.
func (d *device) ProgramWindow(a *Aperture, t fbs.TileRoute, address uint64) Code {
	if d.tlb.driver == nil {
		return Internal
	}
	return d.tlb.driver.programWindow(a, t, address)
}
