package mock

// The outbound translation (iATU) of devices with tiles translates addresses that tiles use to bus
// addresses of host memory.

// regionEnabled is the bit of region_ctrl_2 that enables a region (tt-kmd, REGION_EN).
const regionEnabled = 1 << 31

// busAddress returns the bus address of the `size` bytes that tiles access at the address `noc`.
// `ok` is false unless one enabled region of the translation contains all these bytes. The offsets
// of the registers are those of boards.OutboundTranslation.ProgramRegion.
func (d *Device) busAddress(noc, size uint64) (bus uint64, ok bool) {
	o := d.board.Outbound
	register := func(region int, at uint64) uint64 {
		value, _ := d.model.Load(Place{Bar: o.Bar,
			Address: o.Offset + uint64(region)*o.Stride + at}, 4)
		return value
	}
	offset := noc - o.NoCBase
	for i := range o.RegionCount {
		if register(i, 4)&regionEnabled == 0 || register(i, 0) != uint64(o.RegionType) {
			continue
		}
		base, limit := register(i, 0x08)|register(i, 0x0c)<<32, register(i, 0x10)
		if o.UpperLimitOffset != 0 {
			limit |= register(i, o.UpperLimitOffset) << 32
		}
		if offset >= base && offset <= limit && size-1 <= limit-offset {
			return register(i, 0x14) | register(i, 0x18)<<32 + offset - base, true
		}
	}
	return 0, false
}
