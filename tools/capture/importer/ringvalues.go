package importer

import (
	"fmt"
	"slices"
	"strings"

	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/lmb"
)

// splitWords makes two accesses of each store of 8 bytes with a number of 4 bytes that rises.
func (p *ringPlan) splitWords() {
	splits := make([]bool, len(p.turns[0]))
	for i := range splits {
		splits[i] = p.hasNumberOf4Bytes(i)
	}
	if !slices.Contains(splits, true) {
		return
	}
	for t, turn := range p.turns {
		var list []element
		for i, e := range turn {
			if !splits[i] {
				list = append(list, e)
				continue
			}
			low, high := e, e
			low.width, low.value = 4, e.value&0xffffffff
			high.width, high.value, high.address = 4, e.value>>32, e.address+4
			list = append(list, low, high)
		}
		p.turns[t] = list
	}
}

func (p *ringPlan) hasNumberOf4Bytes(i int) bool {
	e := &p.turns[0][i]
	if e.op != stepStore || !e.memory || e.width != 8 || !p.differs(i) {
		return false
	}
	var low, high []uint64
	for _, v := range p.column(i) {
		low, high = append(low, v&0xffffffff), append(high, v>>32)
	}
	return (isConstant(low) || isPointer(low)) && (isConstant(high) || isPointer(high))
}

func isConstant(list []uint64) bool {
	return !slices.ContainsFunc(list, func(v uint64) bool { return v != list[0] })
}

// column returns the values of an element in each repetition.
func (p *ringPlan) column(i int) (list []uint64) {
	for _, turn := range p.turns {
		list = append(list, turn[i].value)
	}
	return list
}

func (p *ringPlan) differs(i int) bool {
	return !isConstant(p.column(i))
}

// values explains the values that differ: as rings, as what the device echoes, or as data.
func (p *ringPlan) values(blocks []block) (reason string) {
	explained := make([]bool, len(p.turns[0]))
	for i := range p.turns[0] {
		if e := &p.turns[0][i]; e.op == stepPoll && e.space != hostSpaceKey {
			p.notePoll(i)
		}
		if !p.differs(i) {
			explained[i] = true
		}
	}
	if reason := p.hostValues(blocks, explained); reason != "" {
		return reason
	}
	for i := range explained {
		e := &p.turns[0][i]
		if !explained[i] && (e.op == stepPoll || !e.memory) {
			if reason := p.valueRing(i, explained); reason != "" {
				return reason
			}
		}
	}
	p.echoes(explained)
	for i := range blocks {
		at := blocks[i].first
		if blocks[i].moves || blocks[i].end > at+1 || explained[at] ||
			p.turns[0][at].op != stepStore || !isPointer(p.column(at)) {
			continue
		}
		if reason := p.valueRing(at, explained); reason != "" {
			return reason
		}
	}
	for i := range blocks {
		if reason := p.data(&blocks[i], explained); reason != "" {
			return reason
		}
	}
	slices.SortStableFunc(p.varies, compareLines)
	for i := range p.varies {
		v := &p.varies[i]
		short := map[string]string{"input": "in", "output": "out"}[v.Role]
		v.Name = fmt.Sprintf("%s%d", short, p.names[short])
		v.spec.Name = v.Name
		p.names[short]++
	}
	return ""
}

func (p *ringPlan) notePoll(i int) {
	e := &p.turns[0][i]
	r := Range{placeOf(e), e.address, e.address + uint64(e.width) - 1}
	if !slices.Contains(p.polls, r) {
		p.polls = append(p.polls, r)
	}
}

// valueRing finds the ring of all values at the place of element i that differ.
func (p *ringPlan) valueRing(i int, explained []bool) (reason string) {
	e := &p.turns[0][i]
	var same []int
	for k := i; k < len(explained); k++ {
		o := &p.turns[0][k]
		isSame := o.isSamePlace(e) || o.chunk == e.chunk && slices.Equal(p.column(k), p.column(i))
		if isSame && o.op == e.op && !explained[k] {
			same = append(same, k)
		}
	}
	var points []ringPoint
	var pointOf []int // by index in `same`
	for n, k := range same {
		column := p.column(k)
		if n > 0 && slices.Equal(column, points[len(points)-1].values) {
			pointOf = append(pointOf, len(points)-1) // used again before it moves
			continue
		}
		pointOf = append(pointOf, len(points))
		lines := make([]int, len(p.turns))
		for t, turn := range p.turns {
			lines[t] = turn[k].line
		}
		points = append(points, ringPoint{column, lines})
	}
	fit, reason := fitSpec(points, p.finder.specOf(e, true))
	r := newRing(fit, e, true)
	if reason == "" {
		reason = p.settle(&r, e)
	}
	if reason != "" {
		return fmt.Sprintf("lines %d and %d, %s0x%x: the value differs from repetition to "+
			"repetition: %s", points[0].lines[0], points[0].lines[1], e.space, e.address, reason)
	}
	p.rings = append(p.rings, r)
	for n, k := range same {
		o, point := &p.turns[0][k], pointOf[n]
		u := ringUse{number: len(p.rings) - 1, isValue: true, isStore: o.op == stepStore,
			space: o.space, address: o.address, size: uint64(o.width), parity: r.parity,
			position: (o.value &^ r.parity) - r.begin, flipped: r.laps[point][0]%2 == 1}
		if n == 0 || pointOf[n-1] != point {
			u.advance, u.times = r.steps[point], r.timesOf(point)
		}
		p.uses = append(p.uses, u)
		o.part.setSingle(o.address)
		explained[k] = true
	}
	return ""
}

// echoes finds numbers that the program stores and the device returns in the same repetition, such
// as event numbers. They may stay what they were in the first repetition.
func (p *ringPlan) echoes(explained []bool) {
	const numbersMax = 1 << 10
	rising, returned := 0, map[int]bool{}
	for i := range explained {
		e := &p.turns[0][i]
		if explained[i] || e.op != stepStore || rising == numbersMax || !isRising(p.column(i)) ||
			e.part != nil {
			continue
		}
		rising++
		for k := i + 1; k < len(explained); k++ {
			if p.turns[0][k].op == stepLoad && (!explained[k] || returned[k]) && p.isEcho(i, k) {
				explained[i], explained[k], returned[k] = true, true, true
				note := fmt.Sprintf("line %d: the device returns the number of line %d, so each "+
					"run uses the first one", p.turns[0][k].line, e.line)
				if !slices.Contains(p.notes, note) {
					p.notes = append(p.notes, note)
				}
			}
		}
	}
}

// isPointer reports whether numbers mostly rise by equal steps from repetition to repetition, also
// if they wrap: words of random data do not.
func isPointer(list []uint64) bool {
	rises := 0
	for k := range list[1:] {
		step := list[k+1] - list[k]
		if step != 0 && (step == list[1]-list[0] || step == list[2]-list[1]) {
			rises++
		}
	}
	return 4*rises >= 3*(len(list)-1)
}

func isRising(list []uint64) bool {
	step := list[1] - list[0]
	for i := range list[1:] {
		if list[i+1]-list[i] != step {
			return false
		}
	}
	return step != 0
}

// isEcho reports whether a load returns what element i stored, possibly shifted by bytes.
func (p *ringPlan) isEcho(i, load int) bool {
	for shift := 0; shift < 32; shift += 8 {
		same := true
		for _, turn := range p.turns {
			moved := (turn[i].value - p.turns[0][i].value) << shift
			same = same && turn[load].value-p.turns[0][load].value == moved
		}
		if same {
			return true
		}
	}
	return false
}

// data makes inputs or outputs of the parts of a block that differ and are not explained. A few
// equal bytes between two parts are equal by chance.
func (p *ringPlan) data(b *block, explained []bool) (reason string) {
	width := uint64(p.turns[0][b.first].width)
	gap := int(min(uint64(b.end-b.first)*width/16, 64) / width)
	for i := b.first; i < b.end; i++ {
		if explained[i] {
			continue
		}
		last := i
		for k := i + 1; k < b.end && k <= last+gap+1; k++ {
			switch {
			case !explained[k]:
				last = k
			case p.differs(k) || p.turns[0][k].address < p.turns[0][i].address:
				k = b.end
			}
		}
		if p.isNumber(b, i, explained) {
			if reason := p.valueRing(i, explained); reason != "" {
				return reason
			}
			continue
		}
		if reason := p.addData(i, last); reason != "" {
			return reason
		}
		i = last
	}
	return ""
}

// isNumber reports whether an element of a block is no data: it has a ring that the user describes,
// or is a number that rises beside others that do not.
func (p *ringPlan) isNumber(b *block, i int, explained []bool) bool {
	e := &p.turns[0][i]
	s := p.finder.specOf(e, true)
	if e.part != nil { // block numbers rise, too
		return e.op == stepStore && s != nil && s.Begin <= e.value && e.value < s.End
	}
	if e.op != stepStore || s != nil {
		return e.op == stepStore
	}
	const sizeMax = 8 // more is data that counts
	size := uint64(0)
	for k := i; k < b.end && !explained[k] && isPointer(p.column(k)); k++ {
		size += uint64(p.turns[0][k].width)
	}
	return size > 0 && size <= sizeMax
}

// addData makes an input or output of the elements from first to last.
func (p *ringPlan) addData(first, last int) (reason string) {
	e := &p.turns[0][first]
	v := Varying{Role: "input", Place: strings.TrimSuffix(e.space.String(), " + "),
		Address: e.address,
		Size:    p.turns[0][last].address + uint64(p.turns[0][last].width) - e.address,
		Line:    e.line}
	switch e.op {
	case stepLoad:
		v.Role = "output"
	case stepStore:
	default:
		return fmt.Sprintf("line %d, %s0x%x: differs from repetition to repetition", e.line,
			e.space, e.address)
	}
	if first == last && isRising(p.column(first)) && e.op == stepStore {
		return fmt.Sprintf("lines %d and %d, %s0x%x: the value counts: %#x, %#x ..., and the "+
			"device returns it nowhere", e.line, p.turns[1][first].line, e.space, e.address,
			e.value, p.turns[1][first].value)
	}
	var values [][]byte
	for _, turn := range p.turns {
		var data []byte
		for i := first; i <= last; i++ {
			data = append(data, traces.Bytes(turn[i].value, turn[i].width)...)
		}
		values = append(values, data)
	}
	v.spec = TensorSpec{Place: placeOf(e), Address: e.address}
	v.setType(values, &piece{memory: e.memory, address: e.address, size: uint64(e.width)})
	v.DType = lmb.DTypes[v.spec.DType]
	for i := range p.varies {
		o := &p.varies[i]
		switch {
		case e.part == nil || o.Role != v.Role || o.spec.Place != v.spec.Place ||
			o.Address >= v.Address+v.Size || v.Address >= o.Address+o.Size:
		case v.Role == "output":
			return fmt.Sprintf("lines %d and %d, %s0x%x: a repetition has two results in one "+
				"buffer, and an output has one: let the program use two buffers", o.Line, v.Line,
				e.space, e.address)
		default:
			o.spec.Line, v.spec.Line = o.Line, v.Line
		}
	}
	p.varies = append(p.varies, v)
	return ""
}
