package mock

import (
	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/hal"
)

// window is the state of one TLB window.
type window struct {
	port    *port               // of the aperture that Map returned; nil: the window is free
	words   boards.WindowConfig // values of the configuration registers
	written uint8               // mask of the 4-byte parts of words that have been stored

	// The other fields are decoded from words, and valid only while known is true.
	known       bool
	target      fbs.TileRoute // tiles as configured
	address     uint64        // address in the tiles that the first byte of the window shows
	first, last chips.Tile    // corners of target in NoC 0 coordinates; equal for a single tile
}

// storeConfig takes the offset `inside` from the first configuration register of the TLB window. It
// does not check the configuration, which is inconsistent until all registers have been stored.
// pointedWindow checks it when the TLB window is used.
func (d *Device) storeConfig(slot int, inside uint64, width uint8, value uint64) hal.Code {
	l := d.board.TLB
	if l.GroupOf(slot).IsOwnedByKernel(slot) && !d.hardware {
		return d.refuse("TLB window %d belongs to the kernel driver", slot)
	}
	w := &d.windows[slot]
	chips.StoreRegister(&w.words, inside, width, value)
	for i := inside / 4; i < (inside+uint64(width))/4; i++ {
		w.written |= 1 << i
	}
	w.known = false
	return hal.OK
}

// pointedWindow returns a TLB window with its decoded configuration. It rejects a TLB window that
// is not completely configured, and a configuration that the maker's simulator rejects (ttsim
// v1.10.0 src/libttsim.cpp, tlb_translate and tlb_translate_bar4).
func (d *Device) pointedWindow(slot int) (*window, hal.Code) {
	w := &d.windows[slot]
	if w.known {
		return w, hal.OK
	}
	l := d.board.TLB
	g := l.GroupOf(slot)
	if w.written != 1<<(l.ConfigStride/4)-1 {
		return w, d.refuse("TLB window %d was not pointed at a tile", slot)
	}
	if chips.ExtractField(l, g, w.words, boards.FieldLinked) != 0 {
		return w, d.refuse("TLB window %d has the linked bit, which the simulator does not "+
			"implement", slot)
	}
	if chips.ExtractField(l, g, w.words, boards.FieldOrdering) == 3 {
		return w, d.refuse("TLB window %d has ordering 3, which does not exist", slot)
	}
	xStart, yStart := chips.ExtractField(l, g, w.words, boards.FieldXStart),
		chips.ExtractField(l, g, w.words, boards.FieldYStart)
	if chips.ExtractField(l, g, w.words, boards.FieldMulticast) == 0 && xStart|yStart != 0 {
		return w, d.refuse("TLB window %d points at one tile, but has the start corner (%d,%d), "+
			"not (0,0)", slot, xStart, yStart)
	}
	target, address, ok := chips.DecodeWindow(l, g, w.words)
	if !ok {
		return w, d.refuse("TLB window %d has the configuration %#x, which sets reserved bits",
			slot,
			w.words)
	}
	w.target, w.address = target, address
	if c := d.resolveTarget(slot, g, target); c != hal.OK {
		return w, c
	}
	w.known = true
	return w, hal.OK
}

// resolveTarget sets `first` and `last` of a TLB window from the tiles t. It rejects tiles that do
// not exist, and configurations that the maker's simulator does not implement.
func (d *Device) resolveTarget(slot int, g *boards.WindowGroup, t fbs.TileRoute) hal.Code {
	w, grid := &d.windows[slot], chips.ForBoard(d.board).Grid
	switch {
	case t.NoC != 0:
		return d.refuse("TLB window %d uses NoC %d, which the simulator does not implement",
			slot, t.NoC)
	case t.StaticVCPlusOne != 0 && d.board.TLB.FieldBits[boards.FieldUseStaticVC] != 0:
		return d.refuse("TLB window %d has a static virtual channel, which the simulator does "+
			"not implement on this board", slot)
	case t.Multicast && g.Size == 4<<30:
		return d.refuse("TLB window %d has 4 GiB and is a multicast, but the simulator implements "+
			"multicasts only in smaller TLB windows", slot)
	}
	var ok bool
	if w.last, ok = grid.TileAt(t.X, t.Y); !ok || grid.Kind(w.last) == chips.Router {
		return d.refuse("TLB window %d points at (%d,%d), where there is no tile", slot, t.X, t.Y)
	}
	if !t.Multicast {
		w.first = w.last
		return hal.OK
	}
	if w.first, ok = grid.TileAt(t.XStart, t.YStart); !ok {
		return d.refuse("the multicast of TLB window %d starts at (%d,%d), where there is no tile",
			slot, t.XStart,
			t.YStart)
	}
	if w.first.X > w.last.X || w.first.Y > w.last.Y {
		return d.refuse("TLB window %d is a multicast whose start (%d,%d) is past its end (%d,%d)",
			slot, w.first.X, w.first.Y, w.last.X, w.last.Y)
	}
	if grid.Kind(w.first) != chips.Tensix || grid.Kind(w.last) != chips.Tensix {
		return d.refuse("TLB window %d is a multicast to (%d,%d)-(%d,%d), but both corners must "+
			"be Tensix tiles", slot, w.first.X, w.first.Y, w.last.X, w.last.Y)
	}
	return hal.OK
}

// checkForbidden rejects a range of addresses if images must not access a part of it
// (boards.ForbiddenRange). A kernel driver may access such a range.
func (d *Device) checkForbidden(slot int, t fbs.TileRoute, address, size uint64) hal.Code {
	forbidden := d.board.FindForbiddenRange(t, address, size)
	if forbidden == nil || d.hardware {
		return hal.OK
	}
	return d.refuse("TLB window %d can reach %#x to %#x of %s, which images must not access",
		slot, forbidden.First, forbidden.Last, forbidden.Name)
}

// tilePlace returns the place that an access to an address in a tile reaches. It rejects the
// access if the tile has no memory or register there that accepts it. `value` is for a store.
func (d *Device) tilePlace(tile chips.Tile, address uint64, at access, value uint64) (Place,
	hal.Code) {
	grid := chips.ForBoard(d.board).Grid
	home := grid.FirstTileOfBank(tile)
	place := Place{Tile: true, X: home.X, Y: home.Y, Address: address}
	kind := grid.Kind(tile)
	if grid.FindMemory(kind, address, uint64(at.width)) != nil {
		return place, hal.OK
	}
	place.X, place.Y = tile.X, tile.Y // each tile of a DRAM bank has its own registers
	return place, d.checkRegister(kind, place, at, value)
}

// checkRegister rejects an access to a place without a register, and an access that the register
// does not accept.
func (d *Device) checkRegister(kind chips.TileKind, place Place, at access, value uint64) hal.Code {
	reset := chips.ForBoard(d.board).Grid.ResetOf(kind)
	r := chips.ForBoard(d.board).Grid.FindRegisterRange(kind, place.Address)
	isReset := reset != nil && place.Address == reset.Address
	switch {
	case r == nil && !isReset && !d.modelHasRegister(place, at.op) && !d.isDriverRegister(place):
		return d.refuse("the %s (%d,%d) has no memory or register at %#x", kind, place.X, place.Y,
			place.Address)
	case at.width != 4:
		return d.refuse("register %#x of the %s (%d,%d): accesses of %d bytes are not allowed, "+
			"only of 4 bytes", place.Address, kind, place.X, place.Y, at.width)
	case isReset && value&^uint64(reset.Mask|reset.Ignored) != 0:
		return d.refuse("reset register of the %s (%d,%d): the value %#x has bits outside the "+
			"mask %#x", kind, place.X,
			place.Y, value, reset.Mask)
	case r != nil && r.StoreOnly && at.op == Load:
		return d.refuse("%s of the %s (%d,%d) cannot be read", r.Name, kind, place.X, place.Y)
	}
	return hal.OK
}

// modelHasRegister is for registers that the board does not list.
func (d *Device) modelHasRegister(place Place, op Op) bool {
	m, ok := d.model.(Registers)
	return ok && m.HasRegister(place, op)
}
