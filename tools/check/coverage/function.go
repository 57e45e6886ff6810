package main

import (
	"cmp"
	"slices"
	"strings"

	"lightmetal/tools/check/coverage/reach"
	"lightmetal/tools/check/coverage/trace"
)

// instruction is an instruction of a function.
type instruction struct {
	at       uint64
	word     uint32
	kind     trace.Kind
	target   uint64
	seen     trace.Seen
	file     string
	line     int
	form     string // kind of unreachable code of the compiler; empty: reachable
	wayForms [2]string
}

// Indices of wayForms: the two ways of a conditional branch. An entry is the form of unreachable
// code to which the way leads, or empty.
const (
	taken = iota
	passed
)

// function is a function of this project in the program.
type function struct {
	name  string
	code  []instruction
	group string // loop, verifier, load or empty
}

// packagePath returns the import path of the function's package.
func (f *function) packagePath() string {
	name, _, _ := strings.Cut(f.name, "[") // without the types of a generic function
	slash := strings.LastIndexByte(name, '/')
	return name[:slash+1+strings.IndexByte(name[slash+1:], '.')]
}

// functionsOf returns the functions of this project, with what was seen of them.
func functionsOf(p *trace.Program, seen []trace.Seen) (list []*function, err error) {
	names, calls := map[uint64]string{}, map[string]*reach.Calls{}
	for i := range p.Symbols.Funcs {
		names[p.Symbols.Funcs[i].Entry] = p.Symbols.Funcs[i].Name
	}
	for i := range p.Symbols.Funcs {
		symbol := &p.Symbols.Funcs[i]
		if symbol.Entry < p.Start || symbol.Entry >= p.End {
			continue
		}
		f := readFunction(p, seen, symbol.Entry, symbol.End)
		f.name = symbol.Name
		f.classify(names)
		f.addCalls(names, calls)
		if trace.IsProjectFunction(f.name) {
			list = append(list, f)
		}
	}
	loop, err := reach.FromRun(calls)
	for _, f := range list {
		f.group = f.groupOf(loop)
	}
	return list, err
}

// readFunction reads the instructions of a function, without the zeros that fill the space after
// it.
func readFunction(p *trace.Program, seen []trace.Seen, from, to uint64) *function {
	f := &function{}
	for at := from; at < to; at += 4 {
		i := (at - p.Start) / 4
		in := instruction{at: at, word: p.Words[i], seen: seen[i]}
		in.kind, in.target = trace.Decode(in.word, at)
		in.file, in.line, _ = p.Symbols.PCToLine(at)
		f.code = append(f.code, in)
	}
	for len(f.code) > 0 && f.code[len(f.code)-1].word == 0 {
		f.code = f.code[:len(f.code)-1]
	}
	return f
}

// addCalls adds the functions that a function calls or jumps to. Functions with the same name count
// as one.
func (f *function) addCalls(names map[uint64]string, all map[string]*reach.Calls) {
	c := all[f.name]
	if c == nil {
		c = &reach.Calls{}
		all[f.name] = c
	}
	const branchLinkRegister = 0xd63f0000
	for i := range f.code {
		in := &f.code[i]
		if name := names[in.target]; name != "" &&
			(in.kind == trace.Call || in.kind == trace.Jump) {
			c.Names = append(c.Names, name)
		}
		c.Indirect = c.Indirect || in.word&0xfffffc1f == branchLinkRegister
	}
}

// loadFiles are the files whose functions load an image, unless a run reaches them.
var loadFiles = []string{"/runtime/load.go", "/runtime/file.go", "/runtime/recover.go"}

func (f *function) groupOf(loop []string) string {
	switch {
	case slices.Contains(loop, f.name):
		return "loop"
	case f.packagePath() == "lightmetal/fbs":
		return "verifier"
	case len(f.code) > 0 && slices.ContainsFunc(loadFiles,
		func(end string) bool { return strings.HasSuffix(f.code[0].file, end) }):
		return "load"
	}
	return ""
}

// index returns the index of the instruction at an address.
func (f *function) index(at uint64) (int, bool) {
	return slices.BinarySearchFunc(f.code, at,
		func(in instruction, at uint64) int { return cmp.Compare(in.at, at) })
}
