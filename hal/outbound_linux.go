package hal

// Tiles access host memory at addresses of the chip's PCIe tile, which the address translation unit
// (iATU) of the PCIe controller translates to bus addresses, in a fixed number of regions. With
// `tt`, the driver programs it.

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
	// of the last region, in bytes from layout.NoCBase
	regionsEnd uint64
}

// outboundRegion makes tiles reach size bytes at busAddress, from NoCBase + offset on.
type outboundRegion struct{ offset, size, busAddress uint64 }

func (d *device) needsIATU() bool { return d.outbound.layout != nil }

// addIATURegion reserves a region, which programIATU programs later. Tiles will reach it at noc:
// fixedNoC, or if that is 0 an address that is the same in each load of an image. Such an address
// leaves at least a page unused after the previous region, so that an access beyond it reaches
// nothing.
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
		offset = fixedNoC - t.NoCBase // wraps to a very large number if fixedNoC < t.NoCBase
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

// programIATU makes tiles reach the image's Host windows and nothing else, or no host memory.
func (d *device) programIATU(enable bool) error {
	registers := d.outbound.registers
	if registers == nil {
		return nil
	}
	recovered := d.outbound.programRegions(enable)
	if recovered.Cause == nil {
		return nil
	}
	// Address 0 counts too: an arm64 processor need not report a fault's address. Any other panic
	// is a bug.
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
		var r outboundRegion // with the size 0, ProgramRegion disables the region
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
