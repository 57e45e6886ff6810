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
		os.Exit(exitOf(err))
	}
}

// exitOf is the status of lminit where that refused, else that of an error's code; one without is
// about data.
func exitOf(err error) int {
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
	default:
		fail.With(hal.Usage, "bootimage image, sbom or boards")
	}
	return nil
}

// parse reads the flags of a command.
func parse(flags *flag.FlagSet, args []string) {
	if err := flags.Parse(args); err != nil {
		fail.On(fmt.Errorf("%w: %w; flags have two dashes, and --help lists them", hal.Usage, err))
	}
}

func sbomCommand(args []string, out io.Writer) {
	flags := flag.NewFlagSet("bootimage sbom", flag.ContinueOnError)
	name := flags.String("name", "lightmetal",
		"`name` of the SBOM: the product that the files belong to")
	parse(flags, args)
	var parts []sbom.File
	for _, path := range flags.Args() {
		parts = append(parts, sbom.File{Path: filepath.Base(path),
			Data: fail.Must(files.Read(path, fileMax))})
	}
	fail.Must(out.Write(fail.Must(sbom.Document(*name, sourceDate(), parts))))
}

// sourceDate is the time that goes into what is built, instead of the time at
// which it is built (reproducible-builds.org/specs/source-date-epoch).
func sourceDate() time.Time {
	text := cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0")
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		fail.On(fmt.Errorf("SOURCE_DATE_EPOCH is %q, not seconds", text))
	}
	return time.Unix(seconds, 0)
}

// request is what an image is to be made of.
type request struct {
	board       *hosts.Host
	lmrun       string   // host path of the arm64 program
	lminit      string   // and of the one that starts it
	verifier    string   // host path of an lminit that runs here, with lmrun beside it
	config      string   // host path of a configuration, empty: settings
	settings    []string // lines for every image
	machine     []string // lines before the first
	images      []string // host paths
	adds        []string // FILE or FILE=PATH
	kernel, dtb string   // host paths, empty: none
	load        string   // address of the kernel in a FIT, empty: the board's
	append      string   // further kernel arguments
	out         string   // folder of the result
	dir         string   // beside it, where the result is made
	elsewhere   []string // images of the configuration that are not packed
}

// ofEveryImage are lmrun's flags that may be given here instead of a
// configuration.
var ofEveryImage = []string{"device", "before", "sequence", "after", "loop", "input", "output",
	"deadline", "longest", "watchdog", "faults", "window", "key", "at-least", "version-counter"}

func imageCommand(args []string, out io.Writer) {
	var r request
	flags := flag.NewFlagSet("bootimage image", flag.ContinueOnError)
	board := flags.String("board", "", "`name` of the board; bootimage boards lists them")
	flags.StringVar(&r.lmrun, "lmrun", "", "static arm64 lmrun")
	flags.StringVar(&r.lminit, "lminit", "", "static arm64 lminit")
	flags.StringVar(&r.verifier, "verifier", "",
		"lminit of this machine, with lmrun next to it, for the verification")
	flags.StringVar(&r.out, "out", "", "`directory` for the result; its contents are replaced")
	flags.StringVar(&r.config, "config", "", "configuration, instead of the flags of lmrun")
	flags.StringVar(&r.kernel, "kernel", "", "arm64 kernel `Image`")
	flags.StringVar(&r.dtb, "dtb", "", "device tree of the board, for a FIT")
	flags.StringVar(&r.load, "load", "", "`address` of the kernel in a FIT; default: the board's")
	flags.StringVar(&r.append, "append", "", "further `arguments` of the kernel")
	flags.Func("add", "`FILE[=PATH]`: a host file and where it goes, default /; repeatable",
		collect(&r.adds, ""))
	for _, name := range ofEveryImage {
		flags.Func(name, "as lmrun's; paths are the board's; repeatable",
			collect(&r.settings, name+" "))
	}
	for _, name := range []string{"seal", "lock", "json"} {
		flags.BoolFunc(name, "as lmrun's",
			func(string) error { r.settings = append(r.settings, name); return nil })
	}
	flags.Func("on-success", "halt, poweroff, reboot, restart or `\"restart N ACTION\"`",
		collect(&r.machine, "on-success "))
	flags.Func("on-failure", "the same, or `STEPS` as in tools/lminit/CONFIGURATION.md",
		collect(&r.machine, "on-failure "))
	parse(flags, args)
	r.images = flags.Args()
	if r.board = hosts.ByName(*board); r.board == nil {
		fail.With(hal.Usage, "there is no board %q; boards: %s", *board, names())
	}
	if r.lmrun == "" || r.lminit == "" || r.verifier == "" || r.out == "" || len(r.images) == 0 {
		fail.With(hal.Usage,
			"an image is needed (and without build.sh --lmrun, --lminit, --verifier and --out)")
	}
	if r.config != "" && len(r.settings)+len(r.machine) > 0 {
		fail.With(hal.Usage, "with --config, put the flags of lmrun into the configuration")
	}
	r.make(out)
}

func collect(list *[]string, prefix string) func(string) error {
	return func(value string) error {
		if strings.ContainsAny(value, "\n\r") {
			return errors.New("the value has more than one line")
		}
		*list = append(*list, prefix+value)
		return nil
	}
}

func names() string {
	var list []string
	for _, h := range hosts.All() {
		list = append(list, h.Name)
	}
	return strings.Join(list, " ")
}
