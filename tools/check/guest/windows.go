package main

import (
	"fmt"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// tlbWindows are the TLB windows of a device that the windows of an image use.
type tlbWindows struct {
	layout *boards.TLBLayout
	// The key of both maps is the index of the window in the image.
	slots     map[uint16]int         // number of the TLB window
	positions map[uint16]barPosition // position of the first byte; changed by Point commands
}

// barPosition is a position in the BARs of a device.
type barPosition struct {
	bar    uint8
	offset uint64 // in bytes
}

// newTLBWindows assigns the slots from firstSlot on to the TLB windows of an image, in the order of
// the image, as lmrun does with the flag -window.
func newTLBWindows(firstSlot int, image *lmb.Image, traced region) *tlbWindows {
	w := &tlbWindows{
		layout:    boards.FindByID(traced.vendor, traced.device).TLB,
		slots:     map[uint16]int{},
		positions: map[uint16]barPosition{},
	}
	for i := range image.Windows {
		if image.Windows[i].Kind == gen.WindowKindTlb {
			w.slots[uint16(i)] = firstSlot
			firstSlot++
		}
	}
	return w
}

// addPoint appends the accesses of a Point command on a device without a kernel driver: the stores
// that program a TLB window, and a load, after which the stores have reached the device.
func (e *expander) addPoint(name string, c *lmb.Command) error {
	if e.tlb == nil {
		return fmt.Errorf("the device has no TLB windows")
	}
	layout, slot := e.tlb.layout, e.tlb.slots[c.Window]
	group := layout.GroupOf(slot)
	target, _ := boards.UnpackTileRoute(c.Mask)
	offsetInWindow := c.Value & (group.Size - 1)
	words, ok := layout.EncodeWindow(group, target, c.Value-offsetInWindow)
	if !ok {
		return fmt.Errorf("TLB window %d cannot encode this target", slot)
	}
	e.tlb.positions[c.Window] = barPosition{group.Bar, group.WindowOffset(slot) + offsetInWindow}
	if layout.ConfigBar != e.region.bar {
		return nil
	}
	next := step{command: name, offset: layout.ConfigOffset + uint64(slot)*layout.ConfigStride,
		width: layout.ConfigWidth}
	width := uint64(layout.ConfigWidth)
	for register := uint64(0); register < layout.ConfigStride; register += width {
		store := next
		value := chips.LoadRegister(&words, register, layout.ConfigWidth)
		store.store, store.data = true, littleEndianBytes(value)[:width]
		store.offset += register
		e.steps = append(e.steps, store)
	}
	next.offset += layout.ConfigStride - width
	e.steps = append(e.steps, next)
	return nil
}

// windowOffset returns the offset in the region of the first byte of a window; ok is false if the
// window is not in the region.
func (e *expander) windowOffset(window uint16) (offset uint64, ok bool) {
	w := &e.image.Windows[window]
	device := &e.image.Devices[w.Device]
	if device.Vendor != e.region.vendor || device.Device != e.region.device {
		return 0, false
	}
	switch {
	case w.Kind == gen.WindowKindBar:
		return w.Offset, w.Bar == e.region.bar
	case w.Kind == gen.WindowKindTlb && e.tlb != nil:
		position := e.tlb.positions[window]
		return position.offset, position.bar == e.region.bar
	}
	return 0, false
}
