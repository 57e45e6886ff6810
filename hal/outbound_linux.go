package hal

import (
	"golang.org/x/sys/unix"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// region is host memory as the tiles of a device see it, through its address
// translation. Tenstorrent's driver aims that itself; other lanes do so here.
type region struct{ offset, size, bus uint64 }

// show gives host memory at a bus address one that the device's tiles use. A
// page stays free after each, and all is the same in every run.
func (d *function) show(bus, size uint64) (noc uint64, err error) {
	o := d.outbound
	if d.translation.Size == 0 {
		if d.translation, err = d.mapBar(o.Bar, false, o.Offset, uint64(o.Regions)*o.Stride); err != nil {
			return 0, err
		}
	}
	offset := d.shownTo
	if len(d.shown) == o.Regions || offset > o.Last || size-1 > o.Last-offset {
		return 0, &Fault{NoDevice, d.identity.Name + fbs.Text(": no %x bytes are left of what the device's tiles see of host memory, or no region of %d; the image has too many, or too large, Host windows",
			size, uint64(o.Regions))}
	}
	d.shown = append(d.shown, region{offset, size, bus})
	d.shownTo = offset + size + uint64(unix.Getpagesize())
	return o.NoC + offset, nil
}

// translate has the tiles see host memory, and nothing that somebody else left
// there; or nothing at all.
func (d *function) translate(on bool) {
	if d.translation.Size == 0 {
		return
	}
	o := d.outbound
	for i := range o.Regions {
		var r region
		if on && i < len(d.shown) {
			r = d.shown[i]
		}
		o.Aim(i, r.offset, r.size, r.bus, func(register uint64, value uint32) {
			d.translation.do(fbs.Command{Opcode: gen.OpcodeWrite, Width: 4, Offset: uint32(register - o.Offset), Value: uint64(value)})
		})
	}
}
