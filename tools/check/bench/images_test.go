package main

import "testing"

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
