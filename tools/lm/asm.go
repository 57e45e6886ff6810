package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/capture/boardfile"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/lmrun/files"

	"github.com/spf13/cobra"
)

func asmCommand() *cobra.Command {
	var out, board string
	var rules []string
	var anywhere bool
	c := newCommand("asm LISTING.lms", exactlyOne("listing"), func(args []string) {
		var d namedBoard
		if board != "" {
			d = boardNamed(board, rules)
		}
		assembleFile(args[0], out, anywhere, d.Board)
	})
	c.Flags().StringVarP(&out, "out", "o", "", "image to write (default: LISTING.lmb)")
	c.Flags().StringVar(&board, "board", "",
		"board of the device, if lm has no board with its PCI ids "+
			"and the listing has no rules: generic, or a board file")
	c.Flags().StringArrayVar(&rules, "rule", nil, ruleHelp)
	c.Flags().BoolVar(&anywhere, "anywhere", false,
		"let the listing name files outside its directory")
	return c
}

// assembleFile writes the image of a listing. A board, if there is one, adds its rules to devices
// without rules.
func assembleFile(path, out string, anywhere bool, board *boards.Board) {
	inputs := []string{path}
	source := readFile(path, dataMax)
	if isImage(source) {
		fail.With(hal.BadImage, "%s is an image, not a listing; `lm dump %[1]s` prints its listing",
			path)
	}
	read := func(name string) (_ []byte, err error) {
		defer fail.Catch(&err)
		file := name
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(path), file)
		}
		if !anywhere && !isInside(filepath.Dir(path), file) {
			return nil, fmt.Errorf("%s is outside the listing's directory; "+
				"use --anywhere to allow such files",
				name)
		}
		inputs = append(inputs, file)
		return readFile(file, dataMax), nil
	}
	done := showBusy("assembling", len(source))
	defer done()
	image, err := listing.Parse(path, source, read)
	fail.As(hal.BadImage, err)
	fail.On(files.RejectAliases([]string{out}, inputs...))
	if board != nil {
		failIf(hal.BadImage, path, boardfile.ForImage(image, board))
	}
	file, err := lmb.Encode(image)
	var refused *fbs.Error
	if errors.As(err, &refused) && refused.Command > 0 {
		path = fmt.Sprintf("%s:%d", path, listing.LineOf(source, read, refused.Command-1))
	}
	a := refusedAccessOf(image, err)
	if a != nil && len(a.board.Rules) == 0 && len(image.Rules) == 0 {
		err = fail.Around("", err, ": lm has no board with the device's PCI ids, "+
			"and the listing has no rules; use --board generic, "+
			"or --board FILE with a board file (lm board-file writes one)")
	}
	failIf(hal.BadImage, path, err)
	writeFile(out, file)
	printWritten(out, image, len(file), "")
}

// isImage reports whether data begins as an image does (FORMAT.md section 1.1).
func isImage(data []byte) bool {
	const identifierAt = 4 // after the offset of the root table
	return len(data) > 8 && string(data[identifierAt:8]) == fbs.FileIdentifier
}

// isInside reports whether a file is in a directory or below it, with symbolic links
// followed. A file that does not exist is judged by its name.
func isInside(directory, file string) bool {
	directory, _ = filepath.Abs(directory)
	file, _ = filepath.Abs(file)
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
		directory, _ = filepath.EvalSymlinks(directory)
	}
	way, err := filepath.Rel(directory, file)
	return err == nil && filepath.IsLocal(way)
}

// defaultOutput returns the path of an image that is written without -o: the source's path
// with another ending, or standard output if the source is standard input.
func defaultOutput(source, ending string) string {
	if source == "-" {
		return source
	}
	return strings.TrimSuffix(source, ending) + ".lmb"
}

// writeImage encodes an image, which verifies it, writes the file and returns its size.
func writeImage(image *lmb.Image, path, source string) (size int) {
	file, err := lmb.Encode(image)
	failIf(hal.BadImage, source, err)
	writeFile(path, file)
	return len(file)
}

// printWritten prints what is in an image that was written to path: "m.lmb: 2 sequences, 18
// commands, 7,380 bytes". It adds a remark at the end.
func printWritten(path string, image *lmb.Image, size int, remark string) {
	printLine(messageWriter(path), "%s: %s, %s%s", outputName(path), contentText(image),
		lmb.SizeText(uint64(size)), remark)
}

// contentText returns the number of sequences and of commands of an image. Marks do not count as
// commands.
func contentText(image *lmb.Image) string {
	commands := 0
	for i := range image.Sequences {
		for c := range image.Sequences[i].All() {
			if c.Opcode != lmb.OpcodeMark {
				commands++
			}
		}
	}
	return english.Count(len(image.Sequences), "sequence") + ", " +
		english.Count(commands, "command")
}

// outputName returns the name of an output file in messages.
func outputName(path string) string {
	if path == "-" {
		return "standard output"
	}
	return path
}

// decodeFile maps, verifies and decodes an image.
func decodeFile(path string) (*lmb.Image, *runtime.File) {
	file, view := openVerified(path)
	image, err := lmb.FromView(view)
	failIf(hal.BadImage, path, err)
	return image, file
}

func dumpCommand() *cobra.Command {
	var numbers, full bool
	var out string
	c := newCommand("dump IMAGE.lmb", exactlyOne("image"), func(args []string) {
		_, view := openVerified(args[0])
		image, err := lmb.StreamView(view)
		failIf(hal.BadImage, args[0], err)
		if out == "" || out == "-" {
			stdout.keepLines()
			to := io.Writer(stdout)
			if stdout.screen != nil && !full && !asJSON {
				to = &shortenedData{to: stdout}
			}
			fail.On(dump(to, view, image, numbers))
			return
		}
		file := fail.Must(openOutput(out, 0o666))
		defer file.Discard()
		defer showBusy("writing", len(view.Envelope)+len(view.Payload))()
		fail.On(dump(file, view, image, numbers))
		fail.On(file.Commit())
		if !asJSON {
			printLine(stdout, "%s: %s", out, contentText(image))
		}
	})
	c.Flags().StringVarP(&out, "out", "o", "", "file to write (default: standard output)")
	c.Flags().BoolVar(&numbers, "numbers", false,
		"add a comment with each command's number in its sequence, which messages use")
	c.Flags().BoolVar(&full, "full", false,
		"print all data, also on a terminal (default there: the first 64 bytes of each block)")
	defineJSONFlag(c, "print one JSON object per command")
	return c
}

// shortenedData passes a listing on, but of each block of data in braces only the first lines.
type shortenedData struct {
	to       io.Writer
	line     []byte
	hasBlock bool
	lines    int // of the block
	bytes    int // in lines that were left out
}

// Write implements io.Writer.
func (s *shortenedData) Write(p []byte) (int, error) {
	const shownLines = 2 // of 32 bytes
	for rest := p; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			s.line = append(s.line, rest...)
			break
		}
		s.line = append(s.line, rest[:end]...)
		rest = rest[end:]
		text := bytes.TrimSpace(s.line)
		switch {
		case s.hasBlock && bytes.HasPrefix(text, []byte("}")):
			if s.bytes > 0 {
				s.line = fmt.Appendf(nil, "  ... %s more; --full prints them\n%s",
					english.Count(s.bytes, "byte"), s.line)
			}
			s.hasBlock = false
		case s.hasBlock:
			if s.lines++; s.lines > shownLines {
				s.bytes += len(bytes.Join(bytes.Fields(text), nil)) / 2
				s.line = s.line[:0]
			}
		case bytes.HasSuffix(text, []byte(" hex {")):
			s.hasBlock, s.lines, s.bytes = true, 0, 0
		}
		if _, err := s.to.Write(s.line); err != nil {
			return 0, err
		}
		s.line = s.line[:0]
	}
	return len(p), nil
}

// dump writes an image as a listing, or as JSON.
func dump(w io.Writer, view *fbs.View, image *lmb.Image, numbers bool) error {
	switch {
	case asJSON:
		return dumpJSON(w, view, image)
	case numbers:
		return listing.PrintNumbered(w, image)
	}
	return listing.Print(w, image)
}

// dumpedCommand is a line of lm dump --json.
type dumpedCommand struct {
	Index    int    `json:"index"`
	Sequence string `json:"sequence"`
	Number   int    `json:"number"` // within the sequence
	Opcode   string `json:"opcode"`
	Width    uint8  `json:"width,omitempty"`
	Window   uint16 `json:"window"`
	Offset   uint32 `json:"offset"`
	Amount   uint32 `json:"amount,omitempty"`
	Value    uint64 `json:"value,omitempty"`
	Mask     uint64 `json:"mask,omitempty"`
	Text     string `json:"text"`
}

func dumpJSON(w io.Writer, view *fbs.View, image *lmb.Image) error {
	out := bufio.NewWriter(w)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for i, s := range image.Sequences {
		for e := range lmb.Walk(view, i) {
			c, number := lmb.CommandAt(view, e.Index), e.Index-int(view.Sequences[i].First)
			fail.On(encoder.Encode(dumpedCommand{
				e.Index, s.Name, number, lmb.OpcodeName(lmb.CommandKind(&c.Command)), c.Width,
				c.Window, c.Offset, c.Amount, c.Value, c.Mask, listing.CommandText(image, &c),
			}))
		}
	}
	return out.Flush()
}
