package importer

import (
	"fmt"
	"slices"
	"strings"

	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/lmb"
)

// tensor is a named input or output and what the trace holds of it.
type tensor struct {
	TensorSpec
	role    gen.Role
	size    uint64
	extent  uint64 // bytes from Address on in its place: in each bank, if it is interleaved
	data    []byte
	have    []bool // of each byte: stored, or loaded
	holds   []bool // where Line: the device has what was stored to this input
	changed bool   // a warning has been given for it
	uses    int    // accesses
	host    int    // where Bus: the memory, and then Address is an offset in it
}

// sureSizeMax is the size up to which memory is reserved for a tensor whatever
// the trace holds of it.
const sureSizeMax = 64 << 20

func (t *tensor) kind() string { return [...]string{"", "input", "output"}[t.role] }

// verb is what the trace must do with each byte of the tensor.
func (t *tensor) verb() string { return [...]string{"", "stored", "read"}[t.role] }

func (t *tensor) last() uint64 { return t.Address + t.size - 1 }

// span is the tensor's place for people.
func (t *tensor) span() string {
	if t.Page != 0 {
		return fmt.Sprintf("interleaved 0x%x, pages of %d bytes", t.Address, t.Page)
	}
	text := fmt.Sprintf("%s0x%x..0x%x", t.Place, t.Address, t.last())
	if t.Line > 0 {
		text += fmt.Sprintf(" from line %d on", t.Line)
	}
	return text
}

// mixed reports whether any is set, and whether all are alike.
func mixed(list []bool) (some, alike bool) {
	some = slices.Contains(list, true)
	return some, !some || !slices.Contains(list, false)
}

// missingRanges lists the first ranges of bytes that the trace does not hold.
func (t *tensor) missingRanges() string {
	var list []string
	for i := uint64(0); i < t.size; i++ {
		if t.have[i] {
			continue
		}
		first := i
		for i+1 < t.size && !t.have[i+1] {
			i++
		}
		if len(list) == 4 {
			return strings.Join(list, ", ") + " and more"
		}
		list = append(list, fmt.Sprintf("%d..%d", first, i))
	}
	return strings.Join(list, ", ")
}

// imageTensors returns the tensors with the recorded data: the default of an
// input, the golden data of an output.
func (p *program) imageTensors() (list []lmb.Tensor) {
	for i := range p.tensors {
		t := &p.tensors[i]
		list = append(list, lmb.Tensor{Name: t.Name, Role: t.role, DType: t.DType, Shape: t.Shape,
			Data: t.data})
	}
	return list
}

// distinct refuses two tensors that cannot be told apart. An input and an
// output may overlap: a program that works in place stores the one and loads
// the other. So may two that begin at different lines.
func distinct(a, b *tensor, bar uint8) error {
	switch {
	case a.Name == b.Name:
		return traces.Usage("two tensors have the name %s", a.Name)
	case (a.Page != 0) != (b.Page != 0):
		return nil // an access that reaches both is an error later
	case a.role == b.role && (a.Line == b.Line || a.Line == 0 || b.Line == 0) &&
		a.in(bar) == b.in(bar) && a.Address < b.Address+b.extent && b.Address < a.Address+a.extent:
		return traces.Usage("%s %s at %s and %s %s at %s overlap", a.kind(), a.Name, a.span(),
			b.kind(), b.Name, b.span())
	}
	return nil
}

// stored notes what the device has of the inputs after a store, to one of them or -1.
func (a *assigner) stored(s *step, index int) {
	for i := range a.tensors {
		t := &a.tensors[i]
		if t.holds == nil || s.op != stepStore && s.op != stepRelocate {
			continue
		}
		if address, ok := a.at(s, t.Place); ok {
			for from, to := t.within(s, address); from < to; from++ {
				t.holds[from] = i == index
			}
		}
	}
}

// takes reports whether a step that reaches a tensor is one of its own: of one that
// begins at a line the first store to each byte, and loads of what that left. all
// is false where parts of the step are not.
func (t *tensor) takes(s *step, address uint64) (taken, all bool) {
	if t.Line == 0 {
		return true, true
	}
	from, to := t.within(s, address)
	if t.have == nil {
		return s.op == stepStore && s.lineOf(s.run()-1) >= t.Line, s.lineOf(0) >= t.Line
	}
	if s.op == stepLoad {
		some, alike := mixed(t.holds[from:to])
		return some, alike || s.run() == 1
	}
	some, alike := mixed(t.have[from:to])
	return s.lineOf(s.run()-1) >= t.Line && (!some || !alike), s.lineOf(0) >= t.Line && !some
}

// within returns the bytes of a tensor that a step reaches.
func (t *tensor) within(s *step, address uint64) (from, to uint64) {
	end := t.Address + t.size
	return min(max(address, t.Address), end) - t.Address,
		min(max(address+s.size(), t.Address), end) - t.Address
}
