// Package runs finds repetitions in a list: every maximal range that consists of the same part at
// least twice in a row.
//
// It uses the runs theorem (Bannai, I, Inenaga, Nakashima, Takeda, Tsuruta: The "Runs" Theorem,
// SIAM J. Comput. 46, 2017): for the order of the alphabet or for the reverse order, the longest
// Lyndon word that begins at some position in a run is one period of it. A list has fewer runs than
// elements. The algorithm takes time O(n log n).
package runs

import (
	"cmp"
	"math/bits"
	"slices"
	"sort"
)

// Run is a maximal range of a list with the given Period. Period is the smallest one, and Length is
// at least twice the Period.
type Run struct{ Start, Length, Period int }

// Times returns the number of complete periods.
func (r Run) Times() int { return r.Length / r.Period }

// End returns the index after the last element.
func (r Run) End() int { return r.Start + r.Length }

// Find returns all runs, sorted by Start and then by Period.
func Find(list []uint32) []Run {
	f := newFinder(list)
	for _, reversed := range []bool{false, true} {
		f.reversed = reversed
		f.findRuns()
	}
	slices.SortFunc(f.found, func(a, b Run) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Period, b.Period))
	})
	return slices.Compact(f.found)
}

// finder compares parts of a list by their hashes.
type finder struct {
	list     []uint32
	hash     []uint64 // hashes of the first i elements
	power    []uint64 // powers of base
	reversed bool     // use the reverse order of the alphabet
	stack    []int32
	found    []Run
}

const (
	modulus = 1<<61 - 1
	base    = 0x12b5e3c8f7a94d1 // an arbitrary large number below the modulus
)

func newFinder(list []uint32) *finder {
	f := &finder{list: list, hash: make([]uint64, len(list)+1), power: make([]uint64, len(list)+1)}
	f.power[0] = 1
	for i, v := range list {
		f.hash[i+1] = addModulo(multiplyModulo(f.hash[i], base), uint64(v)+1)
		f.power[i+1] = multiplyModulo(f.power[i], base)
	}
	return f
}

func addModulo(a, b uint64) uint64 {
	if a += b; a >= modulus {
		a -= modulus
	}
	return a
}

func multiplyModulo(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return addModulo(low&modulus, high<<3|low>>61)
}

// equal reports whether the n elements from index `a` equal those from index `b`.
func (f *finder) equal(a, b, n int) bool {
	of := func(i int) uint64 {
		return addModulo(f.hash[i+n], modulus-multiplyModulo(f.hash[i], f.power[n]))
	}
	return of(a) == of(b)
}

// longest returns the largest n, at most `most`, for which equal is true. equal must be true for
// all smaller n.
func longest(most int, equal func(n int) bool) int {
	far := 1
	for far <= most && equal(far) {
		far *= 2
	}
	near := far / 2
	return near + sort.Search(min(far-1, most)-near,
		func(more int) bool { return !equal(near + more + 1) })
}

// equalFrom returns how many elements from index `a` equal those from index `b`, which is greater.
func (f *finder) equalFrom(a, b int) int {
	return longest(len(f.list)-b, func(n int) bool { return f.equal(a, b, n) })
}

// equalBefore returns how many elements before index `a` equal those before index `b`.
func (f *finder) equalBefore(a, b int) int {
	return longest(a, func(n int) bool { return f.equal(a-n, b-n, n) })
}

// less compares the suffix of the list from index `a` with the one from `b`, which is greater. The
// end of the list is smaller than all elements.
func (f *finder) less(a, b int) bool {
	n := f.equalFrom(a, b)
	if b+n == len(f.list) {
		return false
	}
	return f.list[a+n] < f.list[b+n] != f.reversed
}

// findRuns finds the runs for one order of the alphabet: the longest Lyndon word from i on ends
// where the next smaller suffix begins.
func (f *finder) findRuns() {
	f.stack = f.stack[:0]
	for i := len(f.list) - 1; i >= 0; i-- {
		for n := len(f.stack); n > 0 && f.less(i, int(f.stack[n-1])); n-- {
			f.stack = f.stack[:n-1]
		}
		if n := len(f.stack); n > 0 {
			f.addRunOf(i, int(f.stack[n-1]))
		}
		f.stack = append(f.stack, int32(i))
	}
}

// addRunOf records the run of which the elements from i up to j are a period, if there is one.
func (f *finder) addRunOf(i, j int) {
	period := j - i
	back := f.equalBefore(i, j)
	if back >= period {
		return // was found with the previous period
	}
	if n := back + f.equalFrom(i, j); n >= period {
		f.found = append(f.found, Run{i - back, n + period, period})
	}
}

// LeastRotation returns the index at which the least rotation of a list begins. Two lists are
// rotations of each other if their least rotations are equal.
func LeastRotation(list []uint32) int {
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
