package mock

import (
	"fmt"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/hal"
)

// configSize is that of the configuration space of a PCI Express function.
const configSize = 4096

// Op is what an access does.
type Op uint8

const (
	Load  Op = 1
	Store Op = 2
	point Op = 3 // only in refusals
)

func (o Op) String() string {
	return [...]string{Load: "load", Store: "store", point: "point"}[o]
}

// access is one load or store as it comes to the front of the device.
type access struct {
	op      Op
	width   uint8
	bar     uint8
	offset  uint64 // in the BAR
	outside bool   // not inside the aperture it came through
}

// port is an aperture's way to the device.
type port struct {
	d    *Device
	bar  uint8
	base uint64 // of the aperture in the BAR
	size uint64
}

func (p *port) Load(offset uint64, width uint8) (uint64, hal.Code) {
	return p.d.load(p.access(Load, offset, width))
}

func (p *port) Store(offset uint64, width uint8, value uint64) hal.Code {
	return p.d.store(p.access(Store, offset, width), value)
}

func (p *port) access(op Op, offset uint64, width uint8) access {
	outside := uint64(width) > p.size || offset > p.size-uint64(width)
	return access{op: op, bar: p.bar, offset: p.base + offset, width: width, outside: outside}
}

func (d *Device) load(at access) (uint64, hal.Code) {
	if c := d.begin(at); c != hal.OK {
		return 0, c
	}
	if d.gone {
		return fbs.WidthMask(at.width), hal.OK
	}
	if c := d.check(at); c != hal.OK {
		return 0, c
	}
	h := d.hit(at)
	if h.configures && d.hardware {
		return chips.LoadRegister(&d.windows[h.slot].words, h.inside, at.width), hal.OK
	}
	place, c := d.locate(h, at)
	if c != hal.OK {
		return 0, c
	}
	value, c := d.behind(place).Load(place, at.width)
	if c != hal.OK {
		return 0, d.explain(c)
	}
	value = d.stick(place, at.width, value)
	return value, d.record(Access{Load, place, at.width, value})
}

// hit is what an access means: the configuration of a window, what a window
// shows, or neither.
type hit struct {
	configures, window bool
	slot               int    // of the window
	inside             uint64 // bytes into its configuration, or into what it shows
	place              Place  // of neither
}

func (d *Device) hit(at access) (h hit) {
	bar, offset := chips.Of(d.board).Unalias(at.bar, at.offset)
	h.place = Place{Bar: bar, Address: offset}
	if l := d.board.TLB; l != nil && bar != ConfigSpace {
		if h.slot, h.inside, h.configures = chips.Config(l, bar, offset); !h.configures {
			h.slot, h.inside, h.window = chips.Slot(l, bar, offset)
		}
	}
	return h
}

// locate is where a load goes. Configuration registers cannot be read: the
// simulator has no loads of them (ttsim v1.10.0 src/libttsim.cpp,
// pci_mem_rd_cur). Neither can a rectangle of tiles.
func (d *Device) locate(h hit, at access) (Place, hal.Code) {
	switch {
	case h.configures:
		return Place{}, d.refuse("the configuration of window %d cannot be read", h.slot)
	case !h.window:
		return d.direct(h.place, at, 0)
	}
	w, c := d.aim(h.slot)
	if c != hal.OK {
		return Place{}, c
	}
	if w.target.Multicast {
		return Place{},
			d.refuse("window %d is a multicast to (%d,%d)-(%d,%d), which cannot be read",
				h.slot, w.first.X, w.first.Y, w.last.X, w.last.Y)
	}
	if c := d.checkClosed(h.slot, w.target, w.address+h.inside, uint64(at.width)); c != hal.OK {
		return Place{}, c
	}
	return d.tilePlace(w.last, w.address+h.inside, at, 0)
}

func (d *Device) store(at access, value uint64) hal.Code {
	if c := d.begin(at); c != hal.OK || d.gone {
		return c
	}
	if c := d.check(at); c != hal.OK {
		return c
	}
	value &= fbs.WidthMask(at.width)
	h := d.hit(at)
	switch {
	case h.configures:
		return d.configure(h.slot, h.inside, at.width, value)
	case h.window:
		return d.storeTiles(h.slot, h.inside, at, value)
	}
	place, c := d.direct(h.place, at, value)
	if c != hal.OK {
		return c
	}
	return d.storeAt(place, at.width, value)
}

// storeTiles stores to each tile a window points at. A multicast leaves out
// the tiles in its rectangle that are not Tensix (ttsim v1.10.0
// src/libttsim.cpp, tlb_window_write).
func (d *Device) storeTiles(slot int, inside uint64, at access, value uint64) hal.Code {
	w, c := d.aim(slot)
	if c != hal.OK {
		return c
	}
	if c := d.checkClosed(slot, w.target, w.address+inside, uint64(at.width)); c != hal.OK {
		return c
	}
	for y := w.first.Y; y <= w.last.Y; y++ {
		for x := w.first.X; x <= w.last.X; x++ {
			tile := chips.Tile{X: x, Y: y}
			if w.target.Multicast && chips.Of(d.board).Grid.Kind(tile) != chips.Tensix {
				continue
			}
			place, c := d.tilePlace(tile, w.address+inside, at, value)
			if c != hal.OK {
				return c
			}
			if c := d.storeAt(place, at.width, value); c != hal.OK {
				return c
			}
		}
	}
	return hal.OK
}

func (d *Device) storeAt(place Place, width uint8, value uint64) hal.Code {
	if c := d.behind(place).Store(place, width, value); c != hal.OK {
		return d.explain(c)
	}
	if c := d.record(Access{Store, place, width, value}); c != hal.OK {
		return c
	}
	d.arc.stored(place, value)
	return hal.OK
}

// behind is what answers at a place: the device's own configuration space, or the model.
func (d *Device) behind(place Place) Model {
	if !place.Tile && place.Bar == ConfigSpace {
		return d.config
	}
	if d.forDriver(place) {
		return &d.driver
	}
	return d.model
}

// begin counts an operation, lets its time pass and has it fail if that is its fate.
func (d *Device) begin(at access) hal.Code {
	d.at = at
	d.operations++
	d.Sleep(accessNs)
	for i := range d.faults {
		switch f := &d.faults[i]; {
		case f.Kind == AllOnes && d.operations >= f.Operation:
			d.gone = true
		case f.Kind == BusFault && d.operations == f.Operation:
			return hal.BusFault
		}
	}
	return hal.OK
}

// check holds an access against everything that does not depend on where the windows point.
func (d *Device) check(at access) hal.Code {
	width := uint64(at.width)
	switch {
	case d.closed:
		return d.refuse("the device is closed")
	case width != 1 && width != 2 && width != 4 && width != 8:
		return d.refuse("a width of %d bytes does not exist", width)
	case at.outside:
		return d.refuse("outside the aperture")
	case at.bar == ConfigSpace:
		return d.checkWidth(at, 1|2|4, "configuration space")
	case at.bar == hostMemory:
		return d.checkWidth(at, 1|2|4|8, "host memory")
	}
	r := d.board.FindRule(at.bar, at.offset, width)
	if r == nil && d.forDriver(Place{Bar: at.bar, Address: at.offset}) {
		return d.checkWidth(at, 4, "registers of the kernel driver")
	}
	if r == nil {
		return d.refuse("no rule of board %s covers it", d.board.Name)
	}
	if h := d.hit(at); h.window && h.inside+width > d.board.TLB.GroupOf(h.slot).Size {
		return d.refuse("it crosses the end of window %d", h.slot)
	}
	return d.checkWidth(at, r.Widths, r.Name)
}

func (d *Device) checkWidth(at access, widths uint8, name string) hal.Code {
	if widths&at.width == 0 {
		return d.refuse("%s: accesses of %d bytes are not allowed", name, at.width)
	}
	if at.offset%uint64(at.width) != 0 {
		return d.refuse("%s: misaligned", name)
	}
	return hal.OK
}

// refuse keeps the reason of the first refusal.
func (d *Device) refuse(format string, args ...any) hal.Code {
	if d.refusal == "" {
		d.refusal = fmt.Sprintf("operation %d: %s: %s", d.operations, d.at,
			fmt.Sprintf(format, args...))
	}
	return hal.Refused
}

// explain passes on what a model answered, with its reason if it refused.
func (d *Device) explain(c hal.Code) hal.Code {
	if c != hal.Refused {
		return c
	}
	if e, ok := d.model.(Explainer); ok {
		return d.refuse("the model refuses it: %s", e.Reason())
	}
	return d.refuse("the model refuses it")
}

func (a access) String() string {
	switch {
	case a.op == point:
		return "point"
	case a.bar == ConfigSpace:
		return fmt.Sprintf("%s of %d bytes at configuration space + %#x", a.op, a.width, a.offset)
	case a.bar == hostMemory:
		return fmt.Sprintf("%s of %d bytes at bus address %#x", a.op, a.width, a.offset)
	}
	return fmt.Sprintf("%s of %d bytes at BAR %d + %#x", a.op, a.width, a.bar, a.offset)
}
