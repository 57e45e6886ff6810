package mock

import (
	"encoding/binary"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
)

const pageSize = 4096 // bytes

type page [pageSize]byte

// Memory is a Model in which every place returns the value that was last stored to it, at first 0.
// This is exact for memory of a device, and an approximation for its registers. The first access
// to a page allocates the page.
type Memory struct {
	grid  *chips.Grid     // tiles of the chip; nil if the board has none
	pages map[Place]*page // pages by the place of their first byte

	// The page of the previous access, and the place of its first byte. They save a search in the
	// map, because consecutive accesses are often to the same page.
	last     Place
	lastPage *page
}

// NewMemory returns a Memory for the board. The registers that keep cores in reset have their value
// after power-up, and stores change only the bits of their masks.
func NewMemory(b *boards.Board) *Memory { return &Memory{grid: chips.ForBoard(b).Grid} }

// Load implements Model.
func (m *Memory) Load(at Place, width uint8) (uint64, hal.Code) {
	return loadLittleEndian(m.bytes(at), width), hal.OK
}

// Store implements Model.
func (m *Memory) Store(at Place, width uint8, value uint64) hal.Code {
	if r := m.resetAt(at); r != nil {
		value &= uint64(r.Mask)
	}
	storeLittleEndian(m.bytes(at), width, value)
	return hal.OK
}

// bytes returns the memory from a place to the end of its page. An aligned access never crosses a
// page boundary.
func (m *Memory) bytes(at Place) []byte {
	inside := at.Address % pageSize
	at.Address -= inside
	if m.lastPage == nil || m.last != at {
		m.last, m.lastPage = at, m.page(at)
	}
	return m.lastPage[inside:]
}

// page returns the page that begins at a place, and allocates it if necessary.
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
		reset.Address = m.grid.TensixReset.Address
		if inside := reset.Address - first.Address; inside < pageSize {
			if r := m.resetAt(reset); r != nil {
				storeLittleEndian(p[inside:], 4, uint64(r.ValueAfterPowerUp))
			}
		}
	}
	return p
}

// resetAt returns the register at a place if it keeps cores in reset, else nil.
func (m *Memory) resetAt(at Place) *chips.CoreReset {
	if m.grid == nil || !at.Tile {
		return nil
	}
	r := m.grid.ResetOf(m.grid.Kind(chips.Tile{X: at.X, Y: at.Y}))
	if r == nil || r.Address != at.Address {
		return nil
	}
	return r
}

func loadLittleEndian(b []byte, width uint8) (value uint64) {
	if width == 4 { // the most frequent width
		return uint64(binary.LittleEndian.Uint32(b))
	}
	for i := range width {
		value |= uint64(b[i]) << (8 * i)
	}
	return value
}

func storeLittleEndian(b []byte, width uint8, value uint64) {
	for i := range width {
		b[i] = byte(value >> (8 * i))
	}
}
