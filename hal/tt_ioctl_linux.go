//go:build !notiles && (backend_tt || !(backend_pci || backend_vfio))

package hal

// This file declares the ioctls and structs of API 2 of Tenstorrent's driver, from the file ioctl.h
// of tt-kmd. The compiler checks the sizes of the structs and the offsets of fields.

import "unsafe"

const (
	// Numbers of the ioctls. Each name corresponds to a name in ioctl.h: ttGetDeviceInfo, for
	// example, is TENSTORRENT_IOCTL_GET_DEVICE_INFO.
	ttGetDeviceInfo = 0xfa00
	ttQueryMappings = 0xfa02
	ttGetDriverInfo = 0xfa05
	ttPinPages      = 0xfa07
	ttLockControl   = 0xfa08
	ttAllocateTLB   = 0xfa0b
	ttConfigureTLB  = ProgramWindowRequest
	ttSetNoCCleanup = 0xfa0e
	ttSetPowerState = 0xfa0f

	ttPowerValidity = 15     // value of ttPower.validity: 15 flags and no settings are valid
	ttPowerAll      = 0x7fff // value of ttPower.flags: all 15 flags are set
	ttPowerClock    = 1 << 0 // bit of ttPower.flags: run the cores at the full clock

	ttPinNoC = 1 << 1 // bit of ttPin.flags: tiles must reach the memory over the NoC, their network
)

// ttDeviceInfo has the layout of struct tenstorrent_get_device_info. inSize is an input of the
// ioctl: the number of bytes after the field inSize that the driver may write. The same field
// exists in ttDriverInfo.
type ttDeviceInfo struct {
	inSize                uint32
	outSize               uint32
	vendor, device        uint16
	subvendor, subsystem  uint16
	busDevFn, dmaSizeLog2 uint16
	domain, reserved      uint16
}

// ttMapping has the layout of struct tenstorrent_mapping, which describes how to map one BAR. id is
// 1 or 2 for BAR 0, 3 or 4 for BAR 2, 5 or 6 for BAR 4, and 0 in an unused entry. A mapping with an
// odd id is uncached, and one with an even id is write-combining. base is the offset to pass to
// mmap.
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

// ttPin has the layout of struct tenstorrent_pin_pages with the extended output. outSize is an
// input of the ioctl: the number of output bytes that the driver may write, from the field bus on.
type ttPin struct {
	outSize, flags uint32
	address, size  uint64
	bus, noc       uint64 // output: addresses of the memory on the PCIe bus and on the NoC
}

// ttLock has the layout of struct tenstorrent_lock_ctl. outSize is an input of the ioctl: the
// number of output bytes that the driver may write, from the field value on.
type ttLock struct {
	outSize, flags uint32
	index          uint8
	reserved       [3]uint8
	value          uint8 // output: 1 if this program has acquired the lock, else 0
	reservedOut    [3]uint8
}

// ttAllocate has the layout of struct tenstorrent_allocate_tlb. id and all fields after it are
// outputs, which the driver sets.
type ttAllocate struct {
	size, reserved      uint64
	id, reserved0       uint32 // id: number of the TLB window
	uncached, combining uint64 // offsets for mmap, for an uncached or write-combining mapping
	reserved1           uint64
}

// ttConfigure has the layout of struct tenstorrent_configure_tlb, which describes the tiles and the
// address that a TLB window shows.
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

// ttPower has the layout of struct tenstorrent_power_state. argsz is the size of the struct.
type ttPower struct {
	argsz, reserved0    uint32
	reserved1, validity uint8
	flags               uint16
	settings            [14]uint16
}

// ttCleanup has the layout of struct tenstorrent_set_noc_cleanup, which describes the store that
// the driver makes when the process ends. argsz is the size of the struct.
type ttCleanup struct {
	argsz, flags  uint32
	enabled, x, y uint8
	noc           uint8
	reserved      uint32
	address, data uint64
}

// Each line assigns an array whose length is the size of a struct, or the offset of a field, to an
// array whose length is the size or offset in C. It does not compile if the two lengths differ.
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
