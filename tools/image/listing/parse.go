package listing

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/tools/image/fail"
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

// errorsMax is the number of mistakes after which Parse stops.
const errorsMax = 20

// Parse parses a listing. name is used in errors. read returns the payload file at a path in the
// listing; if read is nil, naming a file is an error. The error joins up to 20 values of type
// *Error.
//
// Fields of lmb.Image that lmb.Encode fills are zero. Parse checks each line and the declarations
// that it refers to. fbs.Verify, which lmb.Encode calls, checks the rest.
func Parse(name string, source []byte, read func(path string) ([]byte, error)) (*lmb.Image, error) {
	p := newParser(name, read)
	p.feed(string(source))
	if !p.versioned && len(p.errs) == 0 {
		p.try(func() {
			p.fail(p.tok, "the listing is empty; the first line must be: lightmetal 1")
		})
	}
	p.resolveCalls()
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return p.image, nil
}

// LineOf returns the line of a listing from which a command of its image comes, or 0. `command` is
// the index of the command in the image; the other arguments are those of Parse.
func LineOf(source []byte, read func(path string) ([]byte, error), command int) int {
	p := newParser("", read)
	p.wantedCommand = command + 1
	p.feed(string(source))
	return p.foundLine
}

// countCommand counts the commands of the image, and records the line of the wanted one.
func (p *parser) countCommand(line int) {
	if p.commandCount++; p.commandCount == p.wantedCommand {
		p.foundLine = line
	}
}

// parser parses one line after the other. The first mistake in a line ends the line with package
// fail.
type parser struct {
	file        string
	read        func(path string) ([]byte, error)
	lex         lexer
	tok, ahead  token
	last        token // last token that was consumed
	errs        []error
	head        token    // first token of the line
	seenOptions []string // options of the line so far

	accessed           *lmb.Window // window of the command's access
	offsetAt, amountAt token       // offset and size of the access
	sizeAt, deviceAt   token       // size and device of the declared window

	image         *lmb.Image
	versioned     bool
	windows       map[string][]int // by name; several windows may share a name
	tensors       map[string]int
	rings         map[string]int
	sequences     map[string]int
	tensorLines   []int
	sequenceLines []int
	calls         []call
	extraCommands []lmb.Command // commands that the line adds before its own, last command
	goldenCount   int           // number of outputs that were made for compares
	patternLeft   uint64
	files         map[string][]byte // contents of files, by path as in the listing
	blocks        map[string]block  // declared data
	commandCount  int               // number of commands of the image so far, including End
	// Wanted: number of the command for LineOf, from 1; found: its line
	wantedCommand, foundLine int
}

// block is data that was declared under a name.
type block struct {
	bytes []byte
	line  int
}

// call is a reference to a sequence that may be declared later.
type call struct {
	token           token
	name            string
	caller, command int
}

func newParser(name string, read func(path string) ([]byte, error)) *parser {
	return &parser{
		file: name, read: read, image: &lmb.Image{}, patternLeft: patternMax,
		windows: map[string][]int{}, tensors: map[string]int{}, sequences: map[string]int{},
		rings: map[string]int{}, files: map[string][]byte{}, blocks: map[string]block{},
	}
}

// feed parses more lines of a listing.
func (p *parser) feed(source string) {
	p.lex = lexer{source: source, line: 1}
	p.advance()
	p.advance()
	for p.tok.kind != tokenEOF && len(p.errs) < errorsMax {
		p.line()
	}
}

func (p *parser) line() {
	p.seenOptions, p.head = p.seenOptions[:0], p.tok
	p.try(p.statement)
	for !p.tok.endsLine() {
		p.advance()
	}
	if p.tok.kind == tokenLine {
		p.advance()
	}
}

// try calls parse and records the mistake with which parse fails.
func (p *parser) try(parse func()) {
	if err := fail.Try(parse); err != nil && err != errReported {
		p.errs = append(p.errs, err)
	}
}

// errReported ends a line because of a mistake in an earlier line.
var errReported = errors.New("reported")

// statement parses a line up to its end.
func (p *parser) statement() {
	switch {
	case p.tok.kind == tokenLine:
	case !p.versioned:
		p.version()
	case p.ahead.is(":"):
		p.label()
	case len(p.image.Sequences) == 0:
		p.declaration()
	default:
		p.parseCommand()
	}
	if !p.tok.endsLine() {
		p.fail(p.tok, "expected end of line, found %s", p.tok)
	}
}

func (p *parser) advance() { p.last, p.tok, p.ahead = p.tok, p.ahead, p.lex.next() }

// fail ends the line with a mistake at a token.
func (p *parser) fail(t token, format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	if t.kind == tokenBad {
		reason = t.text
	}
	fail.On(&Error{p.file, t.line, t.column, reason})
}

// accept consumes the next token if it is this sign or word.
func (p *parser) accept(text string) bool {
	if !p.tok.is(text) && !p.tok.isWord(text) {
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

// option consumes the next option of the line. Each may occur once. It returns "" at the end of the
// line.
func (p *parser) option(options ...string) string {
	if p.tok.endsLine() {
		return ""
	}
	for _, o := range options {
		if !p.tok.isWord(o) {
			continue
		}
		if slices.Contains(p.seenOptions, o) {
			p.fail(p.tok, "%s occurs twice on this line", o)
		}
		p.seenOptions = append(p.seenOptions, o)
		p.advance()
		return o
	}
	p.fail(p.tok, "expected %s or end of line, found %s%s", strings.Join(options, ", "), p.tok,
		closest(p.tok.text, options))
	return ""
}

// name consumes a name, with or without quotes.
func (p *parser) name(what string) string {
	t := p.tok
	switch {
	case t.kind != tokenString && (t.kind != tokenWord || !isName(t.text)):
		p.fail(t, "expected the name of %s, found %s", what, t)
	case t.text == "" || len(t.text) > fbs.NameMax:
		p.fail(t, "a name must have 1 to %d bytes, but has %d", fbs.NameMax, len(t.text))
	}
	p.advance()
	return t.text
}

func (p *parser) text(what string) string {
	if p.tok.kind != tokenString {
		p.fail(p.tok, "expected %s in quotes, found %s", what, p.tok)
	}
	p.advance()
	return p.last.text
}

func (p *parser) version() {
	p.versioned = true // one error is enough
	if !p.tok.isWord("lightmetal") {
		p.fail(p.tok, "the first line of a listing must be: lightmetal 1")
	}
	p.advance()
	if v := p.number("a version"); v != languageVersion {
		p.fail(p.last, "this listing has version %d, but this program reads version %d", v,
			languageVersion)
	}
}

// label starts a sequence. A label with a mistake starts one, too, so that the commands after it
// are in a sequence.
func (p *parser) label() {
	at, number := p.tok, len(p.image.Sequences)
	if number > 0 {
		p.countCommand(at.line) // End
	}
	p.sequenceLines = append(p.sequenceLines, at.line)
	p.image.Sequences = append(p.image.Sequences, lmb.Sequence{})
	name := p.name("a sequence")
	p.expect(":")
	if !fbs.IsSequenceName([]byte(name)) {
		p.fail(at, "the name of a sequence must be printable ASCII without blanks; rename %+q",
			name)
	}
	if first, taken := p.sequences[name]; taken {
		p.fail(at, "sequence %s already starts in line %d", name, p.sequenceLines[first])
	}
	p.sequences[name], p.image.Sequences[number].Name = number, name
	if number == fbs.SequencesMax {
		p.fail(at, "too many sequences: a listing may have at most %d", fbs.SequencesMax)
	}
}

// resolveCalls sets the indexes of called sequences after all lines are parsed.
func (p *parser) resolveCalls() {
	callers := map[int]bool{}
	for _, c := range p.calls {
		callers[c.caller] = true
	}
	for _, c := range p.calls {
		if len(p.errs) >= errorsMax {
			return
		}
		p.try(func() {
			index, ok := p.sequences[c.name]
			switch {
			case !ok:
				p.fail(c.token, "there is no sequence %s%s", c.name,
					hint(c.name, "sequences", slices.Sorted(maps.Keys(p.sequences))))
			case callers[index]:
				p.fail(c.token, "sequence %s contains a call; a called sequence must not call "+
					"other sequences", c.name)
			}
			p.image.Sequences[c.caller].Commands[c.command].Index = uint16(index)
		})
	}
}
