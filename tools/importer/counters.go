package importer

import (
	"cmp"
	"fmt"
	"slices"

	"lightmetal/fbs"
	"lightmetal/tools/importer/traces"
)

// Counter is a place where every store of the trace is that before and a step:
// a doorbell, the index of a ring.
type Counter struct {
	Place   string `json:"place"`
	Address uint64 `json:"address"`
	Line    int    `json:"line"` // of the first store
	Times   int    `json:"times"`
	Values  string `json:"values"` // the first ones

	first int // token
}

const (
	countersMax  = 8 // that are shown, those that are stored most
	countsInARow = 4 // stores that a counter has at least
	countedSize  = 8 // bytes that a counter has at most
)

// counters finds what counts in the whole trace, whether or not anything is
// repeated.
func (f *finder) counters() []Counter {
	stores := map[uint32][]int32{} // tokens, by what they are
	for at, id := range f.ids {
		if f.of(at).op == stepStore && uint64(f.where[at].end-f.where[at].first)*uint64(f.of(at).width) <= countedSize {
			stores[id] = append(stores[id], int32(at))
		}
	}
	list := []Counter{}
	for _, places := range stores {
		if c, ok := f.counter(places); ok {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b Counter) int { return cmp.Or(b.Times-a.Times, a.first-b.first) })
	return list[:min(len(list), countersMax)]
}

func (f *finder) counter(places []int32) (Counter, bool) {
	if len(places) < countsInARow {
		return Counter{}, false
	}
	values := make([]uint64, len(places))
	for i, at := range places {
		values[i] = traces.Little(f.bytes(int(at)))
	}
	first := int(places[0])
	width := fbs.WidthMask(uint8(len(f.bytes(first))))
	if _, _, ok := progression(values, width); !ok {
		return Counter{}, false
	}
	p := (&columns{finder: f}).piece(first)
	return Counter{
		Place: p.place(), Address: p.address, Line: f.lineOf(first), Times: len(places), first: first,
		Values: fmt.Sprintf("%#x, %#x, %#x, %#x ...", values[0], values[1], values[2], values[3]),
	}, true
}
