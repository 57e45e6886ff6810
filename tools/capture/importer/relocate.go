package importer

import (
	"fmt"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/lmb"
)

// relocator makes a relocation of every store of an address in host memory. Loads
// of one are executed and not compared with the recording.
type relocator struct {
	*program
	out           outcome
	halves        int // stores that were two
	stores, loads int // of addresses
	apart         int // stores of addresses that stay two
}

func (r *relocator) run() (outcome, error) {
	if err := r.lacking(); err != nil || len(r.hosts) == 0 {
		return r.out, err
	}
	r.trimHosts()
	err := r.steps.rewrite(func(s *step, out *steps) error {
		r.trim(s)
		r.relocate(s, out)
		return nil
	})
	if len(r.o.Host) > 0 {
		r.out.warn(0, "the trace has no accesses to host memory, so the image neither waits for "+
			"nor compares what the device writes there; record with `lm record` or `lm serve`")
	}
	r.out.did = english.Count(r.stores, "store") + " of its addresses became relocations"
	if r.halves > 0 {
		r.out.did += fmt.Sprintf(", %d of them joined from two halves", r.halves)
	}
	if r.apart > 0 {
		r.out.did += fmt.Sprintf(", %d of them kept in two halves", r.apart)
	}
	if r.loads > 0 {
		r.out.did += "; " + english.Count(r.loads, "load") + " of its addresses ignored"
	}
	return r.out, err
}

// lacking refuses a store of an address that is in no memory that is known.
func (r *relocator) lacking() error {
	for i := range r.steps.n {
		s := r.steps.at(i)
		if s.op != stepStore || s.aim >= 0 || s.width >= 4 && r.inHost(r.datum(s, 0)) {
			continue
		}
		w := &r.windows[s.window]
		a := traces.Access{Line: int(s.line), Op: traces.OpStore, Bar: w.bar,
			Offset: w.base + uint64(s.offset), Width: s.width, Value: r.datum(s, 0)}
		if reason := hostMemoryReason(r.board, &a); reason != "" {
			return traces.Refuse(a.Line, "%s", reason)
		}
	}
	return nil
}

// relocates reports whether a stored value is an address of host memory there.
func (r *relocator) relocates(s *step, value uint64) (index int, inside uint64) {
	index, inside = r.hostPointer(value, s.width)
	if index >= 0 && r.hosts[index].bus == 0 && !r.hosts[index].whole &&
		(s.aim >= 0 || !takesAddresses(r.board.Name, r.windows[s.window].bar, uint64(s.offset))) {
		return -1, 0
	}
	return index, inside
}

// relocate appends a step, or the parts of a run that hold addresses and those that do not.
func (r *relocator) relocate(s *step, out *steps) {
	if s.op != stepStore && s.op != stepLoad || r.windows[s.window].Kind == gen.WindowKindHost {
		out.add(*s)
		return
	}
	if r.inHalves(out.end(), s) {
		out.add(*s)
		return
	}
	from := uint32(0)
	for k := range s.run() {
		index, inside := r.relocates(s, r.datum(s, k))
		if index < 0 {
			continue
		}
		if k > from {
			out.add(r.part(s, from, k))
		}
		from = k + 1
		e := *s
		if s.run() > 1 {
			e = r.element(s, k)
		}
		r.relocated(out.add(e), index, inside)
	}
	if from == 0 {
		out.add(*s)
	} else if from < s.run() {
		out.add(r.part(s, from, s.run()))
	}
}

func (r *relocator) relocated(s *step, index int, inside uint64) {
	if s.op == stepLoad {
		s.op = stepIgnore
		r.loads += int(s.count)
		return
	}
	if s.aim >= 0 && !r.hosts[index].whole ||
		s.aim < 0 && !takesAddresses(r.board.Name, r.windows[s.window].bar, uint64(s.offset)) {
		r.out.warn(int(s.line),
			"0x%x, stored to %s + 0x%x, is treated as an address in host memory %s",
			s.value, r.windows[s.window].Name, s.offset, r.hosts[index].name)
	}
	s.op, s.value, s.to = stepRelocate, inside, int32(index)
	r.stores++
}

// hostAddress finds the host memory that a value is an address of.
func (p *program) hostAddress(value uint64, width uint8) (index int, inside uint64) {
	for i := range p.hosts {
		h := &p.hosts[i]
		isAddress := width == 8 || width == 4 && !h.whole
		if inside = value - h.firstAddress(); isAddress && inside < h.size {
			return i, inside
		}
	}
	return -1, 0
}

// hostPointer finds the host memory that a value is an address of, if a replay must change the
// value: memory with a fixed address is where it was, and a tile does not use an address at which
// it reaches nothing.
func (p *program) hostPointer(value uint64, width uint8) (index int, inside uint64) {
	index, inside = p.hostAddress(value, width)
	if index >= 0 && (p.hosts[index].fixed ||
		p.hosts[index].whole && !p.hosts[index].isReachedNear(inside)) {
		return -1, 0
	}
	return index, inside
}

// isReachedNear reports whether the recording has an access less than hostApart from an offset.
func (h *hostSpace) isReachedNear(offset uint64) bool {
	if h.pages[offset/hostPageSize] != nil {
		return true
	}
	for page := range h.pages {
		if at := page * hostPageSize; at < offset+hostApart && offset < at+hostApart {
			return true
		}
	}
	return false
}

// relocation stores the bus address of a place in host memory.
func relocation(width uint8, window uint16, offset uint64, host uint16, inside uint64) lmb.Command {
	return lmb.Command{Command: fbs.Command{
		Opcode: gen.OpcodeRelocate, Width: width, Window: window, Index: host,
		Offset: uint32(offset), Value: inside,
	}}
}

// trimHosts takes off what lies before the first byte that is reached, and gives
// windows their sizes.
func (r *relocator) trimHosts() {
	for i := range r.hosts {
		h := &r.hosts[i]
		h.low &^= hostPageSize - 1
		h.bus, h.size = h.bus+h.low, h.size-h.low
		if !h.given {
			h.size = fbs.RoundUp(h.size, hostPageSize)
		}
		r.windows[h.window].Size = h.size
		for k := range h.first {
			h.first[k].offset -= h.low
		}
	}
	for _, list := range r.late {
		for k := range list {
			list[k].offset -= r.hosts[list[k].host].low
		}
	}
}

// trim moves a step with the memory that it accesses.
func (r *relocator) trim(s *step) {
	if !s.touches() || r.windows[s.window].Kind != gen.WindowKindHost {
		return
	}
	s.offset -= uint32(r.hosts[r.windows[s.window].bar-hostBar].low)
}

// inHalves makes of two stores, to registers of 32 bits that are 4 or 8 bytes
// apart, the halves of an address in host memory. The upper one is zero: a
// runtime refuses an address that has more than the lower one takes.
func (r *relocator) inHalves(a, b *step) bool {
	if a == nil || !a.halfOf(b) {
		return false
	}
	low, high := a, b
	if a.offset > b.offset {
		low, high = b, a
	}
	value := low.value | high.value<<32
	index, inside := r.hostPointer(value, 8)
	if apart := high.offset - low.offset; high.value == 0 || index < 0 || apart != 4 && apart != 8 {
		return false
	}
	if h := &r.hosts[index]; h.whole || h.bus == 0 {
		return false
	}
	r.out.warn(int(b.line),
		"0x%x, whose halves are stored to %s + 0x%x and + 0x%x, is treated as an address in "+
			"host memory %s, which must be below 4 GiB on the target",
		value, r.windows[low.window].Name, low.offset, high.offset, r.hosts[index].name)
	low.op, low.value, low.to, high.value = stepRelocate, inside, int32(index), 0
	r.stores++
	r.apart++
	return true
}

// halfOf reports whether two stores may be of one register.
func (s *step) halfOf(o *step) bool {
	word := func(s *step) bool {
		return s.op == stepStore && s.width == 4 && s.count == 1 &&
			s.to < 0 && s.aim < 0
	}
	return word(s) && word(o) && s.window == o.window
}
