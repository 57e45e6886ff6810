package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lightmetal/fbs/gen"
)

// addressRange is a range of addresses that a trace accesses.
type addressRange struct{ first, last uint64 }

// distanceTo returns the distance of two ranges in bytes, 0 if they overlap.
func (r addressRange) distanceTo(other addressRange) uint64 {
	switch {
	case r.last < other.first:
		return other.first - r.last
	case other.last < r.first:
		return r.first - other.last
	}
	return 0
}

// nearHint lists the ranges that the trace stores or loads near a tensor, in case the user named a
// wrong address. Without any in its tile or BAR, it lists the tiles.
func (p *tensorAssigner) nearHint(t *tensor) string {
	const most = 3
	wanted, verb := stepStore, "stores to"
	if t.role == gen.RoleOutput {
		wanted, verb = stepLoad, "loads from"
	}
	var ranges []addressRange
	for i := range p.steps.count {
		s := p.steps.at(i)
		if s.op != wanted {
			continue
		}
		if address, ok := p.addressIn(s, t.Place); ok {
			ranges = append(ranges, addressRange{address, address + s.size() - 1})
		}
	}
	if len(ranges) == 0 {
		return p.placesHint(t)
	}
	ranges = joinRanges(ranges)
	tensor := addressRange{t.Address, t.Address + t.size - 1}
	slices.SortStableFunc(ranges, func(a, b addressRange) int {
		return cmp.Compare(a.distanceTo(tensor), b.distanceTo(tensor))
	})
	var texts []string
	for _, r := range ranges[:min(most, len(ranges))] {
		texts = append(texts, fmt.Sprintf("0x%x..0x%x", r.first, r.last))
	}
	return "; near it, the trace " + verb + " " + strings.Join(texts, ", ") +
		"; lm import --summary lists all"
}

// joinRanges sorts ranges, and joins those that touch or overlap.
func joinRanges(list []addressRange) (joined []addressRange) {
	slices.SortFunc(list, func(a, b addressRange) int { return cmp.Compare(a.first, b.first) })
	for _, r := range list {
		if n := len(joined); n > 0 && r.first <= joined[n-1].last+1 {
			joined[n-1].last = max(joined[n-1].last, r.last)
			continue
		}
		joined = append(joined, r)
	}
	return joined
}
