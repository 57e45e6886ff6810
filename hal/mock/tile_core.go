package mock

import (
	"errors"
	"fmt"
	"slices"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal/mock/rv32"
)

// Addresses in a Tensix tile beside those that boards knows: ttsim v1.10.0
// data/{wh,bh}/tile_regs.json. The host reaches all but localRAM.
const (
	localRAM = 0xffb00000 // a core's own

	wallClock0   = 0xffb121f0 // cycles of 1 ns, low word
	wallClock1   = 0xffb121f4 // high word
	wallClock1At = 0xffb121f8 // high word; latched with the low one on silicon, not in ttsim

	niu0, niu1 = 0xffb20000, 0xffb30000 // network interfaces
	niuSize    = 0x10000

	// Wormhole's start addresses are configuration of the coprocessor, which
	// cores but NCRISC store to: ttsim v1.10.0 data/wh/tensix_regs.json.
	triscResetPC          = 0xffef0278 // TRISC_RESET_PC_SEC0_PC, and two more
	triscResetPCOverride  = 0xffef0284
	ncriscResetPC         = 0xffef0288
	ncriscResetPCOverride = 0xffef028c
)

// coreTraits is what the cores of a chip have (ttsim v1.10.0 src/config.h, src/riscv_impl.h), and
// their network interfaces.
type coreTraits struct {
	fence      bool     // see rv32.Core
	configures bool     // start addresses are configuration, see triscResetPC
	local      []uint64 // bytes at localRAM, in the order of chips.Reset.Cores
	noc        *nocTraits
}

var coreTraitsOf = map[string]*coreTraits{
	boards.Wormhole.Name: {configures: true, local: []uint64{4096, 2048, 2048, 2048, 4096},
		noc: wormholeNoC},
	boards.Blackhole.Name: {local: []uint64{8192, 4096, 4096, 4096, 8192}, noc: blackholeNoC,
		fence: true},
}

// tensix is one Tensix tile. The coprocessor, the mailboxes and the overlay of the network
// interfaces are not modelled.
type tensix struct {
	tiles     *Tiles
	at        chips.Tile
	l1        ram
	softReset uint32            // SOFT_RESET_0
	registers map[uint64]uint32 // the board's others, by address
	cores     []core
	noc       [2]niu
	fault     string // why a core stopped, until the host is told
}

// core is one core and what it sees.
type core struct {
	hart  rv32.Core
	reset chips.Core
	tile  *tensix
	local ram
	why   error // its last store was refused, where there is more to say than that
}

func newTensix(g *Tiles, at chips.Tile) *tensix {
	reset, l1 := &g.grid.Reset, g.grid.Memory(chips.Tensix, 0, 1)
	t := &tensix{tiles: g, at: at, l1: ram{size: l1.Last + 1}, softReset: reset.Initial,
		registers: map[uint64]uint32{}}
	t.noc = [2]niu{newNIU(t, false), newNIU(t, true)}
	t.cores = make([]core, len(reset.Cores))
	for i := range t.cores {
		c := &t.cores[i]
		at := reset.Cores[i]
		if g.traits.configures {
			configuredStart(&at)
		}
		*c = core{hart: rv32.Core{Fence: g.traits.fence, Bus: c}, reset: at, tile: t,
			local: ram{size: g.traits.local[i]}}
	}
	return t
}

// configuredStart adds where Wormhole's cores take their start addresses from.
func configuredStart(c *chips.Core) {
	switch c.Name {
	case "TRISC0", "TRISC1", "TRISC2":
		n := c.Name[5] - '0'
		c.PCRegister, c.OverrideRegister, c.OverrideBit = triscResetPC+4*uint64(n),
			triscResetPCOverride, n
	case "NCRISC":
		c.PCRegister, c.OverrideRegister = ncriscResetPC, ncriscResetPCOverride
	}
}

// configures tells whether a core stores a start address.
func (c *core) isStartRegister(address uint32) bool {
	return c.tile.tiles.traits.configures && c.reset.Name != "NCRISC" && address >= triscResetPC &&
		address <= ncriscResetPCOverride
}

// held tells whether a value of SOFT_RESET_0 keeps the core in reset.
func (c *core) isInReset(softReset uint32) bool { return softReset>>c.reset.Bit&1 != 0 }

// run has every core that is out of reset carry out n instructions, in turn.
// Once all of them jump to themselves nothing more can happen of itself, and
// the rest is skipped.
func (t *tensix) runCores(n int64) (idle bool) {
	for ; n > 0 && !idle; n-- {
		idle = true
		for i := range t.cores {
			c := &t.cores[i]
			if c.isInReset(t.softReset) || c.hart.Stop.Reason != rv32.Running {
				continue
			}
			pc := c.hart.PC
			if !c.hart.Step(1) && t.fault == "" {
				t.fault = c.stopText()
			}
			idle = idle && c.hart.PC == pc
		}
	}
	return idle
}

// stopped says why a core has stopped.
func (c *core) stopText() string {
	text := fmt.Sprintf("tile (%d,%d): %s stopped at %v", c.tile.at.X, c.tile.at.Y, c.reset.Name,
		c.hart.Stop)
	if c.why != nil {
		text += ": " + c.why.Error()
	}
	return text
}

// takeFault tells, once, that a core has stopped.
func (t *tensix) reportFault() bool {
	if t.fault == "" {
		return false
	}
	t.tiles.reason, t.fault = t.fault, ""
	return true
}

// Fetch is from L1 only: Wormhole's instruction RAM of NCRISC is not modelled.
func (c *core) Fetch(address uint32) (uint32, bool) {
	if !c.tile.l1.contains(uint64(address)) {
		return 0, false
	}
	return uint32(c.tile.l1.load(uint64(address), 4)), true
}

// Load reaches L1, the core's own RAM and, 32 bits wide, the registers.
func (c *core) Load(address uint32, width uint8) (uint32, bool) {
	if m, offset := c.memory(address); m != nil {
		return uint32(m.load(offset, width)), true
	}
	if width != 4 {
		return 0, false
	}
	return c.tile.loadRegister(uint64(address))
}

// Store is as Load.
func (c *core) Store(address uint32, width uint8, value uint32) bool {
	if m, offset := c.memory(address); m != nil {
		m.store(offset, width, uint64(value))
		return true
	}
	if width != 4 {
		return false
	}
	if c.isStartRegister(address) {
		c.tile.registers[uint64(address)] = value
		return true
	}
	c.why = c.tile.storeRegister(uint64(address), value)
	return c.why == nil
}

func (c *core) memory(address uint32) (m *ram, offset uint64) {
	if c.tile.l1.contains(uint64(address)) {
		return &c.tile.l1, uint64(address)
	}
	// below localRAM it wraps round to far beyond
	if offset = uint64(address - localRAM); c.local.contains(offset) {
		return &c.local, offset
	}
	return nil, 0
}

// loadRegister is a 32-bit load of a register, by the host or a core.
func (t *tensix) loadRegister(address uint64) (value uint32, ok bool) {
	switch address {
	case t.tiles.grid.Reset.Address:
		return t.softReset, true
	case wallClock0:
		return uint32(t.tiles.clock), true
	case wallClock1, wallClock1At:
		return uint32(t.tiles.clock >> 32), true
	}
	if n, offset := t.networkInterface(address); n != nil {
		return n.load(offset)
	}
	r := t.tiles.grid.Register(chips.Tensix, address)
	return t.registers[address], r != nil && !r.StoreOnly
}

// niu gives the network interface at an address, nil if there is none.
func (t *tensix) networkInterface(address uint64) (n *niu, offset uint64) {
	if address < niu0 || address >= niu1+niuSize {
		return nil, 0
	}
	return &t.noc[(address-niu0)/niuSize], (address - niu0) % niuSize
}

// logicalTile gives the translated coordinate of a Tensix or Ethernet tile, which is its own where
// a grid has none for it.
func logicalTile(g *chips.Grid, t chips.Tile) chips.Tile {
	if x := slices.Index(g.Columns, t.X); x >= 0 {
		t.X = g.First + uint8(x)
	}
	if y := slices.Index(g.Lines, t.Y); y >= 0 {
		t.Y = g.First + uint8(y)
	}
	for _, p := range g.Pairs {
		if p.NoC0 == t && g.Kind(t) == chips.Ethernet {
			return p.Translated
		}
	}
	return t
}

var errNoRegister = errors.New("no register that can be stored to")

// storeRegister is a 32-bit store to a register, by the host or a core.
func (t *tensix) storeRegister(address uint64, value uint32) error {
	if address == t.tiles.grid.Reset.Address {
		return t.setSoftReset(value)
	}
	if n, offset := t.networkInterface(address); n != nil {
		return n.store(offset, value)
	}
	if t.tiles.grid.Register(chips.Tensix, address) == nil {
		return errNoRegister
	}
	t.registers[address] = value
	return nil
}

// setSoftReset stops the cores whose bits are set and starts those whose bits become clear.
func (t *tensix) setSoftReset(value uint32) error {
	reset := &t.tiles.grid.Reset
	value &^= reset.Ignored
	if value&^reset.Mask != 0 {
		return fmt.Errorf("SOFT_RESET_0 = %#x has bits outside %#x", value, reset.Mask)
	}
	for i := range t.cores {
		if c := &t.cores[i]; c.isInReset(t.softReset) && !c.isInReset(value) {
			c.hart.Reset(t.startAddress(&c.reset))
			c.why = nil
		}
	}
	t.softReset = value
	return nil
}

// start is the address a core starts at.
func (t *tensix) startAddress(c *chips.Core) uint32 {
	if t.registers[c.OverrideRegister]>>c.OverrideBit&1 != 0 {
		return t.registers[c.PCRegister]
	}
	return c.PC
}
