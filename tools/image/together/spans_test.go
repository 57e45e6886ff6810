package together

import (
	"math/rand/v2"
	"testing"
)

// TestEarliestSpansAreThoseOfEachByte compares the result of earliest with a table of the first
// command of every byte, for lists of spans that are disjoint and lists that overlap.
func TestEarliestSpansAreThoseOfEachByte(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		const size = 40
		var owner [size]int
		var list []span
		for i := range random.IntN(6) {
			first := random.Uint64N(size)
			s := span{first, min(first+random.Uint64N(8), size-1), i + 1, i}
			list = append(list, s)
			for at := s.first; at <= s.last; at++ {
				if owner[at] == 0 {
					owner[at] = s.command
				}
			}
		}
		done := earliest(list)
		if !disjoint(done) {
			t.Fatalf("earliest returns %v for %v, which are not disjoint", done, list)
		}
		for _, s := range done {
			for at := s.first; at <= s.last; at++ {
				if owner[at] != s.command {
					t.Fatalf("byte %d of %v belongs to command %d, not to the one in %v", at, list,
						owner[at], done)
				}
				owner[at] = 0
			}
		}
		if owner != [size]int{} {
			t.Fatalf("%v lacks bytes of %v", done, list)
		}
	}
}
