//go:build !notiles

package hal

// TLB windows: hardware windows of a device that show a range of a tile's addresses and can be
// moved. Registers program them for pci: and vfio:, Tenstorrent's driver does for tt:.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
)

// tlbWindows are the TLB windows of a device.
type tlbWindows struct {
	layout    *boards.TLB // nil if the device has none
	driver    tlbDriver   // kernel driver that programs them; nil if registers do
	registers uintptr     // address of the first window's registers, 0 if not mapped yet
	windows   []*Aperture // by slot: the complete hardware window, nil if it is free
}

// tlbDriver is a kernel driver that owns the TLB windows of a device.
type tlbDriver interface {
	// allocateWindow reserves a window of at least a size and maps it completely. The slot is -1
	// if none is free.
	allocateWindow(size uint64, writeCombining bool) (slot int, a *Aperture, err error)
	// programWindow implements ProgramWindow.
	programWindow(a *Aperture, t fbs.TileRange, address uint64) Code
}

// findTileParts looks up TLB windows and outbound translation of the device's board. A driver
// that programs the windows programs the translation too.
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

// mapTLB reserves a TLB window and maps it completely, so that ProgramWindow can move the
// aperture inside.
func (d *device) mapTLB(w *fbs.Window) (*Aperture, error) {
	if d.tlb.layout == nil {
		return nil, d.fault(WrongDevice,
			"the device has no TLB windows; is the image for this device?")
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
	// The aperture is a part of the window. It moves, so that it has no bus address.
	return &Aperture{Base: a.Base, Size: w.Size, Slot: slot}, nil
}

// allocateTLBWindow reserves a window and maps it, and maps all registers with the first window.
func (d *device) allocateTLBWindow(prefer uint16, size uint64, writeCombining bool) (slot int,
	a *Aperture, err error) {
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
	slot = t.layout.ChooseWindow(prefer, size, &d.function.Bars, inUse)
	if slot >= 0 {
		g := t.layout.GroupOf(slot)
		a, err = d.mapBar(g.Bar, writeCombining, g.WindowOffset(slot), g.Size)
	}
	return slot, a, err
}

// EncodeWindow implements Device. If the hardware window is larger than the aperture, the
// aperture moves inside. Tenstorrent's driver sets no static virtual channel but channel 0 of a
// device that numbers them (tt-kmd wormhole.c, blackhole.c).
func (d *device) EncodeWindow(a *Aperture, t fbs.TileRange, address uint64,
	c *fbs.Command) (registers, home uintptr, code Code) {
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

// ProgramWindow implements Device. If registers program the windows, EncodeWindow is enough.
func (d *device) ProgramWindow(a *Aperture, t fbs.TileRange, address uint64) Code {
	if d.tlb.driver == nil {
		return Internal
	}
	return d.tlb.driver.programWindow(a, t, address)
}
