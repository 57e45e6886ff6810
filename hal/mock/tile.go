package mock

import (
	"fmt"
	"sync/atomic"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
)

// instructionNs is the time of one instruction of a core on the virtual clock, in nanoseconds.
// On silicon it varies: a clock cycle takes 1 ns, and a load from L1 takes several cycles. The
// value is larger than on silicon, so that a test of a program that never ends executes fewer
// instructions until its deadline.
const instructionNs = 10

// turnInstructions is the number of instructions that a tile executes before it is the next
// tile's turn. They take about as long as a request between tiles on silicon.
const turnInstructions = 50

// Tiles is the Model of a Wormhole or Blackhole. It consists of Tensix and Ethernet tiles, whose
// RISC-V cores execute programs, and of a Memory for all other tiles and the BARs. It is as strict
// as the maker's simulator, ttsim v1.10.0. A core stops at an invalid operation. The model then
// rejects the next access of the host to the tile of that core, and only that access, and returns
// the reason.
//
// Cores execute instructions only while the virtual clock advances, so that every run of a program
// has the same result.
type Tiles struct {
	*Memory
	board    string // name
	grid     *chips.Grid
	traits   *coreTraits
	cores    map[chips.Tile]*coreTile
	order    []*coreTile // tiles in the order in which they execute: that of their first accesses
	clock    int64       // nanoseconds since power-up; also the number of cycles of the wall clock
	ran      int64       // part of clock for which the cores have executed instructions
	requests int         // number of network requests that are being executed, one inside another
	host     *Host       // host memory, which tiles access through the PCIe tile; may be nil
	reason   string      // reason for the last rejection
	halted   atomic.Bool // cores execute nothing any more
}

// NewTiles returns a model of Wormhole or Blackhole in the state after power-up: all cores are in
// reset, and all memory is zero.
func NewTiles(b *boards.Board) *Tiles {
	return &Tiles{Memory: NewMemory(b), board: b.Name, grid: chips.ForBoard(b).Grid,
		traits: coreTraitsOf[b.Name], cores: map[chips.Tile]*coreTile{}}
}

// Connect implements BusMaster.
func (g *Tiles) Connect(host *Host) { g.host = host }

// Halt implements Halter.
func (g *Tiles) Halt() { g.halted.Store(true) }

// Advance implements Clocked.
func (g *Tiles) Advance(nanoseconds int64) {
	g.clock += nanoseconds
	instructions := (g.clock - g.ran) / instructionNs
	g.ran += instructions * instructionNs
	for instructions > 0 && !g.halted.Load() && !g.runTiles(min(instructions, turnInstructions)) {
		instructions -= turnInstructions
	}
}

// runTiles makes each core execute up to n instructions. It reports whether all cores are idle.
// Requests to the network may add tiles to g.order during the loop.
func (g *Tiles) runTiles(n int64) (idle bool) {
	idle = true
	for i := 0; i < len(g.order); i++ {
		idle = g.order[i].runCores(n) && idle
	}
	return idle
}

// Reason implements Explainer.
func (g *Tiles) Reason() string { return g.reason }

// Load implements Model.
func (g *Tiles) Load(at Place, width uint8) (uint64, hal.Code) {
	t := g.coreTileAt(at)
	switch {
	case t == nil:
		if id, ok := g.idRegister(at); ok {
			return uint64(id), hal.OK
		}
		return g.Memory.Load(at, width)
	case t.reportFault():
		return 0, hal.Refused
	case t.l1.contains(at.Address):
		t.firmwareBeforeLoad(at.Address)
		return t.l1.load(at.Address, width), hal.OK
	}
	if value, ok := t.loadRegister(at.Address); ok && width == 4 {
		return uint64(value), hal.OK
	}
	return 0, g.refuse(at, "a %d-byte load", width)
}

// Store implements Model.
func (g *Tiles) Store(at Place, width uint8, value uint64) hal.Code {
	t := g.coreTileAt(at)
	switch {
	case t == nil:
		return g.Memory.Store(at, width, value)
	case t.reportFault():
		return hal.Refused
	case t.l1.contains(at.Address):
		t.l1.store(at.Address, width, t.firmwareAnswer(at.Address, width, value))
		return hal.OK
	}
	if width != 4 {
		return g.refuse(at, "a %d-byte store of %#x", width, value)
	}
	if err := t.storeRegister(at.Address, uint32(value)); err != nil {
		return g.refuse(at, "a store of %#x: %v", value, err)
	}
	return hal.OK
}

// HasRegister implements Registers.
func (g *Tiles) HasRegister(at Place, op Op) bool {
	if t := g.coreTileAt(at); t != nil {
		if r := t.overlayRegister(at.Address); r != nil {
			return op == Load && r.load != nil || op == Store && r.store != nil
		}
		n, offset := t.networkInterface(at.Address)
		return n != nil && n.hasRegister(offset, op)
	}
	_, ok := g.idRegister(at)
	return ok && op == Load
}

// coreTileAt returns nil if the place is not in a Tensix or Ethernet tile.
func (g *Tiles) coreTileAt(at Place) *coreTile {
	if !at.Tile {
		return nil
	}
	return g.coreTileOf(chips.Tile{X: at.X, Y: at.Y})
}

// coreTileOf returns a Tensix or Ethernet tile, or nil for another tile. It creates the tile at the
// first call.
func (g *Tiles) coreTileOf(c chips.Tile) *coreTile {
	t := g.cores[c]
	if t == nil && g.grid.ResetOf(g.grid.Kind(c)) != nil {
		t = newCoreTile(g, c)
		g.cores[c] = t
		g.order = append(g.order, t)
	}
	return t
}

func (g *Tiles) refuse(at Place, format string, args ...any) hal.Code {
	g.reason = fmt.Sprintf("%s does not accept "+format, append([]any{at}, args...)...)
	return hal.Refused
}
