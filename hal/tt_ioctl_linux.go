//go:build !notiles && (backend_tt || !(backend_pci || backend_vfio))

package hal

// The ioctl requests and structs of API 2 of Tenstorrent's driver, from ioctl.h of tt-kmd. The
// compiler checks the sizes of the structs and offsets of their fields.

import "unsafe"

const (
	// The requests are named after those in ioctl.h: ttGetDeviceInfo, for example, is
	// TENSTORRENT_IOCTL_GET_DEVICE_INFO.
	ttGetDeviceInfo = 0xfa00
	ttQueryMappings = 0xfa02
	ttGetDriverInfo = 0xfa05
	ttPinPages      = 0xfa07
	ttLockControl   = 0xfa08
	ttAllocateTLB   = 0xfa0b
	ttConfigureTLB  = ProgramWindowRequest
	ttSetNoCCleanup = 0xfa0e
	ttSetPowerState = 0xfa0f

	ttPowerFlags = 15     // value of ttPower.validity: all 15 flags are valid
	ttPowerAll   = 0x7fff // value of ttPower.flags: all flags are set
	ttPowerClock = 1 << 0 // bit of ttPower.flags: run the Tensix cores at the full clock

	ttPinNoC = 1 << 1 // bit of ttPin.flags: tiles must reach the memory over the NoC
)

// ttDeviceInfo has the layout of struct tenstorrent_get_device_info. inSize is the number of bytes
// that the driver may write to the fields after inSize, here and in ttDriverInfo.
type ttDeviceInfo struct {
	inSize                uint32
	outSize               uint32
	vendor, device        uint16
	subvendor, subsystem  uint16
	busDevFn, dmaSizeLog2 uint16
	domain, reserved      uint16
}

// ttMapping has the layout of struct tenstorrent_mapping. id is 1 or 2 for BAR 0, 3 or 4 for BAR 2,
// 5 or 6 for BAR 4, and 0 in an unused entry. Odd ids are uncached mappings, even ids
// write-combining ones. base is the offset for mmap.
type ttMapping struct {
	id, reserved uint32
	base, size   uint64
}

// ttMappings has the layout of struct tenstorrent_query_mappings with room for six mappings.
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

// ttPin has the layout of struct tenstorrent_pin_pages, with the extended output. outSize is the
// number of bytes that the driver may write to the fields of the output, here and in ttLock.
type ttPin struct {
	outSize, flags uint32
	address, size  uint64
	bus, noc       uint64 // the driver sets the addresses of the memory on the bus and on the NoC
}

// ttLock has the layout of struct tenstorrent_lock_ctl.
type ttLock struct {
	outSize, flags uint32
	index          uint8
	reserved       [3]uint8
	value          uint8 // the driver sets 1 if this program has acquired the lock, else 0
	reservedOut    [3]uint8
}

// ttAllocate has the layout of struct tenstorrent_allocate_tlb. The driver sets id and all fields
// after it.
type ttAllocate struct {
	size, reserved      uint64
	id, reserved0       uint32 // id is the number of the TLB window
	uncached, combining uint64 // offsets for mmap: the window uncached, and write-combining
	reserved1           uint64
}

// ttConfigure has the layout of struct tenstorrent_configure_tlb.
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

// ttPower has the layout of struct tenstorrent_power_state.
type ttPower struct {
	argsz, reserved0    uint32
	reserved1, validity uint8
	flags               uint16
	settings            [14]uint16
}

// ttCleanup has the layout of struct tenstorrent_set_noc_cleanup.
type ttCleanup struct {
	argsz, flags  uint32
	enabled, x, y uint8
	noc           uint8
	reserved      uint32
	address, data uint64
}

// Each line fails to compile if the size of a struct, or the offset of a field, differs from the
// size or offset in C.
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
