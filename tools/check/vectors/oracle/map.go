package oracle

// This file maps the windows of an image: it chooses TLB windows and regions of outbound
// translation.

import (
	"lightmetal/boards"
	"lightmetal/tools/check/vectors/vector"
)

// region is a region of outbound translation: tiles access `size` bytes at the bus address `bus`
// through the addresses NoCBase+offset and up.
type region struct{ offset, size, bus uint64 }

// groupOf returns the group of a TLB window, nil if there is no such TLB window.
func groupOf(board *boards.Board, slot int) *boards.WindowGroup {
	for i := range board.TLB.Groups {
		g := &board.TLB.Groups[i]
		if slot >= g.First && slot < g.First+g.Count {
			return g
		}
	}
	return nil
}

// mapWindow determines the bus address of a window, or its TLB window. It returns a code.
func (p *Player) mapWindow(i int) (code string) {
	w := &p.image.Windows[i]
	bus, _ := p.machine.BusAddress(i)
	switch w.Kind {
	case kindBar:
		p.buses[i] = bus
	case kindTlb:
		return p.chooseTLBWindow(i)
	case kindHost:
		p.buses[i] = bus
		board := p.image.knownBoard(w.Device)
		if p.driver == nil && board != nil && board.Outbound != nil {
			return p.addRegion(i, board.Outbound, bus)
		}
		if w.Flags&flagFixedBus != 0 && bus != w.Offset {
			return "no-device"
		}
	}
	return done
}

// chooseTLBWindow assigns to a Tlb window its preferred TLB window, or the first suitable one.
func (p *Player) chooseTLBWindow(i int) (code string) {
	w := &p.image.Windows[i]
	board := p.image.knownBoard(w.Device)
	if board == nil || board.TLB == nil {
		return "wrong-device"
	}
	candidates := []int{int(w.Slot)}
	for slot := 0; groupOf(board, slot) != nil; slot++ {
		candidates = append(candidates, slot)
	}
	for _, slot := range candidates {
		if p.isSuitable(i, board, slot) {
			p.slots[i] = slot
			return done
		}
	}
	return "no-device"
}

// isSuitable reports whether a TLB window is large enough for window i, lies inside its BAR, does
// not belong to the kernel's driver, and is not in use.
func (p *Player) isSuitable(i int, board *boards.Board, slot int) bool {
	w, g := &p.image.Windows[i], groupOf(board, slot)
	if g == nil || g.Size < w.Size || slot >= g.First+g.Count-g.KernelOwnedCount {
		return false
	}
	device := p.machine.Device(int(w.Device), p.image.Devices[w.Device].needed(int(w.Device)))
	if g.Offset+uint64(slot-g.First+1)*g.Size > device.Bars[g.Bar] {
		return false
	}
	for before := range i {
		b := &p.image.Windows[before]
		if b.Kind == kindTlb && b.Device == w.Device && p.slots[before] == slot {
			return false
		}
	}
	return true
}

// addRegion assigns to a Host window a region of outbound translation: at its fixed address, or one
// page after the last region.
func (p *Player) addRegion(i int, o *boards.OutboundTranslation, bus uint64) (code string) {
	w := &p.image.Windows[i]
	list, offset, size := p.regions[w.Device], uint64(0), roundUp(w.Size, page)
	end := uint64(0) // of the regions in use
	if len(list) > 0 {
		last := list[len(list)-1]
		end = last.offset + last.size
		offset = end + page
	}
	if w.Flags&flagFixedBus != 0 {
		if w.Offset < o.NoCBase+end {
			return "no-device"
		}
		offset = w.Offset - o.NoCBase
	}
	if len(list) == o.RegionCount || offset > o.OffsetMax || size-1 > o.OffsetMax-offset {
		return "no-device"
	}
	p.regions[w.Device] = append(list, region{offset, size, bus})
	p.buses[i] = o.NoCBase + offset
	return done
}

// isReachable reports whether the device of a Relocate reaches the window whose address it stores.
// Tiles reach only the Host windows of their own device, and no other device reaches these.
func (p *Player) isReachable(c *Command) bool {
	target := &p.image.Windows[c.Index]
	device := p.image.Windows[c.Window].Device
	hasOutbound := func(device uint8) bool {
		board := p.image.knownBoard(device)
		return board != nil && board.Outbound != nil
	}
	isHost := target.Kind == kindHost
	if hasOutbound(device) {
		return isHost && target.Device == device
	}
	return !isHost || !hasOutbound(target.Device)
}

// programOutbound stores to the registers of all regions of a device that has Host windows, in the
// order of tt-kmd: a region stays disabled until its registers are complete. It disables the
// regions that are not in the list.
func (p *Player) programOutbound(device int, list []region) (code string) {
	if len(p.regions[device]) == 0 {
		return done
	}
	o := p.image.knownBoard(uint8(device)).Outbound
	bar := vector.OfBar(device, int(o.Bar))
	for i := range o.RegionCount {
		registers := o.Offset + uint64(i)*o.Stride
		stores := [][2]uint64{{4, 0}}
		if i < len(list) {
			r := list[i]
			last := r.offset + r.size - 1
			stores = append(stores, [][2]uint64{{8, r.offset}, {12, r.offset >> 32}, {16, last},
				{20, r.bus}, {24, r.bus >> 32}}...)
			if o.UpperLimitOffset != 0 {
				stores = append(stores, [2]uint64{o.UpperLimitOffset, last >> 32})
			}
			stores = append(stores, [][2]uint64{{0, uint64(o.RegionType)},
				{4, uint64(o.RegionControl)}}...)
		}
		for _, s := range stores {
			if !p.machine.Store(bar, registers+s[0], 4, s[1]&0xffffffff) {
				return "bus-fault"
			}
		}
	}
	return done
}

// mastersBus reports whether a device of the image accesses memory by DMA.
func (m *Image) mastersBus() bool {
	for _, w := range m.Windows {
		if w.Kind == kindHost {
			return true
		}
	}
	for _, c := range m.Commands {
		if c.Opcode == opRelocate {
			return true
		}
	}
	return false
}
