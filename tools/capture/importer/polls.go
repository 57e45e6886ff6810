package importer

import (
	"bytes"
	"hash/maphash"
	"math"
	"math/bits"
	"strings"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/tools/image/english"
)

// deadlineMinUs is the least deadline of a poll: a second.
const deadlineMinUs = 1_000_000

// deadlineFactor is how many times longer than recorded a loop may take.
const deadlineFactor = 10

// register is what two loads have in common that read the same thing: not the
// window, but what lies after it.
type register struct {
	tile    uint32 // 0x10000 | x | y << 8, or the BAR
	address uint64
}

// loop identifies a run of loads.
type loop struct {
	register
	width uint8
}

func (p *program) registerOf(s *step) register {
	if s.aim < 0 {
		w := &p.windows[s.window]
		return register{uint32(w.bar), w.base + uint64(s.offset)}
	}
	a := &p.aims[s.aim]
	return register{0x10000 | uint32(a.x0) | uint32(a.y0)<<8, a.address + uint64(s.offset)}
}

// folder finds loops that wait.
type folder struct {
	*program
	volatile map[register]bool // what was seen to change by itself
	runs     []run
	slots    []slotOfRun // hash table
	seed     maphash.Seed
	next     []int32 // for each step the next one of its run, -1: none

	loops, folded, singles, polls int
}

// ends reports whether a step ends the runs of loads before it.
func (s *step) ends() bool {
	return s.op == stepStore || s.op == stepRelocate || s.op == stepHost || s.op == stepCut
}

// run is a list of loads of one register with no store between them.
type run struct{ head, tail int32 }

// block identifies loads of the same neighbours.
type block struct {
	register
	size uint64
}

// run makes polls of loops that wait for the device.
//
// Between two stores, all loads of one register form a run. Where its value
// changes, the program waited for it to change: the run is cut after the first
// load that gave its final value, what came before becomes one poll for that
// value, and what is left is a run again. Loads of other registers in between
// do not matter, so a program that watches two of them in turn is understood.
//
// A register that changed once, and one that the board or the user lists,
// changes by itself: every other load of it becomes a poll for its recorded
// value as well, because a replay may come sooner or later than the recording.
// So does a word of memory that gave something else than the program had stored
// there: the device stored it, and may be slower next time. Where such a
// register gave the same over and over, a wait ran out: that is one poll.
func (f *folder) run() (out outcome, err error) {
	if !f.with("fold") {
		return out, nil
	}
	f.volatile, f.seed = map[register]bool{}, maphash.MakeSeed()
	f.spread(f.changing())
	f.next = make([]int32, f.steps.n)
	for first := 0; first < f.steps.n; {
		first = f.foldFrom(first)
	}
	f.next, f.runs, f.slots = nil, nil, nil
	f.findAnswers()
	f.pollVolatile()
	f.sweep()
	out.did = f.text()
	f.waitForCounters(&out)
	return out, nil
}

// foldFrom folds the loads from a step up to the next one that ends runs, and returns the step
// after that.
func (f *folder) foldFrom(first int) (next int) {
	loads, end := 0, first
	for ; end < f.steps.n && !f.steps.at(end).ends(); end++ {
		if f.isSingleLoad(end) {
			loads++
		}
	}
	if loads < 2 {
		return end + 1
	}
	f.reserve(loads)
	for i := first; i < end; i++ {
		if f.isSingleLoad(i) {
			f.add(int32(i))
		}
	}
	for _, r := range f.runs {
		f.cut(r)
	}
	return end + 1
}

// isSingleLoad reports whether a step loads from one place, and for no output.
func (f *folder) isSingleLoad(i int) bool {
	s := f.steps.at(i)
	return s.op == stepLoad && s.tensor() < 0 && s.run() == 1
}

// blockMin loads of neighbours that are made once are a block of results. Fewer
// may be flags.
const blockMin = 16

// changing finds the runs of loads that a program made more than once between
// two stores, and that then gave something else: it waited for one of them.
func (f *folder) changing() map[block]bool {
	changing, seen := map[block]bool{}, map[block]uint64{}
	for i := range f.steps.n {
		s := f.steps.at(i)
		switch {
		case s.ends():
			clear(seen)
		case s.op == stepLoad && s.tensor() < 0 && s.run() >= blockMin:
			b := block{f.registerOf(s), s.size()}
			before, again := seen[b]
			if again && !bytes.Equal(f.data.bytes(before, b.size), f.data.bytes(s.value, b.size)) {
				changing[b] = true
			}
			seen[b] = s.value
		}
	}
	return changing
}

// spread makes single loads of runs that are short, that change, or that the
// user wants polled.
func (f *folder) spread(changing map[block]bool) {
	f.expand(func(s *step) bool {
		if s.run() < blockMin || changing[block{f.registerOf(s), s.size()}] {
			return true
		}
		in, _ := f.inRange(s, f.o.Poll)
		counts, _ := f.inRange(s, f.o.Reached)
		return in || counts
	})
}

// expand makes single loads of the runs that are chosen.
func (f *folder) expand(chosen func(s *step) bool) {
	_ = f.steps.rewrite(func(s *step, out *steps) error {
		if s.op != stepLoad || s.tensor() >= 0 || s.run() == 1 || !chosen(s) {
			out.add(*s)
			return nil
		}
		for k := range s.run() {
			out.add(f.element(s, k))
		}
		return nil
	})
}

func (f *folder) text() string {
	var list clauses
	list.add(f.loops, "%d loads in %s became %s", f.folded, english.Count(f.loops, "loop"),
		english.Count(f.loops, "poll"))
	list.add(f.singles, "%s of registers that change by themselves became %s",
		english.Count(f.singles, "single load"), english.Count(f.polls, "poll"))
	return strings.Join(list, "; ")
}

func (f *folder) add(i int32) {
	f.next[i] = -1
	key := f.loopOf(i)
	hash := uint32(maphash.Comparable(f.seed, key))
	at := hash
	slot := f.slotAt(at)
	for ; slot.number != 0; slot = f.slotAt(at) {
		if slot.hash == hash && f.loopOf(f.runs[slot.number-1].head) == key {
			break
		}
		at++
	}
	if slot.number == 0 {
		f.runs = append(f.runs, run{i, i})
		*slot = slotOfRun{hash, int32(len(f.runs))}
		return
	}
	r := &f.runs[slot.number-1]
	f.next[r.tail] = i
	r.tail = i
}

func (f *folder) loopOf(i int32) loop {
	s := f.steps.at(int(i))
	return loop{f.registerOf(s), s.width}
}

// slotOfRun is a slot of the hash table of runs. A program may load from millions of registers
// between two stores, for which a map of Go would take several times the memory.
type slotOfRun struct {
	hash   uint32 // of the register and the width
	number int32  // of the run, from 1; 0: the slot is free
}

// slotAt returns a slot; numbers go round. At least half of the slots are free.
func (f *folder) slotAt(at uint32) *slotOfRun { return &f.slots[int(at)&(len(f.slots)-1)] }

// reserve makes room for the runs of so many loads.
func (f *folder) reserve(loads int) {
	slots := 1 << bits.Len(uint(2*loads))
	if cap(f.slots) < slots {
		f.slots, f.runs = make([]slotOfRun, slots), make([]run, 0, loads)
	}
	f.slots, f.runs = f.slots[:slots], f.runs[:0]
	clear(f.slots)
}

func (f *folder) cut(r run) {
	last := f.steps.at(int(r.tail))
	mask, _ := f.listed(last)
	final := last.value & mask
	for head := r.head; head >= 0; {
		i, n := head, uint32(1)
		for s := f.steps.at(int(i)); s.value&mask != final; s = f.steps.at(int(i)) {
			s.op = stepNone
			n += s.count
			i = f.next[i]
		}
		if s := f.steps.at(int(i)); n > 1 {
			f.volatile[f.registerOf(s)] = true
			f.poll(i, f.since(head), mask)
			s.flags |= loopStep
			s.line = f.steps.at(int(head)).line
			if s.count > 1 {
				f.singles += int(s.count - 1)
				f.polls++
				s.count = 2 // what comes after the final value is one poll
			}
			f.loops++
			f.folded += int(n)
		}
		head = f.next[i]
	}
}

// since is when a loop began: with the access before its first load, because
// the program may have slept before it looked.
func (f *folder) since(head int32) int64 {
	if head > 0 {
		if before := f.steps.at(int(head - 1)).last(); before > 0 {
			return before
		}
	}
	return f.steps.at(int(head)).time
}

// poll makes a poll of a load, for the value it gave.
func (f *folder) poll(i int32, since int64, mask uint64) {
	s := f.steps.at(int(i))
	s.op, s.to = stepPoll, f.maskIndex(mask)
	s.value &= mask
	s.us = f.deadline(s.time - since)
}

// deadline is that of a poll which took so many nanoseconds when recorded.
func (p *program) deadline(recorded int64) uint32 {
	if p.o.DeadlineUs != 0 {
		return p.o.DeadlineUs
	}
	us := max(recorded, 0) / 1000
	if us > math.MaxUint32/deadlineFactor {
		return math.MaxUint32
	}
	return max(uint32(us)*deadlineFactor, deadlineMinUs)
}

// pollVolatile makes polls of the single loads that are left of registers that
// change by themselves, one of those that gave the same with no store between.
func (f *folder) pollVolatile() {
	if len(f.volatile) > 0 {
		f.expand(f.hasVolatile)
	}
	waits := map[loop]*step{}
	for i := range f.steps.n {
		s := f.steps.at(i)
		if s.ends() {
			clear(waits)
		}
		if s.op != stepLoad || s.tensor() >= 0 || s.run() > 1 {
			continue
		}
		mask, listed := f.listed(s)
		key := loop{f.registerOf(s), s.width}
		if !listed && !f.volatile[key.register] {
			continue
		}
		f.poll(int32(i), f.since(int32(i)), mask)
		f.singles, s.count = f.singles+int(s.count), 1
		if before := waits[key]; before != nil && before.value == s.value {
			s.op = stepNone
			continue
		}
		waits[key] = s
		f.polls++
	}
}

// hasVolatile reports whether one of a run of loads changes by itself.
func (f *folder) hasVolatile(s *step) bool {
	r := f.registerOf(s)
	if uint64(len(f.volatile)) < s.size() {
		for v := range f.volatile {
			if v.tile == r.tile && v.address-r.address < s.size() {
				return true
			}
		}
		return false
	}
	for range s.run() {
		if f.volatile[r] {
			return true
		}
		r.address += uint64(s.width)
	}
	return false
}

// listed reports whether the board or the user says that what a step loads
// changes by itself, and which bits count.
func (p *program) listed(s *step) (mask uint64, ok bool) {
	full := p.significant(s)
	in, _ := p.inRange(s, p.o.Poll)
	counts, _ := p.inRange(s, p.o.Reached)
	in = in || counts
	if s.aim < 0 {
		w := &p.windows[s.window]
		for _, r := range chips.Of(p.board).Status {
			delta := r.Offset - (w.base + uint64(s.offset))
			if r.Bar != w.bar || delta >= uint64(s.width) {
				continue
			}
			if mask := r.Mask << (8 * delta) & full; mask != 0 {
				return mask, true
			}
		}
	}
	return full, in
}

// significant is the bits of a load that mean something: of the register that
// holds cores in reset, theirs.
func (p *program) significant(s *step) uint64 {
	if s.width == 4 && s.aim >= 0 && p.isReset(&p.aims[s.aim], s) {
		return uint64(p.board.Reset.Mask)
	}
	return fbs.WidthMask(s.width)
}
