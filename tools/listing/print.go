package listing

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/lmb"
)

// Print writes the canonical listing of an image. It holds all payload, so it
// needs no other file. Every line is parsed back and held against the image:
// what Print writes without an error means that image and no other. An image
// that fbs.Verify refuses may be one that no listing can hold; that is an
// error, and so is a failing w.
func Print(w io.Writer, image *lmb.Image) error {
	p := newPrinter(image)
	p.column, p.bytes, p.golden = len("compare.4"), p.block, firstGolden(image, true)
	check := newParser("", nil)
	out := bufio.NewWriter(w) // keeps its first error until Flush

	p.header()
	if why := p.checkHeader(check); why != "" {
		return fmt.Errorf("listing: the declarations cannot be written: %s", why)
	}
	for i := range image.Sequences {
		s := &image.Sequences[i]
		p.out.WriteTo(out)
		p.printf("\n%s:\n", nameText(s.Name))
		if why := p.checkLabel(check, s.Name); why != "" {
			return fmt.Errorf("listing: sequence %d cannot be written: %s", i, why)
		}
		for j := range s.Commands {
			p.out.WriteTo(out)
			p.printf("  ")
			p.command(&s.Commands[j])
			p.printf("\n")
			if why := p.checkCommand(check, &s.Commands[j]); why != "" {
				return fmt.Errorf("listing: %s: command %d cannot be written: %s", s.Name, j, why)
			}
		}
	}
	p.out.WriteTo(out)
	return out.Flush()
}

// CommandText is one command of an image as one line, for errors and reports.
// Only the first 16 bytes of payload are shown, and what has no text in the
// language is shown as a question mark and a number. Print is the fast way to
// the text of a whole image.
func CommandText(image *lmb.Image, c *lmb.Command) string {
	p := newPrinter(image)
	p.bytes = p.brief
	p.command(c)
	return p.out.String()
}

// printer collects text in out. column is the width of the column of
// mnemonics, bytes writes payload.
type printer struct {
	image  *lmb.Image
	out    bytes.Buffer
	labels []string // what each window is called in commands
	golden int      // the first tensor that is written as a compare
	column int
	bytes  func(data []byte, indent string)
}

func newPrinter(image *lmb.Image) *printer {
	p := &printer{image: image, golden: firstGolden(image, false)}
	count := map[string]int{}
	for i := range image.Windows {
		count[image.Windows[i].Name]++
	}
	for i := range image.Windows {
		label := fmt.Sprintf("w%d", i)
		if name := image.Windows[i].Name; name != "" && count[name] == 1 {
			label = nameText(name)
		}
		p.labels = append(p.labels, label)
	}
	return p
}

// nameText is a name, in quotes if it could be taken for something else.
func nameText(name string) string {
	if _, numbered := windowNumber(name); numbered || !isName(name) {
		return strconv.Quote(name)
	}
	return name
}

func (p *printer) printf(format string, args ...any) { fmt.Fprintf(&p.out, format, args...) }

func (p *printer) header() {
	p.printf("lightmetal %d\n", languageVersion)
	p.origin()
	for i := range p.image.Targets {
		t := &p.image.Targets[i]
		p.printf("target %s %04x:%04x", nameText(t.Board), t.Vendor, t.Device)
		if t.Subsystem != 0 {
			p.printf(" subsystem %04x:%04x", t.Subsystem&0xffff, t.Subsystem>>16)
		}
		for bar, size := range t.Bars {
			if size != 0 {
				p.printf(" bar%d %s", bar, sizeText(size))
			}
		}
		p.printf("\n")
	}
	for i := range p.image.Rules {
		p.rule(&p.image.Rules[i])
	}
	for i := range p.image.Windows {
		p.window(i)
	}
	for i := range p.image.Tensors[:p.golden] {
		p.tensor(&p.image.Tensors[i])
	}
}

func (p *printer) origin() {
	o := &p.image.Origin
	if *o == (lmb.Origin{}) {
		return
	}
	p.printf("origin")
	for _, field := range [...]struct{ word, text string }{{"tool", o.Tool}, {"source", o.Source}, {"git", o.Git}} {
		if field.text != "" {
			p.printf(" %s %s", field.word, strconv.Quote(field.text))
		}
	}
	if o.Time != 0 {
		p.printf(" time %d", o.Time)
	}
	p.printf("\n")
}

func (p *printer) window(index int) {
	w := &p.image.Windows[index]
	name := fmt.Sprintf("w%d", index)
	if w.Name != "" {
		name = nameText(w.Name)
	}
	if w.Kind == gen.WindowKindBar {
		p.printf("window %s bar%d offset 0x%x", name, w.Bar, w.Offset)
	} else {
		p.printf("window %s %s", name, wordOf(kindWords, w.Kind))
	}
	p.printf(" size %s", sizeText(w.Size))
	if w.Slot != fbs.NoSlot {
		p.printf(" slot %d", w.Slot)
	}
	if w.Flags&fbs.FlagWriteCombining != 0 {
		p.printf(" wc")
	}
	if w.Device != 0 {
		p.printf(" target %d", w.Device)
	}
	p.printf("\n")
}

func (p *printer) tensor(t *lmb.Tensor) {
	p.printf("tensor %s %s %s[", nameText(t.Name), wordOf(roleWords, t.Role), wordOf(dtypeWords, t.DType))
	for i, n := range t.Shape {
		if i > 0 {
			p.printf("x")
		}
		p.printf("%d", n)
	}
	p.printf("]")
	if t.Data != nil {
		p.printf(" = ")
		p.bytes(t.Data, "")
	}
	p.judgement(&t.Golden)
	p.printf("\n")
}

func (p *printer) judgement(g *lmb.Golden) {
	switch g.Kind {
	case gen.JudgementInvalid:
	case gen.JudgementTolerance:
		p.printf(" absolute %s relative %s",
			float32Text(g.First, 0, math.MaxFloat32), float32Text(g.Second, 0, math.MaxFloat32))
	case gen.JudgementCorrelation:
		p.printf(" correlation %s", float32Text(g.First, -1, 1))
	default:
		p.printf(" %s", unknown(int(g.Kind)))
	}
}

// firstGolden is the first of the outputs, at the end of all tensors, that
// compares made: they are written as these. It is the number of all where the
// commands that fill them are not those that compares would make.
func firstGolden(image *lmb.Image, whole bool) int {
	all := len(image.Tensors)
	first := all
	for first > 0 && image.Tensors[first-1].Golden.Kind != 0 && strings.HasPrefix(image.Tensors[first-1].Name, goldenPrefix) {
		first--
	}
	if first == all || !whole {
		return first
	}
	next := first
	for i := range image.Sequences {
		for j := range image.Sequences[i].Commands {
			c := &image.Sequences[i].Commands[j]
			if c.Opcode != gen.OpcodeCopyOut || int(c.Index) <= first {
				continue
			}
			if int(c.Index) != next+1 || next == all || !isGolden(image, c, next-first) {
				return all
			}
			next++
		}
	}
	if next != all {
		return all
	}
	return first
}

// isGolden tells whether a copy and its output are what the n-th compare with a
// tolerance makes.
func isGolden(image *lmb.Image, c *lmb.Command, n int) bool {
	t := &image.Tensors[c.Index-1]
	size := uint64(fbs.DTypeSize(t.DType))
	return t.Name == fmt.Sprintf("%s%d", goldenPrefix, n) && len(t.Shape) == 1 && uint64(c.Amount) == t.Size() && c.Value == 0 &&
		gen.Access(c.Mode) == gen.AccessExact && size != 0 && uint64(c.Offset)%size == 0
}

// blockLine is the number of payload bytes on a line.
const blockLine = 32

// block writes all of data: on the line if it fits, else as a block whose
// closing brace stands at the indent.
func (p *printer) block(data []byte, indent string) {
	switch {
	case len(data) == 0:
		p.printf("hex {}")
		return
	case len(data) <= blockLine:
		p.printf("hex ")
		p.hexWords(data)
		return
	}
	p.printf("hex {\n")
	for line := range slices.Chunk(data, blockLine) {
		p.printf("%s  ", indent)
		p.hexWords(line)
		p.printf("\n")
	}
	p.printf("%s}", indent)
}

// brief writes the start of data.
func (p *printer) brief(data []byte, _ string) {
	const shown = 16
	if len(data) <= shown {
		p.block(data, "")
		return
	}
	p.printf("hex ")
	p.hexWords(data[:shown])
	p.printf(" ... (%s)", bytesText(uint64(len(data))))
}

func (p *printer) hexWords(data []byte) {
	line := p.out.AvailableBuffer()
	for i := 0; i < len(data); i += 4 {
		if i > 0 {
			line = append(line, ' ')
		}
		line = hex.AppendEncode(line, data[i:min(i+4, len(data))])
	}
	p.out.Write(line)
}

// start writes the word of a command and, with a width, its size.
func (p *printer) start(word string, width uint8) {
	if width != 0 {
		word = fmt.Sprintf("%s.%d", word, width)
	}
	p.printf("%-*s ", p.column, word)
}

func (p *printer) windowText(index uint16) string {
	if int(index) < len(p.labels) {
		return p.labels[index]
	}
	return unknown(int(index))
}

func (p *printer) reference(c *lmb.Command) string {
	return fmt.Sprintf("%s+0x%x", p.windowText(c.Window), c.Offset)
}

func (p *printer) sliceText(c *lmb.Command) string {
	name := unknown(int(c.Index))
	if c.Index != 0 && int(c.Index) <= len(p.image.Tensors) {
		name = nameText(p.image.Tensors[c.Index-1].Name)
	}
	return fmt.Sprintf("%s[%d:%d]", name, c.Value, c.Value+uint64(c.Amount))
}

// source writes the payload or the slice of an input that a command takes.
func (p *printer) source(c *lmb.Command) {
	if c.Index == 0 {
		p.bytes(c.Data, "  ")
	} else {
		p.printf("%s", p.sliceText(c))
	}
}

func (p *printer) command(c *lmb.Command) {
	switch c.Opcode {
	case gen.OpcodeWrite, gen.OpcodeChange, gen.OpcodeAddress:
		p.write(c)
	case gen.OpcodeCopyIn:
		p.start("copy", c.Width)
		p.printf("%s <- ", p.reference(c))
		p.source(c)
		p.access(c)
	case gen.OpcodeFill:
		p.start("fill", c.Width)
		p.printf("%s <- 0x%x size %s", p.reference(c), c.Value, sizeText(uint64(c.Amount)))
		p.access(c)
	case gen.OpcodeCopyOut:
		p.copyOut(c)
	case gen.OpcodeCheck:
		p.check(c)
		p.policy(c)
	case gen.OpcodeCompare:
		p.start("compare", c.Width)
		p.printf("%s %s == ", p.reference(c), wordOf(unsignedWords, c.Width))
		p.source(c)
		p.policy(c)
	case gen.OpcodePoint:
		p.point(c)
	case gen.OpcodeFence:
		p.printf("fence")
	case gen.OpcodeDelay:
		p.start("delay", 0)
		p.printf("%s", durationText(uint64(c.Amount)))
	case gen.OpcodeCall:
		p.start("call", 0)
		p.printf("%s", p.sequenceText(c.Index))
	case lmb.OpcodeMark:
		p.start(wordOf(markWords, c.Mode), 0)
		p.printf("%s", strconv.Quote(string(c.Data)))
	default:
		p.printf("%s", unknown(int(c.Opcode)))
	}
}

// unsignedWords are the types that an exact compare is written with, by width.
var unsignedWords = []string{1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}

func (p *printer) copyOut(c *lmb.Command) {
	if tensor := int(c.Index) - 1; tensor >= p.golden && tensor < len(p.image.Tensors) {
		t := &p.image.Tensors[tensor]
		p.start("compare", c.Width)
		p.printf("%s %s == ", p.reference(c), wordOf(dtypeWords, t.DType))
		p.bytes(t.Data, "  ")
		p.judgement(&t.Golden)
		return
	}
	p.start("copy", c.Width)
	p.printf("%s <- %s", p.sliceText(c), p.reference(c))
	p.access(c)
}

func (p *printer) sequenceText(index uint16) string {
	if int(index) < len(p.image.Sequences) {
		return nameText(p.image.Sequences[index].Name)
	}
	return unknown(int(index))
}

func (p *printer) write(c *lmb.Command) {
	p.start("write", c.Width)
	p.printf("%s ", p.reference(c))
	switch c.Opcode {
	case gen.OpcodeWrite:
		p.printf("0x%x", c.Value)
	case gen.OpcodeChange:
		p.printf("0x%x mask 0x%x", c.Value, c.Mask)
	case gen.OpcodeAddress:
		p.printf("bus(%s)", p.windowText(c.Index))
		if c.Value != 0 {
			p.printf("+0x%x", c.Value)
		}
	}
}

func (p *printer) access(c *lmb.Command) {
	if gen.Access(c.Mode) != gen.AccessExact {
		p.printf(" %s", wordOf(accessWords, c.Mode))
	}
}

func (p *printer) check(c *lmb.Command) {
	switch {
	case c.Amount != 0:
		p.start("poll", c.Width)
		p.printf("%s %s within %s", p.reference(c), conditionText(c), durationText(uint64(c.Amount)))
		if c.Index != 0 {
			p.printf(" every %s", durationText(uint64(c.Index)))
		}
	case gen.Condition(c.Mode) == gen.ConditionEqual && c.Mask == 0 && c.Value == 0:
		p.start("read", c.Width)
		p.printf("%s", p.reference(c))
	default:
		p.start("expect", c.Width)
		p.printf("%s %s", p.reference(c), conditionText(c))
	}
}

func conditionText(c *lmb.Command) string {
	sign := ""
	switch gen.Condition(c.Mode) {
	case gen.ConditionEqual:
		sign = "=="
	case gen.ConditionNotEqual:
		sign = "!="
	default:
		sign = unknown(int(c.Mode))
	}
	if c.Mask == fbs.WidthMask(c.Width) {
		return fmt.Sprintf("%s 0x%x", sign, c.Value)
	}
	return fmt.Sprintf("& 0x%x %s 0x%x", c.Mask, sign, c.Value)
}

func (p *printer) policy(c *lmb.Command) {
	if gen.Policy(c.Option) != gen.PolicyFail {
		p.printf(" else %s", wordOf(policyWords, c.Option))
	}
}

func (p *printer) point(c *lmb.Command) {
	p.start("point", 0)
	t, ok := boards.UnpackTarget(c.Mask)
	switch {
	case !ok:
		p.printf("%s %s 0x%x", p.windowText(c.Window), unknown(0), c.Mask)
		return
	case t.Multicast:
		p.printf("%s tiles %d,%d to %d,%d", p.windowText(c.Window), t.XStart, t.YStart, t.X, t.Y)
	default:
		p.printf("%s tile %d,%d", p.windowText(c.Window), t.X, t.Y)
	}
	p.printf(" address 0x%x", c.Value)
	if t.Ordering != gen.OrderingDefault {
		p.printf(" ordering %s", wordOf(orderingWords, t.Ordering))
	}
	if t.NoC != 0 {
		p.printf(" noc %d", t.NoC)
	}
	if t.StaticVC != 0 {
		p.printf(" vc %d", t.StaticVC-1)
	}
}
