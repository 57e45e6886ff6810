package mock

import (
	"encoding/binary"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
)

const pageSize = 4096

type page [pageSize]byte

// Memory is a Model in which every place keeps what was stored to it: RAM,
// DRAM and L1 as they are, registers as good as it gets. It is sparse; pages
// come into being, all zero, when they are first touched.
type Memory struct {
	grid  *chips.Grid     // for reset registers; nil: there are none
	pages map[Place]*page // by the place of their first byte

	// The page of the access before, for runs of neighbours.
	last     Place
	lastPage *page
}

// NewMemory gives a Memory in which reset registers read as they do after power-up and keep the
// cores' bits only.
func NewMemory(b *boards.Board) *Memory { return &Memory{grid: chips.Of(b).Grid} }

// Load implements Model.
func (m *Memory) Load(at Place, width uint8) (uint64, hal.Code) {
	return get(m.bytes(at), width), hal.OK
}

// Store implements Model.
func (m *Memory) Store(at Place, width uint8, value uint64) hal.Code {
	if m.isReset(at) {
		value &= uint64(m.grid.Reset.Mask)
	}
	put(m.bytes(at), width, value)
	return hal.OK
}

// bytes is memory from a place to the end of its page. An aligned access does not cross that.
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
			put(p[inside:], 4, uint64(m.grid.Reset.Initial))
		}
	}
	return p
}

func (m *Memory) isReset(at Place) bool {
	return m.grid != nil && at.Tile && at.Address == m.grid.Reset.Address &&
		hasReset(m.grid.Kind(chips.Tile{X: at.X, Y: at.Y}))
}

func get(b []byte, width uint8) (value uint64) {
	if width == 4 { // what cores and registers take
		return uint64(binary.LittleEndian.Uint32(b))
	}
	for i := range width {
		value |= uint64(b[i]) << (8 * i)
	}
	return value
}

func put(b []byte, width uint8, value uint64) {
	for i := range width {
		b[i] = byte(value >> (8 * i))
	}
}
