package main

import (
	"math"
	"slices"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

func nearlyEqual(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestQuantileIsTheSmallestSufficientElement(t *testing.T) {
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
		if got := median(test.list); !nearlyEqual(got, test.want) {
			t.Errorf("median of %v is %v, want %v", test.list, got, test.want)
		}
	}
}

// TestRatiosAreComputedPerRound has a slow round. It slows down both sides, so the ratio of the
// medians would differ.
func TestRatiosAreComputedPerRound(t *testing.T) {
	ours, c := []float64{20, 40, 1000}, []float64{10, 80, 500}
	r := compareTimes("s", "w", "ns", 0.5, ours, c)
	if !nearlyEqual(*r.Ours, 20) || !nearlyEqual(*r.C, 40) || !nearlyEqual(*r.Ratio, 2) ||
		!nearlyEqual(*r.Spread, 1.5) {
		t.Errorf("ours %v, C %v, ratio %v, spread %v, want 20, 40, 2, 1.5", *r.Ours, *r.C,
			*r.Ratio, *r.Spread)
	}
	s := compareSpeeds("s", "w", 800, ours, c) // higher is better: C's time divided by ours
	if !nearlyEqual(*s.Ours, 20) || !nearlyEqual(*s.C, 10) || !nearlyEqual(*s.Ratio, 0.5) {
		t.Errorf("ours %v GB/s, C %v, ratio %v, want 20, 10, 0.5", *s.Ours, *s.C, *s.Ratio)
	}
	if got := medianDifference(ours, c); !nearlyEqual(got, 10) {
		t.Errorf("median difference %v, want 10", got)
	}
	if got := fastest([][]float64{{3, 9, 9}, {4, 4, 4}, {5, 5, 5}}); got != 1 {
		t.Errorf("fastest is %d, want 1", got)
	}
}

func TestGoalsIncludeTheirLimit(t *testing.T) {
	for _, test := range []struct {
		r   row
		met bool
	}{
		{row{}.atMost(1.5, 1.5, ""), true}, {row{}.atMost(1.51, 1.5, ""), false},
		{row{}.atLeast(0.95, 0.95, ""), true}, {row{}.atLeast(0.94, 0.95, ""), false},
	} {
		if *test.r.Met != test.met {
			t.Errorf("row %+v: met %v, want %v", test.r, *test.r.Met, test.met)
		}
	}
}

func TestScatteredWritesGoToDifferentWords(t *testing.T) {
	seen := map[uint32]bool{}
	for i := range 10_000 {
		c := scatteredWrite(i)
		if c.Offset%4 != 0 || c.Offset >= deviceSize {
			t.Fatalf("write %d goes to offset %#x, want a multiple of 4 below %#x", i, c.Offset,
				deviceSize)
		}
		seen[c.Offset] = true
	}
	if len(seen) < 9_900 {
		t.Errorf("10,000 writes go to %d different words, want at least 9,900", len(seen))
	}
}

// TestRepeatedRecordingsKeepAllCommands checks that every command of a recording is measured except
// marks, delays and calls. A bare recording also lacks Points and Fences.
func TestRepeatedRecordingsKeepAllCommands(t *testing.T) {
	b := &bench{testdata: testdataDir}
	for i := range recordings {
		image := b.importRecording(i)
		count := func(commands []lmb.Command, opcode gen.Opcode) (n int) {
			for j := range commands {
				if commands[j].Opcode == opcode {
					n++
				}
			}
			return n
		}
		body := inlineCalls(image)
		for _, bare := range []bool{false, true} {
			repeated := repeatMain(image, bare)
			memory := makeChecksPass(repeated)
			main := repeated.Sequences[0].Commands
			rounds := count(main, gen.OpcodeWrite) / count(body, gen.OpcodeWrite)
			if rounds < 2 || len(main) < minRepeatedCommands || len(memory) == 0 {
				t.Fatalf("%s: %d commands, %d rounds, memory of %d bytes: too few",
					recordings[i].file, len(main), rounds, len(memory))
			}
			for opcode := gen.OpcodeWrite; opcode < gen.OpcodeEnd; opcode++ {
				want := rounds * count(body, opcode)
				switch {
				case opcode == gen.OpcodeDelay || opcode == gen.OpcodeCall ||
					bare && opcode == gen.OpcodeFence:
					want = 0
				case bare && opcode == gen.OpcodePoint:
					want = count(main, opcode) // one for each window
				}
				if got := count(main, opcode); got != want {
					t.Errorf("%s, bare %v: %d commands %v, want %d", recordings[i].file, bare, got,
						opcode, want)
				}
			}
		}
	}
}

// TestRepeatedRecordingsPassTheirChecks replays each recording with the runtime, the tuned loops
// and the player. Every check must pass.
func TestRepeatedRecordingsPassTheirChecks(t *testing.T) {
	programs := compileC(t)
	b := &bench{testdata: testdataDir}
	for i := range recordings {
		image := b.importRecording(i)
		repeated := repeatMain(image, false)
		before := makeChecksPass(repeated)
		path := writeImageFile(t, repeated)
		once := compareSides(t, programs.tuned, path, before)
		if once.status != 0 || once.ignored != 0 {
			t.Fatalf("%s: the runtime ends with status %d at command %d, %d failures ignored",
				recordings[i].file, once.status, once.command, once.ignored)
		}
		registers := len(before) - pageSize
		if fbs.Checksum(once.memory[:registers]) != fbs.Checksum(before[:registers]) {
			t.Errorf("%s: a run changes the memory", recordings[i].file)
		}
		player := replayWithC(t, programs.player, path, before, 0)
		if player.status != 0 || player.ignored != 0 || player.outputs != once.outputs {
			t.Errorf("%s: the player ends with status %d at command %d, %d failures ignored, or "+
				"has other outputs", recordings[i].file, player.status, player.command,
				player.ignored)
		}
		if fbs.Checksum(player.memory[:registers]) != fbs.Checksum(once.memory[:registers]) {
			t.Errorf("%s: the player leaves other data in memory than the runtime",
				recordings[i].file)
		}
	}
}
