package importer

import (
	"fmt"
	"math"
	"strings"

	"lightmetal/fbs"
)

// deadlineMinUs is the least deadline of a poll: a second.
const deadlineMinUs = 1_000_000

// deadlineFactor is how many times longer than recorded a loop may take.
const deadlineFactor = 10

// register is what two loads have in common that read the same thing: not the
// window, but what lies behind it.
type register struct {
	tile    uint32 // 0x10000 | x | y << 8, or the BAR
	address uint64
}

// loop identifies a run of loads.
type loop struct {
	register
	width uint8
}

func (p *plan) registerOf(s *step) register {
	if s.aim < 0 {
		w := &p.windows[s.window]
		return register{uint32(w.bar), w.base + s.offset}
	}
	a := &p.aims[s.aim]
	return register{0x10000 | uint32(a.x0) | uint32(a.y0)<<8, a.address + s.offset}
}

// folder finds loops that wait.
type folder struct {
	*plan
	volatile map[register]bool // what was seen to change by itself
	runs     []run
	index    map[loop]int // into runs
	next     []int32      // for each step the next one of its run, -1: none

	loops, folded, singles int
}

// run is a list of loads of one register with no store between them.
type run struct{ head, tail int32 }

// fold makes polls of loops that wait for the device.
//
// Between two stores, all loads of one register form a run. Where its value
// changes, the program waited for it to change: the run is cut behind the first
// load that gave its final value, what came before becomes one poll for that
// value, and what is left is a run again. Loads of other registers in between
// do not matter, so a program that watches two of them in turn is understood.
//
// A register that changed once, and one that the board or the user lists,
// changes by itself: every other load of it becomes a poll for its recorded
// value as well, because a replay may come sooner or later than the recording.
// So does a word of memory that gave something else than the program had
// stored there: the device stored it, and may be slower next time.
func (p *plan) fold() (string, error) {
	if !p.with("fold") {
		return "", nil
	}
	f := &folder{plan: p, volatile: map[register]bool{}, index: map[loop]int{}, next: make([]int32, len(p.steps))}
	for i := range p.steps {
		s := &p.steps[i]
		switch {
		case s.op == stepStore || s.op == stepRelocate:
			f.finish()
		case s.op == stepLoad && s.tensor < 0:
			f.add(int32(i))
		}
	}
	f.finish()
	f.findAnswers()
	f.pollVolatile()
	p.sweep()
	return f.text(), nil
}

func (f *folder) text() string {
	var list []string
	if f.loops > 0 {
		list = append(list, fmt.Sprintf("%d loads in %s became %s", f.folded, counted(f.loops, "loop"), counted(f.loops, "poll")))
	}
	if f.singles > 0 {
		list = append(list, fmt.Sprintf("%s of registers that change by themselves became %s",
			counted(f.singles, "single load"), counted(f.singles, "poll")))
	}
	return strings.Join(list, "; ")
}

func (f *folder) add(i int32) {
	f.next[i] = -1
	key := loop{f.registerOf(&f.steps[i]), f.steps[i].width}
	r, ok := f.index[key]
	if !ok {
		f.index[key] = len(f.runs)
		f.runs = append(f.runs, run{i, i})
		return
	}
	f.next[f.runs[r].tail] = i
	f.runs[r].tail = i
}

// finish cuts the runs that a store, or the end, has ended.
func (f *folder) finish() {
	for _, r := range f.runs {
		f.cut(r)
	}
	f.runs = f.runs[:0]
	clear(f.index)
}

func (f *folder) cut(r run) {
	mask := f.mask(&f.steps[r.tail])
	final := f.steps[r.tail].value & mask
	for head := r.head; head >= 0; {
		i, n := head, 1
		for ; f.steps[i].value&mask != final; i = f.next[i] {
			f.steps[i].op = stepNone
			n++
		}
		if n > 1 {
			f.poll(i, f.since(head), mask)
			f.volatile[f.registerOf(&f.steps[i])] = true
			f.loops++
			f.folded += n
		}
		head = f.next[i]
	}
}

// since is when a loop began: with the access before its first load, because
// the program may have slept before it looked.
func (f *folder) since(head int32) int64 {
	if head > 0 && f.steps[head-1].time > 0 {
		head--
	}
	return f.steps[head].time
}

// poll makes a poll of a load, for the value it gave.
func (f *folder) poll(i int32, since int64, mask uint64) {
	s := &f.steps[i]
	s.op, s.mask = stepPoll, mask
	s.value &= mask
	s.us = f.deadline(s.time - since)
}

func (f *folder) deadline(recorded int64) uint32 {
	if f.o.DeadlineUs != 0 {
		return f.o.DeadlineUs
	}
	us := max(recorded, 0) / 1000
	if us > math.MaxUint32/deadlineFactor {
		return math.MaxUint32
	}
	return max(uint32(us)*deadlineFactor, deadlineMinUs)
}

// cell is what the program stored last to 8 aligned bytes of memory.
type cell struct {
	tile        uint32 // as in register
	data, known uint64 // known: ones where data was stored
}

// findAnswers finds the words of memory that the device stored: those that
// give, in a load of their own, something else than the program stored there.
// A load among others beside it reads a result, not a flag.
func (f *folder) findAnswers() {
	cells := map[uint64][]cell{} // by address / 8
	for i := range f.steps {
		if f.lone(i) {
			r := f.registerOf(&f.steps[i])
			cells[r.address/8] = append(cells[r.address/8], cell{tile: r.tile})
		}
	}
	if len(cells) == 0 {
		return
	}
	for i := range f.steps {
		s := &f.steps[i]
		if s.op != stepStore && !f.lone(i) {
			continue
		}
		r := f.registerOf(s)
		list, shift := cells[r.address/8], 8*(r.address%8)
		mask, data := fbs.WidthMask(s.width)<<shift, f.datum(s)<<shift
		for j := range list {
			switch c := &list[j]; {
			case s.op == stepStore && f.reaches(s, c.tile):
				c.data, c.known = c.data&^mask|data, c.known|mask
			case s.op == stepLoad && c.tile == r.tile && c.known&mask == mask && c.data&mask != data:
				f.volatile[r] = true
			}
		}
	}
}

// lone tells whether a step loads from memory, and the steps beside it do not
// load what lies beside it.
func (f *folder) lone(i int) bool {
	s := &f.steps[i]
	if s.op != stepLoad || s.tensor >= 0 || !s.memory {
		return false
	}
	beside := func(a, b *step) bool {
		return a.op == stepLoad && b.op == stepLoad && a.window == b.window && a.aim == b.aim && b.offset == a.offset+uint64(a.width)
	}
	return !(i > 0 && beside(&f.steps[i-1], s)) && !(i+1 < len(f.steps) && beside(s, &f.steps[i+1]))
}

// reaches tells whether a store reaches a tile, or the BAR, of a cell.
func (f *folder) reaches(s *step, tile uint32) bool {
	if s.aim < 0 {
		return tile == uint32(f.windows[s.window].bar)
	}
	return tile&0x10000 != 0 && f.aims[s.aim].has(uint8(tile), uint8(tile>>8))
}

// datum is what a step stores or loads.
func (f *folder) datum(s *step) uint64 {
	if s.tensor < 0 {
		return s.value
	}
	value := uint64(0)
	for i, b := range f.tensors[s.tensor].data[s.value:][:s.width] {
		value |= uint64(b) << (8 * i)
	}
	return value
}

// pollVolatile makes polls of the single loads that are left of registers that
// change by themselves.
func (f *folder) pollVolatile() {
	for i := range f.steps {
		s := &f.steps[i]
		if s.op != stepLoad || s.tensor >= 0 {
			continue
		}
		if mask, listed := f.listed(s); listed || f.volatile[f.registerOf(s)] {
			f.poll(int32(i), f.since(int32(i)), mask)
			f.singles++
		}
	}
}

// mask is the bits of a load that a poll looks at.
func (f *folder) mask(s *step) uint64 {
	mask, _ := f.listed(s)
	return mask
}

// listed tells whether the board or the user says that what a step loads
// changes by itself, and which bits count.
func (f *folder) listed(s *step) (mask uint64, ok bool) {
	full := fbs.WidthMask(s.width)
	if s.aim < 0 {
		w := &f.windows[s.window]
		for _, r := range f.board.Status {
			delta := r.Offset - (w.base + s.offset)
			if r.Bar != w.bar || delta >= uint64(s.width) {
				continue
			}
			if mask := r.Mask << (8 * delta) & full; mask != 0 {
				return mask, true
			}
		}
	}
	return full, len(f.o.Poll) > 0 && f.inRange(s, f.o.Poll)
}

// expect reports the loads that are left; they are held against what they
// gave when recorded, or, without this pass, carried out and forgotten.
func (p *plan) expect() (string, error) {
	n := 0
	for i := range p.steps {
		s := &p.steps[i]
		if s.op != stepLoad || s.tensor >= 0 {
			continue
		}
		n++
		if !p.with("expect") {
			s.op = stepIgnore
		}
	}
	switch {
	case n == 0:
		return "", nil
	case !p.with("expect"):
		return fmt.Sprintf("off: the value of %s is ignored", counted(n, "load")), nil
	}
	return fmt.Sprintf("%s must give what they gave when recorded", counted(n, "load")), nil
}

// pauseNs is how long a program must do nothing to be taken to wait on purpose.
const pauseNs = 10_000_000

// pauses warns of what a replay does not do: wait where the program slept and
// did not poll.
func (p *plan) pauses() (string, error) {
	n, first := 0, 0
	for i := 1; i < len(p.steps); i++ {
		a, b := &p.steps[i-1], &p.steps[i]
		if a.time == 0 || b.time-a.time < pauseNs || b.op == stepPoll || !a.touches() {
			continue
		}
		if n++; n == 1 {
			first = b.line
		}
	}
	if n > 0 {
		p.warn(first, "the program paused for 10 ms or more before this line, and %s in all: a replay goes on at once "+
			"(put a delay into the listing where the device needs it)", counted(n, "time"))
	}
	return "", nil
}
