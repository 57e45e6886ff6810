//go:build !notiles

package hal

// A TLB window is a range of a BAR through which the program accesses a range of a tile's
// addresses. This package can program which range. For pci: and vfio: it does so by stores to
// registers, for tt: through Tenstorrent's driver.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
)

// tlbWindows contains the TLB windows of a device.
type tlbWindows struct {
	layout    *boards.TLB // sizes, places and registers; nil if the device has no TLB windows
	driver    tlbDriver   // kernel driver that programs TLB windows; nil: registers do that
	registers uintptr     // address of the first TLB window's registers; 0 if not mapped yet
	windows   []*Aperture // for each slot, the complete TLB window; nil if the slot is free
}

// tlbDriver is a kernel driver that owns the TLB windows of a device.
type tlbDriver interface {
	// allocateWindow reserves a TLB window of at least size bytes and maps all of the TLB window.
	// It returns slot -1 if no such TLB window is free.
	allocateWindow(size uint64, writeCombining bool) (slot int, a *Aperture, err error)
	// programWindow implements Device.ProgramWindow.
	programWindow(a *Aperture, t fbs.TileRange, address uint64) Code
}

// findTileParts finds the board of the device by its PCI ids and copies the layouts of the board's
// TLB windows and outbound translation. A kernel driver that programs TLB windows also programs
// the translation; therefore findTileParts then leaves d.outbound.translation nil.
func (d *device) findTileParts() {
	board := boards.FindByID(d.function.Vendor, d.function.Device)
	if board == nil {
		return
	}
	d.tlb.layout = board.TLB
	if d.tlb.driver == nil {
		d.outbound.translation = board.Outbound
	}
}

// mapTLB reserves a TLB window for the window w of an image. It maps all of the TLB window,
// because ProgramWindow and EncodeWindow may place the aperture anywhere inside.
func (d *device) mapTLB(w *fbs.Window) (*Aperture, error) {
	if d.tlb.layout == nil {
		return nil, d.fault(WrongDevice,
			"the device has no TLB windows; check that the image is for this device")
	}
	if d.tlb.windows == nil {
		groups := d.tlb.layout.Groups
		last := &groups[len(groups)-1]
		d.tlb.windows = make([]*Aperture, last.First+last.Count)
	}
	slot, a, err := d.allocateTLBWindow(w.Slot, w.Size, w.Flags&fbs.FlagWriteCombining != 0)
	if err == nil && slot < 0 {
		err = d.fault(NoDevice, fbs.Text("no TLB window of %x bytes is free; the image has too "+
			"many, or too large, Tlb windows", w.Size))
	}
	if err != nil {
		return nil, err
	}
	d.tlb.windows[slot] = a
	// The aperture moves inside the TLB window. Therefore it never has a bus address.
	return &Aperture{Base: a.Base, Size: w.Size, Slot: slot}, nil
}

// allocateTLBWindow reserves and maps a TLB window of at least size bytes: the one with the number
// preferredSlot if possible. The first call also maps the registers of all TLB windows, unless a
// kernel driver programs TLB windows. The returned slot is -1 if no such TLB window is free.
func (d *device) allocateTLBWindow(preferredSlot uint16, size uint64, writeCombining bool) (
	slot int, a *Aperture, err error) {
	t := &d.tlb
	if t.driver != nil {
		return t.driver.allocateWindow(size, writeCombining)
	}
	if t.registers == 0 {
		registersSize := t.layout.ConfigStride * uint64(len(t.windows))
		a, err = d.mapBar(t.layout.ConfigBar, false, t.layout.ConfigOffset, registersSize)
		if err != nil {
			return -1, nil, err
		}
		t.registers = a.Base
	}
	inUse := func(slot int) bool { return t.windows[slot] != nil }
	slot = t.layout.ChooseWindow(preferredSlot, size, &d.function.Bars, inUse)
	if slot >= 0 {
		g := t.layout.GroupOf(slot)
		a, err = d.mapBar(g.Bar, writeCombining, g.WindowOffset(slot), g.Size)
	}
	return slot, a, err
}

// EncodeWindow implements Device. If the TLB window is larger than the aperture, the aperture
// moves inside the TLB window. EncodeWindow rejects a static virtual channel that Tenstorrent's
// driver cannot set: the driver sets only channel 0, and only on a device that numbers its
// channels (tt-kmd wormhole.c, blackhole.c).
func (d *device) EncodeWindow(a *Aperture, t fbs.TileRange, address uint64,
	c *fbs.Command) (registers, windowBase uintptr, code Code) {
	if a.Slot < 0 || a.Slot >= len(d.tlb.windows) || d.tlb.windows[a.Slot] == nil {
		return 0, 0, Internal
	}
	layout, window := d.tlb.layout, d.tlb.windows[a.Slot]
	inside := address & (window.Size - 1)
	words, ok := layout.EncodeWindow(layout.GroupOf(a.Slot), t, address-inside)
	if d.tlb.driver != nil && t.StaticVC > layout.Fields[boards.UseStaticVC] {
		ok = false
	}
	if !ok || inside+a.Size > window.Size {
		return 0, 0, Refused
	}
	c.Offset = uint32(uint64(a.Slot) * layout.ConfigStride)
	c.Width = layout.ConfigWidth
	c.Amount = uint32(inside)
	c.Value, c.Mask = words[0], words[1]
	return d.tlb.registers, window.Base, OK
}

// ProgramWindow implements Device. If registers program the TLB windows, it must not be called:
// the caller executes the command that EncodeWindow has encoded instead.
func (d *device) ProgramWindow(a *Aperture, t fbs.TileRange, address uint64) Code {
	if d.tlb.driver == nil {
		return Internal
	}
	return d.tlb.driver.programWindow(a, t, address)
}
