//go:build !notiles && (backend_tt || !(backend_pci || backend_vfio))

package hal

// This file declares the ioctls and structs of API 2 of Tenstorrent's driver, from the file ioctl.h
// of tt-kmd. The compiler checks the sizes of the structs and the offsets of some fields.

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

	ttPowerValidity  = 15     // value of ttPowerRequest.validity: 15 valid flags, no valid setting
	ttPowerAllFlags  = 0x7fff // value of ttPowerRequest.flags: all 15 flags are set
	ttPowerClockFlag = 1 << 0 // bit of ttPowerRequest.flags: full clock for the cores

	// These are values of ttResetRequest.flags, which tt-kmd 2.4.1 and later accept.
	ttResetASIC = 4 // ASIC_RESET: begin a reset
	ttResetEnd  = 6 // POST_RESET: set up the device after a reset

	ttPinNoCFlag = 1 << 1 // bit of ttPinRequest.flags: let tiles reach the memory over the NoC
)

// ttDeviceInfo has the layout of struct tenstorrent_get_device_info. The field `inSize` is an input
// of the ioctl: the number of bytes after `inSize` that the driver may write. The field `busDevFn`
// contains the bus number (bits 8 to 15), the slot (bits 3 to 7) and the function number (bits 0 to
// 2). In ttDriverInfo, `inSize` has the same meaning.
type ttDeviceInfo struct {
	inSize                uint32
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

// ttDriverInfo has the layout of struct tenstorrent_get_driver_info.
type ttDriverInfo struct {
	inSize                        uint32
	outSize, api                  uint32
	major, minor, patch, reserved uint8
}

// ttResetRequest has the layout of struct tenstorrent_reset_device. The field `outSize` is an input
// of the ioctl: the number of output bytes, from the field `size` on, that the driver may write.
type ttResetRequest struct {
	outSize, flags uint32
	size, result   uint32 // output: result is 0 after success
}

// ttPinRequest has the layout of struct tenstorrent_pin_pages with the extended output. The field
// `outSize` is an input of the ioctl: the number of output bytes, starting at the field `bus`, that
// the driver may write.
type ttPinRequest struct {
	outSize, flags uint32
	address, size  uint64
	bus, noc       uint64 // output: addresses of the memory on the PCIe bus and on the NoC
}

// ttLockRequest has the layout of struct tenstorrent_lock_ctl. The field `outSize` is an input of
// the ioctl: the number of output bytes, starting at the field `value`, that the driver may write.
type ttLockRequest struct {
	outSize, flags uint32
	index          uint8
	reserved       [3]uint8
	value          uint8 // output: 1 if this program has acquired the lock, else 0
	reservedOut    [3]uint8
}

// ttAllocateRequest has the layout of struct tenstorrent_allocate_tlb. The driver sets the field
// `window` and all fields after it.
type ttAllocateRequest struct {
	size, reserved           uint64
	window, reserved0        uint32 // window: output: number of the TLB window
	uncached, writeCombining uint64 // output: offsets of the mappings in the driver's file
	reserved1                uint64
}

// ttConfigureRequest has the layout of struct tenstorrent_configure_tlb, which describes the tiles
// and the address that a TLB window shows. The field `window` is the number of the TLB window.
type ttConfigureRequest struct {
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

// ttCleanupRequest has the layout of struct tenstorrent_set_noc_cleanup, which describes the store
// that the driver makes when the process ends. The field `argsz` is the size of the struct in
// bytes.
type ttCleanupRequest struct {
	argsz, flags  uint32
	enabled, x, y uint8
	noc           uint8
	reserved      uint32
	address, data uint64
}

// Each line assigns an array whose length is the size of a struct, or the offset of a field, to an
// array whose length is the size or offset in C. The line does not compile if the two lengths
// differ.
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
	_ [48]byte      = [unsafe.Sizeof(ttAllocateRequest{})]byte{}
	_ [24]byte      = [unsafe.Offsetof(ttAllocateRequest{}.uncached)]byte{}
	_ [48]byte      = [unsafe.Sizeof(ttConfigureRequest{})]byte{}
	_ [28]byte      = [unsafe.Offsetof(ttConfigureRequest{}.staticVC)]byte{}
	_ [40]byte      = [unsafe.Sizeof(ttPowerRequest{})]byte{}
	_ [10]byte      = [unsafe.Offsetof(ttPowerRequest{}.flags)]byte{}
	_ [32]byte      = [unsafe.Sizeof(ttCleanupRequest{})]byte{}
	_ [16]byte      = [unsafe.Offsetof(ttCleanupRequest{}.address)]byte{}
)
