package hal

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernel is the system calls that reach a device. Tests put a stand-in for
// drivers that are not there in place of the real one.
type kernel struct {
	open  func(path string, flags int) (fd int, err error)
	close func(fd int) error
	// ioctl takes a struct by address, or a value where argument is nil.
	ioctl  func(fd int, request, value uintptr, argument unsafe.Pointer) (int, error)
	mmap   func(fd int, offset int64, length, protection, flags int) ([]byte, error)
	munmap func(mem []byte) error
	read   func(fd int, data []byte) (int, error)
	pread  func(fd int, data []byte, offset int64) (int, error)
	pwrite func(fd int, data []byte, offset int64) (int, error)
}

var system = kernel{openFile, unix.Close, ioctl, Mmap, Munmap, Read, pread, pwrite}

func openFile(path string, flags int) (int, error) {
	return unix.Open(path, flags|unix.O_CLOEXEC, 0)
}

// asC is a struct for a driver, which may change it. T lies in memory as C has
// it: ioctl_test.go pins sizes and offsets.
func asC[T any](argument *T) unsafe.Pointer { return unsafe.Pointer(argument) }

// control is an ioctl that gives nothing but the struct, and a fault that names
// it and what it is for.
func control(fd int, request uintptr, argument unsafe.Pointer, name, of string) error {
	if _, err := system.ioctl(fd, request, 0, argument); err != nil {
		return failed(name, of, err)
	}
	return nil
}

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

// PointRequest is the request of the only ioctl that a run makes: Point on a
// tt: device (tt-kmd ioctl.h, CONFIGURE_TLB). A seal has to let it through.
const PointRequest = 0xfa0d
