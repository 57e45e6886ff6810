package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/tools/capture/boardfile"
	"lightmetal/tools/capture/importer"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"

	"github.com/spf13/cobra"
)

// boardFileMax is the largest size of a board file, in bytes. A board file usually has some hundred
// lines.
const boardFileMax = 1 << 20

func boardFileCommand() *cobra.Command {
	var out, name, device string
	var rules []string
	c := newCommand("board-file pci:DDDD:BB:DD.F|DIRECTORY|RECORDING",
		exactlyOne("device or recording"),
		func(args []string) {
			image := describeDevice(args[0], device)
			image.Devices[0].Board = cmp.Or(name, image.Devices[0].Board)
			if len(rules) > 0 {
				b, err := boardfile.With(image.BoardOf(0), rules)
				fail.As(hal.Usage, err)
				image.Rules = lmb.RulesOf(b, 0, b.BarSizes)
			}
			var text bytes.Buffer
			fmt.Fprintf(&text,
				"# Made from %s by lm board-file. A rule lists the access widths (bytes)\n"+
					"# that a range accepts; in memory, accesses have no side effects.\n",
				strconv.Quote(args[0]))
			fail.On(listing.Print(&text, image))
			_, err := boardfile.Parse(args[0], text.Bytes())
			fail.As(hal.Usage, err)
			writeFile(out, text.Bytes())
		})
	c.Flags().StringVarP(&out, "out", "o", "-", "file to write")
	c.Flags().StringVar(&name, "name", "",
		"name of the device (default: pci-VVVV-DDDD, from the PCI ids)")
	c.Flags().StringVar(&device, "device", "",
		"device to describe, if the recording has several: "+
			"its ids VVVV:DDDD, or its address DDDD:BB:DD.F")
	c.Flags().StringArrayVar(&rules, "rule", nil, ruleHelp)
	return c
}

const ruleHelp = "access widths, in bytes, that a range of a BAR accepts, " +
	"in place of other rules for the range: BAR+OFFSET..END=WIDTHS[,memory], " +
	"or BAR=WIDTHS[,memory] for the entire BAR, such as 2=4,8"

// describeDevice reads the description of a device from /sys or from a recording.
func describeDevice(source, device string) *lmb.Image {
	if address, ok := strings.CutPrefix(source, "pci:"); ok {
		source = pciFolder + address
	}
	if status, err := os.Stat(source); err == nil && status.IsDir() ||
		strings.HasPrefix(source, pciFolder) {
		image, err := boardfile.FromDevice(source)
		fail.As(hal.NoDevice, err)
		return image
	}
	file := openFile(source)
	defer file.Close()
	image, err := boardfile.FromRecord(file, device)
	if err != nil && otherFormatHint(file, importer.FromRecord) != "" {
		fail.With(hal.BadImage,
			"%s is not a recording of lm record; "+
				"to import a trace of another format, use lm import --board generic", source)
	}
	failIf(hal.BadImage, source, err)
	return image
}

// namedBoard is a board that the user has named, with properties of a device that a board does not
// have.
type namedBoard struct {
	*boards.Board
	subsystem uint32
	generic   bool // board "generic": the sizes of BARs are only upper limits
}

// boardNamed returns a known board, "generic", or the board in a board file or an image.
func boardNamed(name string, rules []string) (d namedBoard) {
	var err error
	known := chips.BoardByName(name)
	switch {
	case name == "generic":
		d.generic = true
		d.Board, err = boardfile.Generic(rules)
	case known != nil && len(rules) > 0:
		failUsage("leave out --rule: board %s has its own rules", name)
	case known != nil:
		d.Board = known
	default:
		if d = boardInFile(name); len(rules) > 0 {
			d.Board, err = boardfile.With(d.Board, rules)
		}
	}
	fail.As(hal.Usage, err)
	return d
}

func boardInFile(path string) (d namedBoard) {
	if !strings.ContainsAny(path, "./") {
		failUsage("there is no board %q; use %s, generic, or the path of a board file "+
			"(see lm board-file --help)", path, boardNames())
	}
	text := readFile(path, dataMax)
	var image *lmb.Image
	var err error
	if boardfile.IsText(text) && len(text) <= boardFileMax {
		image, err = boardfile.Parse(path, text)
	} else if image, err = lmb.Decode(text); err != nil {
		err = fmt.Errorf("%s is neither a board file nor an image: %w", path, err)
	}
	fail.As(hal.BadImage, err)
	return namedBoard{Board: image.BoardOf(0), subsystem: image.Devices[0].Subsystem}
}
