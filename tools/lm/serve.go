package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/devices/vfiouser"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/synced"
	"lightmetal/tools/lmrun/files"

	"github.com/spf13/cobra"
)

// serveFlags are the flags of lm serve as they are typed.
type serveFlags struct {
	device, socket, trace string
	faults, without       []string
	sync                  time.Duration
}

func serveCommand() *cobra.Command {
	var f serveFlags
	c := command("serve --device DEVICE --socket PATH", argumentCount(0, 0, "no arguments"),
		func([]string) { fail.On(f.run()) })
	flags := c.Flags()
	flags.StringVar(&f.device, "device", "", "mock:BOARD ("+boardNames()+
		"), mock:FILE, ttsim:LIBRARY or playback:FILE")
	flags.StringVar(&f.socket, "socket", "",
		"path of the socket to which QEMU's vfio-user-pci connects")
	flags.StringVar(&f.trace, "trace", "",
		"write every access, and DMA, to this `file`, for lm import --from record")
	defineSync(flags, &f.sync)
	flags.StringSliceVar(&f.without, "without", nil,
		"PCI capabilities that the device's configuration space lacks: "+
			strings.Join(vfiouser.Capabilities(),
				", "))
	flags.StringArrayVar(&f.faults, "fault", nil, "inject a fault (listed above)")
	return c
}

func (f *serveFlags) run() (err error) {
	if f.device == "" || f.socket == "" {
		failUsage("serve needs --device and --socket; see lm serve --help")
	}
	checkSync(f.sync)
	wedge := takeWedge(&f.faults)
	parseFaults(f.faults)
	for _, name := range f.without {
		if !slices.Contains(vfiouser.Capabilities(), name) {
			failUsage("--without %s: there is no such capability; it must be one of %s", name,
				strings.Join(vfiouser.Capabilities(), ", "))
		}
	}
	options := vfiouser.Options{Without: f.without, Sync: f.sync, Wedge: wedge,
		Log: func(format string, a ...any) { printLine(stderr, "lm serve: "+format, a...) }}
	serves := false
	if f.trace != "" {
		file, fault := files.Replace(f.trace, 0o666)
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
	cancelOnSignal(cancel)
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

// cancelOnSignal has SIGINT and SIGTERM end the server. They stay caught until the process ends:
// one that arrives after the client has left must not take the place of the exit status.
func cancelOnSignal(cancel func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
	}()
}

// openWithFaults opens the device and injects the faults of --fault.
func (f *serveFlags) openWithFaults() (_ hal.Device, err error) {
	defer fail.Catch(&err)
	device := f.openPlain()
	device.(interface{ AsHardware() }).AsHardware() // both have it
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

// takeWedge removes the faults wedged-until=EVENT[@ACCESS] from a list and returns the last of
// them. The PCI function has this fault, not the device behind it.
func takeWedge(texts *[]string) (w vfiouser.Wedge) {
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
				"ACCESS a number from 1", text, strings.Join(vfiouser.WedgeEnds(), ", "))
		}
		return true
	})
	return w
}

// parseFaults reads --fault.
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
			return f, errors.New("no fault has this form")
		case err != nil || f.Operation < 1:
			return f, fmt.Errorf("%q is not the number of an access; the first is 1", at)
		}
		return f, nil
	}
	name, rest, _ := strings.Cut(text, ":")
	f.Kind = map[string]mock.FaultKind{"stuck": mock.Stuck, "late": mock.Late}[name]
	place, bits, ok := strings.Cut(rest, "=")
	if f.Kind == 0 || !ok {
		return f, errors.New("no fault has this form")
	}
	return f, parseStuck(&f, place, strings.Split(bits, "/"))
}

// parseStuck reads BAR+OFFSET and BITS/MASK, of a late fault with /LOADS.
func parseStuck(f *mock.Fault, place string, bits []string) (err error) {
	bar, offset, ok := strings.Cut(place, "+")
	want := 2
	if f.Kind == mock.Late {
		want = 3
	}
	if !ok || len(bits) != want {
		return errors.New("the form is BAR+OFFSET=BITS/MASK, and for late " +
			"BAR+OFFSET=BITS/MASK/LOADS")
	}
	number := func(text string, size int) (n uint64) {
		n, e := strconv.ParseUint(text, 0, size)
		if e != nil && err == nil {
			err = fmt.Errorf("%q is not a number of %d bits", text, size)
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
