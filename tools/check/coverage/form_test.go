package main

import (
	"strings"
	"testing"

	"lightmetal/tools/check/coverage/trace"
)

// compiled makes a function of words and its calls of Go's own, which a word 1, 2, ...
// stands for.
func compiled(words []uint32, own ...string) *function {
	const at = 0x11000
	names := map[uint64]string{at: "lightmetal/fbs.f"}
	f := &function{name: "lightmetal/fbs.f"}
	for i, word := range words {
		in := instruction{at: at + 4*uint64(i), word: word, file: "lightmetal/fbs/f.go"}
		if word > 0 && int(word) <= len(own) {
			in.kind, in.target = trace.Call, 0x1000*uint64(word)
			names[in.target] = own[word-1]
		} else {
			in.kind, in.target = trace.Decode(word, in.at)
		}
		f.code = append(f.code, in)
	}
	f.forms(names)
	return f
}

const (
	straight = 0xaa0003e1 // MOV X1, X0
	empty    = 0xd503201f // NOP
	away     = 0xd65f03c0 // RET
	store    = 0xc81bfc02 // STLXR
)

// to is B.LS to so many instructions on, jump B.
func to(words int) uint32   { return 0x54000009 | uint32(words)&(1<<19-1)<<5 }
func jump(words int) uint32 { return 0x14000000 | uint32(words)&(1<<26-1) }

func TestWhatACompilerMadeIsToldByItsForm(t *testing.T) {
	for _, c := range []struct {
		name  string
		words []uint32
		own   string
		// a letter for each instruction: . is none's, and upper case where a branch's target is
		want string
	}{
		{"a bounds check", []uint32{straight, to(2), away, 1, empty}, "runtime.panicBounds",
			".T.bb"},
		{"moves before it", []uint32{to(4), straight, away, empty, straight, jump(2), away, 1},
			"runtime.panicBounds", "T..bbb.b"},
		{"stack growth", []uint32{to(3), straight, away, straight, 1, jump(-5)},
			"runtime.morestack_noctxt", "T..sss"},
		{"a write barrier", []uint32{to(3), straight, 1, straight, away}, "runtime.gcWriteBarrier2",
			"Pww.."},
		{"what goes on to a write barrier among others", []uint32{to(4), to(2), straight, 1, away},
			"runtime.gcWriteBarrier2", ".T.w."},
		{"an atomic operation", []uint32{store, to(-1), away}, "runtime.memmove", ".T."},
		{"a copy onto itself", []uint32{straight, to(4) &^ 9, straight, 1, straight, away},
			"runtime.memmove", ".T...."},
		{"a copy in a few moves", []uint32{straight, to(3) &^ 9, 0xad400400, 0xad0004e0, away},
			"runtime.memmove", ".T..."},
		{"a move of a register", []uint32{straight, to(3) &^ 9, 0xad400400, straight, away},
			"runtime.memmove", "....."},
		{"a length of no memory", []uint32{to(4), straight, away, empty, to(2), jump(-4), 1},
			"runtime.panicunsafeslicelen", "T..lT.l"},
		{"a type assertion", []uint32{0xb4000080, straight, jump(3), straight, away, straight,
			to(5) &^ 9, straight, 0xb5ffffa0, 1, jump(-6), straight, jump(-8)},
			"runtime.typeAssert", "T.....T.T..aa"},
		{"a call like any other", []uint32{straight, to(2), away, 1, away}, "runtime.memmove",
			"....."},
	} {
		f, got := compiled(c.words, c.own), ""
		letters := map[string]string{"": ".", "bounds check": "b", stackGrowth: "s", barrier: "w",
			sliceLength: "l", assertion: "a"}
		for i := range f.code {
			switch in := &f.code[i]; {
			case in.skip[taken] != "":
				got += "T"
			case in.skip[passed] != "":
				got += "P"
			default:
				got += letters[in.form]
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestCountIsOfWhatCanBeReached(t *testing.T) {
	f := compiled([]uint32{to(4), to(2), straight, away, 1}, "runtime.panicBounds")
	for i := range f.code[:4] {
		f.code[i].seen = trace.Ran | trace.Passed
	}
	made := map[string]int{}
	c := f.count(made)
	if want := (count{Functions: 1, Instructions: 4, Ran: 4, Branches: 1}); c != want ||
		made["bounds check"] != 2 || c.left() != 1 {
		t.Errorf("%+v, want %+v; %v", c, want, made)
	}
	f.code[1].seen |= trace.Taken
	if c := f.count(made); c.left() != 0 || c.percent() != 100 {
		t.Errorf("%+v", c)
	}
}

func TestListHoldsAndOnlyShrinks(t *testing.T) {
	f := compiled([]uint32{straight, straight, away})
	f.group = "loop"
	for _, c := range []struct{ list, err, says string }{
		{"# none\n", "1 functions were reached less",
			"3 instructions and branches were not reached, 0 are listed"},
		{"lightmetal/fbs.f\t2\twhy\n", "1 functions were reached less", "2 are listed"},
		{"lightmetal/fbs.f\t3\twhy\n", "", ""},
		{"lightmetal/fbs.f\t4\twhy\n", "", "the list has 4 for lightmetal/fbs.f, 3 will do"},
		{"lightmetal/fbs.f\t3\twhy\nlightmetal/fbs.g\t1\twhy\n", "",
			"the list has 1 for lightmetal/fbs.g, 0 will do"},
		{"lightmetal/fbs.f\t3\t\n", "is not function, number and reason", ""},
		{"lightmetal/fbs.f\t0\twhy\n", "the number is not one", ""},
		{"lightmetal/fbs.f\t1\twhy\nlightmetal/fbs.f\t1\twhy\n", "stands twice", ""},
	} {
		var out strings.Builder
		list, err := readLeft(c.list)
		if err == nil {
			worst := map[string]int{}
			leftOf([]*function{f}, worst)
			err = hold(&out, list, worst)
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) ||
			!strings.Contains(out.String(), c.says) || c.says == "" && out.Len() > 0 {
			t.Errorf("%q: %v; %s", c.list, err, &out)
		}
	}
}
