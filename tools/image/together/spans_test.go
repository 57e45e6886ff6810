package together

import (
	"math/rand/v2"
	"testing"
)

// TestEarliestSpansAreThoseOfEachByte calls earliest with random lists of spans, disjoint and
// overlapping. The spans that earliest returns must be disjoint. Each byte must belong to the first
// command in the list that accesses it, or to no span if no command accesses it.
func TestEarliestSpansAreThoseOfEachByte(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		const size = 40
		var owner [size]int // first command that accesses each byte; 0: none
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
			t.Fatalf("earliest(%v) returns %v, want disjoint spans", list, done)
		}
		for _, s := range done {
			for at := s.first; at <= s.last; at++ {
				if owner[at] != s.command {
					t.Fatalf("earliest(%v) returns %v: byte %d belongs to command %d, want %d",
						list, done, at, s.command, owner[at])
				}
				owner[at] = 0
			}
		}
		if owner != [size]int{} {
			t.Fatalf("earliest(%v) returns %v, which lacks bytes; commands of all bytes that are "+
				"left (0: none): %v", list, done, owner)
		}
	}
}
