package mock

import (
	"fmt"

	"lightmetal/boards/chips"
)

// ram is the memory of a tile or core. Unlike Memory it is fast where accesses
// jump about, as those of a core do. Pages come into being when they are
// stored to.
type ram struct {
	size  uint64
	pages []*page
}

// covers tells whether an aligned access at an address is inside.
func (m *ram) covers(address uint64) bool { return address < m.size }

// holds tells whether size bytes at an address are inside.
func (m *ram) holds(address, size uint64) bool { return size <= m.size && address <= m.size-size }

func (m *ram) load(address uint64, width uint8) uint64 {
	n := address / pageSize
	if m.pages == nil || m.pages[n] == nil {
		return 0
	}
	return get(m.pages[n][address%pageSize:], width)
}

func (m *ram) store(address uint64, width uint8, value uint64) {
	put(m.from(address), width, value)
}

// from is memory from an address to the end of its page.
func (m *ram) from(address uint64) []byte {
	if m.pages == nil {
		m.pages = make([]*page, (m.size+pageSize-1)/pageSize)
	}
	p := &m.pages[address/pageSize]
	if *p == nil {
		*p = new(page)
	}
	return (*p)[address%pageSize:]
}

func (m *ram) read(address uint64, data []byte) {
	for i := 0; i < len(data); {
		i += copy(data[i:], m.from(address+uint64(i)))
	}
}

func (m *ram) write(address uint64, data []byte) {
	for i := 0; i < len(data); {
		i += copy(m.from(address+uint64(i)), data[i:])
	}
}

// readTile reads memory of a tile, host memory behind the PCIe tile, or one
// register of a Tensix tile. Registers of others are not modelled.
func (g *Tiles) readTile(at chips.Tile, address uint64, data []byte) error {
	kind := g.grid.Kind(at)
	if kind == chips.Tensix {
		t := g.tile(at)
		if t.l1.holds(address, uint64(len(data))) {
			t.l1.read(address, data)
			return nil
		}
		if value, ok := t.loadRegister(address); ok && len(data) == 4 {
			put(data, 4, uint64(value))
			return nil
		}
	} else if g.hostPages(kind, address, len(data), func(page []byte, i int) { copy(data[i:], page) }) {
		return nil
	} else if g.grid.Memory(kind, address, uint64(len(data))) != nil {
		g.eachPage(at, address, len(data), func(page []byte, i int) { copy(data[i:], page) })
		return nil
	}
	return fmt.Errorf("the %s (%d,%d) cannot be read %d bytes at %#x", kind, at.X, at.Y, len(data), address)
}

// writeTile is as readTile.
func (g *Tiles) writeTile(at chips.Tile, address uint64, data []byte) error {
	kind := g.grid.Kind(at)
	if kind == chips.Tensix {
		t := g.tile(at)
		if t.l1.holds(address, uint64(len(data))) {
			t.l1.write(address, data)
			return nil
		}
		if len(data) == 4 {
			if err := t.storeRegister(address, uint32(get(data, 4))); err != nil {
				return fmt.Errorf("register %#x of the %s (%d,%d): %w", address, kind, at.X, at.Y, err)
			}
			return nil
		}
	} else if g.hostPages(kind, address, len(data), func(page []byte, i int) { copy(page, data[i:]) }) {
		return nil
	} else if g.grid.Memory(kind, address, uint64(len(data))) != nil {
		g.eachPage(at, address, len(data), func(page []byte, i int) { copy(page, data[i:]) })
		return nil
	}
	return fmt.Errorf("the %s (%d,%d) cannot be written %d bytes at %#x", kind, at.X, at.Y, len(data), address)
}

// hostPages goes through size bytes of the host memory that a kind of tile shows
// at an address; i is how many came before a page. It tells whether they are all
// there, and does nothing where one is not.
func (g *Tiles) hostPages(k chips.Kind, address uint64, size int, do func(page []byte, i int)) bool {
	if k != chips.PCIe || g.host == nil {
		return false
	}
	var pages [][]byte
	for done := 0; done < size; {
		at := address + uint64(done)
		page := g.host.Bytes(at, min(uint64(size-done), pageSize-at%pageSize))
		if page == nil {
			return false
		}
		pages = append(pages, page)
		done += len(page)
	}
	i := 0
	for _, page := range pages {
		do(page, i)
		i += len(page)
	}
	return true
}

// eachPage goes through size bytes of a tile's memory; i is how many came
// before a page.
func (g *Tiles) eachPage(at chips.Tile, address uint64, size int, do func(page []byte, i int)) {
	home := g.grid.Home(at)
	for i := 0; i < size; {
		page := g.bytes(Place{Tile: true, X: home.X, Y: home.Y, Address: address + uint64(i)})
		page = page[:min(len(page), size-i)]
		do(page, i)
		i += len(page)
	}
}
