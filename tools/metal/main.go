package metal

import (
	"fmt"
	"os"
	"strings"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/devices/ttsim"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/lmrun/files"

	flag "github.com/spf13/pflag"
)

// Workload is a program to capture.
type Workload struct {
	Name  string
	Title string              // for people
	Run   func(*Device) error // between LightMetalBeginCapture and LightMetalEndCapture
}

// Main is the main function of a program that holds workloads, as lm capture
// runs it: --workload NAME, --board or --device, --out FILE; --list prints names.
// It ends the process with the status of package hal's codes.
func Main(list []Workload) {
	ttsim.ChildMain()
	if err := mainOf(list, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, files.OneLine(err.Error()))
		os.Exit(hal.CodeOf(err).ExitStatus())
	}
}

func mainOf(list []Workload, args []string) (err error) {
	defer fail.Catch(&err)
	flags := flag.NewFlagSet("workload", flag.ContinueOnError)
	name := flags.String("workload", "", "workload to capture; not needed where there is one")
	board := flags.String("board", "", "wormhole or blackhole; not needed with --device mock:BOARD")
	device := flags.String("device", "none",
		"what computes: mock:BOARD, ttsim:/path/libttsim.so, a device, or none")
	out := flags.String("out", "", "image to write")
	names := flags.Bool("list", false, "print the names of the workloads")
	if err := flags.Parse(args); err == flag.ErrHelp {
		return nil // which it has printed
	} else if err != nil {
		refuse("%v; --help lists the flags", err)
	}
	if flags.NArg() > 0 {
		refuse("unexpected argument %s; --workload NAME names what to capture", flags.Arg(0))
	}
	if *names {
		for _, w := range list {
			fmt.Printf("%-24s %s\n", w.Name, w.Title)
		}
		return nil
	}
	w := choose(list, *name)
	if *out == "" {
		refuse("--out FILE is missing; it names the image to write")
	}
	b, on := openDevice(*board, *device)
	if on != nil {
		defer on.Close()
	}
	return fail.Must(w.Capture(b, on)).SaveToFile(*out)
}

func choose(list []Workload, name string) *Workload {
	var names []string
	for i := range list {
		if list[i].Name == name || name == "" && len(list) == 1 {
			return &list[i]
		}
		names = append(names, list[i].Name)
	}
	refuse("there is no workload %q; workloads: %s", name, strings.Join(names, ", "))
	return nil
}

// openDevice opens what a capture runs on, and finds its board.
func openDevice(board, device string) (b *boards.Board, on hal.Device) {
	b = chips.BoardByName(board)
	if board != "" && b == nil {
		refuse("no board %q", board)
	}
	switch kind, rest, _ := strings.Cut(device, ":"); kind {
	case "none":
		if b == nil {
			refuse("with --device none, use --board wormhole or --board blackhole")
		}
		return b, nil
	case "mock":
		mocked := chips.BoardByName(rest)
		if mocked == nil {
			refuse("%s: no board %q", device, rest)
		}
		on = mock.New(mocked)
	default:
		on = fail.Must(ttsim.OpenAny(device))
	}
	id := on.Identity()
	if b == nil {
		b = boards.FindByID(id.Vendor, id.Device)
	}
	if b == nil {
		on.Close()
		refuse("%s is not a known board", device)
	}
	return b, on // CreateDevice compares the two
}

// Capture runs a workload once under capture. on is what computes, nil: nothing.
func (w *Workload) Capture(board *boards.Board, on hal.Device) (_ *LightMetalBinary, err error) {
	defer fail.Catch(&err)
	d := fail.Must(CreateDevice(board, on))
	d.Source = w.Name
	fail.On(LightMetalBeginCapture(d))
	var binary *LightMetalBinary
	if err = w.Run(d); err == nil {
		binary, err = LightMetalEndCapture(d)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.Name, err)
	}
	return binary, CloseDevice(d)
}
