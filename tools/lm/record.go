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
	marks          string
	portTable      string
	unchecked      bool
}

func recordCommand() *cobra.Command {
	var f recordFlags
	c := &cobra.Command{
		Use: "record [flags] -o OUT.record -- PROGRAM [ARGUMENTS]",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && f.portTable == "" {
				failUsage("the program is missing; write the program and its arguments after --; " +
					"see lm record --help")
			}
			return nil
		},
		Run: func(_ *cobra.Command, args []string) { f.run(args) },
	}
	f.defineFlags(c.Flags())
	return c
}

func (f *recordFlags) defineFlags(flags *pflag.FlagSet) {
	flags.SetInterspersed(false)
	flags.StringVarP(&f.out, "out", "o", "", "recording to write")
	flags.StringSliceVar(&f.devices, "device", nil,
		"ignore devices other than these: pci:DDDD:BB:DD.F, pci:VVVV:DDDD, or either without pci: "+
			"(default: all that the program maps)")
	flags.StringArrayVar(&f.files, "file", nil,
		"file to record as a BAR: PATH=BAR[+OFFSET][:SIZE][,VVVV:DDDD] "+
			"(OFFSET: of the file in the BAR; SIZE: of the BAR), "+
			"or as host memory that a device can access: PATH=bus:ADDRESS; PATH may be memfd:NAME")
	flags.StringVar(&f.hostMemory, "host-memory", "8M",
		"compare up to this much host memory before each store, such as 64M (0: compare nothing)")
	flags.StringSliceVar(&f.watch, "watch", nil,
		"host memory, as bus addresses FIRST-LAST or all: "+
			"record a device's changes to it at the program's next load")
	flags.StringVar(&f.protect, "protect", "huge",
		"host memory to which lm executes the program's stores, "+
			"so that the recording shows who wrote each word: huge (only huge pages), all or none")
	defineSync(flags, &f.sync)
	flags.Uint64Var(&f.limit, "limit", 0, "end the program after this many accesses (0: no limit)")
	flags.StringVar(&f.marks, "marks", "",
		"file: each line that is appended to it becomes a mark of the recording "+
			"(with QEMU: the file of the guest's port lm)")
	flags.StringVar(&f.portTable, "port-table", "",
		"write this file, the ACPI table of an external-facing port at addr=1 for QEMU's "+
			"-acpitable, and record nothing")
	flags.BoolVar(&f.unchecked, "unchecked", false,
		"record QEMU also if its command line has an error")
	flags.StringVar(&f.onUnknown, "on-unknown", "end",
		"what lm does if an access cannot be recorded: end (end the program), "+
			"or unrecorded (continue the program without recording the access)")
}

// defineSync defines --sync of a command that writes a recording.
func defineSync(flags *pflag.FlagSet, interval *time.Duration) {
	flags.DurationVar(interval, "sync", synced.Interval,
		"interval at which the recording is written to the disk; "+
			"if the machine stops, newer accesses may be lost")
}

// checkSync fails if the interval of --sync is too short.
func checkSync(interval time.Duration) {
	if interval < time.Millisecond {
		failUsage("--sync must be at least 1ms, not %v", interval)
	}
}

var devicePattern = regexp.MustCompile(
	`^(?:pci:|vfio:)?([0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]|[0-9a-f]{4}:[0-9a-f]{4})$`)

func (f *recordFlags) run(program []string) {
	if f.portTable != "" {
		f.writePortTable(program)
		return
	}
	o := recorder.Options{Program: program, AccessLimit: f.limit, Marks: f.marks,
		ContinueUnrecorded: f.onUnknown == "unrecorded",
		Warnings:           prefixWriter{stderr}, Sync: f.sync}
	checkSync(f.sync)
	switch {
	case f.out == "":
		failUsage("-o FILE is missing; use -o FILE to name the recording")
	case f.onUnknown != "end" && !o.ContinueUnrecorded:
		failUsage(`--on-unknown must be "end" or "unrecorded", not %q`, f.onUnknown)
	}
	for _, d := range f.devices {
		name := devicePattern.FindStringSubmatch(strings.ToLower(d))
		if name == nil {
			failUsage("--device takes pci:DDDD:BB:DD.F, "+
				"such as pci:0000:01:00.0, or the ids pci:VVVV:DDDD, not %q", d)
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
		o.Progress = stderr.file
	}
	f.checkQEMU(&o)
	clearMarks(o.Marks)
	out := fail.Must(files.OpenToReplace(f.out, 0o666))
	defer out.Discard()
	o.Out = synced.OnDisk(out)
	result, err := recorder.Run(o)
	fail.On(keepWritten(out, recordError(err)))
	fail.On(out.Commit())
	printRecorded(f.out, result)
}

func (f *recordFlags) setHostMemory(o *recorder.Options) {
	digits := strings.TrimRight(f.hostMemory, "kKMG")
	n, err := strconv.ParseUint(digits, 0, 32)
	shift, ok := map[string]int{"": 0, "k": 10, "K": 10, "M": 20,
		"G": 30}[f.hostMemory[len(digits):]]
	if err != nil || !ok {
		failUsage("--host-memory takes a size such as 8M, not %q", f.hostMemory)
	}
	o.HostMemoryLimit = n << shift
	protect, known := map[string]recorder.Protect{"huge": recorder.ProtectHuge,
		"all": recorder.ProtectAll, "none": recorder.ProtectNone}[f.protect]
	if !known {
		failUsage(`--protect must be "huge", "all" or "none", not %q`, f.protect)
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
			failUsage(`--watch must be "all", or bus addresses FIRST-LAST `+
				`such as 0x91000-0x91fff, not %q`, spec)
		}
		o.Watch = append(o.Watch, recorder.Range{First: a, Last: b})
	}
}

// parseFile parses PATH=BAR[+OFFSET][:SIZE][,VVVV:DDDD], or PATH=bus:ADDRESS.
func parseFile(spec string) (f recorder.File) {
	at := strings.LastIndex(spec, "=")
	if at < 1 || !parseFileMeaning(spec[at+1:], &f) {
		failUsage("--file %s: the form is PATH=BAR[+OFFSET][:SIZE][,VVVV:DDDD], "+
			"such as /dev/shm/card=0,1234:11e8, "+
			"or PATH=bus:ADDRESS, such as /dev/shm/ring=bus:0x10000", spec)
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

// parseFileMeaning parses BAR[+OFFSET][:SIZE][,VVVV:DDDD] or bus:ADDRESS: the BAR or the host
// memory that a file is recorded as.
func parseFileMeaning(text string, f *recorder.File) (ok bool) {
	var err error
	if address, memory := strings.CutPrefix(text, "bus:"); memory {
		f.Memory = true
		f.Bus, err = strconv.ParseUint(address, 0, 64)
		return err == nil && f.Bus%4096 == 0
	}
	place, ids, named := strings.Cut(text, ",")
	place, size, hasSize := strings.Cut(place, ":")
	index, offset, hasOffset := strings.Cut(place, "+")
	n, err := strconv.ParseUint(index, 10, 8)
	if f.Bar, ok = int(n), err == nil && n <= 5; !ok {
		return false
	}
	if hasOffset {
		f.Offset, err = strconv.ParseUint(offset, 0, 48)
		ok = err == nil && f.Offset%4096 == 0
	}
	if hasSize && ok {
		f.Size, err = strconv.ParseUint(size, 0, 48)
		ok = err == nil && f.Size > f.Offset
	}
	if !named || !ok {
		return ok
	}
	vendor, device, both := strings.Cut(ids, ":")
	v, verr := strconv.ParseUint(vendor, 16, 16)
	d, derr := strconv.ParseUint(device, 16, 16)
	f.Vendor, f.Device = uint16(v), uint16(d)
	return both && verr == nil && derr == nil
}

// prefixWriter writes lines with "lm: " in front.
type prefixWriter struct{ to io.Writer }

func (p prefixWriter) Write(text []byte) (int, error) {
	_, err := fmt.Fprintf(p.to, "lm: %s", text)
	return len(text), err
}

// keepWritten commits a recording that could not be written to its end, if anything was written to
// it.
func keepWritten(out *files.Output, err error) error {
	size, serr := unix.Seek(out.Fd, 0, io.SeekCurrent)
	if hal.CodeOf(err) != hal.IO || out.IsStream || serr != nil || size == 0 ||
		out.Commit() != nil {
		return err
	}
	return fail.Around("", err, "; to import the accesses written before the error, "+
		"use lm import --incomplete "+out.Path)
}

func recordError(err error) error {
	var failure *recorder.Failure
	if !errors.As(err, &failure) {
		return err
	}
	code := map[recorder.Kind]hal.Code{recorder.NoProgram: hal.NoFile,
		recorder.Forbidden: hal.Denied, recorder.Output: hal.IO}[failure.Kind]
	return newFault(cmp.Or(code, hal.Internal), "%s", failure.Reason)
}

// printRecorded prints how much was recorded, and passes the program's exit status on.
func printRecorded(path string, r recorder.Result) {
	switch {
	case r.KillReason != "":
		printLine(stderr, "lm: the program was ended: %s", r.KillReason)
	case r.Devices == 0:
		printLine(stderr,
			"lm: the program did not map a BAR that lm records; "+
				"lm record --help lists the mappings that lm sees")
	}
	whole := ""
	if r.Gaps > 0 {
		whole = "; the recording is incomplete: lm import needs --incomplete"
	}
	printLine(stderr, "lm: %d accesses recorded in %s%s", r.Accesses, path, whole)
	if r.Gaps > 0 && r.KillReason != "" {
		fail.On(printedError{hal.Internal})
	}
	if r.ExitStatus != 0 {
		fail.On(programStatus(r.ExitStatus))
	}
}

// programStatus is the exit status of a program that lm ran. lm exits with the same status.
type programStatus int

func (s programStatus) Error() string {
	return fmt.Sprintf("the program ended with exit status %d", int(s))
}
