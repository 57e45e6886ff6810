//go:build !notiles

package hal

// Outbound translation: tiles of a device reach host memory through regions of its PCIe
// controller (iATU). Tenstorrent's driver programs them for tt:, this file does for pci: and
// vfio:.

import (
	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// outbound is the translation of a device and the host memory that its tiles reach.
type outbound struct {
	translation *boards.Outbound // nil if the device uses bus addresses as they are
	registers   *Aperture        // of all regions, nil if not mapped
	regions     []outboundRegion
	next        uint64 // offset at which the next region may begin
}

// outboundRegion shows size bytes at a bus address to the tiles, at an offset.
type outboundRegion struct{ offset, size, bus uint64 }

// hasOutbound reports whether this program translates addresses for the device's tiles.
func (d *device) hasOutbound() bool { return d.outbound.translation != nil }

// addOutboundRegion returns the address at which tiles reach host memory at a bus address. A page
// stays free after each region, and the addresses are the same in every run.
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
		return 0, d.fault(NoDevice, fbs.Text("tiles have no address left for %x bytes of host "+
			"memory (%d regions); the image has too many, or too large, Host windows",
			size, uint64(t.Regions)))
	}
	o.regions = append(o.regions, outboundRegion{offset, size, bus})
	o.next = offset + size + pageSize()
	return t.NoC + offset, nil
}

// programOutbound programs the translation: tiles reach the Host windows of the image and nothing
// that another program left there, or nothing at all. The registers may be gone with the device:
// a store that faults is an error.
func (d *device) programOutbound(on bool) error {
	registers := d.outbound.registers
	if registers == nil {
		return nil
	}
	ended := d.outbound.program(on)
	if ended.Cause == nil {
		return nil
	}
	code := Internal
	if ended.FaultedIn(registers.Base, registers.Size) || ended.FaultedIn(0, 1) {
		code = BusFault
	}
	return d.fault(code,
		"a store to the registers of its address translation failed; reset the device")
}

// program stores to the registers of all regions, and returns the panic that ended it.
func (o *outbound) program(on bool) (ended Panic) {
	defer Recover(PanicOnFault(true), &ended)
	t := o.translation
	for i := range t.Regions {
		var r outboundRegion // of size 0, which disables the hardware's
		if on && i < len(o.regions) {
			r = o.regions[i]
		}
		t.ProgramRegion(i, r.offset, r.size, r.bus, func(register uint64, value uint32) {
			o.registers.executeOne(fbs.Command{Opcode: gen.OpcodeWrite, Width: 4,
				Offset: uint32(register - t.Offset), Value: uint64(value)})
		})
	}
	return ended
}

// unmapOutbound forgets the registers, which Close has unmapped.
func (d *device) unmapOutbound() { d.outbound.registers = nil }
