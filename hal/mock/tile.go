package mock

// This file models the tiles of a chip.

import (
	"fmt"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
)

// instructionNs is the time of one instruction of a core, in nanoseconds. On silicon it varies:
// a clock cycle takes 1 ns, a load from L1 several. With 10 ns, waiting for a program that
// never ends does not take too long.
const instructionNs = 10

// turnInstructions is the number of instructions that a tile executes before the next tile
// does: about the time that a request takes on silicon from one tile to another.
const turnInstructions = 50

// Tiles is the Model of a Wormhole or Blackhole: Tensix tiles with RISC-V cores that execute
// programs, as strictly as ttsim v1.10.0, and a Memory for everything else. A core stops at
// an invalid operation, and the next access of the host to its tile is rejected, once, with
// the reason.
//
// Cores execute only while the device's clock advances, so that everything is deterministic.
type Tiles struct {
	*Memory
	board    string // its name
	grid     *chips.Grid
	traits   *coreTraits
	tensix   map[chips.Tile]*tensix
	order    []*tensix // in the order of their first access, which is also the order of execution
	clock    int64     // nanoseconds since power-up, also the cycles of the wall clock
	ran      int64     // how many of these the cores have used
	requests int       // depth of nested requests to the network
	host     *Host     // host memory, which the PCIe tile leads to; may be nil
	reason   string    // of the last rejection
}

// NewTiles returns the tiles of Wormhole or Blackhole in the state after power-up: all cores in
// reset, all memory zero.
func NewTiles(b *boards.Board) *Tiles {
	return &Tiles{Memory: NewMemory(b), board: b.Name, grid: chips.Of(b).Grid,
		traits: coreTraitsOf[b.Name], tensix: map[chips.Tile]*tensix{}}
}

// Connect implements Master.
func (g *Tiles) Connect(host *Host) { g.host = host }

// Advance implements Clocked.
func (g *Tiles) Advance(nanoseconds int64) {
	g.clock += nanoseconds
	instructions := (g.clock - g.ran) / instructionNs
	g.ran += instructions * instructionNs
	for instructions > 0 && !g.runTiles(min(instructions, turnInstructions)) {
		instructions -= turnInstructions
	}
}

// runTiles makes each tile execute up to n instructions. It reports whether no tile has
// anything left to do. Requests to the network may add tiles to g.order.
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
	t := g.tensixAt(at)
	switch {
	case t == nil:
		if id, ok := g.identity(at); ok {
			return uint64(id), hal.OK
		}
		return g.Memory.Load(at, width)
	case t.reportFault():
		return 0, hal.Refused
	case t.l1.contains(at.Address):
		return t.l1.load(at.Address, width), hal.OK
	}
	if value, ok := t.loadRegister(at.Address); ok && width == 4 {
		return uint64(value), hal.OK
	}
	return 0, g.refuse(at, "a %d-byte load", width)
}

// Store implements Model.
func (g *Tiles) Store(at Place, width uint8, value uint64) hal.Code {
	t := g.tensixAt(at)
	switch {
	case t == nil:
		return g.Memory.Store(at, width, value)
	case t.reportFault():
		return hal.Refused
	case t.l1.contains(at.Address):
		t.l1.store(at.Address, width, value)
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
	if t := g.tensixAt(at); t != nil {
		n, offset := t.networkInterface(at.Address)
		return n != nil && n.hasRegister(offset, op)
	}
	_, ok := g.identity(at)
	return ok && op == Load
}

// tensixAt returns the Tensix tile at a place, nil if there is none.
func (g *Tiles) tensixAt(at Place) *tensix {
	c := chips.Tile{X: at.X, Y: at.Y}
	if !at.Tile || g.grid.Kind(c) != chips.Tensix {
		return nil
	}
	return g.tensixTile(c)
}

// tensixTile returns a Tensix tile. It is allocated at its first access.
func (g *Tiles) tensixTile(c chips.Tile) *tensix {
	t := g.tensix[c]
	if t == nil {
		t = newTensix(g, c)
		g.tensix[c] = t
		g.order = append(g.order, t)
	}
	return t
}

// refuse rejects an access and stores the reason.
func (g *Tiles) refuse(at Place, format string, args ...any) hal.Code {
	g.reason = fmt.Sprintf("%s does not take "+format, append([]any{at}, args...)...)
	return hal.Refused
}
