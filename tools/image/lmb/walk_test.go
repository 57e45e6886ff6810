package lmb_test

import (
	"fmt"
	"slices"
	"testing"

	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/lmb/lmbtest"
)

const walkedListing = `lightmetal 1
target wormhole 1e52:401e bar0 512MiB
window csm bar0 offset 0x1fe80000 size 4KiB
window t tlb size 1MiB
window u tlb size 1MiB
window h host size 4KiB bus 0x100000
sub:
  point t tile 2,2 address 0x200000
  write.4 t+0x4 1
main:
  point t tile 1,1 address 0x100000
  point u tile 1,1 address 0x0
  write.4 t+0x8 1
  write.4 u+0x8 1
  write.4 csm+0x10 1
  write.4 h+0x20 1
  fence
  point t tile 1,1 address 0x0
  write.4 t+0x8 1
  call sub
  call sub
`

// TestWalkYieldsEachCommandWithItsPlace walks both sequences of walkedListing. An element of want
// has the index of a command, and the window and the address if the command uses a window.
func TestWalkYieldsEachCommandWithItsPlace(t *testing.T) {
	view := lmbtest.View(t, lmbtest.File(t, walkedListing))
	for sequence, want := range [][]string{
		{"0 1 0x200000", "1 1 0x200004"},
		{"3 1 0x100000", "4 2 0x0", "5 1 0x100008", "6 2 0x8", "7 0 0x1fe80010", "8 3 0x20", "9",
			"10 1 0x0", "11 1 0x8", "12", "13"},
	} {
		var got []string
		for e := range lmb.Walk(view, sequence) {
			if e.Command != &view.Commands[e.Index] {
				t.Errorf("command %d is not the one with this index", e.Index)
			}
			text := fmt.Sprint(e.Index)
			if window := e.Command.Window; e.Window == &view.Windows[window] {
				text += fmt.Sprintf(" %d %#x", window, e.Address)
			}
			got = append(got, text)
			number := e.Index - int(view.Sequences[sequence].First)
			if s, n := lmb.SequenceOf(view, e.Index); s != sequence || n != number {
				t.Errorf("SequenceOf(%d) returns %d, %d, want %d, %d", e.Index, s, n, sequence,
					number)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("Walk of sequence %d yields %q, want %q", sequence, got, want)
		}
	}
	if got := lmb.RunCounts(view, 1); !slices.Equal(got, []uint64{2, 1}) {
		t.Errorf("RunCounts returns %d, want [2 1]", got)
	}
	if s, n := lmb.SequenceOf(view, 2); s != 0 || n != 2 {
		t.Errorf("SequenceOf(2), the End of sub, returns %d, %d, want 0, 2", s, n)
	}
}
