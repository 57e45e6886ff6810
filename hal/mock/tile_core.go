package mock

// This file models Tensix tiles and their RISC-V cores.

import (
	"errors"
	"fmt"
	"slices"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal/mock/rv32"
)

// Addresses in a Tensix tile that package boards does not list: ttsim v1.10.0
// data/{wh,bh}/tile_regs.json. The host reaches all of them except localRAM.
const (
	localRAM = 0xffb00000 // of each core

	wallClock0   = 0xffb121f0 // low word of the number of cycles of 1 ns
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

// coreTraits describes the differences between the cores of the chips (ttsim v1.10.0
// src/config.h, src/riscv_impl.h), and between their network interfaces.
type coreTraits struct {
	fence      bool     // see rv32.Core.Fence
	configures bool     // start addresses are in configuration registers, see triscResetPC
	local      []uint64 // bytes at localRAM, in the order of chips.Reset.Cores
	noc        *nocTraits
}

var coreTraitsOf = map[string]*coreTraits{
	boards.Wormhole.Name: {configures: true, local: []uint64{4096, 2048, 2048, 2048, 4096},
		noc: wormholeNoC},
	boards.Blackhole.Name: {local: []uint64{8192, 4096, 4096, 4096, 8192}, noc: blackholeNoC,
		fence: true},
}

// tensix is a Tensix tile. Its coprocessor, its mailboxes and the overlay of its network
// interfaces are not modelled.
type tensix struct {
	tiles     *Tiles
	at        chips.Tile
	l1        ram
	softReset uint32            // SOFT_RESET_0
	registers map[uint64]uint32 // the other registers that the board lists, by address
	cores     []core
	noc       [2]niu
	fault     string // why a core stopped; "" after it has been reported to the host
}

// core is a RISC-V core of a Tensix tile, with the memory and registers that it accesses.
type core struct {
	hart  rv32.Core
	reset chips.Core
	tile  *tensix
	local ram
	why   error // why its last store was rejected, if known
}

func newTensix(g *Tiles, at chips.Tile) *tensix {
	reset, l1 := &g.grid.Reset, g.grid.FindMemory(chips.Tensix, 0, 1)
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

// configuredStart sets the registers that hold the start address of one of Wormhole's cores.
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

// isStartRegister reports whether a core may store to an address because it is a start
// address register.
func (c *core) isStartRegister(address uint32) bool {
	return c.tile.tiles.traits.configures && c.reset.Name != "NCRISC" && address >= triscResetPC &&
		address <= ncriscResetPCOverride
}

// isInReset reports whether a value of SOFT_RESET_0 keeps the core in reset.
func (c *core) isInReset(softReset uint32) bool { return softReset>>c.reset.Bit&1 != 0 }

// runCores makes every core that is out of reset execute n instructions, one core after the
// other. If all cores execute a jump to itself, their state can no longer change, and the
// remaining instructions are skipped.
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

// stopText returns a text about why a core has stopped.
func (c *core) stopText() string {
	text := fmt.Sprintf("tile (%d,%d): %s stopped at %v", c.tile.at.X, c.tile.at.Y, c.reset.Name,
		c.hart.Stop)
	if c.why != nil {
		text += ": " + c.why.Error()
	}
	return text
}

// reportFault reports whether a core has stopped, once for each time.
func (t *tensix) reportFault() bool {
	if t.fault == "" {
		return false
	}
	t.tiles.reason, t.fault = t.fault, ""
	return true
}

// Fetch implements rv32.Bus. It reads L1 only: the instruction RAM of Wormhole's NCRISC is not
// modelled.
func (c *core) Fetch(address uint32) (uint32, bool) {
	if !c.tile.l1.contains(uint64(address)) {
		return 0, false
	}
	return uint32(c.tile.l1.load(uint64(address), 4)), true
}

// Load implements rv32.Bus. It reads L1, the core's local RAM and, with 32 bits, registers.
func (c *core) Load(address uint32, width uint8) (uint32, bool) {
	if m, offset := c.memory(address); m != nil {
		return uint32(m.load(offset, width)), true
	}
	if width != 4 {
		return 0, false
	}
	return c.tile.loadRegister(uint64(address))
}

// Store implements rv32.Bus. It writes to what Load reads.
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
	// an address below localRAM wraps around to a large number
	if offset = uint64(address - localRAM); c.local.contains(offset) {
		return &c.local, offset
	}
	return nil, 0
}

// loadRegister executes a 32-bit load of a register, by the host or a core.
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
	r := t.tiles.grid.FindRegister(chips.Tensix, address)
	return t.registers[address], r != nil && !r.StoreOnly
}

// networkInterface returns the network interface at an address, nil if there is none.
func (t *tensix) networkInterface(address uint64) (n *niu, offset uint64) {
	if address < niu0 || address >= niu1+niuSize {
		return nil, 0
	}
	return &t.noc[(address-niu0)/niuSize], (address - niu0) % niuSize
}

// logicalTile returns the translated coordinate of a Tensix or Ethernet tile. If the grid has
// none for it, that is its NoC 0 coordinate.
func logicalTile(g *chips.Grid, t chips.Tile) chips.Tile {
	if x := slices.Index(g.NoC0Columns, t.X); x >= 0 {
		t.X = g.First + uint8(x)
	}
	if y := slices.Index(g.NoC0Rows, t.Y); y >= 0 {
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

// storeRegister executes a 32-bit store to a register, by the host or a core.
func (t *tensix) storeRegister(address uint64, value uint32) error {
	if address == t.tiles.grid.Reset.Address {
		return t.setSoftReset(value)
	}
	if n, offset := t.networkInterface(address); n != nil {
		return n.store(offset, value)
	}
	if t.tiles.grid.FindRegister(chips.Tensix, address) == nil {
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

// startAddress returns the address that a core starts at.
func (t *tensix) startAddress(c *chips.Core) uint32 {
	if t.registers[c.OverrideRegister]>>c.OverrideBit&1 != 0 {
		return t.registers[c.PCRegister]
	}
	return c.PC
}
