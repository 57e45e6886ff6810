package hal

// ioctls and structs of linux/vfio.h. argsz is an input: the struct's size in bytes.

//lint:file-ignore U1000 the structs have all fields of C

import (
	"unsafe"

	"lightmetal/fbs"
)

// Comments have the names in linux/vfio.h.
const (
	vfioSetIOMMU            = 0x3b66 // VFIO_SET_IOMMU: select the container's type of IOMMU
	vfioGroupGetStatus      = 0x3b67 // VFIO_GROUP_GET_STATUS: query the flags of a group
	vfioGroupSetContainer   = 0x3b68 // VFIO_GROUP_SET_CONTAINER: add a group to a container
	vfioGroupGetDeviceFD    = 0x3b6a // VFIO_GROUP_GET_DEVICE_FD: open a PCI function of a group
	vfioDeviceGetRegionInfo = 0x3b6c // VFIO_DEVICE_GET_REGION_INFO: query a BAR's size and offset
	vfioDeviceGetIRQInfo    = 0x3b6d // VFIO_DEVICE_GET_IRQ_INFO: query the number of vectors
	vfioDeviceSetIRQs       = 0x3b6e // VFIO_DEVICE_SET_IRQS: enable vectors
	vfioIOMMUMapDMA         = 0x3b71 // VFIO_IOMMU_MAP_DMA: map memory at a bus address
	vfioIOMMUUnmapDMA       = 0x3b72 // VFIO_IOMMU_UNMAP_DMA: remove such a mapping

	vfioType1v2IOMMU      = 3      // VFIO_TYPE1v2_IOMMU: type of most IOMMUs of x86 and arm64
	vfioConfigRegionIndex = 7      // VFIO_PCI_CONFIG_REGION_INDEX: region of configuration space
	vfioGroupFlagsViable  = 1 << 0 // VFIO_GROUP_FLAGS_VIABLE: only VFIO uses the group for DMA
	vfioRegionFlagMMap    = 1 << 2 // VFIO_REGION_INFO_FLAG_MMAP: mmap can map the region
	vfioMSIIndex          = 1      // VFIO_PCI_MSI_IRQ_INDEX
	vfioMSIXIndex         = 2      // VFIO_PCI_MSIX_IRQ_INDEX
	vfioIRQSetEventFD     = 1 << 2 // VFIO_IRQ_SET_DATA_EVENTFD: a file descriptor for each vector
	vfioIRQSetTrigger     = 1 << 5 // VFIO_IRQ_SET_ACTION_TRIGGER
	vfioIRQSetSize        = 20     // size of struct vfio_irq_set without eventFDs
	vfioDMAFlagRead       = 1 << 0 // VFIO_DMA_MAP_FLAG_READ: the device may read the memory
	vfioDMAFlagWrite      = 1 << 1 // VFIO_DMA_MAP_FLAG_WRITE: the device may write the memory
)

// struct vfio_group_status
type vfioGroupStatus struct{ argsz, flags uint32 }

// struct vfio_region_info. size and offset: of the region in the function's file, in bytes.
type vfioRegionInfo struct {
	argsz, flags, index, capOffset uint32
	size, offset                   uint64
}

// struct vfio_irq_info. count: number of vectors of the index
type vfioIRQInfo struct{ argsz, flags, index, count uint32 }

// struct vfio_irq_set. eventFDs: what each vector writes to
type vfioIRQSet struct {
	argsz, flags, index, start, count uint32
	eventFDs                          [fbs.VectorsMax]int32
}

// struct vfio_iommu_type1_dma_map. vaddr: address in this process; iova: bus address.
type vfioDMAMap struct {
	argsz, flags uint32
	vaddr        uint64
	iova, size   uint64
}

// struct vfio_iommu_type1_dma_unmap without the bitmap at its end.
type vfioDMAUnmap struct {
	argsz, flags uint32
	iova, size   uint64
}

// Sizes, and offsets of last fields, of C on the left, of Go on the right. If they differ, the line
// does not compile.
var (
	_ [8]byte  = [unsafe.Sizeof(vfioGroupStatus{})]byte{}
	_ [32]byte = [unsafe.Sizeof(vfioRegionInfo{})]byte{}
	_ [24]byte = [unsafe.Offsetof(vfioRegionInfo{}.offset)]byte{}
	_ [16]byte = [unsafe.Sizeof(vfioIRQInfo{})]byte{}
	_ [20]byte = [unsafe.Offsetof(vfioIRQSet{}.eventFDs)]byte{}
	_ [32]byte = [unsafe.Sizeof(vfioDMAMap{})]byte{}
	_ [24]byte = [unsafe.Offsetof(vfioDMAMap{}.size)]byte{}
	_ [24]byte = [unsafe.Sizeof(vfioDMAUnmap{})]byte{}
	_ [16]byte = [unsafe.Offsetof(vfioDMAUnmap{}.size)]byte{}
)
