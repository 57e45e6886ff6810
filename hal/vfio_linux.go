//go:build backend_vfio || !(backend_pci || backend_tt)

package hal

// This file implements the backend vfio. It accesses a PCI function through VFIO (Linux,
// Documentation/driver-api/vfio.rst). An IOMMU restricts the DMA of the device. The device reaches
// only two kinds of memory: the Host windows of this process, and the Bar windows to which
// AssignBusAddress has assigned a bus address. Such a Bar window usually belongs to another device.

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

const (
	// Lowest bus address that mapAtNextIOVA chooses. The address is low, because some devices can
	// use only low addresses. It is not 0, because some devices interpret 0 as "no address".
	iovaFirst = 0x10_0000
	// Alignment of the bus addresses of mapped ranges, in bytes. It is the largest page size of the
	// supported processors, and therefore of their IOMMUs.
	iovaAlignment = 64 << 10
	// If the IOMMU cannot map memory at a bus address, mapAtNextIOVA next tries the bus address
	// that is this number of bytes higher.
	iovaRetryStep = 1 << 20
	// Number of bus addresses that mapAtNextIOVA tries before it returns an error.
	iovaTriesMax = 1 << 16
)

// vfioBackend implements the interface backend for a device with a name such as vfio:0000:01:00.0.
type vfioBackend struct {
	dev         *device
	groupNumber string      // number of the function's IOMMU group, as decimal digits
	containerFD int         // file descriptor of the container, which stores the IOMMU mappings
	sharedFiles []*vfioFile // container and group, which other devices of this process may use, too
}

const vfioExample = " `vfio:0000:01:00.0`" // a name that this backend opens

// newVFIO returns the backend vfio for the device d.
func newVFIO(d *device) backend { return &vfioBackend{dev: d} }

// identifyDevice implements backend: it finds the function, and checks that vfio-pci is bound to
// the function and that the function is behind an IOMMU.
func (v *vfioBackend) identifyDevice() error {
	d := v.dev
	// Find the function in sysfs. Read its ids, its BARs and the name of its kernel driver.
	if err := d.pciFunction.findInSysfs(d.locator, d.locatorIsIDs); err != nil {
		return err
	}
	// Check that the driver vfio-pci is bound to the function. That driver makes the function
	// accessible to user space.
	if d.pciFunction.boundDriver != "vfio-pci" {
		return d.fault(NoDevice, v.notBoundReason())
	}
	// Check that the function belongs to an IOMMU group. A function without an enabled IOMMU
	// belongs to no group.
	v.groupNumber = LinkBaseName(d.pciFunction.sysfsDir() + "/iommu_group")
	if v.groupNumber == "" {
		return d.fault(NoDevice, "no IOMMU is on for the device; "+
			"switch one on (firmware, kernel command line), "+
			"or open the device as `pci:"+d.pciFunction.Address+"`")
	}
	return nil
}

// notBoundReason returns the reason of the Fault for a function to which vfio-pci is not bound. The
// text names the driver that is bound, and contains the shell commands that bind vfio-pci instead.
func (v *vfioBackend) notBoundReason() string {
	f := &v.dev.pciFunction
	echo := "echo " + f.Address + " > /sys/bus/pci/drivers/"
	owner, unbind := "no driver", ""
	if f.boundDriver != "" {
		owner = "the kernel driver " + f.boundDriver
		unbind = echo + f.boundDriver + "/unbind; "
	}
	return owner + " owns the device; bind vfio-pci with `modprobe vfio-pci; " +
		"echo vfio-pci > /sys/bus/pci/devices/" + f.Address + "/driver_override; " + unbind + echo +
		"vfio-pci/bind` (if that fails with EINVAL, no IOMMU is on: " +
		"switch one on, or open the device as `pci:" + f.Address + "`)"
}

// acquireDevice implements backend: it opens the function through VFIO, switches bus mastering off,
// and enables memory decoding. When acquireDevice opens the function, the kernel already switches
// bus mastering off, and resets the function if the function supports a reset (Linux,
// vfio_pci_core_enable). The reset, and switching bus mastering off, stop transfers that a killed
// program left running.
func (v *vfioBackend) acquireDevice() error {
	d := v.dev
	// Open the container and the function's IOMMU group, and add the group to the container.
	vfioShared.Lock()
	group, err := v.joinGroup()
	vfioShared.Unlock()
	if err != nil {
		return err
	}
	// Open the function with an ioctl on the file of the group. The argument of the ioctl is the
	// PCI address of the function, as a C string. The result is a file descriptor.
	address := append([]byte(d.pciFunction.Address), 0)
	d.config.fd, err = syscalls.ioctl(group.fd, vfioGroupGetDeviceFD, 0, structPointer(&address[0]))
	if err != nil {
		return syscallFault("VFIO_GROUP_GET_DEVICE_FD", d.pciFunction.Address, err)
	}
	d.cleanups.addFDCleanup(d.config.fd)
	// Query the offset and the size of configuration space in the function's file.
	config, err := v.regionInfo(vfioConfigRegionIndex)
	if err != nil {
		return err
	}
	d.config.offset = int64(config.offset)
	d.config.size = config.size
	// Switch bus mastering off here too, in case the function does not support a reset.
	if err := d.setCommandRegisterBit(configCommandMasterBit, false); err != nil {
		return err
	}
	// Enable memory decoding, which vfio-pci leaves off. Without memory decoding, the BARs do not
	// respond.
	if err := d.setCommandRegisterBit(configCommandMemoryBit, true); err != nil {
		return err
	}
	// vfio-pci enables INTx. As long as VFIO delivers no interrupts, the device's bit follows the
	// bit that this program stores (Linux, vfio_pci_intx_mask).
	d.config.storeBit(configCommandOffset, configCommandINTxOff, configCommandINTxOff)
	return nil
}

// regionInfo returns the offset and size of a BAR or of configuration space in the function's file.
// index is the number of the BAR, or vfioConfigRegionIndex for configuration space.
func (v *vfioBackend) regionInfo(index uint32) (*vfioRegionInfo, error) {
	info := &vfioRegionInfo{argsz: 32, index: index}
	err := ioctlStruct(v.dev.config.fd, vfioDeviceGetRegionInfo, structPointer(info),
		"VFIO_DEVICE_GET_REGION_INFO", v.dev.pciFunction.Address)
	return info, err
}

// mapBarRange implements backend: it maps a range of a BAR from the function's file. VFIO maps
// every BAR uncached, so the parameter for write-combining has no effect.
func (v *vfioBackend) mapBarRange(bar uint8, _ bool, offset, size uint64) (*Aperture, error) {
	name := " BAR " + strconv.Itoa(int(bar))
	// Query the offset of the BAR in the function's file, and check that mmap can map the BAR. VFIO
	// can map a BAR that is smaller than a page only if nothing else is in the page.
	info, err := v.regionInfo(uint32(bar))
	if err != nil {
		return nil, err
	}
	if info.flags&vfioRegionFlagMMap == 0 {
		return nil, v.dev.fault(NoDevice,
			"VFIO cannot map"+name+": the BAR is smaller than a page; use `pci:`")
	}
	return v.dev.mapFile(v.dev.config.fd, info.offset+offset, size, v.dev.pciFunction.Address+name)
}

// mapForDMA implements backend: it makes the IOMMU map mem at the bus address fixedBus. If fixedBus
// is 0, mapAtNextIOVA chooses the bus address. The parameter `huge` has no effect, because VFIO
// prevents the kernel from moving any page, huge or ordinary.
func (v *vfioBackend) mapForDMA(mem []byte, _ bool, fixedBus uint64) (bus uint64, err error) {
	return v.mapDMA(uint64(AddressOf(mem)), uint64(len(mem)), fixedBus)
}

// mapForPeer implements backend: it makes the IOMMU map the memory of the aperture a, and
// sets a.BusAddress. All PCI functions of this process share one container. Therefore all of them
// can use a mapping that was made for one of them.
func (v *vfioBackend) mapForPeer(a *Aperture, owner *device) error {
	if a.BusAddress != 0 || a.Base == 0 || a.TLBWindow >= 0 {
		return nil // the window already has a bus address, is not mapped, or is a Tlb window
	}
	// The kernel maps whole pages, and nothing if the IOMMU's pages are larger (Linux,
	// vfio_dma_do_map).
	a.DMAPage = pageSize()
	firstPage := uint64(a.Base) &^ (pageSize() - 1)
	offsetInPage := uint64(a.Base) - firstPage
	// Let the owner of the window make the IOMMU mapping. When the owner is closed, it then removes
	// the IOMMU mapping before it unmaps the window.
	size := fbs.RoundUp(offsetInPage+a.Size, pageSize())
	bus, err := owner.backend.(*vfioBackend).mapDMA(firstPage, size, 0)
	a.BusAddress = bus + offsetInPage
	return err
}

// mapDMA makes the IOMMU map `size` bytes of this process's memory, from the given address on. The
// result `iova` is the bus address at which devices reach this memory. It is fixedBus; if fixedBus
// is 0, mapAtNextIOVA chooses it. The mapping exists until the device of v is closed.
func (v *vfioBackend) mapDMA(address, size, fixedBus uint64) (iova uint64, err error) {
	vfioShared.Lock()
	if iova = fixedBus; fixedBus != 0 {
		err = v.mapAtIOVA(address, size, fixedBus)
	} else {
		iova, err = v.mapAtNextIOVA(address, size)
	}
	vfioShared.Unlock()
	switch errnoOf(err) {
	case 0:
	case unix.EINVAL, unix.EEXIST:
		if fixedBus != 0 {
			const text = "the IOMMU cannot map %x bytes at bus address %x, which is reserved, " +
				"out of range, or in use by another window; change this address in the image"
			return 0, v.dev.fault(NoDevice, fbs.Text(text, size, fixedBus))
		}
		const text = "the IOMMU has no free addresses for %x bytes; " +
			"use fewer or smaller host windows"
		return 0, v.dev.fault(NoDevice, fbs.Text(text, size))
	case unix.ENOMEM:
		return 0, v.dev.fault(Denied,
			fbs.Text("cannot pin %x bytes of host memory (ENOMEM)", size)+MemlockAdvice)
	default:
		return 0, syscallFault("VFIO_IOMMU_MAP_DMA", v.dev.pciFunction.Address, err)
	}
	// Make Close remove the IOMMU mapping before it releases the memory, because the device can
	// reach the memory as long as the mapping exists.
	v.dev.cleanups.addCleanup(func() error {
		request := vfioDMAUnmap{argsz: 24, iova: iova, size: size}
		return ioctlStruct(v.containerFD, vfioIOMMUUnmapDMA, structPointer(&request),
			"VFIO_IOMMU_UNMAP_DMA", v.dev.pciFunction.Address)
	})
	return iova, nil
}

// mapAtNextIOVA chooses a bus address, makes the IOMMU map `size` bytes of this process's memory
// there, from the given address on, and returns the bus address. The caller must hold the lock of
// vfioShared.
//
// mapAtNextIOVA tries the bus address vfioShared.nextIOVA first. If the IOMMU cannot map memory
// there, it tries higher bus addresses: some are reserved for interrupts or firmware, and some
// belong to windows with fixed bus addresses. On the same machine, an image gets the same bus
// addresses in every run. At least one page after each range stays unmapped, so that a transfer
// beyond the end of the range fails.
func (v *vfioBackend) mapAtNextIOVA(address, size uint64) (iova uint64, err error) {
	iova = vfioShared.nextIOVA
	for range iovaTriesMax {
		err = v.mapAtIOVA(address, size, iova)
		if err == nil {
			vfioShared.nextIOVA = fbs.RoundUp(iova+size, iovaAlignment) + iovaAlignment
			return iova, nil
		}
		if errno := errnoOf(err); errno != unix.EINVAL && errno != unix.EEXIST {
			return 0, err
		}
		iova += iovaRetryStep // this address is reserved, in use or out of range: try a higher one
	}
	return 0, err
}

// mapAtIOVA makes the IOMMU map `size` bytes of this process's memory, from the given address on,
// at the bus address iova. The kernel returns EEXIST if another mapping overlaps these bus
// addresses (Linux, vfio_dma_do_map), and EINVAL if the IOMMU cannot use these bus addresses. The
// caller must hold the lock of vfioShared.
func (v *vfioBackend) mapAtIOVA(address, size, iova uint64) error {
	request := vfioDMAMap{
		argsz: 32,
		flags: vfioDMAFlagRead | vfioDMAFlagWrite,
		vaddr: address,
		iova:  iova,
		size:  size,
	}
	_, err := syscalls.ioctl(v.containerFD, vfioIOMMUMapDMA, 0, structPointer(&request))
	return err
}
