package importer

import (
	"cmp"
	"fmt"
	"slices"

	"lightmetal/fbs"
	"lightmetal/tools/capture/importer/traces"
)

// token is a command without its data. Equal commands have equal numbers.
type token struct {
	aim    int32 // or -1 and the window
	offset uint32
	count  uint32 // neighbours
	mask   uint64 // of a poll
	window uint16
	op     stepOp
	width  uint8
}

// occurrence is a command of the trace: a run of accesses of a step, or a part of one.
type occurrence struct {
	step       int32
	first, end uint32
}

// tokens is a trace as commands without data. Where windows point is in the
// place of an access, a loop that waits is one command whatever it took, and a
// copy is cut where another begins or ends.
type tokens struct {
	ids    []uint32
	where  []occurrence
	acts   []hostAct
	edges  map[int64][]uint32 // by what the window shows: offsets at which a run begins or ends
	number map[token]uint32
}

// splitMax bounds how much cutting copies at each other's edges may add.
const splitMax = 4

func (f *finder) tokenize() {
	f.findEdges()
	for _, split := range []bool{true, false} {
		f.ids, f.where, f.acts, f.number = nil, nil, nil, map[token]uint32{}
		if f.addAll(split) {
			break
		}
	}
	f.edges, f.number = nil, nil
}

// space is what an access of a step goes to: where its window points, or the window.
func (s *step) space() int64 {
	if s.aim >= 0 {
		return int64(s.aim)
	}
	return -1 - int64(s.window)
}

func (f *finder) findEdges() {
	f.edges = map[int64][]uint32{}
	for i := range f.steps.n {
		if s := f.steps.at(i); s.is(memoryStep) && (s.op == stepStore || s.op == stepLoad) {
			f.edges[s.space()] = append(f.edges[s.space()], s.offset, s.offset+uint32(s.size()))
		}
	}
	for space, list := range f.edges {
		slices.Sort(list)
		f.edges[space] = slices.Compact(list)
	}
}

// addAll makes the tokens. It gives up where cutting makes too many.
func (f *finder) addAll(split bool) bool {
	for i := range f.steps.n {
		s := f.steps.at(i)
		switch {
		case s.op == stepNone || s.op == stepMark || s.op == stepCut || f.act(s, i):
		case split && s.run() > 1:
			f.addSplit(s, int32(i))
		default:
			f.add(s, occurrence{int32(i), 0, s.run()})
		}
		if split && len(f.ids) > splitMax*(i+1)+1<<16 {
			return false
		}
	}
	return true
}

func (f *finder) addSplit(s *step, index int32) {
	edges, first := f.edges[s.space()], uint32(0)
	from, _ := slices.BinarySearch(edges, s.offset+1)
	for _, edge := range edges[from:] {
		at := edge - s.offset
		if at >= uint32(s.size()) {
			break
		}
		if at%uint32(s.width) == 0 {
			f.add(s, occurrence{index, first, at / uint32(s.width)})
			first = at / uint32(s.width)
		}
	}
	f.add(s, occurrence{index, first, s.run()})
}

func (f *finder) add(s *step, o occurrence) {
	t := token{aim: s.aim, offset: s.offset + o.first*uint32(s.width), count: o.end - o.first,
		op: s.op, width: s.width}
	if s.op == stepPoll {
		t.mask, t.count = f.mask(s), 1
	}
	if s.aim < 0 {
		t.window = s.window
	}
	id, ok := f.number[t]
	if !ok {
		id = uint32(len(f.number))
		f.number[t] = id
	}
	f.ids, f.where = append(f.ids, id), append(f.where, o)
}

// of returns the step of a token.
func (f *finder) of(at int) *step { return f.steps.at(int(f.where[at].step)) }

// stores reports whether a token is a store.
func (f *finder) stores(at int) bool {
	op := f.of(at).op
	return op == stepStore || op == stepRelocate
}

// lineOf is the first line of a token.
func (f *finder) lineOf(at int) int { return f.of(at).lineOf(f.where[at].first) }

// lastLine is the last line of a token, as far as it is known.
func (f *finder) lastLine(at int) int { return f.of(at).lineOf(max(f.where[at].end, 1) - 1) }

// splits reports whether a token begins in the middle of a line.
func (f *finder) splits(at int) bool {
	return at > 0 && f.lineOf(at) == f.lastLine(at-1)
}

// gap is the time in front of a token in which the program did nothing.
func (f *finder) gap(at int) int64 {
	if at == 0 || f.where[at].first > 0 {
		return 0
	}
	return max(f.of(at).time-f.of(at-1).last(), 0)
}

// bytes is the data of a token, lowest address first; of a poll what it waits for.
func (f *finder) bytes(at int) []byte {
	s, o := f.of(at), f.where[at]
	if s.op == stepRelocate {
		return traces.Bytes(s.value, 8)
	}
	return f.moved(s)[o.first*uint32(s.width) : o.end*uint32(s.width)]
}

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

// counters finds what counts in the whole trace, whether or not anything is repeated.
func (f *finder) counters() []Counter {
	stores := map[uint32][]int32{} // tokens, by what they are
	for at, id := range f.ids {
		if f.of(at).op == stepStore &&
			uint64(f.where[at].end-f.where[at].first)*uint64(f.of(at).width) <= countedSize {
			stores[id] = append(stores[id], int32(at))
		}
	}
	list := []Counter{}
	for _, places := range stores {
		if c, ok := f.counter(places); ok {
			list = append(list, c)
		}
	}
	slices.SortFunc(list,
		func(a, b Counter) int { return cmp.Or(b.Times-a.Times, a.first-b.first) })
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
	p := f.piece(first)
	return Counter{
		Place: p.place(), Address: p.address, Line: f.lineOf(first), Times: len(places),
		first:  first,
		Values: fmt.Sprintf("%#x, %#x, %#x, %#x ...", values[0], values[1], values[2], values[3]),
	}, true
}
