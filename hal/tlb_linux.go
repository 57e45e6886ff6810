//go:build !notiles

package hal

// This file reserves and programs TLB windows. A TLB window is a range of a BAR. The device
// forwards accesses to this range to addresses of a tile, which is one unit of the chip. The
// configuration of the TLB window selects the tile and the addresses. With the backends pci and
// vfio, this program stores the configuration to registers of the device. With the backend tt,
// Tenstorrent's driver does so.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
)

// tlbWindows contains the state of the TLB windows of a device.
type tlbWindows struct {
	layout           *boards.TLBLayout // sizes and registers of the windows; nil: none
	driver           tlbDriver         // programs the windows; nil: this process does
	registersAddress uintptr           // address of the registers of window 0; 0: not mapped
	windows          []*Aperture       // element i: complete TLB window number i; nil if not in use
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

// applyBoard finds the board of the device by its PCI ids, and stores the board's layouts of TLB
// windows and outbound translation in d. For unknown ids it stores nothing. A kernel driver that
// programs the TLB windows also programs the outbound translation; in that case
// d.outbound.layout stays nil.
func (d *device) applyBoard() {
	board := boards.FindByID(d.pciFunction.Vendor, d.pciFunction.Device)
	if board == nil {
		return
	}
	d.tlb.layout = board.TLB
	if d.tlb.driver == nil {
		d.outbound.layout = board.Outbound
	}
}

// mapTLB reserves a TLB window for the Tlb window w of an image, and returns an aperture of the
// size of w. The TLB window may be larger than w. mapTLB maps the complete TLB window, because a
// later Point command may move the aperture to any offset in the TLB window.
func (d *device) mapTLB(w *fbs.Window) (*Aperture, error) {
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
		err = d.fault(NoDevice, fbs.Text("no TLB window of %x bytes is free; "+
			"use fewer or smaller TLB windows", w.Size))
	}
	if err != nil {
		return nil, err
	}
	d.tlb.windows[slot] = a
	// Leave the bus address 0, because later Point commands move the aperture inside the TLB
	// window.
	return &Aperture{Base: a.Base, Size: w.Size, Slot: slot}, nil
}

// allocateTLBWindow reserves and maps a TLB window of at least size bytes. It prefers the TLB
// window with the number preferredSlot; a kernel driver, however, ignores this number. The result
// slot is -1 if no suitable TLB window is free. If no kernel driver programs the TLB windows, the
// first call also maps the registers of all TLB windows.
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

// EncodeWindow implements Device: it computes the register values with which the aperture a shows
// the given address of the tiles t, and stores them in the command c. A TLB window shows a range of
// addresses that is aligned to the size of the TLB window. The aperture is the part of that range
// that begins at the given address.
//
// EncodeWindow returns Refused if the TLB window cannot show the address. With the backend tt, it
// also returns Refused if t needs a static virtual channel (a fixed channel of the on-chip network)
// that Tenstorrent's driver cannot select. The driver can select only channel 0, and only on a
// device with the register field UseStaticVC (tt-kmd wormhole.c, blackhole.c).
func (d *device) EncodeWindow(a *Aperture, t fbs.TileRoute, address uint64,
	c *fbs.Command) (registers, windowBase uintptr, code Code) {
	if a.Slot < 0 || a.Slot >= len(d.tlb.windows) || d.tlb.windows[a.Slot] == nil {
		return 0, 0, Internal
	}
	layout, window := d.tlb.layout, d.tlb.windows[a.Slot]
	inside := address & (window.Size - 1)
	words, ok := layout.EncodeWindow(layout.GroupOf(a.Slot), t, address-inside)
	if d.tlb.driver != nil && t.StaticVCPlusOne > layout.Fields[boards.FieldUseStaticVC] {
		ok = false
	}
	if !ok || inside+a.Size > window.Size {
		return 0, 0, Refused
	}
	c.Offset = uint32(uint64(a.Slot) * layout.ConfigStride)
	c.Width = layout.ConfigWidth
	c.Amount = uint32(inside)
	c.Value, c.Mask = words[0], words[1]
	return d.tlb.registersAddress, window.Base, OK
}

// ProgramWindow implements Device: it programs the TLB window of the aperture a through the kernel
// driver. Without such a driver, ProgramWindow returns Internal, because the caller must then
// execute the Point command that EncodeWindow has encoded.
func (d *device) ProgramWindow(a *Aperture, t fbs.TileRoute, address uint64) Code {
	if d.tlb.driver == nil {
		return Internal
	}
	return d.tlb.driver.programWindow(a, t, address)
}
