package fakekernel

import (
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Files and requests of VFIO (linux/vfio.h).
const (
	vfioDir       = "/dev/vfio/"
	ContainerPath = vfioDir + "vfio"

	SetIOMMU          = 0x3b66
	GroupGetStatus    = 0x3b67
	GroupSetContainer = 0x3b68
	GroupGetDeviceFD  = 0x3b6a
	DeviceGetRegion   = 0x3b6c
	DeviceGetIRQ      = 0x3b6d
	DeviceSetIRQs     = 0x3b6e
	MapDMA            = 0x3b71
	UnmapDMA          = 0x3b72

	type1v2IOMMU = 3
	configRegion = 7 // index of the region that is configuration space
)

// VFIO is the state of VFIO. Calls in a wrong order and structs of a wrong size are errors (Linux
// 6.1, drivers/vfio/vfio_main.c, vfio_iommu_type1.c, pci/vfio_pci_core.c).
type VFIO struct {
	IOMMUType      uintptr     // type of IOMMU that was set; 0: none
	PageSize       uint64      // smallest page that the IOMMU maps, in bytes
	MappableRanges [][2]uint64 // first and last bus address of each range that the IOMMU can map
	DMA            []DMARange  // ranges that are mapped
	AllDMA         []DMARange  // ranges that were mapped, or pinned by tt-kmd, at any time
	DMAAtClose     int         // number of ranges that were mapped when the container was closed
	NotViable      bool        // groups have functions that other drivers use
	// Descriptor of the container by that of the group.
	containerOfGroup map[int]int
}

// DMARange is a range of bus addresses that is mapped to an address in the program.
type DMARange struct{ IOVA, Size, Address uint64 }

// init sets the properties of the IOMMU of QEMU's machine virt, which reserves a range for
// interrupts.
func (v *VFIO) init() {
	v.PageSize, v.containerOfGroup = 4096, map[int]int{}
	v.MappableRanges = [][2]uint64{{0, 0x7ff_ffff}, {0x810_0000, 0xffff_ffff_ffff}}
}

// BindToVFIO binds vfio-pci to a function and adds the function to an IOMMU group.
func (k *Kernel) BindToVFIO(f *Function, group string) {
	f.Group = group
	k.BindDriver(f, "vfio-pci")
	k.WriteLink(f.Path("iommu_group"), "../../groups/"+group)
	k.WriteFile(vfioDir+group, "")
	k.WriteFile(ContainerPath, "")
}

// isGroup reports whether a path is the file of an IOMMU group.
func isGroup(path string) bool {
	return strings.HasPrefix(path, vfioDir) && path != ContainerPath
}

func (k *Kernel) closeContainer() {
	if len(k.VFIO.containerOfGroup) > 0 {
		k.Complain("the container is closed before its groups")
	}
	k.VFIO.DMAAtClose += len(k.VFIO.DMA)
	k.VFIO.IOMMUType, k.VFIO.DMA = 0, nil
}

func (k *Kernel) groupIoctl(fd int, path string, request uintptr,
	argument unsafe.Pointer) (result int, errno unix.Errno) {
	switch request {
	case GroupGetStatus:
		s := structureAt(argument, 8)
		if s.uint32(0) != 8 {
			return 0, unix.EINVAL
		}
		const viable = 1
		s.setUint32(4, viable)
		if k.VFIO.NotViable {
			s.setUint32(4, 0)
		}
		return 0, 0
	case GroupSetContainer:
		container := int(structureAt(argument, 4).uint32(0))
		if k.OpenFiles[container] != ContainerPath {
			return 0, unix.EINVAL
		}
		k.VFIO.containerOfGroup[fd] = container
		return 0, 0
	case GroupGetDeviceFD:
		name := structureAt(argument, 13)
		f, _ := k.Locate("vfio:" + string(name[:12]))
		if k.VFIO.containerOfGroup[fd] == 0 || k.VFIO.IOMMUType == 0 || f == nil ||
			name[12] != 0 || vfioDir+f.Group != path {
			return 0, unix.EINVAL
		}
		return k.openFunction(f)
	}
	return 0, unix.ENOTTY
}

// openFunction opens the file of a function. It changes the command register as
// vfio_pci_core_enable of Linux does.
func (k *Kernel) openFunction(f *Function) (fd int, errno unix.Errno) {
	fd, err := unix.Open(f.dir+"/config", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, unix.EIO
	}
	k.OpenFiles[fd] = vfioFile + ":" + f.Address
	f.SetCommand(f.Command() &^ ((CommandMaster | CommandINTxOff) &^ f.StuckOn))
	if f.HasReset {
		f.Resets++
		f.SetCommand(0)
	}
	return fd, 0
}

func (k *Kernel) containerIoctl(request, value uintptr, argument unsafe.Pointer) unix.Errno {
	v := &k.VFIO
	switch request {
	case SetIOMMU: // as vfio_ioctl_set_iommu (Linux, drivers/vfio/container.c)
		switch {
		case len(v.containerOfGroup) == 0 || v.IOMMUType != 0:
			return unix.EINVAL
		case value != type1v2IOMMU:
			return unix.ENODEV
		}
		v.IOMMUType = value
		return 0
	case MapDMA:
		return v.mapDMA(structureAt(argument, 32))
	case UnmapDMA:
		s := structureAt(argument, 24)
		i := slices.IndexFunc(v.DMA, func(r DMARange) bool {
			return r.IOVA == s.uint64(8) && r.Size == s.uint64(16)
		})
		if s.uint32(0) != 24 || s.uint32(4) != 0 || i < 0 {
			return unix.EINVAL
		}
		v.DMA = slices.Delete(v.DMA, i, i+1)
		return 0
	}
	return unix.ENOTTY
}

// mapDMA returns the errors of Linux for invalid, unmappable and overlapping ranges.
func (v *VFIO) mapDMA(s structure) unix.Errno {
	const readAndWrite = 3
	r := DMARange{IOVA: s.uint64(16), Size: s.uint64(24), Address: s.uint64(8)}
	isMappable := slices.ContainsFunc(v.MappableRanges, func(limits [2]uint64) bool {
		return limits[0] <= r.IOVA && r.IOVA+r.Size-1 <= limits[1]
	})
	pageSize := uint64(os.Getpagesize())
	if s.uint32(0) != 32 || s.uint32(4) != readAndWrite || v.IOMMUType == 0 || r.Size == 0 ||
		(r.Address|r.Size)%pageSize != 0 || r.IOVA%v.PageSize != 0 || !isMappable {
		return unix.EINVAL
	}
	for _, other := range v.DMA {
		if r.IOVA < other.IOVA+other.Size && other.IOVA < r.IOVA+r.Size {
			return unix.EEXIST
		}
	}
	v.DMA, v.AllDMA = append(v.DMA, r), append(v.AllDMA, r)
	return 0
}

// regionOffset returns the offset of a region in VFIO's file of a function. splitRegionOffset
// returns the region of an offset, and the offset in the region.
func regionOffset(index uint32) uint64 { return uint64(index+1) << 40 }

func splitRegionOffset(offset uint64) (index int, inRegion uint64) {
	return int(offset>>40) - 1, offset & (1<<40 - 1)
}

// vectorIoctl has the vectors of MSI (1) and MSI-X (2), and enables them without handlers.
func vectorIoctl(f *Function, request uintptr, argument unsafe.Pointer) (int, unix.Errno) {
	if request == DeviceGetIRQ {
		s := structureAt(argument, 16)
		index := s.uint32(8)
		if s.uint32(0) != 16 || index > 2 {
			return 0, unix.EINVAL
		}
		s.setUint32(12, f.Vectors[index])
		return 0, 0
	}
	s := structureAt(argument, 20)
	const eventFDs, trigger = 1 << 2, 1 << 5
	index, count := s.uint32(8), s.uint32(16)
	if s.uint32(0) != 20+4*count || s.uint32(4) != eventFDs|trigger || s.uint32(12) != 0 ||
		index > 2 || count > f.Vectors[index] {
		return 0, unix.EINVAL
	}
	all := structureAt(argument, int(20+4*count))
	for i := range int(count) {
		if all.uint32(20+4*i) != all.uint32(20) {
			return 0, unix.EBADF
		}
	}
	f.EventFD = int(all.uint32(20))
	if f.KernelVectors != 0 && count > f.KernelVectors {
		return int(f.KernelVectors), 0
	}
	f.EnabledVectors[index] = count
	return 0, 0
}

func functionIoctl(f *Function, request uintptr, argument unsafe.Pointer) unix.Errno {
	if request != DeviceGetRegion {
		return unix.ENOTTY
	}
	s := structureAt(argument, 32)
	index := s.uint32(8)
	if s.uint32(0) != 32 || index > 8 {
		return unix.EINVAL
	}
	const readable, writable, mappable = 1, 2, 4
	size, flags := uint64(0), uint32(readable|writable)
	switch {
	case index == configRegion:
		size = 4096
	case index < 6:
		size = f.Bars[index]
		if size >= 4096 { // VFIO cannot map a BAR that shares its page
			flags |= mappable
		}
	}
	s.setUint32(4, flags)
	s.setUint64(16, size)
	s.setUint64(24, regionOffset(index))
	return 0
}
