package record

import (
	"bytes"
	"iter"
	"maps"
	"slices"
)

// PageSize is the size of a page of Pages in bytes.
const PageSize = 4096

// Pages has the known contents of host memory, by address. Recorders compare memory with the
// contents that the recording has, and the importer follows these contents through a recording.
type Pages struct {
	// True: memory that was never set is unknown. False: it is known to be zero, as after a MEM
	// line.
	Unknown bool

	pages map[uint64]page // by number: the address divided by PageSize
}

type page struct {
	data  *[PageSize]byte // nil: all bytes are unknown
	known *[PageSize]bool // nil: all bytes of data are known
}

// zeros is the page of memory that is known to be zero. It must not be changed.
var zeros [PageSize]byte

// State is what is known of bytes of memory, compared with other data.
type State uint8

const (
	Equal   State = iota // the memory has these data
	Differs              // the memory has other data
	Unknown              // the contents of the memory are unknown
)

// Run is a range of consecutive bytes in one page that have the same state.
type Run struct {
	Address uint64
	Data    []byte
	State   State
}

// pageAt returns the page that contains an address, which the caller must not change.
func (p *Pages) pageAt(address uint64) page {
	g, exists := p.pages[address/PageSize]
	if !exists && !p.Unknown {
		g.data = &zeros
	}
	return g
}

// writablePage returns the page that contains an address, for changes. It allocates the page if it
// has no contents.
func (p *Pages) writablePage(address uint64) page {
	g, exists := p.pages[address/PageSize]
	if g.data != nil {
		return g
	}
	g.data = new([PageSize]byte)
	if exists || p.Unknown {
		g.known = new([PageSize]bool)
	}
	p.setPage(address, g)
	return g
}

func (p *Pages) setPage(address uint64, g page) {
	if p.pages == nil {
		p.pages = map[uint64]page{}
	}
	p.pages[address/PageSize] = g
}

// byPage splits data at the boundaries of pages.
func byPage(address uint64, data []byte) iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		for len(data) > 0 {
			n := min(len(data), int(PageSize-address%PageSize))
			if !yield(address, data[:n]) {
				return
			}
			address, data = address+uint64(n), data[n:]
		}
	}
}

// Set makes data the known contents of memory from address on.
func (p *Pages) Set(address uint64, data []byte) {
	for address, data := range byPage(address, data) {
		g, at := p.writablePage(address), address%PageSize
		copy(g.data[at:], data)
		if g.known != nil {
			for i := range data {
				g.known[at+uint64(i)] = true
			}
		}
	}
}

// Forget makes size bytes of memory unknown. The memory of complete pages is released.
func (p *Pages) Forget(address, size uint64) {
	for size > 0 {
		at := address % PageSize
		n := min(size, PageSize-at)
		if n == PageSize {
			p.setPage(address, page{})
		} else {
			clear(p.writableKnown(address)[at:][:n])
		}
		address, size = address+n, size-n
	}
}

// writableKnown returns the field `known` of the page that contains an address, for changes. It
// allocates the field if all bytes of the page are known.
func (p *Pages) writableKnown(address uint64) *[PageSize]bool {
	g := p.writablePage(address)
	if g.known == nil {
		g.known = new([PageSize]bool)
		for i := range g.known {
			g.known[i] = true
		}
		p.setPage(address, g)
	}
	return g.known
}

// Equal reports whether memory is known to have the given data.
func (p *Pages) Equal(address uint64, data []byte) bool {
	for address, data := range byPage(address, data) {
		g, at := p.pageAt(address), address%PageSize
		if g.data == nil || !bytes.Equal(g.data[at:][:len(data)], data) ||
			g.known != nil && slices.Contains(g.known[at:][:len(data)], false) {
			return false
		}
	}
	return true
}

// Runs splits data into runs of bytes with the same state.
func (p *Pages) Runs(address uint64, data []byte) iter.Seq[Run] {
	return func(yield func(Run) bool) {
		for address, data := range byPage(address, data) {
			g, at := p.pageAt(address), int(address%PageSize)
			for from, to := 0, 0; from < len(data); from = to {
				state := g.state(at+from, data[from])
				for to = from + 1; to < len(data) && g.state(at+to, data[to]) == state; {
					to++
				}
				if !yield(Run{address + uint64(from), data[from:to], state}) {
					return
				}
			}
		}
	}
}

// state returns the state of the byte at an offset, compared with b.
func (g *page) state(at int, b byte) State {
	switch {
	case g.data == nil || g.known != nil && !g.known[at]:
		return Unknown
	case g.data[at] == b:
		return Equal
	}
	return Differs
}

// Bytes returns a copy of the contents of memory. Unknown bytes have any value.
func (p *Pages) Bytes(address, size uint64) []byte {
	contents := make([]byte, size)
	for address, data := range byPage(address, contents) {
		if g := p.pageAt(address); g.data != nil {
			copy(data, g.data[address%PageSize:])
		}
	}
	return contents
}

// Touch makes Touched report true for the page that contains an address. It sets no byte.
func (p *Pages) Touch(address uint64) { p.writablePage(address) }

// Touched reports whether Set, Forget or Touch was called for a byte of the page that contains an
// address.
func (p *Pages) Touched(address uint64) bool {
	_, exists := p.pages[address/PageSize]
	return exists
}

// Addresses returns the addresses of all pages for which Touched reports true, in ascending order.
func (p *Pages) Addresses() []uint64 {
	list := slices.Sorted(maps.Keys(p.pages))
	for i := range list {
		list[i] *= PageSize
	}
	return list
}
