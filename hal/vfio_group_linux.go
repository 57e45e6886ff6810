//go:build backend_vfio || !(backend_pci || backend_tt)

package hal

// Files of VFIO that functions share: the container, whose addresses all functions of this
// process use, and groups of functions that the IOMMU cannot tell apart.

import (
	"sync"

	"golang.org/x/sys/unix"
)

const (
	vfioDir       = "/dev/vfio/"
	vfioContainer = vfioDir + "vfio"
)

// vfioFile is the container or a group. Each can be open once in a process.
type vfioFile struct {
	path      string
	fd, users int // fd is open if there are users
}

// vfioShared is what all functions of this process share. The lock orders the calls of threads
// that each load or close a device of their own.
var vfioShared struct {
	sync.Mutex
	files    []*vfioFile // files that are open, or were
	iommu    bool        // the container has its IOMMU
	nextIOVA uint64      // the next address to use
}

// joinGroup opens the container and the function's group, and prepares both unless another
// function has done so. The caller holds the lock.
func (v *vfio) joinGroup() (group *vfioFile, err error) {
	v.dev.cleanups.add(v.leaveGroup)
	// The container has the addresses that the IOMMU maps.
	container, err := v.openShared(vfioContainer)
	if err != nil {
		return nil, err
	}
	v.container = container.fd
	// The group has the function, and all others that the IOMMU cannot tell from it.
	group, err = v.openShared(vfioDir + v.group)
	if err != nil {
		return nil, err
	}
	if group.users == 1 {
		err = v.attachGroup(group)
	}
	if err == nil && !vfioShared.iommu {
		err = v.setIOMMU()
	}
	return group, err
}

// attachGroup puts a group into the container.
func (v *vfio) attachGroup(group *vfioFile) error {
	// Ask whether the group can be used: no other driver may have a function of it, since that
	// function could reach the same memory.
	status := vfioStatus{argsz: 8}
	err := ioctlStruct(group.fd, vfioGroupGetStatus, structPointer(&status),
		"VFIO_GROUP_GET_STATUS", group.path)
	if err != nil {
		return err
	}
	if status.flags&vfioGroupFlagsViable == 0 {
		return v.dev.fault(NoDevice, "the IOMMU cannot tell the device from others that "+
			"drivers have; bind all of `ls /sys/kernel/iommu_groups/"+v.group+
			"/devices` to vfio-pci, or unbind them from their drivers")
	}
	// Put the group into the container: its functions get the container's addresses.
	fd := int32(v.container)
	return ioctlStruct(group.fd, vfioGroupSetContainer, structPointer(&fd),
		"VFIO_GROUP_SET_CONTAINER", group.path)
}

// setIOMMU makes the container get its IOMMU, which is possible once it has a group.
func (v *vfio) setIOMMU() error {
	_, err := syscalls.ioctl(v.container, vfioSetIOMMU, vfioType1v2IOMMU, nil)
	switch err {
	case nil:
		vfioShared.iommu = true
		vfioShared.nextIOVA = iovaFirst
		return nil
	case unix.ENODEV:
		return v.dev.fault(NoDevice,
			"VFIO drives no IOMMU of type 1 here; `modprobe vfio_iommu_type1`")
	case unix.EPERM:
		return v.dev.fault(Denied, "the interrupt controller does not isolate the device's "+
			"interrupts (GICv2 does not); if you trust the device, "+
			"`echo 1 > /sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts`")
	}
	return callFault("VFIO_SET_IOMMU", vfioContainer, err)
}

// openShared opens a file unless it is open, and counts this function as a user. The caller holds
// the lock.
func (v *vfio) openShared(path string) (f *vfioFile, err error) {
	f = sharedFile(path)
	if f.users == 0 {
		f.fd, err = syscalls.open(path, unix.O_RDWR)
	}
	switch err {
	case nil:
		f.users++
		v.shared = append(v.shared, f)
		return f, nil
	case unix.ENOENT, unix.ENODEV:
		return nil, v.dev.fault(NoDevice, path+
			" does not exist; `modprobe vfio_iommu_type1`, and is devtmpfs mounted at /dev?")
	case unix.EBUSY:
		return nil, v.dev.fault(NoDevice, "another program has "+path+" open; `fuser -v "+path+
			"` names it")
	}
	return nil, callFault("open", path, err)
}

// sharedFile returns the file with a path, a new one if none exists.
func sharedFile(path string) *vfioFile {
	for _, f := range vfioShared.files {
		if f.path == path {
			return f
		}
	}
	f := &vfioFile{path: path}
	vfioShared.files = append(vfioShared.files, f)
	return f
}

// leaveGroup closes the function's group and the container if no other function uses them. Both
// happen under one lock: the kernel takes the IOMMU from a container without groups, which no
// other function may join in between.
func (v *vfio) leaveGroup() error {
	vfioShared.Lock()
	for i := len(v.shared) - 1; i >= 0; i-- {
		f := v.shared[i]
		f.users--
		if f.users > 0 {
			continue
		}
		_ = syscalls.close(f.fd)
		if f.path == vfioContainer {
			vfioShared.iommu = false
		}
	}
	vfioShared.Unlock()
	v.shared = nil
	return nil
}
