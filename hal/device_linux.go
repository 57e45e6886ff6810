package hal

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// device implements Device through a backend, which uses the device's fields.
type device struct {
	backend      backend
	scheme       string // part of the device name before the first colon: pci, vfio or tt
	locator      string // part of the device name after the first colon: PCI ids, address or path
	locatorIsIDs bool   // locator is a pair of PCI ids, not a PCI address or a path

	acquired     bool  // the first Map has called acquire
	acquireError error // error of acquire; every Map returns it again

	pciFunction pciFunction // identity, PCI address and BARs
	config      configSpace
	busMaster   busMasterState
	hostMemory  hostMemory // of the Host windows
	tlb         tlbWindows
	outbound    outboundState // how tiles reach host memory
	cleanups    cleanups

	interruptPoller int // epoll file that reports interrupts; 0: none
}

// backend is the kernel interface to a function: sysfs, VFIO, or Tenstorrent's driver.
type backend interface {
	// identifyDevice finds the device and reads its identity. It does not write to the device.
	identifyDevice() error
	// acquireDevice claims the device at the first Map, and stops DMA that a killed program left
	// running. Then memory decoding is on, and bus mastering off, unless a kernel driver keeps it
	// on or this user may not switch it off.
	acquireDevice() error
	// mapBarRange may ignore writeCombining, and map uncached.
	mapBarRange(bar uint8, writeCombining bool, offset, size uint64) (*Aperture, error)
	// mapForDMA returns the address at which the device reaches `mem`, whole pages: the bus
	// address, or with tt the address on the NoC. A `fixedBus` that is not 0 asks for that address.
	// It fails if the kernel could move a page during DMA. The kernel does not move huge pages.
	mapForDMA(mem []byte, huge bool, fixedBus uint64) (bus uint64, err error)
	// mapForPeer implements AssignBusAddress. `owner` has the same backend.
	mapForPeer(a *Aperture, owner *device) error
	enableVectors(kind gen.InterruptKind, count uint64) error
}

// fault begins the reason with the device's name. Inlined copies would enlarge programs.
//
//go:noinline
func (d *device) fault(code Code, text string) error {
	return JoinFault(code, d.pciFunction.Name, ": ", text)
}

// Identity implements Device.
func (d *device) Identity() Identity { return d.pciFunction.Identity }

// Map implements Device.
func (d *device) Map(w fbs.Window) (Aperture, error) {
	a, err := d.mapWindow(&w)
	if err != nil {
		return Aperture{}, err
	}
	return *a, nil
}

// mapWindow acquires the device at the first call.
func (d *device) mapWindow(w *fbs.Window) (*Aperture, error) {
	if !d.acquired {
		d.acquireError = d.acquire()
		d.acquired = true
	}
	if d.acquireError != nil {
		return nil, d.acquireError
	}
	switch w.Kind {
	case gen.WindowKindBar:
		return d.mapBar(w.Bar, w.Flags&fbs.FlagWriteCombining != 0, w.Offset, w.Size)
	case gen.WindowKindTlb:
		return d.mapTLBWindow(w)
	case gen.WindowKindConfig:
		return d.mapConfig(w.Size)
	case gen.WindowKindHost:
		return d.mapHostMem(w.Size, fbs.FixedBusAddress(w))
	}
	return nil, d.fault(Internal, fbs.Text("unknown kind of window: %d", uint64(w.Kind)))
}

// acquire locks the function until Close: no other device of this package, in any program, can
// acquire it.
func (d *device) acquire() error {
	path := d.configPath()
	fd, err := d.cleanups.openFile(path, unix.O_RDONLY)
	if err == nil {
		err = syscalls.flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	}
	switch err {
	case nil:
	case unix.EWOULDBLOCK:
		return d.fault(NoDevice, "a replay already uses the device; `fuser -v "+path+
			"` names its process")
	default:
		return syscallFault("flock", path, err)
	}
	err = d.backend.acquireDevice()
	for bar := 0; CodeOf(err) == NoDevice && bar < configBarCount; bar++ {
		if d.pciFunction.Unassigned>>bar&1 != 0 {
			return d.unassignedFault(bar) // the kernel does not enable such a function
		}
	}
	d.config.bars = d.config.readBARs()
	return err
}

func (d *device) configPath() string { return d.pciFunction.sysfsDir() + "/config" }

func (d *device) unassignedFault(bar int) error {
	return d.fault(NoDevice, "the kernel has assigned no address to BAR "+strconv.Itoa(bar)+
		"; see `dmesg | grep BAR`, and boot with `pci=realloc`, or with wider PCIe ranges in the "+
		"device tree")
}

// mapBar checks that the range is inside the BAR.
func (d *device) mapBar(bar uint8, writeCombining bool, offset, size uint64) (*Aperture, error) {
	name := "BAR " + strconv.Itoa(int(bar))
	if d.pciFunction.Unassigned>>bar&1 != 0 {
		return nil, d.unassignedFault(int(bar))
	}
	if bar >= configBarCount || d.pciFunction.BarSizes[bar] == 0 {
		return nil, d.fault(WrongDevice, name+" cannot be mapped: it is missing or has I/O ports; "+
			"`lspci -v` lists the BARs")
	}
	barSize := d.pciFunction.BarSizes[bar]
	if size == 0 || offset > barSize || size > barSize-offset {
		return nil, d.fault(WrongDevice, name+
			fbs.Text(" has %x bytes, but the window needs %x at offset %x", barSize, size, offset)+
			"; check the size of the BAR with `lspci -v`")
	}
	return d.backend.mapBarRange(bar, writeCombining, offset, size)
}

// mapFile maps until Close. `path` is for messages.
//
// It maps only the pages of the range: mmap writes all page table entries at once, and no page may
// have two memory types (on x86, the kernel rejects the second or makes it uncached:
// arch/x86/mm/pat/memtype.c).
func (d *device) mapFile(fd int, offset, size uint64, path string) (*Aperture, error) {
	offsetInPage := offset % pageSize()
	mem, err := syscalls.mmap(fd, int64(offset-offsetInPage), int(offsetInPage+size),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == unix.EINVAL {
		return nil, NewFault(NoDevice, "mmap "+path+": "+err.Error()+
			"; check that nothing else maps these pages with another memory type")
	}
	if err != nil {
		return nil, syscallFault("mmap", path, err)
	}
	d.cleanups.addCleanup(func() error {
		return syscallFault("munmap", d.pciFunction.Name, syscalls.munmap(mem))
	})
	a := MappedAperture(mem, offsetInPage, size, -1)
	return &a, nil
}

func pageSize() uint64 { return uint64(unix.Getpagesize()) }

const hostWindowsNotSharedReason = ": a device with tiles reaches only its host windows, " +
	"and does not share them; use one of its own"

// AssignBusAddress implements Device. A device that a kernel driver keeps bus master reaches only
// its own windows. A device with outbound translation reaches only its own Host windows. Any other
// device reaches windows of all devices with its backend, except Host windows of devices with
// outbound translation.
func (d *device) AssignBusAddress(a *Aperture, windowOwner Device) error {
	owner, reachable := windowOwner.(*device)
	reason := "; open both as `pci:` or both as `vfio:`"
	switch {
	case !reachable:
	case d.busMaster.keptOnByDriver:
		reachable = owner == d
		reason = ": a `tt:` device reaches only its own windows; use one of these"
	case d.needsIATU():
		reachable, reason = owner == d && a.isHostMemory, hostWindowsNotSharedReason
	case owner.needsIATU() && a.isHostMemory:
		reachable, reason = false, hostWindowsNotSharedReason
	default:
		reachable = owner.scheme == d.scheme
	}
	if !reachable {
		return NewFault(Usage, d.pciFunction.Name+" cannot reach memory of "+
			windowOwner.Identity().Name+reason)
	}
	return d.backend.mapForPeer(a, owner)
}

// Alive implements Device.
func (d *device) Alive() bool {
	_, alive := d.readHeader()
	return alive
}

// Diagnose implements Device.
func (d *device) Diagnose() Code {
	header, alive := d.readHeader()
	if !alive {
		return DeviceGone
	}
	return d.busMaster.dmaFailureCode(header)
}

// Close implements Device. Bus mastering goes off first: a bus master may still write to host
// memory. Memory decoding stays on, so that the next program can stop cores that still run.
func (d *device) Close() error {
	err := d.SetBusMaster(false)
	if e := d.cleanups.callAll(); err == nil {
		err = e
	}
	d.hostMemory.unmapAll()
	d.outbound.registers = nil // no longer mapped
	d.config.fd = -1
	return err
}
