package mock

import (
	"fmt"

	"lightmetal/boards/chips"
)

// ram is the memory of a tile or core, from address 0 on. Unlike Memory, it is fast for accesses in
// random order, such as those of a core. The first store or network request to a page allocates it.
type ram struct {
	size  uint64  // bytes
	pages []*page // nil for a page that is not allocated, which is zero
}

// contains is for aligned accesses: they are inside the memory if their first byte is.
func (m *ram) contains(address uint64) bool { return address < m.size }

func (m *ram) containsRange(address, size uint64) bool {
	return size <= m.size && address <= m.size-size
}

// load needs an aligned address.
func (m *ram) load(address uint64, width uint8) uint64 {
	n := address / pageSize
	if m.pages == nil || m.pages[n] == nil {
		return 0
	}
	return loadLittleEndian(m.pages[n][address%pageSize:], width)
}

// store needs an aligned address.
func (m *ram) store(address uint64, width uint8, value uint64) {
	storeLittleEndian(m.bytesFrom(address), width, value)
}

// bytesFrom returns the memory from an address to the end of its page, and allocates the page if
// necessary.
func (m *ram) bytesFrom(address uint64) []byte {
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
		i += copy(data[i:], m.bytesFrom(address+uint64(i)))
	}
}

func (m *ram) write(address uint64, data []byte) {
	for i := 0; i < len(data); {
		i += copy(m.bytesFrom(address+uint64(i)), data[i:])
	}
}

// readTile copies from an address of a tile: memory of the tile, host memory if the tile is the
// PCIe tile, or one register if the tile has cores. Requests cannot read registers of other tiles.
func (g *Tiles) readTile(at chips.Tile, address uint64, data []byte) error {
	if pages, ok := g.tilePages(at, address, uint64(len(data))); ok {
		for _, page := range pages {
			data = data[copy(data, page):]
		}
		return nil
	}
	kind := g.grid.Kind(at)
	if t := g.coreTileOf(at); t != nil && len(data) == 4 {
		if value, ok := t.loadRegister(address); ok {
			storeLittleEndian(data, 4, uint64(value))
			return nil
		}
	}
	return fmt.Errorf("the %s (%d,%d) does not support a read of %d bytes at %#x", kind, at.X, at.Y,
		len(data), address)
}

// writeTile copies to the addresses that readTile reads.
func (g *Tiles) writeTile(at chips.Tile, address uint64, data []byte) error {
	if pages, ok := g.tilePages(at, address, uint64(len(data))); ok {
		for _, page := range pages {
			data = data[copy(page, data):]
		}
		return nil
	}
	kind := g.grid.Kind(at)
	if t := g.coreTileOf(at); t != nil && len(data) == 4 {
		value := uint32(loadLittleEndian(data, 4))
		if err := t.storeRegister(address, value); err != nil {
			return fmt.Errorf("register %#x of the %s (%d,%d): %w", address, kind, at.X, at.Y, err)
		}
		return nil
	}
	return fmt.Errorf("the %s (%d,%d) does not support a write of %d bytes at %#x", kind, at.X,
		at.Y,
		len(data), address)
}

// tilePages returns the memory at an address of a tile, as slices that do not cross page
// boundaries. The PCIe tile has host memory. `ok` is false if a part of the range is not memory.
func (g *Tiles) tilePages(at chips.Tile, address, size uint64) (pages [][]byte, ok bool) {
	from := func(address, _ uint64) []byte {
		home := g.grid.FirstTileOfBank(at)
		return g.bytes(Place{Tile: true, X: home.X, Y: home.Y, Address: address})
	}
	switch kind := g.grid.Kind(at); {
	case g.grid.ResetOf(kind) != nil:
		l1 := &g.coreTileOf(at).l1
		ok = l1.containsRange(address, size)
		from = func(address, _ uint64) []byte { return l1.bytesFrom(address) }
	case kind == chips.PCIe && g.host != nil:
		ok, from = true, g.host.Bytes
	default:
		ok = g.grid.FindMemory(kind, address, size) != nil
	}
	for ok && size > 0 {
		n := min(size, pageSize-address%pageSize)
		page := from(address, n)
		if page == nil {
			return nil, false
		}
		pages, address, size = append(pages, page[:n]), address+n, size-n
	}
	return pages, ok
}
