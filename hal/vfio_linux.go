//go:build backend_vfio || !(backend_pci || backend_tt)

package hal

// The backend vfio: drives a PCI function behind an IOMMU (Linux,
// Documentation/driver-api/vfio.rst). The device reaches only the host memory of this process's
// Host windows, and the windows of other PCI functions to which AssignBusAddress has assigned an
// address.

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

const (
	// The first bus address that is mapped to host memory. It is low, because some devices have few
	// address bits, but not 0, because devices interpret address 0 as no address.
	iovaFirst = 0x10_0000
	// Mapped ranges begin at multiples of this number of bytes: the largest page size of a
	// supported processor, and therefore of its IOMMU.
	iovaUnit = 64 << 10
	// If the IOMMU cannot map memory at an address, mapAtNextIOVA adds this number of bytes and
	// tries again.
	iovaStep = 1 << 20
	// mapAtNextIOVA fails after it has tried this number of addresses.
	iovaTries = 1 << 16
)

// vfio implements backend for a device whose name begins with vfio:.
type vfio struct {
	dev         *device
	group       string      // number of the function's IOMMU group, in decimal digits
	containerFD int         // file descriptor of the container, which stores the IOMMU's mappings
	shared      []*vfioFile // the container and the group, while this function uses them
}

func newVFIO(d *device) backend { return &vfio{dev: d} }

// probe implements backend.
func (v *vfio) probe() error {
	d := v.dev
	// Find the function in sysfs, and read its ids, BARs and driver.
	if err := d.function.findInSysfs(d.locator, d.byIDs); err != nil {
		return err
	}
	// The driver vfio-pci must own the function: that driver lets user space use the function.
	if d.function.boundDriver != "vfio-pci" {
		return d.fault(NoDevice, v.bindAdvice())
	}
	// The function belongs to an IOMMU group only if an IOMMU is on for the function.
	v.group = linkBaseName(d.function.dir() + "/iommu_group")
	if v.group == "" {
		return d.fault(NoDevice, "no IOMMU is on for the device; switch one on (firmware, kernel "+
			"command line), or open the device as `pci:"+d.function.Address+"`")
	}
	return nil
}

// bindAdvice returns a message that names the driver of the function, and says how to bind
// vfio-pci instead.
func (v *vfio) bindAdvice() string {
	f := &v.dev.function
	echo := "echo " + f.Address + " > /sys/bus/pci/drivers/"
	owner, unbind := "no driver", ""
	if f.boundDriver != "" {
		owner = "the kernel driver " + f.boundDriver
		unbind = echo + f.boundDriver + "/unbind; "
	}
	return owner + " owns the device; bind vfio-pci with `modprobe vfio-pci; " +
		"echo vfio-pci > /sys/bus/pci/devices/" + f.Address + "/driver_override; " + unbind + echo +
		"vfio-pci/bind` (if that fails with EINVAL, no IOMMU is on: switch one on, or open the " +
		"device as `pci:" + f.Address + "`)"
}

// acquire implements backend. When the kernel opens the function, it switches bus mastering off.
// It also resets the function if the function supports a reset. This stops transfers that a killed
// program left running (Linux, vfio_pci_core_enable).
func (v *vfio) acquire() error {
	d := v.dev
	// Open the container and the function's group, and add the group to the container.
	vfioShared.Lock()
	group, err := v.joinGroup()
	vfioShared.Unlock()
	if err != nil {
		return err
	}
	// Get the file descriptor of the function from the group. The request names the function by its
	// address, as a C string.
	address := append([]byte(d.function.Address), 0)
	d.config.fd, err = syscalls.ioctl(group.fd, vfioGroupGetDeviceFD, 0, structPointer(&address[0]))
	if err != nil {
		return callFault("VFIO_GROUP_GET_DEVICE_FD", d.function.Address, err)
	}
	d.cleanups.addClose(d.config.fd)
	// Get the offset at which configuration space begins in that file.
	config, err := v.regionInfo(vfioConfigRegionIndex)
	if err != nil {
		return err
	}
	d.config.offset = int64(config.offset)
	d.config.size = config.size
	// Make sure that bus mastering is off, even if the function does not support a reset.
	if err := d.setCommandBit(configCommandMaster, false); err != nil {
		return err
	}
	// Switch on memory decoding, which vfio-pci leaves off. BARs do not answer without it.
	return d.setCommandBit(configCommandMemory, true)
}

// regionInfo returns the offset and size of configuration space or of a BAR in the function's file.
// index is the number of the BAR, or vfioConfigRegionIndex.
func (v *vfio) regionInfo(index uint32) (*vfioRegion, error) {
	info := &vfioRegion{argsz: 32, index: index}
	err := ioctlStruct(v.dev.config.fd, vfioDeviceGetRegionInfo, structPointer(info),
		"VFIO_DEVICE_GET_REGION_INFO", v.dev.function.Address)
	return info, err
}

// mapBarRange implements backend. It ignores the request for write-combining: VFIO maps every BAR
// uncached.
func (v *vfio) mapBarRange(bar uint8, _ bool, offset, size uint64) (*Aperture, error) {
	name := " BAR " + strconv.Itoa(int(bar))
	// Get the offset of the BAR in the function's file, and check that mmap can map the BAR.
	info, err := v.regionInfo(uint32(bar))
	if err != nil {
		return nil, err
	}
	if info.flags&vfioRegionFlagMMap == 0 {
		return nil, v.dev.fault(NoDevice, "VFIO cannot map"+name+
			", which is smaller than a page or shares a page")
	}
	return v.dev.mapFile(v.dev.config.fd, info.offset+offset, size, v.dev.function.Address+name)
}

// mapForDevice implements backend. This package chooses the bus address at which the IOMMU maps the
// memory. VFIO pins the pages, so ordinary pages are sufficient.
func (v *vfio) mapForDevice(mem []byte, _ bool) (bus uint64, err error) {
	return v.mapDMA(uint64(AddressOf(mem)), uint64(len(mem)))
}

// assignBusAddress implements backend. All functions of this process share one container, so a
// mapping that is made for one function is valid for all.
func (v *vfio) assignBusAddress(a *Aperture, owner *device) error {
	if a.Bus != 0 || a.Base == 0 || a.Slot >= 0 {
		return nil // the window has a bus address, or is of a kind that cannot have one
	}
	firstPage := uint64(a.Base) &^ (pageSize() - 1)
	offsetInPage := uint64(a.Base) - firstPage
	// The mapping belongs to the owner of the window: Close of the owner unmaps both.
	size := fbs.RoundUp(offsetInPage+a.Size, pageSize())
	bus, err := owner.backend.(*vfio).mapDMA(firstPage, size)
	a.Bus = bus + offsetInPage
	return err
}

// mapDMA makes the IOMMU map size bytes of this process's memory, which begin at the given address,
// until Close. It returns the bus address at which devices reach this memory.
func (v *vfio) mapDMA(address, size uint64) (iova uint64, err error) {
	vfioShared.Lock()
	iova, err = v.mapAtNextIOVA(address, size)
	vfioShared.Unlock()
	switch err {
	case nil:
	case unix.EINVAL:
		return 0,
			v.dev.fault(NoDevice, fbs.Text("the IOMMU has no free addresses for %x bytes", size))
	case unix.ENOMEM:
		return 0, v.dev.fault(Denied,
			fbs.Text("cannot pin %x bytes of host memory (ENOMEM)", size)+memlockAdvice)
	default:
		return 0, callFault("VFIO_IOMMU_MAP_DMA", v.dev.function.Address, err)
	}
	// Close must unmap the memory from the IOMMU before it releases the memory, which the device
	// can reach until then.
	v.dev.cleanups.add(func() error {
		request := vfioUnmap{argsz: 24, iova: iova, size: size}
		return ioctlStruct(v.containerFD, vfioIOMMUUnmapDMA, structPointer(&request),
			"VFIO_IOMMU_UNMAP_DMA", v.dev.function.Address)
	})
	return iova, nil
}

// mapAtNextIOVA makes the IOMMU map size bytes of this process's memory, which begin at the given
// address. The bus address is vfioShared.nextIOVA, or a higher one if the IOMMU cannot map memory
// there: some bus addresses are reserved for interrupts or firmware. The bus addresses are the same
// in every run. A page after each range stays unmapped, so that a transfer beyond the end of the
// range fails. The caller must have locked vfioShared.
func (v *vfio) mapAtNextIOVA(address, size uint64) (iova uint64, err error) {
	request := vfioMap{
		argsz: 32,
		flags: vfioDMAFlagRead | vfioDMAFlagWrite,
		vaddr: address,
		iova:  vfioShared.nextIOVA,
		size:  size,
	}
	for range iovaTries {
		_, err = syscalls.ioctl(v.containerFD, vfioIOMMUMapDMA, 0, structPointer(&request))
		if err == nil {
			vfioShared.nextIOVA = fbs.RoundUp(request.iova+size, iovaUnit) + iovaUnit
			return request.iova, nil
		}
		if err != unix.EINVAL {
			return 0, err
		}
		request.iova += iovaStep // this bus address is reserved or out of range: try a higher one
	}
	return 0, err
}
