package listing

import (
	"fmt"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// command is a row of the table from which commands are parsed and printed.
type command struct {
	word     string      // the first word of the line, without the width
	start    fbs.Command // fields that the word sets; operands set other fields, or change these
	sized    bool        // the word is followed by a width, as in write.4
	operands []operand

	// A command of the image is printed with this row if it has the opcode of start or one of
	// others, and if `when` returns true for it. The first such row counts.
	others []gen.Opcode
	when   func(*printer, *lmb.Command) bool
}

// operand is one kind of operand. parse consumes it and sets fields of the command. print writes a
// space and the operand.
type operand struct {
	parse func(*parser, *lmb.Command)
	print func(*printer, *lmb.Command) // nil: the row is never used for printing
}

var (
	// Both are window+offset. register also checks that one access fits into the window. After a
	// reference, another operand of the row determines the number of bytes and checks the range.
	register  = operand{(*parser).register, (*printer).reference}
	reference = operand{(*parser).reference, (*printer).reference}

	storeValue     = operand{(*parser).storeValue, (*printer).storeValue}
	transfer       = operand{(*parser).transfer, (*printer).transfer}
	fillValue      = operand{(*parser).fillValue, (*printer).fillValue}
	accessMode     = operand{(*parser).accessMode, (*printer).accessMode}
	condition      = operand{(*parser).condition, (*printer).condition}
	pollLimits     = operand{(*parser).pollLimits, (*printer).pollLimits}
	policy         = operand{(*parser).policy, (*printer).policy}
	comparison     = operand{(*parser).comparison, (*printer).comparison}
	firstFence     = operand{(*parser).firstFence, nil}
	tlbWindow      = operand{(*parser).tlbWindow, (*printer).tlbWindow}
	tileTarget     = operand{(*parser).tileTarget, (*printer).tileTarget}
	delayTime      = operand{(*parser).delayTime, (*printer).delayTime}
	calledSequence = operand{(*parser).calledSequence, (*printer).calledSequence}
	ringName       = operand{(*parser).ringName, (*printer).ringName}
	ringStep       = operand{(*parser).ringStep, (*printer).ringStep}
	movedPlace     = operand{(*parser).movedPlace, (*printer).movedPlace}
	markName       = operand{(*parser).markName, (*printer).markName}
)

// anyLoad is an Expect that accepts every value.
var anyLoad = fbs.Command{Opcode: gen.OpcodeExpect, Mode: uint8(gen.ConditionEqual),
	Option: uint8(gen.PolicyFail)}

// commands has a row for each command of the language. LANGUAGE.md describes the same commands.
var commands = []command{
	{word: "write", sized: true, start: fbs.Command{Opcode: gen.OpcodeWrite},
		others:   []gen.Opcode{gen.OpcodeModify, gen.OpcodeRelocate},
		operands: []operand{register, storeValue}},
	{word: "compare", sized: true,
		start:  fbs.Command{Opcode: gen.OpcodeCompare, Option: uint8(gen.PolicyFail)},
		others: []gen.Opcode{gen.OpcodeCopyOut}, when: (*printer).isComparison,
		operands: []operand{reference, comparison}},
	{word: "copy", sized: true, start: fbs.Command{Opcode: gen.OpcodeCopyIn},
		others:   []gen.Opcode{gen.OpcodeCopyOut},
		operands: []operand{transfer, accessMode}},
	{word: "fill", sized: true, start: fbs.Command{Opcode: gen.OpcodeFill},
		operands: []operand{reference, fillValue, accessMode}},
	{word: "poll", sized: true,
		start:    fbs.Command{Opcode: gen.OpcodeExpect, Option: uint8(gen.PolicyFail)},
		when:     func(_ *printer, c *lmb.Command) bool { return c.Amount != 0 },
		operands: []operand{register, condition, pollLimits}},
	{word: "read", sized: true, start: anyLoad,
		when: func(_ *printer, c *lmb.Command) bool {
			return c.Mode == anyLoad.Mode && c.Mask == 0 && c.Value == 0
		},
		operands: []operand{register, policy}},
	{word: "expect", sized: true,
		start:    fbs.Command{Opcode: gen.OpcodeExpect, Option: uint8(gen.PolicyFail)},
		operands: []operand{register, condition, policy}},
	// The load of a flush pushes posted writes ahead of it to the device. It is printed as a read,
	// because rows above accept every Expect.
	{word: "flush", sized: true, start: anyLoad, operands: []operand{firstFence, register}},
	{word: "fence", start: fbs.Command{Opcode: gen.OpcodeFence}},
	{word: "point", start: fbs.Command{Opcode: gen.OpcodePoint},
		operands: []operand{tlbWindow, tileTarget}},
	{word: "delay", start: fbs.Command{Opcode: gen.OpcodeDelay}, operands: []operand{delayTime}},
	{word: "call", start: fbs.Command{Opcode: gen.OpcodeCall},
		operands: []operand{calledSequence}},
	{word: "advance", start: fbs.Command{Opcode: gen.OpcodeAdvance},
		operands: []operand{ringName, ringStep}},
	{word: "reset", start: fbs.Command{Opcode: gen.OpcodeReset}, operands: []operand{ringName}},
	{word: "with", start: fbs.Command{Opcode: gen.OpcodeWith},
		operands: []operand{ringName, movedPlace}},
	markCommand("mark", gen.MarkKindPoint),
	markCommand("begin", gen.MarkKindBegin),
	markCommand("end", gen.MarkKindEnd),
}

func markCommand(word string, kind gen.MarkKind) command {
	return command{word: word, operands: []operand{markName},
		start: fbs.Command{Opcode: lmb.OpcodeMark, Mode: uint8(kind)},
		when:  func(_ *printer, c *lmb.Command) bool { return c.Mode == uint8(kind) }}
}

func commandWords() (words []string) {
	for i := range commands {
		words = append(words, commands[i].word)
	}
	slices.Sort(words)
	return words
}

// commandNamed returns the row of a command, or nil if there is no such command.
func commandNamed(word string) *command {
	for i := range commands {
		if commands[i].word == word {
			return &commands[i]
		}
	}
	return nil
}

// parseCommand parses one command and appends it to the current sequence.
func (p *parser) parseCommand() {
	name, width, dotted := strings.Cut(p.tok.text, ".")
	row := commandNamed(name)
	switch {
	case row == nil || p.tok.kind != tokenWord:
		p.unknownCommand(name)
	case !row.sized && dotted:
		p.fail(p.tok, "the command %s has no width; write %s instead of %s", name, name, p.tok.text)
	}
	c := lmb.Command{Command: row.start}
	if row.sized {
		c.Width = p.width(name, width)
	}
	p.advance()
	p.extraCommands = p.extraCommands[:0]
	for _, o := range row.operands {
		o.parse(p, &c)
	}
	s := &p.image.Sequences[len(p.image.Sequences)-1]
	for _, made := range append(p.extraCommands, c) {
		s.Commands = append(s.Commands, made)
		if made.Opcode != lmb.OpcodeMark {
			p.countCommand(p.head.line)
		}
	}
}

func (p *parser) unknownCommand(name string) {
	if declarations[name] != nil {
		p.fail(p.tok, "%s is a declaration; put declarations before the first sequence", name)
	}
	p.fail(p.tok, "expected a command, found %s%s", p.tok, hint(name, "commands", commandWords()))
}

func (p *parser) width(name, text string) uint8 {
	switch text {
	case "1", "2", "4", "8":
		return text[0] - '0'
	}
	p.fail(p.tok, "the width of %s must be 1, 2, 4 or 8 bytes, as in %[1]s.4", name)
	return 0
}

func (p *printer) printCommand(c *lmb.Command) {
	row := p.rowOf(c)
	if row == nil {
		p.printf("%s", unknown(int(c.Opcode)))
		return
	}
	word := row.word
	if row.sized && c.Width != 0 {
		word = fmt.Sprintf("%s.%d", word, c.Width)
	}
	if len(row.operands) > 0 {
		word = fmt.Sprintf("%-*s", p.column, word)
	}
	p.printf("%s", word)
	for _, o := range row.operands {
		o.print(p, c)
	}
}

// rowOf returns the row with which a command is printed, or nil if the language has none.
func (p *printer) rowOf(c *lmb.Command) *command {
	for i := range commands {
		row := &commands[i]
		if (c.Opcode == row.start.Opcode || slices.Contains(row.others, c.Opcode)) &&
			(row.when == nil || row.when(p, c)) {
			return row
		}
	}
	return nil
}
