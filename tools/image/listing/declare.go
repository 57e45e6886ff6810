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
		p.fail(p.tok, "%s is a command, which must be in a sequence; start a sequence with a "+
			"label such as `main:`", p.tok.text)
		return
	}
	p.fail(p.tok, "expected a declaration or a label, found %s%s", p.tok,
		hint(p.tok.text, "declarations", declarationWords))
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
		p.fail(p.head, "too many devices: a listing may have at most %d", fbs.DevicesMax)
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
			func() { t.Bars[bar] = p.size("the smallest size of " + word) }})
	}
	p.settings(settings...)
	p.image.Devices = append(p.image.Devices, t)
}

// window declares a window. It also declares a window with a mistake, with size 0, so that the
// numbers of the later windows stay right.
func (p *parser) window() {
	if len(p.image.Windows) == fbs.WindowsMax {
		p.fail(p.head, "too many windows: a listing may have at most %d", fbs.WindowsMax)
	}
	w := lmb.Window{Window: fbs.Window{Slot: fbs.AnySlot}}
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
		{"slot", func() { w.Slot = uint16(p.numberUpTo("a slot", fbs.AnySlot-1)) }},
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
		p.fail(p.tok, "names like %s are reserved for windows without a name; "+
			"use another name, put the name in quotes, or write w%d for this window",
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
	return uint8(p.numberUpTo("the number of a device", fbs.DevicesMax-1))
}

// deviceOf returns the device of a window or rule, or nil after an error.
func (p *parser) deviceOf(number uint8, at token, whose string) *lmb.Device {
	switch {
	case p.failed:
		return nil
	case int(number) >= len(p.image.Devices):
		p.fail(at, "there is no device %d; declare a device before its %s", number, whose)
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
		p.fail(sizeAt, "the size of the window is missing or 0; add a size such as `size 64KiB`")
	case w.Size > fbs.WindowSizeMax:
		p.fail(sizeAt, "the window is too large: a window may have at most 4 GiB")
	case w.Kind == gen.WindowKindBar && bar == 0:
		p.fail(deviceAt, "device %s has no bar%d; add the size of bar%d to the declaration of the "+
			"device", device.Board, w.Bar, w.Bar)
	case w.Kind == gen.WindowKindBar && (w.Offset > bar || w.Size > bar-w.Offset):
		p.fail(sizeAt, "a window of %s at offset 0x%x ends outside bar%d of %s, whose size is %s",
			lmb.SizeText(w.Size), w.Offset, w.Bar, device.Board, lmb.SizeText(bar))
	case w.Kind == gen.WindowKindTlb && w.Size&(w.Size-1) != 0:
		p.fail(sizeAt, "the size of a tlb window must be a power of two")
	case w.Kind == gen.WindowKindConfig && w.Size != 256 && w.Size != 4096:
		p.fail(sizeAt, "the size of a config window must be 256 or 4096 bytes")
	}
}

// declareData declares data under a name for tensors and commands.
func (p *parser) declareData() {
	at := p.tok
	name := p.name("data")
	if first, taken := p.blocks[name]; taken {
		p.fail(at, "data %s is already declared in line %d", name, first.line)
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

// tensor declares a tensor. A tensor with a mistake has no role.
func (p *parser) tensor() {
	if len(p.image.Tensors) == fbs.TensorsMax {
		p.fail(p.head, "too many tensors: a listing may have at most %d", fbs.TensorsMax)
	}
	at := p.tok
	t := lmb.Tensor{Name: p.name("a tensor")}
	if first, taken := p.tensors[t.Name]; taken {
		p.fail(at, "tensor %s is already declared in line %d", t.Name, p.tensorLines[first])
		return
	}
	role := gen.Role(p.word("input or output", roleWords))
	t.DType = gen.DType(p.word("a type such as float32", dtypeWords))
	t.Shape = p.shape(uint64(fbs.DTypeSize(t.DType)))
	if p.accept("=") {
		dataAt := p.tok
		t.Data = p.data()
		if uint64(len(t.Data)) != t.Size() {
			p.fail(dataAt, "tensor %s needs %d bytes, but the data have %d bytes", t.Name, t.Size(),
				len(t.Data))
		}
		if role == gen.RoleOutput {
			p.tolerance(&t.Golden, nil)
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

// shape consumes a shape such as [4x16], or [] for a single element. size is the size of an element
// in bytes.
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
			p.fail(at, "a dimension must not be 0; write dimensions in decimal, as in 4x16")
		case n > 1<<32-1 || n > fbs.DataSizeMax/size:
			p.fail(at, "the shape is too large: a tensor may have at most 64 TiB, "+
				"and a dimension at most 2^32-1")
		case len(dims) == fbs.DimsMax:
			p.fail(at, "the shape has too many dimensions: a shape may have at most %d",
				fbs.DimsMax)
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
