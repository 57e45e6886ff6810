package hal

// The backend vfio (Linux, Documentation/driver-api/vfio.rst). Through the IOMMU, the device
// reaches only Host windows of this process, and Bar windows to which AssignBusAddress has assigned
// a bus address.

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

const (
	// low: some devices reach only low addresses; not 0: some take 0 for "no address"
	iovaFirst = 0x10_0000
	// bytes: the largest page size of the supported processors, and so of their IOMMUs
	iovaAlignment = 64 << 10
	// bytes to the next bus address that is tried
	iovaRetryStep = 1 << 20
	iovaTriesMax  = 1 << 16 // bus addresses that are tried for one range
)

type vfioBackend struct {
	dev         *device
	groupNumber string // of the IOMMU group, decimal
	containerFD int
	sharedFiles []*vfioFile // container and group
}

func (v *vfioBackend) identifyDevice() error {
	d := v.dev
	if err := d.pciFunction.findInSysfs(d.locator, d.locatorIsIDs); err != nil {
		return err
	}
	if d.pciFunction.boundDriver != "vfio-pci" {
		return d.fault(NoDevice, v.notBoundReason())
	}
	// Without an enabled IOMMU there is no group.
	v.groupNumber = LinkBaseName(d.pciFunction.sysfsDir() + "/iommu_group")
	if v.groupNumber == "" {
		return d.fault(NoDevice, "no IOMMU is on for the device; "+
			"switch one on (firmware, kernel command line), "+
			"or open the device as `pci:"+d.pciFunction.Address+"`")
	}
	return nil
}

// notBoundReason has the shell commands that bind vfio-pci.
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

// acquireDevice stops what a killed program left running: on opening, the kernel switches bus
// mastering off, and resets a function that supports it (Linux, vfio_pci_core_enable).
func (v *vfioBackend) acquireDevice() error {
	d := v.dev
	vfioShared.Lock()
	group, err := v.joinGroup()
	vfioShared.Unlock()
	if err != nil {
		return err
	}
	// The argument is the PCI address as a C string. The result is a file descriptor.
	address := append([]byte(d.pciFunction.Address), 0)
	d.config.fd, err = syscalls.ioctl(group.fd, vfioGroupGetDeviceFD, 0, structPointer(&address[0]))
	if err != nil {
		return syscallFault("VFIO_GROUP_GET_DEVICE_FD", d.pciFunction.Address, err)
	}
	d.cleanups.addFDCleanup(d.config.fd)
	config, err := v.regionInfo(vfioConfigRegionIndex)
	if err != nil {
		return err
	}
	d.config.offset = int64(config.offset)
	d.config.size = config.size
	// Here again, in case the function supports no reset.
	if err := d.setCommandRegisterBit(configCommandMasterBit, false); err != nil {
		return err
	}
	// vfio-pci leaves memory decoding off.
	if err := d.setCommandRegisterBit(configCommandMemoryBit, true); err != nil {
		return err
	}
	// vfio-pci has enabled INTx. While VFIO delivers no INTx, it passes this bit on to the device
	// (Linux, vfio_pci_intx_mask).
	d.config.storeBit(configCommandOffset, configCommandINTxOff, configCommandINTxOff)
	return nil
}

// regionInfo describes a BAR, or configuration space (vfioConfigRegionIndex).
func (v *vfioBackend) regionInfo(index uint32) (*vfioRegionInfo, error) {
	info := &vfioRegionInfo{argsz: 32, index: index}
	err := ioctlStruct(v.dev.config.fd, vfioDeviceGetRegionInfo, structPointer(info),
		"VFIO_DEVICE_GET_REGION_INFO", v.dev.pciFunction.Address)
	return info, err
}

// VFIO maps every BAR uncached.
func (v *vfioBackend) mapBarRange(bar uint8, _ bool, offset, size uint64) (*Aperture, error) {
	name := " BAR " + strconv.Itoa(int(bar))
	// VFIO maps a BAR that is smaller than a page only if nothing else is in the page.
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

// VFIO pins pages, so that the kernel moves none, huge or not.
func (v *vfioBackend) mapForDMA(mem []byte, _ bool, fixedBus uint64) (bus uint64, err error) {
	return v.mapDMA(uint64(AddressOf(mem)), uint64(len(mem)), fixedBus)
}

// mapForPeer maps the window in the container, which all devices of this process share.
func (v *vfioBackend) mapForPeer(a *Aperture, owner *device) error {
	if a.BusAddress != 0 || a.Base == 0 || a.TLBWindow >= 0 {
		return nil
	}
	// The kernel maps whole pages, but nothing if the IOMMU's pages are larger (Linux,
	// vfio_dma_do_map).
	a.DMAPage = pageSize()
	firstPage := uint64(a.Base) &^ (pageSize() - 1)
	offsetInPage := uint64(a.Base) - firstPage
	// The owner maps it: its Close removes the mapping before it unmaps the window.
	size := fbs.RoundUp(offsetInPage+a.Size, pageSize())
	bus, err := owner.backend.(*vfioBackend).mapDMA(firstPage, size, 0)
	a.BusAddress = bus + offsetInPage
	return err
}

// mapDMA lets devices reach memory of this process at fixedBus, or at any bus address if fixedBus
// is 0, until v's device is closed.
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
	v.dev.cleanups.addCleanup(func() error {
		request := vfioDMAUnmap{argsz: 24, iova: iova, size: size}
		return ioctlStruct(v.containerFD, vfioIOMMUUnmapDMA, structPointer(&request),
			"VFIO_IOMMU_UNMAP_DMA", v.dev.pciFunction.Address)
	})
	return iova, nil
}

// mapAtNextIOVA maps memory at the next bus address that the IOMMU accepts. It does not accept
// addresses of interrupts, firmware, or windows with a fixed bus address. An image gets the same
// addresses in every run. After each range, a page stays unmapped, so that transfers beyond the end
// of the range fail. The caller has locked vfioShared.
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
		iova += iovaRetryStep
	}
	return 0, err
}

// mapAtIOVA returns EEXIST if another mapping overlaps (Linux, vfio_dma_do_map), and EINVAL if the
// IOMMU cannot use the addresses. The caller has locked vfioShared.
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
