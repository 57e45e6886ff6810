package main

import (
	"cmp"
	"slices"
	"strings"

	"lightmetal/tools/check/coverage/trace"
)

// Forms of what a compiler adds and no input reaches, or none that a test can make.
const (
	stackGrowth = "stack growth"
	barrier     = "write barrier"
	atomicAgain = "atomic operation made again"
	recovered   = "end of a function that recovered"
	wrapper     = "wrapper of a method"
	ontoItself  = "copy onto itself"
	sliceLength = "length of an unsafe.Slice"
	assertion   = "type assertion"
)

// ends are Go's functions that a compiler calls where a check of its own fails, by
// the start of their names. They do not come back.
var ends = []struct{ name, form string }{
	{"runtime.panicBounds", "bounds check"},
	{"runtime.panicdivide", "division by zero"},
	{"runtime.panicshift", "shift by a negative number"},
	{"runtime.panicunsafeslice", sliceLength},
	{"runtime.panicwrap", "wrapper of a method on nil"},
	{"runtime.panicdottype", assertion},
	{"runtime.panicnildottype", assertion},
}

// between are those that come back.
var between = []struct{ name, form string }{
	{"runtime.morestack", stackGrowth},
	{"runtime.gcWriteBarrier", barrier},
	{"runtime.wbMove", barrier},
	{"runtime.wbZero", barrier},
	{"runtime.deferreturn", recovered},
}

// block is a run of instructions that is entered at its first and left at its last.
type block struct{ from, to int }

// forms finds what a compiler made in a function: blocks that call what only
// compilers call, and blocks that lead nowhere else.
func (f *function) forms(names map[uint64]string) {
	blocks := f.blocks(names)
	for _, b := range blocks {
		f.mark(b, f.calling(b, names))
	}
	for changed := true; changed; {
		changed = false
		for _, b := range blocks {
			if form := f.leadsTo(b); form != "" && f.code[b.from].form == "" {
				f.mark(b, form)
				changed = true
			}
		}
	}
	for i := range f.code {
		if name := names[f.code[i].target]; f.code[i].kind == trace.Call &&
			name == "runtime.typeAssert" {
			f.assertion(i)
		}
	}
	for i := range f.code {
		f.ways(i)
		f.copies(i, names)
	}
}

// assertion: in front of its call a type assertion looks whether there is a value at
// all, and then goes through a table of types, which Go's runtime adds to one time in a
// thousand (Go 1.26, runtime/iface.go).
func (f *function) assertion(call int) {
	const branch, equal, zero, notZero = 0xff00001f, 0x54000000, 0xb4, 0xb5 // B.EQ, CBZ, CBNZ
	end := call
	for end >= 0 && f.code[end].word>>24 != notZero {
		end--
	}
	if end < 0 {
		return
	}
	start, ok := f.index(f.code[end].target)
	f.code[end].skip[taken] = assertion
	for i := start; ok && i < end; i++ {
		if found, here := f.index(f.code[i].target); here && f.code[i].word&branch == equal {
			// it is loaded, and that is all
			f.mark(block{found, min(found+2, len(f.code))}, assertion)
		}
	}
	for i := range f.code {
		if to, here := f.index(f.code[i].target); here && ok && to == start &&
			f.code[i].kind == trace.Jump {
			for i--; i >= 0 && f.code[i].kind == trace.Straight; i-- {
			}
			if i >= 0 && f.code[i].word>>24 == zero {
				f.code[i].skip[taken] = assertion
			}
		}
	}
}

// copies: a copy is left out where it would be onto itself, by a branch over its
// call and nothing else that branches, or over loads and stores alone, from a pair of vector
// registers on.
func (f *function) copies(i int, names map[uint64]string) {
	const equal = 0x54000000 // B.EQ
	to, ok := f.index(f.code[i].target)
	if !ok || f.code[i].word&0xff00001f != equal {
		return
	}
	const pair = 0xad400000 >> 22 // LDP of vector registers
	calls, moves := 0, to > i+1 && f.code[i+1].word>>22 == pair
	for j := i + 1; j < to; j++ {
		switch in := &f.code[j]; {
		case in.kind == trace.Call && names[in.target] == "runtime.memmove":
			calls++
		case in.kind != trace.Straight:
			return
		default:
			moves = moves && in.word&0x0a000000 == 0x08000000 // a load or a store
		}
	}
	if calls == 1 || calls == 0 && moves {
		f.code[i].skip[taken] = ontoItself
	}
}

func (f *function) mark(b block, form string) {
	for i := b.from; i < b.to; i++ {
		f.code[i].form = form
	}
}

// blocks cuts a function where something leads to, and after what leads away.
func (f *function) blocks(names map[uint64]string) (list []block) {
	starts := []int{0, len(f.code)}
	for i := range f.code {
		in := &f.code[i]
		if to, ok := f.index(in.target); ok &&
			(in.kind == trace.Conditional || in.kind == trace.Jump) {
			starts = append(starts, to)
		}
		if in.kind != trace.Straight && in.kind != trace.Call ||
			in.kind == trace.Call && endOf(names[in.target]) != "" {
			starts = append(starts, i+1)
		}
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	for i := range starts[1:] {
		list = append(list, block{starts[i], starts[i+1]})
	}
	return list
}

func endOf(name string) string {
	for _, end := range ends {
		if strings.HasPrefix(name, end.name) {
			return end.form
		}
	}
	return ""
}

// calling is the form of a block by what it calls.
func (f *function) calling(b block, names map[uint64]string) string {
	const nothing = 0xd503201f // NOP, for the address behind a last call
	if b.to-b.from == 1 && f.code[b.from].word == nothing && b.from > 0 {
		return f.code[b.from-1].form
	}
	for _, in := range f.code[b.from:b.to] {
		if in.kind != trace.Call {
			continue
		}
		if form := endOf(names[in.target]); form != "" {
			return form
		}
		for _, c := range between {
			if strings.HasPrefix(names[in.target], c.name) {
				return c.form
			}
		}
	}
	if f.code[b.from].file == "<autogenerated>" {
		return wrapper
	}
	return ""
}

// leadsTo is the form of what a block goes on to when it can go nowhere else.
func (f *function) leadsTo(b block) string {
	last := &f.code[b.to-1]
	next := b.to
	if to, ok := f.index(last.target); ok && last.kind == trace.Conditional && b.to-b.from <= 2 &&
		f.code[to].form == sliceLength {
		return sliceLength // of no memory, whose length is looked at then
	}
	switch last.kind {
	case trace.Jump:
		var ok bool
		if next, ok = f.index(last.target); !ok {
			return ""
		}
	case trace.Straight, trace.Call:
	default:
		return ""
	}
	if next >= len(f.code) || next == 0 {
		return ""
	}
	if form := f.code[next].form; form != barrier && form != stackGrowth && form != wrapper {
		return form // what comes back is not the only place
	}
	return ""
}

// ways gives each way of a conditional branch the form of what is there.
func (f *function) ways(i int) {
	in := &f.code[i]
	if in.kind != trace.Conditional {
		return
	}
	if to, ok := f.index(in.target); ok {
		in.skip[taken] = cmp.Or(in.skip[taken], f.code[to].form)
	}
	if i+1 < len(f.code) {
		in.skip[passed] = f.code[i+1].form
	}
	if i > 0 && exclusiveStore(f.code[i-1].word) {
		in.skip[taken] = atomicAgain
	}
}

// exclusiveStore: STXR, STLXR of any width (Arm ARM DDI 0487, C4.1: load/store
// exclusive register).
func exclusiveStore(word uint32) bool { return word&0x3fe00000 == 0x08000000 }
