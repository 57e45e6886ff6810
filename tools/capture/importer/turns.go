package importer

import (
	"cmp"
	"fmt"
	"slices"
)

// turnLoadsMax is the largest number of loads in a turn of a loop that is folded.
const turnLoadsMax = 64

// turns are all turns of a loop but the last. Each has the same `period` loads, in the same order.
// Of the loads from `first` up to `end`, those of an incomplete turn come last.
type turns struct{ first, end, period int32 }

// foldTurns folds the loops that load other registers while they wait: the first and the last turn
// stay, with their loads in the recorded order, and only the last turn waits for values.
func (f *pollDetector) foldTurns() {
	var list []turns
	var partial []loop
	for _, l := range f.loops {
		if l.last-l.head+1 == l.loads || f.hasNoEffect(f.load(l.last)) {
			continue
		}
		t := f.turnsOf(l)
		if f.staysBefore(t.first, l.head) {
			partial = append(partial, l)
		}
		list = append(list, t)
	}
	list = mergeTurns(list)
	for _, t := range list {
		f.leaveOutTurns(t)
	}
	for _, l := range partial {
		f.noteUnfolded(l, list)
	}
}

// turnsOf returns the turns of a loop, from the first that is like the last turn.
func (f *pollDetector) turnsOf(l loop) turns {
	before := l.last - 1
	for f.runOf[before] != f.runOf[l.last] {
		before--
	}
	t := turns{before, l.last + 1, l.last - before}
	if t.period > turnLoadsMax {
		return turns{l.last, l.last, 1}
	}
	for t.first > l.head && f.runOf[t.first-1] == f.runOf[t.first-1+t.period] {
		t.first--
	}
	for range t.period - 1 { // the last turn goes on after the load that waited
		if int(t.end) == len(f.loads) || f.runOf[t.end] != f.runOf[t.end-t.period] {
			break
		}
		t.end++
	}
	t.end -= t.period
	return t
}

// mergeTurns merges the turns of loops that overlap, since several registers may change in a loop.
func mergeTurns(list []turns) (merged []turns) {
	slices.SortFunc(list, func(a, b turns) int { return cmp.Compare(a.first, b.first) })
	for _, t := range list {
		n := len(merged) - 1
		if n < 0 || t.first >= merged[n].end {
			merged = append(merged, t)
			continue
		}
		merged[n].end = max(merged[n].end, t.end)
		if t.period != merged[n].period {
			merged[n].period = merged[n].end - merged[n].first // as a single turn
		}
	}
	return merged
}

// leaveOutTurns leaves out all turns but the first, and the values in it that changed.
func (f *pollDetector) leaveOutTurns(t turns) {
	whole := (t.end - t.first) / t.period
	for i := t.first; i < t.end; i++ {
		s := f.load(i)
		changed := f.volatile[f.registerOf(s)]
		switch {
		case i >= t.first+t.period && i < t.first+whole*t.period:
			if s.op == stepLoad {
				f.turnLoads += int(s.count)
			}
			s.op = stepNone
		case changed && (f.isSingleLoad(int(f.loads[i])) || s.op == stepPoll):
			f.leaveOut(s)
		}
	}
}

// staysBefore reports whether a load of the run from head on stays in the image before a load.
func (f *pollDetector) staysBefore(before, head int32) bool {
	for i := head; i < before; i = f.next[i] {
		if f.load(i).op == stepIgnore {
			return true
		}
	}
	return false
}

// noteUnfolded notes a loop that is not folded, unless it is a part of other turns.
func (f *pollDetector) noteUnfolded(l loop, list []turns) {
	n, _ := slices.BinarySearchFunc(list, l.head+1, func(t turns, at int32) int {
		return cmp.Compare(t.first, at)
	})
	if n > 0 && l.last < list[n-1].end+list[n-1].period {
		return
	}
	if f.unfoldedCount++; f.unfoldedCount == 1 {
		f.unfolded = *f.load(l.last)
	}
}

func (f *pollDetector) countLoops() {
	for _, l := range f.loops {
		f.loopLoads += int(l.count)
		if f.load(l.last).op == stepPoll {
			f.loopCount++
		}
	}
}

func (f *pollDetector) warnUnfolded(out *passResult) {
	if f.unfoldedCount == 0 {
		return
	}
	const text = "the program waited for %s and loaded other registers meanwhile, in another " +
		"order each time%s: the image makes all these loads as recorded, since one may change " +
		"what " +
		"another returns; if none has an effect, --loads-have-no-effect keeps the last ones only"
	more := ""
	if f.unfoldedCount > 1 {
		more = fmt.Sprintf(" (%d such waits)", f.unfoldedCount)
	}
	out.addWarning(int(f.unfolded.line), text, f.placeText(&f.unfolded), more)
}
