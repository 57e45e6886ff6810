package together

import (
	"math"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// run is what sequences store and load if they are executed in order.
type run struct {
	view    *fbs.View
	targets []windowTarget   // target of each window
	stores  map[space][]span // stores; each byte belongs to its first store
	// Loads of bytes that the run has not stored before, and whose values matter
	loads         map[space][]span
	commandNumber int // number of commands so far, which orders spans
	firstWait     int // value of order at the first wait for the device; MaxInt: none
	examinedCalls map[call]bool
	// The run accesses something other than reset registers, or starts cores. If not, nothing uses
	// the state that earlier sequences have left on the device.
	usesDevice bool
}

// isBeforeWait reports whether a store of the run comes before the first wait, so that the device
// had no time to use the previous contents.
func (r *run) isBeforeWait(_, store *span) bool { return store.order < r.firstWait }

// call is a called sequence, before or after the first wait. Each such call is examined once.
type call struct {
	sequence  uint16
	afterWait bool
}

func newRun(view *fbs.View, sequences ...int) *run {
	r := &run{view: view, targets: make([]windowTarget, len(view.Windows)),
		stores:    map[space][]span{},
		loads:     map[space][]span{},
		firstWait: math.MaxInt, examinedCalls: map[call]bool{}}
	for _, s := range sequences {
		r.addSequence(s)
	}
	for s, list := range r.stores {
		r.stores[s] = earliest(list)
	}
	for s, list := range r.loads {
		r.loads[s] = without(earliest(list), r.stores[s],
			func(load, store *span) bool { return s.hasAddresses() && store.order < load.order })
	}
	return r
}

func (r *run) addSequence(index int) {
	s := &r.view.Sequences[index]
	for i := int(s.First); i < int(s.First+s.Count); i++ {
		r.commandNumber++
		c := &r.view.Commands[i]
		switch c.Opcode {
		case gen.OpcodePoint:
			r.targets[c.Window] = targetOf(r.view, c)
		case gen.OpcodeCall:
			if key := (call{c.Index, r.firstWait < math.MaxInt}); !r.examinedCalls[key] {
				r.examinedCalls[key] = true
				r.addSequence(int(c.Index))
			}
		default:
			r.addAccess(i, c)
		}
	}
}

// addAccess records what a command loads and stores. Stores to a fixed address, as to a FIFO, never
// replace earlier contents.
func (r *run) addAccess(index int, c *fbs.Command) {
	e := lmb.EffectOf(c)
	looks := e.Loads > 0 && (c.Opcode != gen.OpcodeExpect || c.Mask != 0)
	if e.WaitUs > 0 && (c.Opcode == gen.OpcodeDelay || looks) {
		r.firstWait = min(r.firstWait, r.commandNumber)
	}
	if e.Size == 0 {
		r.usesDevice = r.usesDevice || c.Opcode == gen.OpcodeDelay
		return
	}
	r.usesDevice = r.usesDevice || !r.isReset(c, &e)
	if looks {
		r.addSpan(r.loads, c, &e, index, r.commandNumber)
	}
	switch fixed := e.Size < e.Written; {
	case fixed:
		r.addSpan(r.stores, c, &e, index, math.MaxInt)
	case e.Stores > 0:
		r.addSpan(r.stores, c, &e, index, r.commandNumber)
	}
}

// isReset reports whether a command only loads the reset registers of its tiles, or stores a value
// to them that holds all cores in reset.
func (r *run) isReset(c *fbs.Command, e *lmb.Effect) bool {
	a := r.targets[c.Window]
	if r.view.Windows[c.Window].Kind != gen.WindowKindTlb || len(a.spaces) == 0 {
		return false
	}
	for _, s := range a.spaces {
		if s.kind != kindTile || s.chip().Grid == nil {
			return false
		}
		grid := s.chip().Grid
		reset := grid.ResetOf(grid.Kind(chips.Tile{X: s.x, Y: s.y}))
		if reset == nil || a.address+uint64(c.Offset) != reset.Address || e.Size > 4 {
			return false
		}
		inReset := c.Opcode == gen.OpcodeWrite && uint32(c.Value)&reset.Mask == reset.Mask
		if e.Stores > 0 && !inReset {
			return false
		}
	}
	return true
}

func (r *run) addSpan(to map[space][]span, c *fbs.Command, e *lmb.Effect, index, order int) {
	window := &r.view.Windows[c.Window]
	a := r.targets[c.Window]
	if window.Kind != gen.WindowKindTlb {
		a = windowTarget{address: window.Offset, hostStart: math.MaxUint64}
		if s, ok := barSpace(r.view, window, a.address+uint64(c.Offset)); ok {
			a.spaces = []space{s}
		}
	}
	first := a.address + uint64(c.Offset)
	if first >= a.hostStart {
		return
	}
	for _, s := range a.spaces {
		at := span{first, first + e.Size - 1, index, order}
		if !s.hasAddresses() {
			at.first, at.last = 0, 0
		}
		list := to[s]
		if n := len(list); n > 0 && order == r.commandNumber && list[n-1].order == order-1 &&
			list[n-1].last+1 == at.first &&
			tensorOf(r.view, list[n-1].command) == tensorOf(r.view, index) {
			list[n-1].last, list[n-1].order = at.last, order // extends a run of stores
			continue
		}
		to[s] = append(list, at)
	}
}
