//go:build backend_tt || !(backend_pci || backend_vfio)

package hal

// Tenstorrent's driver, API 2 (tt-kmd ioctl.h).
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

	ttPowerFlags = 15     // ttPower.validity: so many flags count, all there can be
	ttPowerAll   = 0x7fff // ttPower.flags
	ttPowerClock = 1 << 0 // of the Tensix cores: high

	ttPinNoC = 1 << 1 // ttPin.flags: over the NoC too
)

type ttDeviceInfo struct {
	inSize                uint32 // bytes of what follows
	outSize               uint32
	vendor, device        uint16
	subvendor, subsystem  uint16
	busDevFn, dmaSizeLog2 uint16
	domain, reserved      uint16
}

type ttMapping struct {
	id, reserved uint32 // 1, 3, 5: BAR 0, 2, 4 uncached; one more: write-combining; 0: none
	base, size   uint64
}

type ttMappings struct {
	count, reserved uint32
	mappings        [6]ttMapping
}

type ttDriverInfo struct {
	inSize                        uint32
	outSize, api                  uint32
	major, minor, patch, reserved uint8
}

type ttPin struct {
	outSize, flags uint32
	address, size  uint64
	bus, noc       uint64 // out
}

type ttLock struct {
	outSize, flags uint32
	index          uint8
	reserved       [3]uint8
	value          uint8 // out: 1 acquired
	reservedOut    [3]uint8
}

type ttAllocate struct {
	size, reserved      uint64
	id, reserved0       uint32 // out, and all below
	uncached, combining uint64 // mmap offsets
	reserved1           uint64
}

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

type ttPower struct {
	argsz, reserved0    uint32
	reserved1, validity uint8
	flags               uint16
	settings            [14]uint16
}

type ttCleanup struct {
	argsz, flags  uint32
	enabled, x, y uint8
	noc           uint8
	reserved      uint32
	address, data uint64
}
