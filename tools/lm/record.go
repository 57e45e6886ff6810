package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"lightmetal/hal"
	"lightmetal/tools/files"
	"lightmetal/tools/recorder"

	"github.com/spf13/cobra"
)

// recordFlags are the flags of lm record as they are typed.
type recordFlags struct {
	devices, files []string
	out, onUnknown string
	limit          uint64
}

func recordCommand() *cobra.Command {
	var f recordFlags
	c := &cobra.Command{
		Use:   "record [flags] -o OUT.record -- PROGRAM [ARGUMENTS]",
		Short: "run a program and write down what it does to a device",
		Long: `Record runs a program, unchanged, and writes down every load and store that it
and its children make to the BARs of PCI devices: value, width, order and time.
lm import --from record makes an image of that.

It sees mappings of resourceN and resourceN_wc under /sys, of VFIO devices, of
UIO and of /dev/mem. They are the program's without access; each access is made
by lm in its place, with the same width, which takes 10 to 60 microseconds. All
else in the program runs at full speed, and the device stays its own: DMA,
interrupts and reset.

An instruction that cannot be carried out so (locked ones, exclusives, gathers)
is never guessed: its bytes and place are told, and the record is marked as not
whole, which lm import refuses without --incomplete. --on-unknown says what
becomes of the program then.

The exit status is the program's, or 128 and the number of the signal that
ended it. Where lm itself fails it is one of lm's, with a line on standard error
that begins with lm:. Tracing a program takes root or the program's user, and in
a container --cap-add=SYS_PTRACE.`,
		Example: `  lm record -o nic.record -- ./driver 0000:03:00.0
  lm record --device 1e52:401e -o run.record -- python3 run.py
  lm record --file /dev/shm/card=0,1234:11e8 -o test.record -- ./program
  lm import --from record --board edu nic.record -o nic.lmb`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("record takes a program and its arguments behind --; lm record --help tells more")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return f.run(args) },
	}
	flags := c.Flags()
	flags.SetInterspersed(false)
	flags.StringVarP(&f.out, "out", "o", "", "record to write")
	flags.StringSliceVar(&f.devices, "device", nil, "only these devices: pci:DDDD:BB:DD.F, pci:VVVV:DDDD, or either without pci: (default: all that the program maps)")
	flags.StringArrayVar(&f.files, "file", nil, "a file that is a BAR: PATH=BAR[,VVVV:DDDD]; memfd:NAME for one without a path")
	flags.Uint64Var(&f.limit, "limit", 0, "end the program after so many accesses")
	flags.StringVar(&f.onUnknown, "on-unknown", "end", "what becomes of the program at an access that cannot be recorded: end, or unrecorded, where it goes on without lm")
	return c
}

func (f *recordFlags) run(program []string) error {
	o := recorder.Options{Program: program, Limit: f.limit, GoOn: f.onUnknown == "unrecorded", Complaint: prefixed{stderr}}
	switch {
	case f.out == "":
		return usage("-o says which file the record becomes")
	case f.onUnknown != "end" && !o.GoOn:
		return usage("--on-unknown takes end or unrecorded, not %q", f.onUnknown)
	}
	for _, d := range f.devices {
		o.Devices = append(o.Devices, strings.TrimPrefix(strings.TrimPrefix(d, "pci:"), "vfio:"))
	}
	for _, spec := range f.files {
		file, err := parseFile(spec)
		if err != nil {
			return err
		}
		o.Files = append(o.Files, file)
	}
	if onTerminal() {
		o.Progress = stderr.to
	}
	out, err := files.Replace(f.out, 0o666)
	if err != nil {
		return err
	}
	defer out.Discard()
	o.Out = out
	result, err := recorder.Run(o)
	if err != nil {
		return recordFailure(err)
	}
	if err := out.Commit(); err != nil {
		return err
	}
	return recorded(f.out, result)
}

// parseFile reads PATH=BAR[,VVVV:DDDD].
func parseFile(spec string) (f recorder.File, err error) {
	const form = "--file %s: the form is PATH=BAR or PATH=BAR,VVVV:DDDD, such as /dev/shm/card=0,1234:11e8"
	at := strings.LastIndex(spec, "=")
	if at < 1 {
		return f, usage(form, spec)
	}
	index, ids, named := strings.Cut(spec[at+1:], ",")
	vendor, device, both := strings.Cut(ids, ":")
	n, err := strconv.ParseUint(index, 10, 8)
	if err != nil || n > 5 || named && !both {
		return f, usage(form, spec)
	}
	v, verr := strconv.ParseUint(vendor, 16, 16)
	d, derr := strconv.ParseUint(device, 16, 16)
	if named && (verr != nil || derr != nil) {
		return f, usage(form, spec)
	}
	path := spec[:at]
	if !strings.HasPrefix(path, "memfd:") {
		if path, err = filepath.Abs(path); err != nil {
			return f, err
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
	}
	return recorder.File{Path: path, Bar: int(n), Vendor: uint16(v), Device: uint16(d)}, nil
}

// prefixed puts what a line is from in front of it.
type prefixed struct{ to io.Writer }

func (p prefixed) Write(text []byte) (int, error) {
	_, err := fmt.Fprintf(p.to, "lm: %s", text)
	return len(text), err
}

func recordFailure(err error) error {
	var failure *recorder.Failure
	if !errors.As(err, &failure) {
		return err
	}
	code := map[recorder.Kind]hal.Code{
		recorder.NoProgram: hal.NoFile, recorder.Forbidden: hal.Denied, recorder.Output: hal.IO,
	}[failure.Kind]
	if code == 0 {
		code = hal.Internal
	}
	return wrong(code, "%s", failure.Reason)
}

// recorded says what there is, and passes the program's exit status on.
func recorded(path string, r recorder.Result) error {
	switch {
	case r.Stopped != "":
		fmt.Fprintf(stderr, "lm: the program was ended: %s\n", r.Stopped)
	case r.Devices == 0:
		fmt.Fprintln(stderr, "lm: the program mapped no BAR that was to be recorded: --help tells which mappings are seen")
	}
	whole := ""
	if r.Gaps > 0 {
		whole = ", which is not whole: lm import takes it with --incomplete only"
	}
	fmt.Fprintf(stderr, "lm: %d accesses recorded in %s%s\n", r.Accesses, path, whole)
	if r.Gaps > 0 && r.Stopped != "" {
		return reported{hal.Internal}
	}
	if r.Exit != 0 {
		return programStatus(r.Exit)
	}
	return nil
}

// programStatus is the exit status of a program that lm ran, and passes on.
type programStatus int

func (s programStatus) Error() string { return fmt.Sprintf("the program ended with %d", int(s)) }
