package main

import (
	"fmt"
	"time"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/runtime/signed"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/together"

	"github.com/spf13/cobra"
)

// verification has the flags of lm verify.
type verification struct {
	together    bool
	board, keys string
	trusted     signed.Keys
	longest     time.Duration
	atLeast     uint32
}

func verifyCommand() *cobra.Command {
	var v verification
	c := command("verify IMAGE.lmb [--together IMAGE.lmb...]", v.checkArguments,
		func(args []string) { v.run(args) })
	flags := c.Flags()
	jsonFlag(c, "as JSON")
	flags.BoolVar(&v.together, "together", false,
		"several images: check that none can break another on one device")
	flags.StringVar(&v.keys, "key", "", "check that one of these keys signed the image: "+
		"file of public keys in hex, one a line")
	flags.Uint32Var(&v.atLeast, "at-least", 0,
		"with --key: reject an image of a lower version (default: accept any version)")
	flags.DurationVar(&v.longest, "longest", time.Hour,
		"reject an image whose sequences could take longer")
	flags.StringVar(&v.board, "board", "",
		"the board that the image must be for (default: the one in the image)")
	return c
}

func (v *verification) checkArguments(_ *cobra.Command, args []string) error {
	switch {
	case v.atLeast != 0 && v.keys == "":
		failUsage("--at-least needs --key: only a signature protects the version")
	case v.together && len(args) < 2:
		failUsage("--together takes two images or more, %d given; see lm verify --help",
			len(args))
	case !v.together && len(args) != 1:
		failUsage("verify takes one image, %d given, or several with --together; see lm verify "+
			"--help", len(args))
	}
	return nil
}

func (v *verification) run(args []string) {
	if v.keys != "" {
		v.trusted = publicKeys(v.keys)
	}
	var images []together.Image
	warnings := []string{}
	for _, path := range args {
		view, more := v.verifyImage(path)
		for _, text := range more {
			if v.together {
				text = path + ": " + text
			}
			warnings = append(warnings, text)
		}
		images = append(images, together.Image{Name: path, View: view})
	}
	if v.together {
		warnings = append(warnings, imagesWithoutSharedDevice(images)...)
	}
	for _, text := range warnings {
		if !asJSON {
			printLine(stderr, "lm: warning: %s", text)
		}
	}
	if v.together {
		v.printTogether(args, images, warnings)
		return
	}
	v.printVerified(args[0], images[0].View, warnings)
}

// verifyImage checks one image and returns its warnings.
func (v *verification) verifyImage(path string) (view *fbs.View, warnings []string) {
	file := openImage(path)
	if v.keys != "" {
		fail.On(file.Inspect(func(data []byte) error {
			return v.trusted.CheckSignature(data, v.atLeast)
		}))
	}
	view = verifyFile(path, file)
	view.TimeLimitUs = uint64(max(v.longest, 0).Microseconds())
	fail.On(runtime.CheckWorstCaseTimes(view))
	warnings = checkBoards(view, v.board)
	if err := lmb.Quality(view); err != nil {
		fail.With(hal.BadImage, "%s: suspicious, but does not affect a replay: %v", path, err)
	}
	return view, append(warnings, fenceWarnings(view)...)
}

func (v *verification) printVerified(path string, view *fbs.View, warnings []string) {
	checksums := map[string]string{}
	for i := range view.Sequences {
		checksums[view.Name(view.Sequences[i].Name)] = fmt.Sprintf("%08x",
			lmb.SequenceChecksum(view, i))
	}
	if asJSON {
		printJSON(stdout, map[string]any{"exit": 0, "code": hal.OK.Error(), "image": path,
			"commands":  len(view.Commands) - len(view.Sequences),
			"checksums": checksums, "warnings": warnings})
		return
	}
	printLine(stdout, "%s: valid, %s", path,
		english.Count(len(view.Commands)-len(view.Sequences), "command"))
	for i := range view.Sequences {
		s := &view.Sequences[i]
		printLine(stdout, "  %-24s %17s, checksum %s", view.Name(s.Name),
			english.Count(int(s.Count-1), "command"), checksums[view.Name(s.Name)])
	}
}

// checkBoards checks that an image is for the named board, and warns of devices whose rules
// are the image's own.
func checkBoards(view *fbs.View, name string) (own []string) {
	own = []string{}
	for i, t := range view.Devices {
		if name != "" {
			board := chips.BoardByName(name)
			if board == nil {
				failUsage("there is no board %q; boards: %s", name, boardNames())
			}
			if board.Vendor != t.Vendor || board.Device != t.Device {
				fail.With(hal.WrongDevice,
					"the image is for %s (%04x:%04x), not for %s (%04x:%04x)",
					view.Name(t.Board), t.Vendor, t.Device, board.Name, board.Vendor, board.Device)
			}
		}
		if boards.FindByID(t.Vendor, t.Device) == nil {
			own = append(own,
				fmt.Sprintf("device %d: no board has the PCI ids %04x:%04x, so the rules "+
					"in the image were used: %d",
					i, t.Vendor, t.Device, len(view.Board(i).Rules)))
		}
	}
	return own
}
