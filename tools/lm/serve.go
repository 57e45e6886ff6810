package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/devices/vfiouser"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/synced"
	"lightmetal/tools/lmrun/files"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// serveFlags are the flags of lm serve as they are typed.
type serveFlags struct {
	device, socket, trace string
	faults, without       []string
	sync                  time.Duration
}

func serveCommand() *cobra.Command {
	var f serveFlags
	c := newCommand("serve --device DEVICE --socket PATH", argumentCount(0, 0, "no arguments"),
		func([]string) { fail.On(f.run()) })
	flags := c.Flags()
	flags.StringVar(&f.device, "device", "", "device to serve: mock:BOARD ("+boardNames()+
		"), mock:FILE (of a board file or an image), ttsim:LIBRARY or playback:FILE (a recording)")
	flags.StringVar(&f.socket, "socket", "",
		"path of the socket to which QEMU's vfio-user-pci connects")
	flags.StringVar(&f.trace, "trace", "",
		"write every access, and DMA, to this `file`, for lm import --from record")
	defineSync(flags, &f.sync)
	flags.StringSliceVar(&f.without, "without", nil,
		"PCI capabilities to leave out of the device's configuration space: "+
			strings.Join(vfiouser.Capabilities(), ", "))
	flags.StringArrayVar(&f.faults, "fault", nil, "inject a fault (listed above)")
	return c
}

// checkRequired fails if a flag that has no default is missing.
func (f *serveFlags) checkRequired() {
	if f.device == "" {
		failUsage("--device is missing; see lm serve --help")
	}
	if f.socket == "" {
		failUsage("--socket is missing; see lm serve --help")
	}
}

func (f *serveFlags) run() (err error) {
	f.checkRequired()
	checkSync(f.sync)
	wedge := extractWedge(&f.faults)
	parseFaults(f.faults)
	for _, name := range f.without {
		if !slices.Contains(vfiouser.Capabilities(), name) {
			failUsage("--without %s: there is no such capability; use one of: %s", name,
				strings.Join(vfiouser.Capabilities(), ", "))
		}
	}
	options := vfiouser.Options{Without: f.without, Sync: f.sync, Wedge: wedge,
		Log: func(format string, a ...any) { printLine(stderr, "lm serve: "+format, a...) }}
	serves := false
	if f.trace != "" {
		file, fault := files.OpenToReplace(f.trace, 0o666)
		if fault != nil {
			return fault
		}
		// A server that does not start leaves an earlier recording alone; the recording of a
		// session that failed is kept.
		defer func() {
			if serves {
				err = cmp.Or(err, file.Commit())
			}
			file.Discard()
		}()
		options.Trace = synced.OnDisk(file)
		if !file.IsStream {
			options.Spool = f.trace
		}
	}
	function, err := vfiouser.New(f.openWithFaults, options)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pending.handleNext(func(unix.Signal) { cancel() })
	listener, err := vfiouser.Listen(f.socket)
	if err != nil {
		function.Close()
		return err
	}
	defer listener.Close()
	serves = true
	printLine(stderr, "lm serve: %s listens on %s", f.device, f.socket)
	err = cmp.Or(vfiouser.Serve(ctx, listener, function), function.Close())
	if n := function.Refused(); err == nil && n > 0 {
		err = newFault(hal.Refused, "the device rejected %d accesses", n)
	}
	if err == nil {
		err = unplayedError(function.Device(), "the client disconnected")
	}
	return err
}

func (f *serveFlags) openWithFaults() (_ hal.Device, err error) {
	defer fail.Catch(&err)
	device := f.openPlain()
	device.(interface{ AsHardware() }).AsHardware() // both a mock and a simulator have this method
	m, ok := device.(*mock.Device)
	if len(f.faults) == 0 {
		return device, nil
	}
	if !ok {
		device.Close()
		failUsage("--fault needs a mock (mock:BOARD), but --device is %s", f.device)
	}
	for _, fault := range parseFaults(f.faults) {
		m.Inject(fault)
	}
	return m, nil
}

// openPlain opens the device without faults.
func (f *serveFlags) openPlain() hal.Device {
	switch kind, _, _ := strings.Cut(f.device, ":"); kind {
	case "mock", "ttsim", "playback":
		return openDevice(f.device)
	}
	failUsage("%s cannot be served; use mock:BOARD, mock:FILE, ttsim:LIBRARY or playback:FILE",
		f.device)
	return nil
}

// unplayedError returns an error if a recording was not played to its end.
func unplayedError(device hal.Device, what string) error {
	if m, ok := device.(*mock.Device); ok && m.RemainingAccesses() > 0 {
		return newFault(hal.Refused, "%s, but %d recorded accesses were still expected", what,
			m.RemainingAccesses())
	}
	return nil
}

// extractWedge removes the faults wedged-until=EVENT[@ACCESS] from a list and returns the last of
// them. The PCI function has this fault, not the device behind it.
func extractWedge(texts *[]string) (w vfiouser.Wedge) {
	*texts = slices.DeleteFunc(*texts, func(text string) bool {
		rest, isWedge := strings.CutPrefix(text, "wedged-until=")
		if !isWedge {
			return false
		}
		var access string
		var hasAccess bool
		w.Until, access, hasAccess = strings.Cut(rest, "@")
		w.Access, w.Reconnect = 1, 10*time.Second // QEMU and a kernel take less
		if hasAccess {
			w.Access, _ = strconv.Atoi(access)
		}
		if !slices.Contains(vfiouser.WedgeEnds(), w.Until) || w.Access < 1 {
			failUsage("--fault %s: the form is wedged-until=EVENT[@ACCESS]; EVENT is one of %s, "+
				"ACCESS a number, at least 1", text, strings.Join(vfiouser.WedgeEnds(), ", "))
		}
		return true
	})
	return w
}

func parseFaults(texts []string) (faults []mock.Fault) {
	for _, text := range texts {
		fault, err := parseFault(text)
		if err != nil {
			failUsage("--fault %s: %v; lm serve --help lists the faults", text, err)
		}
		faults = append(faults, fault)
	}
	return faults
}

func parseFault(text string) (f mock.Fault, err error) {
	if text == "no-dma" {
		return mock.Fault{Kind: mock.NoDMA}, nil
	}
	if name, at, ok := strings.Cut(text, "@"); ok {
		f.Kind = map[string]mock.FaultKind{"gone": mock.AllOnes, "bus": mock.BusFault}[name]
		f.Operation, err = strconv.Atoi(at)
		switch {
		case f.Kind == 0:
			return f, errors.New("unknown fault")
		case err != nil || f.Operation < 1:
			return f, fmt.Errorf("%q must be the number of an access, at least 1", at)
		}
		return f, nil
	}
	name, rest, _ := strings.Cut(text, ":")
	f.Kind = map[string]mock.FaultKind{"stuck": mock.Stuck, "late": mock.Late}[name]
	place, bits, ok := strings.Cut(rest, "=")
	if f.Kind == 0 || !ok {
		return f, errors.New("unknown fault")
	}
	return f, parseStuck(&f, place, strings.Split(bits, "/"))
}

// parseStuck parses BAR+OFFSET and BITS/MASK, followed by /LOADS for a late fault.
func parseStuck(f *mock.Fault, place string, bits []string) (err error) {
	bar, offset, ok := strings.Cut(place, "+")
	want := 2
	if f.Kind == mock.Late {
		want = 3
	}
	if !ok || len(bits) != want {
		return errors.New("the form must be stuck:BAR+OFFSET=BITS/MASK " +
			"or late:BAR+OFFSET=BITS/MASK/LOADS")
	}
	number := func(text string, size int) (n uint64) {
		n, e := strconv.ParseUint(text, 0, size)
		if e != nil && err == nil {
			err = fmt.Errorf("%q must be a number of at most %d bits", text, size)
		}
		return n
	}
	f.Place = mock.Place{Bar: uint8(number(bar, 3)), Address: number(offset, 64)}
	f.Value, f.Mask = number(bits[0], 64), number(bits[1], 64)
	if f.Kind == mock.Late {
		f.Loads = int(number(bits[2], 31))
	}
	return err
}
