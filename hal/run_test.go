package hal

import (
	"bytes"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

func TestStoreRunAgreesWithTheOracle(t *testing.T) {
	for _, width := range []uint8{4, 8} {
		for name, change := range unlike {
			run := plainWrites(20, width)
			change(&run[20])
			got, want := make([]byte, 256), make([]byte, 256)
			atGot, atWant := int32(7), int32(7)
			a, b := MappedAperture(got, 0, 256, -1, false), MappedAperture(want, 0, 256, -1, false)
			doneGot := a.StoreRun(run, &atGot)
			doneWant := storeRunGeneric(b.base, &run[0], uint64(len(run)), &atWant)
			if doneGot != 20 || doneWant != 20 || atGot != atWant || !bytes.Equal(got, want) {
				t.Errorf("width %d, unlike in %s: %d stores and at %d, the oracle %d and %d", width, name, doneGot, atGot, doneWant, atWant)
			}
		}
	}
}

func TestStoreRunLeavesOtherWritesAlone(t *testing.T) {
	memory := make([]byte, 256)
	mapped := MappedAperture(memory, 0, 256, -1, false)
	for name, test := range map[string]struct {
		aperture *Aperture
		change   func(*fbs.Command)
	}{
		"not mapped":     {&Aperture{}, func(*fbs.Command) {}},
		"narrow":         {&mapped, func(c *fbs.Command) { c.Width, c.Mask = 2, 0xffff }},
		"masked":         {&mapped, func(c *fbs.Command) { c.Mask = 1 }},
		"of bus address": {&mapped, func(c *fbs.Command) { c.Mode = uint8(gen.SourceBusAddress) }},
	} {
		run := plainWrites(1, 4)
		test.change(&run[0])
		at := int32(0)
		if n := test.aperture.StoreRun(run, &at); n != 0 || at != 0 || !bytes.Equal(memory, make([]byte, 256)) {
			t.Errorf("a Write %s: %d stores", name, n)
		}
	}
}
