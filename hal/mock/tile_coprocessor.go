package mock

// This file models what cores access of the Tensix coprocessor, although they only move data: its
// configuration, its general-purpose registers, its semaphores, and the mailboxes between cores.
// tt-metal's firmware initialises them. The model has no matrix engine, no vector unit, no
// unpackers and no packers: an instruction for one of these stops the core.
//
// Sources: tt-isa-documentation WormholeB0/TensixTile/BabyRISCV/{README,Mailboxes,TTSync}.md and
// WormholeB0/TensixTile/TensixCoprocessor; ttsim v1.10.0 src/tile.cpp, t_tile_mmio_rd32 and
// t_tile_mmio_wr32, and data/{wh,bh}/tile_regs.json.

import (
	"errors"
	"fmt"

	"lightmetal/boards/chips"
)

// Numbers of the cores of a Tensix tile, in the order of chips.Reset.Cores.
const (
	brisc  = 0
	trisc0 = 1
	trisc2 = 3
	ncrisc = 4
)

const (
	threads         = 3 // of the coprocessor; TRISC0 to TRISC2 have one each
	threadRegisters = 64
	semaphores      = 8
	semaphoreMax    = 15
	mailboxEnds     = 4 // BRISC and the TRISCs
	mailboxDepth    = 4

	configBase = 0xffef0000 // configuration, as words
)

// coprocessor is the state of a tile's coprocessor. The words of its configuration are in
// coreTile.registers.
type coprocessor struct {
	registers [threads][threadRegisters]uint32
	semaphore [semaphores]uint8
	mailboxes [mailboxEnds][mailboxEnds]mailbox // by the numbers of the writer and of the reader
}

// mailbox is a queue of values.
type mailbox struct {
	values [mailboxDepth]uint32
	n      int
}

// coprocessorRegion is a range of addresses that some cores of a Tensix tile access.
type coprocessorRegion struct {
	first, size uint32
	from, to    int // numbers of the cores that may access it
	load        func(c *core, offset uint32) (uint32, error)
	store       func(c *core, offset, value uint32) error
}

var errStoreOnly = errors.New("these registers cannot be loaded from")

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

// coprocessorRegion returns the region that contains an address, if the core may access it.
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

// loadThread implements a load from a general-purpose register of the core's thread.
func (c *core) loadThread(offset uint32) (uint32, error) {
	return c.tile.coprocessor.registers[c.number-trisc0][offset/4], nil
}

func (c *core) storeThread(offset, value uint32) error {
	c.tile.coprocessor.registers[c.number-trisc0][offset/4] = value
	return nil
}

// loadSync waits until the coprocessor has executed the instructions before it: they are complete
// as soon as they are pushed.
func (c *core) loadSync(uint32) (uint32, error) { return 0, nil }

func (c *core) loadSemaphore(offset uint32) (uint32, error) {
	return uint32(c.tile.coprocessor.semaphore[offset/4]), nil
}

// storeSemaphore increments a semaphore if the value is 0, and decrements it if the value is 1.
func (c *core) storeSemaphore(offset, value uint32) error {
	s := &c.tile.coprocessor.semaphore[offset/4]
	switch {
	case value == 0 && *s < semaphoreMax:
		*s++
	case value == 1 && *s > 0:
		*s--
	default:
		return fmt.Errorf("semaphore %d is %d, and takes no %#x", offset/4, *s, value)
	}
	return nil
}

// mailboxStride is the number of bytes from the addresses of one mailbox to those of the next.
const mailboxStride = 0x1000

// loadMailbox implements a load from the mailbox that another core writes. It waits for a value,
// except at the address of the query.
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

// storeConfig implements a store to the configuration. Only the start addresses of cores have an
// effect in the model.
func (c *core) storeConfig(offset, value uint32) error {
	c.tile.registers[configBase+uint64(offset)] = value
	return nil
}

// Instructions of the coprocessor by bits 24 to 31: those by which firmware initialises parts that
// programs which only move data do not use.
const (
	tensixNop       = 0x02
	tensixZeroAcc   = 0x10
	tensixLoadImm   = 0x71
	tensixEnableCC  = 0x8a
	tensixConfigSFP = 0x91
	tensixSemInit   = 0xa3
	tensixSetC16    = 0xb2
)

// pushInstruction executes an instruction of the coprocessor.
func (c *core) pushInstruction(_, instruction uint32) error {
	switch instruction >> 24 {
	case tensixNop, tensixZeroAcc, tensixLoadImm, tensixEnableCC, tensixConfigSFP, tensixSetC16:
		return nil
	case tensixSemInit:
		c.tile.coprocessor.initSemaphores(instruction)
		return nil
	}
	return fmt.Errorf("instruction %#x of the Tensix coprocessor: the mock has no matrix engine, "+
		"vector unit, unpackers and packers; ttsim has: --device ttsim:LIBRARY", instruction)
}

// initSemaphores executes SEMINIT: bits 2 to 15 choose semaphores, and bits 16 to 19 are their
// value.
func (p *coprocessor) initSemaphores(instruction uint32) {
	for i := range p.semaphore {
		if instruction>>(2+i)&1 != 0 {
			p.semaphore[i] = uint8(instruction >> 16 & semaphoreMax)
		}
	}
}
