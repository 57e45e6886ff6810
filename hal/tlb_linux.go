package hal

import (
	"lightmetal/boards"
	"lightmetal/fbs"
)

type tlbWindows struct {
	// nil: the device has no TLB windows
	layout *boards.TLBLayout
	// nil: this process programs the TLB windows
	driver tlbDriver
	// address of the registers of TLB window 0; 0: not mapped
	registersAddress uintptr
	// complete TLB windows, by number; nil: unused
	windows []*Aperture
}

// tlbDriver is the backend tt, whose kernel driver owns the TLB windows.
type tlbDriver interface {
	// allocateWindow reserves and maps a complete TLB window of at least `size` bytes. `slot` is -1
	// if none is free.
	allocateWindow(size uint64, writeCombining bool) (slot int, a *Aperture, err error)
	programWindow(a *Aperture, t fbs.TileRoute, address uint64) Code
}

// mapTLBWindow maps a complete TLB window. The TLB window may be larger than w, and a Point may
// move the aperture anywhere in it.
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
	// No bus address: the next Point would make it wrong.
	return &Aperture{Base: a.Base, Size: w.Size, TLBWindow: slot}, nil
}

// allocateTLBWindow returns the slot -1 if no suitable TLB window is free. A kernel driver chooses
// the slot itself.
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

// EncodePoint implements Device. The range that a TLB window shows begins at a multiple of its
// size; the aperture is a part of it. EncodePoint returns Refused if the TLB window cannot show the
// address. With tt-kmd, it also returns Refused for a static virtual channel (of the on-chip
// network) other than 0, and for 0 too on a device without the register field UseStaticVC
// (wormhole.c, blackhole.c).
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

// ProgramWindow implements Device. Without a driver, all Points are encoded.
func (d *device) ProgramWindow(a *Aperture, t fbs.TileRoute, address uint64) Code {
	if d.tlb.driver == nil {
		return Internal
	}
	return d.tlb.driver.programWindow(a, t, address)
}
