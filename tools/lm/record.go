package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"lightmetal/hal"
	"lightmetal/tools/capture/recorder"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/synced"
	"lightmetal/tools/lmrun/files"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// recordFlags are the flags of lm record as they are typed.
type recordFlags struct {
	devices, files []string
	out, onUnknown string
	hostMemory     string
	watch          []string
	protect        string
	limit          uint64
	sync           time.Duration
}

func recordCommand() *cobra.Command {
	var f recordFlags
	c := &cobra.Command{
		Use: "record [flags] -o OUT.record -- PROGRAM [ARGUMENTS]",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				failUsage("record needs a program and its arguments after --; see lm record --help")
			}
			return nil
		},
		Run: func(_ *cobra.Command, args []string) { f.run(args) },
	}
	f.define(c.Flags())
	return c
}

func (f *recordFlags) define(flags *pflag.FlagSet) {
	flags.SetInterspersed(false)
	flags.StringVarP(&f.out, "out", "o", "", "recording to write")
	flags.StringSliceVar(&f.devices, "device", nil,
		"only these devices: pci:DDDD:BB:DD.F, pci:VVVV:DDDD, or either without pci: (default: "+
			"all that the program maps)")
	flags.StringArrayVar(&f.files, "file", nil,
		"a file that is a BAR: PATH=BAR[,VVVV:DDDD], or host memory that a device can access: "+
			"PATH=bus:ADDRESS; memfd:NAME for one without a path")
	flags.StringVar(&f.hostMemory, "host-memory", "8M",
		"how much memory that devices can access is compared before each store, such as 64M; "+
			"0: none")
	flags.StringSliceVar(&f.watch, "watch", nil,
		"FIRST-LAST, bus addresses of host memory, or all: memory whose changes by a device are "+
			"recorded at the program's next load")
	flags.StringVar(&f.protect, "protect", "huge",
		"lm executes the program's stores to this host memory, so that the recording has the "+
			"writer of each word: huge (its huge pages), all or none")
	defineSync(flags, &f.sync)
	flags.Uint64Var(&f.limit, "limit", 0, "end the program after this many accesses")
	flags.StringVar(&f.onUnknown, "on-unknown", "end",
		"what happens to the program at an access that cannot be recorded: end it, or "+
			"continue unrecorded")
}

// defineSync defines --sync of a command that writes a recording.
func defineSync(flags *pflag.FlagSet, interval *time.Duration) {
	flags.DurationVar(interval, "sync", synced.Interval,
		"interval at which the recording is written to the disk; if the machine stops, newer "+
			"accesses may be lost")
}

// checkSync fails if --sync has no interval.
func checkSync(interval time.Duration) {
	if interval < time.Millisecond {
		failUsage("--sync must be at least 1ms, not %v", interval)
	}
}

var deviceName = regexp.MustCompile(
	`^(?:pci:|vfio:)?([0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]|[0-9a-f]{4}:[0-9a-f]{4})$`)

func (f *recordFlags) run(program []string) {
	o := recorder.Options{Program: program, Limit: f.limit, GoOn: f.onUnknown == "unrecorded",
		Complaint: prefixed{stderr}, Sync: f.sync}
	checkSync(f.sync)
	switch {
	case f.out == "":
		failUsage("-o FILE is missing; it names the recording to write")
	case f.onUnknown != "end" && !o.GoOn:
		failUsage("--on-unknown takes end or unrecorded, not %q", f.onUnknown)
	}
	for _, d := range f.devices {
		name := deviceName.FindStringSubmatch(strings.ToLower(d))
		if name == nil {
			failUsage("--device takes pci:DDDD:BB:DD.F, such as pci:0000:01:00.0, or the ids "+
				"pci:VVVV:DDDD, not %q", d)
		}
		o.Devices = append(o.Devices, name[1])
	}
	f.setHostMemory(&o)
	for _, spec := range f.files {
		file := parseFile(spec)
		if slices.ContainsFunc(o.Files,
			func(other recorder.File) bool { return other.Path == file.Path }) {
			failUsage("--file %s: this file is named twice", spec)
		}
		o.Files = append(o.Files, file)
	}
	if onTerminal() {
		o.Progress = stderr.to
	}
	out := fail.Must(files.Replace(f.out, 0o666))
	defer out.Discard()
	o.Out = synced.OnDisk(out)
	result, err := recorder.Run(o)
	fail.On(keepWritten(out, recordFailure(err)))
	fail.On(out.Commit())
	printRecorded(f.out, result)
}

// setHostMemory sets the options that concern host memory.
func (f *recordFlags) setHostMemory(o *recorder.Options) {
	digits := strings.TrimRight(f.hostMemory, "kKMG")
	n, err := strconv.ParseUint(digits, 0, 32)
	shift, ok := map[string]int{"": 0, "k": 10, "K": 10, "M": 20,
		"G": 30}[f.hostMemory[len(digits):]]
	if err != nil || !ok {
		failUsage("--host-memory takes a size such as 8M, not %q", f.hostMemory)
	}
	o.HostMemory = n << shift
	protect, known := map[string]recorder.Protect{"huge": recorder.ProtectHuge,
		"all": recorder.ProtectAll, "none": recorder.ProtectNone}[f.protect]
	if !known {
		failUsage("--protect must be huge, all or none, not %q", f.protect)
	}
	o.Protect = protect
	for _, spec := range f.watch {
		first, last, pair := strings.Cut(spec, "-")
		if spec == "all" {
			first, last, pair = "0", "0xffffffffffffffff", true
		}
		a, aerr := strconv.ParseUint(first, 0, 64)
		b, berr := strconv.ParseUint(last, 0, 64)
		if aerr != nil || berr != nil || !pair || b < a {
			failUsage("--watch takes FIRST-LAST, bus addresses such as 0x91000-0x91fff, or all, "+
				"not %q", spec)
		}
		o.Watch = append(o.Watch, recorder.Range{First: a, Last: b})
	}
}

// parseFile reads PATH=BAR[,VVVV:DDDD], or PATH=bus:ADDRESS.
func parseFile(spec string) (f recorder.File) {
	at := strings.LastIndex(spec, "=")
	if at < 1 || !parseFileMeaning(spec[at+1:], &f) {
		failUsage("--file %s: the form is PATH=BAR or PATH=BAR,VVVV:DDDD, such as "+
			"/dev/shm/card=0,1234:11e8, or PATH=bus:ADDRESS, such as "+
			"/dev/shm/ring=bus:0x10000", spec)
	}
	f.Path = spec[:at]
	if !strings.HasPrefix(f.Path, "memfd:") {
		f.Path = fail.Must(filepath.Abs(f.Path))
		if real, err := filepath.EvalSymlinks(f.Path); err == nil {
			f.Path = real
		}
	}
	return f
}

// parseFileMeaning reads which BAR or host memory a file is.
func parseFileMeaning(text string, f *recorder.File) (ok bool) {
	var err error
	if address, memory := strings.CutPrefix(text, "bus:"); memory {
		f.Memory = true
		f.Bus, err = strconv.ParseUint(address, 0, 64)
		return err == nil && f.Bus%4096 == 0
	}
	index, ids, named := strings.Cut(text, ",")
	vendor, device, both := strings.Cut(ids, ":")
	n, err := strconv.ParseUint(index, 10, 8)
	if err != nil || n > 5 || !named {
		f.Bar = int(n)
		return err == nil && n <= 5
	}
	v, verr := strconv.ParseUint(vendor, 16, 16)
	d, derr := strconv.ParseUint(device, 16, 16)
	f.Bar, f.Vendor, f.Device = int(n), uint16(v), uint16(d)
	return both && verr == nil && derr == nil
}

// prefixed writes lines with "lm: " in front.
type prefixed struct{ to io.Writer }

func (p prefixed) Write(text []byte) (int, error) {
	_, err := fmt.Fprintf(p.to, "lm: %s", text)
	return len(text), err
}

// keepWritten commits a recording that could not be written to its end, if at least one access was
// written to it.
func keepWritten(out *files.Output, err error) error {
	size, serr := unix.Seek(out.Fd, 0, io.SeekCurrent)
	if hal.CodeOf(err) != hal.IO || out.IsStream || serr != nil || size == 0 ||
		out.Commit() != nil {
		return err
	}
	return fmt.Errorf("%w; %s has what was recorded before: lm import --incomplete reads it", err,
		out.Path)
}

func recordFailure(err error) error {
	var failure *recorder.Failure
	if !errors.As(err, &failure) {
		return err
	}
	code := map[recorder.Kind]hal.Code{recorder.NoProgram: hal.NoFile,
		recorder.Forbidden: hal.Denied, recorder.Output: hal.IO}[failure.Kind]
	return newFault(cmp.Or(code, hal.Internal), "%s",
		strings.TrimPrefix(failure.Reason, hal.IO.Error()+": "))
}

// printRecorded prints how much was recorded, and passes the program's exit status on.
func printRecorded(path string, r recorder.Result) {
	switch {
	case r.Stopped != "":
		printLine(stderr, "lm: the program was ended: %s", r.Stopped)
	case r.Devices == 0:
		printLine(stderr,
			"lm: the program mapped none of the BARs to record; lm record --help lists the "+
				"mappings that it sees")
	}
	whole := ""
	if r.Gaps > 0 {
		whole = ", incomplete: lm import needs --incomplete"
	}
	printLine(stderr, "lm: %d accesses recorded in %s%s", r.Accesses, path, whole)
	if r.Gaps > 0 && r.Stopped != "" {
		fail.On(reported{hal.Internal})
	}
	if r.Exit != 0 {
		fail.On(programStatus(r.Exit))
	}
}

// programStatus is the exit status of a program that lm ran, and passes on.
type programStatus int

func (s programStatus) Error() string { return fmt.Sprintf("the program ended with %d", int(s)) }
