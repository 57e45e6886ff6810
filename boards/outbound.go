package boards

// This file programs the address translation through which tiles reach host memory.

// Outbound describes the address translation (iATU) of a device's PCIe controller, through
// which tiles reach host memory. Tiles access host memory as addresses of the PCIe tile.
// The translation divides these addresses into regions, and each region has a bus address.
type Outbound struct {
	Bar        uint8  // of the registers
	Offset     uint64 // of the first region's registers in the BAR
	Stride     uint64 // bytes from one region's registers to the next's
	Regions    int
	NoC        uint64 // address of offset 0 as tiles see it
	Last       uint64 // largest offset in a region
	Type       uint32 // value of region_ctrl_1 for an enabled region
	Control    uint32 // value of region_ctrl_2 for an enabled region
	UpperLimit uint64 // register of the limit's upper half; 0 if limits have 32 bits
}

// Registers of a region, 32 bits each (Synopsys DesignWare PCIe, iATU; tt-kmd
// wormhole.c and blackhole.c, IATU_*_OUTBOUND).
const (
	regionType    = 0x00
	regionControl = 0x04
	// The lower and upper half of the first offset, the lower half of the limit, and the lower
	// and upper half of the bus address.
	regionBase = 0x08
)

// ProgramRegion makes tiles reach size bytes at a bus address through a region that starts
// at an offset from NoC. With size 0 it only disables the region. It calls store for each
// register in order. The region is disabled while its registers are partly old.
func (o *Outbound) ProgramRegion(region int, offset, size, bus uint64,
	store func(register uint64, value uint32)) {
	at := o.Offset + uint64(region)*o.Stride
	// Disable the region.
	store(at+regionControl, 0)
	if size == 0 {
		return
	}
	// Store the first and last offset and the bus address.
	limit := offset + size - 1
	for i, value := range [...]uint64{offset, offset >> 32, limit, bus, bus >> 32} {
		store(at+regionBase+4*uint64(i), uint32(value))
	}
	if o.UpperLimit != 0 {
		store(at+o.UpperLimit, uint32(limit>>32))
	}
	// Enable it.
	store(at+regionType, o.Type)
	store(at+regionControl, o.Control)
}
