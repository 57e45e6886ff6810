package main

import (
	"fmt"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// fenceState contains the commands that no fence has followed yet: the last that wrote host memory,
// the last that polled, and the last that copied in bulk through a write-combining window. -1 means
// none.
type fenceState struct{ lastHostStore, lastPoll, lastBulkCopy int }

var allFenced = fenceState{-1, -1, -1}

// fenceCall is a callee with the kinds of commands that no fence has followed at the call.
type fenceCall struct {
	callee                    uint16
	hostStore, poll, bulkCopy bool
}

// fenceChecker looks for missing fences. It follows a called sequence once for each state in which
// the sequence can begin.
type fenceChecker struct {
	view     *fbs.View
	calls    map[fenceCall]fenceState
	seen     map[int]bool // commands for which there is a warning
	warnings []string
}

// fenceWarnings warns of accesses whose order is not guaranteed: a store to the device before
// earlier stores to host memory are visible, loads from host memory that may be older than the poll
// that waited for them, and accesses to the device while a write-combining buffer may still contain
// copied data.
func fenceWarnings(view *fbs.View) []string {
	const most = 10
	f := fenceChecker{view: view, calls: map[fenceCall]fenceState{}, seen: map[int]bool{},
		warnings: []string{}}
	called := calledSequences(view)
	for i := range view.Sequences {
		now := f.walkSequence(i, allFenced)
		last := int(view.Sequences[i].First + view.Sequences[i].Count - 1)
		if now.lastBulkCopy >= 0 && !called[i] {
			f.warn(last,
				"a fence is missing between %[2]s, which copies in bulk through "+
					"a write-combining window, and the end of the sequence at %[1]s",
				now.lastBulkCopy)
		}
	}
	if more := len(f.warnings) - most; more > 0 {
		f.warnings = append(f.warnings[:most], fmt.Sprintf("%d more fences are missing", more))
	}
	return f.warnings
}

// calledSequences reports for each sequence whether another one calls it, and so continues after
// it.
func calledSequences(view *fbs.View) []bool {
	called := make([]bool, len(view.Sequences))
	for i := range view.Commands {
		if c := &view.Commands[i]; c.Opcode == gen.OpcodeCall {
			called[c.Index] = true
		}
	}
	return called
}

func (f *fenceChecker) walkSequence(index int, now fenceState) fenceState {
	s := &f.view.Sequences[index]
	for i := int(s.First); i < int(s.First+s.Count); i++ {
		c := &f.view.Commands[i]
		w := &f.view.Windows[c.Window] // not used if c has no window
		host := w.Kind == gen.WindowKindHost
		now.lastBulkCopy = f.bulkCopyAfter(i, c, w, now.lastBulkCopy)
		switch c.Opcode {
		case gen.OpcodeFence:
			now = allFenced
		case gen.OpcodeWrite, gen.OpcodeModify, gen.OpcodeRelocate, gen.OpcodeCopyIn,
			gen.OpcodeFill:
			if host {
				now.lastHostStore = i
			} else if now.lastHostStore >= 0 {
				f.warn(i,
					"a fence is missing between %[2]s, which stores to host memory, "+
						"and %[1]s, which stores to the device", now.lastHostStore)
				now.lastHostStore = -1
			}
		case gen.OpcodeExpect:
			if c.Amount != 0 {
				now.lastPoll = i
			}
		case gen.OpcodeCopyOut, gen.OpcodeCompare:
			if host && now.lastPoll >= 0 {
				f.warn(i,
					"a fence is missing between %[2]s, which waits for the device, "+
						"and %[1]s, which loads from host memory", now.lastPoll)
				now.lastPoll = -1
			}
		case gen.OpcodeCall:
			now = f.walkCall(c.Index, now)
		}
	}
	return now
}

// bulkCopyAfter returns the last bulk copy that no fence has followed, after command i; -1 if there
// is none. An access through another window may overtake such a copy.
func (f *fenceChecker) bulkCopyAfter(i int, c *fbs.Command, w *fbs.Window, bulk int) int {
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
		f.warn(i, "a fence is missing between %[2]s, which copies in bulk through "+
			"a write-combining window, and %[1]s, which accesses the device", bulk)
		return -1
	}
	return bulk
}

func (f *fenceChecker) walkCall(callee uint16, now fenceState) fenceState {
	key := fenceCall{callee, now.lastHostStore >= 0, now.lastPoll >= 0, now.lastBulkCopy >= 0}
	then, known := f.calls[key]
	if !known {
		then = f.walkSequence(int(callee), now)
		f.calls[key] = then
	}
	return then
}

func (f *fenceChecker) warn(at int, format string, before int) {
	if !f.seen[at] {
		f.seen[at] = true
		f.warnings = append(f.warnings,
			fmt.Sprintf(format, f.commandName(at), f.commandName(before)))
	}
}

func (f *fenceChecker) commandName(index int) string { return lmb.PlaceText(f.view, index) }
