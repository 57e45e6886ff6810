package mock

import (
	"fmt"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
)

// instructionNs is how long a core takes for an instruction. On silicon it
// depends: the clock has 1 ns, a load from L1 takes several. Ten keep a wait for
// a program that never ends bearable.
const instructionNs = 10

// turnInstructions is how many instructions a tile runs before the next one
// does: about as many as a request takes on silicon from one to the other.
const turnInstructions = 50

// Tiles is the Model of a Wormhole or Blackhole: Tensix tiles with RISC-V cores
// that run, as strict as ttsim v1.10.0, and a Memory for everything else. A
// core that does something it cannot stops, and the next access of the host to
// its tile is refused, once, with the reason.
//
// Cores run while the device's clock moves and at no other time, so that
// everything is deterministic.
type Tiles struct {
	*Memory
	board    string // its name
	grid     *chips.Grid
	traits   *coreTraits
	tensix   map[chips.Tile]*tensix
	order    []*tensix // as they were first accessed, in which order they run too
	clock    int64     // nanoseconds since power-up, which are cycles of the wall clock
	ran      int64     // of these, what the cores have had
	requests int       // to the network that are under way, inside each other
	host     *Host     // behind the PCIe tile, nil: nothing
	reason   string    // of the last refusal
}

// NewTiles gives the tiles of Wormhole or Blackhole as after power-up: all
// cores in reset, all memory zero.
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

// turn has each tile run up to n instructions, and tells whether none of them
// can do anything more. Requests to the network may add to the tiles.
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

// find gives the Tensix tile at a place, nil if it is none.
func (g *Tiles) tensixAt(at Place) *tensix {
	c := chips.Tile{X: at.X, Y: at.Y}
	if !at.Tile || g.grid.Kind(c) != chips.Tensix {
		return nil
	}
	return g.tensixTile(c)
}

// tile gives a Tensix tile. They come into being when they are first accessed.
func (g *Tiles) tensixTile(c chips.Tile) *tensix {
	t := g.tensix[c]
	if t == nil {
		t = newTensix(g, c)
		g.tensix[c] = t
		g.order = append(g.order, t)
	}
	return t
}

func (g *Tiles) refuse(at Place, format string, args ...any) hal.Code {
	g.reason = fmt.Sprintf("%s does not take "+format, append([]any{at}, args...)...)
	return hal.Refused
}
