package mock

// The registers of the TDMA (data mover of a Tensix tile) for programs that only move data. On
// Wormhole, they copy code from L1 to NCRISC's instruction memory. Sources: tt-isa-documentation
// WormholeB0/TensixTile/TDMA-RISC.md; ttsim v1.10.0 src/tile.cpp, riscv_tdma_regs_wr32.

import (
	"errors"
	"fmt"

	"lightmetal/boards/chips"
)

const (
	moverBase = 0xffb11000 // first register of the TDMA
	moverSize = 0x1000     // bytes of all its registers

	// Offsets of registers. Addresses and sizes are in units of 16 bytes.
	moverSource    = 0x00
	moverTarget    = 0x04
	moverLength    = 0x08
	moverDirection = 0x0c
	moverCommand   = 0x10
	moverStatus    = 0x14
	moverClockGate = 0x24

	moverUnit       = 16     // bytes of a unit
	moverToCode     = 0x4000 // value of moverTarget: the first byte of NCRISC's instruction memory
	moverFromL1     = 1      // value of moverDirection
	moverCopy       = 0x40   // value of moverCommand: copy by mover 0
	moverQueueEmpty = 1 << 3 // value of moverStatus: a copy is complete at once
)

// mover is the TDMA of a tile, with the memory to which it copies.
type mover struct {
	code           ram    // NCRISC's instruction memory; size 0: none
	source, length uint32 // values of moverSource and moverLength
}

func (t *coreTile) isMoverRegister(address uint64) bool {
	return t.kind == chips.Tensix && address >= moverBase && address < moverBase+moverSize
}

// load returns false for a register that does not support loads.
func (m *mover) load(offset uint64) (value uint32, ok bool) {
	return moverQueueEmpty, offset == moverStatus && m.code.size != 0
}

func (t *coreTile) storeMover(offset uint64, value uint32) error {
	m := &t.mover
	switch {
	case offset == moverClockGate:
		return nil
	case m.code.size == 0:
	case offset == moverSource:
		m.source = value
		return nil
	case offset == moverTarget && value == moverToCode, offset == moverDirection &&
		value == moverFromL1:
		return nil
	case offset == moverLength:
		m.length = value
		return nil
	case offset == moverCommand && value == moverCopy:
		return t.moveCode()
	}
	return errors.New("the TDMA of the mock supports only copies from L1 " +
		"to NCRISC's instruction memory")
}

func (t *coreTile) moveCode() error {
	m := &t.mover
	from, size := uint64(m.source)*moverUnit, uint64(m.length)*moverUnit
	switch {
	case size > m.code.size:
		return fmt.Errorf("the TDMA cannot copy %d bytes: NCRISC's instruction memory has %d bytes",
			size, m.code.size)
	case !t.l1.containsRange(from, size):
		return fmt.Errorf("the range of %d bytes at %#x must be in L1", size, from)
	}
	code := make([]byte, size)
	t.l1.read(from, code)
	m.code.write(0, code)
	return nil
}
