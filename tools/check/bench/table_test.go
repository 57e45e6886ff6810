package main

import (
	"math"
	"slices"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestQuantileIsTheSmallestElementThatEnoughAreNotAbove(t *testing.T) {
	list := []float64{5, 1, 4, 2, 3}
	for _, test := range []struct{ q, want float64 }{{0, 1}, {0.2, 1}, {0.21, 2}, {0.5, 3},
		{0.8, 4}, {0.99, 5}, {1, 5}} {
		if got := quantile(list, test.q); got != test.want {
			t.Errorf("quantile %v is %v, want %v", test.q, got, test.want)
		}
	}
	if !slices.Equal(list, []float64{5, 1, 4, 2, 3}) {
		t.Error("the list was sorted in place")
	}
	for _, test := range []struct {
		list []float64
		want float64
	}{{[]float64{7}, 7}, {[]float64{3, 1, 2}, 2}, {[]float64{1, 2, 3, 10}, 2.5}} {
		if got := median(test.list); !near(got, test.want) {
			t.Errorf("median of %v is %v, want %v", test.list, got, test.want)
		}
	}
}

// TestARatioIsThatOfEachRound: a slow round slows both sides, and the ratio of
// the medians would be another.
func TestARatioIsThatOfEachRound(t *testing.T) {
	ours, c := []float64{20, 40, 1000}, []float64{10, 80, 500}
	r := versus("s", "w", "ns", 0.5, ours, c)
	if !near(*r.Ours, 20) || !near(*r.C, 40) || !near(*r.Ratio, 2) || !near(*r.Spread, 1.5) {
		t.Errorf("ours %v, C %v, ratio %v, spread %v", *r.Ours, *r.C, *r.Ratio, *r.Spread)
	}
	s := speed("s", "w", 800, ours, c) // more is better: C's time over ours
	if !near(*s.Ours, 20) || !near(*s.C, 10) || !near(*s.Ratio, 0.5) {
		t.Errorf("ours %v GB/s, C %v, ratio %v", *s.Ours, *s.C, *s.Ratio)
	}
	if got := longer(ours, c); !near(got, 10) {
		t.Errorf("longer by %v", got)
	}
	if got := best([][]float64{{3, 9, 9}, {4, 4, 4}, {5, 5, 5}}); got != 1 {
		t.Errorf("best is %d", got)
	}
}

func TestAGoalIsMetUpToAndWithItsNumber(t *testing.T) {
	for _, test := range []struct {
		r   row
		met bool
	}{
		{row{}.atMost(1.5, 1.5, ""), true}, {row{}.atMost(1.51, 1.5, ""), false},
		{row{}.atLeast(0.95, 0.95, ""), true}, {row{}.atLeast(0.94, 0.95, ""), false},
	} {
		if *test.r.Met != test.met {
			t.Errorf("%+v", test.r)
		}
	}
}

func TestScatteredWritesGoToAsManyWords(t *testing.T) {
	seen := map[uint32]bool{}
	for i := range 10_000 {
		c := scattered(i)
		if c.Offset%4 != 0 || c.Offset >= deviceSize {
			t.Fatalf("write %d goes to %#x", i, c.Offset)
		}
		seen[c.Offset] = true
	}
	if len(seen) < 9_900 {
		t.Errorf("10,000 writes go to %d words", len(seen))
	}
}

// TestRecordingsAreMeasuredWhole: every command of a recording is measured but
// marks, delays and calls, and bare leaves out Points and Fences alone.
func TestRecordingsAreMeasuredWhole(t *testing.T) {
	b := &bench{testdata: samples}
	for i := range captured {
		image := b.recorded(i)
		count := func(commands []lmb.Command, opcode gen.Opcode) (n int) {
			for j := range commands {
				if commands[j].Opcode == opcode {
					n++
				}
			}
			return n
		}
		body := flat(image)
		for _, bare := range []bool{false, true} {
			repeated := repeatMain(image, bare)
			memory := quiet(repeated)
			main := repeated.Sequences[0].Commands
			rounds := count(main, gen.OpcodeWrite) / count(body, gen.OpcodeWrite)
			if rounds < 2 || len(main) < capturedCommands || len(memory) == 0 {
				t.Fatalf("%s: %d commands, %d rounds", captured[i].file, len(main), rounds)
			}
			for opcode := gen.OpcodeWrite; opcode < gen.OpcodeEnd; opcode++ {
				want := rounds * count(body, opcode)
				switch {
				case opcode == gen.OpcodeDelay || opcode == gen.OpcodeCall ||
					bare && opcode == gen.OpcodeFence:
					want = 0
				case bare && opcode == gen.OpcodePoint:
					want = count(main, opcode) // one a window
				}
				if got := count(main, opcode); got != want {
					t.Errorf("%s, bare %v: %d commands %v, want %d", captured[i].file, bare, got,
						opcode, want)
				}
			}
		}
	}
}

// TestRecordingsAreQuiet replays them twice in the programs: every check holds each time.
func TestRecordingsAreQuiet(t *testing.T) {
	programs := compileC(t)
	b := &bench{testdata: samples}
	for i := range captured {
		image := b.recorded(i)
		repeated := repeatMain(image, false)
		before := quiet(repeated)
		path := encode(t, repeated)
		once := compareSides(t, programs.tuned, path, before)
		if once.status != 0 || once.ignored != 0 {
			t.Fatalf("%s: ends with %d at command %d", captured[i].file, once.status, once.command)
		}
		registers := len(before) - pageSize
		if fbs.Checksum(once.memory[:registers]) != fbs.Checksum(before[:registers]) {
			t.Errorf("%s: a run leaves other bytes than it began with", captured[i].file)
		}
		player := theirs(t, programs.player, path, before, 0)
		if player.status != 0 || player.ignored != 0 || player.outputs != once.outputs {
			t.Errorf("%s: the player ends with %d at command %d", captured[i].file, player.status,
				player.command)
		}
		if fbs.Checksum(player.memory[:registers]) != fbs.Checksum(once.memory[:registers]) {
			t.Errorf("%s: the player leaves other bytes than the runtime", captured[i].file)
		}
	}
}
