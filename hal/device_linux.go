package hal

// A device is a PCI function that a program opened. This file has its life from the first Map to
// Close, and what a backend has to provide. Each part of it has a file of its own.

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// device implements Device with one backend. A backend refers to its device and uses the parts
// that it needs; it has none of the methods of a Device.
type device struct {
	backend backend
	scheme  string // of the backend in names: pci, vfio or tt
	locator string // the rest of the name; PCI ids and addresses in small letters
	byIDs   bool   // locator is a pair of PCI ids

	acquired     bool  // the first Map acquired the device, or failed to
	acquireError error // of the first Map; each later one returns it too

	function  function    // identity, address and BARs: sysfs_linux.go
	config    configSpace // configuration space: config_linux.go
	busMaster busMaster   // whether it masters the bus: busmaster_linux.go
	memory    hostMemory  // memory of its Host windows: hostmem_linux.go
	tlb       tlbWindows  // TLB windows: tlb_linux.go
	outbound  outbound    // address translation for tiles: outbound_linux.go
	cleanups  cleanups    // what Close releases: cleanup_linux.go
}

// backend is one of the ways in which the kernel offers a PCI function to user space.
type backend interface {
	// probe finds the device and reads its identity. It stores nothing to the device.
	probe() error
	// acquire claims the device for this program, before its first window is mapped. Memory
	// decoding is then on, bus mastering is off, and DMA that a killed program left running has
	// been stopped.
	acquire() error
	// mapBarRange maps a range of a BAR with mapFile. It may ignore writeCombining.
	mapBarRange(bar uint8, writeCombining bool, offset, size uint64) (*Aperture, error)
	// mapForDevice returns the address at which the device reaches whole pages of host memory,
	// and keeps the pages where they are. Huge pages stay where they are anyway.
	mapForDevice(mem []byte, huge bool) (bus uint64, err error)
	// assignBusAddress implements AssignBusAddress for an owner with the same backend.
	assignBusAddress(a *Aperture, owner *device) error
}

// fault returns a fault that begins with the name of the device.
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

// mapWindow acquires the device for its first window and maps a window.
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
	return nil, d.fault(Internal, fbs.Text("window of unknown kind %d", uint64(w.Kind)))
}

// mapBar maps a range of a BAR, which must lie inside of it.
func (d *device) mapBar(bar uint8, writeCombining bool, offset, size uint64) (*Aperture, error) {
	name := "BAR " + strconv.Itoa(int(bar))
	if bar >= configBars || d.function.Bars[bar] == 0 {
		return nil, d.fault(WrongDevice,
			name+" does not exist or is not memory; is the image for this device?")
	}
	barSize := d.function.Bars[bar]
	if size == 0 || offset > barSize || size > barSize-offset {
		return nil, d.fault(WrongDevice, name+
			fbs.Text(" has %x bytes, the window needs %x at %x", barSize, size, offset)+
			"; is the image for this device, and did the firmware grant the whole BAR?")
	}
	return d.backend.mapBarRange(bar, writeCombining, offset, size)
}

// mapFile maps a range of a file until Close: only the pages that it needs. Two mappings of one
// page with different memory types do not go together (on x86 the kernel refuses the second, or
// makes it uncached: arch/x86/mm/pat/memtype.c), and the kernel builds the page table of a
// mapping at once.
func (d *device) mapFile(fd int, offset, size uint64, path string) (*Aperture, error) {
	inside := offset % pageSize()
	mem, err := syscalls.mmap(fd, int64(offset-inside), int(inside+size),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == unix.EINVAL {
		return nil, NewFault(NoDevice, "mmap "+path+": "+err.Error()+
			"; do other windows or processes map these pages with another memory type?")
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

// pageSize returns the size of a page of the processor in bytes.
func pageSize() uint64 { return uint64(unix.Getpagesize()) }

// AssignBusAddress implements Device. Tiles have addresses of their own for the Host windows of
// their device and for nothing else. A kernel driver maps memory for its own device only.
func (d *device) AssignBusAddress(a *Aperture, of Device) error {
	owner, reachable := of.(*device)
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
		return NewFault(Usage, d.function.Name+" cannot reach memory of "+of.Identity().Name+
			"; open both as pci: or as vfio:; tiles reach Host windows of their own device, which "+
			"no other device reaches, and nothing else")
	}
	return d.backend.assignBusAddress(a, owner)
}

// Alive implements Device.
func (d *device) Alive() bool { return isAlive(d.config.readHeader()) }

// isAlive reports whether a device with these first 8 bytes of configuration space answers.
func isAlive(header uint64) bool {
	return uint16(header) != 0xffff && header>>(8*configCommand)&configCommandMemory != 0
}

// Diagnose implements Device.
func (d *device) Diagnose() Code {
	header := d.config.readHeader()
	if !isAlive(header) {
		return DeviceGone
	}
	return d.busMaster.diagnose(header)
}

// Close implements Device. Bus mastering is switched off before the memory that the device
// reaches is released. Memory decoding stays on: cores that the image started may still run.
func (d *device) Close() error {
	err := d.SetBusMaster(false)
	if e := d.cleanups.run(); err == nil {
		err = e
	}
	d.memory.unmap()
	d.unmapOutbound()
	d.config.fd = -1
	return err
}
