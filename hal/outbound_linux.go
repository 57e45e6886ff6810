package hal

// This file programs the outbound translation of devices with tiles (Tenstorrent chips), for the
// backends `pci` and `vfio`. With the backend `tt`, Tenstorrent's driver programs the translation.
//
// The tiles of a chip access host memory at addresses of the chip's PCIe tile. The internal address
// translation unit (iATU) of the PCIe controller translates these addresses to bus addresses. The
// iATU has a fixed number of regions. Each region translates one range of addresses.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// outboundState is the state of the outbound translation of a device, from addresses that the
// tiles use for host memory to bus addresses.
type outboundState struct {
	// Layout of the iATU's registers, or nil if this program need not program an iATU.
	layout *boards.OutboundTranslation
	// Aperture of the registers of all regions, or nil if the registers are not mapped.
	registers *Aperture
	// Regions in use, in the order of their registers.
	regions []outboundRegion
	// End of the last region in use, in bytes from the address layout.NoCBase.
	regionsEnd uint64
}

// outboundRegion describes one region of the iATU. Through the region, tiles reach `size` bytes of
// host memory at the bus address busAddress. Tiles access the first of these bytes at the address
// boards.OutboundTranslation.NoCBase + `offset`.
type outboundRegion struct{ offset, size, busAddress uint64 }

// needsIATU reports whether this program must program the device's outbound translation.
func (d *device) needsIATU() bool { return d.outbound.layout != nil }

// addIATURegion reserves a region for `size` bytes of host memory at the given bus address. Later,
// programIATU programs the region. The result `noc` is the address at which the tiles will reach
// the first byte: fixedNoC, or an address that addIATURegion chooses if fixedNoC is 0. It chooses
// the same addresses each time the same image is loaded.
//
// When addIATURegion chooses the address, it leaves at least one page unused after the previous
// region, so that an access beyond the end of that region reaches no memory.
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

// programIATU programs all regions of the outbound translation. If `enable` is true, it enables the
// reserved regions and disables the others, so that the tiles reach the Host windows of the image
// and no other host memory. If `enable` is false, it disables all regions, so that the tiles reach
// no host memory. programIATU returns an error if a store faults because the device is gone.
func (d *device) programIATU(enable bool) error {
	registers := d.outbound.registers
	if registers == nil {
		return nil
	}
	recovered := d.outbound.programRegions(enable)
	if recovered.Cause == nil {
		return nil
	}
	// If a store to the registers faulted, the device is the cause. Any other panic is a bug in
	// this program. The address 0 also means a store to the registers: an arm64 processor need not
	// report the address of a fault, and the address is then 0.
	code := Internal
	if recovered.FaultedIn(registers.Base, registers.Size) || recovered.FaultedIn(0, 1) {
		code = BusFault
	}
	return d.fault(code,
		"a store to address translation registers failed; reset the device")
}

// programRegions makes the stores of programIATU. If a store faults, programRegions stops and
// returns the panic.
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
