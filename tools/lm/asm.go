package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/boardfile"
	"lightmetal/tools/files"
	"lightmetal/tools/listing"
	"lightmetal/tools/lmb"

	"github.com/spf13/cobra"
)

func asmCommand() *cobra.Command {
	var out, board string
	var rules []string
	var anywhere bool
	c := &cobra.Command{
		Use:  "asm LISTING.lms",
		Args: one("listing"),
		RunE: func(_ *cobra.Command, args []string) error {
			give := func(*lmb.Image) error { return nil }
			if board != "" {
				d, err := boardNamed(board, rules)
				if err != nil {
					return err
				}
				give = func(image *lmb.Image) error { return boardfile.ForImage(image, d.Board) }
			}
			return assembleFile(args[0], cmp.Or(out, besideOf(args[0], ".lms")), anywhere, give)
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "", "image to write (default: LISTING.lmb)")
	c.Flags().StringVar(&board, "board", "", "generic or a board file: rules of a target that no board has the ids of and the listing no rules for")
	c.Flags().StringArrayVar(&rules, "rule", nil, ruleHelp)
	c.Flags().BoolVar(&anywhere, "anywhere", false, "let the listing name files outside its folder")
	return c
}

func assembleFile(path, out string, anywhere bool, give func(*lmb.Image) error) error {
	inputs := []string{path}
	if err := files.Distinct([]string{out}, inputs...); err != nil {
		return err
	}
	source, err := readFile(path, dataMax)
	if err != nil {
		return err
	}
	read := func(name string) ([]byte, error) {
		file := name
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(path), file)
		}
		if !anywhere && !below(filepath.Dir(path), file) {
			return nil, fmt.Errorf("%s is not below the listing's folder; --anywhere permits that", name)
		}
		inputs = append(inputs, file)
		return readFile(file, dataMax)
	}
	image, err := listing.Parse(path, source, read)
	if err != nil {
		return wrong(hal.BadImage, "%v", err)
	}
	if err := files.Distinct([]string{out}, inputs...); err != nil {
		return err
	}
	if err := give(image); err != nil {
		return wrong(hal.BadImage, "%s: %v", path, err)
	}
	file, err := lmb.Encode(image)
	if refused, ok := err.(*fbs.Error); ok {
		n := 0
		if _, none := fmt.Sscanf(refused.Place, "command %d", &n); none == nil {
			path = fmt.Sprintf("%s:%d", path, listing.LineOf(source, read, n))
		}
	}
	if err != nil {
		return wrong(hal.BadImage, "%s: %v", path, err)
	}
	return writeFile(out, file)
}

// below tells that a file stands in a folder or further down, symbolic links
// followed. What is not there is as far below as its name says.
func below(folder, file string) bool {
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
func besideOf(source, ending string) string {
	if source == "-" {
		return source
	}
	return strings.TrimSuffix(source, ending) + ".lmb"
}

// encode writes an image.
func encode(image *lmb.Image, path, source string) error {
	file, err := lmb.Encode(image)
	if err != nil {
		return wrong(hal.BadImage, "%s: %v", source, err)
	}
	return writeFile(path, file)
}

// decode maps, verifies and decodes an image.
func decode(path string) (*lmb.Image, *runtime.File, error) {
	file, view, err := verified(path)
	if err != nil {
		return nil, nil, err
	}
	image, err := lmb.FromView(view)
	if err != nil {
		return nil, nil, wrong(hal.BadImage, "%s: %v", path, err)
	}
	return image, file, nil
}

func dumpCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:  "dump IMAGE.lmb",
		Args: one("image"),
		RunE: func(_ *cobra.Command, args []string) error {
			image, _, err := decode(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return dumpJSON(image)
			}
			return listing.Print(stdout, image)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a command")
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

func dumpJSON(image *lmb.Image) error {
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
			line := dumpedCommand{index, s.Name, gen.EnumNamesOpcode[c.Opcode], c.Width, c.Window, c.Offset, c.Amount, c.Value, c.Mask,
				listing.CommandText(image, c)}
			if err := encoder.Encode(line); err != nil {
				return err
			}
			index++
		}
		index++ // End, which a listing does not show
	}
	return out.Flush()
}
