//go:build !notiles

package hal

// This file programs the outbound translation of devices with tiles (Tenstorrent chips), for the
// backends `pci` and `vfio`. With the backend `tt`, Tenstorrent's driver programs it.
//
// The tiles of a chip access host memory at addresses of the chip's PCIe tile. The internal address
// translation unit (iATU) of the PCIe controller translates these addresses to bus addresses. The
// iATU has a fixed number of regions. Each region translates one range of addresses.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// outboundTranslation is the outbound translation of a device: it translates the addresses at which
// tiles access host memory to bus addresses.
type outboundTranslation struct {
	layout     *boards.OutboundTranslation // layout of the registers; nil: not needed
	registers  *Aperture                   // registers of all regions; nil if they are not mapped
	regions    []outboundRegion            // regions in use, in the order of their registers
	regionsEnd uint64                      // offset from NoCBase of the byte after all regions
}

// outboundRegion describes one region, through which tiles reach `size` bytes of host memory at the
// bus address `bus`. Tiles access the first of these bytes at the address
// boards.OutboundTranslation.NoCBase + `offset`.
type outboundRegion struct{ offset, size, bus uint64 }

// mustProgramIATU reports whether this program must program the device's outbound translation.
func (d *device) mustProgramIATU() bool { return d.outbound.layout != nil }

// addIATURegion reserves a region for `size` bytes of host memory at the given bus address. It
// does not program the region; programIATU does that later. addIATURegion returns `noc`, the
// address at which the tiles will reach the first byte. This address is fixedNoC. If fixedNoC is 0,
// addIATURegion chooses the address, and leaves at least one page unused after the previous region.
// An access beyond the end of the previous region then reaches no memory. If an image is loaded
// again, its regions get the same addresses again.
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
		offset = fixedNoC - t.NoCBase // a very large number if fixedNoC is below t.NoCBase
		if offset < o.regionsEnd || offset > t.OffsetMax || size-1 > t.OffsetMax-offset {
			const text = "cannot map %x bytes of host memory at %x for the tiles: only the " +
				"addresses %x to %x are free"
			return 0, d.fault(NoDevice,
				fbs.Text(text, size, fixedNoC, t.NoCBase+o.regionsEnd, t.NoCBase+t.OffsetMax))
		}
	case o.regionsEnd != 0:
		offset = fbs.RoundUp(o.regionsEnd, pageSize()) + pageSize()
	}
	reason := ""
	switch {
	case len(o.regions) == t.RegionCount:
		reason = "all regions are in use; use fewer host windows"
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

// programIATU programs all regions of the outbound translation. If `enable` is true, it enables
// the reserved regions and disables the others: the tiles then reach the Host windows of the image
// and no other host memory. If `enable` is false, it disables all regions: the tiles then reach no
// host memory. If a store faults because the device is gone, programIATU returns an error.
func (d *device) programIATU(enable bool) error {
	registers := d.outbound.registers
	if registers == nil {
		return nil
	}
	recovered := d.outbound.programRegions(enable)
	if recovered.Cause == nil {
		return nil
	}
	// A fault at the registers is a fault of the device. Any other panic is a bug in this program.
	// A fault at address 0 is also a fault of the device: arm64 permits a processor not to report
	// the address of a fault, and the address is then 0.
	code := Internal
	if recovered.FaultedIn(registers.Base, registers.Size) || recovered.FaultedIn(0, 1) {
		code = BusFault
	}
	return d.fault(code,
		"a store to address translation registers failed; reset the device")
}

// programRegions stores to the registers of all regions, in the way that the comment on
// programIATU describes. If a store faults, programRegions stops and returns the panic.
func (o *outboundTranslation) programRegions(enable bool) (recovered Panic) {
	defer Recover(SetPanicOnFault(true), &recovered)
	t := o.layout
	for i := range t.RegionCount {
		var r outboundRegion // size 0: ProgramRegion disables the region
		if enable && i < len(o.regions) {
			r = o.regions[i]
		}
		t.ProgramRegion(i, r.offset, r.size, r.bus, func(register uint64, value uint32) {
			o.registers.executeOne(fbs.Command{Opcode: gen.OpcodeWrite, Width: 4,
				Offset: uint32(register - t.Offset), Value: uint64(value)})
		})
	}
	return recovered
}

// clearIATURegisters clears the pointer to the registers. Close unmaps the registers and then calls
// clearIATURegisters.
func (d *device) clearIATURegisters() { d.outbound.registers = nil }
