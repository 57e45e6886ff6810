package importer

import (
	"fmt"
	"iter"

	"lightmetal/boards"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/capture/record"
)

const (
	// Offset of the inbound region's registers from those of the outbound region
	iatuInbound = 0x100

	iatuControl       = 0x04
	iatuEnable        = 1 << 31
	iatuBase          = 0x08
	iatuUpperBase     = 0x0c
	iatuLimit         = 0x10
	iatuTarget        = 0x14
	iatuUpperTarget   = 0x18
	iatuUmdUpperLimit = 0x1c // register in which tt-umd stores the upper half of the limit
)

// iatuState is the state of an iATU's outbound regions at the current line of the trace. They map
// addresses that tiles access behind the PCIe tile to bus addresses. Sources: ttsim v1.10.0
// src/libttsim.cpp, iatu_reg_field, and src/tile.cpp, translate_pci_dma_addr; tt-umd
// blackhole_tt_device.cpp, configure_iatu_region.
type iatuState struct {
	*boards.OutboundTranslation
	registers     map[uint32]uint32
	enabled       map[uint32]bool // numbers of the regions that were enabled at least once
	stores, loads int
}

// iatuRegion is an outbound region.
type iatuRegion struct {
	number     uint32
	base, size uint64 // as tiles access it, relative to OutboundTranslation.NoCBase
	target     uint64 // bus address
}

func newIATUState(b *boards.Board) *iatuState {
	r := &iatuState{OutboundTranslation: b.Outbound, registers: map[uint32]uint32{},
		enabled: map[uint32]bool{}}
	if r.OutboundTranslation == nil {
		r.OutboundTranslation = &boards.OutboundTranslation{}
	}
	return r
}

func (r *iatuState) isRegister(a *traces.Access, size uint64) bool {
	return r.RegionCount > 0 && a.Bar == r.Bar && a.Offset+size > r.Offset &&
		a.Offset < r.Offset+uint64(r.RegionCount)*r.Stride
}

// accessRegister processes an access of the iATU's registers. Images do not store there, because
// the backend programs the iATU during a replay.
func (r *iatuState) accessRegister(a *traces.Access) error {
	at := uint32(a.Offset - r.Offset)
	switch {
	case a.Width != 4 || a.Offset < r.Offset:
		return traces.TraceError(a.Line, "%s of %d bytes at the iATU, "+
			"whose registers must be accessed with 4 bytes", a.Op, a.Width)
	case a.Op == traces.OpLoad:
		r.loads++
		return nil
	case at%r.stride() >= iatuInbound:
		return traces.TraceError(a.Line,
			"store to inbound region %d of the iATU: images must not change what the BARs map to",
			at/r.stride())
	}
	r.stores++
	r.registers[at] = uint32(a.Value)
	g, enabled := r.enabledRegion(at / r.stride())
	if enabled && (g.base|g.target)%record.PageSize != 0 {
		return traces.TraceError(a.Line, "region %d of the iATU maps 0x%x to bus address 0x%x; "+
			"both must be multiples of %d", g.number, g.base, g.target, record.PageSize)
	}
	if at%r.stride() == iatuControl && a.Value&iatuEnable != 0 {
		r.enabled[at/r.stride()] = true
	}
	return nil
}

func (r *iatuState) stride() uint32 { return uint32(r.Stride) }

// enabledRegion returns an outbound region. ok is false if it is not enabled.
func (r *iatuState) enabledRegion(number uint32) (g iatuRegion, ok bool) {
	register := func(at uint32) uint64 { return uint64(r.registers[number*r.stride()+at]) }
	if register(iatuControl)&iatuEnable == 0 {
		return g, false
	}
	g = iatuRegion{number: number, base: register(iatuUpperBase)<<32 | register(iatuBase),
		target: register(iatuUpperTarget)<<32 | register(iatuTarget)}
	limit := g.base&^(1<<32-1) | register(iatuLimit)
	if r.UpperLimitOffset != 0 {
		upper := max(register(uint32(r.UpperLimitOffset)), register(iatuUmdUpperLimit))
		limit = upper<<32 | register(iatuLimit)
	}
	g.size = limit - g.base + 1
	return g, limit >= g.base
}

// enabledRegions returns the regions that are enabled at the current line.
func (r *iatuState) enabledRegions() iter.Seq[iatuRegion] {
	return func(yield func(iatuRegion) bool) {
		for number := range uint32(r.RegionCount) {
			if g, ok := r.enabledRegion(number); ok && !yield(g) {
				return
			}
		}
	}
}

// busAddress returns the bus address of an address that a tile accesses behind the PCIe tile. A
// region translates it; without a region, it stays the same.
func (r *iatuState) busAddress(address uint64) (bus uint64, ok bool) {
	offset := address - r.NoCBase
	if r.UpperLimitOffset != 0 && address < r.NoCBase {
		// Addresses in Blackhole's TLB windows 0 to 3 bypass the iATU.
		return address & r.OffsetMax, true
	}
	if r.RegionCount == 0 || offset > r.OffsetMax {
		return 0, false
	}
	for g := range r.enabledRegions() {
		if offset-g.base < g.size {
			return g.target + offset - g.base, true
		}
	}
	return offset, true
}

// regionAtBus returns the region that maps to a bus address.
func (r *iatuState) regionAtBus(bus uint64) (found iatuRegion, ok bool) {
	for g := range r.enabledRegions() {
		if bus-g.target < g.size {
			return g, true
		}
	}
	return found, false
}

func (g *iatuRegion) String() string {
	return fmt.Sprintf("%d (0x%x..0x%x)", g.number, g.base, g.base+g.size-1)
}
