package boards

// Outbound is the address translation of a PCIe controller (iATU) by which the
// tiles of a device reach host memory: they see it behind the PCIe tile, and
// regions of that say where on the bus it is.
type Outbound struct {
	Bar        uint8
	Offset     uint64 // of the first region's registers in the BAR
	Stride     uint64 // bytes from one region's registers to the next's
	Regions    int
	NoC        uint64 // address that a tile sees offset 0 at
	Last       uint64 // offset that a region may reach to
	Type       uint32 // region_ctrl_1 of a region that is enabled
	Control    uint32 // region_ctrl_2 of one
	UpperLimit uint64 // register of the limit's upper half, 0: limits have 32 bits
}

// Registers of a region, 32 bits each (Synopsys DesignWare PCIe, iATU; tt-kmd
// wormhole.c and blackhole.c, IATU_*_OUTBOUND).
const (
	regionType    = 0x00
	regionControl = 0x04
	regionBase    = 0x08 // lower and upper half, then lower half of the limit, both of the target
)

// Aim makes the stores that have a region show size bytes at a bus address to
// tiles, at an offset from NoC; with size 0, the store that has it show nothing.
// A region is never enabled with registers of two meanings.
func (o *Outbound) ProgramRegion(region int, offset, size, bus uint64,
	store func(register uint64, value uint32)) {
	at := o.Offset + uint64(region)*o.Stride
	store(at+regionControl, 0)
	if size == 0 {
		return
	}
	limit := offset + size - 1
	for i, value := range [...]uint64{offset, offset >> 32, limit, bus, bus >> 32} {
		store(at+regionBase+4*uint64(i), uint32(value))
	}
	if o.UpperLimit != 0 {
		store(at+o.UpperLimit, uint32(limit>>32))
	}
	store(at+regionType, o.Type)
	store(at+regionControl, o.Control)
}
