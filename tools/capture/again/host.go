package again

import (
	"bytes"
	"encoding/binary"

	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/align"
)

// Recording has the accesses and the host memory of one recording, for Compare.
type Recording struct {
	Accesses  []traces.Access
	Transfers []Transfer
	Memory    []Span // host memory that is known without a transfer

	transferred map[uint64]bool // numbers of pages; nil: not yet collected
}

// Transfer is an access of the device to host memory, or a change of this memory.
type Transfer struct {
	Line  int
	Bus   uint64
	Write bool // the device wrote; otherwise the program has stored Data
	Data  []byte
}

// Span is a range of host memory.
type Span struct{ Bus, Size uint64 }

const pageBits = 12

const blockBits = 6 // buffers for DMA begin at cache lines of 64 bytes

// blocks pairs the blocks of host memory that belong to the same buffer in both recordings.
type blocks struct {
	a, b     *Recording
	inB, inA map[uint64]uint64 // number of the block in the other recording
}

func (r *Recording) contains(bus uint64) bool {
	for _, m := range r.Memory {
		if bus-m.Bus < m.Size {
			return true
		}
	}
	if r.transferred == nil {
		r.transferred = map[uint64]bool{}
		for _, t := range r.Transfers {
			for at := t.Bus >> pageBits; at <= (t.Bus+uint64(len(t.Data))-1)>>pageBits; at++ {
				r.transferred[at] = true
			}
		}
	}
	return r.transferred[bus>>pageBits]
}

func (r *Recording) showsHost() bool { return len(r.Transfers)+len(r.Memory) > 0 }

// areOne reports whether `a` and `b` are addresses of the same buffer, each in its recording. If
// so, it pairs their blocks (join), and later values must agree with that.
func (p *blocks) areOne(a, b uint64) bool {
	return p.a.contains(a) && (p.b.contains(b) || !p.b.showsHost() && b != 0) && p.join(a, b)
}

// join pairs the blocks of two addresses. It returns false if the addresses differ within the
// block, or if one of the blocks is paired with another block.
func (p *blocks) join(a, b uint64) bool {
	if (a^b)&(1<<blockBits-1) != 0 {
		return false
	}
	a, b = a>>blockBits, b>>blockBits
	otherB, knownA := p.inB[a]
	otherA, knownB := p.inA[b]
	if knownA && otherB != b || knownB && otherA != a {
		return false
	}
	p.inB[a], p.inA[b] = b, a
	return true
}

// transferKey has what a transfer has in common in both recordings.
type transferKey struct {
	write   bool
	size    int
	inBlock uint64
}

func keysOf(list []Transfer) (keys []transferKey) {
	for i := range list {
		t := &list[i]
		keys = append(keys, transferKey{t.Write, len(t.Data), t.Bus & (1<<blockBits - 1)})
	}
	return keys
}

// compareHost compares the transfers of host memory, in their order. If too many are in only one
// recording, the error names the first of these.
func (c *comparer) compareHost() error {
	a, b := c.host.a.Transfers, c.host.b.Transfers
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	next, stored, written := pair{}, map[[2]uint16]bool{}, map[[2]uint16]bool{}
	var both []align.Pair
	for _, p := range align.Common(keysOf(a), keysOf(b)) {
		if !c.host.join(a[p.A].Bus, b[p.B].Bus) {
			continue
		}
		both = append(both, p)
		if next == (pair{p.A, p.B}) {
			next = pair{p.A + 1, p.B + 1}
		}
		if a[p.A].Write {
			addNumbers(written, a[p.A].Data, b[p.B].Data)
		} else {
			addNumbers(stored, a[p.A].Data, b[p.B].Data)
		}
	}
	c.to.Transfers = len(both)
	for _, p := range both {
		if a[p.A].Write {
			c.compareTransfer(&a[p.A], &b[p.B], stored)
		} else {
			c.compareTransfer(&a[p.A], &b[p.B], written)
		}
	}
	all := len(a) + len(b)
	if alone := all - 2*c.to.Transfers; alone*unalignedMax > all {
		line := func(list []Transfer, i int) int {
			if i < len(list) {
				return list[i].Line
			}
			return 0
		}
		return traces.TraceError(line(a, next.a), "%d of %d transfers of host memory are in only "+
			"one of the two recordings, the first here and at line %d of the other: these are not "+
			"recordings of the same work", alone, all, line(b, next.b))
	}
	return nil
}

// addNumbers adds the pairs of numbers of 2 bytes that differ.
func addNumbers(to map[[2]uint16]bool, a, b []byte) {
	for at := 0; at+2 <= len(a); at += 2 {
		if n := numbersAt(a, b, at); n[0] != n[1] {
			to[n] = true
		}
	}
}

func numbersAt(a, b []byte, at int) [2]uint16 {
	return [2]uint16{binary.LittleEndian.Uint16(a[at:]), binary.LittleEndian.Uint16(b[at:])}
}

// areIn reports whether all numbers of 2 bytes that differ are known.
func areIn(known map[[2]uint16]bool, a, b []byte) bool {
	for at := 0; at < len(a); at += 2 {
		if at+2 > len(a) {
			return false
		}
		if n := numbersAt(a, b, at); n[0] != n[1] && !known[n] {
			return false
		}
	}
	return true
}

// compareTransfer compares words of 8 bytes, which may be addresses, or bytes if they are not
// aligned. returned has the pairs of numbers that differ in the other direction: a pair that is in
// both directions is a number that the program chose and the device returned.
func (c *comparer) compareTransfer(a, b *Transfer, returned map[[2]uint16]bool) {
	for at := 0; at < len(a.Data); {
		size := min(8-int((a.Bus+uint64(at))%8), len(a.Data)-at)
		inA, inB := a.Data[at:at+size], b.Data[at:at+size]
		if !bytes.Equal(inA, inB) {
			first := a.Bus + uint64(at)
			d := Difference{Kind: Unknown,
				Place: Place{Offset: first, Last: first + uint64(size) - 1}}
			valueA, valueB := traces.Little(inA), traces.Little(inB)
			switch {
			case c.host.areOne(valueA, valueB):
				d.Kind = Address
			case c.isInput(d.Place):
				d.Kind = Input
			case areIn(returned, inA, inB):
				d.Kind = Returned
			case a.Write:
				d.Kind = Varies
			}
			c.add(d, a.Line, b.Line, valueA, valueB)
		}
		at += size
	}
}
