package importer

import (
	"fmt"
	"math"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/capture/record"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/lmb"
)

// relocator turns every store of an address in host memory into a relocation. Loads of such
// addresses are executed, but their values are not compared with the recording.
type relocator struct {
	*program
	result        passResult
	joinedCount   int // number of addresses that the lifter joined from two stores
	stores, loads int // number of addresses of host memory that were stored and loaded
	splitCount    int // number of addresses that stay two stores
}

func (r *relocator) run() (passResult, error) {
	if err := r.checkAddresses(); err != nil || len(r.hostSpaces) == 0 {
		return r.result, err
	}
	r.trimHosts()
	err := r.steps.rewrite(func(s *step, out *stepList) error {
		r.trimStep(s)
		r.addRelocated(s, out)
		return nil
	})
	if len(r.options.Host) > 0 {
		r.result.addWarning(0, "the trace has no accesses to host memory, "+
			"so the image neither waits for nor compares what the device writes there; "+
			"record with `lm record` or `lm serve`")
	}
	r.result.summary = english.Count(r.stores, "store") +
		" of host memory addresses became relocations"
	if r.joinedCount > 0 {
		r.result.summary += fmt.Sprintf(", %d of them joined from two halves", r.joinedCount)
	}
	if r.splitCount > 0 {
		r.result.summary += fmt.Sprintf(", %d of them kept in two halves", r.splitCount)
	}
	if r.loads > 0 {
		r.result.summary += "; " + english.Count(r.loads, "load") +
			" of host memory addresses ignored"
	}
	return r.result, err
}

// checkAddresses returns an error if the program stores an address that is in no known host memory.
func (r *relocator) checkAddresses() error {
	for i := range r.steps.count {
		s := r.steps.at(i)
		if s.op != stepStore || s.target >= 0 || s.width >= 4 && r.isInKnownHost(r.valueOf(s, 0)) {
			continue
		}
		w := &r.windows[s.window]
		a := traces.Access{Line: int(s.line), Op: traces.OpStore, Bar: w.bar,
			Offset: w.base + uint64(s.offset), Width: s.width, Value: r.valueOf(s, 0)}
		if reason := missingHostMemoryReason(r.board, &a); reason != "" {
			return traces.TraceError(a.Line, "%s", reason)
		}
	}
	return nil
}

// findRelocation returns the index of the host memory that a stored value is an address in, and the
// offset in it. The index is -1 if a replay may store the value unchanged.
func (r *relocator) findRelocation(s *step, value uint64) (index int, inside uint64) {
	index, inside = r.findHostPointer(value, s.width)
	if index >= 0 && r.hostSpaces[index].bus == 0 && !r.hostSpaces[index].throughIATU &&
		(s.target >= 0 || !isAddressRegister(r.board.Name, r.windows[s.window].bar,
			uint64(s.offset))) {
		return -1, 0
	}
	return index, inside
}

// addRelocated appends a step. A run is cut into parts with addresses and parts without.
func (r *relocator) addRelocated(s *step, out *stepList) {
	if s.op != stepStore && s.op != stepLoad || r.windows[s.window].Kind == gen.WindowKindHost {
		out.appendStep(*s)
		return
	}
	if r.relocateHalves(out.lastStep(), s) {
		out.appendStep(*s)
		return
	}
	from := uint32(0)
	for k := range s.elementCount() {
		index, inside := r.findRelocation(s, r.valueOf(s, k))
		if index < 0 {
			continue
		}
		if k > from {
			out.appendStep(r.accessRange(s, from, k))
		}
		from = k + 1
		e := *s
		if s.elementCount() > 1 {
			e = r.singleAccess(s, k)
		}
		r.setRelocation(out.appendStep(e), index, inside)
	}
	if from == 0 {
		out.appendStep(*s)
	} else if from < s.elementCount() {
		out.appendStep(r.accessRange(s, from, s.elementCount()))
	}
}

func (r *relocator) setRelocation(s *step, index int, inside uint64) {
	if s.op == stepLoad {
		s.op = stepIgnore
		r.loads += int(s.count)
		return
	}
	if s.target >= 0 && !r.hostSpaces[index].throughIATU ||
		s.target < 0 && !isAddressRegister(r.board.Name, r.windows[s.window].bar,
			uint64(s.offset)) {
		r.result.addWarning(int(s.line),
			"the value 0x%x, stored to %s + 0x%x, is treated as an address in host memory %s: "+
				"a replay stores the address of its own memory instead",
			s.value, r.windows[s.window].Name, s.offset, r.hostSpaces[index].name)
	}
	s.op, s.value, s.operand = stepRelocate, inside, int32(index)
	r.stores++
}

// findHostAddress returns the index of the host memory that contains the address `value`, or -1,
// and the offset in it.
func (p *program) findHostAddress(value uint64, width uint8) (index int, inside uint64) {
	for i := range p.hostSpaces {
		h := &p.hostSpaces[i]
		isAddress := (width == 8 || width == 4 && !h.throughIATU) && !isAllOnes(value)
		if inside = value - h.firstAddress(); isAddress && inside < h.size {
			return i, inside
		}
	}
	return -1, 0
}

// isAllOnes reports whether a value or its lower half has only ones, like a mask of interrupts. No
// driver stores the address of the last byte below 4 GiB.
func isAllOnes(value uint64) bool { return uint32(value) == math.MaxUint32 }

// findHostPointer is like findHostAddress, but returns -1 if a replay need not change the value.
// That is so if the memory keeps its recorded address, or if tiles access nothing near the address.
func (p *program) findHostPointer(value uint64, width uint8) (index int, inside uint64) {
	index, inside = p.findHostAddress(value, width)
	if index >= 0 && (p.hostSpaces[index].keepsAddress ||
		p.hostSpaces[index].throughIATU && !p.hostSpaces[index].isReachedNear(inside)) {
		return -1, 0
	}
	return index, inside
}

// isReachedNear reports whether the recording has an access less than hostBlockSize bytes from an
// offset.
func (h *hostSpace) isReachedNear(offset uint64) bool {
	if h.pages.Touched(offset) {
		return true
	}
	first := fbs.RoundUp(offset-min(offset, hostBlockSize-1), record.PageSize)
	for at := first; at < offset+hostBlockSize; at += record.PageSize {
		if h.pages.Touched(at) {
			return true
		}
	}
	return false
}

// relocateCommand returns a command that stores the bus address of a byte in host memory.
func relocateCommand(width uint8, window uint16, offset uint64, host uint16,
	inside uint64) lmb.Command {
	return lmb.Command{Command: fbs.Command{
		Opcode: gen.OpcodeRelocate, Width: width, Window: window, Index: host,
		Offset: uint32(offset), Value: inside,
	}}
}

// trimHosts removes the bytes before the first byte that the device accesses, and sets the sizes of
// the host windows.
func (r *relocator) trimHosts() {
	for i := range r.hostSpaces {
		h := &r.hostSpaces[i]
		h.firstOffset &^= record.PageSize - 1
		h.bus, h.size = h.bus+h.firstOffset, h.size-h.firstOffset
		if !h.fromUser {
			h.size = fbs.RoundUp(h.size, record.PageSize)
		}
		r.windows[h.window].Size = h.size
		for k := range h.initialStores {
			h.initialStores[k].offset -= h.firstOffset
		}
	}
	for _, list := range r.hostStoreLists {
		for k := range list {
			list[k].offset -= r.hostSpaces[list[k].host].firstOffset
		}
	}
}

// trimStep adjusts the offset of a step for the bytes that trimHosts has removed.
func (r *relocator) trimStep(s *step) {
	if !s.accessesDevice() || r.windows[s.window].Kind != gen.WindowKindHost {
		return
	}
	s.offset -= uint32(r.hostSpaces[r.windows[s.window].bar-hostBarBase].firstOffset)
}

// relocateHalves turns two stores to 32-bit registers, 4 or 8 bytes apart, into a relocation of the
// lower half and a store of zero to the upper half. A runtime returns an error if the address does
// not fit in the lower half.
func (r *relocator) relocateHalves(a, b *step) bool {
	if a == nil || !a.mayBeHalvesWith(b) {
		return false
	}
	low, high := a, b
	if a.offset > b.offset {
		low, high = b, a
	}
	value := low.value | high.value<<32
	index, inside := r.findHostPointer(value, 8)
	if apart := high.offset - low.offset; high.value == 0 || index < 0 || apart != 4 && apart != 8 {
		return false
	}
	if h := &r.hostSpaces[index]; h.throughIATU || h.bus == 0 {
		return false
	}
	r.result.addWarning(int(b.line),
		"0x%x, stored in halves to offsets 0x%x and 0x%x of %s, "+
			"is treated as an address in host memory %s: "+
			"a replay stores 0 as the upper half, so this memory must be below 4 GiB",
		value, low.offset, high.offset, r.windows[low.window].Name, r.hostSpaces[index].name)
	low.op, low.value, low.operand, high.value = stepRelocate, inside, int32(index), 0
	r.stores++
	r.splitCount++
	return true
}

// mayBeHalvesWith reports whether two stores may be halves of one address.
func (s *step) mayBeHalvesWith(o *step) bool {
	word := func(s *step) bool {
		return s.op == stepStore && s.width == 4 && s.count == 1 &&
			s.operand < 0 && s.target < 0
	}
	return word(s) && word(o) && s.window == o.window
}
