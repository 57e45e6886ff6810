package listing

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
)

// Print writes the canonical listing of an image. The listing contains all payload, so it needs no
// other file. Payload that several tensors or commands use is declared once, so the listing is not
// much larger than the payload. Print parses every line back and compares it with the image;
// therefore a listing without an error means exactly that image. An image that fbs.Verify rejects
// may not be expressible in a listing: then Print returns an error, as it does if w fails.
func Print(w io.Writer, image *lmb.Image) error { return printListing(w, image, false) }

// PrintNumbered is like Print, but adds the position of each command as a comment, in the same form
// as in messages: "main, command 3". Numbers start at 0 in each sequence; marks are not counted.
func PrintNumbered(w io.Writer, image *lmb.Image) error { return printListing(w, image, true) }

func printListing(w io.Writer, image *lmb.Image, numbered bool) (err error) {
	defer fail.Catch(&err)
	p := newPrinter(image)
	p.column, p.writePayload, p.firstGolden = len("compare.4"), p.sharedOrBlock,
		firstGolden(image, true)
	p.shared = image.Shared()
	p.check, p.to = newParser("", nil), bufio.NewWriter(w)

	p.header()
	p.finish(func() bool { return p.isHeader(p.check.image) }, "the declarations")
	p.sharedData()
	p.tensors()
	for i := range image.Sequences {
		s := &image.Sequences[i]
		p.printf("\n%s:\n", nameText(s.Name))
		p.finish(func() bool { return p.check.image.Sequences[i].Name == s.Name },
			"sequence %d", i)
		p.commands(s, numbered)
	}
	return p.to.Flush()
}

// sharedData writes the declarations of shared data, one at a time, so that at most one is in
// memory as text. The image's bytes then replace the parser's copy: the copy is freed, and
// comparing bytes at one address takes no time.
func (p *printer) sharedData() {
	for i, data := range p.shared.Blocks {
		name := blockName(i)
		p.printf("data %s = ", name)
		p.block(data, "")
		p.printf("\n")
		p.finish(func() bool { return bytes.Equal(p.check.blocks[name].bytes, data) },
			"data %s", name)
		p.check.blocks[name] = block{bytes: data}
	}
}

// tensors writes declarations one at a time, for the reasons of sharedData.
func (p *printer) tensors() {
	for i := range p.image.Tensors[:p.firstGolden] {
		t := &p.image.Tensors[i]
		p.tensor(t)
		p.finish(func() bool {
			return len(p.check.image.Tensors) == i+1 && sameTensor(*t, p.check.image.Tensors[i])
		}, "tensor %d", i)
		p.check.image.Tensors[i].Data = t.Data
	}
}

// commands writes the commands of a sequence, with comments that number them if `numbered` is true.
func (p *printer) commands(s *lmb.Sequence, numbered bool) {
	number := 0
	for c := range s.All() {
		p.printf("  ")
		p.printCommand(c)
		isMark := c.Opcode == lmb.OpcodeMark
		if numbered && !isMark {
			p.printf("  # %s, command %d", s.Name, number)
		}
		p.printf("\n")
		p.finish(func() bool { return p.isCommand(p.check, c) },
			"command %d of %s", number, s.Name)
		if !isMark {
			number++
		}
	}
}

func blockName(number int) string { return fmt.Sprintf("d%d", number) }

// CommandText returns a command of an image as one line, for errors and reports. It contains only
// the first 16 bytes of payload, and a question mark and a number for a value that a listing cannot
// express. For a complete image, Print is faster.
func CommandText(image *lmb.Image, c *lmb.Command) string {
	p := newPrinter(image)
	p.writePayload = p.shortBlock
	p.printCommand(c)
	return p.out.String()
}

// WindowNames returns the name of each window of an image as commands in a listing have it.
func WindowNames(image *lmb.Image) []string { return newPrinter(image).labels }

// printer writes text to out. column is the width of the column of mnemonics.
type printer struct {
	image        *lmb.Image
	out          bytes.Buffer
	labels       []string // name of each window in commands
	firstGolden  int      // index of the first tensor that is written as a compare
	column       int
	shared       *lmb.SharedData // data that is declared once
	writePayload func(data []byte, indent string)

	// For Print:
	check *parser       // parses what is written
	to    *bufio.Writer // keeps its first error until Flush
}

func newPrinter(image *lmb.Image) *printer {
	p := &printer{image: image, firstGolden: firstGolden(image, false)}
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

// nameText returns a name, in quotes if it could be mistaken for something else.
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
	p.captures()
	for i := range p.image.Devices {
		p.device(&p.image.Devices[i])
	}
	for i := range p.image.Rules {
		p.rule(&p.image.Rules[i])
	}
	for i := range p.image.Windows {
		p.window(i)
	}
	for i := range p.image.Rings {
		p.ring(&p.image.Rings[i])
	}
}

func (p *printer) tensor(t *lmb.Tensor) {
	p.printf("tensor %s %s %s[", nameText(t.Name), wordOf(roleWords, t.Role),
		wordOf(dtypeWords, t.DType))
	for i, n := range t.Shape {
		if i > 0 {
			p.printf("x")
		}
		p.printf("%d", n)
	}
	p.printf("]")
	if t.Data != nil {
		p.printf(" = ")
		p.writePayload(t.Data, "")
	}
	p.judgement(&t.Golden)
	p.printf("\n")
}

// firstGolden returns the index of the first output that is written as a compare; such outputs are
// the last tensors. If `whole` is true and the commands that fill these outputs are not exactly
// those that compares make, firstGolden returns the number of tensors.
func firstGolden(image *lmb.Image, whole bool) int {
	all := len(image.Tensors)
	first := all
	for first > 0 && image.Tensors[first-1].Golden.Kind != 0 &&
		strings.HasPrefix(image.Tensors[first-1].Name, goldenPrefix) {
		first--
	}
	if first == all || !whole {
		return first
	}
	next := first
	for i := range image.Sequences {
		for c := range image.Sequences[i].All() {
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

// isGolden reports whether a copy and its output are those that the n-th compare with a tolerance
// makes.
func isGolden(image *lmb.Image, c *lmb.Command, n int) bool {
	t := &image.Tensors[c.Index-1]
	size := uint64(fbs.DTypeSize(t.DType))
	return t.Name == fmt.Sprintf("%s%d", goldenPrefix, n) && len(t.Shape) == 1 &&
		uint64(c.Amount) == t.Size() && c.Value == 0 &&
		gen.Access(c.Mode) == gen.AccessExact && size != 0 && uint64(c.Offset)%size == 0
}

// blockLine is the number of payload bytes on a line.
const blockLine = 32

// block writes data on the current line if they fit, otherwise as a block with an indented closing
// brace.
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

// sharedOrBlock writes data by name if they are declared, otherwise as block does.
func (p *printer) sharedOrBlock(data []byte, indent string) {
	number, offset, ok := p.shared.Find(data)
	if !ok {
		p.block(data, indent)
		return
	}
	p.printf("data %s", blockName(number))
	if offset != 0 {
		p.printf(" from 0x%x", offset)
	}
	if size := uint64(len(data)); offset+size != uint64(len(p.shared.Blocks[number])) {
		p.printf(" size %s", sizeText(size))
	}
}

// shortBlock writes the first bytes of data.
func (p *printer) shortBlock(data []byte, _ string) {
	const shown = 16
	if len(data) <= shown {
		p.block(data, "")
		return
	}
	p.printf("hex ")
	p.hexWords(data[:shown])
	p.printf(" ... (%s)", lmb.SizeText(uint64(len(data))))
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
