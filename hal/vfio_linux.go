//go:build backend_vfio || !(backend_pci || backend_tt)

package hal

// The backend vfio: drives a function behind an IOMMU (Linux, Documentation/driver-api/vfio.rst).
// The device reaches the host memory of this process's Host windows, windows of other functions
// if the image says so, and nothing else.

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

const (
	// The first address at which a device sees host memory: low enough for devices with few
	// address bits, and not zero, which devices take for "none".
	iovaFirst = 0x10_0000
	iovaUnit  = 64 << 10 // the largest page of a processor here, and so of its IOMMU
	iovaStep  = 1 << 20  // from an address that the IOMMU cannot map to the next that is tried
	iovaTries = 1 << 16
)

// vfio is the backend vfio: of a device.
type vfio struct {
	dev       *device
	group     string      // number of its group
	container int         // the open container, which has the mappings of the IOMMU
	shared    []*vfioFile // files that this function is a user of
}

func newVFIO(d *device) backend { return &vfio{dev: d} }

// probe implements backend.
func (v *vfio) probe() error {
	d := v.dev
	// Find the function's directory in sysfs, with its ids, BARs and driver.
	if err := d.function.find(d.locator, d.byIDs); err != nil {
		return err
	}
	// The driver vfio-pci must own the function: it offers it to user space.
	if d.function.boundDriver != "vfio-pci" {
		return d.fault(NoDevice, v.bindAdvice())
	}
	// The group exists if an IOMMU is on for the function.
	v.group = linkTarget(d.function.dir() + "/iommu_group")
	if v.group == "" {
		return d.fault(NoDevice, "no IOMMU is on for the device; switch it on (firmware, kernel "+
			"command line), or open it as pci:"+d.function.Address)
	}
	return nil
}

// bindAdvice returns a message: how to bind vfio-pci to the function.
func (v *vfio) bindAdvice() string {
	f := &v.dev.function
	echo := "echo " + f.Address + " > /sys/bus/pci/drivers/"
	owner, unbind := "no driver", ""
	if f.boundDriver != "" {
		owner = "the kernel driver " + f.boundDriver
		unbind = echo + f.boundDriver + "/unbind; "
	}
	return owner + " has the device; bind vfio-pci with `modprobe vfio-pci; " +
		"echo vfio-pci > /sys/bus/pci/devices/" + f.Address + "/driver_override; " + unbind + echo +
		"vfio-pci/bind` (EINVAL: no IOMMU is on for it; switch that on, or open it as pci:" +
		f.Address + ")"
}

// acquire implements backend. Opening a function in its group stops it from mastering the bus and
// resets it if it can be reset: this ends what a killed program left running (Linux,
// vfio_pci_core_enable).
func (v *vfio) acquire() error {
	d := v.dev
	// Open the group and the container, and put the group into the container.
	vfioShared.Lock()
	group, err := v.joinGroup()
	vfioShared.Unlock()
	if err != nil {
		return err
	}
	// Ask the group for the file of the function, by its address as a C string.
	address := append([]byte(d.function.Address), 0)
	d.config.fd, err = syscalls.ioctl(group.fd, vfioGroupGetDeviceFD, 0, structPointer(&address[0]))
	if err != nil {
		return callFault("VFIO_GROUP_GET_DEVICE_FD", d.function.Address, err)
	}
	d.cleanups.closeFile(d.config.fd)
	// Ask at which offset of that file configuration space begins.
	config, err := v.regionInfo(vfioConfigRegionIndex)
	if err != nil {
		return err
	}
	d.config.offset = int64(config.offset)
	d.config.size = config.size
	// Make sure that the function does not master the bus, even if it could not be reset.
	if err := d.setCommandBit(configCommandMaster, false); err != nil {
		return err
	}
	// Switch on memory decoding, which vfio-pci leaves off: without it, no BAR answers.
	return d.setCommandBit(configCommandMemory, true)
}

// regionInfo returns where configuration space, or a BAR, is in the function's file.
func (v *vfio) regionInfo(index uint32) (*vfioRegion, error) {
	r := &vfioRegion{argsz: 32, index: index}
	err := ioctlStruct(v.dev.config.fd, vfioDeviceGetRegionInfo, structPointer(r),
		"VFIO_DEVICE_GET_REGION_INFO", v.dev.function.Address)
	return r, err
}

// mapBarRange implements backend. VFIO maps everything uncached.
func (v *vfio) mapBarRange(bar uint8, _ bool, offset, size uint64) (*Aperture, error) {
	name := " BAR " + strconv.Itoa(int(bar))
	// Ask where the BAR is in the function's file, and whether it can be mapped.
	r, err := v.regionInfo(uint32(bar))
	if err != nil {
		return nil, err
	}
	if r.flags&vfioRegionFlagMMap == 0 {
		return nil, v.dev.fault(NoDevice, "VFIO does not let"+name+
			" be mapped (smaller than a page, or not alone in it)")
	}
	return v.dev.mapFile(v.dev.config.fd, r.offset+offset, size, v.dev.function.Address+name)
}

// mapForDevice implements backend. The IOMMU maps the memory at an address of our choice, and its
// driver pins the pages.
func (v *vfio) mapForDevice(mem []byte, _ bool) (bus uint64, err error) {
	return v.mapDMA(uint64(AddressOf(mem)), uint64(len(mem)))
}

// assignBusAddress implements backend. All functions that this process opens share the mappings
// of the IOMMU, so that a window that one function reaches is reached by all.
func (v *vfio) assignBusAddress(a *Aperture, owner *device) error {
	if a.Bus != 0 || a.Base == 0 || a.Slot >= 0 {
		return nil // it has an address, or it cannot have one
	}
	first := uint64(a.Base) &^ (pageSize() - 1)
	inside := uint64(a.Base) - first
	// The owner maps it, so that its Close unmaps it together with the window.
	bus, err := owner.backend.(*vfio).mapDMA(first, fbs.RoundUp(inside+a.Size, pageSize()))
	a.Bus = bus + inside
	return err
}

// mapDMA makes the IOMMU map memory until Close, and returns the address for the device.
func (v *vfio) mapDMA(address, size uint64) (iova uint64, err error) {
	vfioShared.Lock()
	iova, err = v.mapNext(address, size)
	vfioShared.Unlock()
	switch err {
	case nil:
	case unix.EINVAL:
		return 0,
			v.dev.fault(NoDevice, fbs.Text("the IOMMU has no %x bytes of addresses left", size))
	case unix.ENOMEM:
		return 0, v.dev.fault(Denied,
			fbs.Text("%x bytes of host memory cannot be pinned: ENOMEM", size)+raiseMemlock)
	default:
		return 0, callFault("VFIO_IOMMU_MAP_DMA", v.dev.function.Address, err)
	}
	// Unmap it before the memory is released: until then the device may reach it.
	v.dev.cleanups.add(func() error {
		u := vfioUnmap{argsz: 24, iova: iova, size: size}
		return ioctlStruct(v.container, vfioIOMMUUnmapDMA, structPointer(&u),
			"VFIO_IOMMU_UNMAP_DMA", v.dev.function.Address)
	})
	return iova, nil
}

// mapNext maps memory at the next addresses that the IOMMU can map: there are holes, for
// interrupts and for firmware. The addresses are the same in every run. A page stays free after
// each range, so that a transfer over its end is a fault. The caller holds the lock.
func (v *vfio) mapNext(address, size uint64) (iova uint64, err error) {
	m := vfioMap{
		argsz: 32,
		flags: vfioDMAFlagRead | vfioDMAFlagWrite,
		vaddr: address,
		iova:  vfioShared.nextIOVA,
		size:  size,
	}
	for range iovaTries {
		_, err = syscalls.ioctl(v.container, vfioIOMMUMapDMA, 0, structPointer(&m))
		if err == nil {
			vfioShared.nextIOVA = fbs.RoundUp(m.iova+size, iovaUnit) + iovaUnit
			return m.iova, nil
		}
		if err != unix.EINVAL {
			return 0, err
		}
		m.iova += iovaStep // in a hole: skip it
	}
	return 0, err
}
