package boards

// This file programs the address translation through which tiles reach host memory.

// Outbound describes the address translation (iATU) of a device's PCIe controller, through
// which tiles reach host memory. Tiles access host memory as addresses of the PCIe tile.
// Each region of the address translation maps a range of these addresses to bus addresses.
type Outbound struct {
	Bar     uint8  // number of the BAR with the registers of all regions
	Offset  uint64 // offset of the first region's registers in the BAR
	Stride  uint64 // bytes from the registers of one region to those of the next region
	Regions int    // number of regions
	NoC     uint64 // address in the PCIe tile at which offset 0 lies
	Last    uint64 // largest offset from NoC that a region may include
	Type    uint32 // value of the register region_ctrl_1 of an enabled region
	Control uint32 // value of the register region_ctrl_2 of an enabled region

	// UpperLimit is the offset of the register with the upper half of the limit, relative to
	// the first register of the region. It is 0 if the limit has only 32 bits.
	UpperLimit uint64
}

// Offsets of a region's registers, relative to the first of them. Each register has 32 bits
// (Synopsys DesignWare PCIe, iATU; tt-kmd wormhole.c and blackhole.c, IATU_*_OUTBOUND).
const (
	regionType    = 0x00
	regionControl = 0x04
	// Five registers: the lower and upper half of the first offset, the lower half of the last
	// offset (the limit), and the lower and upper half of the bus address.
	regionBase = 0x08
)

// ProgramRegion programs one region of the address translation. Tiles then reach size bytes
// of host memory from busAddress on, at the given offset from NoC. If size is 0,
// ProgramRegion only disables the region. It calls store for each register, in the order in
// which the registers must be stored. The region stays disabled until all of its registers
// have their new values.
func (o *Outbound) ProgramRegion(region int, offset, size, busAddress uint64,
	store func(register uint64, value uint32)) {
	registers := o.Offset + uint64(region)*o.Stride
	// Disable the region.
	store(registers+regionControl, 0)
	if size == 0 {
		return
	}
	// Store the first and last offset and the bus address.
	limit := offset + size - 1
	for i, value := range [...]uint64{offset, offset >> 32, limit, busAddress,
		busAddress >> 32} {
		store(registers+regionBase+4*uint64(i), uint32(value))
	}
	if o.UpperLimit != 0 {
		store(registers+o.UpperLimit, uint32(limit>>32))
	}
	// Enable the region.
	store(registers+regionType, o.Type)
	store(registers+regionControl, o.Control)
}
