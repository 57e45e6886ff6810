package hal

// A device is a PCI function that this program has opened. This file contains the methods of the
// device from the first Map to Close, and the interface of a backend. The other files contain one
// part of the device each.

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// device implements Device with the help of one backend. A backend keeps a pointer to its device
// and uses the parts of the device that it needs. A backend does not implement Device itself.
type device struct {
	backend backend
	scheme  string // backend's prefix of device names, without the colon: pci, vfio or tt
	locator string // device name after the colon; PCI ids and PCI addresses in lower case
	byIDs   bool   // locator is a pair of PCI ids, not an address or a path

	acquired     bool  // the first Map has called backend.acquire, successfully or not
	acquireError error // error of that backend.acquire, which every Map returns; nil: success

	function  function    // identity, PCI address and BARs: sysfs_linux.go
	config    configSpace // configuration space: config_linux.go
	busMaster busMaster   // state of bus mastering: busmaster_linux.go
	memory    hostMemory  // host memory of the device's Host windows: hostmem_linux.go
	tlb       tlbWindows  // TLB windows of the hardware: tlb_linux.go
	outbound  outbound    // translates the tiles' addresses of host memory: outbound_linux.go
	cleanups  cleanups    // functions that Close calls to release resources: cleanup_linux.go
}

// backend is one of the ways in which the kernel makes a PCI function accessible to user space.
type backend interface {
	// probe finds the device and reads its identity. It stores nothing to the device.
	probe() error
	// acquire claims the device for this program, before the first window is mapped. When acquire
	// returns, memory decoding is on and bus mastering is off. DMA that a killed program left
	// running has been stopped.
	acquire() error
	// mapBarRange maps a range of a BAR by a call of mapFile. It may ignore writeCombining.
	mapBarRange(bar uint8, writeCombining bool, offset, size uint64) (*Aperture, error)
	// mapForDevice returns the address at which the device reaches mem, which must be complete
	// pages of host memory. It makes the kernel keep the pages at their physical addresses. If huge
	// is set, mem consists of huge pages, which the kernel does not move anyway.
	mapForDevice(mem []byte, huge bool) (bus uint64, err error)
	// assignBusAddress implements AssignBusAddress for an owner with the same backend.
	assignBusAddress(a *Aperture, owner *device) error
}

// fault returns a Fault whose reason is the name of the device followed by text.
//
//go:noinline
func (d *device) fault(code Code, text string) error {
	return NewFault(code, d.function.Name+": "+text)
}

// Identity implements Device.
func (d *device) Identity() Identity { return d.function.Identity }

// Map implements Device.
func (d *device) Map(w fbs.Window) (Aperture, error) {
	a, err := d.mapWindow(&w)
	if err != nil {
		return Aperture{}, err
	}
	return *a, nil
}

// mapWindow maps the window w of an image. If w is the first window, mapWindow first acquires the
// device.
func (d *device) mapWindow(w *fbs.Window) (*Aperture, error) {
	if !d.acquired {
		d.acquired = true
		d.acquireError = d.backend.acquire()
	}
	if d.acquireError != nil {
		return nil, d.acquireError
	}
	switch w.Kind {
	case gen.WindowKindBar:
		return d.mapBar(w.Bar, w.Flags&fbs.FlagWriteCombining != 0, w.Offset, w.Size)
	case gen.WindowKindTlb:
		return d.mapTLB(w)
	case gen.WindowKindConfig:
		return d.mapConfig(w.Size)
	case gen.WindowKindHost:
		return d.mapHost(w.Size)
	}
	return nil, d.fault(Internal, fbs.Text("unknown kind of window: %d", uint64(w.Kind)))
}

// mapBar maps a range of a BAR. It returns an error if the range does not lie inside the BAR.
func (d *device) mapBar(bar uint8, writeCombining bool, offset, size uint64) (*Aperture, error) {
	name := "BAR " + strconv.Itoa(int(bar))
	if bar >= configBars || d.function.Bars[bar] == 0 {
		return nil, d.fault(WrongDevice,
			name+" does not exist or is not memory; check that the image is for this device")
	}
	barSize := d.function.Bars[bar]
	if size == 0 || offset > barSize || size > barSize-offset {
		return nil, d.fault(WrongDevice, name+
			fbs.Text(" has %x bytes, but the window needs %x at offset %x", barSize, size, offset)+
			"; check that the image is for this device and the whole BAR is assigned")
	}
	return d.backend.mapBarRange(bar, writeCombining, offset, size)
}

// mapFile maps a range of a file until Close. It maps only the pages of the range, for two
// reasons. One page must not be mapped with two memory types: on x86 the kernel rejects the second
// mapping or makes it uncached (arch/x86/mm/pat/memtype.c). And mmap takes time and memory for
// each page, because the kernel fills the page table at once.
func (d *device) mapFile(fd int, offset, size uint64, path string) (*Aperture, error) {
	inside := offset % pageSize()
	mem, err := syscalls.mmap(fd, int64(offset-inside), int(inside+size),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == unix.EINVAL {
		return nil, NewFault(NoDevice, "mmap "+path+": "+err.Error()+
			"; check that nothing else maps these pages with another memory type")
	}
	if err != nil {
		return nil, callFault("mmap", path, err)
	}
	d.cleanups.add(func() error {
		return callFault("munmap", d.function.Name, syscalls.munmap(mem))
	})
	a := MappedAperture(mem, inside, size, -1)
	return &a, nil
}

// pageSize returns the size of a normal page of memory in bytes.
func pageSize() uint64 { return uint64(unix.Getpagesize()) }

// AssignBusAddress implements Device. It returns an error if this device cannot reach a. If a
// kernel driver keeps bus mastering on, the device reaches only its own windows. A device with
// outbound translation reaches only its own Host windows, and no other device reaches those.
func (d *device) AssignBusAddress(a *Aperture, windowOwner Device) error {
	owner, reachable := windowOwner.(*device)
	switch {
	case !reachable:
	case d.busMaster.keptOn:
		reachable = owner == d
	case d.hasOutbound():
		reachable = owner == d && a.isHost
	default:
		reachable = owner.scheme == d.scheme && !(owner.hasOutbound() && a.isHost)
	}
	if !reachable {
		return NewFault(Usage, d.function.Name+" cannot reach memory of "+
			windowOwner.Identity().Name+"; open both as `pci:` or both as `vfio:`; tiles reach "+
			"only Host windows of their own device, which no other device reaches")
	}
	return d.backend.assignBusAddress(a, owner)
}

// Alive implements Device.
func (d *device) Alive() bool { return isAlive(d.config.readHeader()) }

// isAlive reports whether the device answers and decodes memory accesses. header is the first 8
// bytes of the device's configuration space.
func isAlive(header uint64) bool {
	return uint16(header) != 0xffff && header>>(8*configCommand)&configCommandMemory != 0
}

// Diagnose implements Device.
func (d *device) Diagnose() Code {
	header := d.config.readHeader()
	if !isAlive(header) {
		return DeviceGone
	}
	return d.busMaster.diagnoseHeader(header)
}

// Close implements Device. It switches bus mastering off before it releases the memory that the
// device reaches by DMA. It leaves memory decoding on, because cores that the image started may
// still run.
func (d *device) Close() error {
	err := d.SetBusMaster(false)
	if e := d.cleanups.callAll(); err == nil {
		err = e
	}
	d.memory.unmap()
	d.unmapOutbound()
	d.config.fd = -1
	return err
}
