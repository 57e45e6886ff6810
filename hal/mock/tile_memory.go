package mock

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
