package main

import (
	"fmt"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// fenceState has the commands that no fence has followed yet: the last that wrote host
// memory, the last that polled, and the last that copied in bulk through a write-combining
// window. -1 means none.
type fenceState struct{ wrote, polled, bulk int }

var allFenced = fenceState{-1, -1, -1}

// fenceCall is a callee with the kinds of commands that no fence has followed at the call.
type fenceCall struct {
	callee              uint16
	wrote, polled, bulk bool
}

// fences looks for missing fences. It walks a called sequence once for each state in which
// it can begin.
type fences struct {
	view  *fbs.View
	calls map[fenceCall]fenceState
	seen  map[int]bool // commands that were warned of
	list  []string
}

// fenceWarnings warns of accesses that are only in order by luck: a store to the device
// before earlier stores to host memory are visible, loads from host memory that may be
// older than the poll that waited for them, and accesses to the device while a
// write-combining buffer may still hold copied data.
func fenceWarnings(view *fbs.View) []string {
	const most = 10
	f := fences{view: view, calls: map[fenceCall]fenceState{}, seen: map[int]bool{},
		list: []string{}}
	called := calledSequences(view)
	for i := range view.Sequences {
		now := f.walkSequence(i, allFenced)
		if last := int(view.Sequences[i].First + view.Sequences[i].Count - 1); now.bulk >= 0 &&
			!called[i] {
			f.warn(last,
				"%s ends the sequence without a fence after %s, which copies in "+
					"bulk through a write-combining window",
				now.bulk)
		}
	}
	if more := len(f.list) - most; more > 0 {
		f.list = append(f.list[:most], fmt.Sprintf("%d more fences are missing", more))
	}
	return f.list
}

// calledSequences reports, of each sequence, whether another one calls it and goes on after it.
func calledSequences(view *fbs.View) []bool {
	called := make([]bool, len(view.Sequences))
	for i := range view.Commands {
		if c := &view.Commands[i]; c.Opcode == gen.OpcodeCall {
			called[c.Index] = true
		}
	}
	return called
}

func (f *fences) walkSequence(index int, now fenceState) fenceState {
	s := &f.view.Sequences[index]
	for i := int(s.First); i < int(s.First+s.Count); i++ {
		c := &f.view.Commands[i]
		w := &f.view.Windows[c.Window] // of commands without a window it does not matter
		host := w.Kind == gen.WindowKindHost
		now.bulk = f.bulkCopyAfter(i, c, w, now.bulk)
		switch c.Opcode {
		case gen.OpcodeFence:
			now = allFenced
		case gen.OpcodeWrite, gen.OpcodeModify, gen.OpcodeRelocate, gen.OpcodeCopyIn,
			gen.OpcodeFill:
			if host {
				now.wrote = i
			} else if now.wrote >= 0 {
				f.warn(i,
					"%s stores to the device without a fence after %s, which "+
						"stores to host memory", now.wrote)
				now.wrote = -1
			}
		case gen.OpcodeExpect:
			if c.Amount != 0 {
				now.polled = i
			}
		case gen.OpcodeCopyOut, gen.OpcodeCompare:
			if host && now.polled >= 0 {
				f.warn(i,
					"%s loads from host memory without a fence after %s, which "+
						"waits for the device", now.polled)
				now.polled = -1
			}
		case gen.OpcodeCall:
			now = f.walkCall(c.Index, now)
		}
	}
	return now
}

// bulkCopyAfter returns the bulk copy that no fence has followed after command i, -1 if
// there is none. An access through another window may overtake it.
func (f *fences) bulkCopyAfter(i int, c *fbs.Command, w *fbs.Window, bulk int) int {
	switch c.Opcode {
	case gen.OpcodeCopyIn, gen.OpcodeFill, gen.OpcodeWrite, gen.OpcodeModify, gen.OpcodeRelocate,
		gen.OpcodeExpect, gen.OpcodeCopyOut, gen.OpcodeCompare:
	default:
		return bulk
	}
	switch combining := w.Flags&fbs.FlagWriteCombining != 0; {
	case combining && c.Opcode == gen.OpcodeCopyIn && gen.Access(c.Mode) == gen.AccessBulk:
		return i
	case bulk >= 0 && !combining && w.Kind != gen.WindowKindHost:
		f.warn(i, "%s accesses the device without a fence after %s, which copies "+
			"in bulk through a write-combining window", bulk)
		return -1
	}
	return bulk
}

func (f *fences) walkCall(callee uint16, now fenceState) fenceState {
	key := fenceCall{callee, now.wrote >= 0, now.polled >= 0, now.bulk >= 0}
	then, known := f.calls[key]
	if !known {
		then = f.walkSequence(int(callee), now)
		f.calls[key] = then
	}
	return then
}

func (f *fences) warn(at int, format string, before int) {
	if !f.seen[at] {
		f.seen[at] = true
		f.list = append(f.list, fmt.Sprintf(format, f.commandName(at), f.commandName(before)))
	}
}

func (f *fences) commandName(index int) string { return lmb.PlaceText(f.view, index) }
