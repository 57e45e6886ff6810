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

// values are the bytes of a span of a patch in each repetition.
func (c *columns) values(b patch, s span) (list [][]byte) {
	for _, start := range c.c.reps {
		var value []byte
		at := uint64(0)
		for i := range b {
			p := &b[i]
			if from, to := max(s.from, at), min(s.to, at+p.size); from < to {
				value = append(value, c.bytes(start + p.at - c.c.from)[from-at:to-at]...)
			}
			at += p.size
		}
		list = append(list, value)
	}
	return list
}

// region says what a part that differs is.
func (c *columns) region(b patch, s span) {
	first := &b[0]
	v := Varying{Role: "input", Place: first.place(), Address: first.address + s.from,
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
	v.spec = TensorSpec{Place: first.home, Address: v.Address}
	values := c.values(b, s)
	if v.Role == "input" && c.storedAgain(b, &v, values) {
		v.spec.Line = v.Line
	}
	if c.given(&v) || v.Role == "output" && c.readBack(first, v.Address, values) {
		return
	}
	if v.bad = c.against(first, &v, b, values); v.bad != "" {
		c.refuse(v)
		return
	}
	if !c.twice(&v) {
		c.take(v, values, first)
	}
}

// take takes an input or output, and proposes its type.
func (c *columns) take(v Varying, values [][]byte, first *piece) {
	v.setType(values, first)
	if v.Role == "input" {
		c.countsInside(&v, values)
	}
	c.c.Varies = append(c.c.Varies, v)
}

// setType proposes a type for the data in each repetition, and keeps these.
func (v *Varying) setType(values [][]byte, first *piece) {
	v.values = values
	v.spec.DType, v.Why = guess(values, first)
	v.Shape = uint32(v.Size / uint64(fbs.DTypeSize(v.spec.DType)))
	v.spec.Shape = []uint32{v.Shape}
	v.DType = lmb.DTypes[v.spec.DType]
}

// twice reports whether what differs is part of another that does: the same data
// is stored, or loaded, twice.
func (c *columns) twice(v *Varying) bool {
	for i := range c.c.Varies {
		o := &c.c.Varies[i]
		switch {
		case o.spec.Line > 0 && v.spec.Line > 0: // each has its own stores
		case o.Role != v.Role || o.bad != "" || o.spec.Place != v.spec.Place ||
			o.Address >= v.Address+v.Size || v.Address >= o.Address+o.Size:
		case v.Address >= o.Address && v.Address+v.Size <= o.Address+o.Size:
			return true
		default:
			v.bad = fmt.Sprintf("this place overlaps the one that is accessed in line %d", o.Line)
			c.refuse(*v)
			return true
		}
	}
	return false
}

// given reports whether the user has named a tensor there.
func (c *columns) given(v *Varying) bool {
	list := c.o.Inputs
	if v.Role == "output" {
		list = c.o.Outputs
	}
	return slices.ContainsFunc(list, func(t TensorSpec) bool {
		if t.Page != 0 {
			return c.isInterleavedIn(&t, v)
		}
		return (t.Line == 0 || t.Line == v.spec.Line) && t.in(c.o.Bar) == v.spec.in(c.o.Bar) &&
			t.Address < v.Address+v.Size && v.Address < t.Address+t.Size()
	})
}

// readBack reports whether a load gives what the frame stored there before.
func (c *columns) readBack(p *piece, address uint64, values [][]byte) bool {
	for _, b := range c.patches(stepStore) {
		last := b[len(b)-1].end()
		if b[0].home != p.home || b[0].at > p.at || address < b[0].address ||
			address+uint64(len(values[0])) > last {
			continue
		}
		from := address - b[0].address
		if slices.EqualFunc(values, c.values(b, span{from, from + uint64(len(values[0]))}),
			bytes.Equal) {
			return true
		}
	}
	return false
}

// against says why a part that differs can be no input or output, empty if
// nothing stands against it.
func (c *columns) against(first *piece, v *Varying, b patch, values [][]byte) string {
	if v.Role == "output" {
		return ""
	}
	n := c.counts(values)
	if n == "" && v.spec.Line > 0 {
		if v.fed {
			v.Role, v.spec.Line = "port", 0
			return fmt.Sprintf("a data port, which cannot be an input: a frame stores more than "+
				"%d times to this place", fedMin)
		}
		n = c.countsOn(first, v)
	}
	if n != "" {
		v.Role = "counter"
		return n + ": neither an input nor a constant"
	}
	if c.follows(first, v.Address, values) {
		v.Role = "follows"
		return "the program computes the stored value from the value that it loaded there: " +
			"neither an input nor a constant"
	}
	return ""
}

// countsMin is how many repetitions it takes to tell what counts from data.
const countsMin = 3

// counts says how small values go from repetition to repetition, empty if they
// do not count. Where they begin again, the candidate learns after how many.
func (c *columns) counts(values [][]byte) string {
	times := c.c.run.Times()
	if times < countsMin || len(values[0]) > 8 {
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
		c.c.endless = true
		return fmt.Sprintf("counts: %s", shown)
	}
	after := int(turn / gcd(step, turn))
	cycle := max(c.c.cycle, 1)
	if cycle = cycle / int(gcd(uint64(cycle), uint64(after))) * after; cycle > times {
		c.c.endless = true
	} else {
		c.c.cycle = cycle
	}
	return fmt.Sprintf("counts: %s, and begins again after %d", shown, after)
}

// fedMin is how many inputs of a frame one place may be.
const fedMin = 16

// countsOn says how a place counts that a repetition stores to several times.
func (c *columns) countsOn(first *piece, v *Varying) string {
	var stores [][][]byte
	for i := range c.pieces {
		if p := &c.pieces[i]; p.op == first.op && p.home == first.home && p.address == v.Address &&
			p.size == v.Size && v.Size <= 8 {
			stores = append(stores, c.values(patch{*p}, span{0, p.size}))
		}
	}
	var list []uint64
	for k := range c.c.reps {
		for _, values := range stores {
			list = append(list, traces.Little(values[k]))
		}
	}
	if len(list) < countsMin {
		return ""
	}
	if _, _, ok := progression(list, fbs.WidthMask(uint8(v.Size))); !ok {
		return ""
	}
	return fmt.Sprintf("counts from store to store: %#x, %#x, %#x ...", list[0], list[1], list[2])
}

// countsInside notes words of a larger input that count, in steps all the same
// or long enough to see a turn. They stay part of it: data may count by chance.
func (c *columns) countsInside(v *Varying, values [][]byte) {
	times, found, shown := c.c.run.Times(), 0, ""
	for at := -v.Address & 3; times >= countsMin && v.Size > 4 && at+4 <= v.Size; at += 4 {
		var list []uint64
		for _, b := range values[:times] {
			list = append(list, traces.Little(b[at:at+4]))
		}
		if _, turn, ok := progression(list, fbs.WidthMask(4)); !ok ||
			turn != 0 && times <= countsMin {
			continue
		}
		if found++; found == 1 {
			shown = fmt.Sprintf("the first word, at 0x%x, is %#x, %#x, %#x "+
				"...", v.Address+at, list[0],
				list[1], list[2])
		}
	}
	if found > 0 {
		c.note("line %d: the input at %s 0x%x counts in %s of 4 bytes, %s; the replaying "+
			"program must count", v.Line, v.Place, v.Address,
			english.Count(found, "part"), shown)
	}
}

// progression reports whether numbers go by one step, perhaps with turns: then
// all are below turn, where they begin again.
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

// follows reports whether small values are those that the frame read in the same
// place before, but for bits that are always changed.
func (c *columns) follows(p *piece, address uint64, values [][]byte) bool {
	if len(values[0]) > 8 {
		return false
	}
	for i := range c.pieces {
		l := &c.pieces[i]
		if l.at >= p.at || l.op != stepLoad || l.differs == nil || l.home != p.home ||
			l.address != address || l.size != uint64(len(values[0])) {
			continue
		}
		read := c.values(patch{*l}, span{0, l.size})
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

// storedAgain reports whether the frame stores other data to the same bytes, and
// notes where it does so all the time, with what differs from frame to frame.
func (c *columns) storedAgain(b patch, v *Varying, values [][]byte) (again bool) {
	address, size, differ := v.Address, v.Size, uint64(0)
	for i := range c.pieces {
		p := &c.pieces[i]
		if p.op != b[0].op || p.home != b[0].home || p.address >= address+size ||
			p.end() <= address ||
			slices.ContainsFunc(b, func(o piece) bool { return o.at == p.at }) {
			continue
		}
		from, to := max(p.address, address), min(p.end(), address+size)
		mine := c.values(patch{*p}, span{from - p.address, to - p.address})
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
		if v.fed = differ >= fedMin*size; v.fed {
			break
		}
	}
	return again
}

// sortByLine sorts the inputs or outputs by the lines of their first accesses, so that their names
// follow the order of the program. Everything else keeps its place.
func (c *Candidate) sortByLine(role string) {
	var places []int
	var list []Varying
	for i, v := range c.Varies {
		if v.Role == role && v.bad == "" {
			places, list = append(places, i), append(list, v)
		}
	}
	slices.SortStableFunc(list, func(a, b Varying) int { return cmp.Compare(a.Line, b.Line) })
	for i, place := range places {
		c.Varies[place] = list[i]
	}
}

// name gives inputs and outputs names that the user has not used.
func (c *columns) name() {
	used := map[string]bool{}
	for _, t := range slices.Concat(c.o.Inputs, c.o.Outputs) {
		used[t.Name] = true
	}
	numbers := map[string]int{}
	c.c.sortByLine("input")
	c.c.sortByLine("output")
	for i := range c.c.Varies {
		v := &c.c.Varies[i]
		short := map[string]string{"input": "in", "output": "out"}[v.Role]
		if short == "" || v.bad != "" {
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
