package mock

// The parts of the Tensix coprocessor that cores access even if they only move data, because
// tt-metal's firmware initialises them: the configuration, the general-purpose registers, the
// semaphores, and the mailboxes between cores. The model has no matrix engine, vector unit,
// unpackers or packers: most instructions for them stop the core.
//
// Sources: tt-isa-documentation WormholeB0/TensixTile/BabyRISCV/{README,Mailboxes,TTSync}.md and
// WormholeB0/TensixTile/TensixCoprocessor; ttsim v1.10.0 src/tile.cpp, t_tile_mmio_rd32 and
// t_tile_mmio_wr32, and data/{wh,bh}/tile_regs.json.

import (
	"errors"
	"fmt"

	"lightmetal/boards/chips"
)

// Numbers of the cores of a Tensix tile, in the order of chips.CoreReset.Cores.
const (
	brisc  = 0
	trisc0 = 1
	trisc2 = 3
	ncrisc = 4
)

const (
	threads         = 3  // threads of the coprocessor, one for each of TRISC0 to TRISC2
	threadRegisters = 64 // general-purpose registers of a thread
	semaphores      = 8
	semaphoreMax    = 15 // largest value of a semaphore
	mailboxEnds     = 4  // cores with mailboxes: BRISC and the TRISCs
	mailboxDepth    = 4  // values that all mailboxes of one writer together can hold

	configBase = 0xffef0000 // first word of the configuration
)

// The words of a coprocessor's configuration are in coreTile.registers.
type coprocessor struct {
	registers [threads][threadRegisters]uint32
	semaphore [semaphores]uint8
	mailboxes [mailboxEnds][mailboxEnds]mailbox // by the numbers of the writer and of the reader
}

type mailbox struct {
	values [mailboxDepth]uint32
	n      int // number of values in the queue
}

// coprocessorRegion is a range of addresses that only some cores of a Tensix tile may access.
type coprocessorRegion struct {
	first, size uint32
	from, to    int // numbers of the first and the last core that may access the range
	load        func(c *core, offset uint32) (uint32, error)
	store       func(c *core, offset, value uint32) error
}

var errStoreOnly = errors.New("this register is write-only")

func noLoad(*core, uint32) (uint32, error) { return 0, errStoreOnly }

var coprocessorRegions = []coprocessorRegion{
	{0xffb80000, 0x24, trisc0, trisc2, noLoad, (*core).ignoreStore}, // MOP expander
	{0xffe00000, 4 * threadRegisters, trisc0, trisc2, (*core).loadThread, (*core).storeThread},
	{0xffe40000, 4, brisc, trisc2, noLoad, (*core).pushInstruction},
	{0xffe50000, 4, brisc, brisc, noLoad, (*core).pushInstruction},
	{0xffe60000, 4, brisc, brisc, noLoad, (*core).pushInstruction},
	{0xffe80004, 8, trisc0, trisc2, (*core).loadSync, (*core).ignoreStore},
	{0xffe80020, 4 * semaphores, trisc0, trisc2, (*core).loadSemaphore, (*core).storeSemaphore},
	{0xffec0000, 0x4000, brisc, trisc2, (*core).loadMailbox, (*core).storeMailbox},
	{configBase, 0x1000, brisc, trisc2, (*core).loadConfig, (*core).storeConfig},
}

// coprocessorRegion returns nil if no region has the address, or the core may not access it.
func (c *core) coprocessorRegion(address uint32) *coprocessorRegion {
	if address < coprocessorRegions[0].first || c.tile.kind != chips.Tensix {
		return nil
	}
	for i := range coprocessorRegions {
		r := &coprocessorRegions[i]
		if address-r.first < r.size && c.number >= r.from && c.number <= r.to {
			return r
		}
	}
	return nil
}

func (c *core) ignoreStore(uint32, uint32) error { return nil }

func (c *core) loadThread(offset uint32) (uint32, error) {
	return c.tile.coprocessor.registers[c.number-trisc0][offset/4], nil
}

func (c *core) storeThread(offset, value uint32) error {
	c.tile.coprocessor.registers[c.number-trisc0][offset/4] = value
	return nil
}

// loadSync implements a load that waits until the coprocessor has executed all earlier
// instructions. In the model, an instruction is complete as soon as it is pushed.
func (c *core) loadSync(uint32) (uint32, error) { return 0, nil }

func (c *core) loadSemaphore(offset uint32) (uint32, error) {
	return uint32(c.tile.coprocessor.semaphore[offset/4]), nil
}

// storeSemaphore implements a store to a semaphore: 0 increments it, and 1 decrements it.
func (c *core) storeSemaphore(offset, value uint32) error {
	s := &c.tile.coprocessor.semaphore[offset/4]
	switch {
	case value == 0 && *s < semaphoreMax:
		*s++
	case value == 1 && *s > 0:
		*s--
	case value == 0:
		return fmt.Errorf("semaphore %d must not be incremented above %d", offset/4, semaphoreMax)
	case value == 1:
		return fmt.Errorf("semaphore %d must not be decremented below 0", offset/4)
	default:
		return fmt.Errorf("semaphore %d accepts only 0 (increment) and 1 (decrement), not %#x",
			offset/4, value)
	}
	return nil
}

// mailboxStride is the distance of two mailboxes, in bytes.
const mailboxStride = 0x1000

// loadMailbox implements a load from the mailbox that another core writes. It waits for a value and
// removes the value. A load from the second word of a mailbox returns 1 if there is a value, else
// 0.
func (c *core) loadMailbox(offset uint32) (uint32, error) {
	m := &c.tile.coprocessor.mailboxes[offset/mailboxStride][c.number]
	if offset&4 != 0 {
		return uint32(min(m.n, 1)), nil
	}
	if m.n == 0 {
		c.hart.Stall = true
		return 0, nil
	}
	value := m.values[0]
	copy(m.values[:], m.values[1:])
	m.n--
	return value, nil
}

// storeMailbox implements a store to the mailbox that another core reads. It waits while the
// mailboxes of the core are full.
func (c *core) storeMailbox(offset, value uint32) error {
	all, n := &c.tile.coprocessor.mailboxes[c.number], 0
	for i := range all {
		n += all[i].n
	}
	if n == mailboxDepth {
		c.hart.Stall = true
		return nil
	}
	m := &all[offset/mailboxStride]
	m.values[m.n] = value
	m.n++
	return nil
}

func (c *core) loadConfig(offset uint32) (uint32, error) {
	return c.tile.registers[configBase+uint64(offset)], nil
}

// In the model, only the start addresses of cores in the configuration have an effect.
func (c *core) storeConfig(offset, value uint32) error {
	c.tile.registers[configBase+uint64(offset)] = value
	return nil
}

// Opcodes (bits 24 to 31) of the coprocessor's instructions that the model accepts. Firmware
// initialises parts of the coprocessor with them, also for programs that only move data.
const (
	tensixNop       = 0x02
	tensixZeroAcc   = 0x10
	tensixLoadImm   = 0x71
	tensixEnableCC  = 0x8a
	tensixConfigSFP = 0x91
	tensixSemInit   = 0xa3
	tensixSetC16    = 0xb2
)

func (c *core) pushInstruction(_, instruction uint32) error {
	switch instruction >> 24 {
	case tensixNop, tensixZeroAcc, tensixLoadImm, tensixEnableCC, tensixConfigSFP, tensixSetC16:
		return nil
	case tensixSemInit:
		c.tile.coprocessor.initSemaphores(instruction)
		return nil
	}
	return fmt.Errorf("the mock does not implement instruction %#x of the Tensix coprocessor; "+
		"use ttsim with --device ttsim:LIBRARY", instruction)
}

// initSemaphores executes SEMINIT: bits 2 to 9 choose the semaphores, and bits 16 to 19 are their
// value.
func (p *coprocessor) initSemaphores(instruction uint32) {
	for i := range p.semaphore {
		if instruction>>(2+i)&1 != 0 {
			p.semaphore[i] = uint8(instruction >> 16 & semaphoreMax)
		}
	}
}
