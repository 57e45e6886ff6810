package listing

import (
	"math"
	"slices"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// flush parses a Fence and a load; the load pushes posted writes ahead of it to the device.
func (p *parser) flush(c *lmb.Command) {
	p.extraCommands = append(p.extraCommands,
		lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeFence}})
	c.Mode, c.Option = uint8(gen.ConditionEqual), uint8(gen.PolicyFail)
	p.registerAccess(c)
}

// fence parses nothing, because a fence has no operands.
func (p *parser) fence(*lmb.Command) {}

func (p *parser) point(c *lmb.Command) {
	c.Window = p.windowIndex()
	if p.failed {
		return
	}
	w := &p.image.Windows[c.Window]
	if w.Kind != gen.WindowKindTlb {
		p.fail(p.last, "the window is not of kind tlb; only tlb windows can be pointed at a tile")
	}
	t := fbs.TileRoute{Ordering: boards.OrderingDefault}
	p.tiles(&t)
	p.expect("address")
	c.Value = p.size("an address in the tile")
	if c.Value%w.Size != 0 {
		p.fail(p.last, "address 0x%x must be a multiple of the window's size, %s", c.Value,
			lmb.SizeText(w.Size))
	}
	p.settings(
		setting{"ordering",
			func() {
				t.Ordering = boards.Ordering(p.word("default, strict or posted",
					orderingWords))
			}},
		setting{"noc", func() { t.NoC = uint8(p.numberUpTo("a NoC number", 1)) }},
		setting{"vc", func() {
			t.StaticVCPlusOne = 1 +
				uint8(p.numberUpTo("a virtual channel", 7))
		}})
	c.Mask = t.Pack()
}

// tiles consumes tile x,y or tiles x,y to x,y.
func (p *parser) tiles(t *fbs.TileRoute) {
	if p.accept("tiles") {
		t.Multicast = true
		t.XStart, t.YStart = p.coordinates()
		p.expect("to")
	} else if !p.accept("tile") {
		p.fail(p.tok, "expected `tile X,Y` or `tiles X,Y to X,Y`, found %s", p.tok)
	}
	t.X, t.Y = p.coordinates()
}

func (p *parser) coordinates() (x, y uint8) {
	x = uint8(p.numberUpTo("a coordinate", math.MaxUint8))
	p.expect(",")
	y = uint8(p.numberUpTo("a coordinate", math.MaxUint8))
	return x, y
}

func (p *parser) delay(c *lmb.Command) {
	c.Amount = uint32(p.duration("a delay", fbs.DelayMaxUs))
	if c.Amount == 0 {
		p.fail(p.last, "the delay must not be 0")
	}
}

func (p *parser) call(c *lmb.Command) {
	name := p.name("a sequence")
	if !p.failed {
		from := len(p.image.Sequences) - 1
		p.calls = append(p.calls, call{p.last, name, from, len(p.image.Sequences[from].Commands)})
	}
}

func (p *parser) mark(c *lmb.Command) {
	c.Mode = uint8(slices.Index(markWords, p.head.text))
	c.Data = []byte(p.text("a name"))
	if len(c.Data) == 0 || len(c.Data) > fbs.NameMax {
		p.fail(p.last, "a name must have 1 to %d bytes, but has %d", fbs.NameMax, len(c.Data))
	}
}
