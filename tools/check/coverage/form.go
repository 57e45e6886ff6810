package main

import (
	"cmp"
	"slices"
	"strings"

	"lightmetal/tools/check/coverage/trace"
)

// Forms of code that a compiler adds and that no input reaches, or none that a test can make.
const (
	stackGrowth      = "stack growth"
	writeBarrier     = "write barrier"
	atomicRetry      = "retry of an atomic operation"
	atomicChoice     = "atomic operation by what the processor has"
	recoveredReturn  = "end of a function that recovered"
	methodWrapper    = "wrapper of a method"
	selfCopy         = "copy of a variable to itself"
	unsafeSliceCheck = "length of an unsafe.Slice or unsafe.String"
	typeAssertion    = "type assertion"
	stackSlice       = "move of a slice from the stack"
)

// failureCalls are functions of Go's runtime that the compiler calls if one of its own checks
// fails. name is the start of the function's name. These functions do not return.
var failureCalls = []struct{ name, form string }{
	{"runtime.panicBounds", "bounds check"},
	{"runtime.panicdivide", "division by zero"},
	{"runtime.panicshift", "shift by a negative number"},
	{"runtime.panicunsafeslice", unsafeSliceCheck},
	{"runtime.panicunsafestring", unsafeSliceCheck},
	{"runtime.panicwrap", "wrapper of a method on nil"},
	{"runtime.panicdottype", typeAssertion},
	{"runtime.panicnildottype", typeAssertion},
}

// helperCalls are functions of Go's runtime that compiled code calls and that return.
var helperCalls = []struct{ name, form string }{
	{"runtime.morestack", stackGrowth},
	{"runtime.gcWriteBarrier", writeBarrier},
	{"runtime.wbMove", writeBarrier},
	{"runtime.wbZero", writeBarrier},
	{"runtime.deferreturn", recoveredReturn},
	{"runtime.moveSlice", stackSlice},
}

// block is a sequence of instructions that is entered only at its first and left only at its last.
type block struct{ from, to int }

// classify finds the code that a compiler added to a function: blocks that call what only compilers
// call, and blocks that lead only to such blocks.
func (f *function) classify(names map[uint64]string) {
	blocks := f.blocks(names)
	for _, b := range blocks {
		f.setForm(b, f.formByCalls(b, names))
	}
	for changed := true; changed; {
		changed = false
		for _, b := range blocks {
			if form := f.formBySuccessor(b); form != "" && f.code[b.from].form == "" {
				f.setForm(b, form)
				changed = true
			}
		}
	}
	for i := range f.code {
		if name := names[f.code[i].target]; f.code[i].kind == trace.Call &&
			name == "runtime.typeAssert" {
			f.markTypeAssertion(i)
		}
	}
	for i := range f.code {
		f.markAtomicChoice(i)
	}
	for i := range f.code {
		f.setBranchForms(i)
		f.markSelfCopy(i, names)
	}
}

// markTypeAssertion marks the code before the call of a type assertion. That code first checks
// whether there is a value at all, and then searches a cache of types, to which Go's runtime adds
// one type in about a thousand assertions (Go 1.26, runtime/iface.go).
func (f *function) markTypeAssertion(call int) {
	const branch, equal, zero, notZero = 0xff00001f, 0x54000000, 0xb4, 0xb5 // B.EQ, CBZ, CBNZ
	end := call
	for end >= 0 && f.code[end].word>>24 != notZero {
		end--
	}
	if end < 0 {
		return
	}
	start, ok := f.index(f.code[end].target)
	f.code[end].wayForms[taken] = typeAssertion
	for i := start; ok && i < end; i++ {
		if found, here := f.index(f.code[i].target); here && f.code[i].word&branch == equal {
			// after a match in the cache: loads of the entry, moves and a jump
			end := found
			for end < len(f.code) && end < found+4 && f.code[end].kind != trace.Jump {
				end++
			}
			f.setForm(block{found, min(end+1, len(f.code))}, typeAssertion)
		}
	}
	for i := range f.code {
		if to, here := f.index(f.code[i].target); here && ok && to == start &&
			f.code[i].kind == trace.Jump {
			for i--; i >= 0 && f.code[i].kind == trace.Straight; i-- {
			}
			if i >= 0 && f.code[i].word>>24 == zero {
				f.code[i].wayForms[taken] = typeAssertion
			}
		}
	}
}

// markAtomicChoice marks both ways of a branch between a single atomic instruction, which newer
// processors have, and a loop around an exclusive load: no processor takes both.
func (f *function) markAtomicChoice(i int) {
	other, ok := f.index(f.code[i].target)
	if !ok || f.code[i].kind != trace.Conditional || other < i+2 || other == len(f.code) ||
		!isExclusiveLoad(f.code[other].word) || f.code[other-1].kind != trace.Jump {
		return
	}
	if join, ok := f.index(f.code[other-1].target); ok && join > other {
		f.setForm(block{i + 1, join}, atomicChoice)
	}
}

// markSelfCopy marks a branch that skips a copy from a variable to itself: a branch over a call of
// memmove and no other branch, or over loads and stores alone, of which the first loads a pair of
// vector registers.
func (f *function) markSelfCopy(i int, names map[uint64]string) {
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
			moves = moves && in.word&0x0a000000 == 0x08000000 // load or store
		}
	}
	if calls == 1 || calls == 0 && moves {
		f.code[i].wayForms[taken] = selfCopy
	}
}

func (f *function) setForm(b block, form string) {
	for i := b.from; i < b.to; i++ {
		f.code[i].form = form
	}
}

// blocks divides a function before each target of a branch, and after each instruction that leaves.
func (f *function) blocks(names map[uint64]string) (list []block) {
	starts := []int{0, len(f.code)}
	for i := range f.code {
		in := &f.code[i]
		if to, ok := f.index(in.target); ok &&
			(in.kind == trace.Conditional || in.kind == trace.Jump) {
			starts = append(starts, to)
		}
		if in.kind != trace.Straight && in.kind != trace.Call ||
			in.kind == trace.Call && failureForm(names[in.target]) != "" {
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

func failureForm(name string) string {
	for _, end := range failureCalls {
		if strings.HasPrefix(name, end.name) {
			return end.form
		}
	}
	return ""
}

// formByCalls returns the form of a block according to the functions that it calls.
func (f *function) formByCalls(b block, names map[uint64]string) string {
	const nop = 0xd503201f // NOP, which follows a call that does not return
	if b.to-b.from == 1 && f.code[b.from].word == nop && b.from > 0 {
		return f.code[b.from-1].form
	}
	for _, in := range f.code[b.from:b.to] {
		if in.kind != trace.Call {
			continue
		}
		if form := failureForm(names[in.target]); form != "" {
			return form
		}
		for _, c := range helperCalls {
			if strings.HasPrefix(names[in.target], c.name) {
				return c.form
			}
		}
	}
	if f.code[b.from].file == "<autogenerated>" {
		return methodWrapper
	}
	return ""
}

// formBySuccessor returns the form of the block that must run next, or "" if there are several.
func (f *function) formBySuccessor(b block) string {
	last := &f.code[b.to-1]
	next := b.to
	if to, ok := f.index(last.target); ok && last.kind == trace.Conditional && b.to-b.from <= 2 &&
		f.code[to].form == unsafeSliceCheck {
		return unsafeSliceCheck // the branch for a nil pointer, which checks the length
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
	if form := f.code[next].form; form != writeBarrier && form != stackGrowth &&
		form != methodWrapper {
		return form // after code that returns, another block runs too
	}
	return ""
}

// setBranchForms sets the form of each way of a conditional branch to the form of its first
// instruction.
func (f *function) setBranchForms(i int) {
	in := &f.code[i]
	if in.kind != trace.Conditional {
		return
	}
	if to, ok := f.index(in.target); ok {
		in.wayForms[taken] = cmp.Or(in.wayForms[taken], f.code[to].form)
	}
	if i+1 < len(f.code) {
		in.wayForms[passed] = f.code[i+1].form
	}
	if i > 0 && isExclusiveStore(f.code[i-1].word) {
		in.wayForms[taken] = atomicRetry
	}
}

// isExclusiveLoad reports whether an instruction is LDXR or LDAXR of any width.
func isExclusiveLoad(word uint32) bool { return word&0x3fe00000 == 0x08400000 }

// isExclusiveStore reports whether an instruction is STXR or STLXR of any width (Arm ARM DDI 0487,
// C4.1: load/store exclusive register).
func isExclusiveStore(word uint32) bool { return word&0x3fe00000 == 0x08000000 }
