//go:build !notiles && (backend_tt || !(backend_pci || backend_vfio))

package hal

// Requests and structs of Tenstorrent's driver, API 2 (tt-kmd ioctl.h). The compiler checks sizes
// and offsets.

import "unsafe"

// TENSTORRENT_IOCTL_GET_DEVICE_INFO and so on: the constants are named after the header's.
const (
	ttGetDeviceInfo = 0xfa00
	ttQueryMappings = 0xfa02
	ttGetDriverInfo = 0xfa05
	ttPinPages      = 0xfa07
	ttLockControl   = 0xfa08
	ttAllocateTLB   = 0xfa0b
	ttConfigureTLB  = ProgramWindowRequest
	ttSetNoCCleanup = 0xfa0e
	ttSetPowerState = 0xfa0f

	ttPowerFlags = 15     // ttPower.validity: the number of valid flags, which is all
	ttPowerAll   = 0x7fff // ttPower.flags: everything on
	ttPowerClock = 1 << 0 // ttPower.flags: high clock of the Tensix cores

	ttPinNoC = 1 << 1 // ttPin.flags: reachable over the NoC too
)

// ttDeviceInfo is struct tenstorrent_get_device_info.
type ttDeviceInfo struct {
	inSize                uint32 // bytes of what follows
	outSize               uint32
	vendor, device        uint16
	subvendor, subsystem  uint16
	busDevFn, dmaSizeLog2 uint16
	domain, reserved      uint16
}

// ttMapping is struct tenstorrent_mapping.
type ttMapping struct {
	id, reserved uint32 // 1, 3, 5: BAR 0, 2, 4 uncached; one more: write-combining; 0: none
	base, size   uint64
}

// ttMappings is struct tenstorrent_query_mappings.
type ttMappings struct {
	count, reserved uint32
	mappings        [6]ttMapping
}

// ttDriverInfo is struct tenstorrent_get_driver_info.
type ttDriverInfo struct {
	inSize                        uint32
	outSize, api                  uint32
	major, minor, patch, reserved uint8
}

// ttPin is struct tenstorrent_pin_pages, with its extended output.
type ttPin struct {
	outSize, flags uint32
	address, size  uint64
	bus, noc       uint64 // out
}

// ttLock is struct tenstorrent_lock_ctl.
type ttLock struct {
	outSize, flags uint32
	index          uint8
	reserved       [3]uint8
	value          uint8 // out: 1 acquired
	reservedOut    [3]uint8
}

// ttAllocate is struct tenstorrent_allocate_tlb.
type ttAllocate struct {
	size, reserved      uint64
	id, reserved0       uint32 // out, and all below
	uncached, combining uint64 // mmap offsets
	reserved1           uint64
}

// ttConfigure is struct tenstorrent_configure_tlb.
type ttConfigure struct {
	id, reserved                     uint32
	address                          uint64
	xEnd, yEnd, xStart, yStart       uint16
	noc, multicast, ordering, linked uint8
	staticVC                         uint8
	reserved0                        [3]uint8
	reserved1                        [2]uint32
	reservedOut                      uint64
}

// ttPower is struct tenstorrent_power_state.
type ttPower struct {
	argsz, reserved0    uint32
	reserved1, validity uint8
	flags               uint16
	settings            [14]uint16
}

// ttCleanup is struct tenstorrent_set_noc_cleanup.
type ttCleanup struct {
	argsz, flags  uint32
	enabled, x, y uint8
	noc           uint8
	reserved      uint32
	address, data uint64
}

// Each line fails to compile if the size, or an offset, differs from C's.
var (
	_ [24]byte      = [unsafe.Sizeof(ttDeviceInfo{})]byte{}
	_ [20]byte      = [unsafe.Offsetof(ttDeviceInfo{}.domain)]byte{}
	_ [24]byte      = [unsafe.Sizeof(ttMapping{})]byte{}
	_ [8 + 144]byte = [unsafe.Sizeof(ttMappings{})]byte{}
	_ [16]byte      = [unsafe.Sizeof(ttDriverInfo{})]byte{}
	_ [12]byte      = [unsafe.Offsetof(ttDriverInfo{}.major)]byte{}
	_ [40]byte      = [unsafe.Sizeof(ttPin{})]byte{}
	_ [32]byte      = [unsafe.Offsetof(ttPin{}.noc)]byte{}
	_ [16]byte      = [unsafe.Sizeof(ttLock{})]byte{}
	_ [12]byte      = [unsafe.Offsetof(ttLock{}.value)]byte{}
	_ [48]byte      = [unsafe.Sizeof(ttAllocate{})]byte{}
	_ [24]byte      = [unsafe.Offsetof(ttAllocate{}.uncached)]byte{}
	_ [48]byte      = [unsafe.Sizeof(ttConfigure{})]byte{}
	_ [28]byte      = [unsafe.Offsetof(ttConfigure{}.staticVC)]byte{}
	_ [40]byte      = [unsafe.Sizeof(ttPower{})]byte{}
	_ [10]byte      = [unsafe.Offsetof(ttPower{}.flags)]byte{}
	_ [32]byte      = [unsafe.Sizeof(ttCleanup{})]byte{}
	_ [16]byte      = [unsafe.Offsetof(ttCleanup{}.address)]byte{}
)
