package listing

import (
	"fmt"
	"maps"
	"slices"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// ring declares a ring. It also declares a ring with a mistake, so that later lines may name it.
func (p *parser) ring() {
	if len(p.image.Rings) == fbs.RingsMax {
		p.fail(p.head, "too many rings: a listing may have at most %d", fbs.RingsMax)
	}
	at := p.tok
	r := lmb.Ring{Name: p.name("a ring")}
	if _, taken := p.rings[r.Name]; taken {
		p.fail(at, "ring %s is already declared", r.Name)
	}
	index := len(p.image.Rings)
	p.rings[r.Name] = index
	p.image.Rings = append(p.image.Rings, r)
	p.parseOptions(ringOptions(&r))
	if !slices.Contains(p.seenOptions, "first") {
		r.First = r.Begin
	}
	if r.Begin > r.First || r.First > r.End {
		p.fail(at, "first 0x%x must lie between begin 0x%x and end 0x%x", r.First, r.Begin, r.End)
	}
	p.image.Rings[index] = r
}

func (p *printer) ring(r *lmb.Ring) {
	p.printf("ring %s", nameText(r.Name))
	p.printOptions(ringOptions(r))
	p.printf("\n")
}

func ringOptions(r *lmb.Ring) []option {
	return []option{
		positionOption("begin", &r.Begin, true),
		positionOption("end", &r.End, true),
		positionOption("first", &r.First, r.First != r.Begin),
	}
}

func positionOption(word string, to *uint64, shown bool) option {
	return option{word, func(p *parser) { *to = p.size("a position") },
		fmt.Sprintf("0x%x", *to), shown}
}

// ringName consumes the name of a declared ring.
func (p *parser) ringName(c *lmb.Command) {
	name := p.name("a ring")
	index, ok := p.rings[name]
	if !ok {
		p.fail(p.last, "there is no ring %s%s", name,
			hint(name, "rings", slices.Sorted(maps.Keys(p.rings))))
	}
	c.Index = uint16(index)
}

func (p *printer) ringName(c *lmb.Command) {
	if int(c.Index) < len(p.image.Rings) {
		p.printf(" %s", nameText(p.image.Rings[c.Index].Name))
	} else {
		p.printf(" %s", unknown(int(c.Index)))
	}
}

func (p *parser) ringStep(c *lmb.Command) {
	c.Value = p.size("what the entry takes")
	r := &p.image.Rings[c.Index]
	if size := r.End - r.Begin; c.Value == 0 || c.Value > size {
		p.fail(p.last, "an entry of ring %s may take 1 to 0x%x", r.Name, size)
	}
}

func (p *printer) ringStep(c *lmb.Command) { p.printf(" 0x%x", c.Value) }

// movedPlace consumes what a `with` command changes in the next command, and how.
func (p *parser) movedPlace(c *lmb.Command) {
	c.Mode = uint8(p.word("value or offset", placeWords))
	p.parseOptions(moveOptions(c))
}

func (p *printer) movedPlace(c *lmb.Command) {
	p.printf(" %s", wordOf(placeWords, c.Mode))
	p.printOptions(moveOptions(c))
}

func moveOptions(c *lmb.Command) []option {
	list := []option{{"shift", func(p *parser) { c.Amount = uint32(p.numberUpTo("bits", 63)) },
		fmt.Sprint(c.Amount), c.Amount != 0}}
	if gen.Place(c.Mode) == gen.PlaceOffset {
		return list
	}
	return append(list, option{"parity", func(p *parser) { c.Mask = p.number("a mask") },
		fmt.Sprintf("0x%x", c.Mask), c.Mask != 0})
}
