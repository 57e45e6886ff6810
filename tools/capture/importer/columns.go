package importer

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"lightmetal/fbs/gen"
)

// columns compares the repetitions of a frame, command by command.
type columns struct {
	*finder
	c      *Candidate
	pieces []piece
}

// piece is one command of a frame and which of its bytes differ.
type piece struct {
	op      stepOp
	at      int // token of the first repetition
	home    Place
	address uint64
	memory  bool
	size    uint64
	differs []bool // nil: none
}

func (p *piece) end() uint64 { return p.address + p.size }

// compare finds what differs between the repetitions.
func (c *columns) compare() {
	for at := c.c.from; at < c.c.from+c.c.run.Period; at++ {
		p := c.piece(at)
		first := c.bytes(at)
		p.size = uint64(len(first))
		for _, start := range c.c.reps[1:] {
			p.against(first, c.bytes(start+at-c.c.from))
		}
		c.loops(&p)
		c.pieces = append(c.pieces, p)
	}
}

func (f *finder) piece(at int) piece {
	s := f.of(at)
	p := piece{op: s.op, at: at, memory: s.is(memoryStep)}
	switch {
	case s.aim >= 0:
		a := &f.aims[s.aim]
		p.home, p.address = Place{Tile: true, X: a.x0, Y: a.y0}, a.address
	default:
		w := &f.windows[s.window]
		p.address = w.base
		if w.bar != f.o.Bar {
			p.home = Place{Named: true, Bar: w.bar}
		}
	}
	p.address += uint64(s.offset) + uint64(f.where[at].first)*uint64(s.width)
	return p
}

// against notes the bytes that are not those of the first repetition.
func (p *piece) against(first, other []byte) {
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

// loops looks at what the commands of the repetitions take beyond their data:
// how often a load was made, and how long a wait took.
func (c *columns) loops(p *piece) {
	s := c.of(p.at)
	least, most, longest, looped := s.count, s.count, uint32(0), false
	for _, start := range c.c.reps {
		other := c.of(start + p.at - c.c.from)
		least, most, longest = min(least, other.count), max(most, other.count),
			max(longest, other.us)
		looped = looped || other.is(loopStep)
	}
	switch {
	case p.op == stepLoad && s.run() == 1 && least != most:
		c.note("line %d: the program repeats this load %d to %d times with the same result; the "+
			"image repeats it as often as the first repetition", s.line, least, most)
	case p.op == stepPoll && !looped && p.differs != nil:
		p.op = stepLoad // nobody waited: it gives data
	case p.op == stepPoll:
		if _, listed := c.listed(s); !listed && !s.is(loopStep) {
			c.c.polls = append(c.c.polls, Range{p.home, p.address, p.address + uint64(s.width) - 1})
		}
		if longest > s.us {
			c.c.deadlineUs = max(c.c.deadlineUs, longest)
		}
	}
}

func (c *columns) note(format string, a ...any) {
	c.c.Notes = append(c.c.Notes, fmt.Sprintf(format, a...))
}

// settle says what becomes of all that differs.
func (c *columns) settle() {
	for i := range c.pieces {
		if p := &c.pieces[i]; p.differs != nil && p.op != stepStore && p.op != stepLoad {
			c.fixed(p)
		}
	}
	for _, op := range []stepOp{stepStore, stepLoad} {
		for _, b := range c.patches(op) {
			for _, r := range b.regions() {
				c.region(b, r)
			}
		}
	}
	c.hostMemory()
	c.joinBanks()
	c.name()
	if len(c.c.reps) == 2 && c.has("input") {
		c.note("with only two repetitions, a value that counts up looks like an input")
	}
	if !c.has("input") && !c.has("output") && len(c.c.Refused) == 0 {
		c.note("nothing differs between the repetitions; to find inputs and outputs, record " +
			"with other data in each frame")
	}
}

func (c *columns) has(role string) bool {
	return c.c.has(role)
}

// fixed takes a command that must be the same in each repetition and is not.
func (c *columns) fixed(p *piece) {
	v := Varying{Address: p.address, Size: p.size, Line: c.lineOf(p.at), Place: p.place()}
	switch p.op {
	case stepRelocate:
		v.Role, v.bad = "host address", "each repetition stores another address of host memory, "+
			"as for a ring"
	default:
		v.Role, v.bad = "awaited", "each repetition waits for another value"
		if counts := c.counts(c.values(patch{*p}, span{0, p.size})); counts != "" {
			v.Role, v.bad = "awaited counter", "the program waits for a value that "+counts
		}
	}
	c.refuse(v)
}

func (c *columns) refuse(v Varying) {
	v.Why = v.bad
	for i := range c.c.Varies {
		if o := &c.c.Varies[i]; o.bad != "" && o.Role == v.Role && o.Place == v.Place &&
			o.Address == v.Address && o.spec.Line == v.spec.Line {
			o.Again++
			return
		}
	}
	c.c.Varies = append(c.c.Varies, v)
	c.c.Refused = append(c.c.Refused, fmt.Sprintf("line %d, %s 0x%x: %s", v.Line, v.Place,
		v.Address, v.bad))
}

// place is the piece's for people.
func (p *piece) place() string {
	if p.home.Tile {
		return fmt.Sprintf("(%d,%d)", p.home.X, p.home.Y)
	}
	return fmt.Sprintf("BAR %d", p.home.Bar)
}

// patch is pieces of one kind that follow each other in the program, if only
// what it does to that place counts, and in memory.
type patch []piece

type span struct{ from, to uint64 } // bytes into a patch

func (c *columns) patches(op stepOp) (list []patch) {
	open := map[Place]int{}
	for _, p := range c.pieces {
		if p.op != op {
			continue
		}
		i, ok := open[p.home]
		if ok {
			last := &list[i][len(list[i])-1]
			ok = last.end() == p.address && last.memory == p.memory
		}
		if !ok {
			i = len(list)
			open[p.home] = i
			list = append(list, nil)
		}
		list[i] = append(list[i], p)
	}
	return list
}

// wholeMin is the size beyond which a patch is data and not fields.
const wholeMin = 32

// regions are the parts of a patch that differ. In memory they are whole words,
// parts that are near each other are one, and where half of a patch differs all
// of it does: the rest was equal by chance. Registers are what they are.
func (b patch) regions() (list []span) {
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
				list = join(list, span{at, at + p.size}, 0)
			default:
				list = join(list, span{from / word * word, from/word*word + word},
					min(total/16, 64))
			}
		}
		at += p.size
	}
	sum := uint64(0)
	for _, s := range list {
		sum += s.to - s.from
	}
	if b[0].memory && total > wholeMin && 2*sum >= total {
		return []span{{0, total}}
	}
	return list
}

// join appends a span, or makes the last one longer.
func join(list []span, s span, gap uint64) []span {
	if n := len(list); n > 0 && s.from <= list[n-1].to+gap {
		list[n-1].to = max(list[n-1].to, s.to)
		return list
	}
	return append(list, s)
}

// guess proposes an element type of data that differs between repetitions, and
// says by what. Registers are unsigned numbers of their width.
func guess(values [][]byte, p *piece) (gen.DType, string) {
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
		all = append(all, v[:min(len(v), guessBytes)&^3]...)
	}
	if size%4 != 0 || p.address%4 != 0 || len(all) == 0 {
		return gen.DTypeUint8, "bytes"
	}
	for _, k := range kindsOfWord {
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
			return k.dtype, fmt.Sprintf("%d %% of the words that are not 0 %s", 100*n/of, k.text)
		}
	}
	if size == 4 {
		return gen.DTypeUint32, "a single word"
	}
	return gen.DTypeUint8, "bytes: the words fit no element type"
}

// guessBytes of each repetition are looked at.
const guessBytes = 64 << 10

// kindsOfWord are what 32 bits look like, the surest first.
var kindsOfWord = []struct {
	dtype gen.DType
	text  string
	like  func(word uint32) bool
}{
	{gen.DTypeInt32, "are small integers", func(w uint32) bool {
		return int32(w) > -1<<23 &&
			int32(w) < 1<<23
	}},
	{gen.DTypeInt16, "are two small integers",
		func(w uint32) bool { return small16(w) && small16(w>>16) }},
	{gen.DTypeBfloat16, "are two floating-point numbers of 16 bits",
		func(w uint32) bool { return w<<16 != 0 && usual(w) && usual(w<<16) }},
	{gen.DTypeFloat32, "are floating-point numbers", usual},
}

func small16(w uint32) bool { return int16(w) > -1<<12 && int16(w) < 1<<12 }

// usual reports whether the exponent of a float32 is one that data has: up to
// 2^20, and no smaller than 2^-20.
func usual(w uint32) bool {
	const bias = 127
	e := int(w >> 23 & 0xff)
	return e >= bias-20 && e <= bias+20
}
