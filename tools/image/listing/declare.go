package listing

import (
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

var declarations = map[string]func(*parser){
	"origin": (*parser).origin, "device": (*parser).device, "rule": (*parser).rule,
	"window": (*parser).window, "tensor": (*parser).tensor, "data": (*parser).declareData,
	"target": (*parser).device, // the older word
}

var declarationWords = []string{"origin", "device", "rule", "window", "data", "tensor"}

func (p *parser) declaration() {
	if declare := declarations[p.tok.text]; declare != nil && p.tok.kind == tokenWord {
		p.advance()
		declare(p)
		return
	}
	name, _, _ := strings.Cut(p.tok.text, ".")
	if _, ok := commands[name]; ok && p.tok.kind == tokenWord {
		p.fail(p.tok, "%s belongs to a sequence; start one with a label, as in main:", p.tok.text)
		return
	}
	p.fail(p.tok, "expected a declaration or a label, found %s%s", p.tok,
		hint(p.tok.text, declarationWords))
}

func (p *parser) origin() {
	o := &p.image.Origin
	if *o != (lmb.Origin{}) {
		p.fail(p.head, "origin is declared twice")
	}
	p.settings(
		setting{"tool", func() { o.Tool = p.text("a tool") }},
		setting{"source", func() { o.Source = p.text("a source") }},
		setting{"time", func() { o.Time = p.number("seconds since 1970") }},
		setting{"git", func() { o.Git = p.text("a revision") }})
}

var barWords = []string{"bar0", "bar1", "bar2", "bar3", "bar4", "bar5"}

func (p *parser) device() {
	if len(p.image.Devices) == fbs.DevicesMax {
		p.fail(p.head, "too many devices: at most %d", fbs.DevicesMax)
	}
	t := lmb.Device{Board: p.name("a board")}
	t.Vendor = p.pciID()
	p.expect(":")
	t.Device = p.pciID()
	settings := []setting{{"subsystem", func() {
		vendor := p.pciID()
		p.expect(":")
		t.Subsystem = uint32(p.pciID())<<16 | uint32(vendor)
	}}}
	for bar, word := range barWords {
		settings = append(settings, setting{word,
			func() { t.Bars[bar] = p.size("the least size of " + word) }})
	}
	p.settings(settings...)
	p.image.Devices = append(p.image.Devices, t)
}

// window declares a window. One with a mistake is declared with size 0, so
// that the numbers of the windows after it stay right.
func (p *parser) window() {
	if len(p.image.Windows) == fbs.WindowsMax {
		p.fail(p.head, "too many windows: at most %d", fbs.WindowsMax)
	}
	w := lmb.Window{Window: fbs.Window{Slot: fbs.NoSlot}}
	w.Name = p.windowName()
	sizeAt, deviceAt := p.head, p.tok
	p.windowKind(&w)
	setDevice := func() {
		deviceAt = p.tok
		w.Device = p.deviceNumber()
	}
	settings := []setting{
		{"offset", func() { w.Offset = p.size("an offset into the BAR") }},
		{"size", func() {
			sizeAt = p.tok
			w.Size = p.size("a size")
		}},
		{"slot", func() { w.Slot = uint16(p.numberTo("a slot", fbs.NoSlot-1)) }},
		{"bus", func() { p.fixedBus(&w) }},
		{"wc", func() { w.Flags |= fbs.FlagWriteCombining }},
		{"device", setDevice},
		{"target", setDevice}, // the older word
	}
	p.settings(slices.DeleteFunc(settings, func(s setting) bool {
		return s.word == "offset" && w.Kind != gen.WindowKindBar ||
			s.word == "slot" && w.Kind != gen.WindowKindTlb ||
			s.word == "bus" && w.Kind != gen.WindowKindHost
	})...)
	p.checkWindow(&w, sizeAt, deviceAt)
	if p.failed {
		w.Size = 0
	}
	if w.Name != "" {
		p.windows[w.Name] = append(p.windows[w.Name], len(p.image.Windows))
	}
	p.image.Windows = append(p.image.Windows, w)
}

// fixedBus consumes the bus address that a host window must have.
func (p *parser) fixedBus(w *lmb.Window) {
	w.Flags |= fbs.FlagFixedBus
	w.Offset = p.size("a bus address")
	if w.Offset == 0 || w.Offset%fbs.SegmentAlign != 0 {
		p.fail(p.last, "bus address 0x%x must be a multiple of 4096, and not 0", w.Offset)
	}
}

// windowName consumes the name that a window is declared with. A window that is declared by
// its own number, such as w0, has no name.
func (p *parser) windowName() string {
	own := len(p.image.Windows)
	n, numbered := windowNumber(p.tok.text)
	switch {
	case !numbered || p.tok.kind != tokenWord:
		return p.name("a window")
	case n != own:
		p.fail(p.tok, "names like %s are reserved for unnamed windows; quote it, choose "+
			"another, or write w%d",
			p.tok.text, own)
	}
	p.accept(p.tok.text)
	return ""
}

var windowKinds = slices.Concat(barWords, nonEmpty(kindWords))

func (p *parser) windowKind(w *lmb.Window) {
	kind := windowKinds[p.word("bar0 to bar5, tlb, host or config", windowKinds)]
	if bar := slices.Index(barWords, kind); bar >= 0 {
		w.Kind, w.Bar = gen.WindowKindBar, uint8(bar)
		return
	}
	w.Kind = gen.WindowKind(slices.Index(kindWords, kind))
}

// deviceNumber consumes the number of a device, from 0.
func (p *parser) deviceNumber() uint8 {
	return uint8(p.numberTo("the number of a device", fbs.DevicesMax-1))
}

// deviceOf returns the device of a window or rule that has no error so far, nil if there is
// none.
func (p *parser) deviceOf(number uint8, at token, whose string) *lmb.Device {
	switch {
	case p.failed:
		return nil
	case int(number) >= len(p.image.Devices):
		p.fail(at, "there is no device %d; declare devices before their %s", number, whose)
		return nil
	}
	return &p.image.Devices[number]
}

func (p *parser) checkWindow(w *lmb.Window, sizeAt, deviceAt token) {
	device := p.deviceOf(w.Device, deviceAt, "windows")
	if device == nil {
		return
	}
	bar := device.Bars[w.Bar]
	switch {
	case w.Size == 0:
		p.fail(sizeAt, "the window needs a size, such as size 64KiB")
	case w.Size > fbs.WindowSizeMax:
		p.fail(sizeAt, "a window may have at most 4 GiB")
	case w.Kind == gen.WindowKindBar && bar == 0:
		p.fail(deviceAt, "device %s declares no bar%d; add its size to the device", device.Board,
			w.Bar)
	case w.Kind == gen.WindowKindBar && (w.Offset > bar || w.Size > bar-w.Offset):
		p.fail(sizeAt, "%s at 0x%x end outside bar%d of %s, whose size is %s",
			lmb.SizeText(w.Size), w.Offset, w.Bar, device.Board, lmb.SizeText(bar))
	case w.Kind == gen.WindowKindTlb && w.Size&(w.Size-1) != 0:
		p.fail(sizeAt, "the size of a tlb window must be a power of two")
	case w.Kind == gen.WindowKindConfig && w.Size != 256 && w.Size != 4096:
		p.fail(sizeAt, "the size of a config window must be 256 or 4096 bytes")
	}
}

// declareData declares data that tensors and commands name.
func (p *parser) declareData() {
	at := p.tok
	name := p.name("data")
	if first, taken := p.blocks[name]; taken {
		p.fail(at, "data %s is declared in line %d already", name, first.line)
		return
	}
	p.expect("=")
	data := p.data()
	if p.failed {
		data = nil
	}
	if name != "" {
		p.blocks[name] = block{data, at.line}
	}
}

// tensor declares a tensor. One with a mistake is declared without a role.
func (p *parser) tensor() {
	if len(p.image.Tensors) == fbs.TensorsMax {
		p.fail(p.head, "too many tensors: at most %d", fbs.TensorsMax)
	}
	at := p.tok
	t := lmb.Tensor{Name: p.name("a tensor")}
	if first, taken := p.tensors[t.Name]; taken {
		p.fail(at, "tensor %s is declared in line %d already", t.Name, p.tensorLines[first])
		return
	}
	role := gen.Role(p.word("input or output", roleWords))
	t.DType = gen.DType(p.word("a type such as float32", dtypeWords))
	t.Shape = p.shape(uint64(fbs.DTypeSize(t.DType)))
	if p.accept("=") {
		dataAt := p.tok
		t.Data = p.data()
		if uint64(len(t.Data)) != t.Size() {
			p.fail(dataAt, "tensor %s needs %d bytes, the data have %d", t.Name, t.Size(),
				len(t.Data))
		}
		if role == gen.RoleOutput {
			p.judgement(&t.Golden, nil)
		}
	}
	if !p.failed {
		t.Role = role
	}
	if t.Name != "" {
		p.tensors[t.Name] = len(p.image.Tensors)
		p.tensorLines = append(p.tensorLines, at.line)
		p.image.Tensors = append(p.image.Tensors, t)
	}
}

// shape consumes [4x16], and [] for a single element of size bytes.
func (p *parser) shape(size uint64) (dims []uint32) {
	p.expect("[")
	if p.failed || p.accept("]") {
		return nil
	}
	at := p.tok
	for text := range strings.SplitSeq(at.text, "x") {
		n, reason := parseNumber(text)
		switch {
		case at.kind != tokenWord || reason != "":
			p.fail(at, "expected a shape such as 4x16 in decimal, found %s", at)
		case n == 0:
			p.fail(at, "a dimension must not be 0; dimensions are decimal")
		case n > 1<<32-1 || n > fbs.DataSizeMax/size:
			p.fail(at, "a tensor may have at most 64 TiB, and a dimension at most 2^32-1")
		case len(dims) == fbs.DimsMax:
			p.fail(at, "a shape may have at most %d dimensions", fbs.DimsMax)
		}
		if p.failed {
			return nil
		}
		dims = append(dims, uint32(n))
		size *= n
	}
	p.advance()
	if p.tok.is(",") {
		p.fail(p.tok, "separate dimensions by x, as in 4x16")
	}
	p.expect("]")
	return dims
}
