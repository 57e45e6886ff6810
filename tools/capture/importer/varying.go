package importer

import (
	"bytes"
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"lightmetal/fbs"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/lmb"
)

// repetitionValues returns the bytes of a span of a patch, for each repetition.
func (c *repetitionDiff) repetitionValues(b patch, s span) (list [][]byte) {
	for _, start := range c.candidate.repetitionTokens {
		var value []byte
		at := uint64(0)
		for i := range b {
			p := &b[i]
			if from, to := max(s.from, at), min(s.to, at+p.size); from < to {
				value = append(value, c.tokenData(start +
					p.at - c.candidate.firstToken)[from-at:to-at]...)
			}
			at += p.size
		}
		list = append(list, value)
	}
	return list
}

// classifySpan decides whether a span that differs is an input, an output or something else.
func (c *repetitionDiff) classifySpan(b patch, s span) {
	first := &b[0]
	v := Varying{Role: "input", Place: first.placeText(), Address: first.address + s.from,
		Size: s.to - s.from}
	if first.op == stepLoad {
		v.Role = "output"
	}
	at := uint64(0)
	for i := range b {
		if at <= s.from {
			v.Line = c.lineOf(b[i].at)
		}
		if from, to := max(s.from, at), min(s.to, at+b[i].size); from < to {
			v.accesses = append(v.accesses, accessed{b[i].at, to - from})
		}
		at += b[i].size
	}
	v.spec = TensorSpec{Place: first.place, Address: v.Address}
	values := c.repetitionValues(b, s)
	if v.Role == "input" && c.isStoredAgain(b, &v, values) {
		v.spec.Line = v.Line
	}
	if c.isSpecified(&v) || v.Role == "output" && c.isReadBack(first, v.Address, values) {
		return
	}
	if v.rejection = c.rejectReason(first, &v, b, values); v.rejection != "" {
		c.reject(v)
		return
	}
	if !c.isDuplicate(&v) {
		c.addVarying(v, values, first)
	}
}

// addVarying adds an input or output, and proposes its type.
func (c *repetitionDiff) addVarying(v Varying, values [][]byte, first *piece) {
	v.setType(values, first)
	if v.Role == "input" {
		c.noteInnerCounters(&v, values)
	}
	c.candidate.Varies = append(c.candidate.Varies, v)
}

// setType proposes a type for an input or output whose data in the repetitions are `values`.
func (v *Varying) setType(values [][]byte, first *piece) {
	v.values = values
	v.spec.DType, v.Why = guessType(values, first)
	v.Shape = uint32(v.Size / uint64(fbs.DTypeSize(v.spec.DType)))
	v.spec.Shape = []uint32{v.Shape}
	v.DType = lmb.DTypes[v.spec.DType]
}

// isDuplicate reports whether v is a part of a region that was found before. It rejects v if the
// two only overlap.
func (c *repetitionDiff) isDuplicate(v *Varying) bool {
	for i := range c.candidate.Varies {
		o := &c.candidate.Varies[i]
		switch {
		case o.spec.Line > 0 && v.spec.Line > 0: // each has its own stores
		case o.Role != v.Role || o.rejection != "" || o.spec.Place != v.spec.Place ||
			o.Address >= v.Address+v.Size || v.Address >= o.Address+o.Size:
		case v.Address >= o.Address && v.Address+v.Size <= o.Address+o.Size:
			return true
		default:
			v.rejection = fmt.Sprintf("this place overlaps a place that line %d accesses", o.Line)
			c.reject(*v)
			return true
		}
	}
	return false
}

// isSpecified reports whether the user has specified a tensor at this place.
func (c *repetitionDiff) isSpecified(v *Varying) bool {
	list := c.options.Inputs
	if v.Role == "output" {
		list = c.options.Outputs
	}
	return slices.ContainsFunc(list, func(t TensorSpec) bool {
		if t.isSharded() {
			return c.isShardedIn(&t, v)
		}
		if t.Page != 0 {
			return c.isInterleavedIn(&t, v)
		}
		return (t.Line == 0 || t.Line == v.spec.Line) &&
			t.withDefaultBar(c.options.Bar) == v.spec.withDefaultBar(c.options.Bar) &&
			t.Address < v.Address+v.Size && v.Address < t.Address+t.Size()
	})
}

// isReadBack reports whether a load returns only what the frame stored there before.
func (c *repetitionDiff) isReadBack(p *piece, address uint64, values [][]byte) bool {
	for _, b := range c.patches(stepStore) {
		last := b[len(b)-1].end()
		if b[0].place != p.place || b[0].at > p.at || address < b[0].address ||
			address+uint64(len(values[0])) > last {
			continue
		}
		from := address - b[0].address
		if slices.EqualFunc(values, c.repetitionValues(b,
			span{from, from + uint64(len(values[0]))}),
			bytes.Equal) {
			return true
		}
	}
	return false
}

// rejectReason returns the reason why a region that differs cannot be an input or output, or "".
func (c *repetitionDiff) rejectReason(first *piece, v *Varying, b patch, values [][]byte) string {
	if v.Role == "output" {
		return ""
	}
	n := c.describeCounter(values)
	if n == "" && v.spec.Line > 0 {
		if v.isPort {
			v.Role, v.spec.Line = "port", 0
			return fmt.Sprintf("this place is a data port, which cannot be an input: "+
				"a frame stores more than %d times there", portStoresMin)
		}
		n = c.describeStoreCounter(first, v)
	}
	if n != "" {
		v.Role = "counter"
		return n + ", so the value is neither an input nor a constant"
	}
	if c.isComputedFromLoad(first, v.Address, values) {
		v.Role = "follows"
		return "the program computes the stored value from the value that it loaded there, " +
			"so the stored value is neither an input nor a constant"
	}
	return ""
}

// counterRepetitionsMin is the number of repetitions that are needed to distinguish a counter from
// data.
const counterRepetitionsMin = 3

// describeCounter describes how values of up to 8 bytes count from repetition to repetition, or
// returns "". If they start again after some repetitions, the candidate records this number.
func (c *repetitionDiff) describeCounter(values [][]byte) string {
	times := c.candidate.run.Times()
	if times < counterRepetitionsMin || len(values[0]) > 8 {
		return ""
	}
	var list []uint64
	for _, v := range values[:times] {
		list = append(list, traces.Little(v))
	}
	width := fbs.WidthMask(uint8(len(values[0])))
	step, turn, ok := progression(list, width)
	if !ok {
		return ""
	}
	shown := fmt.Sprintf("%#x, %#x, %#x ...", list[0], list[1], list[2])
	if turn == 0 {
		c.candidate.hasEndlessCounter = true
		return fmt.Sprintf("counts: %s", shown)
	}
	after := int(turn / gcd(step, turn))
	cycle := max(c.candidate.counterCycle, 1)
	if cycle = cycle / int(gcd(uint64(cycle), uint64(after))) * after; cycle > times {
		c.candidate.hasEndlessCounter = true
	} else {
		c.candidate.counterCycle = cycle
	}
	return fmt.Sprintf("counts: %s, and begins again after %d repetitions", shown, after)
}

// portStoresMin is the number of inputs per frame at one place from which the place counts as a
// data port.
const portStoresMin = 16

// describeStoreCounter describes how a place counts to which a repetition stores several times, or
// returns "".
func (c *repetitionDiff) describeStoreCounter(first *piece, v *Varying) string {
	var stores [][][]byte
	for i := range c.pieces {
		if p := &c.pieces[i]; p.op == first.op && p.place == first.place &&
			p.address == v.Address &&
			p.size == v.Size && v.Size <= 8 {
			stores = append(stores, c.repetitionValues(patch{*p}, span{0, p.size}))
		}
	}
	var list []uint64
	for k := range c.candidate.repetitionTokens {
		for _, values := range stores {
			list = append(list, traces.Little(values[k]))
		}
	}
	if len(list) < counterRepetitionsMin {
		return ""
	}
	if _, _, ok := progression(list, fbs.WidthMask(uint8(v.Size))); !ok {
		return ""
	}
	return fmt.Sprintf("counts from store to store: %#x, %#x, %#x ...", list[0], list[1], list[2])
}

// noteInnerCounters notes 4-byte words inside a larger input that count. They stay part of the
// input, because data may count by chance.
func (c *repetitionDiff) noteInnerCounters(v *Varying, values [][]byte) {
	times, found, shown := c.candidate.run.Times(), 0, ""
	for at := -v.Address & 3; times >= counterRepetitionsMin && v.Size > 4 &&
		at+4 <= v.Size; at += 4 {
		var list []uint64
		for _, b := range values[:times] {
			list = append(list, traces.Little(b[at:at+4]))
		}
		if _, turn, ok := progression(list, fbs.WidthMask(4)); !ok ||
			turn != 0 && times <= counterRepetitionsMin {
			continue
		}
		if found++; found == 1 {
			shown = fmt.Sprintf("the first is at 0x%x: %#x, %#x, %#x ...",
				v.Address+at, list[0], list[1], list[2])
		}
	}
	if found > 0 {
		c.candidate.countsInside = true
		c.addNote("line %d: the input at %s 0x%x seems to contain %s of 4 bytes (%s); "+
			"the replaying program must set the next value in each run", v.Line, v.Place, v.Address,
			english.Count(found, "counter"), shown)
	}
}

// progression reports whether each number exceeds the previous one by `step`. If turn is not 0, all
// numbers are smaller than turn, and continue from 0 when they reach it.
func progression(list []uint64, width uint64) (step, turn uint64, ok bool) {
	steps := map[uint64]int{}
	for i := range list[1:] {
		if steps[(list[i+1]-list[i])&width]++; len(steps) > 2 {
			return 0, 0, false
		}
	}
	if len(steps) == 1 {
		step = (list[1] - list[0]) & width
		return step, 0, step != 0
	}
	largest := slices.Max(list)
	for step, n := range steps {
		for back, m := range steps {
			turn := step + (-back & width)
			forth := n > m || n == m && step < back ||
				turn == 2*step && step == largest && n+1 == m || len(list) == 3
			if back != step && forth && step < turn && turn > largest && turn-step <= largest &&
				bits.Len64(turn) < 32 {
				return step, turn, true
			}
		}
	}
	return 0, 0, false
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// isComputedFromLoad reports whether values of up to 8 bytes are equal to those that the frame
// loaded from the same place before, except that the same bits are always flipped.
func (c *repetitionDiff) isComputedFromLoad(p *piece, address uint64, values [][]byte) bool {
	if len(values[0]) > 8 {
		return false
	}
	for i := range c.pieces {
		l := &c.pieces[i]
		if l.at >= p.at || l.op != stepLoad || l.differs == nil || l.place != p.place ||
			l.address != address || l.size != uint64(len(values[0])) {
			continue
		}
		read := c.repetitionValues(patch{*l}, span{0, l.size})
		flip := traces.Little(read[0]) ^ traces.Little(values[0])
		if slices.EqualFunc(read, values, func(r,
			v []byte) bool {
			return traces.Little(r)^traces.Little(v) == flip
		}) {
			return true
		}
	}
	return false
}

// isStoredAgain reports whether the frame also stores other data to the same bytes. It sets
// v.isPort if the frame does so at least portStoresMin times with data that differ between frames.
func (c *repetitionDiff) isStoredAgain(b patch, v *Varying, values [][]byte) (again bool) {
	address, size, differ := v.Address, v.Size, uint64(0)
	for i := range c.pieces {
		p := &c.pieces[i]
		if p.op != b[0].op || p.place != b[0].place || p.address >= address+size ||
			p.end() <= address ||
			slices.ContainsFunc(b, func(o piece) bool { return o.at == p.at }) {
			continue
		}
		from, to := max(p.address, address), min(p.end(), address+size)
		mine := c.repetitionValues(patch{*p}, span{from - p.address, to - p.address})
		if slices.EqualFunc(mine, values, func(m,
			o []byte) bool {
			return bytes.Equal(m, o[from-address:to-address])
		}) {
			continue
		}
		again = true
		if p.differs != nil {
			differ += to - from
		}
		if v.isPort = differ >= portStoresMin*size; v.isPort {
			break
		}
	}
	return again
}

// sortByLine sorts the inputs or outputs by the lines of their first accesses, so that their names
// follow the order of the program. All other regions keep their positions.
func (c *Candidate) sortByLine(role string) {
	var places []int
	var list []Varying
	for i, v := range c.Varies {
		if v.Role == role && v.rejection == "" {
			places, list = append(places, i), append(list, v)
		}
	}
	slices.SortStableFunc(list, func(a, b Varying) int { return cmp.Compare(a.Line, b.Line) })
	for i, place := range places {
		c.Varies[place] = list[i]
	}
}

// assignNames chooses names for inputs and outputs that the user has not used.
func (c *repetitionDiff) assignNames() {
	used := map[string]bool{}
	for _, t := range slices.Concat(c.options.Inputs, c.options.Outputs) {
		used[t.Name] = true
	}
	numbers := map[string]int{}
	c.candidate.sortByLine("input")
	c.candidate.sortByLine("output")
	for i := range c.candidate.Varies {
		v := &c.candidate.Varies[i]
		short := map[string]string{"input": "in", "output": "out"}[v.Role]
		if short == "" || v.rejection != "" {
			continue
		}
		for v.Name == "" || used[v.Name] {
			v.Name = fmt.Sprintf("%s%d", short, numbers[v.Role])
			numbers[v.Role]++
		}
		used[v.Name] = true
		v.spec.Name = v.Name
	}
}
