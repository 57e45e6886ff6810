//go:build backend_vfio || !(backend_pci || backend_tt)

package hal

import (
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

const (
	vfioDir       = "/dev/vfio/"
	vfioContainer = vfioDir + "vfio"
	kernelLog     = "/dev/kmsg"

	// The first address that a device sees host memory at: low enough for those
	// with few address bits, and not zero, which devices take for "none".
	iovaFirst = 0x10_0000
	iovaUnit  = 64 << 10 // the largest page of a processor here, and so of its IOMMU
	iovaStep  = 1 << 20  // from an address that the IOMMU cannot map to the next that is tried
	iovaTries = 1 << 16
)

// VFIO (linux/vfio.h).
const (
	vfioSetIOMMU            = 0x3b66
	vfioGroupGetStatus      = 0x3b67
	vfioGroupSetContainer   = 0x3b68
	vfioGroupGetDevice      = 0x3b6a
	vfioDeviceGetRegionInfo = 0x3b6c
	vfioIOMMUMapDMA         = 0x3b71
	vfioIOMMUUnmapDMA       = 0x3b72

	vfioType1v2 = 3 // a kind of IOMMU

	vfioGroupViable  = 1 << 0 // vfioStatus.flags
	vfioRegionMMap   = 1 << 2 // vfioRegion.flags
	vfioDMARead      = 1 << 0 // vfioMap.flags
	vfioDMAWrite     = 1 << 1
	vfioRegionConfig = 7
)

type vfioStatus struct{ argsz, flags uint32 }

type vfioRegion struct {
	argsz, flags, index, capOffset uint32
	size, offset                   uint64
}

type vfioMap struct {
	argsz, flags uint32
	vaddr        uint64
	iova, size   uint64
}

type vfioUnmap struct {
	argsz, flags uint32
	iova, size   uint64
}

// vfio is a function behind an IOMMU (Linux, Documentation/driver-api/vfio.rst).
// It reaches the host memory of this process's Host windows, windows of other
// functions where the image says so, and nothing else.
type vfio struct {
	*function
	group     string // number of its group
	container int
	shared    []*vfioFile // of which this function is a user

	kernelLogFD int // the kernel's log, from when the function was opened; -1: not to be read
	logRecord   [8192]byte
	faultSeen   bool // a fault
}

func newVFIO(d *function) backend { return &vfio{function: d, kernelLogFD: -1} }

// open finds the function's group, which exists where vfio-pci has the function
// and an IOMMU is on for it.
func (d *vfio) probe() error {
	if err := d.findInSysfs(); err != nil {
		return err
	}
	d.dmaFaulted = d.sawDMAFault
	if d.boundDriver != "vfio-pci" {
		bind := "modprobe vfio-pci; echo vfio-pci > /sys/bus/pci/devices/" + d.address +
			"/driver_override; "
		owner := "no driver"
		if d.boundDriver != "" {
			owner = "the kernel driver " + d.boundDriver
			bind += "echo " + d.address + " > /sys/bus/pci/drivers/" + d.boundDriver + "/unbind; "
		}
		return NewFault(NoDevice, d.identity.Name+": "+owner+
			" has the device; hand it to vfio-pci with `"+bind+"echo "+d.address+
			" > /sys/bus/pci/drivers/vfio-pci/bind`; an error EINVAL there means that no IOMMU "+
			"is on for it: switch that on, or open it as pci:"+d.address)
	}
	if d.group = linkTarget(d.sysfsDir() + "/iommu_group"); d.group == "" {
		return NewFault(NoDevice, d.identity.Name+
			": no IOMMU is on for the device; switch it on (firmware, kernel command line), or "+
			"open it as pci:"+d.address)
	}
	return nil
}

// take implements lane. To open a function in its group stops it from mastering
// the bus and resets it where it can be: what a killed program left going ends
// there (Linux, vfio_pci_core_enable).
func (d *vfio) acquire() error {
	vfioShared.Lock()
	group, err := d.joinGroup()
	vfioShared.Unlock()
	if err != nil {
		return err
	}
	address := append([]byte(d.address), 0)
	if d.config.fd, err = syscalls.ioctl(group.fd, vfioGroupGetDevice, 0,
		structPointer(&address[0])); err != nil {
		return callFault("VFIO_GROUP_GET_DEVICE_FD", d.address, err)
	}
	d.closeFileLater(d.config.fd)
	config, err := d.regionInfo(vfioRegionConfig)
	if err != nil {
		return err
	}
	d.config.offset, d.config.size = int64(config.offset), config.size
	if d.kernelLogFD, err = d.openUntilClose(kernelLog, unix.O_RDONLY|unix.O_NONBLOCK); err == nil {
		_, _ = unix.Seek(d.kernelLogFD, 0, unix.SEEK_END)
	}
	if err := d.setCommandBit(configCommandMaster, false); err != nil {
		return err
	}
	return d.setCommandBit(configCommandMemory, true)
}

// region tells where configuration space, or a BAR, is in the function's file.
func (d *vfio) regionInfo(index uint32) (*vfioRegion, error) {
	r := &vfioRegion{argsz: 32, index: index}
	return r, ioctlStruct(d.config.fd, vfioDeviceGetRegionInfo, structPointer(r),
		"VFIO_DEVICE_GET_REGION_INFO", d.address)
}

// mapFile implements lane: VFIO maps everything uncached.
func (d *vfio) mapBarRange(bar uint8, _ bool, offset, size uint64) (Aperture, error) {
	what := " BAR " + strconv.Itoa(int(bar))
	r, err := d.regionInfo(uint32(bar))
	if err != nil {
		return Aperture{}, err
	}
	if r.flags&vfioRegionMMap == 0 {
		return Aperture{}, NewFault(NoDevice,
			d.identity.Name+": VFIO does not let"+what+
				" be mapped (smaller than a page, or not alone in it)")
	}
	return d.mapRange(d.config.fd, r.offset+offset, size, d.address+what)
}

// host implements lane: the IOMMU maps the memory at an address of our own, and
// its driver pins it.
func (d *vfio) mapForDevice(mem []byte, _ bool) (bus uint64, err error) {
	return d.mapDMA(uint64(AddressOf(mem)), uint64(len(mem)))
}

// reach implements lane. All functions that this process opens share the IOMMU's
// mappings, so that a window that one reaches is reached by all.
func (d *vfio) assignBusAddress(a *Aperture, owner *function) error {
	if a.Bus != 0 || a.Base == 0 || a.Slot >= 0 {
		return nil
	}
	page := uint64(unix.Getpagesize())
	first := uint64(a.Base) &^ (page - 1)
	inside := uint64(a.Base) - first
	bus, err := owner.backend.(*vfio).mapDMA(first, fbs.RoundUp(inside+a.Size, page))
	a.Bus = bus + inside
	return err
}

// mapDMA has the IOMMU map memory at the next addresses that it can: there are
// holes, for interrupts and for firmware. They are the same in every run, and a
// page stays free after each range, so that running over the end of one is a fault.
func (d *vfio) mapDMA(address, size uint64) (iova uint64, err error) {
	vfioShared.Lock()
	m := vfioMap{
		argsz: 32, flags: vfioDMARead | vfioDMAWrite,
		vaddr: address, iova: vfioShared.nextIOVA, size: size,
	}
	for range iovaTries {
		if _, err = syscalls.ioctl(d.container, vfioIOMMUMapDMA, 0,
			structPointer(&m)); err != unix.EINVAL {
			break
		}
		m.iova += iovaStep
	}
	if err == nil {
		vfioShared.nextIOVA = fbs.RoundUp(m.iova+size, iovaUnit) + iovaUnit
	}
	vfioShared.Unlock()
	switch err {
	case nil:
		u := vfioUnmap{argsz: 24, iova: m.iova, size: size}
		d.deferClose(func() error {
			return ioctlStruct(d.container, vfioIOMMUUnmapDMA, structPointer(&u),
				"VFIO_IOMMU_UNMAP_DMA", d.address)
		})
		return m.iova, nil
	case unix.EINVAL:
		return 0, NewFault(NoDevice, d.identity.Name+
			fbs.Text(": the IOMMU has no %x bytes of addresses left", size))
	case unix.ENOMEM:
		return 0, NewFault(Denied, d.identity.Name+
			fbs.Text(": %x bytes of host memory cannot be pinned: ENOMEM; raise RLIMIT_MEMLOCK "+
				"(`ulimit -l unlimited`)", size))
	}
	return 0, callFault("VFIO_IOMMU_MAP_DMA", d.address, err)
}

// faultLogged reads the new records of the kernel's log, of which each read
// gives one. EPIPE: some are lost. What a device tells of an access that the
// IOMMU refuses is up to it: a read ends in an abort that most note in their
// status register, a write just vanishes. The IOMMU's driver logs both, without
// this function's name where it is an SMMU: any IOMMU fault there since the
// function was taken counts.
func (d *vfio) sawDMAFault() bool {
	for {
		n, err := syscalls.read(d.kernelLogFD, d.logRecord[:])
		switch {
		case err == unix.EPIPE:
		case err != nil || n == 0:
			return d.faultSeen
		default:
			d.faultSeen = d.faultSeen || isFaultRecord(d.logRecord[:n])
		}
	}
}

// faultWords are what drivers of IOMMUs log (drivers/iommu of Linux 6.1:
// arm-smmu-v3.c, arm-smmu.c, intel/dmar.c, amd/iommu.c).
var faultWords = [...][2]string{{"smmu", "event"}, {"smmu", "fault"}, {"DMAR", "fault"},
	{"AMD-Vi", "FAULT"}}

func isFaultRecord(record []byte) bool {
	for _, words := range &faultWords {
		if contains(record, words[0]) && contains(record, words[1]) {
			return true
		}
	}
	return false
}

func contains(data []byte, word string) bool {
	for i := 0; i+len(word) <= len(data); i++ {
		if string(data[i:i+len(word)]) == word {
			return true
		}
	}
	return false
}

// vfioFile is the container, whose addresses all functions of this process share, or a
// group, of functions that the IOMMU cannot tell apart. Each can be open once in a process.
type vfioFile struct {
	path      string
	fd, users int
}

// vfioShared is what all functions of this process share. The lock orders the calls of
// threads that each load or close a device of their own.
var vfioShared struct {
	sync.Mutex
	files    []*vfioFile // that are open, or were
	iommu    bool        // the container has its IOMMU
	nextIOVA uint64      // the next address to use
}

// share opens a file that is not open yet, and counts this function among its users. The
// caller holds the lock.
func (d *vfio) openShared(path string) (f *vfioFile, err error) {
	at := 0
	for at < len(vfioShared.files) && vfioShared.files[at].path != path {
		at++
	}
	if at == len(vfioShared.files) {
		vfioShared.files = append(vfioShared.files, &vfioFile{path: path})
	}
	if f = vfioShared.files[at]; f.users == 0 {
		f.fd, err = syscalls.open(path, unix.O_RDWR)
	}
	switch err {
	case nil:
		f.users++
		d.shared = append(d.shared, f)
		return f, nil
	case unix.ENOENT, unix.ENODEV:
		return nil, NewFault(NoDevice, d.identity.Name+": "+path+
			" does not exist; `modprobe vfio_iommu_type1`, and is devtmpfs mounted at /dev?")
	case unix.EBUSY:
		return nil, NewFault(NoDevice, d.identity.Name+": another program has "+path+
			" open; `fuser -v "+path+"` names it")
	}
	return nil, callFault("open", path, err)
}

// leave closes the function's group and the container if no other function uses them. Both
// happen under one lock: the kernel takes the IOMMU from a container without groups, which
// no other function may join in between.
func (d *vfio) leave() error {
	vfioShared.Lock()
	for at := len(d.shared) - 1; at >= 0; at-- {
		f := d.shared[at]
		if f.users--; f.users == 0 {
			_ = syscalls.close(f.fd)
			vfioShared.iommu = vfioShared.iommu && f.path != vfioContainer
		}
	}
	vfioShared.Unlock()
	d.shared = nil
	return nil
}

// join opens the function's group. The first function of a group puts it into the container,
// and the first group there has the container get its IOMMU. The caller holds the lock.
func (d *vfio) joinGroup() (group *vfioFile, err error) {
	d.deferClose(d.leave)
	path := vfioDir + d.group
	all, err := d.openShared(vfioContainer)
	if err == nil {
		group, err = d.openShared(path)
	}
	if err != nil {
		return nil, err
	}
	if d.container = all.fd; group.users > 1 {
		return group, nil
	}
	status := vfioStatus{argsz: 8}
	if err := ioctlStruct(group.fd, vfioGroupGetStatus, structPointer(&status),
		"VFIO_GROUP_GET_STATUS", path); err != nil {
		return nil, err
	}
	if status.flags&vfioGroupViable == 0 {
		return nil, NewFault(NoDevice, d.identity.Name+
			": the IOMMU cannot tell the device from others that drivers have; hand all of `ls "+
			"/sys/kernel/iommu_groups/"+d.group+
			"/devices` to vfio-pci, or unbind them from their drivers")
	}
	fd := int32(all.fd)
	err = ioctlStruct(group.fd, vfioGroupSetContainer, structPointer(&fd),
		"VFIO_GROUP_SET_CONTAINER", path)
	if err != nil || vfioShared.iommu {
		return group, err
	}
	_, err = syscalls.ioctl(all.fd, vfioSetIOMMU, vfioType1v2, nil)
	switch err {
	case nil:
		vfioShared.iommu, vfioShared.nextIOVA = true, iovaFirst
	case unix.ENODEV:
		return nil, NewFault(NoDevice, d.identity.Name+
			": VFIO drives no IOMMU of type 1 here; `modprobe vfio_iommu_type1`")
	case unix.EPERM:
		return nil, NewFault(Denied, d.identity.Name+
			": the interrupt controller does not keep the device's interrupts apart (GICv2 does "+
			"not); "+
			"where you trust the device, `echo 1 > "+
			"/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts`")
	}
	return group, callFault("VFIO_SET_IOMMU", vfioContainer, err)
}
