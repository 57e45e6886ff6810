package hal

// API 2 of Tenstorrent's driver: ioctl.h of tt-kmd. Inputs of the structs: outputCapacity, the
// largest number of output bytes; argsz, the struct's size.

//lint:file-ignore U1000 the structs have all fields of C

import "unsafe"

const (
	// ttGetDeviceInfo is TENSTORRENT_IOCTL_GET_DEVICE_INFO, and so on.
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

	ttPowerValidity  = 15     // ttPowerRequest.validity: use 15 flags and no settings
	ttPowerAllFlags  = 0x7fff // ttPowerRequest.flags: all 15
	ttPowerClockFlag = 1 << 0 // bit of ttPowerRequest.flags: full clock for the cores

	// ttResetRequest.flags; tt-kmd 2.4.1 and later.
	ttResetASIC = 4 // ASIC_RESET: begin a reset
	ttResetEnd  = 6 // POST_RESET: set up the device after a reset

	ttPinNoCFlag = 1 << 1 // bit of ttPinRequest.flags: tiles can reach the pinned memory
)

// struct tenstorrent_get_device_info; output from outSize on. busDevFn: bus in bits 8 to 15, slot
// in bits 3 to 7, function in bits 0 to 2.
type ttDeviceInfo struct {
	outputCapacity        uint32
	outSize               uint32
	vendor, device        uint16
	subvendor, subsystem  uint16
	busDevFn, dmaSizeLog2 uint16
	domain, reserved      uint16
}

// struct tenstorrent_mapping. id: 1 and 2 are BAR 0, 3 and 4 BAR 2, 5 and 6 BAR 4; odd ids are
// uncached, even ids write-combining; 0 is unused. base: offset for mmap.
type ttMapping struct {
	id, reserved uint32
	base, size   uint64
}

// struct tenstorrent_query_mappings. count, an input: number of mappings.
type ttMappings struct {
	count, reserved uint32
	mappings        [6]ttMapping
}

// struct tenstorrent_get_driver_info; output from outSize on.
type ttDriverInfo struct {
	outputCapacity                uint32
	outSize, api                  uint32
	major, minor, patch, reserved uint8
}

// struct tenstorrent_reset_device; output from size on.
type ttResetRequest struct {
	outputCapacity, flags uint32
	size, result          uint32 // `result` is 0 if the reset succeeded
}

// struct tenstorrent_pin_pages with its extended output, from bus on.
type ttPinRequest struct {
	outputCapacity, flags uint32
	address, size         uint64
	bus, noc              uint64 // addresses of the memory on the PCIe bus and on the NoC
}

// struct tenstorrent_lock_ctl; output from value on. With the flags 0, the open file acquires the
// lock with the number `index`.
type ttLockRequest struct {
	outputCapacity, flags uint32
	index                 uint8
	reserved              [3]uint8
	value                 uint8 // 1 if this program has acquired the lock, else 0
	reservedOut           [3]uint8
}

// struct tenstorrent_allocate_tlb; output from window on.
type ttAllocateTLBRequest struct {
	size, reserved    uint64
	window, reserved0 uint32 // `window` is the number of the TLB window
	// of the TLB window in the driver's file, for the two kinds of mappings
	uncachedOffset, writeCombiningOffset uint64
	reserved1                            uint64
}

// struct tenstorrent_configure_tlb: what TLB window number `window` shows. The fields from noc to
// staticVC select the network and how it transports accesses. linked is always 0.
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

// struct tenstorrent_power_state.
type ttPowerRequest struct {
	argsz, reserved0    uint32
	reserved1, validity uint8
	flags               uint16
	settings            [14]uint16
}

// struct tenstorrent_set_noc_cleanup: when the process ends, the driver stores `data` to `address`
// of the tile (x, y).
type ttExitCleanupRequest struct {
	argsz, flags  uint32
	enabled, x, y uint8
	noc           uint8
	reserved      uint32
	address, data uint64
}

// Sizes and offsets, of C on the left, of Go on the right. If they differ, the line does not
// compile.
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
