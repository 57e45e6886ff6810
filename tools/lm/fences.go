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
		if !called[i] {
			f.warn(last, &now.lastBulkCopy,
				"a fence is missing between %[2]s, which copies in bulk through "+
					"a write-combining window, and the end of the sequence at %[1]s")
		}
	}
	if more := len(f.warnings) - most; more > 0 {
		f.warnings = append(f.warnings[:most], fmt.Sprintf("%d more fences are missing", more))
	}
	return f.warnings
}

// calledSequences reports for each sequence whether another one calls it, and continues after it.
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
	for e := range lmb.Walk(f.view, index) {
		switch {
		case e.Size > 0:
			f.addAccess(e, &now)
		case e.Command.Opcode == gen.OpcodeFence:
			now = allFenced
		case e.Command.Opcode == gen.OpcodeCall:
			now = f.walkCall(e.Command.Index, now)
		}
	}
	return now
}

// addAccess warns if a fence is missing before an access, and updates the state.
func (f *fenceChecker) addAccess(e *lmb.Effect, now *fenceState) {
	host := e.Window.Kind == gen.WindowKindHost
	combining := e.Window.Flags&fbs.FlagWriteCombining != 0
	switch {
	case combining && e.Bulk && e.Stores > 0:
		now.lastBulkCopy = e.Index
	case !combining && !host: // this access may overtake the copy
		f.warn(e.Index, &now.lastBulkCopy, "a fence is missing between %[2]s, which copies in "+
			"bulk through a write-combining window, and %[1]s, which accesses the device")
	}
	switch {
	case e.Stores > 0 && host:
		now.lastHostStore = e.Index
	case e.Stores > 0:
		f.warn(e.Index, &now.lastHostStore, "a fence is missing between %[2]s, which stores to "+
			"host memory, and %[1]s, which stores to the device")
	case e.WaitUs > 0:
		now.lastPoll = e.Index
	case e.Command.Opcode != gen.OpcodeExpect && host:
		f.warn(e.Index, &now.lastPoll, "a fence is missing between %[2]s, which waits for the "+
			"device, and %[1]s, which loads from host memory")
	}
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

// warn warns that a fence is missing before the command `at`, unless *before is -1, and sets
// *before to -1. Each command has at most one warning.
func (f *fenceChecker) warn(at int, before *int, format string) {
	if *before >= 0 && !f.seen[at] {
		f.seen[at] = true
		f.warnings = append(f.warnings,
			fmt.Sprintf(format, lmb.PlaceText(f.view, at), lmb.PlaceText(f.view, *before)))
	}
	*before = -1
}
