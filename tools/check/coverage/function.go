package main

import (
	"cmp"
	"slices"
	"strings"

	"lightmetal/tools/check/coverage/reach"
	"lightmetal/tools/check/coverage/trace"
)

// instruction is one of a function.
type instruction struct {
	at     uint64
	word   uint32
	kind   trace.Kind
	target uint64
	seen   trace.Seen
	file   string
	line   int
	form   string // what a compiler made it for that nobody can reach; empty: none
	skip   [2]string
}

// Of a conditional branch's ways, skip has the forms of those that lead to such.
const (
	taken = iota
	passed
)

// function is one of this project's in the program.
type function struct {
	name  string
	code  []instruction
	group string // loop, verifier, load or nothing
}

// path is the package's name.
func (f *function) path() string {
	name, _, _ := strings.Cut(f.name, "[") // of a generic function
	slash := strings.LastIndexByte(name, '/')
	return name[:slash+1+strings.IndexByte(name[slash+1:], '.')]
}

// functionsOf reads the functions of this project, with what was seen of them.
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
		f := read(p, seen, symbol.Entry, symbol.End)
		f.name = symbol.Name
		f.forms(names)
		f.calls(names, calls)
		if trace.Ours(f.name) {
			list = append(list, f)
		}
	}
	loop, err := reach.FromRun(calls)
	for _, f := range list {
		f.group = f.belongs(loop)
	}
	return list, err
}

// read takes instructions up to the zeros that fill the space between functions.
func read(p *trace.Program, seen []trace.Seen, from, to uint64) *function {
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

// calls adds what a function calls, or jumps to in place of it. Those of a name
// count as one.
func (f *function) calls(names map[uint64]string, all map[string]*reach.Calls) {
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

// loaders are the functions between a file and its first run that no run reaches.
var loaders = []string{"/runtime/load.go", "/runtime/file.go"}

func (f *function) belongs(loop []string) string {
	switch {
	case slices.Contains(loop, f.name):
		return "loop"
	case f.path() == "lightmetal/fbs":
		return "verifier"
	case len(f.code) > 0 && slices.ContainsFunc(loaders,
		func(end string) bool { return strings.HasSuffix(f.code[0].file, end) }):
		return "load"
	}
	return ""
}

// index finds an instruction of the function by its address.
func (f *function) index(at uint64) (int, bool) {
	return slices.BinarySearchFunc(f.code, at,
		func(in instruction, at uint64) int { return cmp.Compare(in.at, at) })
}
