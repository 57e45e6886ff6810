package listing

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
)

var declarations = map[string]func(*parser){
	"origin": (*parser).origin, "capture": (*parser).capture, "device": (*parser).device,
	"rule": (*parser).rule, "window": (*parser).window, "tensor": (*parser).tensor,
	"data": (*parser).declareData, "ring": (*parser).ring,
	"target": (*parser).device, // the older word
}

var declarationWords = []string{"origin", "capture", "device", "rule", "window", "ring", "data",
	"tensor"}

func (p *parser) declaration() {
	if declare := declarations[p.tok.text]; declare != nil && p.tok.kind == tokenWord {
		p.advance()
		declare(p)
		return
	}
	name, _, _ := strings.Cut(p.tok.text, ".")
	if commandNamed(name) != nil && p.tok.kind == tokenWord {
		p.fail(p.tok, "%s is a command, which must be in a sequence; start a sequence with a "+
			"label such as `main:`", p.tok.text)
	}
	p.fail(p.tok, "expected a declaration or a label, found %s%s", p.tok,
		hint(p.tok.text, "declarations", declarationWords))
}

func (p *parser) origin() {
	o := &p.image.Origin
	if *o != (lmb.Origin{}) {
		p.fail(p.head, "origin is declared twice")
	}
	p.parseOptions(originOptions(o))
}

func originOptions(o *lmb.Origin) []option {
	return []option{
		{"tool", func(p *parser) { o.Tool = p.text("a tool") }, strconv.Quote(o.Tool),
			o.Tool != ""},
		{"source", func(p *parser) { o.Source = p.text("a source") }, strconv.Quote(o.Source),
			o.Source != ""},
		{"time", func(p *parser) { o.Time = p.number("seconds since 1970") }, fmt.Sprint(o.Time),
			o.Time != 0},
		{"git", func(p *parser) { o.Git = p.text("a revision") }, strconv.Quote(o.Git),
			o.Git != ""},
		{"arguments", func(p *parser) { o.Arguments = p.text("flags") },
			strconv.Quote(o.Arguments), o.Arguments != ""},
		{"verdict", func(p *parser) { o.Verdict = p.text("a verdict") },
			strconv.Quote(o.Verdict), o.Verdict != ""},
	}
}

func (p *printer) origin() {
	o := &p.image.Origin
	if *o == (lmb.Origin{}) {
		return
	}
	p.printf("origin")
	options := originOptions(o)
	options[2], options[3] = options[3], options[2] // the canonical form
	p.printOptions(options)
	p.printf("\n")
}

// capture declares a file from which the image was made.
func (p *parser) capture() {
	c := lmb.Capture{Name: p.name("a capture")}
	p.expect("size")
	c.Size = p.size("a size")
	p.expect("sha256")
	at := p.tok
	p.expect("hex")
	if copy(c.SHA256[:], p.hexBytes()) != len(c.SHA256) {
		p.fail(at, "a SHA-256 has 32 bytes")
	}
	p.image.Captures = append(p.image.Captures, c)
}

func (p *printer) captures() {
	for _, c := range p.image.Captures {
		p.printf("capture %s size %d sha256 hex %x\n", nameText(c.Name), c.Size, c.SHA256)
	}
}

var barWords = []string{"bar0", "bar1", "bar2", "bar3", "bar4", "bar5"}

// device declares a device. It also declares a device with a mistake, so that the numbers of the
// later devices stay right.
func (p *parser) device() {
	number := len(p.image.Devices)
	p.image.Devices = append(p.image.Devices, lmb.Device{})
	if number == fbs.DevicesMax {
		p.fail(p.head, "too many devices: a listing may have at most %d", fbs.DevicesMax)
	}
	t := &p.image.Devices[number]
	t.Board = p.name("a board")
	t.Vendor = p.pciID()
	p.expect(":")
	t.Device = p.pciID()
	p.parseOptions(deviceOptions(t))
}

func (p *printer) device(t *lmb.Device) {
	p.printf("device %s %04x:%04x", nameText(t.Board), t.Vendor, t.Device)
	p.printOptions(deviceOptions(t))
	p.printf("\n")
}

func deviceOptions(t *lmb.Device) []option {
	readSubsystem := func(p *parser) {
		vendor := p.pciID()
		p.expect(":")
		t.Subsystem = uint32(p.pciID())<<16 | uint32(vendor)
	}
	list := []option{{"subsystem", readSubsystem,
		fmt.Sprintf("%04x:%04x", t.Subsystem&0xffff, t.Subsystem>>16), t.Subsystem != 0}}
	for bar, word := range barWords {
		read := func(p *parser) { t.Bars[bar] = p.size("the smallest size of " + word) }
		list = append(list, option{word, read, sizeText(t.Bars[bar]), t.Bars[bar] != 0})
	}
	for kind := gen.InterruptKindMsi; kind <= gen.InterruptKindMsix; kind++ {
		read := func(p *parser) {
			t.Interrupts = kind
			t.Vectors = uint16(p.numberUpTo("interrupt vectors", fbs.VectorsMax))
		}
		list = append(list, option{interruptWords[kind], read, fmt.Sprint(t.Vectors),
			t.Interrupts == kind})
	}
	return list
}

var interruptWords = []string{gen.InterruptKindMsi: "msi", gen.InterruptKindMsix: "msix"}

// window declares a window. It also declares a window with a mistake, with size 0, so that the
// numbers of the later windows stay right.
func (p *parser) window() {
	number := len(p.image.Windows)
	p.image.Windows = append(p.image.Windows, lmb.Window{})
	if number == fbs.WindowsMax {
		p.fail(p.head, "too many windows: a listing may have at most %d", fbs.WindowsMax)
	}
	w := lmb.Window{Window: fbs.Window{Slot: fbs.AnySlot}}
	w.Name = p.windowName(number)
	if w.Name != "" {
		p.windows[w.Name] = append(p.windows[w.Name], number)
	}
	p.sizeAt, p.deviceAt = p.head, p.tok
	p.windowKind(&w)
	p.parseOptions(windowOptions(&w))
	p.checkWindow(&w)
	p.image.Windows[number] = w
}

func (p *printer) window(index int) {
	w := &p.image.Windows[index]
	name := fmt.Sprintf("w%d", index)
	if w.Name != "" {
		name = nameText(w.Name)
	}
	kind := fmt.Sprintf("bar%d", w.Bar)
	if w.Kind != gen.WindowKindBar {
		kind = wordOf(kindWords, w.Kind)
	}
	p.printf("window %s %s", name, kind)
	p.printOptions(windowOptions(w))
	p.printf("\n")
}

// windowOptions returns the options that a window of this kind may have.
func windowOptions(w *lmb.Window) []option {
	busAddress := fbs.FixedBusAddress(&w.Window)
	list := []option{
		offsetOption(&w.Offset),
		declaredSize(&w.Size),
		{"slot", func(p *parser) { w.Slot = uint16(p.numberUpTo("a slot", fbs.AnySlot-1)) },
			fmt.Sprint(w.Slot), w.Slot != fbs.AnySlot},
		{"bus", func(p *parser) { p.fixedBus(w) }, fmt.Sprintf("0x%x", busAddress),
			busAddress != 0},
		{"wc", func(*parser) { w.Flags |= fbs.FlagWriteCombining }, "",
			w.Flags&fbs.FlagWriteCombining != 0},
	}
	list = append(list, deviceNumberOptions(&w.Device)...)
	return slices.DeleteFunc(list, func(o option) bool {
		return o.word == "offset" && w.Kind != gen.WindowKindBar ||
			o.word == "slot" && w.Kind != gen.WindowKindTlb ||
			o.word == "bus" && w.Kind != gen.WindowKindHost
	})
}

func offsetOption(to *uint64) option {
	return option{"offset", func(p *parser) { *to = p.size("an offset into the BAR") },
		fmt.Sprintf("0x%x", *to), true}
}

func declaredSize(to *uint64) option {
	return option{"size", func(p *parser) {
		p.sizeAt = p.tok
		*to = p.size("a size")
	}, sizeText(*to), true}
}

func deviceNumberOptions(to *uint8) []option {
	read := func(p *parser) {
		p.deviceAt = p.tok
		*to = p.deviceNumber()
	}
	return []option{
		{"device", read, fmt.Sprint(*to), *to != 0},
		{word: "target", read: read}, // the older word
	}
}

// fixedBus consumes the bus address at which a host window must lie.
func (p *parser) fixedBus(w *lmb.Window) {
	w.Flags |= fbs.FlagFixedBus
	w.Offset = p.size("a bus address")
	if w.Offset == 0 || w.Offset%fbs.SegmentAlign != 0 {
		p.fail(p.last, "bus address 0x%x must be a multiple of 4096, and not 0", w.Offset)
	}
}

// windowName consumes the name that a window is declared with. A window that is declared by
// its own number, such as w0, has no name.
func (p *parser) windowName(own int) string {
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

func (p *parser) deviceNumber() uint8 {
	return uint8(p.numberUpTo("the number of a device", fbs.DevicesMax-1))
}

// deviceOf returns a device by number; `whose` names what needs the device in an error.
func (p *parser) deviceOf(number uint8, at token, whose string) *lmb.Device {
	if int(number) >= len(p.image.Devices) {
		p.fail(at, "there is no device %d; declare a device before its %s", number, whose)
	}
	return &p.image.Devices[number]
}

func (p *parser) checkWindow(w *lmb.Window) {
	device := p.deviceOf(w.Device, p.deviceAt, "windows")
	bar := device.Bars[w.Bar]
	switch {
	case w.Size == 0:
		p.fail(p.sizeAt, "the size of the window is missing or 0; add a size such as `size 64KiB`")
	case w.Size > fbs.WindowSizeMax:
		p.fail(p.sizeAt, "the window is too large: a window may have at most 4 GiB")
	case w.Kind == gen.WindowKindBar && bar == 0:
		p.fail(p.deviceAt, "device %s has no bar%d; add the size of bar%d to the declaration of "+
			"the device", device.Board, w.Bar, w.Bar)
	case w.Kind == gen.WindowKindBar && (w.Offset > bar || w.Size > bar-w.Offset):
		p.fail(p.sizeAt, "a window of %s at offset 0x%x ends outside bar%d of %s, whose size is %s",
			lmb.SizeText(w.Size), w.Offset, w.Bar, device.Board, lmb.SizeText(bar))
	case w.Kind == gen.WindowKindTlb && w.Size&(w.Size-1) != 0:
		p.fail(p.sizeAt, "the size of a tlb window must be a power of two")
	case w.Kind == gen.WindowKindConfig && w.Size != 256 && w.Size != 4096:
		p.fail(p.sizeAt, "the size of a config window must be 256 or 4096 bytes")
	}
}

// declareData declares data under a name for tensors and commands. Data with a mistake have no
// bytes.
func (p *parser) declareData() {
	at := p.tok
	name := p.name("data")
	if first, taken := p.blocks[name]; taken {
		p.fail(at, "data %s is already declared in line %d", name, first.line)
	}
	declared := block{line: at.line}
	mistake := fail.Try(func() {
		p.expect("=")
		declared.bytes = p.data()
	})
	p.blocks[name] = declared
	fail.On(mistake)
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
	}
	mistake := fail.Try(func() { p.tensorContent(&t) })
	if mistake != nil {
		t.Role = gen.RoleInvalid
	}
	p.tensors[t.Name] = len(p.image.Tensors)
	p.tensorLines = append(p.tensorLines, at.line)
	p.image.Tensors = append(p.image.Tensors, t)
	fail.On(mistake)
}

// tensorContent consumes the role, the type, the shape and the data of a tensor.
func (p *parser) tensorContent(t *lmb.Tensor) {
	t.Role = gen.Role(p.word("input, output or scratch", roleWords))
	t.DType = gen.DType(p.word("a type such as float32", dtypeWords))
	t.Shape = p.shape(uint64(fbs.DTypeSize(t.DType)))
	if p.accept("=") {
		dataAt := p.tok
		t.Data = p.data()
		if uint64(len(t.Data)) != t.Size() {
			p.fail(dataAt, "tensor %s needs %d bytes, but the data have %d bytes", t.Name, t.Size(),
				len(t.Data))
		}
		if t.Role == gen.RoleOutput {
			p.parseOptions(toleranceOptions(&t.Golden))
		}
	}
}

// shape consumes a shape such as [4x16], or [] for a single element. size is the size of an element
// in bytes.
func (p *parser) shape(size uint64) (dims []uint32) {
	p.expect("[")
	if p.accept("]") {
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
