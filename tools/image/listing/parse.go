package listing

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/tools/image/lmb"
)

// Error is one mistake in a listing. Line and Column count from 1; a column is a byte.
type Error struct {
	File         string
	Line, Column int
	Reason       string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Reason)
}

// languageVersion is the version of the language, in the first line of a listing. It is
// independent of the version of the format.
const languageVersion = 1

// errorsMax is the number of mistakes after which Parse gives up.
const errorsMax = 20

// Parse reads a listing. name is for errors; read opens the payload files
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
		p.fail(p.tok, "the listing is empty; the first line must be: lightmetal 1")
	}
	p.resolveCalls()
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return p.image, nil
}

// LineOf returns the line of a listing that a command of its image comes from, by its index
// in the image; 0 means none. The other arguments are those of Parse.
func LineOf(source []byte, read func(path string) ([]byte, error), command int) int {
	p := newParser("", read)
	p.wanted = command + 1
	p.feed(string(source))
	return p.found
}

// countCommand counts a command of the image, and notes the line of the one that is wanted.
func (p *parser) countCommand(line int) {
	if p.made++; p.made == p.wanted {
		p.found = line
	}
}

// parser reads one line after the other. The first mistake in a line sets
// failed; from then on nothing in that line is consumed or reported.
type parser struct {
	file       string
	read       func(path string) ([]byte, error)
	lex        lexer
	tok, ahead token
	last       token // consumed
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
	files         map[string][]byte // that were read, by path as the listing spells it
	blocks        map[string]block  // declared data
	made          int               // commands of the image, the ends of sequences too
	wanted, found int               // one of them, from 1, and its line
}

// block is data that were declared under a name.
type block struct {
	bytes []byte
	line  int
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
		files: map[string][]byte{}, blocks: map[string]block{},
	}
}

// feed reads more of a listing, whole lines of it.
func (p *parser) feed(source string) {
	p.lex = lexer{source: source, line: 1}
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

func (p *parser) advance() { p.last, p.tok, p.ahead = p.tok, p.ahead, p.lex.next() }

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

// word consumes one of the words and returns its index.
func (p *parser) word(what string, words []string) int {
	for i, w := range words {
		if w != "" && p.accept(w) {
			return i
		}
	}
	p.fail(p.tok, "expected %s, found %s%s", what, p.tok, closest(p.tok.text, nonEmpty(words)))
	return 0
}

// option consumes the next option of the line, each at most once. It returns "" at the end
// of the line, and after an error.
func (p *parser) option(options ...string) string {
	if p.failed || p.tok.endsLine() {
		return ""
	}
	for _, o := range options {
		if !p.tok.isWord(o) {
			continue
		}
		if slices.Contains(p.seen, o) {
			p.fail(p.tok, "%s is named twice on this line", o)
			return ""
		}
		p.seen = append(p.seen, o)
		p.advance()
		return o
	}
	p.fail(p.tok, "expected %s or end of line, found %s%s", strings.Join(options, ", "), p.tok,
		closest(p.tok.text, options))
	return ""
}

// setting is an option, and what reads the rest of it.
type setting struct {
	word string
	read func()
}

// settings consumes the options that the line ends with.
func (p *parser) settings(list ...setting) {
	var words []string
	for _, s := range list {
		words = append(words, s.word)
	}
	for word := p.option(words...); word != ""; word = p.option(words...) {
		list[slices.Index(words, word)].read()
	}
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
		p.fail(t, "a name must have 1 to %d bytes, this one has %d", fbs.NameMax, len(t.text))
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
	p.versioned = true // one error is enough
	if !p.tok.isWord("lightmetal") {
		p.fail(p.tok, "the first line of a listing must be: lightmetal 1")
		return
	}
	p.advance()
	if v := p.number("a version"); v != languageVersion {
		p.fail(p.last, "this listing has version %d; this program reads version %d", v,
			languageVersion)
	}
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
		p.fail(at, "too many sequences: at most %d", fbs.SequencesMax)
	}
	if len(p.image.Sequences) > 0 {
		p.countCommand(at.line) // End
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
			p.fail(c.at, "there is no sequence %s%s", c.name,
				hint(c.name, slices.Sorted(maps.Keys(p.sequences))))
		case callers[index]:
			p.fail(c.at, "%s contains a call; a sequence that is called must not call others",
				c.name)
		default:
			p.image.Sequences[c.from].Commands[c.command].Index = uint16(index)
		}
	}
}
