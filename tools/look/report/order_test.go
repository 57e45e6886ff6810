package report

import (
	"slices"
	"testing"
)

// twoCalled has two sequences that main calls in the reverse of their order in the image.
const twoCalled = `lightmetal 1
target edu 1234:11e8 bar0 1MiB
window bar0 bar0 size 1MiB

zeta:
  write.4 bar0+0x4 1

alpha:
  write.4 bar0+0x4 2

main:
  call alpha
  call zeta
`

// TestSequencesAreInTheOrderOfTheImage in the tables of a profile, whatever their names and times.
func TestSequencesAreInTheOrderOfTheImage(t *testing.T) {
	view := verify(t, assemble(t, twoCalled))
	p, _ := profileRuns(t, view, recordingMock(view), "main", 1)
	var names, want []string
	for _, s := range p.Sequences {
		names = append(names, s.Name)
	}
	for _, s := range Analyze(view, WholeFile, nil).Sequences {
		want = append(want, s.Name)
	}
	if !slices.Equal(names, []string{"zeta", "alpha", "main"}) || !slices.Equal(names, want) {
		t.Errorf("sequences of the profile %v, of the image %v, want zeta, alpha, main", names,
			want)
	}
}

// TestLongestRunAndSlowestCommandsAreFound: a profile of several runs shows the first of the
// longest runs, and the slowest commands of all runs.
func TestLongestRunAndSlowestCommandsAreFound(t *testing.T) {
	view := verify(t, assemble(t,
		"lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\nwindow bar0 bar0 size 1MiB\n\nmain:\n"+
			"  write.4 bar0+0x4 1\n  write.4 bar0+0x4 2\n  write.4 bar0+0x4 3\n"))
	var d profileBuilder
	d.init(view)
	p := &Profile{}
	for _, at := range [][]int64{{0, 1, 3, 8, 8}, {100, 109, 110, 112, 112},
		{200, 201, 203, 207, 207}, {300, 302, 312, 312, 312}} {
		d.addRun(p, []uint32{0, 1, 2, 3}, at, true)
	}
	d.finishProfile(p)
	if p.Runs != 4 || p.TotalNs != 8+12+7+12 || p.LeastNs != 7 || p.MostNs != 12 ||
		p.ShownRun != 2 || timelineNs(p.Timeline) != 12 ||
		p.Timeline[rowCommands][0].Ns != 9 {
		t.Errorf("%d runs of %d ns in all, %d to %d; run %d is shown: %+v", p.Runs, p.TotalNs,
			p.LeastNs, p.MostNs, p.ShownRun, p.Timeline)
	}
	var slow [][2]int64
	for _, c := range p.Slowest {
		slow = append(slow, [2]int64{int64(c.Command), c.Ns})
	}
	if !slices.Equal(slow, [][2]int64{{1, 10}, {0, 9}, {2, 5}}) {
		t.Errorf("slowest commands and their times: %v, want 1, 0 and 2 with 10, 9 and 5 ns", slow)
	}
}
