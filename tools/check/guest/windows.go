package main

import (
	"fmt"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// windows are the hardware windows that a run sits in, where a device has them.
type windows struct {
	tlb   *boards.TLBLayout
	slots map[uint16]int   // by window of the image
	aimed map[uint16]place // where its first byte is now
}

// place is in a BAR.
type place struct {
	bar    uint8
	offset uint64
}

// from has the TLB windows of an image sit in hardware windows from a slot on,
// as lmrun's -window does.
func from(slot int, image *lmb.Image, of region) *windows {
	w := &windows{boards.FindByID(of.vendor, of.device).TLB, map[uint16]int{}, map[uint16]place{}}
	for i := range image.Windows {
		if image.Windows[i].Kind == gen.WindowKindTlb {
			w.slots[uint16(i)] = slot
			slot++
		}
	}
	return w
}

// point adds the stores that aim a window, and the load that makes sure of
// them: what a Point is on a device without a driver.
func (e *expander) point(where string, c *lmb.Command) error {
	if e.windows == nil {
		return fmt.Errorf("no device of QEMU has windows to point")
	}
	l, slot := e.windows.tlb, e.windows.slots[c.Window]
	g := l.GroupOf(slot)
	target, _ := boards.UnpackTileRoute(c.Mask)
	inside := c.Value & (g.Size - 1)
	words, ok := l.EncodeWindow(g, target, c.Value-inside)
	if !ok {
		return fmt.Errorf("window %d cannot be pointed there", slot)
	}
	e.windows.aimed[c.Window] = place{g.Bar, g.WindowOffset(slot) + inside}
	if l.ConfigBar != e.region.bar {
		return nil
	}
	at := step{place: where, offset: l.ConfigOffset + uint64(slot)*l.ConfigStride,
		width: l.ConfigWidth}
	for register := uint64(0); register < l.ConfigStride; register += uint64(l.ConfigWidth) {
		store := at
		store.store, store.data = true,
			littleEndian(chips.LoadRegister(&words, register, l.ConfigWidth))[:l.ConfigWidth]
		store.offset += register
		e.steps = append(e.steps, store)
	}
	at.offset += l.ConfigStride - uint64(l.ConfigWidth)
	e.steps = append(e.steps, at)
	return nil
}

// where is the first byte of a window, if it is in the region.
func (e *expander) where(window uint16) (offset uint64, ok bool) {
	w := &e.image.Windows[window]
	target := &e.image.Devices[w.Device]
	if target.Vendor != e.region.vendor || target.Device != e.region.device {
		return 0, false
	}
	switch {
	case w.Kind == gen.WindowKindBar:
		return w.Offset, w.Bar == e.region.bar
	case w.Kind == gen.WindowKindTlb && e.windows != nil:
		at := e.windows.aimed[window]
		return at.offset, at.bar == e.region.bar
	}
	return 0, false
}
