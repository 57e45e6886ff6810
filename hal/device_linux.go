package hal

// This file declares the type `device`, a PCI function that this program has opened, and the
// interface of its backend. Methods that concern only one part of the device, such as its TLB
// windows, are in other files. The comments on the fields of `device` name these files.

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// device implements Device. It calls its backend for each operation that depends on the kernel
// interface. The backend has a pointer to the `device`, and uses its fields.
type device struct {
	backend      backend
	scheme       string // part of the device name before the first colon: pci, vfio or tt
	locator      string // part of the device name after the first colon: PCI ids, address or path
	locatorIsIDs bool   // locator is a pair of PCI ids, not a PCI address or a path

	acquired     bool  // the first call of Map has called backend.acquireDevice
	acquireError error // error of backend.acquireDevice; every call of Map returns it again

	pciFunction pciFunction    // identity, PCI address and BARs: see sysfs_linux.go
	config      configSpace    // configuration space: see config_linux.go
	busMaster   busMasterState // state of bus mastering: see busmaster_linux.go
	hostMemory  hostMemory     // memory of the Host windows: see hostmem_linux.go
	tlb         tlbWindows     // TLB windows of the device: see tlb_linux.go
	outbound    outboundState  // how tiles reach host memory: see outbound_linux.go
	cleanups    cleanups       // functions that release resources: see cleanup_linux.go
}

// backend is a kernel interface through which a program in user space accesses a PCI function:
// sysfs, VFIO, or Tenstorrent's driver.
type backend interface {
	// identifyDevice finds the device and reads its identity. It does not write to the device.
	identifyDevice() error
	// acquireDevice claims the device for this program, and stops DMA that a killed program left
	// running. The first call of Map calls acquireDevice. After acquireDevice, memory decoding is
	// on. Bus mastering is off, unless a kernel driver keeps it on or this user may not switch it
	// off.
	acquireDevice() error
	// mapBarRange calls mapFile to map a range of a BAR. If writeCombining is true, the mapping
	// should be write-combining, but a backend may map the range uncached instead.
	mapBarRange(bar uint8, writeCombining bool, offset, size uint64) (*Aperture, error)
	// mapForDMA makes `mem` accessible to the device by DMA, and returns the bus address of `mem`.
	// `mem` consists of complete pages: huge pages if `huge` is true, and otherwise ordinary pages.
	// During DMA, the kernel must not move a page. It never moves huge pages. mapForDMA returns an
	// error if it cannot prevent the kernel from moving ordinary pages.
	//
	// If fixedBus is not 0, mapForDMA returns the bus address fixedBus, or an error if the device
	// cannot reach `mem` at that address.
	mapForDMA(mem []byte, huge bool, fixedBus uint64) (bus uint64, err error)
	// mapForPeer implements Device.AssignBusAddress if the device and the owner of the
	// aperture have the same backend.
	mapForPeer(a *Aperture, owner *device) error
}

// fault returns a Fault whose reason begins with the name of the device.
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

// mapWindow maps the window `w` of an image. The first call also acquires the device for this
// program.
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

// acquire makes this open device the only one of its PCI function, in this and all other programs,
// until Close or the end of the program. Then it readies the device.
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

// unassignedFault returns the Fault for a BAR that has no address.
func (d *device) unassignedFault(bar int) error {
	return d.fault(NoDevice, "the kernel has assigned no address to BAR "+strconv.Itoa(bar)+
		"; see `dmesg | grep BAR`, and boot with `pci=realloc`, or with wider PCIe ranges in the "+
		"device tree")
}

// mapBar maps a range of a BAR. It returns an error if the range does not lie inside the BAR.
func (d *device) mapBar(bar uint8, writeCombining bool, offset, size uint64) (*Aperture, error) {
	name := "BAR " + strconv.Itoa(int(bar))
	if d.pciFunction.Unassigned>>bar&1 != 0 {
		return nil, d.unassignedFault(int(bar))
	}
	if bar >= configBarCount || d.pciFunction.BarSizes[bar] == 0 {
		return nil, d.fault(WrongDevice, name+" cannot be mapped: it is missing or has I/O ports")
	}
	barSize := d.pciFunction.BarSizes[bar]
	if size == 0 || offset > barSize || size > barSize-offset {
		return nil, d.fault(WrongDevice, name+
			fbs.Text(" has %x bytes, but the window needs %x at offset %x", barSize, size, offset)+
			"; check the size of the BAR with `lspci -v`")
	}
	return d.backend.mapBarRange(bar, writeCombining, offset, size)
}

// mapFile maps `size` bytes of the file `fd`, from the given offset on. The mapping lasts until
// Close. `path` is the name of the file in error messages.
//
// mapFile maps only the pages of this range, for two reasons. First, no page may be mapped with two
// memory types: on x86 the kernel rejects the second mapping or makes it uncached
// (arch/x86/mm/pat/memtype.c). Second, mmap takes time and memory for each page, because the kernel
// writes all page table entries immediately.
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

// pageSize returns the size of a normal page of memory in bytes.
func pageSize() uint64 { return uint64(unix.Getpagesize()) }

// hostWindowsNotSharedReason is the end of an error message of AssignBusAddress. The message
// concerns a device whose tiles access host memory.
const hostWindowsNotSharedReason = ": a device with tiles reaches only its host windows, " +
	"and does not share them"

// AssignBusAddress implements Device. It returns an error if the device `d` cannot reach the
// aperture `a`, by these rules:
//   - If a kernel driver keeps bus mastering of `d` on, `d` reaches only its own windows.
//   - If `d` has outbound translation, `d` reaches only its own Host windows.
//   - Otherwise `d` reaches windows of devices with the same backend, except the Host windows of
//     devices with outbound translation.
func (d *device) AssignBusAddress(a *Aperture, windowOwner Device) error {
	owner, reachable := windowOwner.(*device)
	reason := "; open both as `pci:` or both as `vfio:`"
	switch {
	case !reachable:
	case d.busMaster.keptOnByDriver:
		reachable, reason = owner == d, ": a `tt:` device reaches only its own windows"
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

// Close implements Device. It switches bus mastering off before it releases host memory, because a
// bus master may still write to that memory. It leaves memory decoding on, because cores that the
// image started may still be running. The next program must be able to reach these cores through
// the BARs, for example to stop them.
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
