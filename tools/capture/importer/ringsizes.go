package importer

import (
	"math/bits"
	"slices"
)

// splitBySizes splits the stores to a ring where an entry begins. The recording may have nothing
// between them, but the program stores the size of each entry in a doorbell.
func (p *ringPlan) splitBySizes(blocks []block, groups int) []block {
	for g := range groups {
		first := slices.IndexFunc(blocks, func(b block) bool { return b.group == g })
		if e := &p.turns[0][blocks[first].first]; e.op != stepStore || e.part != nil {
			continue
		}
		for _, sizes := range p.doorbells(blocks, g) {
			if begins := p.beginsBySizes(blocks, g, sizes); begins != nil {
				blocks = splitBlocks(blocks, begins)
				break
			}
		}
	}
	return blocks
}

// doorbells returns the values that the program stores in each other register or ring of the
// device, if they are the same in each repetition; then all again without their top bit, which may
// be a flag.
func (p *ringPlan) doorbells(blocks []block, group int) (lists [][]uint64) {
	type place struct {
		group   int
		space   spaceKey
		address uint64
	}
	indexes := map[place]int{}
	var without [][]uint64
	for _, b := range blocks {
		for i := b.first; i < b.end; i++ {
			e := &p.turns[0][i]
			if b.group == group || e.space == hostSpaceKey || e.op != stepStore || p.differs(i) {
				continue
			}
			at := place{group: b.group}
			if b.group < 0 {
				at.space, at.address = e.space, e.address
			}
			n, known := indexes[at]
			if !known {
				n = len(lists)
				indexes[at], lists, without = n, append(lists, nil), append(without, nil)
			}
			lists[n] = append(lists[n], e.value)
			without[n] = append(without[n], e.value&(1<<(8*e.width-1)-1))
		}
	}
	return append(lists, without...)
}

// beginsBySizes returns the elements with which the entries of a group begin, if all of its bytes
// are entries of the sizes in a unit; or nil.
func (p *ringPlan) beginsBySizes(blocks []block, group int, sizes []uint64) (begins map[int]bool) {
	const unitMax = 1 << 12
	all, units := uint64(0), uint64(0)
	for _, b := range blocks {
		if b.group == group {
			all += uint64(b.end-b.first) * uint64(p.turns[0][b.first].width)
		}
	}
	for _, n := range sizes {
		units += min(n, all+1)
	}
	isCount := len(sizes) > 1 && slices.Max(sizes) == 1 // such as of starts
	if isCount || slices.Contains(sizes, 0) || units == 0 || all%units != 0 ||
		all/units > unitMax || bits.OnesCount64(all/units) != 1 {
		return nil
	}
	begins = map[int]bool{}
	next, at, entry := uint64(0), uint64(0), 0
	for _, b := range blocks {
		for i := b.first; i < b.end && b.group == group; i++ {
			switch {
			case at == next:
				begins[i], next, entry = true, next+sizes[entry]*(all/units), entry+1
			case at > next || i == b.first:
				return nil // it begins inside an element, or in two places
			}
			at += uint64(p.turns[0][i].width)
		}
	}
	return begins
}

func splitBlocks(blocks []block, begins map[int]bool) (list []block) {
	for _, b := range blocks {
		rest := b
		for i := b.first; i < b.end; i++ {
			if !begins[i] {
				continue
			}
			if i > rest.first {
				list = append(list, rest)
				list[len(list)-1].end = i
			}
			rest.first, rest.isEntry = i, true
		}
		list = append(list, rest)
	}
	return list
}
