package boards

import (
	"slices"
	"testing"
)

type registerStore struct {
	register uint64
	value    uint32
}

func stores(o *OutboundTranslation, region int, offset, size, bus uint64) (list []registerStore) {
	o.ProgramRegion(region, offset, size, bus,
		func(register uint64, value uint32) { list = append(list, registerStore{register, value}) })
	return list
}

// The expected register values of Wormhole come from a recording in which tt-umd programmed region
// 1 (offset 0x40000000, 1 GiB, to the same bus address). In addition, these values have the bits
// that tt-kmd sets.
func TestRegionIsProgrammedAsByTheDrivers(t *testing.T) {
	want := []registerStore{{0x1404, 0}, {0x1408, 0x40000000}, {0x140c, 0}, {0x1410, 0x7fffffff},
		{0x1414, 0x40000000}, {0x1418, 0}, {0x1400, 0}, {0x1404, 0x88280000}}
	got := stores(Wormhole.Outbound, 1, 0x4000_0000, 0x4000_0000, 0x4000_0000)
	if !slices.Equal(got, want) {
		t.Errorf("Wormhole: stores %#x, want %#x", got, want)
	}
	want = []registerStore{{0x2e04, 0}, {0x2e08, 0x1000}, {0x2e0c, 0x2}, {0x2e10, 0x1fff},
		{0x2e14, 0x89abc000}, {0x2e18, 0x567}, {0x2e20, 0x2}, {0x2e00, 0x2000},
		{0x2e04, 0x80000000}}
	got = stores(Blackhole.Outbound, 15, 0x2_0000_1000, 0x1000, 0x567_89ab_c000)
	if !slices.Equal(got, want) {
		t.Errorf("Blackhole: stores %#x, want %#x", got, want)
	}
	for _, b := range []*Board{&Wormhole, &Blackhole} {
		o := b.Outbound
		disable := []registerStore{{o.Offset + 0x404, 0}}
		if got := stores(o, 2, 1, 0, 3); !slices.Equal(got, disable) {
			t.Errorf("%s: stores that disable a region: %#x, want %#x", b.Name, got, disable)
		}
		last := o.Offset + uint64(o.RegionCount)*o.Stride - 4
		if b.FindRule(o.Bar, o.Offset, 4) == nil || b.FindRule(o.Bar, last, 4) == nil ||
			b.FindRule(o.Bar, last+4, 4) != nil {
			t.Errorf("%s: the range of the rule is not that of the registers of all regions",
				b.Name)
		}
	}
}
