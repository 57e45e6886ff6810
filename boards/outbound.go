package boards

// OutboundTranslation describes the iATU of a PCIe controller, through which tiles access host
// memory. Regions translate offsets, addresses of the PCIe tile minus NoCBase, to bus addresses.
type OutboundTranslation struct {
	Bar           uint8
	Offset        uint64 // of the registers of region 0
	Stride        uint64 // in bytes, from one region to the next
	RegionCount   int
	NoCBase       uint64 // in the PCIe tile
	OffsetMax     uint64 // largest offset that a region can translate
	RegionType    uint32 // region_ctrl_1 of an enabled region
	RegionControl uint32 // region_ctrl_2 of an enabled region

	UpperLimitOffset uint64 // of the limit's upper half; 0: 32-bit limit
}

// Offsets of a region's registers, of 32 bits each. Sources: Synopsys DesignWare PCIe, iATU;
// tt-kmd, wormhole.c and blackhole.c, IATU_*_OUTBOUND.
const (
	regionTypeOffset    = 0x00 // region_ctrl_1
	regionControlOffset = 0x04 // region_ctrl_2
	regionBaseOffset    = 0x08 // first offset (2 registers), limit's lower half, bus address (2)
)

// ProgramRegion lets tiles access `size` bytes from busAddress on at o.NoCBase + offset. Size 0
// only disables the region. `register` is an offset in o.Bar. Until all other registers are set,
// the region stays disabled.
func (o *OutboundTranslation) ProgramRegion(region int, offset, size, busAddress uint64,
	store func(register uint64, value uint32)) {
	registers := o.Offset + uint64(region)*o.Stride
	store(registers+regionControlOffset, 0)
	if size == 0 {
		return
	}
	limit := offset + size - 1
	for i, value := range [...]uint64{offset, offset >> 32, limit, busAddress,
		busAddress >> 32} {
		store(registers+regionBaseOffset+4*uint64(i), uint32(value))
	}
	if o.UpperLimitOffset != 0 {
		store(registers+o.UpperLimitOffset, uint32(limit>>32))
	}
	store(registers+regionTypeOffset, o.RegionType)
	store(registers+regionControlOffset, o.RegionControl)
}
