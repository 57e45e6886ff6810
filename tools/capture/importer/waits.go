package importer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lightmetal/fbs"
	"lightmetal/tools/image/english"
)

// A driver that sleeps until an interrupt makes no loop: the load after the interrupt returns the
// final value. Such a load must become a poll.

const (
	// From this pause on, a load may have followed a wait.
	waitMinNs = 8_000
	// A wait is at least this many times longer than the median of all pauses between accesses.
	waitMedians  = 4
	waitLoadsMin = 3
	// Largest number of pauses of a register that are kept for the median
	waitPausesMax = 4096
)

// loadPauses describes the pauses before the loads of one register.
type loadPauses struct {
	line     uint32 // of the first load
	place    string
	count    int
	shortest int64
	list     []int64 // in nanoseconds
}

// findWaits finds registers of which every load follows a pause, as after an interrupt.
func (f *pollDetector) findWaits() {
	all, found := map[int64]int{}, map[loadKey]*loadPauses{}
	f.eachPause(func(i int, pause int64, n int) {
		all[rounded(pause)] += n
		s := f.steps.at(i)
		if pause < waitMinNs || !f.isSingleLoad(i) || s.hasFlag(flagMemory) {
			return
		}
		w := found[f.loadKeyOf(int32(i))]
		if w == nil {
			w = &loadPauses{line: s.line, place: f.placeText(s), shortest: pause}
			found[f.loadKeyOf(int32(i))] = w
		}
		w.count += n
		w.shortest = min(w.shortest, pause)
		if len(w.list) < waitPausesMax {
			w.list = append(w.list, pause)
		}
	})
	f.medianPause = medianOf(all)
	least := max(waitMinNs, waitMedians*f.medianPause)
	f.eachPause(func(i int, pause int64, _ int) {
		if pause < least && f.isSingleLoad(i) {
			delete(found, f.loadKeyOf(int32(i)))
		}
	})
	maps.DeleteFunc(found, func(_ loadKey, w *loadPauses) bool { return w.count < waitLoadsMin })
	f.likelyWaits = found
}

// eachPause calls `do` for each access but the first, with the time since the access before it, in
// nanoseconds. Of a step of n accesses, `do` gets the mean of the pauses inside it.
func (f *pollDetector) eachPause(do func(i int, pause int64, n int)) {
	var before *step
	for i := range f.steps.count {
		s := f.steps.at(i)
		if !s.accessesDevice() {
			continue
		}
		if before != nil && before.time > 0 {
			do(i, max(s.time-before.lastTime(), 0), 1)
		}
		if n := int(s.count) - 1; n > 0 && s.time > 0 {
			do(i, int64(s.durationUs)*1000/int64(n), n)
		}
		before = s
	}
}

// rounded returns a time with three digits, so that few times differ.
func rounded(ns int64) int64 {
	unit := int64(1)
	for ns/unit >= 1000 {
		unit *= 10
	}
	return ns / unit * unit
}

// medianOf returns the median of numbers, of which counts says how often each occurs.
func medianOf(counts map[int64]int) int64 {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	for _, v := range slices.Sorted(maps.Keys(counts)) {
		if sum -= 2 * counts[v]; sum <= 0 {
			return v
		}
	}
	return 0
}

// proposeWaits proposes polls for the registers of findWaits whose loads are compared.
func (f *pollDetector) proposeWaits(out *passResult) {
	for i := range f.steps.count {
		if s := f.steps.at(i); s.op == stepPoll {
			delete(f.likelyWaits, f.loadKeyOf(int32(i)))
		}
	}
	list := slices.SortedFunc(maps.Values(f.likelyWaits), func(a, b *loadPauses) int {
		return cmp.Compare(a.line, b.line)
	})
	awaits := f.awaitsPausedLoads()
	for _, w := range list {
		if awaits && f.isLongPause(w.shortest) {
			continue // all of them become polls
		}
		slices.Sort(w.list)
		out.addWarning(int(w.line), "each of the %d loads of %s follows a pause of at least %v "+
			"(median %v, of all accesses %v): if the driver slept there until an interrupt, use "+
			"--wait %[2]s, because the image does not wait", w.count, w.place,
			pauseText(w.shortest), pauseText(w.list[len(w.list)/2]), pauseText(f.medianPause))
	}
}

func pauseText(ns int64) string {
	return strings.Replace(time.Duration(rounded(ns)).String(), "µ", "u", 1)
}

// isWait reports whether the program waited for the value of a load, by an interrupt in the
// recording or by the user's option.
func (f *pollDetector) isWait(s *step) bool {
	in, _ := f.isInRanges(s, f.options.Wait)
	return in || s.hasFlag(flagInterrupt)
}

// awaitedBits returns the bits that a wait waits for: those that the program clears by the store
// right after the load, or else all.
func (f *pollDetector) awaitedBits(i int, mask uint64) uint64 {
	s := f.steps.at(i)
	for k := i + 1; k < f.steps.count; k++ {
		t := f.steps.at(k)
		if !t.accessesDevice() {
			continue
		}
		if t.op == stepStore && t.window == s.window && t.target == s.target && t.count == 1 &&
			t.tensorIndex() < 0 && t.value&^s.value == 0 && t.value&mask != 0 {
			return t.value & mask
		}
		break
	}
	return mask
}

// pauseMinNs is the time in nanoseconds from which a pause of the program counts as intended.
const pauseMinNs = 10_000_000

// stepPauseNs returns the pause from which accesses do not become one step.
func (p *program) stepPauseNs() int64 {
	if p.options.KeepPauses > 0 {
		return min(pauseMinNs, p.options.KeepPauses.Nanoseconds())
	}
	return pauseMinNs
}

const (
	// From this pause on, a load becomes a poll: the program may have slept until an interrupt.
	// From the same interval on, an interrupt ends the pause of a poll in a replay.
	waitPauseNs = 1_000_000
	// More such loads are no waits; the deadlines of their polls would add up to an hour.
	pausedLoadsMax = 1000
	// What longer pauses were for is not known, so the deadline of a poll does not grow with them.
	pauseDeadlineMaxNs = 1_000_000_000
)

func (p *program) isLongPause(ns int64) bool {
	return ns >= max(waitPauseNs, waitMedians*p.medianPause)
}

// pauseBefore returns the time from an access to the next one; 0: not known.
func pauseBefore(s, before *step) int64 {
	if before.time == 0 {
		return 0
	}
	return s.time - before.lastTime()
}

func (p *program) isPausedLoad(s *step, pause int64) bool {
	return s.op == stepLoad && s.tensorIndex() < 0 && s.elementCount() == 1 &&
		!s.hasFlag(flagMemory) && p.isLongPause(pause)
}

// awaitsPausedLoads reports whether loads after pauses become polls.
func (p *program) awaitsPausedLoads() bool {
	var none step
	count, before := 0, &none
	for i := range p.steps.count {
		if s := p.steps.at(i); s.accessesDevice() {
			if p.isPausedLoad(s, pauseBefore(s, before)) {
				count++
			}
			before = s
		}
	}
	return count <= pausedLoadsMax && p.isPassEnabled("fold")
}

// appendPausedLoad makes a poll, for all bits, of the first of the loads s after a pause: the
// value may come as late as it came to the program.
func (p *program) appendPausedLoad(s *step, pause int64, list *stepList) {
	poll := p.singleAccess(s, 0)
	poll.op, poll.operand, poll.count = stepPoll, p.maskIndex(p.significantMask(s)), 1
	poll.value &= p.masks[poll.operand]
	poll.durationUs = p.deadlineUs(min(pause, pauseDeadlineMaxNs))
	p.setInterval(&poll, pause)
	list.appendStep(poll)
	if s.count > 1 {
		rest := p.singleAccess(s, 0)
		rest.line += uint32(s.lineStride)
		if rest.count = s.count - 1; rest.count > 1 {
			rest.flags |= flagRepeated
		}
		list.appendStep(rest)
	}
}

// setInterval lets an interrupt wake a poll after an interrupt or a pause. Other steps have none.
func (p *program) setInterval(s *step, pause int64) {
	if s.op != stepPoll {
		return
	}
	s.lineStride = 0
	isSlept := p.isLongPause(pause) && !s.hasFlag(flagLoop)
	if p.hasVectors && (s.hasFlag(flagInterrupt) || isSlept) {
		s.lineStride = waitPauseNs / 1000
	}
}

// keepPauses makes delays of the pauses that Options.KeepPauses selects, and warns of all others
// of 10 ms or more: the image does not repeat them. A poll waits by itself.
func (p *program) keepPauses() (out passResult, err error) {
	var before step // the last access
	var left []string
	first, kept, sum, awaited, back, backAt := 0, 0, time.Duration(0), 0, 0, 0
	awaits := p.awaitsPausedLoads()
	err = p.steps.rewrite(func(s *step, list *stepList) error {
		if !s.accessesDevice() {
			list.appendStep(*s)
			return nil
		}
		pause := pauseBefore(s, &before)
		isPause := before.time != 0 && s.op != stepPoll
		switch least := p.options.KeepPauses.Nanoseconds(); {
		case isPause && least > 0 && pause >= least:
			kept, sum = kept+1, sum+time.Duration(pause)
			for us := toMicroseconds(pause + 999); us > 0; us -= min(us, fbs.DelayMaxUs) {
				list.appendStep(step{op: stepDelay, line: s.line, time: s.time, count: 1,
					target: -1, operand: -1, durationUs: min(us, fbs.DelayMaxUs)})
			}
		case isPause && pause >= pauseMinNs:
			left = append(left, fmt.Sprintf("%d (%s)", s.line, pauseText(pause)))
			if len(left) == 1 {
				first = int(s.line)
			}
		}
		if before.count > 0 && s.time < before.time {
			if back++; back == 1 {
				backAt = int(s.line)
			}
		}
		before = *s
		if awaits && p.isPausedLoad(s, pause) {
			awaited++
			p.appendPausedLoad(s, pause, list)
			return nil
		}
		p.setInterval(s, pause)
		list.appendStep(*s)
		return nil
	})
	var did clauses
	did.addIfAny(kept, "%s became delays of %v in all", english.Count(kept, "pause"), sum)
	did.addIfAny(awaited, "%s behind pauses became %s", english.Count(awaited, "load"),
		english.Count(awaited, "poll"))
	out.summary = strings.Join(did, "; ")
	if n := len(left); n > 0 {
		out.addWarning(first, "the program paused %s for 10 ms or more, but a replay does not "+
			"pause: before %s; if the device needs the time, use --keep-pauses 10ms",
			english.Count(n, "time"), linesText(left))
	}
	if back > 0 {
		out.addWarning(backAt,
			"the time stamp decreases %s, first before this line, "+
				"so the lines may not be in the order of the accesses; "+
				"import each recording from a file of its own",
			english.Count(back, "time"))
	}
	return out, err
}

func linesText(list []string) string {
	const shownMax = 20
	word, more := "line ", ""
	if len(list) > 1 {
		word = "lines "
	}
	if n := len(list) - shownMax; n > 0 {
		list, more = list[:shownMax], fmt.Sprintf(" and %d more", n)
	}
	return word + strings.Join(list, ", ") + more
}
