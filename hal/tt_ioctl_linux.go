//go:build backend_tt || !(backend_pci || backend_vfio)

package hal

// This file declares the ioctls and structs of API 2 of Tenstorrent's driver, from the file ioctl.h
// of tt-kmd. The compiler checks the sizes of the structs and the offsets of some fields.

//lint:file-ignore U1000 the structs have all fields of C

import "unsafe"

const (
	// Numbers of the ioctls. Each name corresponds to a name in ioctl.h: ttGetDeviceInfo, for
	// example, is TENSTORRENT_IOCTL_GET_DEVICE_INFO.
	ttGetDeviceInfo = 0xfa00
	ttQueryMappings = 0xfa02
	ttGetDriverInfo = 0xfa05
	ttResetDevice   = 0xfa06
	ttPinPages      = 0xfa07
	ttLockControl   = 0xfa08
	ttAllocateTLB   = 0xfa0b
	ttConfigureTLB  = ProgramWindowRequest
	ttSetNoCCleanup = 0xfa0e
	ttSetPowerState = 0xfa0f

	ttPowerValidity  = 15     // value of ttPowerRequest.validity: use 15 flags and no settings
	ttPowerAllFlags  = 0x7fff // value of ttPowerRequest.flags: all 15 flags are set
	ttPowerClockFlag = 1 << 0 // bit of ttPowerRequest.flags: full clock for the cores

	// Values of ttResetRequest.flags. tt-kmd 2.4.1 and later accept them.
	ttResetASIC = 4 // ASIC_RESET: begin a reset
	ttResetEnd  = 6 // POST_RESET: set up the device after a reset

	ttPinNoCFlag = 1 << 1 // bit of ttPinRequest.flags: let tiles reach the pinned memory
)

// ttDeviceInfo has the layout of struct tenstorrent_get_device_info. In this and the following
// structs, the field `outputCapacity` is an input of the ioctl: the largest number of output bytes
// that the driver may write. In this struct, the output begins at the field `outSize`. The field
// `busDevFn` contains the bus number (bits 8 to 15), the slot (bits 3 to 7) and the function number
// (bits 0 to 2).
type ttDeviceInfo struct {
	outputCapacity        uint32
	outSize               uint32
	vendor, device        uint16
	subvendor, subsystem  uint16
	busDevFn, dmaSizeLog2 uint16
	domain, reserved      uint16
}

// ttMapping has the layout of struct tenstorrent_mapping, which describes how to map one BAR. The
// field `id` is 1 or 2 for BAR 0, 3 or 4 for BAR 2, 5 or 6 for BAR 4, and 0 in an unused entry. A
// mapping with an odd `id` is uncached; a mapping with an even `id` is write-combining. The field
// `base` is the offset of the BAR in the driver's file, for mmap.
type ttMapping struct {
	id, reserved uint32
	base, size   uint64
}

// ttMappings has the layout of struct tenstorrent_query_mappings with room for six mappings. The
// field `count` is an input of the ioctl: the number of elements of `mappings`.
type ttMappings struct {
	count, reserved uint32
	mappings        [6]ttMapping
}

// ttDriverInfo has the layout of struct tenstorrent_get_driver_info. The output begins at the field
// `outSize`. The field `api` is the version of the driver's API.
type ttDriverInfo struct {
	outputCapacity                uint32
	outSize, api                  uint32
	major, minor, patch, reserved uint8
}

// ttResetRequest has the layout of struct tenstorrent_reset_device. The output begins at the field
// `size`.
type ttResetRequest struct {
	outputCapacity, flags uint32
	size, result          uint32 // outputs; `result` is 0 if the reset succeeded
}

// ttPinRequest has the layout of struct tenstorrent_pin_pages with the extended output. The
// output begins at the field `bus`.
type ttPinRequest struct {
	outputCapacity, flags uint32
	address, size         uint64
	bus, noc              uint64 // outputs: address of the memory on the PCIe bus, and on the NoC
}

// ttLockRequest has the layout of struct tenstorrent_lock_ctl. With `flags` 0, the driver acquires
// the lock number `index` for the open file. The output begins at the field `value`.
type ttLockRequest struct {
	outputCapacity, flags uint32
	index                 uint8
	reserved              [3]uint8
	value                 uint8 // output: 1 if this program has acquired the lock, else 0
	reservedOut           [3]uint8
}

// ttAllocateTLBRequest has the layout of struct tenstorrent_allocate_tlb. The driver sets the field
// `window` and all fields after it.
type ttAllocateTLBRequest struct {
	size, reserved    uint64
	window, reserved0 uint32 // output `window`: number of the TLB window
	// Outputs: offsets of the two mappings in the driver's file.
	uncachedOffset, writeCombiningOffset uint64
	reserved1                            uint64
}

// ttConfigureTLBRequest has the layout of struct tenstorrent_configure_tlb, which describes the
// tiles and the address that a TLB window shows. The field `window` is the number of the TLB
// window. The fields from `noc` to `staticVC` select the on-chip network and how it transports the
// accesses. The field `linked` is always 0: no request is linked to the next one.
type ttConfigureTLBRequest struct {
	window, reserved                 uint32
	address                          uint64
	xEnd, yEnd, xStart, yStart       uint16
	noc, multicast, ordering, linked uint8
	staticVC                         uint8
	reserved0                        [3]uint8
	reserved1                        [2]uint32
	reservedOut                      uint64
}

// ttPowerRequest has the layout of struct tenstorrent_power_state. The field `argsz` is the size of
// the struct in bytes.
type ttPowerRequest struct {
	argsz, reserved0    uint32
	reserved1, validity uint8
	flags               uint16
	settings            [14]uint16
}

// ttExitCleanupRequest has the layout of struct tenstorrent_set_noc_cleanup. When the process ends,
// the driver stores `data` to `address` of the tile at the position `x`, `y`. The field `argsz` is
// the size of the struct in bytes.
type ttExitCleanupRequest struct {
	argsz, flags  uint32
	enabled, x, y uint8
	noc           uint8
	reserved      uint32
	address, data uint64
}

// Each line checks the size of a struct, or the offset of a field. The left array has the length
// that C requires, and the right array has the length in Go. If the two lengths differ, the line
// does not compile.
var (
	_ [24]byte      = [unsafe.Sizeof(ttDeviceInfo{})]byte{}
	_ [20]byte      = [unsafe.Offsetof(ttDeviceInfo{}.domain)]byte{}
	_ [24]byte      = [unsafe.Sizeof(ttMapping{})]byte{}
	_ [8 + 144]byte = [unsafe.Sizeof(ttMappings{})]byte{}
	_ [16]byte      = [unsafe.Sizeof(ttDriverInfo{})]byte{}
	_ [12]byte      = [unsafe.Offsetof(ttDriverInfo{}.major)]byte{}
	_ [16]byte      = [unsafe.Sizeof(ttResetRequest{})]byte{}
	_ [40]byte      = [unsafe.Sizeof(ttPinRequest{})]byte{}
	_ [32]byte      = [unsafe.Offsetof(ttPinRequest{}.noc)]byte{}
	_ [16]byte      = [unsafe.Sizeof(ttLockRequest{})]byte{}
	_ [12]byte      = [unsafe.Offsetof(ttLockRequest{}.value)]byte{}
	_ [48]byte      = [unsafe.Sizeof(ttAllocateTLBRequest{})]byte{}
	_ [24]byte      = [unsafe.Offsetof(ttAllocateTLBRequest{}.uncachedOffset)]byte{}
	_ [48]byte      = [unsafe.Sizeof(ttConfigureTLBRequest{})]byte{}
	_ [28]byte      = [unsafe.Offsetof(ttConfigureTLBRequest{}.staticVC)]byte{}
	_ [40]byte      = [unsafe.Sizeof(ttPowerRequest{})]byte{}
	_ [10]byte      = [unsafe.Offsetof(ttPowerRequest{}.flags)]byte{}
	_ [32]byte      = [unsafe.Sizeof(ttExitCleanupRequest{})]byte{}
	_ [16]byte      = [unsafe.Offsetof(ttExitCleanupRequest{}.address)]byte{}
)
