// Package runs finds what repeats in a list: every stretch that consists of the
// same part at least twice in a row and cannot be made longer.
//
// It goes by the runs theorem (Bannai, I, Inenaga, Nakashima, Takeda, Tsuruta:
// The "Runs" Theorem, SIAM J. Comput. 46, 2017): in one of two orders, of the
// alphabet and of the alphabet reversed, the longest Lyndon word that begins
// at some place in a run is one period of it. There are fewer runs than places.
// Time is n log n.
package runs

import (
	"cmp"
	"math/bits"
	"slices"
	"sort"
)

// Run is a stretch of a list that goes on with Period until it ends, and
// neither side of which does. Length is at least twice Period, which is the
// least that there is.
type Run struct{ Start, Length, Period int }

// Times is how often the period is there as a whole.
func (r Run) Times() int { return r.Length / r.Period }

// End is behind the last of it.
func (r Run) End() int { return r.Start + r.Length }

// Find gives all runs, those that begin first in front, of these the shortest period.
func Find(list []uint32) []Run {
	f := newFinder(list)
	for _, reversed := range []bool{false, true} {
		f.reversed = reversed
		f.order()
	}
	slices.SortFunc(f.found, func(a, b Run) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Period, b.Period))
	})
	return slices.Compact(f.found)
}

// finder compares parts of a list by their hashes.
type finder struct {
	list     []uint32
	hash     []uint64 // of the first i
	power    []uint64
	reversed bool // order of the alphabet
	stack    []int32
	found    []Run
}

const (
	modulus = 1<<61 - 1
	base    = 0x12b5e3c8f7a94d1 // any large number below the modulus
)

func newFinder(list []uint32) *finder {
	f := &finder{list: list, hash: make([]uint64, len(list)+1), power: make([]uint64, len(list)+1)}
	f.power[0] = 1
	for i, v := range list {
		f.hash[i+1] = add(times(f.hash[i], base), uint64(v)+1)
		f.power[i+1] = times(f.power[i], base)
	}
	return f
}

func add(a, b uint64) uint64 {
	if a += b; a >= modulus {
		a -= modulus
	}
	return a
}

func times(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return add(low&modulus, high<<3|low>>61)
}

// same tells whether n elements from a and from b on are equal.
func (f *finder) same(a, b, n int) bool {
	of := func(i int) uint64 { return add(f.hash[i+n], modulus-times(f.hash[i], f.power[n])) }
	return of(a) == of(b)
}

// longest is the largest n, up to most, for which equal holds; it holds for all
// that are smaller.
func longest(most int, equal func(n int) bool) int {
	far := 1
	for far <= most && equal(far) {
		far *= 2
	}
	near := far / 2
	return near + sort.Search(min(far-1, most)-near,
		func(more int) bool { return !equal(near + more + 1) })
}

// forward is how many elements from a and from b, which is behind a, are equal.
func (f *finder) forward(a, b int) int {
	return longest(len(f.list)-b, func(n int) bool { return f.same(a, b, n) })
}

// backward is how many elements in front of a and of b are equal.
func (f *finder) backward(a, b int) int {
	return longest(a, func(n int) bool { return f.same(a-n, b-n, n) })
}

// less compares what begins at a with what begins at b, behind it, to the end
// of the list. The end comes before everything.
func (f *finder) less(a, b int) bool {
	n := f.forward(a, b)
	if b+n == len(f.list) {
		return false
	}
	return f.list[a+n] < f.list[b+n] != f.reversed
}

// order finds the runs whose Lyndon words are in this order: the longest word
// from i on ends where the next smaller suffix begins.
func (f *finder) order() {
	f.stack = f.stack[:0]
	for i := len(f.list) - 1; i >= 0; i-- {
		for n := len(f.stack); n > 0 && f.less(i, int(f.stack[n-1])); n-- {
			f.stack = f.stack[:n-1]
		}
		if n := len(f.stack); n > 0 {
			f.root(i, int(f.stack[n-1]))
		}
		f.stack = append(f.stack, int32(i))
	}
}

// root takes the run of which i to j is one period, if it is one.
func (f *finder) root(i, j int) {
	period := j - i
	back := f.backward(i, j)
	if back >= period {
		return // found from the period before
	}
	if n := back + f.forward(i, j); n >= period {
		f.found = append(f.found, Run{i - back, n + period, period})
	}
}

// Least is where in a list, which stands for a circle, its least rotation
// begins: circles are the same where those are.
func Least(list []uint32) int {
	at := func(i int) uint32 { return list[i%len(list)] }
	first, second, n := 0, 1, 0
	for first < len(list) && second < len(list) && n < len(list) {
		a, b := at(first+n), at(second+n)
		switch {
		case a == b:
			n++
			continue
		case a > b:
			first += n + 1
		default:
			second += n + 1
		}
		if first == second {
			second++
		}
		n = 0
	}
	return min(first, second)
}
