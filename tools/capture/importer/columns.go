package importer

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"lightmetal/fbs/gen"
)

// repetitionDiff compares the repetitions of a frame, command by command.
type repetitionDiff struct {
	*finder
	candidate *Candidate
	pieces    []piece
	// Words that the program stored in cores, as far as they can be addresses of buffers in DRAM
	bufferStarts map[uint64]bool
}

// piece is one command of a frame; differs marks its bytes that differ between the repetitions.
type piece struct {
	op      stepOp
	at      int // token in the first repetition
	place   Place
	address uint64
	memory  bool
	size    uint64
	differs []bool // nil: no byte differs
}

func (p *piece) end() uint64 { return p.address + p.size }

// compare finds the bytes that differ between the repetitions.
func (c *repetitionDiff) compare() {
	for at := c.candidate.firstToken; at < c.candidate.firstToken+c.candidate.run.Period; at++ {
		p := c.newPiece(at)
		first := c.tokenData(at)
		p.size = uint64(len(first))
		for _, start := range c.candidate.repetitionTokens[1:] {
			p.markDiffering(first, c.tokenData(start+at-c.candidate.firstToken))
		}
		c.compareLoops(&p)
		c.pieces = append(c.pieces, p)
	}
}

func (f *finder) newPiece(at int) piece {
	s := f.stepOf(at)
	p := piece{op: s.op, at: at, memory: s.hasFlag(flagMemory)}
	switch {
	case s.target >= 0:
		a := &f.targets[s.target]
		p.place, p.address = Place{Tile: true, X: a.x0, Y: a.y0}, a.address
	default:
		w := &f.windows[s.window]
		p.address = w.base
		if w.bar != f.options.Bar {
			p.place = Place{HasBar: true, Bar: w.bar}
		}
	}
	p.address += uint64(s.offset) + uint64(f.occurrences[at].first)*uint64(s.width)
	return p
}

func (p *piece) markDiffering(first, other []byte) {
	if bytes.Equal(first, other) {
		return
	}
	if p.differs == nil {
		p.differs = make([]bool, len(first))
	}
	for i := range first {
		p.differs[i] = p.differs[i] || first[i] != other[i]
	}
}

// compareLoops compares how often repetitions made a load, and how long they waited.
func (c *repetitionDiff) compareLoops(p *piece) {
	s := c.stepOf(p.at)
	least, most, longest, looped := s.count, s.count, uint32(0), false
	for _, start := range c.candidate.repetitionTokens {
		other := c.stepOf(start + p.at - c.candidate.firstToken)
		least, most, longest = min(least, other.count), max(most, other.count),
			max(longest, other.durationUs)
		looped = looped || other.hasFlag(flagLoop)
	}
	switch {
	case p.op == stepLoad && s.elementCount() == 1 && least != most:
		c.addNote("line %d: each repetition makes this load %d to %d times with the same result; "+
			"the image makes the load as often as the first repetition", s.line, least, most)
	case p.op == stepPoll && !looped && p.differs != nil:
		p.op = stepLoad // the program did not wait: the load returns data
	case p.op == stepPoll:
		if _, listed := c.listedMask(s); !listed && !s.hasFlag(flagLoop) {
			c.candidate.polls = append(c.candidate.polls,
				Range{p.place, p.address, p.address + uint64(s.width) - 1})
		}
		if longest > s.durationUs {
			c.candidate.deadlineUs = max(c.candidate.deadlineUs, longest)
		}
	}
}

func (c *repetitionDiff) addNote(format string, a ...any) {
	c.candidate.Notes = append(c.candidate.Notes, fmt.Sprintf(format, a...))
}

// classify decides the role of everything that differs.
func (c *repetitionDiff) classify() {
	for i := range c.pieces {
		if p := &c.pieces[i]; p.differs != nil && p.op != stepStore && p.op != stepLoad {
			c.rejectVarying(p)
		}
	}
	c.findBufferStarts()
	for _, op := range []stepOp{stepStore, stepLoad} {
		for _, b := range c.patches(op) {
			for _, r := range b.differingSpans() {
				for _, part := range c.splitAtBuffers(b, r) {
					c.classifySpan(b, part)
				}
			}
		}
	}
	c.classifyHostMemory()
	c.joinBanks()
	c.assignNames()
	if len(c.candidate.repetitionTokens) == 2 && c.hasRole("input") {
		c.addNote("with only two repetitions, lm cannot distinguish a counter from an input; " +
			"record three or more")
	}
	if !c.hasRole("input") && !c.hasRole("output") && len(c.candidate.Refused) == 0 {
		c.addNote("nothing differs between the repetitions; " +
			"to find inputs and outputs, record with different data in each repetition")
	}
}

func (c *repetitionDiff) hasRole(role string) bool {
	return c.candidate.hasRole(role)
}

// rejectVarying is for a command that must be the same in each repetition.
func (c *repetitionDiff) rejectVarying(p *piece) {
	v := Varying{Address: p.address, Size: p.size, Line: c.lineOf(p.at), Place: p.placeText()}
	switch p.op {
	case stepRelocate:
		v.Role, v.rejection = "host address",
			"each repetition stores a different host memory address, "+
				"as a ring buffer does"
	default:
		v.Role, v.rejection = "awaited", "each repetition waits for a different value"
		if counts := c.describeCounter(c.repetitionValues(patch{*p},
			span{0, p.size})); counts != "" {
			v.Role, v.rejection = "awaited counter", "the program waits for a value that "+counts
		}
	}
	c.reject(v)
}

func (c *repetitionDiff) reject(v Varying) {
	v.Why = v.rejection
	for i := range c.candidate.Varies {
		if o := &c.candidate.Varies[i]; o.rejection != "" && o.Role == v.Role &&
			o.Place == v.Place &&
			o.Address == v.Address && o.spec.Line == v.spec.Line {
			o.Again++
			return
		}
	}
	c.candidate.Varies = append(c.candidate.Varies, v)
	c.candidate.Refused = append(c.candidate.Refused,
		fmt.Sprintf("line %d, %s 0x%x: %s", v.Line, v.Place, v.Address, v.rejection))
}

func (p *piece) placeText() string {
	if p.place.Tile {
		return fmt.Sprintf("(%d,%d)", p.place.X, p.place.Y)
	}
	return fmt.Sprintf("BAR %d", p.place.Bar)
}

// patch is a list of pieces that access consecutive addresses, in the order of the program. Between
// them, the program may access other places.
type patch []piece

type span struct{ from, to uint64 } // offsets in a patch, in bytes

func (c *repetitionDiff) patches(op stepOp) (list []patch) {
	open := map[Place]int{}
	for _, p := range c.pieces {
		if p.op != op {
			continue
		}
		i, ok := open[p.place]
		if ok {
			last := &list[i][len(list[i])-1]
			ok = last.end() == p.address && last.memory == p.memory
		}
		if !ok {
			i = len(list)
			open[p.place] = i
			list = append(list, nil)
		}
		list[i] = append(list[i], p)
	}
	return list
}

// fieldsSizeMax is the size in bytes above which a patch is data rather than fields.
const fieldsSizeMax = 32

// differingSpans returns the parts of a patch that differ. In memory, they consist of complete
// words, and near spans are merged; if at least half of a large patch differs, the whole patch is
// one span, because the rest was probably equal by chance. Registers are never merged.
func (b patch) differingSpans() (list []span) {
	at, total := uint64(0), b[len(b)-1].end()-b[0].address
	word := uint64(1)
	if b[0].address%4 == 0 && total%4 == 0 {
		word = 4
	}
	for _, p := range b {
		for i, d := range p.differs {
			switch from := at + uint64(i); {
			case !d:
			case !p.memory:
				list = appendSpan(list, span{at, at + p.size}, 0)
			default:
				list = appendSpan(list, span{from / word * word, from/word*word + word},
					min(total/16, 64))
			}
		}
		at += p.size
	}
	sum := uint64(0)
	for _, s := range list {
		sum += s.to - s.from
	}
	if b[0].memory && total > fieldsSizeMax && 2*sum >= total {
		return []span{{0, total}}
	}
	return list
}

// appendSpan appends a span, or extends the last span if the distance is at most `gap`.
func appendSpan(list []span, s span, gap uint64) []span {
	if n := len(list); n > 0 && s.from <= list[n-1].to+gap {
		list[n-1].to = max(list[n-1].to, s.to)
		return list
	}
	return append(list, s)
}

// guessType proposes an element type for data that differ between repetitions, and returns the
// reason. Registers are unsigned integers of their width.
func guessType(values [][]byte, p *piece) (gen.DType, string) {
	size := len(values[0])
	if !p.memory {
		t := map[uint64]gen.DType{1: gen.DTypeUint8, 2: gen.DTypeUint16, 4: gen.DTypeUint32,
			8: gen.DTypeUint64}[p.size]
		if t != gen.DTypeInvalid && size%int(p.size) == 0 {
			return t, "a register"
		}
	}
	var all []byte
	for _, v := range values {
		all = append(all, v[:min(len(v), guessBytesMax)&^3]...)
	}
	if size%4 != 0 || p.address%4 != 0 || len(all) == 0 {
		return gen.DTypeUint8, "bytes"
	}
	for _, k := range wordKinds {
		n, of := 0, 0
		for at := 0; at < len(all); at += 4 {
			if word := binary.LittleEndian.Uint32(all[at:]); word != 0 {
				of++
				if k.like(word) {
					n++
				}
			}
		}
		if of > 0 && 10*n >= 9*of {
			return k.dtype, fmt.Sprintf("%d %% of the nonzero words %s", 100*n/of, k.text)
		}
	}
	if size == 4 {
		return gen.DTypeUint32, "a single word"
	}
	return gen.DTypeUint8, "bytes, because no other element type fits"
}

// guessBytesMax is the number of bytes of each repetition that guessType examines.
const guessBytesMax = 64 << 10

// wordKinds lists properties of 32-bit words that suggest an element type, the most reliable
// first.
var wordKinds = []struct {
	dtype gen.DType
	text  string
	like  func(word uint32) bool
}{
	{gen.DTypeInt32, "are small integers", func(w uint32) bool {
		return int32(w) > -1<<23 &&
			int32(w) < 1<<23
	}},
	{gen.DTypeInt16, "are two small integers",
		func(w uint32) bool { return isSmall16(w) && isSmall16(w>>16) }},
	{gen.DTypeBfloat16, "are two floating-point numbers of 16 bits",
		func(w uint32) bool { return w<<16 != 0 && isCommonFloat(w) && isCommonFloat(w<<16) }},
	{gen.DTypeFloat32, "are floating-point numbers", isCommonFloat},
}

func isSmall16(w uint32) bool { return int16(w) > -1<<12 && int16(w) < 1<<12 }

// isCommonFloat reports whether the magnitude of a float32 is common in data: at least 2^-20 and
// less than 2^21.
func isCommonFloat(w uint32) bool {
	const bias = 127
	e := int(w >> 23 & 0xff)
	return e >= bias-20 && e <= bias+20
}
