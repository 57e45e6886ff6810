package mock

// This file models plain memory.

import (
	"encoding/binary"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
)

const pageSize = 4096

type page [pageSize]byte

// Memory is a Model in which every place keeps the last value that was stored to it. That is
// exact for RAM, DRAM and L1, and an approximation for registers. Pages are allocated when
// they are first accessed, and are zero then.
type Memory struct {
	grid  *chips.Grid     // the tiles, which have reset registers; may be nil
	pages map[Place]*page // by the place of their first byte

	// The page of the previous access, because consecutive accesses are often close together.
	last     Place
	lastPage *page
}

// NewMemory returns a Memory in which reset registers have their value after power-up and keep
// only the bits of cores.
func NewMemory(b *boards.Board) *Memory { return &Memory{grid: chips.Of(b).Grid} }

// Load implements Model.
func (m *Memory) Load(at Place, width uint8) (uint64, hal.Code) {
	return loadLittleEndian(m.bytes(at), width), hal.OK
}

// Store implements Model.
func (m *Memory) Store(at Place, width uint8, value uint64) hal.Code {
	if m.isReset(at) {
		value &= uint64(m.grid.Reset.Mask)
	}
	storeLittleEndian(m.bytes(at), width, value)
	return hal.OK
}

// bytes returns the memory from a place to the end of its page. An aligned access does not
// cross that.
func (m *Memory) bytes(at Place) []byte {
	inside := at.Address % pageSize
	at.Address -= inside
	if m.lastPage == nil || m.last != at {
		m.last, m.lastPage = at, m.page(at)
	}
	return m.lastPage[inside:]
}

func (m *Memory) page(first Place) *page {
	if p := m.pages[first]; p != nil {
		return p
	}
	if m.pages == nil {
		m.pages = map[Place]*page{}
	}
	p := &page{}
	m.pages[first] = p
	if m.grid != nil {
		reset := first
		reset.Address = m.grid.Reset.Address
		if inside := reset.Address - first.Address; inside < pageSize && m.isReset(reset) {
			storeLittleEndian(p[inside:], 4, uint64(m.grid.Reset.Initial))
		}
	}
	return p
}

func (m *Memory) isReset(at Place) bool {
	return m.grid != nil && at.Tile && at.Address == m.grid.Reset.Address &&
		hasReset(m.grid.Kind(chips.Tile{X: at.X, Y: at.Y}))
}

// loadLittleEndian returns the value of the first width bytes of b.
func loadLittleEndian(b []byte, width uint8) (value uint64) {
	if width == 4 { // the most frequent width
		return uint64(binary.LittleEndian.Uint32(b))
	}
	for i := range width {
		value |= uint64(b[i]) << (8 * i)
	}
	return value
}

// storeLittleEndian sets the first width bytes of b.
func storeLittleEndian(b []byte, width uint8, value uint64) {
	for i := range width {
		b[i] = byte(value >> (8 * i))
	}
}
