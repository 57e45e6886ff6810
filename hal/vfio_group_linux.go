package hal

// The functions that this process opens share a container, which has the IOMMU mappings of all. The
// IOMMU cannot distinguish functions of one IOMMU group, so that they have the same mappings.

import (
	"sync"

	"golang.org/x/sys/unix"
)

const (
	vfioDir           = "/dev/vfio/"     // has a file for each IOMMU group
	vfioContainerPath = vfioDir + "vfio" // each open creates a container
)

// vfioFile is the container or a group. A process opens each file only once.
type vfioFile struct {
	path      string
	fd        int // valid only if userCount is not 0
	userCount int // PCI functions that use the file; 0: closed
}

// vfioShared has a mutex, because several threads may load images or close devices.
var vfioShared struct {
	sync.Mutex
	files    []*vfioFile // container and groups; a closed file keeps its entry
	hasIOMMU bool        // VFIO_SET_IOMMU has succeeded on the open container
	nextIOVA uint64      // bus address that mapAtNextIOVA tries first
}

// joinGroup skips the steps that another function has taken already. The caller has locked
// vfioShared.
func (v *vfioBackend) joinGroup() (group *vfioFile, err error) {
	v.dev.cleanups.addCleanup(v.leaveGroup)
	container, err := v.openSharedFile(vfioContainerPath)
	if err != nil {
		return nil, err
	}
	v.containerFD = container.fd
	group, err = v.openSharedFile(vfioDir + v.groupNumber)
	if err != nil {
		return nil, err
	}
	if group.userCount == 1 {
		err = v.attachGroup(group)
	}
	if err == nil && !vfioShared.hasIOMMU {
		err = v.setIOMMUType()
	}
	return group, err
}

func (v *vfioBackend) attachGroup(group *vfioFile) error {
	// No driver outside VFIO may use a function of the group: the function could reach the same
	// memory by DMA.
	status := vfioGroupStatus{argsz: 8}
	err := ioctlStruct(group.fd, vfioGroupGetStatus, structPointer(&status),
		"VFIO_GROUP_GET_STATUS", group.path)
	if err != nil {
		return err
	}
	if status.flags&vfioGroupFlagsViable == 0 {
		return v.dev.fault(NoDevice, "other drivers own devices of the same IOMMU group; "+
			"bind all devices in /sys/kernel/iommu_groups/"+v.groupNumber+
			"/devices to vfio-pci, or unbind them")
	}
	// From now on the group can reach all memory that the container maps.
	fd := int32(v.containerFD)
	return ioctlStruct(group.fd, vfioGroupSetContainer, structPointer(&fd),
		"VFIO_GROUP_SET_CONTAINER", group.path)
}

// setIOMMUType works only after a group is in the container.
func (v *vfioBackend) setIOMMUType() error {
	_, err := syscalls.ioctl(v.containerFD, vfioSetIOMMU, vfioType1v2IOMMU, nil)
	switch errnoOf(err) {
	case 0:
		vfioShared.hasIOMMU = true
		vfioShared.nextIOVA = iovaFirst
		return nil
	case unix.ENODEV:
		return v.dev.fault(NoDevice,
			"VFIO has no driver for this IOMMU; load it with `modprobe vfio_iommu_type1`")
	case unix.EPERM:
		return v.dev.fault(Denied,
			"the interrupt controller cannot isolate interrupts (GICv3 can; QEMU: gic-version=3); "+
				"if you trust the device, "+
				"`echo 1 > /sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts`")
	}
	return syscallFault("VFIO_SET_IOMMU", vfioContainerPath, err)
}

// openSharedFile counts v as a user of the file. The caller has locked vfioShared.
func (v *vfioBackend) openSharedFile(path string) (f *vfioFile, err error) {
	f = findOrAddFile(path)
	if f.userCount == 0 {
		f.fd, err = syscalls.open(path, unix.O_RDWR)
	}
	switch errnoOf(err) {
	case 0:
		f.userCount++
		v.sharedFiles = append(v.sharedFiles, f)
		return f, nil
	case unix.ENOENT, unix.ENODEV:
		return nil, v.dev.fault(NoDevice, path+
			" does not exist; run `modprobe vfio_iommu_type1`, and mount devtmpfs at /dev"+
			"; VFIO's no-IOMMU mode (/dev/vfio/noiommu-*) is not supported: "+
			"switch an IOMMU on, or use `pci:`")
	case unix.EBUSY:
		return nil, v.dev.fault(NoDevice, "another program has "+path+" open; `fuser -v "+path+
			"` names that program")
	}
	return nil, syscallFault("open", path, err)
}

// findOrAddFile does not open the file.
func findOrAddFile(path string) *vfioFile {
	for _, f := range vfioShared.files {
		if f.path == path {
			return f
		}
	}
	f := &vfioFile{path: path}
	vfioShared.files = append(vfioShared.files, f)
	return f
}

// leaveGroup keeps the lock until both files are closed. With the last group, the kernel removes
// the IOMMU from the container; without the lock, another thread could add a group to this
// container before it is closed.
func (v *vfioBackend) leaveGroup() error {
	vfioShared.Lock()
	for i := len(v.sharedFiles) - 1; i >= 0; i-- {
		f := v.sharedFiles[i]
		f.userCount--
		if f.userCount > 0 {
			continue
		}
		_ = syscalls.close(f.fd)
		if f.path == vfioContainerPath {
			vfioShared.hasIOMMU = false
		}
	}
	vfioShared.Unlock()
	v.sharedFiles = nil
	return nil
}
