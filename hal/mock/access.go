package mock

import (
	"fmt"
	"strings"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/hal"
)

// configSize is the size in bytes of a PCI Express function's configuration space.
const configSize = 4096

// Op is the kind of an access.
type Op uint8

const (
	Load  Op = 1
	Store Op = 2
	point Op = 3 // a call of ProgramWindow; occurs only in the texts of rejections
)

// String returns a word for messages.
func (o Op) String() string {
	return [...]string{Load: "load", Store: "store", point: "point"}[o]
}

// access is a load or store of a client. Its address is not yet translated by TLB windows.
type access struct {
	op      Op
	width   uint8  // bytes
	bar     uint8  // number of the BAR, ConfigSpace or hostMemory
	offset  uint64 // of the first byte in the BAR; in host memory, its bus address
	outside bool   // the access is not completely inside its aperture
}

// port implements hal.Port for an aperture of the device.
type port struct {
	d    *Device
	bar  uint8  // number of the BAR, or ConfigSpace
	base uint64 // offset of the aperture in the BAR
	size uint64 // size of the aperture in bytes
}

// Load implements hal.Port.
func (p *port) Load(offset uint64, width uint8) (uint64, hal.Code) {
	return p.d.load(p.access(Load, offset, width))
}

// Store implements hal.Port.
func (p *port) Store(offset uint64, width uint8, value uint64) hal.Code {
	return p.d.store(p.access(Store, offset, width), value)
}

func (p *port) access(op Op, offset uint64, width uint8) access {
	outside := uint64(width) > p.size || offset > p.size-uint64(width)
	return access{op: op, bar: p.bar, offset: p.base + offset, width: width, outside: outside}
}

// load returns the model's value, changed by injected faults.
func (d *Device) load(at access) (uint64, hal.Code) {
	if c := d.startOperation(at); c != hal.OK {
		return 0, c
	}
	if d.gone {
		return fbs.WidthMask(at.width), hal.OK
	}
	if c := d.checkAccess(at); c != hal.OK {
		return 0, c
	}
	h := d.routeAccess(at)
	if h.configures && d.hardware {
		return chips.LoadRegister(&d.windows[h.slot].words, h.inside, at.width), hal.OK
	}
	place, c := d.placeOfLoad(h, at)
	if c != hal.OK {
		return 0, c
	}
	value, c := d.modelAt(place).Load(place, at.width)
	if c != hal.OK {
		return 0, d.addReason(c)
	}
	value = d.applyStuckBits(place, at.width, value)
	return value, d.recordAccess(Access{Load, place, at.width, value})
}

// route describes the destination of an access: the configuration registers of a TLB window,
// the tiles that a TLB window points to, or a place in a BAR.
type route struct {
	configures bool   // the access is to configuration registers of a TLB window
	window     bool   // the access goes through a TLB window
	slot       int    // number of the TLB window
	inside     uint64 // offset in the registers of the TLB window, or in the TLB window
	place      Place  // in the BAR
}

func (d *Device) routeAccess(at access) (h route) {
	bar, offset := chips.ForBoard(d.board).Unalias(at.bar, at.offset)
	h.place = Place{Bar: bar, Address: offset}
	if l := d.board.TLB; l != nil && bar != ConfigSpace {
		if h.slot, h.inside, h.configures = chips.SlotOfRegister(l, bar, offset); !h.configures {
			h.slot, h.inside, h.window = chips.SlotAt(l, bar, offset)
		}
	}
	return h
}

// placeOfLoad rejects loads of the registers that program TLB windows, because the maker's
// simulator does not implement these loads (ttsim v1.10.0 src/libttsim.cpp, pci_mem_rd_cur),
// and loads through a TLB window that points to several tiles.
func (d *Device) placeOfLoad(h route, at access) (Place, hal.Code) {
	switch {
	case h.configures:
		return Place{}, d.refuse("the configuration of TLB window %d cannot be read", h.slot)
	case !h.window:
		return d.placeOutsideWindows(h.place, at, 0)
	}
	w, c := d.pointedWindow(h.slot)
	if c != hal.OK {
		return Place{}, c
	}
	if w.target.Multicast {
		return Place{},
			d.refuse("TLB window %d is a multicast to (%d,%d)-(%d,%d), which cannot be read",
				h.slot, w.first.X, w.first.Y, w.last.X, w.last.Y)
	}
	if c := d.checkForbidden(h.slot, w.target, w.address+h.inside, uint64(at.width)); c != hal.OK {
		return Place{}, c
	}
	return d.tilePlace(w.last, w.address+h.inside, at, 0)
}

func (d *Device) store(at access, value uint64) hal.Code {
	if c := d.startOperation(at); c != hal.OK || d.gone {
		return c
	}
	if c := d.checkAccess(at); c != hal.OK {
		return c
	}
	value &= fbs.WidthMask(at.width)
	h := d.routeAccess(at)
	switch {
	case h.configures:
		return d.storeConfig(h.slot, h.inside, at.width, value)
	case h.window:
		return d.storeTiles(h.slot, h.inside, at, value)
	}
	place, c := d.placeOutsideWindows(h.place, at, value)
	if c != hal.OK {
		return c
	}
	return d.storeAt(place, at.width, value)
}

// storeTiles stores to each tile that a TLB window points to, at the offset `inside` of the TLB
// window. A multicast to a rectangle of tiles skips all tiles that are not Tensix (processor)
// tiles (ttsim v1.10.0 src/libttsim.cpp, tlb_window_write).
func (d *Device) storeTiles(slot int, inside uint64, at access, value uint64) hal.Code {
	w, c := d.pointedWindow(slot)
	if c != hal.OK {
		return c
	}
	if c := d.checkForbidden(slot, w.target, w.address+inside, uint64(at.width)); c != hal.OK {
		return c
	}
	for y := w.first.Y; y <= w.last.Y; y++ {
		for x := w.first.X; x <= w.last.X; x++ {
			tile := chips.Tile{X: x, Y: y}
			if w.target.Multicast && chips.ForBoard(d.board).Grid.Kind(tile) != chips.Tensix {
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
	if c := d.modelAt(place).Store(place, width, value); c != hal.OK {
		return d.addReason(c)
	}
	if c := d.recordAccess(Access{Store, place, width, value}); c != hal.OK {
		return c
	}
	d.arc.handleStore(place, value)
	return hal.OK
}

// modelAt returns the model that implements a place. Configuration space and the registers that
// only kernel drivers use have models of their own.
func (d *Device) modelAt(place Place) Model {
	if !place.Tile && place.Bar == ConfigSpace {
		return d.config
	}
	if d.isDriverRegister(place) {
		return &d.driver
	}
	return d.model
}

// startOperation counts an operation, advances the clock, and applies the faults AllOnes and
// BusFault.
func (d *Device) startOperation(at access) hal.Code {
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

// checkAccess checks only what does not depend on the configuration of TLB windows.
func (d *Device) checkAccess(at access) hal.Code {
	width := uint64(at.width)
	switch {
	case d.closed:
		return d.refuse("the device is closed")
	case width != 1 && width != 2 && width != 4 && width != 8:
		return d.refuse("the width is %d bytes, but must be 1, 2, 4 or 8 bytes", width)
	case at.outside:
		return d.refuse("the access must lie completely inside its aperture")
	case at.bar == ConfigSpace:
		return d.checkWidth(at, 1|2|4, "configuration space")
	case at.bar == hostMemory:
		return d.checkWidth(at, 1|2|4|8, "host memory")
	}
	r := d.board.FindRule(at.bar, at.offset, width)
	if r == nil && d.isDriverRegister(Place{Bar: at.bar, Address: at.offset}) {
		return d.checkWidth(at, 4, "registers of the kernel driver")
	}
	if r == nil {
		return d.refuse("board %s has no access rule for this address", d.board.Name)
	}
	if h := d.routeAccess(at); h.window && h.inside+width > d.board.TLB.GroupOf(h.slot).Size {
		return d.refuse("the access crosses the end of TLB window %d", h.slot)
	}
	return d.checkWidth(at, r.Widths, r.Name)
}

// widthsText returns the widths of a mask, such as "1, 2 or 4".
func widthsText(widths uint8) string {
	var list []string
	for width := uint8(1); width <= 8; width *= 2 {
		if widths&width != 0 {
			list = append(list, fmt.Sprint(width))
		}
	}
	last := len(list) - 1
	if last < 1 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:last], ", ") + " or " + list[last]
}

// checkWidth rejects an access that is misaligned, or whose width is not in the mask `widths`.
// `name` stands in the reason, for the registers or memory.
func (d *Device) checkWidth(at access, widths uint8, name string) hal.Code {
	if widths&at.width == 0 {
		return d.refuse("%s: accesses of %d bytes are not allowed, only of %s bytes", name,
			at.width, widthsText(widths))
	}
	if at.offset%uint64(at.width) != 0 {
		return d.refuse("%s: the access is misaligned", name)
	}
	return hal.OK
}

func (d *Device) refuse(format string, args ...any) hal.Code {
	d.lastRefusal = fmt.Sprintf("operation %d: %s: %s", d.operations, d.at,
		fmt.Sprintf(format, args...))
	if d.refusal == "" {
		d.refusal = d.lastRefusal
	}
	return hal.Refused
}

// addReason returns c, the code that a model returned, and stores the model's reason if c is
// hal.Refused.
func (d *Device) addReason(c hal.Code) hal.Code {
	if c != hal.Refused {
		return c
	}
	if e, ok := d.model.(Explainer); ok {
		return d.refuse("the device model rejects the access: %s", e.Reason())
	}
	return d.refuse("the device model rejects the access")
}

// String returns text for the reason of a rejection.
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
