package main

import (
	"fmt"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// fenceState is what no fence has followed yet: the commands that wrote host
// memory and that polled, -1 where there is none.
type fenceState struct{ wrote, polled int }

// fenceCall is a call with what is without a fence at it.
type fenceCall struct {
	callee        uint16
	wrote, polled bool
}

// fences walks over sequences. What is called is walked over once for each
// state it can begin in.
type fences struct {
	view  *fbs.View
	calls map[fenceCall]fenceState
	seen  map[int]bool // commands that were warned of
	list  []string
}

// fenceWarnings names what works only where the machine happens to keep order:
// a device told of host memory whose bytes may not be there yet, and bytes taken
// from host memory that may be older than the poll which said they are there.
func fenceWarnings(view *fbs.View) []string {
	const most = 10
	f := fences{view: view, calls: map[fenceCall]fenceState{}, seen: map[int]bool{}, list: []string{}}
	for i := range view.Sequences {
		f.sequence(i, fenceState{-1, -1})
	}
	if more := len(f.list) - most; more > 0 {
		f.list = append(f.list[:most], fmt.Sprintf("%d more of the kind", more))
	}
	return f.list
}

func (f *fences) sequence(index int, now fenceState) fenceState {
	s := &f.view.Sequences[index]
	for i := int(s.First); i < int(s.First+s.Count); i++ {
		c := &f.view.Commands[i]
		host := f.view.Windows[c.Window].Kind == gen.WindowKindHost // of commands without a window it does not matter
		switch c.Opcode {
		case gen.OpcodeFence:
			now = fenceState{-1, -1}
		case gen.OpcodeWrite, gen.OpcodeChange, gen.OpcodeAddress, gen.OpcodeCopyIn, gen.OpcodeFill:
			if host {
				now.wrote = i
			} else if now.wrote >= 0 {
				f.warn(i, "command %d stores to the device, command %d wrote host memory, and no fence stands between them", now.wrote)
				now.wrote = -1
			}
		case gen.OpcodeCheck:
			if c.Amount != 0 {
				now.polled = i
			}
		case gen.OpcodeCopyOut, gen.OpcodeCompare:
			if host && now.polled >= 0 {
				f.warn(i, "command %d reads host memory, command %d polled for it, and no fence stands between them", now.polled)
				now.polled = -1
			}
		case gen.OpcodeCall:
			now = f.call(c.Index, now)
		}
	}
	return now
}

func (f *fences) call(callee uint16, now fenceState) fenceState {
	key := fenceCall{callee, now.wrote >= 0, now.polled >= 0}
	then, known := f.calls[key]
	if !known {
		then = f.sequence(int(callee), now)
		f.calls[key] = then
	}
	return then
}

func (f *fences) warn(at int, format string, before int) {
	if !f.seen[at] {
		f.seen[at] = true
		f.list = append(f.list, fmt.Sprintf(format, at, before))
	}
}
