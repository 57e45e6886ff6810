package importer

import (
	"fmt"
	"slices"
	"strings"

	"lightmetal/boards/chips"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/lmb"
)

// tensor is a named input or output and its data in the trace.
type tensor struct {
	TensorSpec
	role gen.Role
	size uint64
	// Size in bytes of its range in Place; of an interleaved tensor, the range in each bank
	extent   uint64
	cores    []chips.Tile // of a sharded tensor, in the order of its pages
	data     []byte
	accessed []bool // for each byte: the trace stores or loads it
	// If Line is set, for each byte: the device currently contains the data of this input
	holds   []bool
	changed bool // a warning about changed data was reported
	uses    int  // number of accesses
	host    int  // if Bus: index into program.hostSpaces; Address is then an offset in this memory
}

// smallSizeMax is the size in bytes up to which memory for a tensor is always allocated.
const smallSizeMax = 64 << 20

func (t *tensor) kind() string { return [...]string{"", "input", "output"}[t.role] }

// verb returns what the trace must do with each byte of the tensor.
func (t *tensor) verb() string { return [...]string{"", "stored", "read"}[t.role] }

func (t *tensor) last() uint64 { return t.Address + t.size - 1 }

// placeSummary returns the place of the tensor as text for messages.
func (t *tensor) placeSummary() string {
	if t.isSharded() {
		return fmt.Sprintf("0x%x in %d cores", t.Address, len(t.cores))
	}
	if t.Page != 0 {
		return fmt.Sprintf("interleaved 0x%x, pages of %d bytes", t.Address, t.Page)
	}
	text := fmt.Sprintf("%s0x%x..0x%x", t.Place, t.Address, t.last())
	if t.Line > 0 {
		text += fmt.Sprintf(" from line %d on", t.Line)
	}
	return text
}

// someAndAlike reports whether any element is true, and whether all elements are equal.
func someAndAlike(list []bool) (some, alike bool) {
	some = slices.Contains(list, true)
	return some, !some || !slices.Contains(list, false)
}

// missingRanges lists the first ranges of bytes that the trace does not access.
func (t *tensor) missingRanges() string {
	var list []string
	for i := uint64(0); i < t.size; i++ {
		if t.accessed[i] {
			continue
		}
		first := i
		for i+1 < t.size && !t.accessed[i+1] {
			i++
		}
		if len(list) == 4 {
			return strings.Join(list, ", ") + " and more"
		}
		list = append(list, fmt.Sprintf("%d..%d", first, i))
	}
	return strings.Join(list, ", ")
}

// imageTensors returns the tensors with their recorded data: the default data of inputs, and the
// golden data of outputs.
func (p *program) imageTensors() (list []lmb.Tensor) {
	if p.scratchSize > 0 {
		list = append(list, p.scratchTensor())
	}
	for i := range p.tensors {
		t := &p.tensors[i]
		list = append(list, lmb.Tensor{Name: t.Name, Role: t.role, DType: t.DType, Shape: t.Shape,
			Data: t.data})
	}
	return list
}

// checkDistinct returns an error if two tensors have the same name or overlap. An input and an
// output may overlap, because a program that works in place stores the one and loads the other.
// Inputs that begin at different lines may overlap, too.
func checkDistinct(a, b *tensor, bar uint8) error {
	switch {
	case a.Name == b.Name:
		return traces.UsageError("two tensors have the name %s", a.Name)
	case (a.Page != 0) != (b.Page != 0) || a.Cores != b.Cores:
		return nil // tensorWithRole reports an access of both
	case a.role == b.role && (a.Line == b.Line || a.Line == 0 || b.Line == 0) &&
		a.withDefaultBar(bar) == b.withDefaultBar(bar) && a.Address < b.Address+b.extent &&
		b.Address < a.Address+a.extent:
		return traces.UsageError("%s %s at %s and %s %s at %s overlap", a.kind(), a.Name,
			a.placeSummary(),
			b.kind(), b.Name, b.placeSummary())
	}
	return nil
}

// updateHolds updates tensor.holds after a store. index is the tensor that is stored, or -1.
func (a *tensorAssigner) updateHolds(s *step, index int) {
	for i := range a.tensors {
		t := &a.tensors[i]
		if t.holds == nil || s.op != stepStore && s.op != stepRelocate {
			continue
		}
		if address, ok := a.addressIn(s, t.Place); ok {
			for from, to := t.overlapOfStep(s, address); from < to; from++ {
				t.holds[from] = i == index
			}
		}
	}
}

// ownsStep reports whether a step in the range of a tensor belongs to the tensor. If the tensor has
// a line, only the first store to each byte from that line on, and loads of these data, do. all is
// false if parts of the step do not belong to it.
func (t *tensor) ownsStep(s *step, address uint64) (taken, all bool) {
	if t.Line == 0 {
		return true, true
	}
	from, to := t.overlapOfStep(s, address)
	if t.accessed == nil {
		return s.op == stepStore && s.lineOf(s.elementCount()-1) >= t.Line, s.lineOf(0) >= t.Line
	}
	if s.op == stepLoad {
		some, alike := someAndAlike(t.holds[from:to])
		return some, alike || s.elementCount() == 1
	}
	some, alike := someAndAlike(t.accessed[from:to])
	return s.lineOf(s.elementCount()-1) >= t.Line && (!some || !alike), s.lineOf(0) >= t.Line &&
		!some
}

// overlapOfStep returns the bytes of a tensor that a step accesses.
func (t *tensor) overlapOfStep(s *step, address uint64) (from, to uint64) {
	end := t.Address + t.size
	return min(max(address, t.Address), end) - t.Address,
		min(max(address+s.size(), t.Address), end) - t.Address
}
