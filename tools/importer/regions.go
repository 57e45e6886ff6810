package importer

import (
	"fmt"

	"lightmetal/boards"
)

// iatu is where the tiles of a chip see host memory, behind the PCIe tile: the
// registers of the iATU map that onto addresses of the bus. Sources: ttsim
// v1.10.0 src/libttsim.cpp, iatu_reg_field, and src/tile.cpp,
// translate_pci_dma_addr; tt-umd blackhole_tt_device.cpp, configure_iatu_region.
type iatu struct {
	noc, size   uint64
	upperLimits []uint32
}

var iatus = map[string]*iatu{
	boards.Wormhole.Name: {noc: 0x8_0000_0000, size: 0xfffe_0000},
	// tt-umd stores the upper half of the limit to 0x1c, ttsim has it at 0x20.
	boards.Blackhole.Name: {noc: 4 << 58, size: 1 << 58, upperLimits: []uint32{0x1c, 0x20}},
}

const (
	iatuRegions  = 16
	iatuOutbound = 0x200 // from one outbound region to the next
	iatuInbound  = 0x100 // inbound regions lie between

	iatuControl     = 0x04
	iatuEnable      = 1 << 31
	iatuBase        = 0x08
	iatuUpperBase   = 0x0c
	iatuLimit       = 0x10
	iatuTarget      = 0x14
	iatuUpperTarget = 0x18
)

// regions are the outbound regions of an iATU, as they are at this point of the
// trace.
type regions struct {
	*iatu
	rule          *boards.Rule // that covers the registers, nil: there are none
	registers     map[uint32]uint32
	enabled       map[uint32]bool // regions that ever were, by number
	stores, loads int
}

// region is one of them.
type region struct {
	number     uint32
	base, size uint64 // as the tiles see it, from where they see host memory on
	target     uint64 // on the bus
}

func newRegions(b *boards.Board) *regions {
	r := &regions{iatu: iatus[b.Name], registers: map[uint32]uint32{}, enabled: map[uint32]bool{}}
	if r.iatu == nil {
		r.iatu = &iatu{}
	}
	for i := range b.Rules {
		if b.Rules[i].IATU {
			r.rule = &b.Rules[i]
		}
	}
	return r
}

// covers tells whether an access is of the registers.
func (r *regions) covers(a *Access, size uint64) bool {
	return r.rule != nil && a.Bar == r.rule.Bar && a.Offset+size > r.rule.First && a.Offset <= r.rule.Last
}

// access follows an access of the registers. Images do not store there: the
// lane that replays aims the iATU.
func (r *regions) access(a *Access) error {
	at := uint32(a.Offset - r.rule.First)
	switch {
	case a.Width != 4 || a.Offset < r.rule.First:
		return refuse(a.Line, "%s of %d bytes of the iATU, whose registers have 4", a.Op, a.Width)
	case a.Op == OpLoad:
		r.loads++
		return nil
	case at%iatuOutbound >= iatuInbound:
		return refuse(a.Line, "store to inbound region %d of the iATU, which decides what the BARs show", at/iatuOutbound)
	}
	r.stores++
	r.registers[at] = uint32(a.Value)
	if at%iatuOutbound == iatuControl && a.Value&iatuEnable != 0 {
		r.enabled[at/iatuOutbound] = true
	}
	return nil
}

// get gives an outbound region, if it is enabled.
func (r *regions) get(number uint32) (g region, ok bool) {
	register := func(at uint32) uint64 { return uint64(r.registers[number*iatuOutbound+at]) }
	if register(iatuControl)&iatuEnable == 0 {
		return g, false
	}
	g = region{number: number, base: register(iatuUpperBase)<<32 | register(iatuBase), target: register(iatuUpperTarget)<<32 | register(iatuTarget)}
	limit := g.base&^(1<<32-1) | register(iatuLimit)
	for _, at := range r.upperLimits {
		if upper := register(at); upper != 0 {
			limit = upper<<32 | register(iatuLimit)
		}
	}
	g.size = limit - g.base + 1
	return g, limit >= g.base
}

// each goes through the regions that are enabled now.
func (r *regions) each(do func(g region) (done bool)) {
	for number := range uint32(iatuRegions) {
		if g, ok := r.get(number); ok && do(g) {
			return
		}
	}
}

// toBus is where on the bus an address is that a tile reaches behind the PCIe
// tile: as a region says, or as it is where none does.
func (r *regions) toBus(address uint64) (bus uint64, ok bool) {
	offset := address - r.noc
	if r.noc == 4<<58 && address < r.noc { // Blackhole's windows 0 to 3 go past the iATU
		return address & (r.size - 1), true
	}
	if r.size == 0 || offset >= r.size {
		return 0, false
	}
	bus = offset
	r.each(func(g region) bool {
		in := offset-g.base < g.size
		if in {
			bus = g.target + offset - g.base
		}
		return in
	})
	return bus, true
}

// ofBus finds the region that shows an address of the bus.
func (r *regions) ofBus(bus uint64) (found region, ok bool) {
	r.each(func(g region) bool {
		if bus-g.target < g.size {
			found, ok = g, true
		}
		return ok
	})
	return found, ok
}

func (g *region) String() string {
	return fmt.Sprintf("%d (0x%x..0x%x)", g.number, g.base, g.base+g.size-1)
}
