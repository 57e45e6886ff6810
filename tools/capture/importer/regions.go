package importer

import (
	"fmt"
	"iter"

	"lightmetal/boards"
	"lightmetal/tools/capture/importer/traces"
)

const (
	iatuInbound = 0x100 // from an outbound region's registers to an inbound one's

	iatuControl     = 0x04
	iatuEnable      = 1 << 31
	iatuBase        = 0x08
	iatuUpperBase   = 0x0c
	iatuLimit       = 0x10
	iatuTarget      = 0x14
	iatuUpperTarget = 0x18
	iatuOther       = 0x1c // where tt-umd stores the upper half of the limit
)

// regions are the outbound regions of an iATU, as they are at this point of the
// trace: they map what the tiles see behind the PCIe tile onto addresses of the
// bus. Sources: ttsim v1.10.0 src/libttsim.cpp, iatu_reg_field, and src/tile.cpp,
// translate_pci_dma_addr; tt-umd blackhole_tt_device.cpp, configure_iatu_region.
type regions struct {
	*boards.OutboundTranslation
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
	r := &regions{OutboundTranslation: b.Outbound, registers: map[uint32]uint32{},
		enabled: map[uint32]bool{}}
	if r.OutboundTranslation == nil {
		r.OutboundTranslation = &boards.OutboundTranslation{}
	}
	return r
}

// covers reports whether an access is of the registers.
func (r *regions) covers(a *traces.Access, size uint64) bool {
	return r.RegionCount > 0 && a.Bar == r.Bar && a.Offset+size > r.Offset &&
		a.Offset < r.Offset+uint64(r.RegionCount)*r.Stride
}

// access follows an access of the registers. Images do not store there: the
// lane that replays aims the iATU.
func (r *regions) access(a *traces.Access) error {
	at := uint32(a.Offset - r.Offset)
	switch {
	case a.Width != 4 || a.Offset < r.Offset:
		return traces.Refuse(a.Line, "%s of %d bytes in the iATU, whose registers have 4 bytes "+
			"each", a.Op,
			a.Width)
	case a.Op == traces.OpLoad:
		r.loads++
		return nil
	case at%r.stride() >= iatuInbound:
		return traces.Refuse(a.Line,
			"store to inbound region %d of the iATU: images must not change what the BARs show",
			at/r.stride())
	}
	r.stores++
	r.registers[at] = uint32(a.Value)
	if at%r.stride() == iatuControl && a.Value&iatuEnable != 0 {
		r.enabled[at/r.stride()] = true
	}
	return nil
}

func (r *regions) stride() uint32 { return uint32(r.Stride) }

// get returns an outbound region, if it is enabled.
func (r *regions) get(number uint32) (g region, ok bool) {
	register := func(at uint32) uint64 { return uint64(r.registers[number*r.stride()+at]) }
	if register(iatuControl)&iatuEnable == 0 {
		return g, false
	}
	g = region{number: number, base: register(iatuUpperBase)<<32 | register(iatuBase),
		target: register(iatuUpperTarget)<<32 | register(iatuTarget)}
	limit := g.base&^(1<<32-1) | register(iatuLimit)
	if r.UpperLimitOffset != 0 {
		upper := max(register(uint32(r.UpperLimitOffset)), register(iatuOther))
		limit = upper<<32 | register(iatuLimit)
	}
	g.size = limit - g.base + 1
	return g, limit >= g.base
}

// all returns the regions that are enabled now.
func (r *regions) all() iter.Seq[region] {
	return func(yield func(region) bool) {
		for number := range uint32(r.RegionCount) {
			if g, ok := r.get(number); ok && !yield(g) {
				return
			}
		}
	}
}

// toBus is where on the bus an address is that a tile reaches behind the PCIe
// tile: as a region says, or as it is where none does.
func (r *regions) toBus(address uint64) (bus uint64, ok bool) {
	offset := address - r.NoCBase
	if r.UpperLimitOffset != 0 && address < r.NoCBase {
		// Blackhole's windows 0 to 3 go past the iATU.
		return address & r.OffsetMax, true
	}
	if r.RegionCount == 0 || offset > r.OffsetMax {
		return 0, false
	}
	for g := range r.all() {
		if offset-g.base < g.size {
			return g.target + offset - g.base, true
		}
	}
	return offset, true
}

// ofBus finds the region that shows an address of the bus.
func (r *regions) ofBus(bus uint64) (found region, ok bool) {
	for g := range r.all() {
		if bus-g.target < g.size {
			return g, true
		}
	}
	return found, false
}

func (g *region) String() string {
	return fmt.Sprintf("%d (0x%x..0x%x)", g.number, g.base, g.base+g.size-1)
}
