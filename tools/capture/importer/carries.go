package importer

import (
	"cmp"
	"maps"
	"slices"

	"lightmetal/fbs"
	"lightmetal/tools/capture/again"
	"lightmetal/tools/image/english"
)

const (
	carriedStoresMin = 3
	carriedStoresMax = 1 << 16 // more stores to one register are data for a port
	carriedSmall     = 0xff    // flags and states have values up to this one
)

// likelyCarry is a register to which the program always stores what another register has returned.
type likelyCarry struct {
	from, to    step // the first load and the first store
	stores      int
	kinds       int  // number of different values
	last        bool // each store has the value of the last load before it
	inWholeTurn bool // each load was stored once
	small       bool // values may be flags or states
	latest      int  // index of the last load that was stored
}

// carrySearch is the state of findCarries.
type carrySearch struct {
	*program
	stores, loads map[loadKey][]again.Moved
	first         map[loadKey]*step
}

// firstValue is one of the first two values that the program stored to a register.
type firstValue struct {
	width uint8
	value uint64
}

func (p *program) findCarries() {
	c := carrySearch{p, map[loadKey][]again.Moved{}, map[loadKey][]again.Moved{},
		map[loadKey]*step{}}
	c.eachRegister(stepStore, func(i int, s *step, key loadKey) {
		if list := c.stores[key]; len(list) <= carriedStoresMax {
			c.stores[key] = append(list, again.Moved{At: i, A: s.value})
		}
	})
	maps.DeleteFunc(c.stores, func(_ loadKey, list []again.Moved) bool {
		return len(list) < carriedStoresMin || len(list) > carriedStoresMax
	})
	sources := c.possibleSources()
	for _, list := range sources {
		for _, from := range list {
			c.loads[from] = nil
		}
	}
	clear(c.first)
	c.eachRegister(stepLoad, func(i int, s *step, key loadKey) {
		list, wanted := c.loads[key]
		for range s.count {
			if wanted && len(list) <= carriedStoresMax {
				list = append(list, again.Moved{At: i, A: s.value})
				c.loads[key] = list
			}
		}
	})
	for to, list := range sources {
		if best, ok := c.best(to, list); ok {
			p.likelyCarries = append(p.likelyCarries, best)
		}
	}
	slices.SortFunc(p.likelyCarries, func(a, b likelyCarry) int {
		return cmp.Or(cmp.Compare(a.to.line, b.to.line), cmp.Compare(a.to.offset, b.to.offset))
	})
}

// eachRegister calls `do` for each load or store (op) of a single register outside of memory.
func (c *carrySearch) eachRegister(op stepOp, do func(i int, s *step, key loadKey)) {
	for i := range c.steps.count {
		s := c.steps.at(i)
		if s.op != op || s.tensorIndex() >= 0 || s.elementCount() > 1 || s.hasFlag(flagMemory) {
			continue
		}
		key := loadKey{c.registerOf(s), s.width}
		if c.first[key] == nil {
			c.first[key] = s
		}
		do(i, s, key)
	}
}

// possibleSources returns, for each register with stores, the registers that have returned the
// first two values that were stored.
func (c *carrySearch) possibleSources() map[loadKey][]loadKey {
	returned := map[firstValue]map[loadKey]bool{}
	for to := range c.stores {
		for _, v := range c.firstValues(to) {
			returned[v] = map[loadKey]bool{}
		}
	}
	c.eachRegister(stepLoad, func(_ int, s *step, key loadKey) {
		if list := returned[firstValue{s.width, s.value}]; list != nil {
			list[key] = true
		}
	})
	sources := map[loadKey][]loadKey{}
	for to := range c.stores {
		values := c.firstValues(to)
		for from := range returned[values[0]] {
			if returned[values[len(values)-1]][from] {
				sources[to] = append(sources[to], from)
			}
		}
		slices.SortFunc(sources[to], func(a, b loadKey) int {
			return cmp.Or(cmp.Compare(a.tile, b.tile), cmp.Compare(a.address, b.address))
		})
	}
	return sources
}

func (c *carrySearch) firstValues(to loadKey) []firstValue {
	list := c.stores[to]
	values := []firstValue{{to.width, list[0].A}}
	for i := range list {
		if v := (firstValue{to.width, list[i].A}); v != values[0] {
			return append(values, v)
		}
	}
	return values
}

// best returns the register whose values the program stores most likely: one with the value of the
// last load each time, or else the one that was loaded last.
func (c *carrySearch) best(to loadKey, list []loadKey) (best likelyCarry, found bool) {
	matching := 0
	for _, from := range list {
		l, ok := c.match(from, to)
		if !ok {
			continue
		}
		matching++
		if !found || l.last && !best.last || l.last == best.last && l.latest > best.latest {
			best, found = l, true
		}
	}
	value := c.stores[to][0].A
	switch {
	case !found || best.stores < carriedStoresMin:
		return best, false
	case best.kinds == 1:
		return best, best.last && matching == 1 && value > carriedSmall &&
			value != fbs.WidthMask(to.width)
	}
	return best, best.last || best.kinds > 2 && (best.inWholeTurn || !best.small)
}

// match compares the stores to a register with the loads of another. ok is false if a store has
// another value, or the program waited for a value.
func (c *carrySearch) match(from, to loadKey) (l likelyCarry, ok bool) {
	loads, stores := c.loads[from], c.stores[to]
	sources, last, ok := again.Sources(loads, stores)
	if !ok {
		return l, false
	}
	l = likelyCarry{from: *c.first[from], to: *c.steps.at(stores[0].At), last: last,
		inWholeTurn: len(loads) == len(stores)}
	kinds, taken, before := map[uint64]bool{}, map[int]bool{}, -1
	for _, at := range sources {
		taken[at] = true
	}
	for i, at := range sources {
		if at < 0 {
			continue
		}
		if c.isSeenByPoll(loads, at, taken) {
			return l, false
		}
		l.stores++
		kinds[stores[i].A] = true
		l.small = l.small || stores[i].A <= carriedSmall
		l.inWholeTurn = l.inWholeTurn && at == before+1
		before, l.latest = at, loads[at].At
	}
	l.kinds = len(kinds)
	return l, true
}

// isSeenByPoll reports whether the program waited for the value of a load.
func (c *carrySearch) isSeenByPoll(loads []again.Moved, at int, taken map[int]bool) bool {
	s := c.steps.at(loads[at].At)
	return c.isAwaited(s) || at > 0 && !taken[at-1] &&
		loads[at].At <= loads[at-1].At+1 && loads[at].A != loads[at-1].A
}

// proposeCarries proposes to carry the values that findCarries has found, but not those of
// registers that are probably waits.
func (f *pollDetector) proposeCarries(out *passResult) {
	for i := range f.likelyCarries {
		l := &f.likelyCarries[i]
		key := loadKey{f.registerOf(&l.from), l.from.width}
		if f.likelyWaits[key] != nil {
			continue
		}
		which := "returned last"
		if !l.last {
			which = "returned earlier"
		}
		out.addWarning(int(l.to.line), "each of the %d stores to %s has a value that %s %s (%s): "+
			"if the driver stores what it has loaded, use --carry %[3]s=%[2]s, because the image "+
			"stores the recorded values", l.stores, f.placeText(&l.to), f.placeText(&l.from),
			which, english.Count(l.kinds, "value"))
	}
}
