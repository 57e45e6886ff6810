package hal

import (
	"golang.org/x/sys/unix"

	"lightmetal/boards"
	"lightmetal/fbs"
)

// allocateWindow implements tlbDriver. It takes the smallest size of which a TLB window is free.
// The driver chooses the TLB window, so that the number that the image prefers has no effect.
func (t *ttBackend) allocateWindow(size uint64, writeCombining bool) (
	slot int, a *Aperture, err error) {
	layout := t.dev.tlb.layout
	for i := range layout.Groups {
		g := &layout.Groups[i]
		if g.Size < size {
			continue
		}
		window := ttAllocateTLBRequest{size: g.Size}
		_, err := syscalls.ioctl(t.fd, ttAllocateTLB, 0, structPointer(&window))
		switch {
		case err == unix.ENOMEM:
			continue // no TLB window of this size is free
		case err != nil:
			return -1, nil, syscallFault("ALLOCATE_TLB", t.dev.locator, err)
		case layout.GroupOf(int(window.window)) != g:
			const text = "the driver returned TLB window %d, whose size is not %x bytes"
			return -1, nil, t.dev.fault(Internal, fbs.Text(text, uint64(window.window), g.Size))
		}
		offset := window.uncachedOffset
		if writeCombining {
			offset = window.writeCombiningOffset
		}
		a, err := t.dev.mapFile(t.fd, offset, g.Size, t.dev.locator)
		return int(window.window), a, err
	}
	return -1, nil, nil
}

// programWindow implements tlbDriver.
func (t *ttBackend) programWindow(a *Aperture, r fbs.TileRoute, address uint64) Code {
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
	// Earlier accesses must be complete before the TLB window changes, and later accesses must not
	// start before the change is complete.
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
