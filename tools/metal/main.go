package metal

import (
	"fmt"
	"os"
	"strings"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/ttsim"

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
		fmt.Fprintln(os.Stderr, err)
		os.Exit(hal.CodeOf(err).Exit())
	}
}

func mainOf(list []Workload, args []string) error {
	flags := flag.NewFlagSet("workload", flag.ContinueOnError)
	name := flags.String("workload", "", "workload to capture; not needed where there is one")
	board := flags.String("board", "", "wormhole or blackhole; not needed with --device mock:BOARD")
	device := flags.String("device", "none", "what computes: mock:BOARD, ttsim:/path/libttsim.so, a device, or none")
	out := flags.String("out", "", "image to write")
	names := flags.Bool("list", false, "print the names of the workloads")
	if err := flags.Parse(args); err == flag.ErrHelp {
		return nil // which it has printed
	} else if err != nil {
		return usage("%v; --help tells more", err)
	}
	if flags.NArg() > 0 {
		return usage("%s: flags alone; --workload names what to capture", flags.Arg(0))
	}
	if *names {
		for _, w := range list {
			fmt.Printf("%-24s %s\n", w.Name, w.Title)
		}
		return nil
	}
	w, err := choose(list, *name)
	if err != nil {
		return err
	}
	if *out == "" {
		return usage("--out says where the image goes")
	}
	b, on, err := openDevice(*board, *device)
	if err != nil {
		return err
	}
	if on != nil {
		defer on.Close()
	}
	binary, err := w.Capture(b, on)
	if err != nil {
		return err
	}
	return binary.SaveToFile(*out)
}

func choose(list []Workload, name string) (*Workload, error) {
	var names []string
	for i := range list {
		if list[i].Name == name || name == "" && len(list) == 1 {
			return &list[i], nil
		}
		names = append(names, list[i].Name)
	}
	return nil, usage("no workload %q; there are %s", name, strings.Join(names, ", "))
}

// openDevice opens what a capture runs on, and finds its board.
func openDevice(board, device string) (b *boards.Board, on hal.Device, err error) {
	b = chips.ByName(board)
	if board != "" && b == nil {
		return nil, nil, usage("no board %q", board)
	}
	switch kind, rest, _ := strings.Cut(device, ":"); kind {
	case "none":
		if b == nil {
			return nil, nil, usage("without a device, --board says what the image is for: wormhole or blackhole")
		}
		return b, nil, nil
	case "mock":
		mocked := chips.ByName(rest)
		if mocked == nil {
			return nil, nil, usage("%s: no board %q", device, rest)
		}
		on = mock.New(mocked)
	default:
		on, err = ttsim.OpenAny(device)
	}
	if err != nil {
		return nil, nil, err
	}
	id := on.Identity()
	if b == nil {
		b = boards.ByID(id.Vendor, id.Device)
	}
	if b == nil {
		on.Close()
		return nil, nil, usage("%s is no known board", device)
	}
	return b, on, nil // CreateDevice compares the two
}

// Capture runs a workload once under capture. on is what computes, nil: nothing.
func (w *Workload) Capture(board *boards.Board, on hal.Device) (*LightMetalBinary, error) {
	d, err := CreateDevice(board, on)
	if err != nil {
		return nil, err
	}
	d.Source = w.Name
	if err := LightMetalBeginCapture(d); err != nil {
		return nil, err
	}
	if err := w.Run(d); err != nil {
		return nil, fmt.Errorf("%s: %w", w.Name, err)
	}
	binary, err := LightMetalEndCapture(d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.Name, err)
	}
	return binary, CloseDevice(d)
}
