package mock

import (
	"errors"
	"fmt"
	"slices"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal/mock/rv32"
)

// Addresses in a tile that package boards does not list: ttsim v1.10.0
// data/{wh,bh}/tile_regs.json. Of these, the host reaches only the network interfaces.
const (
	localRAM = 0xffb00000 // each core has its own memory at this address

	// The wall clock counts cycles of 1 ns since power-up. On silicon a load of wallClock0 latches
	// the high word in wallClock1At; in ttsim it does not.
	wallClock0   = 0xffb121f0 // low word
	wallClock1   = 0xffb121f4 // high word
	wallClock1At = 0xffb121f8 // high word

	niu0, niu1 = 0xffb20000, 0xffb30000 // first register of each network interface
	niuSize    = 0x10000                // bytes of one network interface

	// Registers with the start addresses of Wormhole's TRISC and NCRISC cores. They are in the
	// configuration of the coprocessor (configBase): ttsim v1.10.0 data/wh/tensix_regs.json.
	triscResetPC          = 0xffef0278 // TRISC_RESET_PC_SEC0_PC; two more registers follow
	triscResetPCOverride  = 0xffef0284
	ncriscResetPC         = 0xffef0288
	ncriscResetPCOverride = 0xffef028c

	// NCRISC's own instruction memory on Wormhole, from which it only fetches: tt-isa-documentation
	// WormholeB0/TensixTile/BabyRISCV/InstructionRAM.md.
	instructionRAM     = 0xffc00000
	instructionRAMSize = 16 << 10
)

// coreTraits describes what differs between the cores and network interfaces of the chips (ttsim
// v1.10.0 src/config.h, src/riscv_impl.h).
type coreTraits struct {
	fence      bool     // value of rv32.Core.Fence and rv32.Core.HasConfig
	configures bool     // start addresses are in the registers from triscResetPC on
	movesCode  bool     // NCRISC has its own instruction memory, to which the TDMA copies code
	local      []uint64 // sizes of the memories at localRAM, in the order of chips.CoreReset.Cores
	ethLocal   uint64   // the same size for a core of an Ethernet tile
	noc        *nocTraits
	stream     *streamTraits
	firmware   *ethernetFirmware
}

// coreTraitsOf has the traits by the name of the board.
var coreTraitsOf = map[string]*coreTraits{
	boards.Wormhole.Name: {configures: true, movesCode: true,
		local: []uint64{4096, 2048, 2048, 2048, 4096}, ethLocal: 4096,
		noc: wormholeNoC, stream: &wormholeStream, firmware: &wormholeFirmware},
	boards.Blackhole.Name: {fence: true,
		local: []uint64{8192, 4096, 4096, 4096, 8192}, ethLocal: 8192,
		noc: blackholeNoC, stream: &blackholeStream, firmware: &blackholeFirmware},
}

// coreTile is a Tensix or Ethernet tile: RISC-V cores, their common memory (L1), two network
// interfaces and the streams of the overlay. The model has no Ethernet links. Of the coprocessor,
// it has only the parts that cores need for moving data.
type coreTile struct {
	tiles       *Tiles
	at          chips.Tile // NoC 0 coordinates
	kind        chips.TileKind
	reset       *chips.CoreReset
	l1          ram               // memory of the tile
	softReset   uint32            // SOFT_RESET_0, which keeps cores in reset
	registers   map[uint64]uint32 // values of other registers, by address
	cores       []core
	noc         [2]niu
	coprocessor coprocessor
	mover       mover
	fault       string // why a core stopped; "" if no core stopped, or after reportFault
}

// core is a RISC-V core of a tile, with the memory and registers that it accesses.
type core struct {
	hart   rv32.Core  // state of the core
	reset  chips.Core // name, reset bit and start address
	number int        // index in chips.CoreReset.Cores
	tile   *coreTile
	off    bool  // does not run although it is out of reset, because it has no start address
	local  ram   // memory at localRAM
	why    error // why the last access of the core was rejected; nil if unknown
}

func newCoreTile(g *Tiles, at chips.Tile) *coreTile {
	kind := g.grid.Kind(at)
	reset, l1 := g.grid.ResetOf(kind), g.grid.FindMemory(kind, 0, 1)
	t := &coreTile{tiles: g, at: at, kind: kind, reset: reset, l1: ram{size: l1.Last + 1},
		softReset: reset.ValueAfterPowerUp, registers: map[uint64]uint32{}}
	t.noc = [2]niu{newNIU(t, false), newNIU(t, true)}
	t.cores = make([]core, len(reset.Cores))
	for i := range t.cores {
		c := &t.cores[i]
		at, local := reset.Cores[i], g.traits.ethLocal
		if kind == chips.Tensix {
			local = g.traits.local[i]
		}
		if g.traits.configures {
			setStartRegisters(&at)
		}
		*c = core{hart: rv32.Core{Fence: g.traits.fence, HasConfig: g.traits.fence, Bus: c},
			reset: at, number: i, tile: t, local: ram{size: local}}
	}
	if kind == chips.Tensix && g.traits.movesCode {
		t.mover.code.size = instructionRAMSize
	}
	t.startFirmware()
	return t
}

// setStartRegisters sets which registers have the start address of a TRISC or NCRISC core of
// Wormhole.
func setStartRegisters(c *chips.Core) {
	switch c.Name {
	case "TRISC0", "TRISC1", "TRISC2":
		n := c.Name[5] - '0'
		c.PCRegister, c.PCOverrideRegister, c.PCOverrideBit = triscResetPC+4*uint64(n),
			triscResetPCOverride, n
	case "NCRISC":
		c.PCRegister, c.PCOverrideRegister = ncriscResetPC, ncriscResetPCOverride
	}
}

// isInReset takes a value of SOFT_RESET_0.
func (c *core) isInReset(softReset uint32) bool { return softReset>>c.reset.ResetBit&1 != 0 }

// runCores makes each core that is out of reset execute n instructions. The cores take turns after
// each instruction. runCores returns early, and reports that the cores are idle, if each of them is
// stopped, waits for a mailbox, or executes a jump to itself: then their state cannot change.
func (t *coreTile) runCores(n int64) (idle bool) {
	for ; n > 0 && !idle; n-- {
		idle = true
		for i := range t.cores {
			c := &t.cores[i]
			if c.isInReset(t.softReset) || c.off || c.hart.Stop.Reason != rv32.Running {
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

func (c *core) stopText() string {
	text := fmt.Sprintf("tile (%d,%d): %s stopped at %v", c.tile.at.X, c.tile.at.Y, c.reset.Name,
		c.hart.Stop)
	if c.why != nil {
		text += ": " + c.why.Error()
	}
	return text
}

// reportFault reports whether a core has stopped since the last call. If so, Tiles.Reason returns
// the reason.
func (t *coreTile) reportFault() bool {
	if t.fault == "" {
		return false
	}
	t.tiles.reason, t.fault = t.fault, ""
	return true
}

// Fetch implements rv32.Bus.
func (c *core) Fetch(address uint32) (uint32, bool) {
	if c.tile.l1.contains(uint64(address)) {
		return uint32(c.tile.l1.load(uint64(address), 4)), true
	}
	if m := &c.tile.mover.code; c.reset.Name == "NCRISC" &&
		m.contains(uint64(address-instructionRAM)) {
		return uint32(m.load(uint64(address-instructionRAM), 4)), true
	}
	return 0, false
}

// Load implements rv32.Bus. It loads from L1, the core's local memory or, if width is 4, a
// register.
func (c *core) Load(address uint32, width uint8) (value uint32, ok bool) {
	if m, offset := c.memory(address); m != nil {
		return uint32(m.load(offset, width)), true
	}
	if width != 4 {
		return 0, false
	}
	if r := c.coprocessorRegion(address); r != nil {
		value, c.why = r.load(c, address-r.first)
		return value, c.why == nil
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
	if r := c.coprocessorRegion(address); r != nil {
		c.why = r.store(c, address-r.first, value)
	} else {
		c.why = c.tile.storeRegister(uint64(address), value)
	}
	return c.why == nil
}

// memory returns the core's memory at an address, or nil, and the offset in that memory.
func (c *core) memory(address uint32) (m *ram, offset uint64) {
	if c.tile.l1.contains(uint64(address)) {
		return &c.tile.l1, uint64(address)
	}
	// For an address below localRAM, the unsigned difference is large.
	if offset = uint64(address - localRAM); c.local.contains(offset) {
		return &c.local, offset
	}
	return nil, 0
}

// loadRegister executes a 32-bit load from a register of the tile by the host or a core.
func (t *coreTile) loadRegister(address uint64) (value uint32, ok bool) {
	switch address {
	case t.reset.Address:
		return t.softReset, true
	case wallClock0:
		return uint32(t.tiles.clock), true
	case wallClock1, wallClock1At:
		return uint32(t.tiles.clock >> 32), true
	}
	if n, offset := t.networkInterface(address); n != nil {
		return n.load(offset)
	}
	if r := t.overlayRegister(address); r != nil {
		return t.loadStream(r, address)
	}
	if t.isMoverRegister(address) {
		return t.mover.load(address - moverBase)
	}
	r := t.tiles.grid.FindRegisterRange(t.kind, address)
	return t.registers[address], r != nil && !r.StoreOnly
}

// networkInterface returns the network interface with a register at an address, or nil, and the
// offset from its first register.
func (t *coreTile) networkInterface(address uint64) (n *niu, offset uint64) {
	if address < niu0 || address >= niu1+niuSize {
		return nil, 0
	}
	return &t.noc[(address-niu0)/niuSize], (address - niu0) % niuSize
}

// logicalTile returns the translated coordinates of a Tensix or Ethernet tile. It returns t, the
// NoC 0 coordinates, if the grid does not translate them.
func logicalTile(g *chips.Grid, t chips.Tile) chips.Tile {
	if x := slices.Index(g.NoC0Columns, t.X); x >= 0 {
		t.X = g.FirstTranslated + uint8(x)
	}
	if y := slices.Index(g.NoC0Rows, t.Y); y >= 0 {
		t.Y = g.FirstTranslated + uint8(y)
	}
	for _, p := range g.Pairs {
		if p.NoC0 == t && g.Kind(t) == chips.Ethernet {
			return p.Translated
		}
	}
	return t
}

var errNoRegister = errors.New("there is no writable register at this address")

// storeRegister executes a 32-bit store to a register of the tile by the host or a core.
func (t *coreTile) storeRegister(address uint64, value uint32) error {
	if address == t.reset.Address {
		return t.setSoftReset(value)
	}
	if n, offset := t.networkInterface(address); n != nil {
		return n.store(offset, value)
	}
	if r := t.overlayRegister(address); r != nil {
		return t.storeStream(r, address, value)
	}
	if t.isMoverRegister(address) {
		return t.storeMover(address-moverBase, value)
	}
	if t.tiles.grid.FindRegisterRange(t.kind, address) == nil {
		return errNoRegister
	}
	t.registers[address] = value
	return nil
}

// setSoftReset stores to SOFT_RESET_0. It stops the cores whose bits are set, and starts the cores
// whose bits change from 1 to 0.
func (t *coreTile) setSoftReset(value uint32) error {
	reset := t.reset
	value &^= reset.Ignored
	if value&^reset.Mask != 0 {
		return fmt.Errorf("SOFT_RESET_0 = %#x has bits outside the mask %#x", value, reset.Mask)
	}
	for i := range t.cores {
		if c := &t.cores[i]; c.isInReset(t.softReset) && !c.isInReset(value) {
			start := t.startAddress(&c.reset)
			c.hart.Reset(start)
			c.off = start == 0 && c.reset.PCRegister != 0 && c.reset.PCOverrideRegister == 0
			c.why = nil
		}
	}
	t.softReset = value
	return nil
}

// startAddress returns the address of the first instruction after a reset: the value of the core's
// start address register if that is enabled, otherwise the default address.
func (t *coreTile) startAddress(c *chips.Core) uint32 {
	if c.PCRegister != 0 && c.PCOverrideRegister == 0 {
		return t.registers[c.PCRegister]
	}
	if t.registers[c.PCOverrideRegister]>>c.PCOverrideBit&1 != 0 {
		return t.registers[c.PCRegister]
	}
	return c.StartAddress
}
