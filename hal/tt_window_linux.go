//go:build !notiles && (backend_tt || !(backend_pci || backend_vfio))

package hal

// For the backend tt:, this file reserves and programs TLB windows through Tenstorrent's driver.

import (
	"golang.org/x/sys/unix"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// allocateWindow implements tlbDriver. It asks the driver for the smallest window size that is
// sufficient, and for larger sizes if no window of that size is free. The driver chooses the
// window, so the image's choice of a slot has no effect.
func (t *tt) allocateWindow(size uint64, writeCombining bool) (int, *Aperture, error) {
	layout := t.dev.tlb.layout
	for i := range layout.Groups {
		g := &layout.Groups[i]
		if g.Size < size {
			continue
		}
		// Ask the driver for any free window of this size.
		window := ttAllocate{size: g.Size}
		_, err := syscalls.ioctl(t.fd, ttAllocateTLB, 0, structPointer(&window))
		switch {
		case err == unix.ENOMEM:
			continue // no window of this size is free: try the next larger size
		case err != nil:
			return -1, nil, callFault("ALLOCATE_TLB", t.dev.locator, err)
		case layout.GroupOf(int(window.id)) != g:
			return -1, nil, t.dev.fault(Internal,
				fbs.Text("the driver returned TLB window %d, but %x bytes were requested",
					uint64(window.id), g.Size))
		}
		// The driver's file has two ranges for the window, one for each memory type.
		offset := window.uncached
		if writeCombining {
			offset = window.combining
		}
		a, err := t.dev.mapFile(t.fd, offset, g.Size, t.dev.locator)
		return int(window.id), a, err
	}
	return -1, nil, nil
}

// programWindow implements tlbDriver.
func (t *tt) programWindow(a *Aperture, r fbs.TileRange, address uint64) Code {
	// Check that the TLB window can show the range. EncodeWindow returns the address of the TLB
	// window, and stores the aperture's offset in it to c.Amount.
	var c fbs.Command
	_, windowBase, code := t.dev.EncodeWindow(a, r, address, &c)
	if code != OK {
		return code
	}
	t.configureRequest = ttConfigure{
		id:       uint32(a.Slot),
		address:  address - uint64(c.Amount),
		xEnd:     uint16(r.X),
		yEnd:     uint16(r.Y),
		xStart:   uint16(r.XStart),
		yStart:   uint16(r.YStart),
		noc:      r.NoC,
		ordering: uint8(r.Ordering - gen.OrderingDefault),
		staticVC: r.StaticVC,
	}
	if r.Multicast {
		t.configureRequest.multicast = 1
	}
	// The fences before and after the request keep the order of accesses: earlier accesses must
	// reach the old range, and later accesses must reach the new range.
	a.executeOne(fenceCommand)
	_, err := syscalls.ioctl(t.fd, ProgramWindowRequest, 0, structPointer(&t.configureRequest))
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
