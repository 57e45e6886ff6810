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
	Title string              // description for --list
	Run   func(*Device) error // makes the calls that are captured
}

// Main is the main function of a program that contains workloads, for lm capture. Its flags are
// --workload NAME, --board or --device, --out FILE, and --list, which prints the names of the
// workloads. After an error it ends the process with the exit status that package hal defines for
// the error.
func Main(list []Workload) {
	ttsim.ChildMain()
	if err := mainOf(list, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, files.OneLine(err.Error()))
		os.Exit(hal.CodeOf(err).ExitStatus())
	}
}

// mainOf runs Main with the given arguments, and returns the error.
func mainOf(list []Workload, args []string) (err error) {
	defer fail.Catch(&err)
	flags := flag.NewFlagSet("workload", flag.ContinueOnError)
	name := flags.String("workload", "", "workload to capture; not needed if there is only one "+
		"workload")
	board := flags.String("board", "", "board to capture for: wormhole or blackhole; needed "+
		"with --device none")
	device := flags.String("device", "none",
		"device to compute on: mock:BOARD, ttsim:/path/libttsim.so, another device of lm, "+
			"or none")
	out := flags.String("out", "", "file to write the image to")
	names := flags.Bool("list", false, "print the names of the workloads")
	if err := flags.Parse(args); err == flag.ErrHelp {
		return nil // Parse has printed the help
	} else if err != nil {
		refuse("%v; --help lists the flags", err)
	}
	if flags.NArg() > 0 {
		refuse("unexpected argument %s; use --workload NAME to choose a workload", flags.Arg(0))
	}
	if *names {
		for _, w := range list {
			fmt.Printf("%-24s %s\n", w.Name, w.Title)
		}
		return nil
	}
	w := choose(list, *name)
	if *out == "" {
		refuse("--out is missing; use --out FILE to name the file of the image")
	}
	b, on := openDevice(*board, *device)
	if on != nil {
		defer on.Close()
	}
	return fail.Must(w.Capture(b, on)).SaveToFile(*out)
}

// choose returns the workload with the given name. If name is empty, it returns the only workload.
func choose(list []Workload, name string) *Workload {
	var names []string
	for i := range list {
		if list[i].Name == name || name == "" && len(list) == 1 {
			return &list[i]
		}
		names = append(names, list[i].Name)
	}
	if name == "" {
		refuse("the name of a workload is missing; use one of: %s", strings.Join(names, ", "))
	}
	refuse("there is no workload %q; use one of: %s", name, strings.Join(names, ", "))
	return nil
}

// openDevice opens the device that computes during the capture, and returns it with its board. `on`
// is nil if the name of the device is "none".
func openDevice(board, device string) (b *boards.Board, on hal.Device) {
	b = chips.BoardByName(board)
	if board != "" && b == nil {
		refuse("there is no board %q; use wormhole or blackhole", board)
	}
	switch kind, rest, _ := strings.Cut(device, ":"); kind {
	case "none":
		if b == nil {
			refuse("--board is missing: with --device none, " +
				"use --board wormhole or --board blackhole")
		}
		return b, nil
	case "mock":
		mocked := chips.BoardByName(rest)
		if mocked == nil {
			refuse("%s: there is no board %q; use wormhole or blackhole", device, rest)
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
		refuse("%s is not a known board; use a Wormhole or Blackhole board", device)
	}
	return b, on // CreateDevice checks that the device is the board b
}

// Capture runs the workload once and captures it. The device `on` computes; if it is nil, nothing
// is computed.
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
