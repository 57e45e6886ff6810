package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/boardfile"
	"lightmetal/tools/files"
	"lightmetal/tools/listing"
	"lightmetal/tools/lmb"
	"lightmetal/tools/stop"

	"github.com/spf13/cobra"
)

func asmCommand() *cobra.Command {
	var out, board string
	var rules []string
	var anywhere bool
	c := command("asm LISTING.lms", exactlyOne("listing"), func(args []string) {
		var d device
		if board != "" {
			d = boardNamed(board, rules)
		}
		assembleFile(args[0], out, anywhere, d.Board)
	})
	c.Flags().StringVarP(&out, "out", "o", "", "image to write (default: LISTING.lmb)")
	c.Flags().StringVar(&board, "board", "",
		"generic or a board file: rules of a target that no board has the ids of and the listing "+
			"no rules for")
	c.Flags().StringArrayVar(&rules, "rule", nil, ruleHelp)
	c.Flags().BoolVar(&anywhere, "anywhere", false, "let the listing name files outside its folder")
	return c
}

// assembleFile makes an image. A board, if there is one, gives rules to targets that
// have none.
func assembleFile(path, out string, anywhere bool, board *boards.Board) {
	inputs := []string{path}
	source := readFile(path, dataMax)
	read := func(name string) (_ []byte, err error) {
		defer stop.Catch(&err)
		file := name
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(path), file)
		}
		if !anywhere && !isInside(filepath.Dir(path), file) {
			return nil, fmt.Errorf("%s is not below the listing's folder; --anywhere permits that",
				name)
		}
		inputs = append(inputs, file)
		return readFile(file, dataMax), nil
	}
	image, err := listing.Parse(path, source, read)
	stop.As(hal.BadImage, err)
	stop.On(files.RejectAliases([]string{out}, inputs...))
	if board != nil {
		failIf(hal.BadImage, path, boardfile.ForImage(image, board))
	}
	file, err := lmb.Encode(image)
	if refused, ok := err.(*fbs.Error); ok {
		n := 0
		if _, none := fmt.Sscanf(refused.Place, "command %d", &n); none == nil {
			path = fmt.Sprintf("%s:%d", path, listing.LineOf(source, read, n))
		}
	}
	for _, t := range image.Devices {
		if err != nil && len(image.Rules) == 0 && boards.FindByID(t.Vendor, t.Device) == nil &&
			strings.HasSuffix(err.Error(), "register of "+t.Board) {
			err = fmt.Errorf("%w: no board has its ids, and the listing no rules; --board "+
				"generic, or a board file (lm board-file), has some", err)
		}
	}
	failIf(hal.BadImage, path, err)
	writeFile(out, file)
}

// below tells that a file stands in a folder or further down, symbolic links
// followed. What is not there is as far below as its name says.
func isInside(folder, file string) bool {
	folder, _ = filepath.Abs(folder)
	file, _ = filepath.Abs(file)
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
		folder, _ = filepath.EvalSymlinks(folder)
	}
	way, err := filepath.Rel(folder, file)
	return err == nil && filepath.IsLocal(way)
}

// besideOf is where an image goes when nothing else is said: the source's path
// with another ending, or standard output.
func defaultOutput(source, ending string) string {
	if source == "-" {
		return source
	}
	return strings.TrimSuffix(source, ending) + ".lmb"
}

// encode writes an image.
func encode(image *lmb.Image, path, source string) {
	file, err := lmb.Encode(image)
	failIf(hal.BadImage, source, err)
	writeFile(path, file)
}

// decode maps, verifies and decodes an image.
func decode(path string) (*lmb.Image, *runtime.File) {
	file, view := openVerified(path)
	image, err := lmb.FromView(view)
	failIf(hal.BadImage, path, err)
	return image, file
}

func dumpCommand() *cobra.Command {
	c := command("dump IMAGE.lmb", exactlyOne("image"), func(args []string) {
		image, _ := decode(args[0])
		if asJSON {
			dumpJSON(image)
		} else {
			stop.On(listing.Print(stdout, image))
		}
	})
	jsonFlag(c, "one JSON object a command")
	return c
}

// dumpedCommand is a line of lm dump --json.
type dumpedCommand struct {
	Index    int    `json:"index"`
	Sequence string `json:"sequence"`
	Opcode   string `json:"opcode"`
	Width    uint8  `json:"width,omitempty"`
	Window   uint16 `json:"window"`
	Offset   uint32 `json:"offset"`
	Amount   uint32 `json:"amount,omitempty"`
	Value    uint64 `json:"value,omitempty"`
	Mask     uint64 `json:"mask,omitempty"`
	Text     string `json:"text"`
}

func dumpJSON(image *lmb.Image) {
	out := bufio.NewWriter(stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	index := 0
	for _, s := range image.Sequences {
		for j := range s.Commands {
			c := &s.Commands[j]
			if c.Opcode == lmb.OpcodeMark {
				continue // a target has no command for it
			}
			line := dumpedCommand{index, s.Name, gen.EnumNamesOpcode[c.Opcode], c.Width, c.Window,
				c.Offset, c.Amount, c.Value, c.Mask,
				listing.CommandText(image, c)}
			stop.On(encoder.Encode(line))
			index++
		}
		index++ // End, which a listing does not show
	}
	stop.On(out.Flush())
}
