package together

import (
	"math"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// run is what sequences, carried out in order, store and look at.
type run struct {
	view   *fbs.View
	aims   []aim            // by window
	stores map[space][]span // each byte by its first store
	found  map[space][]span // what is loaded and looked at before it is stored to
	order  int
	waited int // the order of the first command that lets the device go on
	called map[call]bool
}

// fresh tells whether a store of a run comes before the device had time to use
// what was there before.
func (r *run) fresh(_, store *span) bool { return store.order < r.waited }

// call is a callee before or behind the first wait. What it does there once it
// does again whenever it is called there.
type call struct {
	sequence uint16
	waited   bool
}

func runOf(view *fbs.View, sequences ...int) *run {
	r := &run{view: view, aims: make([]aim, len(view.Windows)), stores: map[space][]span{},
		found:  map[space][]span{},
		waited: math.MaxInt, called: map[call]bool{}}
	for _, s := range sequences {
		r.sequence(s)
	}
	for s, list := range r.stores {
		r.stores[s] = earliest(list)
	}
	for s, list := range r.found {
		r.found[s] = without(earliest(list), r.stores[s],
			func(load, store *span) bool { return s.exact() && store.order < load.order })
	}
	return r
}

func (r *run) sequence(index int) {
	s := &r.view.Sequences[index]
	for i := int(s.First); i < int(s.First+s.Count); i++ {
		r.order++
		c := &r.view.Commands[i]
		switch c.Opcode {
		case gen.OpcodePoint:
			r.aims[c.Window] = pointed(r.view, c)
		case gen.OpcodeCall:
			if key := (call{c.Index, r.waited < math.MaxInt}); !r.called[key] {
				r.called[key] = true
				r.sequence(int(c.Index))
			}
		default:
			r.access(i, c)
		}
	}
}

// access notes what a command loads and stores. What is stored to one address
// again and again, as to a FIFO, never takes the place of what was there.
func (r *run) access(index int, c *fbs.Command) {
	e := lmb.EffectOf(c)
	looks := e.Loads > 0 && (c.Opcode != gen.OpcodeExpect || c.Mask != 0)
	if e.WaitUs > 0 && (c.Opcode == gen.OpcodeDelay || looks) {
		r.waited = min(r.waited, r.order)
	}
	if e.Size == 0 {
		return
	}
	if looks {
		r.note(r.found, c, &e, index, r.order)
	}
	switch fixed := e.Size < e.Written; {
	case fixed:
		r.note(r.stores, c, &e, index, math.MaxInt)
	case e.Stores > 0:
		r.note(r.stores, c, &e, index, r.order)
	}
}

func (r *run) note(to map[space][]span, c *fbs.Command, e *lmb.Effect, index, order int) {
	window := &r.view.Windows[c.Window]
	a := r.aims[c.Window]
	if window.Kind != gen.WindowKindTlb {
		a = aim{address: window.Offset, host: math.MaxUint64}
		if s, ok := inBar(r.view, window, a.address+uint64(c.Offset)); ok {
			a.spaces = []space{s}
		}
	}
	first := a.address + uint64(c.Offset)
	if first >= a.host {
		return
	}
	for _, s := range a.spaces {
		at := span{first, first + e.Size - 1, index, order}
		if !s.exact() {
			at.first, at.last = 0, 0
		}
		list := to[s]
		if n := len(list); n > 0 && order == r.order && list[n-1].order == order-1 &&
			list[n-1].last+1 == at.first &&
			tensorOf(r.view, list[n-1].command) == tensorOf(r.view, index) {
			list[n-1].last, list[n-1].order = at.last, order // a run of stores
			continue
		}
		to[s] = append(list, at)
	}
}
