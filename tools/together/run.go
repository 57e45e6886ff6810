package together

import (
	"math"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/lmb"
)

// run is what sequences, carried out in order, store and look at.
type run struct {
	stores map[space][]span // each byte by its first store
	found  map[space][]span // what is loaded and looked at before it is stored to
	waited int              // the order of the first command that lets the device go on
}

// fresh tells whether a store of a run comes before the device had time to use
// what was there before.
func (r *run) fresh(_, store *span) bool { return store.order < r.waited }

// walker makes a run.
type walker struct {
	view   *fbs.View
	aims   []aim // by window
	stores map[space][]span
	loads  map[space][]span
	order  int
	waited int
	called map[call]bool
}

// call is a callee before or behind the first wait. What it does there once it
// does again whenever it is called there.
type call struct {
	sequence uint16
	waited   bool
}

func runOf(view *fbs.View, sequences ...int) *run {
	w := walker{view: view, aims: make([]aim, len(view.Windows)), stores: map[space][]span{}, loads: map[space][]span{},
		waited: math.MaxInt, called: map[call]bool{}}
	for _, s := range sequences {
		w.sequence(s)
	}
	r := &run{stores: map[space][]span{}, found: map[space][]span{}, waited: w.waited}
	for s, list := range w.stores {
		r.stores[s] = earliest(list)
	}
	for s, list := range w.loads {
		r.found[s] = without(earliest(list), r.stores[s], func(load, store *span) bool { return s.exact() && store.order < load.order })
	}
	return r
}

func (w *walker) sequence(index int) {
	s := &w.view.Sequences[index]
	for i := int(s.First); i < int(s.First+s.Count); i++ {
		w.order++
		c := &w.view.Commands[i]
		switch c.Opcode {
		case gen.OpcodePoint:
			w.aims[c.Window] = pointed(w.view, c)
		case gen.OpcodeCall:
			if key := (call{c.Index, w.waited < math.MaxInt}); !w.called[key] {
				w.called[key] = true
				w.sequence(int(c.Index))
			}
		default:
			w.access(i, c)
		}
	}
}

// access notes what a command loads and stores. What is stored to one address
// again and again, as to a FIFO, never takes the place of what was there.
func (w *walker) access(index int, c *fbs.Command) {
	e := lmb.EffectOf(c)
	looks := e.Loads > 0 && (c.Opcode != gen.OpcodeCheck || c.Mask != 0)
	if e.WaitUs > 0 && (c.Opcode == gen.OpcodeDelay || looks) {
		w.waited = min(w.waited, w.order)
	}
	if e.Size == 0 {
		return
	}
	if looks {
		w.note(w.loads, c, &e, index, w.order)
	}
	switch fixed := e.Size < e.Written; {
	case fixed:
		w.note(w.stores, c, &e, index, math.MaxInt)
	case e.Stores > 0:
		w.note(w.stores, c, &e, index, w.order)
	}
}

func (w *walker) note(to map[space][]span, c *fbs.Command, e *lmb.Effect, index, order int) {
	window := &w.view.Windows[c.Window]
	a := w.aims[c.Window]
	if window.Kind != gen.WindowKindTlb {
		a = aim{address: window.Offset, host: math.MaxUint64}
		if s, ok := inBar(w.view, window, a.address+uint64(c.Offset)); ok {
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
		if n := len(list); n > 0 && order == w.order && list[n-1].order == order-1 && list[n-1].last+1 == at.first {
			list[n-1].last, list[n-1].order = at.last, order // a run of stores
			continue
		}
		to[s] = append(list, at)
	}
}
