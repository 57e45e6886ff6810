package again

import (
	"fmt"
	"slices"
	"sort"

	"lightmetal/tools/capture/importer/traces"
)

// Moved is a value that a program loaded or stored; with two recordings, in both.
type Moved struct {
	At   int // place in the order of the recording
	A, B uint64
}

// Sources returns, for each store, the index of the load whose value it has; ok is false if a store
// has none. If each store has the value of the last load before it, last is true. Otherwise the
// stores take the loads of their values in order: a program that queues jobs stores values of
// earlier loads. A store before all loads has the source -1: its value is from elsewhere.
func Sources(loads, stores []Moved) (sources []int, last, ok bool) {
	if len(loads) == 0 {
		return nil, false, false
	}
	if sources, ok = lastLoads(loads, stores); ok {
		return sources, true, true
	}
	sources, ok = earlierLoads(loads, stores)
	return sources, false, ok
}

func lastLoads(loads, stores []Moved) (sources []int, ok bool) {
	for i := range stores {
		s := &stores[i]
		last := countBefore(loads, s.At) - 1
		if last >= 0 && !loads[last].equals(s) {
			return nil, false
		}
		sources = append(sources, last)
	}
	return sources, true
}

// countBefore returns how many loads there are before a place in the order.
func countBefore(loads []Moved, at int) int {
	return sort.Search(len(loads), func(i int) bool { return loads[i].At >= at })
}

// earlierLoads takes, for each store, the first load of its value that no store has yet, or else
// the load of this value that was taken last.
func earlierLoads(loads, stores []Moved) (sources []int, ok bool) {
	type value struct{ a, b uint64 }
	byValue, taken := map[value][]int{}, map[value]int{}
	for i, l := range loads {
		byValue[value{l.A, l.B}] = append(byValue[value{l.A, l.B}], i)
	}
	for _, s := range stores {
		v := value{s.A, s.B}
		list, next := byValue[v], taken[v]
		switch {
		case s.At <= loads[0].At:
			sources = append(sources, -1)
			continue
		case next < len(list) && loads[list[next]].At < s.At:
			taken[v]++
		case next == 0:
			return nil, false
		default:
			next--
		}
		sources = append(sources, list[next])
	}
	return sources, true
}

func (m *Moved) equals(other *Moved) bool { return m.A == other.A && m.B == other.B }

// HowDerived says how the value of a store follows from a loaded value: plus a small number, its
// lowest bits, or both, as an index that wraps around. It returns "" if neither is so.
func HowDerived(width uint8, load, store Moved) string {
	const addedMax = 16
	for k := range 2*addedMax + 1 {
		added := (k + 1) / 2 // 0, 1, -1, 2, -2 ...
		if k%2 == 0 {
			added = -added
		}
		for bits := 8 * uint(width); bits > 0; bits-- {
			mask := ^uint64(0) >> (64 - bits)
			if (load.A+uint64(added))&mask != store.A || (load.B+uint64(added))&mask != store.B {
				continue
			}
			text := ""
			if added != 0 {
				text = fmt.Sprintf(" %+d", added)
			}
			if bits < 8*uint(width) {
				text += fmt.Sprintf(" & 0x%x", mask)
			}
			return text
		}
	}
	return ""
}

// spanLoad is a load, and the number of aligned stores before it.
type spanLoad struct{ at, span int }

func loadsOf(list []traces.Access, stores []int) map[Place][]spanLoad {
	loads, span := map[Place][]spanLoad{}, 0
	for i := range list {
		for span < len(stores) && stores[span] <= i {
			span++
		}
		if p := placeOf(&list[i]); list[i].Op == traces.OpLoad {
			loads[p] = append(loads[p], spanLoad{i, span})
		}
	}
	return loads
}

// pairLoads returns the loads of both recordings that belong together. If both loaded a register as
// often, their order says so, whatever the program stored in between. Otherwise, only loads between
// the same stores belong together, if there are as many.
func (c *comparer) pairLoads(stores []pair) map[Place][]Moved {
	var inA, inB []int
	for _, s := range stores {
		inA, inB = append(inA, s.a), append(inB, s.b)
	}
	loadsB, all := loadsOf(c.b, inB), map[Place][]Moved{}
	for p, list := range loadsOf(c.a, inA) {
		other := loadsB[p]
		if len(other) != len(list) {
			list, other = sameSpans(list, other)
		}
		for i, l := range list {
			all[p] = append(all[p], Moved{l.at, c.a[l.at].Value, c.b[other[i].at].Value})
		}
	}
	return all
}

// sameSpans returns the loads of spans in which both lists have as many loads.
func sameSpans(a, b []spanLoad) (inA, inB []spanLoad) {
	count := map[int]int{}
	for _, l := range a {
		count[l.span]++
	}
	for _, l := range b {
		count[l.span]--
	}
	differs := func(l spanLoad) bool { return count[l.span] != 0 }
	return slices.DeleteFunc(slices.Clone(a), differs), slices.DeleteFunc(slices.Clone(b), differs)
}

func (c *comparer) storesByPlace(stores []pair) map[Place][]Moved {
	all := map[Place][]Moved{}
	for _, s := range stores {
		p := placeOf(&c.a[s.a])
		all[p] = append(all[p], Moved{s.a, c.a[s.a].Value, c.b[s.b].Value})
	}
	return all
}

// moveTo returns the loads from which the stores to a place have their values, or nil. Stores that
// are the same in both recordings may have values from elsewhere.
func (c *comparer) moveTo(to Place) *Move {
	if m, known := c.moves[to]; known {
		return m
	}
	c.moves[to] = nil
	differing := slices.DeleteFunc(slices.Clone(c.stores[to]),
		func(m Moved) bool { return m.A == m.B })
	bestLast, latest := false, -1
	for from, loads := range c.loads {
		if from.Width != to.Width {
			continue
		}
		stores := c.stores[to]
		sources, last, ok := Sources(loads, stores)
		if !ok || !explains(stores, sources) {
			stores = differing
			sources, last, ok = Sources(loads, stores)
		}
		if !ok || !explains(stores, sources) {
			continue
		}
		at := loads[slices.Max(sources)].At
		if c.moves[to] != nil && (bestLast && !last || bestLast == last && at <= latest) {
			continue
		}
		bestLast, latest = last, at
		c.moves[to] = &Move{from, to, c.linesOfMoves(loads, stores, sources)}
	}
	if m := c.moves[to]; m != nil {
		c.to.Moves = append(c.to.Moves, *m)
	}
	return c.moves[to]
}

// explains reports whether each store that differs between the recordings has a load.
func explains(stores []Moved, sources []int) bool {
	for i, m := range stores {
		if m.A != m.B && sources[i] < 0 {
			return false
		}
	}
	return true
}

func (c *comparer) linesOfMoves(loads, stores []Moved, sources []int) map[int]int {
	lines := map[int]int{}
	for i, from := range sources {
		if from >= 0 {
			lines[c.a[stores[i].At].Line] = c.a[loads[from].At].Line
		}
	}
	return lines
}

// derivedFrom returns a register from whose last load the values of both stores follow. how is
// empty if there is none.
func (c *comparer) derivedFrom(a, b *traces.Access) (from Place, how string) {
	latest := -1
	for p, loads := range c.last {
		load := Moved{A: c.a[loads.a].Value, B: c.b[loads.b].Value}
		if loads.a <= latest || p.Width != a.Width || load.A == load.B {
			continue
		}
		text := HowDerived(a.Width, load, Moved{A: a.Value, B: b.Value})
		switch {
		case load.A == a.Value && load.B == b.Value:
			text = ", for which the program waited: what only a poll saw cannot be carried"
		case text != "":
			text += ", as an index of a ring is, and lm cannot repeat that yet"
		default:
			continue
		}
		from, how, latest = p, text, loads.a
	}
	return from, how
}
