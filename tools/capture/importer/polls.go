package importer

import (
	"bytes"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"strings"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/tools/image/english"
)

// deadlineMinUs is the minimum deadline of a poll: one second.
const deadlineMinUs = 1_000_000

// deadlineFactor is how many times longer than in the recording a loop may take.
const deadlineFactor = 10

// register identifies what a load reads: not by window, but by the target of the window.
type register struct {
	tile    uint32 // of a tile: 0x10000 | x | y << 8; otherwise the number of the BAR
	address uint64
}

// loadKey identifies the loads of a register with one width.
type loadKey struct {
	register
	width uint8
}

func (p *program) registerOf(s *step) register {
	if s.target < 0 {
		w := &p.windows[s.window]
		return register{uint32(w.bar), w.base + uint64(s.offset)}
	}
	a := &p.targets[s.target]
	return register{0x10000 | uint32(a.x0) | uint32(a.y0)<<8, a.address + uint64(s.offset)}
}

// pollDetector turns loops that wait into polls.
type pollDetector struct {
	*program
	volatile map[register]bool // registers that changed without a store of the program
	loads    []int32           // steps that load, between two stores
	next     []int32           // for each of loads, the next one of its run; -1: none
	runOf    []int32           // for each of loads, its run: 1 plus the index in runs
	runs     []loadRun
	loops    []loop
	table    []tableSlot // hash table
	seed     maphash.Seed

	loopCount, loopLoads, singleLoads, pollCount int
	turnLoads, unfoldedCount, waitCount          int
	likelyWaits                                  map[loadKey]*loadPauses
	unfolded                                     step // poll of the first loop that is not folded
}

// endsRuns reports whether a step ends the runs of loads before it.
func (s *step) endsRuns() bool {
	return s.op == stepStore || s.op == stepRelocate || s.op == stepHostStores ||
		s.op == stepSequenceStart || s.op == stepCarryIn
}

// loadRun is a list of loads of one register with no store between them: indexes of loads.
type loadRun struct{ head, tail int32 }

// loop is the part of a run that waited for the value of its last load.
type loop struct {
	head, last int32  // indexes of loads
	loads      int32  // of the register
	count      uint32 // of their accesses
}

// loadBlock identifies loads of the same range of registers.
type loadBlock struct {
	register
	size uint64
}

// run makes polls of loops that wait for the device.
//
// Between two stores, all loads of one register form a run. If the value changes in a run, the
// program waited for the change. The run is cut after the first load that returned its final value;
// the loads up to there become one poll for that value, and the rest is a run again. If the program
// loaded other registers in between, foldTurns keeps the order of the loads: a load may have an
// effect on another register. Loads of memory have none.
//
// A register that changed once, or that the board or the user lists, changes by itself. Every other
// load of it also becomes a poll for the recorded value, because the replay may be earlier or later
// than the recording. The same applies to a word of memory that returned another value than the
// program stored: the device wrote it, and may be slower in a replay. If such a register returned
// the same value repeatedly, a wait timed out; these loads become one poll.
func (f *pollDetector) run() (out passResult, err error) {
	if !f.isPassEnabled("fold") {
		return out, nil
	}
	f.volatile, f.seed = map[register]bool{}, maphash.MakeSeed()
	f.splitBlocks(f.changingBlocks())
	f.findWaits()
	for first := 0; first < f.steps.count; {
		first = f.detectFrom(first)
	}
	f.loads, f.next, f.runOf, f.runs, f.table = nil, nil, nil, nil, nil
	f.findWrittenWords()
	f.pollVolatile()
	f.removeEmptySteps()
	out.summary = f.pollSummary()
	f.warnUnfolded(&out)
	f.waitForCounters(&out)
	f.proposeCarries(&out)
	f.proposeWaits(&out)
	return out, nil
}

// detectFrom turns loops into polls from a step up to the next one that ends runs, and returns the
// index of the step after that.
func (f *pollDetector) detectFrom(first int) (next int) {
	end := first
	for f.loads = f.loads[:0]; end < f.steps.count && !f.steps.at(end).endsRuns(); end++ {
		if f.steps.at(end).accessesDevice() {
			f.loads = append(f.loads, int32(end))
		}
	}
	if len(f.loads) < 2 {
		return end + 1
	}
	f.resetTable(len(f.loads))
	for i := range f.loads {
		f.addLoad(int32(i))
	}
	for _, r := range f.runs {
		if f.isSingleLoad(int(f.loads[r.head])) {
			f.cutRun(r)
		}
	}
	f.foldTurns()
	f.countLoops()
	return end + 1
}

func (f *pollDetector) load(i int32) *step { return f.steps.at(int(f.loads[i])) }

// isSingleLoad reports whether a step loads one register, neither for an output nor as the first
// load after an interrupt.
func (f *pollDetector) isSingleLoad(i int) bool {
	s := f.steps.at(i)
	return s.op == stepLoad && s.tensorIndex() < 0 && s.elementCount() == 1 &&
		!s.hasFlag(flagInterrupt)
}

// blockLoadsMin is the number of adjacent loads from which they count as a block of results. Fewer
// may be flags.
const blockLoadsMin = 16

// changingBlocks returns the blocks that the program loaded more than once between two stores with
// different results, because it waited for a part of the block.
func (f *pollDetector) changingBlocks() map[loadBlock]bool {
	changing, seen := map[loadBlock]bool{}, map[loadBlock]uint64{}
	for i := range f.steps.count {
		s := f.steps.at(i)
		switch {
		case s.endsRuns():
			clear(seen)
		case s.op == stepLoad && s.tensorIndex() < 0 && s.elementCount() >= blockLoadsMin:
			b := loadBlock{f.registerOf(s), s.size()}
			before, again := seen[b]
			if again && !bytes.Equal(f.runData.bytes(before, b.size),
				f.runData.bytes(s.value, b.size)) {
				changing[b] = true
			}
			seen[b] = s.value
		}
	}
	return changing
}

// splitBlocks splits blocks into single loads if they are short, if they change, or if the user
// wants them polled.
func (f *pollDetector) splitBlocks(changing map[loadBlock]bool) {
	f.splitRuns(func(s *step) bool {
		if s.elementCount() < blockLoadsMin || changing[loadBlock{f.registerOf(s), s.size()}] {
			return true
		}
		in, _ := f.isInRanges(s, f.options.Poll)
		counts, _ := f.isInRanges(s, f.options.CounterRanges)
		waits, _ := f.isInRanges(s, f.options.Wait)
		return in || counts || waits
	})
}

// splitRuns splits the runs for which `chosen` returns true into single loads.
func (f *pollDetector) splitRuns(chosen func(s *step) bool) {
	_ = f.steps.rewrite(func(s *step, out *stepList) error {
		if s.op != stepLoad || s.tensorIndex() >= 0 || s.elementCount() == 1 || !chosen(s) {
			out.appendStep(*s)
			return nil
		}
		for k := range s.elementCount() {
			out.appendStep(f.singleAccess(s, k))
		}
		return nil
	})
}

func (f *pollDetector) pollSummary() string {
	var list clauses
	list.addIfAny(f.loopCount, "%d loads in %s became %s", f.loopLoads,
		english.Count(f.loopCount, "loop"),
		english.Count(f.loopCount, "poll"))
	list.addIfAny(f.turnLoads, "%s of other registers left out, as in the first and the last turn",
		english.Count(f.turnLoads, "load"))
	list.addIfAny(f.singleLoads, "%s of registers that change by themselves became %s",
		english.Count(f.singleLoads, "single load"), english.Count(f.pollCount, "poll"))
	list.addIfAny(f.waitCount, "%s became %s", english.Count(f.waitCount, "wait"),
		english.Count(f.waitCount, "poll"))
	return strings.Join(list, "; ")
}

func (f *pollDetector) addLoad(i int32) {
	f.next[i] = -1
	key := f.runKeyOf(i)
	hash := uint32(maphash.Comparable(f.seed, key))
	at := hash
	slot := f.slotAt(at)
	for ; slot.number != 0; slot = f.slotAt(at) {
		if slot.hash == hash && f.runKeyOf(f.runs[slot.number-1].head) == key {
			break
		}
		at++
	}
	if slot.number == 0 {
		f.runs = append(f.runs, loadRun{i, i})
		*slot = tableSlot{hash, int32(len(f.runs))}
	}
	f.runOf[i] = slot.number
	r := &f.runs[slot.number-1]
	if r.head == i {
		return
	}
	f.next[r.tail] = i
	r.tail = i
}

// runKey identifies loads that turns of a loop have in common. Of anything but a single load, the
// data must be the same, too.
type runKey struct {
	loadKey
	op   stepOp
	data uint64
}

func (f *pollDetector) runKeyOf(i int32) runKey {
	s := f.load(i)
	k := runKey{loadKey: f.loadKeyOf(f.loads[i])}
	if !f.isSingleLoad(int(f.loads[i])) {
		switch k.op = s.op; s.op {
		case stepIgnore:
		case stepCarryOut:
			k.data = uint64(f.loads[i]) // no turn of a loop is like another one
		default:
			k.data = s.value
		}
	}
	return k
}

func (f *pollDetector) loadKeyOf(i int32) loadKey {
	s := f.steps.at(int(i))
	return loadKey{f.registerOf(s), s.width}
}

// tableSlot is a slot of the hash table of runs. A program may load from millions of registers
// between two stores. A Go map would need several times the memory.
type tableSlot struct {
	hash   uint32 // of the runKey
	number int32  // index of the run, from 1; 0: the slot is free
}

// slotAt returns a slot; the index wraps around. At least half of the slots are free.
func (f *pollDetector) slotAt(at uint32) *tableSlot { return &f.table[int(at)&(len(f.table)-1)] }

// resetTable clears the hash table and makes room for the runs of the given number of loads.
func (f *pollDetector) resetTable(loads int) {
	slots := 1 << bits.Len(uint(2*loads))
	if cap(f.table) < slots {
		f.table, f.runs = make([]tableSlot, slots), make([]loadRun, 0, loads)
	}
	f.table, f.runs, f.loops = f.table[:slots], f.runs[:0], f.loops[:0]
	clear(f.table)
	f.next = slices.Grow(f.next[:0], loads)[:loads]
	f.runOf = slices.Grow(f.runOf[:0], loads)[:loads]
}

func (f *pollDetector) cutRun(r loadRun) {
	last := f.load(r.tail)
	mask, _ := f.listedMask(last)
	final := last.value & mask
	for head := r.head; head >= 0; {
		l := loop{head, head, 1, 1}
		for s := f.load(head); s.value&mask != final; s = f.load(l.last) {
			l.last = f.next[l.last]
			l.loads++
			l.count += s.count
		}
		if l.loads > 1 {
			f.loops = append(f.loops, l)
			f.makeLoopPoll(head, l.last, mask)
		}
		head = f.next[l.last]
	}
}

// makeLoopPoll makes a poll of the last load of a loop.
func (f *pollDetector) makeLoopPoll(head, last int32, mask uint64) {
	s, line := f.load(last), f.load(head).line
	f.volatile[f.registerOf(s)] = true
	f.makePoll(f.loads[last], f.loopStart(f.loads[head]), mask)
	for i := head; i != last; i = f.next[i] {
		if f.next[i] == i+1 {
			f.load(i).op = stepNone
		} else {
			f.leaveOut(f.load(i))
		}
	}
	s.flags |= flagLoop
	s.line = line
	if s.count > 1 {
		f.singleLoads += int(s.count - 1)
		f.pollCount++
		s.count = 2 // the loads after the final value become one poll
	}
}

// leaveOut leaves out a load of a loop. If it may have an effect, only its value is left out.
func (f *pollDetector) leaveOut(s *step) {
	if f.hasNoEffect(s) {
		s.op = stepNone
		return
	}
	s.op, s.operand, s.count, s.flags = stepIgnore, -1, 1, 0
}

func (f *pollDetector) hasNoEffect(s *step) bool {
	return s.hasFlag(flagMemory) || f.options.LoadsHaveNoEffect
}

// loopStart returns the start of a loop: the time of the access before its first load, because the
// program may have slept before that load.
func (f *pollDetector) loopStart(head int32) int64 {
	if head > 0 {
		if before := f.steps.at(int(head - 1)).lastTime(); before > 0 {
			return before
		}
	}
	return f.steps.at(int(head)).time
}

// makePoll turns a load into a poll for the value that it returned.
func (f *pollDetector) makePoll(i int32, since int64, mask uint64) {
	s := f.steps.at(int(i))
	s.op, s.operand = stepPoll, f.maskIndex(mask)
	s.value &= mask
	s.durationUs = f.deadlineUs(s.time - since)
}

// deadlineUs returns the deadline in microseconds for a poll that took `recorded` nanoseconds.
func (p *program) deadlineUs(recorded int64) uint32 {
	if p.options.DeadlineUs != 0 {
		return p.options.DeadlineUs
	}
	us := max(recorded, 0) / 1000
	if us > math.MaxUint32/deadlineFactor {
		return math.MaxUint32
	}
	return max(uint32(us)*deadlineFactor, deadlineMinUs)
}

// pollVolatile turns the remaining loads of registers that change by themselves into polls. Loads
// of the same value become one poll if there is no store between them, and no load that may matter.
func (f *pollDetector) pollVolatile() {
	if len(f.volatile) > 0 {
		f.splitRuns(f.hasVolatile)
	}
	waits, last := map[loadKey]*step{}, (*step)(nil)
	for i := range f.steps.count {
		s := f.steps.at(i)
		if s.endsRuns() {
			clear(waits)
		}
		before := last
		if s.accessesDevice() {
			last = s
		}
		if s.op != stepLoad || s.tensorIndex() >= 0 || s.elementCount() > 1 {
			continue
		}
		mask, listed := f.listedMask(s)
		key := loadKey{f.registerOf(s), s.width}
		switch wait := f.isWait(s); {
		case wait:
			mask = f.awaitedBits(i, mask)
			f.waitCount++
		case !listed && !f.volatile[key.register]:
			continue
		}
		f.makePoll(int32(i), f.loopStart(int32(i)), mask)
		if !f.isWait(s) {
			f.singleLoads += int(s.count)
		}
		s.count = 1
		if w := waits[key]; w != nil && w.value == s.value && (w == before || f.hasNoEffect(s)) {
			s.op, last = stepNone, before
			continue
		}
		waits[key] = s
		if !f.isWait(s) {
			f.pollCount++
		}
	}
}

// hasVolatile reports whether a run of loads includes a register that changes by itself.
func (f *pollDetector) hasVolatile(s *step) bool {
	r := f.registerOf(s)
	if uint64(len(f.volatile)) < s.size() {
		for v := range f.volatile {
			if v.tile == r.tile && v.address-r.address < s.size() {
				return true
			}
		}
		return false
	}
	for range s.elementCount() {
		if f.volatile[r] {
			return true
		}
		r.address += uint64(s.width)
	}
	return false
}

// listedMask reports whether the board or the user lists a register as one that changes by itself,
// and returns the bits to compare.
func (p *program) listedMask(s *step) (mask uint64, ok bool) {
	full := p.significantMask(s)
	in, _ := p.isInRanges(s, p.options.Poll)
	counts, _ := p.isInRanges(s, p.options.CounterRanges)
	in = in || counts
	if s.target < 0 {
		w := &p.windows[s.window]
		for _, r := range chips.ForBoard(p.board).StatusRegisters {
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

// significantMask returns the bits of a load that matter: of a reset register, only the bits that
// hold cores in reset.
func (p *program) significantMask(s *step) uint64 {
	if s.width == 4 && s.target >= 0 && p.isResetRegister(&p.targets[s.target], s) {
		return uint64(p.board.Reset.Mask)
	}
	return fbs.WidthMask(s.width)
}

// leaveOutSkipped removes the waits of Options.skipped.
func (p *program) leaveOutSkipped() (out passResult, err error) {
	if len(p.options.skipped) == 0 {
		return out, nil
	}
	for i := range p.steps.count {
		s := p.steps.at(i)
		if isWait := s.op == stepPoll || s.op == stepLoad; isWait &&
			slices.Contains(p.options.skipped, int(s.line)) {
			s.op = stepNone
		}
	}
	return out, nil
}
