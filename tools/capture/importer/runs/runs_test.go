package runs

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// bruteForceRuns finds the runs of a list by comparing every start and period.
func bruteForceRuns(list []uint32) (found []Run) {
	for start := range list {
		var before []Run
		for period := 1; start+2*period <= len(list); period++ {
			n := 0
			for start+n+period < len(list) && list[start+n] == list[start+n+period] {
				n++
			}
			repeats := n >= period
			startsEarlier := start > 0 && list[start-1] == list[start-1+period]
			r := Run{start, n + period, period}
			primitive := !slices.ContainsFunc(before,
				func(b Run) bool { return period%b.Period == 0 && b.Length >= r.Length })
			before = append(before, r)
			if repeats && !startsEarlier && primitive {
				found = append(found, r)
			}
		}
	}
	return found
}

func TestFindAgreesWithBruteForce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 3000 {
		list := make([]uint32, random.IntN(60))
		for i := range list {
			list[i] = random.Uint32N(uint32(1 + n%4))
		}
		if n%3 == 0 && len(list) > 8 { // a list of period 7, with one element changed
			for i := 7; i < len(list); i++ {
				list[i] = list[i-7]
			}
			list[random.IntN(len(list))] = 9
		}
		if got, want := Find(list), bruteForceRuns(list); !slices.Equal(got, want) {
			t.Fatalf("Find(%v) = %v, want %v", list, got, want)
		}
	}
}

// TestLongNestedRunsAreFound finds an outer repetition of inner ones in a list that is so long that
// Find compares hashes of parts.
func TestLongNestedRunsAreFound(t *testing.T) {
	var list []uint32
	for range 3 {
		list = append(list, 1000)
		for range 20_000 {
			list = append(list, 1, 2, 3)
		}
		list = append(list, 2000)
	}
	list = append([]uint32{7, 8}, append(list, 9)...)
	period := 2 + 60_000
	found := Find(list)
	for _, want := range []Run{{2, 3 * period, period}, {3, 60_000, 3}, {3 + 2*period, 60_000, 3}} {
		if !slices.Contains(found, want) {
			t.Errorf("Find did not find the run %v", want)
		}
	}
	if r := found[0]; r.Times() < 2 || r.End() > len(list) {
		t.Errorf("the first run is %v: repeated %d times, ends at %d of %d", r, r.Times(), r.End(),
			len(list))
	}
}

func TestLeastRotationIsTheSmallestOfAll(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		list := make([]uint32, 1+random.IntN(12))
		for i := range list {
			list[i] = random.Uint32N(3)
		}
		rotated := func(n int) []uint32 { return slices.Concat(list[n:], list[:n]) }
		best := rotated(0)
		for n := range list {
			if slices.Compare(rotated(n), best) < 0 {
				best = rotated(n)
			}
		}
		if got := rotated(LeastRotation(list)); !slices.Equal(got, best) {
			t.Fatalf("%v: least rotation %v, want %v", list, got, best)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	list := make([]uint32, 1_000_000)
	for i := range list {
		if list[i] = uint32(i % 997); i < 300_000 {
			list[i] = random.Uint32N(50)
		}
	}
	for b.Loop() {
		Find(list)
	}
}
