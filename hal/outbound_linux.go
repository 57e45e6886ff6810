//go:build !notiles

package hal

// Outbound translation: the PCIe controller of a device translates addresses of the tiles to bus
// addresses of host memory, in regions (iATU). This file programs the regions for pci: and vfio:.
// For tt: Tenstorrent's driver programs them.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// outbound is the outbound translation of a device and the list of its regions.
type outbound struct {
	translation *boards.Outbound // layout of the registers; nil: this program translates nothing
	registers   *Aperture        // registers of all regions; nil if they are not mapped
	regions     []outboundRegion // regions in use, in the order of their registers
	next        uint64           // lowest offset at which the next region may begin
}

// outboundRegion makes size bytes of host memory at the bus address bus accessible to the tiles.
// offset is the first byte's address for the tiles, relative to the start of all regions.
type outboundRegion struct{ offset, size, bus uint64 }

// hasOutbound reports whether this program has to program the device's outbound translation.
func (d *device) hasOutbound() bool { return d.outbound.translation != nil }

// addOutboundRegion reserves a region for size bytes of host memory at the given bus address. It
// returns noc, the address at which the tiles reach the first byte. Regions begin at the same
// addresses in every run, and at least one page between two regions stays unused.
func (d *device) addOutboundRegion(bus, size uint64) (noc uint64, err error) {
	o, t := &d.outbound, d.outbound.translation
	if o.registers == nil {
		o.registers, err = d.mapBar(t.Bar, false, t.Offset, uint64(t.Regions)*t.Stride)
		if err != nil {
			return 0, err
		}
	}
	offset := o.next
	if len(o.regions) == t.Regions || offset > t.Last || size-1 > t.Last-offset {
		return 0, d.fault(NoDevice, fbs.Text("cannot show %d bytes of host memory to the tiles: "+
			"all %d regions or all addresses are in use; use fewer or smaller Host windows",
			size, uint64(t.Regions)))
	}
	o.regions = append(o.regions, outboundRegion{offset, size, bus})
	o.next = offset + size + pageSize()
	return t.NoC + offset, nil
}

// programOutbound stores to the registers of all regions. If enable is set, the tiles then reach
// the Host windows of the image and no memory of another program. Otherwise they reach no memory.
// If the device is gone, a store faults, and programOutbound returns an error.
func (d *device) programOutbound(enable bool) error {
	registers := d.outbound.registers
	if registers == nil {
		return nil
	}
	recovered := d.outbound.storeRegions(enable)
	if recovered.Cause == nil {
		return nil
	}
	code := Internal
	// Address 0 stands for an unknown address: arm64 processors need not report it.
	if recovered.FaultedIn(registers.Base, registers.Size) || recovered.FaultedIn(0, 1) {
		code = BusFault
	}
	return d.fault(code,
		"a store to address translation registers failed; reset the device")
}

// storeRegions stores to the registers of all regions: the regions in use if enable is set, and
// disabled regions otherwise. It returns the panic of a store that faulted.
func (o *outbound) storeRegions(enable bool) (recovered Panic) {
	defer Recover(PanicOnFault(true), &recovered)
	t := o.translation
	for i := range t.Regions {
		var r outboundRegion // a region of size 0, which ProgramRegion disables
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

// unmapOutbound clears the pointer to the registers, which Close has already unmapped.
func (d *device) unmapOutbound() { d.outbound.registers = nil }
