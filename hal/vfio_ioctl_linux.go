//go:build backend_vfio || !(backend_pci || backend_tt)

package hal

// Requests and structs of VFIO (linux/vfio.h). The compiler checks sizes and offsets.

import "unsafe"

const (
	vfioSetIOMMU            = 0x3b66 // VFIO_SET_IOMMU
	vfioGroupGetStatus      = 0x3b67 // VFIO_GROUP_GET_STATUS
	vfioGroupSetContainer   = 0x3b68 // VFIO_GROUP_SET_CONTAINER
	vfioGroupGetDeviceFD    = 0x3b6a // VFIO_GROUP_GET_DEVICE_FD
	vfioDeviceGetRegionInfo = 0x3b6c // VFIO_DEVICE_GET_REGION_INFO
	vfioIOMMUMapDMA         = 0x3b71 // VFIO_IOMMU_MAP_DMA
	vfioIOMMUUnmapDMA       = 0x3b72 // VFIO_IOMMU_UNMAP_DMA

	vfioType1v2IOMMU      = 3      // VFIO_TYPE1v2_IOMMU, a kind of IOMMU
	vfioConfigRegionIndex = 7      // VFIO_PCI_CONFIG_REGION_INDEX
	vfioGroupFlagsViable  = 1 << 0 // VFIO_GROUP_FLAGS_VIABLE
	vfioRegionFlagMMap    = 1 << 2 // VFIO_REGION_INFO_FLAG_MMAP
	vfioDMAFlagRead       = 1 << 0 // VFIO_DMA_MAP_FLAG_READ
	vfioDMAFlagWrite      = 1 << 1 // VFIO_DMA_MAP_FLAG_WRITE
)

// vfioStatus is struct vfio_group_status.
type vfioStatus struct{ argsz, flags uint32 }

// vfioRegion is struct vfio_region_info.
type vfioRegion struct {
	argsz, flags, index, capOffset uint32
	size, offset                   uint64
}

// vfioMap is struct vfio_iommu_type1_dma_map.
type vfioMap struct {
	argsz, flags uint32
	vaddr        uint64
	iova, size   uint64
}

// vfioUnmap is struct vfio_iommu_type1_dma_unmap without its bitmap.
type vfioUnmap struct {
	argsz, flags uint32
	iova, size   uint64
}

// Each line fails to compile if the size, or the last offset, differs from C's.
var (
	_ [8]byte  = [unsafe.Sizeof(vfioStatus{})]byte{}
	_ [32]byte = [unsafe.Sizeof(vfioRegion{})]byte{}
	_ [24]byte = [unsafe.Offsetof(vfioRegion{}.offset)]byte{}
	_ [32]byte = [unsafe.Sizeof(vfioMap{})]byte{}
	_ [24]byte = [unsafe.Offsetof(vfioMap{}.size)]byte{}
	_ [24]byte = [unsafe.Sizeof(vfioUnmap{})]byte{}
	_ [16]byte = [unsafe.Offsetof(vfioUnmap{}.size)]byte{}
)
