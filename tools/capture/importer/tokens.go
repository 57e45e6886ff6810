package importer

import (
	"cmp"
	"fmt"
	"slices"

	"lightmetal/fbs"
	"lightmetal/tools/capture/importer/traces"
)

// token is a command without its data. Equal commands have the same id.
type token struct {
	target int32 // index into program.targets; -1: the access is through window
	offset uint32
	count  uint32 // number of adjacent elements
	mask   uint64 // only of a poll
	window uint16
	op     stepOp
	width  uint8
}

// occurrence is a command in the trace: the elements of a step from first up to, but not including,
// end.
type occurrence struct {
	step       int32
	first, end uint32
}

// tokens is the trace as a list of commands without data. Accesses contain the target of their
// window instead of the window. A loop that waits is one command, however long it took. A copy is
// split where other copies start or end.
type tokens struct {
	ids         []uint32
	occurrences []occurrence
	hostChanges []hostChange
	// By step.spaceID: offsets at which runs start or end
	edges map[int64][]uint32
	idOf  map[token]uint32
}

// splitMax limits how many tokens splitting may add: up to splitMax times the number of steps.
const splitMax = 4

func (f *finder) tokenize() {
	f.findEdges()
	for _, split := range []bool{true, false} {
		f.ids, f.occurrences, f.hostChanges, f.idOf = nil, nil, nil, map[token]uint32{}
		if f.addAllTokens(split) {
			break
		}
	}
	f.edges, f.idOf = nil, nil
}

// spaceID identifies what a step accesses: the target of its TLB window, or its window.
func (s *step) spaceID() int64 {
	if s.target >= 0 {
		return int64(s.target)
	}
	return -1 - int64(s.window)
}

func (f *finder) findEdges() {
	f.edges = map[int64][]uint32{}
	for i := range f.steps.count {
		if s := f.steps.at(i); s.hasFlag(flagMemory) && (s.op == stepStore || s.op == stepLoad) {
			f.edges[s.spaceID()] = append(f.edges[s.spaceID()], s.offset, s.offset+uint32(s.size()))
		}
	}
	for space, list := range f.edges {
		slices.Sort(list)
		f.edges[space] = slices.Compact(list)
	}
}

// addAllTokens makes the tokens. It returns false if splitting makes too many.
func (f *finder) addAllTokens(split bool) bool {
	for i := range f.steps.count {
		s := f.steps.at(i)
		switch {
		case s.op == stepNone || s.op == stepMark || s.op == stepSequenceStart ||
			f.recordHostChange(s, i):
		case split && s.elementCount() > 1:
			f.addSplitTokens(s, int32(i))
		default:
			f.addToken(s, occurrence{int32(i), 0, s.elementCount()})
		}
		if split && len(f.ids) > splitMax*(i+1)+1<<16 {
			return false
		}
	}
	return true
}

func (f *finder) addSplitTokens(s *step, index int32) {
	edges, first := f.edges[s.spaceID()], uint32(0)
	from, _ := slices.BinarySearch(edges, s.offset+1)
	for _, edge := range edges[from:] {
		at := edge - s.offset
		if at >= uint32(s.size()) {
			break
		}
		if at%uint32(s.width) == 0 {
			f.addToken(s, occurrence{index, first, at / uint32(s.width)})
			first = at / uint32(s.width)
		}
	}
	f.addToken(s, occurrence{index, first, s.elementCount()})
}

func (f *finder) addToken(s *step, o occurrence) {
	t := token{target: s.target, offset: s.offset + o.first*uint32(s.width), count: o.end - o.first,
		op: s.op, width: s.width}
	if s.op == stepPoll {
		t.mask, t.count = f.maskOf(s), 1
	}
	if s.target < 0 {
		t.window = s.window
	}
	id, ok := f.idOf[t]
	if !ok {
		id = uint32(len(f.idOf))
		f.idOf[t] = id
	}
	f.ids, f.occurrences = append(f.ids, id), append(f.occurrences, o)
}

func (f *finder) stepOf(at int) *step { return f.steps.at(int(f.occurrences[at].step)) }

func (f *finder) isStore(at int) bool {
	op := f.stepOf(at).op
	return op == stepStore || op == stepRelocate || op == stepCarryIn
}

// lineOf returns the first line of a token.
func (f *finder) lineOf(at int) int { return f.stepOf(at).lineOf(f.occurrences[at].first) }

// lastLine returns the last line of a token, as far as it is known.
func (f *finder) lastLine(at int) int {
	return f.stepOf(at).lineOf(max(f.occurrences[at].end, 1) - 1)
}

// startsInsideLine reports whether a token begins in the middle of a line.
func (f *finder) startsInsideLine(at int) bool {
	return at > 0 && f.lineOf(at) == f.lastLine(at-1)
}

// pauseBefore returns the time before a token in which the program did nothing, in nanoseconds.
func (f *finder) pauseBefore(at int) int64 {
	if at == 0 || f.occurrences[at].first > 0 {
		return 0
	}
	return max(f.stepOf(at).time-f.stepOf(at-1).lastTime(), 0)
}

// tokenData returns the data of a token, lowest address first. For a poll, this is the value that
// it waits for.
func (f *finder) tokenData(at int) []byte {
	s, o := f.stepOf(at), f.occurrences[at]
	switch s.op {
	case stepRelocate:
		return traces.Bytes(s.value, 8)
	case stepCarryOut, stepCarryIn: // the value differs each time
		return make([]byte, s.width)
	}
	return f.dataOf(s)[o.first*uint32(s.width) : o.end*uint32(s.width)]
}

// Counter is a place to which each store of the trace stores the previous value plus a constant,
// such as a doorbell or the index of a ring.
type Counter struct {
	Place   string `json:"place"`
	Address uint64 `json:"address"`
	Line    int    `json:"line"` // of the first store
	Times   int    `json:"times"`
	Values  string `json:"values"` // the first values, as text

	first int // token
}

const (
	countersMax      = 8 // maximum number of counters that are shown, those with most stores first
	counterStoresMin = 4 // minimum number of stores of a counter
	counterSizeMax   = 8 // maximum size of a counter in bytes
)

// findCounters finds the counters in the whole trace, whether or not the trace has repetitions.
func (f *finder) findCounters() []Counter {
	stores := map[uint32][]int32{} // indexes of tokens, by id
	for at, id := range f.ids {
		if f.stepOf(at).op == stepStore &&
			uint64(f.occurrences[at].end-f.occurrences[at].first)*
				uint64(f.stepOf(at).width) <= counterSizeMax {
			stores[id] = append(stores[id], int32(at))
		}
	}
	list := []Counter{}
	for _, places := range stores {
		if c, ok := f.newCounter(places); ok {
			list = append(list, c)
		}
	}
	slices.SortFunc(list,
		func(a, b Counter) int { return cmp.Or(b.Times-a.Times, a.first-b.first) })
	return list[:min(len(list), countersMax)]
}

func (f *finder) newCounter(places []int32) (Counter, bool) {
	if len(places) < counterStoresMin {
		return Counter{}, false
	}
	values := make([]uint64, len(places))
	for i, at := range places {
		values[i] = traces.Little(f.tokenData(int(at)))
	}
	first := int(places[0])
	width := fbs.WidthMask(uint8(len(f.tokenData(first))))
	if _, _, ok := progression(values, width); !ok {
		return Counter{}, false
	}
	p := f.newPiece(first)
	return Counter{
		Place: p.placeText(), Address: p.address, Line: f.lineOf(first), Times: len(places),
		first:  first,
		Values: fmt.Sprintf("%#x, %#x, %#x, %#x ...", values[0], values[1], values[2], values[3]),
	}, true
}
