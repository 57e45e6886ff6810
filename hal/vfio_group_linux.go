//go:build backend_vfio || !(backend_pci || backend_tt)

package hal

// The VFIO files that PCI functions share: the container, with the mappings of the IOMMU for all
// functions of this process, and the IOMMU groups. The functions of one IOMMU group have the same
// mappings, because the IOMMU cannot distinguish between those functions.

import (
	"sync"

	"golang.org/x/sys/unix"
)

const (
	vfioDir       = "/dev/vfio/"     // directory with a file for each IOMMU group
	vfioContainer = vfioDir + "vfio" // opening this file creates a container
)

// vfioFile is the file of the container or of an IOMMU group. A process opens each file only once,
// and all functions of the process share the file descriptor.
type vfioFile struct {
	path  string
	fd    int // file descriptor; valid while users is above 0
	users int // number of functions that use the file
}

// vfioShared is the state that all functions of this process share. The mutex is needed because
// several threads may load or close devices at the same time.
var vfioShared struct {
	sync.Mutex
	files    []*vfioFile // the container and groups that this process has opened, even if closed
	hasIOMMU bool        // the container has an IOMMU: VFIO_SET_IOMMU has succeeded
	nextIOVA uint64      // lowest bus address that the next call of mapAtNextIOVA may use
}

// joinGroup opens the container and the function's group, and connects the group to the container
// unless another function has done so. The caller must have locked vfioShared.
func (v *vfio) joinGroup() (group *vfioFile, err error) {
	v.dev.cleanups.add(v.leaveGroup)
	// Open the container, which stores the mappings of the IOMMU.
	container, err := v.openShared(vfioContainer)
	if err != nil {
		return nil, err
	}
	v.containerFD = container.fd
	// Open the IOMMU group, which contains the function.
	group, err = v.openShared(vfioDir + v.group)
	if err != nil {
		return nil, err
	}
	// Only the first function of this process that uses the group has to add it to the container.
	if group.users == 1 {
		err = v.attachGroup(group)
	}
	if err == nil && !vfioShared.hasIOMMU {
		err = v.setIOMMU()
	}
	return group, err
}

// attachGroup adds the given group to the container.
func (v *vfio) attachGroup(group *vfioFile) error {
	// Check that the group is viable, that is, no other driver owns a function of the group. Such a
	// function could reach the same memory.
	status := vfioStatus{argsz: 8}
	err := ioctlStruct(group.fd, vfioGroupGetStatus, structPointer(&status),
		"VFIO_GROUP_GET_STATUS", group.path)
	if err != nil {
		return err
	}
	if status.flags&vfioGroupFlagsViable == 0 {
		return v.dev.fault(NoDevice, "other drivers own devices of the same IOMMU group; bind all "+
			"devices in /sys/kernel/iommu_groups/"+v.group+"/devices to vfio-pci, or unbind them")
	}
	// Add the group to the container: from then on, the functions of the group can reach the memory
	// that the container maps.
	fd := int32(v.containerFD)
	return ioctlStruct(group.fd, vfioGroupSetContainer, structPointer(&fd),
		"VFIO_GROUP_SET_CONTAINER", group.path)
}

// setIOMMU selects the IOMMU driver of the container. The container must have a group before.
func (v *vfio) setIOMMU() error {
	_, err := syscalls.ioctl(v.containerFD, vfioSetIOMMU, vfioType1v2IOMMU, nil)
	switch err {
	case nil:
		vfioShared.hasIOMMU = true
		vfioShared.nextIOVA = iovaFirst
		return nil
	case unix.ENODEV:
		return v.dev.fault(NoDevice,
			"VFIO has no driver for this IOMMU; load it with `modprobe vfio_iommu_type1`")
	case unix.EPERM:
		return v.dev.fault(Denied, "the interrupt controller cannot isolate the device's "+
			"interrupts (GICv2 cannot); if you trust the device, run "+
			"`echo 1 > /sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts`")
	}
	return callFault("VFIO_SET_IOMMU", vfioContainer, err)
}

// openShared returns the file with the given path, and counts this function as a user. It opens
// the file if the file has no other user. The caller must have locked vfioShared.
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
			" does not exist; run `modprobe vfio_iommu_type1`, and mount devtmpfs at /dev")
	case unix.EBUSY:
		return nil, v.dev.fault(NoDevice, "another program has "+path+" open; `fuser -v "+path+
			"` names that program")
	}
	return nil, callFault("open", path, err)
}

// sharedFile returns the entry of vfioShared.files with the given path. It appends an entry if none
// exists, but does not open the file.
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

// leaveGroup closes the function's group and the container, unless other functions use them. The
// lock covers both steps: when the last group leaves a container, the kernel removes the
// container's IOMMU, and another function must not join the container at that time.
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
			vfioShared.hasIOMMU = false
		}
	}
	vfioShared.Unlock()
	v.shared = nil
	return nil
}
