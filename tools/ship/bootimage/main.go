package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"lightmetal/boards/hosts"
	"lightmetal/hal"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/lmrun/files"
	"lightmetal/tools/ship/bootimage/sbom"

	flag "github.com/spf13/pflag"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	err := run(os.Args[1:], out)
	if full := out.Flush(); err == nil {
		err = hal.FileFault("standard output", full)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bootimage: %s\n", files.OneLine(err.Error()))
		os.Exit(exitStatus(err))
	}
}

// exitStatus returns the exit status for an error: that of lminit if lminit has rejected the boot
// image, otherwise that of the error's code. An error without a code has the status of
// hal.BadImage.
func exitStatus(err error) int {
	code, refused := hal.BadImage, new(exec.ExitError)
	if errors.As(err, &code); errors.As(err, &refused) && refused.ExitCode() > 0 {
		return refused.ExitCode()
	}
	return code.ExitStatus()
}

func run(args []string, out io.Writer) (err error) {
	defer fail.Catch(&err)
	switch command := append(args, "")[0]; command {
	case "image":
		imageCommand(args[1:], out)
	case "sbom":
		sbomCommand(args[1:], out)
	case "boards":
		for _, h := range hosts.All() {
			fmt.Fprintf(out, "%-10s %-20s %s\n", h.Name, h.Boot, h.Title)
		}
	case "":
		fail.With(hal.Usage, "the command is missing; use image, sbom or boards")
	default:
		fail.With(hal.Usage, "there is no command %q; use image, sbom or boards", command)
	}
	return nil
}

func parseFlags(flags *flag.FlagSet, args []string) {
	if err := flags.Parse(args); err != nil {
		fail.On(fmt.Errorf("%w: %w; --help lists the flags", hal.Usage, err))
	}
}

func sbomCommand(args []string, out io.Writer) {
	flags := flag.NewFlagSet("bootimage sbom", flag.ContinueOnError)
	name := flags.String("name", "lightmetal",
		"`name` of the SBOM: the product that the files belong to")
	parseFlags(flags, args)
	var parts []sbom.File
	for _, path := range flags.Args() {
		parts = append(parts, sbom.File{Path: filepath.Base(path),
			Data: fail.Must(files.Read(path, fileMax))})
	}
	fail.Must(out.Write(fail.Must(sbom.Document(*name, sourceDate(), parts))))
}

// sourceDate returns the time that is written into the result, instead of the current time
// (reproducible-builds.org/specs/source-date-epoch).
func sourceDate() time.Time {
	text := cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0")
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		fail.On(fmt.Errorf("SOURCE_DATE_EPOCH must be seconds since 1970, not %q", text))
	}
	return time.Unix(seconds, 0)
}

// request describes the boot image that is made.
type request struct {
	board           *hosts.Host
	lmrun           string   // path of the arm64 program lmrun on this machine
	lminit          string   // path of the arm64 program lminit, which starts lmrun
	verifier        string   // path of lminit for this machine; lmrun is in the same directory
	config          string   // path of a configuration; empty: made from settings
	imageSettings   []string // lines of the configuration for every image
	machineSettings []string // lines of the configuration before the first image
	images          []string // paths on this machine
	addedFiles      []string // values FILE or FILE=PATH of --add
	kernel, dtb     string   // paths on this machine; empty: none
	loadAddress     string   // address of the kernel in a FIT, empty: the board's
	kernelArguments string   // further kernel arguments
	out             string   // directory of the result
	tempDir         string   // temporary directory next to out, in which the result is made
	warnings        []string // about images
	notPacked       []string // paths of images that are not packed, if there are several
}

// imageFlagNames are the flags of lmrun that bootimage image accepts, too. They apply to every
// image, and are used without a configuration file.
var imageFlagNames = []string{"device", "before", "sequence", "after", "loop", "input", "output",
	"deadline", "longest", "watchdog", "faults", "window", "key", "at-least", "version-counter"}

func imageCommand(args []string, out io.Writer) {
	var r request
	flags := flag.NewFlagSet("bootimage image", flag.ContinueOnError)
	board := flags.String("board", "", "`name` of the board; bootimage boards lists them")
	flags.StringVar(&r.lmrun, "lmrun", "", "`file` of lmrun, a static arm64 program")
	flags.StringVar(&r.lminit, "lminit", "", "`file` of lminit, a static arm64 program")
	flags.StringVar(&r.verifier, "verifier", "",
		"`file` of lminit for this machine, in a directory with lmrun; verifies the boot image")
	flags.StringVar(&r.out, "out", "", "`directory` for the result; its contents are replaced")
	flags.StringVar(&r.config, "config", "",
		"`file` with the configuration of lminit, instead of flags of lmrun")
	flags.StringVar(&r.kernel, "kernel", "", "arm64 kernel `Image`")
	flags.StringVar(&r.dtb, "dtb", "", "device tree of the board, for a FIT")
	flags.StringVar(&r.loadAddress, "load", "",
		"load `address` of the kernel in a FIT; default: the load address of the board")
	flags.StringVar(&r.kernelArguments, "append", "", "further `arguments` of the kernel")
	flags.Func("add", "`FILE[=PATH]`: a file of this machine, and its path in the boot image; "+
		"the default is the root directory; repeatable",
		appendValue(&r.addedFiles, ""))
	for _, name := range imageFlagNames {
		flags.Func(name, "same as the flag of lmrun, with paths on the board; repeatable",
			appendValue(&r.imageSettings, name+" "))
	}
	for _, name := range []string{"seal", "lock", "json"} {
		flags.BoolFunc(name, "same as the flag of lmrun",
			func(string) error { r.imageSettings = append(r.imageSettings, name); return nil })
	}
	flags.Func("on-success", "what follows a success: halt, poweroff, reboot, \"restart forever\" "+
		"or `\"restart N ACTION\"`",
		appendValue(&r.machineSettings, "on-success "))
	flags.Func("on-failure", "what follows a failure: as --on-success, or `STEPS` as in "+
		"tools/lminit/CONFIGURATION.md",
		appendValue(&r.machineSettings, "on-failure "))
	parseFlags(flags, args)
	r.images = flags.Args()
	if r.board = hosts.ByName(*board); r.board == nil {
		fail.With(hal.Usage, "there is no board %q; use one of: %s", *board, boardNames())
	}
	r.checkComplete()
	if list := slices.Concat(r.imageSettings, r.machineSettings); r.config != "" && len(list) > 0 {
		name, _, _ := strings.Cut(list[0], " ")
		fail.With(hal.Usage, "--%s cannot be used with --config; "+
			"put the setting into the configuration file", name)
	}
	r.buildResult(out)
}

// checkComplete fails if a flag that has no default, or the image, is missing.
func (r *request) checkComplete() {
	for _, needed := range [...]struct{ name, value string }{{"lmrun", r.lmrun},
		{"lminit", r.lminit}, {"verifier", r.verifier}, {"out", r.out}} {
		if needed.value == "" {
			fail.With(hal.Usage, "--%s is missing; use `./build.sh image`, which passes it",
				needed.name)
		}
	}
	if len(r.images) == 0 {
		fail.With(hal.Usage, "the image is missing; add the path of an image")
	}
}

func appendValue(list *[]string, prefix string) func(string) error {
	return func(value string) error {
		if strings.ContainsAny(value, "\n\r") {
			return errors.New("the value must have only one line")
		}
		*list = append(*list, prefix+value)
		return nil
	}
}

func boardNames() string {
	var list []string
	for _, h := range hosts.All() {
		list = append(list, h.Name)
	}
	return strings.Join(list, " ")
}
