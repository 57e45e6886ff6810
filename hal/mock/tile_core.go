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
// data/{wh,bh}/tile_regs.json. The host can access all of them except localRAM.
const (
	localRAM = 0xffb00000 // local memory; each core has its own memory at this address

	// The wall clock counts cycles of 1 ns since power-up. On silicon a load of wallClock0 latches
	// the high word in wallClock1At; in ttsim it does not.
	wallClock0   = 0xffb121f0 // low word
	wallClock1   = 0xffb121f4 // high word
	wallClock1At = 0xffb121f8 // high word

	niu0, niu1 = 0xffb20000, 0xffb30000 // first registers of the two network interfaces
	niuSize    = 0x10000                // bytes of one network interface

	// Registers with the start addresses of Wormhole's TRISC and NCRISC cores. They are in the
	// configuration of the coprocessor. All cores except NCRISC can store to them: ttsim v1.10.0
	// data/wh/tensix_regs.json.
	triscResetPC          = 0xffef0278 // TRISC_RESET_PC_SEC0_PC; two more registers follow
	triscResetPCOverride  = 0xffef0284
	ncriscResetPC         = 0xffef0288
	ncriscResetPCOverride = 0xffef028c
)

// coreTraits describes the properties of cores and network interfaces that differ between the
// chips (ttsim v1.10.0 src/config.h, src/riscv_impl.h).
type coreTraits struct {
	fence      bool     // value of rv32.Core.Fence
	configures bool     // start addresses are in the registers from triscResetPC on
	local      []uint64 // sizes of the memories at localRAM, in the order of chips.Reset.Cores
	noc        *nocTraits
}

// coreTraitsOf contains the traits of each chip by the name of its board.
var coreTraitsOf = map[string]*coreTraits{
	boards.Wormhole.Name: {configures: true, local: []uint64{4096, 2048, 2048, 2048, 4096},
		noc: wormholeNoC},
	boards.Blackhole.Name: {local: []uint64{8192, 4096, 4096, 4096, 8192}, noc: blackholeNoC,
		fence: true},
}

// tensix is a Tensix tile: RISC-V cores, their common memory (L1), and two network interfaces. The
// model does not contain the coprocessor, the mailboxes, and the overlay of the network interfaces.
type tensix struct {
	tiles     *Tiles
	at        chips.Tile        // NoC 0 coordinates
	l1        ram               // memory of the tile
	softReset uint32            // value of SOFT_RESET_0, which keeps cores in reset
	registers map[uint64]uint32 // values of the other registers that the board lists, by address
	cores     []core
	noc       [2]niu
	fault     string // why a core stopped; "" if no core stopped, or after reportFault
}

// core is a RISC-V core of a Tensix tile, with the memory and registers that it accesses.
type core struct {
	hart  rv32.Core  // state of the core
	reset chips.Core // name, reset bit and start address
	tile  *tensix
	local ram   // memory at localRAM
	why   error // why the last store of the core was rejected; nil if unknown
}

// newTensix returns a Tensix tile in the state after power-up.
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
			setStartRegisters(&at)
		}
		*c = core{hart: rv32.Core{Fence: g.traits.fence, Bus: c}, reset: at, tile: t,
			local: ram{size: g.traits.local[i]}}
	}
	return t
}

// setStartRegisters sets the fields of c that name the registers with the start address of a TRISC
// or NCRISC core of Wormhole.
func setStartRegisters(c *chips.Core) {
	switch c.Name {
	case "TRISC0", "TRISC1", "TRISC2":
		n := c.Name[5] - '0'
		c.PCRegister, c.OverrideRegister, c.OverrideBit = triscResetPC+4*uint64(n),
			triscResetPCOverride, n
	case "NCRISC":
		c.PCRegister, c.OverrideRegister = ncriscResetPC, ncriscResetPCOverride
	}
}

// isStartRegister reports whether an address is a register with a start address, and the core
// may store to it.
func (c *core) isStartRegister(address uint32) bool {
	return c.tile.tiles.traits.configures && c.reset.Name != "NCRISC" && address >= triscResetPC &&
		address <= ncriscResetPCOverride
}

// isInReset reports whether the given value of SOFT_RESET_0 keeps the core in reset.
func (c *core) isInReset(softReset uint32) bool { return softReset>>c.reset.Bit&1 != 0 }

// runCores makes each core that is out of reset execute n instructions. The cores take turns: each
// one executes one instruction. runCores returns early, and reports that the cores are idle, if all
// of them are stopped or execute a jump to itself, because their state can then no longer change.
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

// stopText returns the text of a rejection: where and why the core has stopped.
func (c *core) stopText() string {
	text := fmt.Sprintf("tile (%d,%d): %s stopped at %v", c.tile.at.X, c.tile.at.Y, c.reset.Name,
		c.hart.Stop)
	if c.why != nil {
		text += ": " + c.why.Error()
	}
	return text
}

// reportFault reports whether a core has stopped since the last call. If so, it makes the reason
// available to Tiles.Reason.
func (t *tensix) reportFault() bool {
	if t.fault == "" {
		return false
	}
	t.tiles.reason, t.fault = t.fault, ""
	return true
}

// Fetch implements rv32.Bus. It reads only L1. The model does not contain the instruction memory of
// Wormhole's NCRISC.
func (c *core) Fetch(address uint32) (uint32, bool) {
	if !c.tile.l1.contains(uint64(address)) {
		return 0, false
	}
	return uint32(c.tile.l1.load(uint64(address), 4)), true
}

// Load implements rv32.Bus. It loads from L1, the core's local memory or, if width is 4, a
// register.
func (c *core) Load(address uint32, width uint8) (uint32, bool) {
	if m, offset := c.memory(address); m != nil {
		return uint32(m.load(offset, width)), true
	}
	if width != 4 {
		return 0, false
	}
	return c.tile.loadRegister(uint64(address))
}

// Store implements rv32.Bus. It stores to L1, the core's local memory or, if width is 4, a
// register.
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

// memory returns the memory of the core at an address, and the offset in that memory. It returns
// nil if there is no memory at the address.
func (c *core) memory(address uint32) (m *ram, offset uint64) {
	if c.tile.l1.contains(uint64(address)) {
		return &c.tile.l1, uint64(address)
	}
	// If the address is below localRAM, the unsigned difference is large.
	if offset = uint64(address - localRAM); c.local.contains(offset) {
		return &c.local, offset
	}
	return nil, 0
}

// loadRegister executes a 32-bit load from a register of the tile by the host or a core.
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

// networkInterface returns the network interface whose registers contain an address, and the offset
// of the address from the first register. It returns nil if there is no such network interface.
func (t *tensix) networkInterface(address uint64) (n *niu, offset uint64) {
	if address < niu0 || address >= niu1+niuSize {
		return nil, 0
	}
	return &t.noc[(address-niu0)/niuSize], (address - niu0) % niuSize
}

// logicalTile returns the translated coordinates of a Tensix or Ethernet tile. t are the NoC 0
// coordinates; logicalTile returns them if the grid does not translate them.
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

// storeRegister executes a 32-bit store to a register of the tile by the host or a core.
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

// setSoftReset executes a store to SOFT_RESET_0. It stops the cores whose bits are set, and starts
// the cores whose bits change from 1 to 0.
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

// startAddress returns the address of the first instruction that a core executes after a reset: the
// value of the core's start address register if that is enabled, otherwise the default address.
func (t *tensix) startAddress(c *chips.Core) uint32 {
	if t.registers[c.OverrideRegister]>>c.OverrideBit&1 != 0 {
		return t.registers[c.PCRegister]
	}
	return c.PC
}
