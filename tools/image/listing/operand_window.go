package listing

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
)

// reference consumes window+offset.
func (p *parser) reference(c *lmb.Command) {
	c.Window = p.windowIndex()
	p.accessed = &p.image.Windows[c.Window]
	p.expect("+")
	offset := p.size("an offset")
	if offset >= p.accessed.Size {
		p.fail(p.last, "offset 0x%x is outside the window, whose size is %s", offset,
			lmb.SizeText(p.accessed.Size))
	}
	c.Offset = uint32(offset)
	p.offsetAt = p.last
}

// register consumes window+offset of one access.
func (p *parser) register(c *lmb.Command) {
	p.reference(c)
	p.checkRange(c, uint64(c.Width), uint64(c.Width), p.offsetAt)
}

func (p *printer) reference(c *lmb.Command) {
	p.printf(" %s+0x%x", p.windowText(c.Window), c.Offset)
}

// windowIndex consumes a window by name or by number.
func (p *parser) windowIndex() uint16 {
	t := p.tok
	if n, ok := windowNumber(t.text); ok && t.kind == tokenWord {
		if n >= len(p.image.Windows) {
			p.fail(t, "there is no window %s; the listing declares %s before this line", t.text,
				declaredWindows(len(p.image.Windows)))
		}
		p.advance()
		return p.usableWindow(n)
	}
	name := p.name("a window")
	found := p.windows[name]
	switch {
	case len(found) > 1:
		p.fail(t, "%d windows are named %s; use %s instead", len(found), name,
			oneOf(windowWords(found)))
	case len(found) == 0 && p.isTensor(name):
		p.fail(t, "%s is a tensor, not a window; to copy the whole tensor, write %s[:]", name, name)
	case len(found) == 0:
		p.fail(t, "there is no window %s%s", name, hint(name, "windows",
			slices.Sorted(maps.Keys(p.windows))))
	}
	return p.usableWindow(found[0])
}

func (p *printer) windowText(index uint16) string {
	if int(index) < len(p.labels) {
		return p.labels[index]
	}
	return unknown(int(index))
}

// declaredWindows returns the number of declared windows, and their numbers, as text.
func declaredWindows(count int) string {
	switch count {
	case 0:
		return "no windows"
	case 1:
		return "1 window, w0,"
	}
	return fmt.Sprintf("%d windows, w0 to w%d,", count, count-1)
}

func windowWords(windows []int) (words []string) {
	for _, n := range windows {
		words = append(words, fmt.Sprintf("w%d", n))
	}
	return words
}

func (p *parser) isTensor(name string) bool { _, ok := p.tensors[name]; return ok }

// usableWindow returns the index of a window. It ends the line if the declaration of the window had
// a mistake.
func (p *parser) usableWindow(window int) uint16 {
	if p.image.Windows[window].Size == 0 {
		fail.On(errReported)
	}
	return uint16(window)
}

// checkRange checks that an access to `amount` bytes of the window, in units of `unit` bytes, is
// aligned and inside the window.
func (p *parser) checkRange(c *lmb.Command, amount, unit uint64, amountAt token) {
	switch offset := uint64(c.Offset); {
	case offset%unit != 0:
		p.fail(p.offsetAt, "offset 0x%x must be a multiple of the width, %d bytes", offset, unit)
	case unit > 1 && p.accessed.Offset%unit != 0:
		p.fail(p.offsetAt, "the offset of the window in the BAR, 0x%x, "+
			"must be a multiple of the width, %d bytes", p.accessed.Offset, unit)
	case amount == 0:
		p.fail(amountAt, "the size must not be 0")
	case amount%unit != 0:
		p.fail(amountAt, "the size, %d bytes, must be a multiple of %d bytes", amount, unit)
	case amount > p.accessed.Size-offset:
		p.fail(amountAt, "an access to %s at offset 0x%x ends outside the window, whose size is %s",
			lmb.SizeText(amount), offset, lmb.SizeText(p.accessed.Size))
	}
}

// tlbWindow consumes a window that a point command may move.
func (p *parser) tlbWindow(c *lmb.Command) {
	c.Window = p.windowIndex()
	p.accessed = &p.image.Windows[c.Window]
	if p.accessed.Kind != gen.WindowKindTlb {
		p.fail(p.last, "the window is not of kind tlb; only tlb windows can be pointed at a tile")
	}
}

func (p *printer) tlbWindow(c *lmb.Command) { p.printf(" %s", p.windowText(c.Window)) }

// tileTarget consumes the tiles, the address and the options of a point command.
func (p *parser) tileTarget(c *lmb.Command) {
	t := fbs.TileRoute{Ordering: boards.OrderingDefault}
	p.tiles(&t)
	p.expect("address")
	c.Value = p.size("an address in the tile")
	if c.Value%p.accessed.Size != 0 {
		p.fail(p.last, "address 0x%x must be a multiple of the window's size, %s", c.Value,
			lmb.SizeText(p.accessed.Size))
	}
	p.parseOptions(routeOptions(&t))
	c.Mask = t.Pack()
}

func (p *printer) tileTarget(c *lmb.Command) {
	t, ok := boards.UnpackTileRoute(c.Mask)
	switch {
	case !ok:
		p.printf(" %s 0x%x", unknown(0), c.Mask)
		return
	case t.Multicast:
		p.printf(" tiles %d,%d to %d,%d", t.XStart, t.YStart, t.X, t.Y)
	default:
		p.printf(" tile %d,%d", t.X, t.Y)
	}
	p.printf(" address 0x%x", c.Value)
	p.printOptions(routeOptions(&t))
}

func routeOptions(t *fbs.TileRoute) []option {
	return []option{
		{"ordering", func(p *parser) {
			t.Ordering = boards.Ordering(p.word("default, strict or posted", orderingWords))
		}, wordOf(orderingWords, t.Ordering), t.Ordering != boards.OrderingDefault},
		{"noc", func(p *parser) { t.NoC = uint8(p.numberUpTo("a NoC number", 1)) },
			fmt.Sprint(t.NoC), t.NoC != 0},
		{"vc", func(p *parser) {
			t.StaticVCPlusOne = 1 + uint8(p.numberUpTo("a virtual channel", 7))
		}, fmt.Sprint(t.StaticVCPlusOne - 1), t.StaticVCPlusOne != 0},
	}
}

// tiles consumes `tile X,Y` or `tiles X,Y to X,Y`.
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
