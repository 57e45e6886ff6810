//go:build !notiles && (backend_tt || !(backend_pci || backend_vfio))

package hal

// TLB windows of Tenstorrent's driver.

import (
	"golang.org/x/sys/unix"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// allocateWindow implements tlbDriver. The driver chooses a free window of a size; the image's
// preference is not possible.
func (t *tt) allocateWindow(size uint64, writeCombining bool) (int, *Aperture, error) {
	layout := t.dev.tlb.layout
	for i := range layout.Groups {
		g := &layout.Groups[i]
		if g.Size < size {
			continue
		}
		// Ask for any window of this size.
		window := ttAllocate{size: g.Size}
		_, err := syscalls.ioctl(t.fd, ttAllocateTLB, 0, structPointer(&window))
		switch {
		case err == unix.ENOMEM:
			continue // none is free: try a larger size
		case err != nil:
			return -1, nil, callFault("ALLOCATE_TLB", t.dev.locator, err)
		case layout.GroupOf(int(window.id)) != g:
			return -1, nil, t.dev.fault(Internal,
				fbs.Text("the driver returned window %d for one of %x bytes", uint64(window.id),
					g.Size))
		}
		// The window has two places in the driver's file, one for each memory type.
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
	// Check that the window can show this, and find the aperture's place in it.
	var c fbs.Command
	_, home, code := t.dev.EncodeWindow(a, r, address, &c)
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
	// Accesses before this one must reach the old place, and accesses after it the new one.
	a.executeOne(fenceCommand)
	_, err := syscalls.ioctl(t.fd, ProgramWindowRequest, 0, structPointer(&t.configureRequest))
	a.executeOne(fenceCommand)
	switch err {
	case nil:
		a.Base = home + uintptr(c.Amount)
		return OK
	case unix.ENODEV: // another program has reset the device
		return DeviceGone
	}
	return Refused
}
