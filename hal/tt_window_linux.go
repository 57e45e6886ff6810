package hal

// This file is part of the backend tt. It reserves and programs TLB windows through Tenstorrent's
// driver.

import (
	"golang.org/x/sys/unix"

	"lightmetal/boards"
	"lightmetal/fbs"
)

// allocateWindow implements tlbDriver: it reserves and maps the smallest free TLB window of at
// least `size` bytes. The driver chooses among the TLB windows of one size. So the number
// that the image prefers has no effect.
func (t *ttBackend) allocateWindow(size uint64, writeCombining bool) (
	slot int, a *Aperture, err error) {
	layout := t.dev.tlb.layout
	for i := range layout.Groups {
		g := &layout.Groups[i]
		if g.Size < size {
			continue
		}
		// Request any free TLB window of this size from the driver.
		window := ttAllocateTLBRequest{size: g.Size}
		_, err := syscalls.ioctl(t.fd, ttAllocateTLB, 0, structPointer(&window))
		switch {
		case err == unix.ENOMEM:
			continue // no TLB window of this size is free; try the next larger size
		case err != nil:
			return -1, nil, syscallFault("ALLOCATE_TLB", t.dev.locator, err)
		case layout.GroupOf(int(window.window)) != g:
			const text = "the driver returned TLB window %d, whose size is not %x bytes"
			return -1, nil, t.dev.fault(Internal, fbs.Text(text, uint64(window.window), g.Size))
		}
		// The driver's file contains the TLB window at two offsets: one for an uncached mapping,
		// and one for a write-combining mapping.
		offset := window.uncachedOffset
		if writeCombining {
			offset = window.writeCombiningOffset
		}
		a, err := t.dev.mapFile(t.fd, offset, g.Size, t.dev.locator)
		return int(window.window), a, err
	}
	return -1, nil, nil
}

// programWindow implements tlbDriver: through the driver, it points the TLB window of the aperture
// `a` at the given address of the tiles `r`. Then it sets a.Base to the address in this process at
// which the given address is now mapped.
func (t *ttBackend) programWindow(a *Aperture, r fbs.TileRoute, address uint64) Code {
	// Check that the TLB window can show the address. EncodePoint also returns windowBase, the
	// address at which the TLB window is mapped, and c.Amount, the offset of the aperture in the
	// TLB window in bytes.
	var c fbs.Command
	_, windowBase, code := t.dev.EncodePoint(a, r, address, &c)
	if code != OK {
		return code
	}
	t.configureTLBRequest = ttConfigureTLBRequest{
		window:   uint32(a.TLBWindow),
		address:  address - uint64(c.Amount),
		xEnd:     uint16(r.X),
		yEnd:     uint16(r.Y),
		xStart:   uint16(r.XStart),
		yStart:   uint16(r.YStart),
		noc:      r.NoC,
		ordering: uint8(r.Ordering - boards.OrderingDefault),
		staticVC: r.StaticVCPlusOne,
	}
	if r.Multicast {
		t.configureTLBRequest.multicast = 1
	}
	// Program the TLB window between two fences: all earlier accesses must be complete before the
	// TLB window changes, and no later access may start until the change is complete.
	a.executeOne(fenceCommand)
	_, err := syscalls.ioctl(t.fd, ProgramWindowRequest, 0, structPointer(&t.configureTLBRequest))
	a.executeOne(fenceCommand)
	switch err {
	case nil:
		a.Base = windowBase + uintptr(c.Amount)
		return OK
	case unix.ENODEV: // another program has reset the device
		return DeviceGone
	}
	return Refused
}
