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
	firstWait     int // value of commandNumber at the first wait for the device; MaxInt: none
	examinedCalls map[call]bool
	// The run waits, starts cores, or accesses more than reset registers. If not, nothing uses the
	// state that earlier sequences have left on the device.
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
	for e := range lmb.Walk(r.view, index) {
		r.commandNumber++
		switch c := e.Command; c.Opcode {
		case gen.OpcodePoint:
			r.targets[c.Window] = targetOf(r.view, c)
		case gen.OpcodeCall:
			if key := (call{c.Index, r.firstWait < math.MaxInt}); !r.examinedCalls[key] {
				r.examinedCalls[key] = true
				r.addSequence(int(c.Index))
			}
		default:
			r.addAccess(e)
		}
	}
	r.commandNumber++ // separates the stores of this sequence from those after it
}

// addAccess records what a command loads and stores. Stores to a fixed address, as to a FIFO, and
// those that a ring moves never replace earlier contents.
func (r *run) addAccess(e *lmb.Effect) {
	isDelay := e.Command.Opcode == gen.OpcodeDelay
	looks := e.Loads > 0 && (e.Command.Opcode != gen.OpcodeExpect || e.Command.Mask != 0)
	if e.WaitUs > 0 && (isDelay || looks) {
		r.firstWait = min(r.firstWait, r.commandNumber)
	}
	if e.Size == 0 {
		r.usesDevice = r.usesDevice || isDelay
		return
	}
	spaces := r.spacesOf(e)
	r.usesDevice = r.usesDevice || !isReset(e, spaces)
	if looks {
		r.addSpans(r.loads, e, spaces, r.commandNumber)
	}
	switch fixed := e.Size < e.Written || e.Spread > 0; {
	case fixed:
		r.addSpans(r.stores, e, spaces, math.MaxInt)
	case e.Stores > 0:
		r.addSpans(r.stores, e, spaces, r.commandNumber)
	}
}

// isReset reports whether a command only loads the reset registers of its tiles, or stores a value
// to them that holds all cores in reset.
func isReset(e *lmb.Effect, spaces []space) bool {
	for _, s := range spaces {
		if s.kind != kindTile || s.chip().Grid == nil {
			return false
		}
		grid := s.chip().Grid
		reset := grid.ResetOf(grid.Kind(chips.Tile{X: s.x, Y: s.y}))
		if reset == nil || e.Address != reset.Address || e.Size > 4 {
			return false
		}
		inReset := e.Command.Opcode == gen.OpcodeWrite &&
			uint32(e.Command.Value)&reset.Mask == reset.Mask
		if e.Stores > 0 && !inReset {
			return false
		}
	}
	return len(spaces) > 0
}

// spacesOf returns the spaces that a command accesses, without memory and registers that belong to
// the image.
func (r *run) spacesOf(e *lmb.Effect) []space {
	if e.Window.Kind != gen.WindowKindTlb {
		return barSpaces(r.view, e.Window, e.Address)
	}
	if t := &r.targets[e.Command.Window]; e.Address < t.hostStart {
		return t.spaces
	}
	return nil
}

// addSpans adds the bytes that a command accesses in each of these spaces.
func (r *run) addSpans(to map[space][]span, e *lmb.Effect, spaces []space, order int) {
	for _, s := range spaces {
		at := span{e.Address, e.Address + e.Size - 1, e.Index, order}
		if !s.hasAddresses() {
			at.first, at.last = 0, 0
		}
		list := to[s]
		if n := len(list); n > 0 && order == r.commandNumber && list[n-1].order == order-1 &&
			list[n-1].last+1 == at.first &&
			tensorOf(r.view, list[n-1].command) == tensorOf(r.view, e.Index) {
			list[n-1].last, list[n-1].order = at.last, order // extends a run of stores
			continue
		}
		to[s] = append(list, at)
	}
}
