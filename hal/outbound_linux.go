package hal

import (
	"golang.org/x/sys/unix"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// region is host memory as the tiles of a device see it, through its address
// translation. Tenstorrent's driver aims that itself; other lanes do so here.
type outboundRegion struct{ offset, size, bus uint64 }

// show gives host memory at a bus address one that the device's tiles use. A
// page stays free after each, and all is the same in every run.
func (d *function) addOutboundRegion(bus, size uint64) (noc uint64, err error) {
	o := d.outbound
	if d.outboundRegisters.Size == 0 {
		if d.outboundRegisters, err = d.mapBar(o.Bar, false, o.Offset,
			uint64(o.Regions)*o.Stride); err != nil {
			return 0, err
		}
	}
	offset := d.nextOutbound
	if len(d.outboundRegions) == o.Regions || offset > o.Last || size-1 > o.Last-offset {
		return 0, NewFault(NoDevice, d.identity.Name+
			fbs.Text(": no %x bytes are left of what the device's tiles see of host memory, or "+
				"no region of %d; the image has too many, or too large, Host windows",
				size, uint64(o.Regions)))
	}
	d.outboundRegions = append(d.outboundRegions, outboundRegion{offset, size, bus})
	d.nextOutbound = offset + size + uint64(unix.Getpagesize())
	return o.NoC + offset, nil
}

// programOutbound programs the translation, so that tiles reach the Host windows of the image
// and nothing that another program left there, or nothing at all. The registers may be gone
// with the device: a store that faults is an error.
func (d *function) programOutbound(on bool) error {
	a := &d.outboundRegisters
	if a.Size == 0 {
		return nil
	}
	ended := d.storeOutbound(on)
	if ended.Cause == nil {
		return nil
	}
	code := Internal
	if ended.In(a.Base, a.Size) || ended.In(0, 1) {
		code = BusFault
	}
	return NewFault(code, d.identity.Name+
		": a store to the registers of its address translation failed; reset the device")
}

// storeOutbound stores to the registers of all regions, and returns the panic that ended it.
func (d *function) storeOutbound(on bool) (ended Panic) {
	defer Recover(PanicOnFault(true), &ended)
	o := d.outbound
	for i := range o.Regions {
		var r outboundRegion
		if on && i < len(d.outboundRegions) {
			r = d.outboundRegions[i]
		}
		o.ProgramRegion(i, r.offset, r.size, r.bus, func(register uint64, value uint32) {
			d.outboundRegisters.executeOne(fbs.Command{Opcode: gen.OpcodeWrite, Width: 4,
				Offset: uint32(register - o.Offset), Value: uint64(value)})
		})
	}
	return ended
}
