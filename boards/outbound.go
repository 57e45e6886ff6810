package boards

// This file programs the address translation through which tiles access host memory.

// OutboundTranslation describes the outbound address translation unit (iATU) of a device's PCIe
// controller. Tiles access host memory through addresses of the PCIe tile. The iATU has several
// regions. Each region translates a range of these addresses to bus addresses. A region is
// programmed with offsets: addresses of the PCIe tile minus NoCBase.
type OutboundTranslation struct {
	Bar           uint8  // number of the BAR that contains the registers of all regions
	Offset        uint64 // offset of the registers of region 0 in the BAR
	Stride        uint64 // distance in bytes between the registers of consecutive regions
	RegionCount   int    // number of regions
	NoCBase       uint64 // first address in the PCIe tile; regions translate addresses from here on
	OffsetMax     uint64 // largest offset from NoCBase that a region can translate
	RegionType    uint32 // value of the register region_ctrl_1 of an enabled region
	RegionControl uint32 // value of the register region_ctrl_2 of an enabled region

	// UpperLimitOffset is the offset of the register with the upper half of a region's limit,
	// relative to the first register of the region. It is 0 if the limit has only 32 bits.
	UpperLimitOffset uint64
}

// Offsets of a region's registers, relative to the first register of the region. Each register
// has 32 bits. Sources: Synopsys DesignWare PCIe, iATU; IATU_*_OUTBOUND in wormhole.c and
// blackhole.c of tt-kmd.
const (
	regionTypeOffset    = 0x00 // register region_ctrl_1
	regionControlOffset = 0x04 // register region_ctrl_2
	// Offset of the first of five consecutive registers: the lower and the upper half of the
	// region's first offset, the lower half of its last offset (the limit), and the lower and the
	// upper half of its bus address.
	regionBaseOffset = 0x08
)

// ProgramRegion programs one region of the address translation. Afterwards, tiles can access `size`
// bytes of host memory, which start at the bus address busAddress. Tiles access these bytes at the
// addresses of the PCIe tile from o.NoCBase + `offset` on. If `size` is 0, ProgramRegion only
// disables the region.
//
// ProgramRegion calls the function `store` for each store to a register. The parameter `register`
// of `store` is an offset in the BAR o.Bar. The region stays disabled until all its registers have
// their new values.
func (o *OutboundTranslation) ProgramRegion(region int, offset, size, busAddress uint64,
	store func(register uint64, value uint32)) {
	registers := o.Offset + uint64(region)*o.Stride
	// Disable the region.
	store(registers+regionControlOffset, 0)
	if size == 0 {
		return
	}
	// Store the first offset, the last offset and the bus address of the region.
	limit := offset + size - 1
	for i, value := range [...]uint64{offset, offset >> 32, limit, busAddress,
		busAddress >> 32} {
		store(registers+regionBaseOffset+4*uint64(i), uint32(value))
	}
	if o.UpperLimitOffset != 0 {
		store(registers+o.UpperLimitOffset, uint32(limit>>32))
	}
	// Enable the region.
	store(registers+regionTypeOffset, o.RegionType)
	store(registers+regionControlOffset, o.RegionControl)
}
