package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/listing"
	"lightmetal/tools/lmb"

	"github.com/spf13/cobra"
)

func asmCommand() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "asm LISTING.lms",
		Short: "assemble a listing into an image",
		Long: `Asm makes an image of a listing; lm dump prints the same language, and
tools/listing/LANGUAGE.md describes it. Files named in the listing are looked
for beside it.`,
		Example: "  lm asm testdata/listings/edu-factorial.lms -o factorial.lmb",
		Args:    one("listing"),
		RunE: func(_ *cobra.Command, args []string) error {
			source, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			image, err := listing.Parse(args[0], source, func(path string) ([]byte, error) {
				if !filepath.IsAbs(path) {
					path = filepath.Join(filepath.Dir(args[0]), path)
				}
				return os.ReadFile(path)
			})
			if err != nil {
				return wrong(hal.BadImage, "%v", err)
			}
			return encode(image, out, args[0], ".lms")
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "", "image to write (default: LISTING.lmb)")
	return c
}

// encode writes an image. An empty path means the source's with another ending.
func encode(image *lmb.Image, path, source, ending string) error {
	file, err := lmb.Encode(image)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	if path == "" {
		path = strings.TrimSuffix(source, ending) + ".lmb"
	}
	return writeFile(path, file)
}

// decode maps, verifies and decodes an image.
func decode(path string) (*lmb.Image, *runtime.File, error) {
	file, err := runtime.Open(path)
	if err != nil {
		return nil, nil, err
	}
	view, err := file.Verify()
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
		Use:   "dump IMAGE.lmb",
		Short: "print an image as a listing",
		Long: `Dump prints the whole image, payload included, in the language that lm asm
reads: assembling the output gives the same bytes again. With --json it prints
one object a command, with payload as its size only.`,
		Args: one("image"),
		RunE: func(_ *cobra.Command, args []string) error {
			image, _, err := decode(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return dumpJSON(image)
			}
			return listing.Print(os.Stdout, image)
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
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	index := 0
	for i := range image.Sequences {
		s := &image.Sequences[i]
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
