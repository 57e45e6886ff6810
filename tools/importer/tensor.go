package importer

import (
	"fmt"
	"strings"

	"lightmetal/fbs/gen"
	"lightmetal/tools/importer/traces"
	"lightmetal/tools/lmb"
)

// tensor is a named input or output and what the trace holds of it.
type tensor struct {
	TensorSpec
	role    gen.Role
	size    uint64
	data    []byte
	have    []uint64 // one bit a byte: stored, or loaded
	missing uint64   // bytes that are not
	changed bool     // a warning has been given for it
	uses    int      // accesses
	host    int      // where Bus: the memory, and then Address is an offset in it
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
	text := fmt.Sprintf("%s0x%x..0x%x", t.Place, t.Address, t.last())
	if t.Line > 0 {
		text += fmt.Sprintf(" from line %d on", t.Line)
	}
	return text
}

// has tells how many of the bytes at an address the trace has given.
func (t *tensor) has(address, size uint64) (n uint64) {
	if t.have == nil {
		return 0
	}
	for i := address - t.Address; i < address-t.Address+size; i++ {
		n += t.have[i/64] >> (i % 64) & 1
	}
	return n
}

// missingRanges lists the first ranges of bytes that the trace does not hold.
func (t *tensor) missingRanges() string {
	var list []string
	has := func(i uint64) bool { return t.have[i/64]>>(i%64)&1 != 0 }
	for i := uint64(0); i < t.size; i++ {
		if has(i) {
			continue
		}
		first := i
		for i+1 < t.size && !has(i+1) {
			i++
		}
		if len(list) == 4 {
			return strings.Join(list, ", ") + " and more"
		}
		list = append(list, fmt.Sprintf("%d..%d", first, i))
	}
	return strings.Join(list, ", ")
}

// imageTensors gives the tensors with the recorded data: the default of an
// input, the golden data of an output.
func (p *program) imageTensors() (list []lmb.Tensor) {
	for i := range p.tensors {
		t := &p.tensors[i]
		list = append(list, lmb.Tensor{Name: t.Name, Role: t.role, DType: t.DType, Shape: t.Shape, Data: t.data})
	}
	return list
}

// distinct refuses two tensors that cannot be told apart. An input and an
// output may overlap: a program that works in place stores the one and loads
// the other. So may two that begin at different lines.
func distinct(a, b *tensor, bar uint8) error {
	switch {
	case a.Name == b.Name:
		return traces.Usage("two tensors are called %s", a.Name)
	case a.role == b.role && (a.Line == b.Line || a.Line*b.Line == 0) && a.in(bar) == b.in(bar) && a.Address <= b.last() && b.Address <= a.last():
		return traces.Usage("%s %s at %s and %s %s at %s overlap", a.kind(), a.Name, a.span(), b.kind(), b.Name, b.span())
	}
	return nil
}
