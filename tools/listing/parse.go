package listing

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/lmb"
)

// Error is one mistake in a listing. Line and Column count from 1; a column is
// a byte.
type Error struct {
	File         string
	Line, Column int
	Reason       string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Reason)
}

// languageVersion stands in the first line of a listing. It is not the format's:
// what a line means has not changed.
const languageVersion = 1

// errorsMax is the number of mistakes after which Parse gives up.
const errorsMax = 20

// Parse reads a listing. name stands in errors; read opens the payload files
// that the listing names, as it spells them. The error joins up to 20 values
// of type *Error.
//
// Fields of lmb.Image that lmb.Encode fills are zero. Parse checks all that can
// be said of one line and what it refers to; fbs.Verify, which lmb.Encode
// calls, checks the rest.
func Parse(name string, source []byte, read func(path string) ([]byte, error)) (*lmb.Image, error) {
	p := newParser(name, read)
	p.feed(string(source))
	if !p.versioned && len(p.errs) == 0 {
		p.failed = false
		p.fail(p.tok, "the listing is empty; it starts with: lightmetal 1")
	}
	p.resolveCalls()
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return p.image, nil
}

// parser reads one line after the other. The first mistake in a line sets
// failed; from then on nothing in that line is consumed or reported.
type parser struct {
	file       string
	read       func(path string) ([]byte, error)
	lex        lexer
	tok, ahead token
	failed     bool
	errs       []error
	head       token    // first token of the line
	seen       []string // options of the line so far

	image         *lmb.Image
	versioned     bool
	windows       map[string][]int // several windows may share a name
	tensors       map[string]int
	sequences     map[string]int
	tensorLines   []int
	sequenceLines []int
	calls         []call
	before        []lmb.Command // of the line, in front of the last
	goldens       int           // outputs made for compares
	patternLeft   uint64
}

// call is a reference to a sequence that may come later.
type call struct {
	at            token
	name          string
	from, command int
}

func newParser(name string, read func(path string) ([]byte, error)) *parser {
	return &parser{
		file: name, read: read, image: &lmb.Image{}, patternLeft: patternMax,
		windows: map[string][]int{}, tensors: map[string]int{}, sequences: map[string]int{},
	}
}

// feed reads more of a listing, whole lines of it.
func (p *parser) feed(source string) {
	p.lex = newLexer(source)
	p.advance()
	p.advance()
	for p.tok.kind != tokenEOF && len(p.errs) < errorsMax {
		p.line()
	}
}

func (p *parser) line() {
	p.failed, p.seen, p.head = false, p.seen[:0], p.tok
	switch {
	case p.tok.kind == tokenLine:
	case !p.versioned:
		p.version()
	case p.ahead.is(":"):
		p.label()
	case len(p.image.Sequences) == 0:
		p.declaration()
	default:
		p.command()
	}
	if !p.failed && !p.tok.endsLine() {
		p.fail(p.tok, "expected end of line, found %s", p.tok)
	}
	for !p.tok.endsLine() {
		p.advance()
	}
	if p.tok.kind == tokenLine {
		p.advance()
	}
}

func (p *parser) advance() { p.tok, p.ahead = p.ahead, p.lex.next() }

func (p *parser) fail(t token, format string, args ...any) {
	if p.failed {
		return
	}
	p.failed = true
	reason := fmt.Sprintf(format, args...)
	if t.kind == tokenBad {
		reason = t.text
	}
	p.errs = append(p.errs, &Error{p.file, t.line, t.column, reason})
}

// accept consumes a sign or a word if it comes next.
func (p *parser) accept(text string) bool {
	if p.failed || !p.tok.is(text) && !p.tok.isWord(text) {
		return false
	}
	p.advance()
	return true
}

func (p *parser) expect(text string) {
	if !p.accept(text) {
		p.fail(p.tok, "expected %q, found %s", text, p.tok)
	}
}

// word consumes one of the words and gives its index.
func (p *parser) word(what string, words []string) int {
	for i, w := range words {
		if w != "" && p.accept(w) {
			return i
		}
	}
	p.fail(p.tok, "expected %s, found %s%s", what, p.tok, closest(p.tok.text, spoken(words)))
	return 0
}

// option consumes the next option of the line, each at most once. It gives ""
// at the end of the line, and after a mistake.
func (p *parser) option(options ...string) string {
	if p.failed || p.tok.endsLine() {
		return ""
	}
	for _, o := range options {
		if !p.tok.isWord(o) {
			continue
		}
		if slices.Contains(p.seen, o) {
			p.fail(p.tok, "%s is here twice", o)
			return ""
		}
		p.seen = append(p.seen, o)
		p.advance()
		return o
	}
	p.fail(p.tok, "expected %s or end of line, found %s%s", strings.Join(options, ", "), p.tok, closest(p.tok.text, options))
	return ""
}

// name consumes a name, bare or in quotes.
func (p *parser) name(what string) string {
	t := p.tok
	switch {
	case p.failed:
		return ""
	case t.kind != tokenString && (t.kind != tokenWord || !isName(t.text)):
		p.fail(t, "expected the name of %s, found %s", what, t)
		return ""
	case t.text == "" || len(t.text) > fbs.NameMax:
		p.fail(t, "a name has 1 to %d bytes, this one has %d", fbs.NameMax, len(t.text))
		return ""
	}
	p.advance()
	return t.text
}

func (p *parser) text(what string) string {
	if !p.failed && p.tok.kind != tokenString {
		p.fail(p.tok, "expected %s in quotes, found %s", what, p.tok)
	}
	t := p.tok
	if !p.failed {
		p.advance()
	}
	return t.text
}

func (p *parser) version() {
	p.versioned = true // said once is enough
	if !p.tok.isWord("lightmetal") {
		p.fail(p.tok, "a listing starts with: lightmetal 1")
		return
	}
	p.advance()
	at := p.tok
	if v := p.number("a version"); v != languageVersion {
		p.fail(at, "this is a listing of version %d, and only version %d is known", v, languageVersion)
	}
}

var declarations = map[string]func(*parser){
	"origin": (*parser).origin, "target": (*parser).target, "rule": (*parser).rule, "window": (*parser).window, "tensor": (*parser).tensor,
}

var declarationWords = []string{"origin", "target", "rule", "window", "tensor"}

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
	p.fail(p.tok, "expected a declaration or a label, found %s%s", p.tok, hint(p.tok.text, declarationWords))
}

func (p *parser) origin() {
	o := &p.image.Origin
	if *o != (lmb.Origin{}) {
		p.fail(p.head, "origin is here twice")
	}
	for {
		switch p.option("tool", "source", "time", "git") {
		case "tool":
			o.Tool = p.text("a tool")
		case "source":
			o.Source = p.text("a source")
		case "time":
			o.Time = p.number("seconds since 1970")
		case "git":
			o.Git = p.text("a revision")
		default:
			return
		}
	}
}

var barWords = []string{"bar0", "bar1", "bar2", "bar3", "bar4", "bar5"}

func (p *parser) target() {
	if len(p.image.Targets) == fbs.TargetsMax {
		p.fail(p.head, "more than %d targets", fbs.TargetsMax)
	}
	t := lmb.Target{Board: p.name("a board")}
	t.Vendor = p.pciID()
	p.expect(":")
	t.Device = p.pciID()
	options := append([]string{"subsystem"}, barWords...)
	for {
		option := p.option(options...)
		if option == "" {
			break
		}
		if option == "subsystem" {
			vendor := p.pciID()
			p.expect(":")
			t.Subsystem = uint32(p.pciID())<<16 | uint32(vendor)
			continue
		}
		t.Bars[option[len("bar")]-'0'] = p.size("the least size of " + option)
	}
	p.image.Targets = append(p.image.Targets, t)
}

// window declares a window. One with a mistake is declared with size 0, so
// that the numbers of the windows after it stay right.
func (p *parser) window() {
	if len(p.image.Windows) == fbs.WindowsMax {
		p.fail(p.head, "more than %d windows", fbs.WindowsMax)
	}
	w := lmb.Window{Window: fbs.Window{Slot: fbs.NoSlot}}
	w.Name = p.windowName()
	kindAt := p.tok
	options := p.windowKind(&w)
	sizeAt, targetAt := p.head, kindAt
	for {
		option := p.option(options...)
		if option == "" {
			break
		}
		at := p.tok
		switch option {
		case "offset":
			w.Offset = p.size("an offset into the BAR")
		case "size":
			sizeAt = at
			w.Size = p.size("a size")
		case "wc":
			w.Flags = fbs.FlagWriteCombining
		case "slot":
			w.Slot = uint16(p.numberTo("a slot", fbs.NoSlot-1))
		case "target":
			targetAt = at
			w.Device = uint8(p.numberTo("the number of a target", fbs.TargetsMax-1))
		}
	}
	p.checkWindow(&w, sizeAt, targetAt)
	if p.failed {
		w.Size = 0
	}
	if w.Name != "" {
		p.windows[w.Name] = append(p.windows[w.Name], len(p.image.Windows))
	}
	p.image.Windows = append(p.image.Windows, w)
}

// windowName is the name a window is declared with: its number, as in w0,
// leaves it without one.
func (p *parser) windowName() string {
	own := len(p.image.Windows)
	n, numbered := windowNumber(p.tok.text)
	switch {
	case !numbered || p.tok.kind != tokenWord:
		return p.name("a window")
	case n != own:
		p.fail(p.tok, "w and a number stands for a window without a name, and this one is w%d", own)
	}
	p.accept(p.tok.text)
	return ""
}

var windowKinds = slices.Concat(barWords, spoken(kindWords))

// windowKind gives the options of the kind.
func (p *parser) windowKind(w *lmb.Window) []string {
	kind := windowKinds[p.word("bar0 to bar5, tlb, host or config", windowKinds)]
	if bar := slices.Index(barWords, kind); bar >= 0 {
		w.Kind, w.Bar = gen.WindowKindBar, uint8(bar)
		return []string{"offset", "size", "wc", "target"}
	}
	w.Kind = gen.WindowKind(slices.Index(kindWords, kind))
	if w.Kind == gen.WindowKindTlb {
		return []string{"size", "slot", "wc", "target"}
	}
	return []string{"size", "wc", "target"}
}

func (p *parser) checkWindow(w *lmb.Window, sizeAt, targetAt token) {
	if p.failed {
		return
	}
	if int(w.Device) >= len(p.image.Targets) {
		p.fail(targetAt, "there is no target %d; targets are declared before their windows", w.Device)
		return
	}
	target := &p.image.Targets[w.Device]
	bar := target.Bars[w.Bar]
	switch {
	case w.Size == 0:
		p.fail(sizeAt, "a window has a size, as in size 64KiB")
	case w.Size > fbs.WindowMax:
		p.fail(sizeAt, "a window has at most 4GiB")
	case w.Kind == gen.WindowKindBar && bar == 0:
		p.fail(targetAt, "the target %s declares no bar%d", target.Board, w.Bar)
	case w.Kind == gen.WindowKindBar && (w.Offset > bar || w.Size > bar-w.Offset):
		p.fail(sizeAt, "%s at 0x%x reach outside bar%d of %s, which has %s",
			bytesText(w.Size), w.Offset, w.Bar, target.Board, bytesText(bar))
	case w.Kind == gen.WindowKindTlb && w.Size&(w.Size-1) != 0:
		p.fail(sizeAt, "the size of a tlb window is a power of two")
	case w.Kind == gen.WindowKindConfig && w.Size != 256 && w.Size != 4096:
		p.fail(sizeAt, "configuration space has 256 or 4096 bytes")
	}
}

// tensor declares a tensor. One with a mistake is declared without a role.
func (p *parser) tensor() {
	if len(p.image.Tensors) == fbs.TensorsMax {
		p.fail(p.head, "more than %d tensors", fbs.TensorsMax)
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
			p.fail(dataAt, "%s has %d bytes, these are %d", t.Name, t.Size(), len(t.Data))
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
			p.fail(at, "a dimension of a shape is not 0; shapes are decimal")
		case n > 1<<32-1 || n > fbs.BytesMax/size:
			p.fail(at, "a tensor has at most 64TiB and 2^32-1 elements along a dimension")
		case len(dims) == fbs.DimsMax:
			p.fail(at, "a shape has at most %d dimensions", fbs.DimsMax)
		}
		if p.failed {
			return nil
		}
		dims = append(dims, uint32(n))
		size *= n
	}
	p.advance()
	if p.tok.is(",") {
		p.fail(p.tok, "the dimensions of a shape are separated by x, as in 4x16")
	}
	p.expect("]")
	return dims
}

func (p *parser) label() {
	at := p.tok
	name := p.name("a sequence")
	p.expect(":")
	if first, taken := p.sequences[name]; taken {
		p.fail(at, "sequence %s starts in line %d already", name, p.sequenceLines[first])
	} else {
		p.sequences[name] = len(p.image.Sequences)
	}
	if len(p.image.Sequences) == fbs.SequencesMax {
		p.fail(at, "more than %d sequences", fbs.SequencesMax)
	}
	p.sequenceLines = append(p.sequenceLines, at.line)
	p.image.Sequences = append(p.image.Sequences, lmb.Sequence{Name: name})
}

// resolveCalls fills the references to sequences when all are known.
func (p *parser) resolveCalls() {
	callers := map[int]bool{}
	for _, c := range p.calls {
		callers[c.from] = true
	}
	for _, c := range p.calls {
		if len(p.errs) >= errorsMax {
			return
		}
		p.failed = false
		index, ok := p.sequences[c.name]
		switch {
		case !ok:
			p.fail(c.at, "there is no sequence %s%s", c.name, hint(c.name, p.sequenceNames()))
		case callers[index]:
			p.fail(c.at, "%s holds a call itself, and calls do not nest", c.name)
		default:
			p.image.Sequences[c.from].Commands[c.command].Index = uint16(index)
		}
	}
}

func (p *parser) sequenceNames() (names []string) {
	for i := range p.image.Sequences {
		names = append(names, p.image.Sequences[i].Name)
	}
	return names
}
