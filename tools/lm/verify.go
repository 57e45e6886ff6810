package main

import (
	"fmt"
	"time"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/runtime/signed"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/repeat"
	"lightmetal/tools/image/together"

	"github.com/spf13/cobra"
)

// verifyFlags are the flags of lm verify as they are typed, and the keys of --key.
type verifyFlags struct {
	together    bool
	loop        bool
	board, keys string
	processor   string // "" or for32Bits
	madeFrom    []string
	trustedKeys signed.Keys
	longest     time.Duration
	atLeast     uint32
}

// for32Bits is the value of --for: a processor of the player in C that cannot access 8 bytes.
const for32Bits = "32bit"

const longestRemedy = "; --longest raises the limit"

func verifyCommand() *cobra.Command {
	var v verifyFlags
	c := newCommand("verify IMAGE.lmb [--together IMAGE.lmb...]", v.checkArguments,
		func(args []string) { v.run(args) })
	flags := c.Flags()
	defineJSONFlag(c, "print the result as JSON")
	flags.BoolVar(&v.together, "together", false,
		"check several images for stores that break another image on the same device")
	flags.BoolVar(&v.loop, "loop", false,
		"check that each sequence but init, stop and safe can run again and again")
	flags.StringVar(&v.keys, "key", "", "file of public keys in hex, one per line: "+
		"check that one of these keys signed the image")
	flags.StringArrayVar(&v.madeFrom, "made-from", nil, "check that the image was made from "+
		"this capture, by its SHA-256 (repeat the flag for more)")
	flags.Uint32Var(&v.atLeast, "at-least", 0,
		"with --key: reject an image of a lower version (default: accept any version)")
	flags.DurationVar(&v.longest, "longest", time.Hour,
		"reject an image with a sequence that could take longer than this")
	flags.StringVar(&v.board, "board", "",
		"the board that the image must be for (default: the one in the image)")
	flags.StringVar(&v.processor, "for", "",
		"the processor of the player in C; "+for32Bits+" rejects exact accesses of 8 bytes")
	return c
}

func (v *verifyFlags) checkArguments(_ *cobra.Command, args []string) error {
	switch {
	case v.atLeast != 0 && v.keys == "":
		failUsage("--key is missing: --at-least needs --key, " +
			"because only a signature protects the version")
	case v.processor != "" && v.processor != for32Bits:
		failUsage("--for %q: the only processor is %s", v.processor, for32Bits)
	case v.together && len(v.madeFrom) > 0:
		failUsage("--made-from checks one image; leave --together out")
	case v.together && len(args) < 2:
		failUsage("--together takes two images or more, not %s; see lm verify --help",
			english.Count(len(args), "argument"))
	case !v.together && len(args) != 1:
		failUsage("verify takes one image (several with --together), not %s; "+
			"see lm verify --help", english.Count(len(args), "argument"))
	}
	return nil
}

func (v *verifyFlags) run(args []string) {
	if v.keys != "" {
		v.trustedKeys = publicKeys(v.keys)
	}
	var images []together.Image
	var ids []identity
	warnings := []string{}
	for _, path := range args {
		view, more := v.verifyImage(path)
		ids = append(ids, identify(view))
		for _, text := range more {
			if v.together {
				text = path + ": " + text
			}
			warnings = append(warnings, text)
		}
		images = append(images, together.Image{Name: path, View: view})
	}
	if v.together {
		warnings = append(warnings, sharedDeviceWarnings(images)...)
	}
	printWarnings(warnings)
	if v.together {
		v.printCollisions(args, ids, images, warnings)
		return
	}
	v.printVerified(args[0], ids[0], images[0].View, warnings)
}

// printWarnings prints warnings, unless they are in the JSON.
func printWarnings(warnings []string) {
	for _, text := range warnings {
		if !asJSON {
			printLine(stderr, "lm: warning: %s", text)
		}
	}
}

func (v *verifyFlags) verifyImage(path string) (view *fbs.View, warnings []string) {
	file := openImage(path)
	if v.keys != "" {
		fail.On(file.Inspect(func(data []byte) error {
			return v.trustedKeys.CheckSignature(data, v.atLeast)
		}))
	}
	view = verifyFile(path, file)
	for _, capture := range v.madeFrom {
		checkMadeFrom(path, lmb.Header(view).Captures, capture)
	}
	view.TimeLimitUs = uint64(max(v.longest, 0).Microseconds())
	fail.On(runtime.CheckWorstCaseTimes(view, longestRemedy))
	warnings = checkBoards(view, v.board)
	if err := lmb.Quality(view); err != nil {
		fail.With(hal.BadImage,
			"%s: the image is suspicious, although a replay is not affected: %v", path, err)
	}
	if v.processor == for32Bits {
		check32Bits(path, view)
	}
	warnings = append(warnings, channelWarnings(view)...)
	warnings = append(warnings, interruptWarnings(view)...)
	warnings = append(warnings, fenceWarnings(view)...)
	if v.loop {
		warnings = append(warnings, failUnlessRepeatable(view, path, repeatedSequences(view))...)
	}
	warnings = append(warnings, ringWarnings(view)...)
	return view, append(warnings, safeWarnings(view)...)
}

// ringWarnings warns of rings that no run can set: all runs of sequences that need them fail.
func ringWarnings(view *fbs.View) (warnings []string) {
	needed, reset := uint32(0), uint32(0)
	for _, rings := range view.NeededRings {
		needed |= rings
	}
	for i := range view.Commands {
		if c := &view.Commands[i]; c.Opcode == gen.OpcodeReset {
			reset |= 1 << c.Index
		}
	}
	for i, r := range view.Rings {
		if name := view.Name(r.Name); (needed&^reset)>>i&1 != 0 {
			warnings = append(warnings, fmt.Sprintf("no sequence resets ring %s, so each run that "+
				"advances it fails; add `reset %s` to a sequence, such as init", name, name))
		}
	}
	return warnings
}

// repeatedSequences returns the sequences that are meant to run again and again.
func repeatedSequences(view *fbs.View) (list []int) {
	called := calledSequences(view)
	for i := range view.Sequences {
		name := view.Name(view.Sequences[i].Name)
		if !called[i] && name != "init" && name != "stop" && name != "safe" {
			list = append(list, i)
		}
	}
	return list
}

// failUnlessRepeatable fails if one of the sequences would wait for nothing in a later run. It
// returns warnings about what only the device decides.
func failUnlessRepeatable(view *fbs.View, path string, sequences []int) (warnings []string) {
	for _, i := range sequences {
		polls := repeat.Check(view, i)
		if err := repeat.Error(polls); err != nil {
			fail.With(hal.BadImage, "%s: sequence %s cannot be repeated: %v", path,
				view.Name(view.Sequences[i].Name), err)
		}
		warnings = append(warnings, repeat.Warning(polls)...)
	}
	return warnings
}

// check32Bits fails if an image has exact accesses of 8 bytes: lmplay_load rejects it then, unless
// the port makes the accesses by hooks.
func check32Bits(path string, view *fbs.View) {
	n, first := 0, 0
	for i := range view.Commands {
		if c := &view.Commands[i]; needsExact64(view, c) {
			if n++; n == 1 {
				first = i
			}
		}
	}
	if n > 0 {
		fail.With(hal.WrongDevice, "%s: a processor of 32 bits cannot make exact accesses of "+
			"8 bytes: %s, the first is %s; the hooks load and store of a port may make them", path,
			english.Count(n, "command"), lmb.PlaceText(view, first))
	}
}

// needsExact64 reports whether lmplay_load rejects a command on 32 bits.
func needsExact64(view *fbs.View, c *fbs.Command) bool {
	if c.Opcode == gen.OpcodePoint {
		tlb := view.Board(int(view.Windows[c.Window].Device)).TLB
		return tlb != nil && tlb.ConfigWidth == 8
	}
	isBulk := c.Opcode != gen.OpcodeExpect && gen.Access(c.Mode) == gen.AccessBulk
	return c.Width == 8 && !isBulk
}

func safeWarnings(view *fbs.View) []string {
	if text := listing.MissingSafe(view); text != "" {
		return []string{text}
	}
	return []string{}
}

// interruptWarnings warns of stores of values that may be interrupt addresses.
func interruptWarnings(view *fbs.View) []string {
	n, first := 0, 0
	for i := range view.Commands {
		c := &view.Commands[i]
		if c.Opcode == gen.OpcodeWrite && c.Width >= 4 && traces.IsInterruptAddress(c.Value) &&
			view.Windows[c.Window].Kind == gen.WindowKindBar {
			if n++; n == 1 {
				first = i
			}
		}
	}
	if n == 0 {
		return nil
	}
	more := ""
	if n > 1 {
		more = fmt.Sprintf(" (the first of %d such stores)", n)
	}
	return []string{fmt.Sprintf("%s stores %#x%s, which is in the range of x86's interrupt "+
		"addresses: if it is one, the device stores to the interrupt controller of the target",
		lmb.PlaceText(view, first), view.Commands[first].Value, more)}
}

func (v *verifyFlags) printVerified(path string, id identity, view *fbs.View,
	warnings []string) {
	checksums := map[string]string{}
	for i := range view.Sequences {
		checksums[view.Name(view.Sequences[i].Name)] = fmt.Sprintf("%08x",
			lmb.SequenceChecksum(view, i))
	}
	if asJSON {
		fields := map[string]any{"exit": 0, "code": hal.OK.Error(), "image": path,
			"image_checksum": id.Checksum, "sha256": id.SHA256,
			"commands":  len(view.Commands) - len(view.Sequences),
			"checksums": checksums, "warnings": warnings}
		if v.madeFrom != nil {
			fields["made_from"] = v.madeFrom
		}
		printJSON(stdout, fields)
		return
	}
	printLine(stdout, "%s: valid, %s", path,
		english.Count(len(view.Commands)-len(view.Sequences), "command"))
	printLine(stdout, "  %s", id)
	for _, capture := range v.madeFrom {
		printLine(stdout, "  made from %s", capture)
	}
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
				failUsage("there is no board %q; use one of: %s", name, boardNames())
			}
			if board.Vendor != t.Vendor || board.Device != t.Device {
				fail.With(hal.WrongDevice,
					"the image is for %s (%04x:%04x), not for %s (%04x:%04x)",
					view.Name(t.Board), t.Vendor, t.Device, board.Name, board.Vendor, board.Device)
			}
		}
		if boards.FindByID(t.Vendor, t.Device) == nil {
			own = append(own,
				fmt.Sprintf("device %d: no board has the PCI ids %04x:%04x, "+
					"so the access rules are those of the image (%s)",
					i, t.Vendor, t.Device, english.Count(len(view.Board(i).Rules), "rule")))
		}
	}
	return own
}
