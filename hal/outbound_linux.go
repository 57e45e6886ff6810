package hal

// Tiles access host memory at addresses of the chip's PCIe tile. The address translation unit
// (iATU) of the PCIe controller translates them to bus addresses, in a fixed number of regions.
// With `tt`, the driver programs the iATU.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

type outboundState struct {
	// nil: this program need not program an iATU
	layout *boards.OutboundTranslation
	// nil: not mapped
	registers *Aperture
	// in the order of their registers
	regions []outboundRegion
	// end of the last region, in bytes from layout.NoCBase
	regionsEnd uint64
}

// outboundRegion lets tiles reach the `size` bytes at busAddress, from NoCBase + `offset` on.
type outboundRegion struct{ offset, size, busAddress uint64 }

func (d *device) needsIATU() bool { return d.outbound.layout != nil }

// addIATURegion reserves a region, which programIATU programs later. `noc` is the address at which
// tiles will reach the region: fixedNoC, or if that is 0, an address that is the same in each load
// of an image. In the second case, at least a page before the region stays unused, so that an
// access beyond the previous region reaches nothing.
func (d *device) addIATURegion(bus, size, fixedNoC uint64) (noc uint64, err error) {
	o, t := &d.outbound, d.outbound.layout
	if o.registers == nil {
		o.registers, err = d.mapBar(t.Bar, false, t.Offset, uint64(t.RegionCount)*t.Stride)
		if err != nil {
			return 0, err
		}
	}
	offset := uint64(0)
	switch {
	case fixedNoC != 0:
		offset = fixedNoC - t.NoCBase // very large if fixedNoC < t.NoCBase
		if offset < o.regionsEnd || offset > t.OffsetMax || size-1 > t.OffsetMax-offset {
			const text = "cannot map %x bytes of host memory at %x for the tiles: " +
				"only the addresses %x to %x are free"
			return 0, d.fault(NoDevice,
				fbs.Text(text, size, fixedNoC, t.NoCBase+o.regionsEnd, t.NoCBase+t.OffsetMax))
		}
	case o.regionsEnd != 0:
		offset = fbs.RoundUp(o.regionsEnd, pageSize()) + pageSize()
	}
	reason := ""
	switch {
	case len(o.regions) == t.RegionCount:
		reason = "no iATU region is free; use fewer host windows"
	case offset > t.OffsetMax || size-1 > t.OffsetMax-offset:
		reason = "too few addresses are free; use smaller host windows"
	}
	if reason != "" {
		const text = "cannot map %d bytes of host memory for the tiles: "
		return 0, d.fault(NoDevice, fbs.Text(text, size)+reason)
	}
	o.regions = append(o.regions, outboundRegion{offset, size, bus})
	o.regionsEnd = offset + size
	return t.NoCBase + offset, nil
}

// programIATU lets tiles reach only the image's Host windows; without `enable`, no host memory.
func (d *device) programIATU(enable bool) error {
	registers := d.outbound.registers
	if registers == nil {
		return nil
	}
	recovered := d.outbound.programRegions(enable)
	if recovered.Cause == nil {
		return nil
	}
	// A fault at address 0 counts as one of the registers: an arm64 processor need not report the
	// address. Any other panic is a bug.
	code := Internal
	if recovered.FaultedIn(registers.Base, registers.Size) || recovered.FaultedIn(0, 1) {
		code = BusFault
	}
	return d.fault(code, "a store to address translation registers failed; reset the device")
}

func (o *outboundState) programRegions(enable bool) (recovered Panic) {
	defer Recover(SetPanicOnFault(true), &recovered)
	t := o.layout
	for i := range t.RegionCount {
		var r outboundRegion // size 0: ProgramRegion disables the region
		if enable && i < len(o.regions) {
			r = o.regions[i]
		}
		t.ProgramRegion(i, r.offset, r.size, r.busAddress, func(register uint64, value uint32) {
			o.registers.executeOne(fbs.Command{Opcode: gen.OpcodeWrite, Width: 4,
				Offset: uint32(register - t.Offset), Value: uint64(value)})
		})
	}
	return recovered
}
