package main

import (
	"strings"
	"testing"

	"lightmetal/tools/check/coverage/trace"
)

// newFunction returns a function with the given instructions. The words 1, 2, ... represent calls
// of the functions of Go's runtime that the other arguments name.
func newFunction(words []uint32, goFunctions ...string) *function {
	const at = 0x11000
	names := map[uint64]string{at: "lightmetal/fbs.f"}
	f := &function{name: "lightmetal/fbs.f"}
	for i, word := range words {
		in := instruction{at: at + 4*uint64(i), word: word, file: "lightmetal/fbs/f.go"}
		if word > 0 && int(word) <= len(goFunctions) {
			in.kind, in.target = trace.Call, 0x1000*uint64(word)
			names[in.target] = goFunctions[word-1]
		} else {
			in.kind, in.target = trace.Decode(word, in.at)
		}
		f.code = append(f.code, in)
	}
	f.classify(names)
	return f
}

const (
	move  = 0xaa0003e1 // MOV X1, X0
	nop   = 0xd503201f // NOP
	ret   = 0xd65f03c0 // RET
	load  = 0x885ffcdb // LDAXR
	store = 0xc81bfc02 // STLXR
)

// branch returns a conditional branch (B.LS) to the instruction that is the given number of words
// ahead.
func branch(words int) uint32 { return 0x54000009 | uint32(words)&(1<<19-1)<<5 }

// jump is like branch, for an unconditional branch (B).
func jump(words int) uint32 { return 0x14000000 | uint32(words)&(1<<26-1) }

func TestCompilerGeneratedCodeIsRecognizedByItsForm(t *testing.T) {
	for _, c := range []struct {
		name  string
		words []uint32
		own   string
		// One letter for each instruction: T or P if its taken or its passed way has a form,
		// otherwise the letter of the instruction's form, or a dot if it has none.
		want string
	}{
		{"a bounds check", []uint32{move, branch(2), ret, 1, nop}, "runtime.panicBounds",
			".T.bb"},
		{"moves before it", []uint32{branch(4), move, ret, nop, move, jump(2), ret, 1},
			"runtime.panicBounds", "T..bbb.b"},
		{"stack growth", []uint32{branch(3), move, ret, move, 1, jump(-5)},
			"runtime.morestack_noctxt", "T..sss"},
		{"a write barrier", []uint32{branch(3), move, 1, move, ret}, "runtime.gcWriteBarrier2",
			"Pww.."},
		{"a slice that is not on the stack", []uint32{branch(3), move, 1, move, ret},
			"runtime.moveSliceNoCapNoScan", "Pmm.."},
		{"a branch that leads to a write barrier and to other code",
			[]uint32{branch(4), branch(2), move, 1, ret},
			"runtime.gcWriteBarrier2", ".T.w."},
		{"an atomic operation", []uint32{store, branch(-1), ret}, "runtime.memmove", ".T."},
		{"an atomic operation in two ways", []uint32{branch(3), move, jump(6), load, branch(3),
			store, branch(-3), move, ret}, "runtime.memmove", "TcccTcTc."},
		{"a copy onto itself", []uint32{move, branch(4) &^ 9, move, 1, move, ret},
			"runtime.memmove", ".T...."},
		{"a copy in a few moves", []uint32{move, branch(3) &^ 9, 0xad400400, 0xad0004e0, ret},
			"runtime.memmove", ".T..."},
		{"a move of a register", []uint32{move, branch(3) &^ 9, 0xad400400, move, ret},
			"runtime.memmove", "....."},
		{"a length of no memory", []uint32{branch(4), move, ret, nop, branch(2), jump(-4), 1},
			"runtime.panicunsafeslicelen", "T..lT.l"},
		{"a type assertion", []uint32{0xb4000080, move, jump(3), move, ret, move,
			branch(5) &^ 9, move, 0xb5ffffa0, 1, jump(-6), move, jump(-8)},
			"runtime.typeAssert", "T.....T.T..aa"},
		{"a type assertion with moves", []uint32{0xb4000080, move, jump(3), move, ret, move,
			branch(5) &^ 9, move, 0xb5ffffa0, 1, jump(-6), move, move, move, jump(-8)},
			"runtime.typeAssert", "T.....T.T..aaaa"},
		{"a call like any other", []uint32{move, branch(2), ret, 1, ret}, "runtime.memmove",
			"....."},
	} {
		f, got := newFunction(c.words, c.own), ""
		letters := map[string]string{"": ".", "bounds check": "b", stackGrowth: "s",
			writeBarrier:     "w",
			unsafeSliceCheck: "l", typeAssertion: "a", atomicChoice: "c", stackSlice: "m"}
		for i := range f.code {
			switch in := &f.code[i]; {
			case in.wayForms[taken] != "":
				got += "T"
			case in.wayForms[passed] != "":
				got += "P"
			default:
				got += letters[in.form]
			}
		}
		if got != c.want {
			t.Errorf("%s: forms %s, want %s", c.name, got, c.want)
		}
	}
}

func TestUnreachableCodeIsNotCounted(t *testing.T) {
	f := newFunction([]uint32{branch(4), branch(2), move, ret, 1}, "runtime.panicBounds")
	for i := range f.code[:4] {
		f.code[i].seen = trace.Ran | trace.Passed
	}
	reachedByForm := map[string]int{}
	c := f.countReached(reachedByForm)
	if want := (count{Functions: 1, Instructions: 4, Ran: 4, Branches: 1}); c != want ||
		reachedByForm["bounds check"] != 2 || c.notReached() != 1 {
		t.Errorf("count %+v, want %+v with 1 not reached; by form %v, want 2 of a bounds check", c,
			want, reachedByForm)
	}
	f.code[1].seen |= trace.Taken
	if c := f.countReached(reachedByForm); c.notReached() != 0 || c.percent() != 100 {
		t.Errorf("count %+v after both ways of the branch, want all reached", c)
	}
}

func TestListLimitsUnreachedCode(t *testing.T) {
	f := newFunction([]uint32{move, move, ret})
	f.group = "loop"
	for _, c := range []struct{ list, err, output string }{
		{"# none\n", "1 functions have more unreached code",
			"3 instructions and branches were not reached, 0 are listed"},
		{"lightmetal/fbs.f\t2\twhy\n", "1 functions have more unreached code", "2 are listed"},
		{"lightmetal/fbs.f\t3\twhy\n", "", ""},
		{"lightmetal/fbs.f\t4\twhy\n", "", "the list allows 4 for lightmetal/fbs.f, 3 are enough"},
		{"lightmetal/fbs.f\t3\twhy\nlightmetal/fbs.g\t1\twhy\n", "",
			"the list allows 1 for lightmetal/fbs.g, 0 are enough"},
		{"lightmetal/fbs.f\t3\t\n", "want function, number and reason", ""},
		{"lightmetal/fbs.f\t0\twhy\n", "the number must be at least 1", ""},
		{"lightmetal/fbs.f\t1\twhy\nlightmetal/fbs.f\t1\twhy\n", "is listed twice", ""},
	} {
		var out strings.Builder
		list, err := parseList(c.list)
		if err == nil {
			worst := map[string]int{}
			addUnreached([]*function{f}, worst)
			err = compareWithList(&out, list, worst)
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) ||
			!strings.Contains(out.String(), c.output) || c.output == "" && out.Len() > 0 {
			t.Errorf("list %q: error %v, output %q; want error %q, output %q", c.list, err, &out,
				c.err, c.output)
		}
	}
}
