package main

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/capture/again"
	"lightmetal/tools/capture/boardfile"
	"lightmetal/tools/capture/importer"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// importFlags are the flags of lm import as they are typed.
type importFlags struct {
	from, board, device, out string
	regions, bases           []string
	bar                      uint8
	deadline                 string
	longest                  time.Duration
	poll, ignore, reached    []string
	omit, asData, wait       []string
	carry                    []string
	keepPauses               time.Duration
	inputs, outputs, host    []string
	without, rules           []string
	part, frame, stop        string
	candidate                int
	find, summary            bool
	rings                    []string
	incomplete, fixedHost    bool
	omitManagement           bool
	loadsHaveNoEffect        bool
	disabledBank             int
	rehearsals, again        []string
	reproducible             bool

	arguments string        // all flags, for the image
	captures  []lmb.Capture // files besides the trace from which the image is made
}

func importCommand() *cobra.Command {
	var f importFlags
	c := newCommand("import TRACE", exactlyOneTrace, nil)
	f.defineFlags(c.Flags())
	c.Run = func(c *cobra.Command, args []string) {
		for _, path := range f.rehearsals {
			applyRehearsal(path, c.Flags())
		}
		f.arguments = typedFlags(c.Flags())
		f.run(args[0])
	}
	defineJSONFlag(c, "print the report as JSON")
	return c
}

// exactlyOneTrace requires one argument, and rejects an image or a listing. It does so before
// the files are checked: the default output of an image would be the image itself.
func exactlyOneTrace(c *cobra.Command, args []string) error {
	if err := exactlyOne("trace")(c, args); err != nil {
		return err
	}
	failAtPath(args[0], notATraceError(args[0]))
	return nil
}

func (f *importFlags) defineFlags(flags *pflag.FlagSet) {
	f.defineTrace(flags)
	f.defineTensors(flags)
	f.defineParts(flags)
	f.defineOmissions(flags)
}

// defineTrace defines flags that describe the trace, its device and its accesses.
func (f *importFlags) defineTrace(flags *pflag.FlagSet) {
	flags.StringVar(&f.from, "from", "",
		"format of the trace: mmiotrace, rwmmio, qemu or record "+
			"(default: recognized by its first lines)")
	flags.StringVarP(&f.out, "out", "o", "", "image to write (default: the trace's name with .lmb)")
	flags.StringVar(&f.board, "board", "",
		"board of the device, generic, or a board file "+
			"(default: the board with the trace's PCI ids)")
	flags.StringArrayVar(&f.rules, "rule", nil, ruleHelp)
	flags.StringVar(&f.device, "device", "",
		"device to import, if the trace has several: "+
			"its ids VVVV:DDDD, or its address BB:DD.F (record: DDDD:BB:DD.F)")
	flags.BoolVar(&f.incomplete, "incomplete", false,
		"record: accept a recording that is marked as incomplete, or that was cut")
	flags.StringSliceVar(&f.regions, "region", nil,
		"qemu: name of the device's memory region; for several BARs, NAME=BAR for each")
	flags.StringSliceVar(&f.bases, "base", nil,
		"qemu: guest-physical address of each region, in the order of --region; "+
			"rwmmio: address at which the kernel mapped a BAR (for several BARs, BAR=ADDRESS)")
	flags.Uint8Var(&f.bar, "bar", 0,
		"number of the BAR of a QEMU region, and of ranges and tensors that do not name a BAR")
	flags.StringVar(&f.deadline, "deadline", "",
		"deadline of every poll, such as 500ms (default: ten times the recorded wait, at least 1s)")
	flags.DurationVar(&f.longest, "longest", time.Hour,
		"write no image with a sequence that could take longer than this")
	flags.StringArrayVar(&f.poll, "poll", nil, "treat every load at PLACE as a poll: "+placesHelp)
	flags.StringArrayVar(&f.wait, "wait", nil,
		"loads at PLACE become polls for the recorded value; if the next access stores some of "+
			"its bits, as a driver does that clears an interrupt, only for these bits: "+placesHelp)
	flags.StringArrayVar(&f.carry, "carry", nil,
		"FROM=TO: register TO gets what a replay has loaded from FROM, as the driver did, instead "+
			"of the recorded values (repeat the flag for more registers)")
	flags.DurationVar(&f.keepPauses, "keep-pauses", 0,
		"pauses of the program from this one on, such as 10ms, become delays (default: none)")
	flags.StringArrayVar(&f.reached, "reached", nil,
		"polls at PLACE wait until a counter has reached or passed the recorded value: "+placesHelp+
			"; or rising, for all places whose recorded values only rise")
	flags.StringArrayVar(&f.ignore, "ignore", nil,
		"execute loads at PLACE, but ignore their values: "+placesHelp+
			"; or bus:FIRST-LAST, for bus addresses of host memory in a recording")
	flags.StringArrayVar(&f.again, "again", nil,
		"another trace of the same work, in the same format: only what both loaded is compared, "+
			"and a difference that no image can repeat is an error (repeat the flag for more)")
	flags.StringArrayVar(&f.rehearsals, "rehearsal", nil,
		"file of further flags --ignore, --poll, --reached and --wait, "+
			"which lm replay --rehearse prints")
	flags.StringArrayVar(&f.omit, "omit", nil, "leave out all accesses at PLACE: "+placesHelp)
	flags.StringArrayVar(&f.asData, "as-data", nil,
		"values stored at PLACE are data, also if they look like interrupt addresses: "+placesHelp)
}

// defineTensors defines flags that describe tensors and host memory.
func (f *importFlags) defineTensors(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.inputs, "input", nil,
		"input tensor: NAME=ADDRESS,DTYPE,SHAPE; in a tile, NAME=X,Y,ADDRESS,DTYPE,SHAPE; "+
			"in pages over all DRAM banks, NAME=interleaved:ADDRESS,PAGE,DTYPE,SHAPE, "+
			"with ,tiled appended for tiles of 32x32; in equal parts over a rectangle of cores, "+
			"NAME=sharded:X,Y,X,Y,ADDRESS,DTYPE,SHAPE. "+
			"ADDRESS may be barN+ADDRESS or, in host memory of a recording, bus:ADDRESS; "+
			"ADDRESS@LINE uses the first store there at or after this line of the trace")
	flags.StringArrayVar(&f.outputs, "output", nil,
		"output tensor, in the form of --input without @LINE; "+
			"the data are those of the last load of the tensor")
	flags.StringArrayVar(&f.host, "host", nil,
		"host memory that the device accessed: NAME=BUSADDRESS,FILE; FILE contains the bytes")
	flags.BoolVar(&f.fixedHost, "fixed-host", false,
		"keep the recorded bus addresses of host memory, for device programs that contain these "+
			"addresses (default: only for tiles that reach memory whose address the program "+
			"never stores)")
	flags.IntVar(&f.disabledBank, "disabled-bank", -1,
		"number of the DRAM bank that is disabled on the recorded card, "+
			"for interleaved tensors; -1: none")
}

// defineParts defines flags that select parts of the trace, and what is made of them.
func (f *importFlags) defineParts(flags *pflag.FlagSet) {
	flags.StringVar(&f.part, "part", "",
		"import only the part FROM..TO of the trace; "+
			"FROM and TO are line numbers or texts of marks")
	flags.StringVar(&f.frame, "frame", "",
		"make the sequences init (up to FROM) "+
			"and frame (FROM..TO, as for --part); --input and --output apply to frame")
	flags.StringVar(&f.stop, "stop", "",
		"with --frame: make the sequence stop, from FROM (line number or text of a mark) on; "+
			"commands between frame and stop are left out")
	flags.BoolVar(&f.find, "find-frames", false,
		"make the sequences init, frame (one repetition) and stop of a trace that repeats itself; "+
			"with --summary, only report the repetitions")
	flags.IntVar(&f.candidate, "candidate", 0,
		"with --find-frames: number of the listed repetition to use (default: the best)")
	flags.StringArrayVar(&f.rings, "ring", nil,
		"with --find-frames: PLACE=BEGIN..END[/UNIT][,BIT], the addresses or values at which "+
			"the ring begins and ends whose first use is at PLACE; an entry that does not fit "+
			"starts at BEGIN, with UNIT it goes on there (END-BEGIN is a multiple of UNIT); BIT "+
			"of the values changes with each lap, in host memory BIT of an entry (repeat the "+
			"flag for more rings)")
	flags.StringSliceVar(&f.without, "without", nil,
		"passes of the import to leave out (listed above)")
	flags.BoolVar(&f.reproducible, "reproducible", false,
		"leave the time, the flags and lm's revision out of the image: "+
			"two imports of one capture then write the same file")
	flags.BoolVar(&f.summary, "summary", false, "only report what is in the trace")
}

// defineOmissions defines flags that leave accesses out.
func (f *importFlags) defineOmissions(flags *pflag.FlagSet) {
	flags.BoolVar(&f.omitManagement, "omit-management", false,
		"devices with tiles: leave out accesses to the ARC and PCIe tiles, "+
			"and accesses to registers that do not go through a TLB window; "+
			"driver libraries make such accesses at start and end, "+
			"for clock, telemetry and messages")
	flags.BoolVar(&f.loadsHaveNoEffect, "loads-have-no-effect", false,
		"leave out all loads of a loop that waits but the last one, "+
			"even if this changes the order of loads of different registers")
}

func boardNames() string {
	return english.Join(boards.All, ", ", func(b *boards.Board) string { return b.Name })
}

// defaultImportOutput returns the default of lm import --out, empty if no image is written.
func defaultImportOutput(c *cobra.Command, args []string) string {
	if c.Flags().Changed("summary") {
		return ""
	}
	return defaultOutput(args[0], filepath.Ext(args[0]))
}

func (f *importFlags) run(path string) {
	trace := openTrace(path)
	defer trace.Close()
	if f.from == "" {
		failIfEmpty(path, trace.File)
		f.from = traceFormat(readHead(trace.File))
	}
	o := f.importerOptions(path)
	failIfIgnoredToo(&o)
	if f.summary && len(f.again) > 0 {
		failUsage("--summary makes no image, for which --again compares; leave one of them out")
	}
	if f.summary {
		f.summarize(path, trace, &o)
		return
	}
	// The accesses of a large trace have no pointers: collecting garbage often costs little.
	debug.SetGCPercent(20)
	done := showProgress(trace, &o)
	defer done()
	var frames *importer.Frames
	var comparisons []*again.Comparison
	failAtPath(path, fail.Try(func() { comparisons = f.compareAgain(trace, &o) }))
	if f.find {
		failAtPath(path, fail.Try(func() { frames = f.findFrames(trace, &o) }))
	}
	image, report, err := importer.ImportPacked(trace, o)
	done()
	if err != nil {
		fail.On(fail.Around(path+": ", err, otherFormatHint(trace, f.from)))
	}
	report.Frames, report.Again = frames, comparisons
	failAtPath(path, fail.Try(func() { f.setOrigin(image, path, trace) }))
	debug.FreeOSMemory() // frees the trace's accesses: the file needs about as much
	size, id, warnings := f.write(image, path, o.BarSizesAreLimits)
	for _, text := range warnings {
		report.Warnings = append(report.Warnings, traces.Warning{Text: text})
	}
	printResult(messageWriter(f.out), &importResult{report, id})
	if !asJSON {
		printWritten(f.out, image, size, "")
	}
}

// importResult is the output of lm import; its JSON is stable.
type importResult struct {
	*importer.Report
	identity
}

func (r *importResult) String() string { return r.Report.String() }

// write writes the image of a trace, unless lm verify would reject it, or its frame cannot be
// repeated. isGeneric: the trace was imported without the rules of a board.
func (f *importFlags) write(image *lmb.Image, path string, isGeneric bool) (size int, id identity,
	warnings []string) {
	file, err := lmb.Encode(image)
	known := boards.FindByID(image.Devices[0].Vendor, image.Devices[0].Device)
	a := refusedAccessOf(image, err)
	if isGeneric && known != nil && a != nil && !a.isWidthAccepted() {
		err = fail.Around("", err, "; "+(&boardfile.Known{Board: known}).Error()+
			" to see which line of the trace causes the error")
	}
	failIf(hal.BadImage, path, err)
	view := fail.Must(fbs.Verify(file))
	view.TimeLimitUs = uint64(max(f.longest, 0).Microseconds())
	failAtPath(path, runtime.CheckWorstCaseTimes(view, deadlineRemedy(view)))
	if frame := view.SequenceByName("frame"); frame >= 0 && (f.find || f.frame != "") {
		warnings = failUnlessRepeatable(view, path, []int{frame})
	}
	writeFile(f.out, file)
	return len(file), identify(view), warnings
}

// deadlineRemedy returns the remedy for an image whose sequences may take too long: the largest
// deadline that all polls can have.
func deadlineRemedy(view *fbs.View) string {
	const other = "; or import less with --part, or accept the image with --longest here, in " +
		"lm verify and in each replay"
	fits, most := uint64(math.MaxUint32), uint64(0)
	for i := range view.Sequences {
		s := &view.Sequences[i]
		polls, waits := uint64(0), uint64(0)
		for _, c := range view.Commands[s.First : s.First+s.Count] {
			if c.Opcode == gen.OpcodeExpect && c.Amount != 0 {
				polls, waits = polls+1, waits+uint64(c.Amount)
			}
		}
		rest := view.WorstCaseUs[i] - min(waits, view.WorstCaseUs[i])
		if polls > 0 {
			most = max(most, polls)
			fits = min(fits, (view.TimeLimitUs-min(rest, view.TimeLimitUs))/polls)
		}
	}
	deadline := time.Duration(fits) * time.Microsecond
	if deadline > time.Millisecond {
		deadline = deadline.Truncate(time.Millisecond)
	}
	if most == 0 || deadline == 0 {
		return other
	}
	return fmt.Sprintf("; so that the deadlines of %s fit, use --deadline %v",
		english.Count(int(most), "poll"), deadline) + other
}

// failIfEmpty fails if a regular file is empty, since an empty file has no format.
func failIfEmpty(path string, file *os.File) {
	status, err := file.Stat()
	if err == nil && status.Mode().IsRegular() && status.Size() == 0 {
		fail.On(&hal.Fault{Code: hal.BadImage, Reason: path +
			": the trace is empty: nothing was recorded, or the recorder was killed too early"})
	}
}

// openTrace opens a trace. If the trace is missing, but an unfinished recording of it is left, the
// error names that recording.
func openTrace(path string) (trace *limitedInput) {
	err := fail.Try(func() { trace = openFile(path) })
	if hal.CodeOf(err) == hal.NoFile {
		if left := unfinishedRecording(path); left != "" {
			err = fail.Around("", err, "; to import the unfinished recording, use "+
				"lm import --incomplete "+left)
		}
	}
	fail.On(err)
	trace.hash = sha256.New()
	return trace
}

// unfinishedRecording returns the newest file that lm record or lm serve left next to path when
// it was killed, or an empty string.
func unfinishedRecording(path string) (newest string) {
	folder, base := filepath.Split(path)
	list, _ := os.ReadDir(cmp.Or(folder, "."))
	var modified time.Time
	name := regexp.MustCompile(`^\.` + regexp.QuoteMeta(base) + `\.[0-9a-f-]+\.part$`)
	for _, entry := range list {
		if !name.MatchString(entry.Name()) {
			continue
		}
		info, err := entry.Info()
		if err == nil && info.Size() > 0 && info.ModTime().After(modified) {
			newest, modified = folder+entry.Name(), info.ModTime()
		}
	}
	return newest
}

// summarize only prints a report: of the frames with --find-frames, otherwise of the trace.
func (f *importFlags) summarize(path string, trace *limitedInput, o *importer.Options) {
	done := showProgress(trace, o)
	if f.find {
		frames, err := importer.FindFrames(trace, *o, f.candidate)
		done()
		failAtPath(path, err)
		printResult(stdout, frames)
		return
	}
	summary, err := importer.Summarize(trace, *o)
	done()
	failAtPath(path, err)
	if summary.Lines == 0 {
		fail.With(hal.BadImage, "%s: the trace is empty", path)
	}
	if _, err := trace.Seek(0, io.SeekStart); err == nil { // not a pipe
		summary.Blocks = importer.Blocks(trace, *o)
	}
	printResult(stdout, summary)
}

// compareAgain compares the trace with those of --again, and sets the options that follow from
// this.
func (f *importFlags) compareAgain(trace *limitedInput, o *importer.Options) []*again.Comparison {
	if len(f.again) == 0 {
		return nil
	}
	failUnlessRegular(trace, "--again")
	repeated := fail.Must(o.ReadRepeated(trace))
	fail.Must(trace.Seek(0, io.SeekStart))
	for _, path := range f.again {
		other := openTrace(path)
		defer other.Close()
		c, err := repeated.Compare(other)
		if err != nil {
			if c != nil && !asJSON {
				fmt.Fprint(messageWriter(f.out), c)
			}
			fail.On(fmt.Errorf("--again %s: %w", path, err))
		}
		f.captures = append(f.captures, captureOf(path, other))
	}
	return repeated.Apply()
}

// failUnlessRegular fails if a trace that a flag makes lm read twice comes through a pipe.
func failUnlessRegular(trace *limitedInput, flag string) {
	if status, err := trace.Stat(); err != nil || !status.Mode().IsRegular() {
		failUsage("the trace must be a regular file, because %s reads the trace twice", flag)
	}
}

// findFrames reads the trace a first time, and sets the options that select the repetition that it
// has found.
func (f *importFlags) findFrames(trace *limitedInput, o *importer.Options) *importer.Frames {
	failUnlessRegular(trace, "--find-frames")
	frames := fail.Must(importer.FindFrames(trace, *o, f.candidate))
	if !frames.Found {
		if !asJSON {
			fmt.Fprint(messageWriter(f.out), frames)
		}
		fail.With(hal.BadImage, "no frame was found: %s", frames.Why)
	}
	frames.Apply(o)
	fail.Must(trace.Seek(0, io.SeekStart))
	return frames
}

// showProgress shows how much of a trace is read, on a terminal only. The function that it returns
// removes the progress bar.
func showProgress(trace *limitedInput, o *importer.Options) func() {
	size, err := trace.Stat()
	if err != nil || !onTerminal() {
		return func() {}
	}
	bar := progressbar.NewOptions64(size.Size(), progressbar.OptionSetWriter(stderr.file),
		progressbar.OptionShowBytes(true), progressbar.OptionClearOnFinish(),
		progressbar.OptionSetDescription("reading"))
	o.Progress = func(bytes int64) { _ = bar.Set64(bytes) }
	return func() { _ = bar.Finish() }
}

func (f *importFlags) importerOptions(path string) importer.Options {
	o := importer.Options{From: f.from, Device: f.device, Tool: toolName(),
		Source: filepath.Base(path), Without: f.without, Bar: f.bar,
		Incomplete: f.incomplete, FixedHost: f.fixedHost, DisabledBank: f.disabledBank + 1,
		OmitManagement: f.omitManagement, LoadsHaveNoEffect: f.loadsHaveNoEffect}
	if f.candidate < 0 {
		failUsage("--candidate must be at least 1, not %d: it chooses a repetition "+
			"that --find-frames lists", f.candidate)
	}
	if f.candidate > 0 && !f.find {
		failUsage("--find-frames is missing; --candidate %d chooses a repetition "+
			"that --find-frames lists", f.candidate)
	}
	if f.from == "" {
		failUsage("the format of %s cannot be recognized; use --from %s, %s, %s or %s", path,
			importer.FromMmiotrace, importer.FromRwmmio, importer.FromQemu, importer.FromRecord)
	}
	f.setBoard(&o)
	f.setRegions(&o)
	parseAll(&o.Inputs, f.inputs, importer.ParseTensor)
	parseAll(&o.Outputs, f.outputs, importer.ParseTensor)
	f.setParts(&o)
	parseAll(&o.Rings, f.rings, importer.ParseRing)
	if len(o.Rings) > 0 && !f.find {
		failUsage("--find-frames is missing; --ring describes a ring that it finds")
	}
	f.readHostMemory(&o)
	f.setDeadline(&o)
	fail.As(hal.Usage, o.SetReached(f.reached))
	o.Poll, o.Ignore = parsePlaces(f.poll), parsePlaces(f.ignore)
	if f.keepPauses < 0 {
		failUsage("--keep-pauses must not be negative, but is %v", f.keepPauses)
	}
	o.Wait, o.KeepPauses = parsePlaces(f.wait), f.keepPauses
	o.Omit, o.AsData = parsePlaces(f.omit), parsePlaces(f.asData)
	parseAll(&o.Carry, f.carry, importer.ParseCarry)
	return o
}

// failIfIgnoredToo fails if a place is both ignored and waited for.
func failIfIgnoredToo(o *importer.Options) {
	for _, r := range slices.Concat(o.Poll, o.Wait, o.CounterRanges) {
		if slices.Contains(o.Ignore, r) {
			failUsage("--ignore names the place 0x%x that --poll, --wait or --reached names, too; "+
				"leave one of them out", r.First)
		}
	}
}

const placesHelp = "PLACE is ADDRESS or FIRST-LAST, " +
	"or a list of these; a place in a tile is X,Y,FIRST-LAST (repeat the flag for more places)"

// parseAll reads the values of a flag that may occur several times.
func parseAll[T any](to *[]T, specs []string, parse func(string) (T, error)) {
	for _, spec := range specs {
		one, err := parse(spec)
		fail.As(hal.Usage, err)
		*to = append(*to, one)
	}
}

func parsePlaces(specs []string) []importer.Range {
	var lists [][]importer.Range
	parseAll(&lists, specs, importer.ParseRanges)
	return slices.Concat(lists...)
}

func (f *importFlags) setParts(o *importer.Options) {
	for _, p := range []struct {
		text string
		to   *importer.Part
	}{{f.part, &o.Part}, {f.frame, &o.Frame}, {f.stop, &o.Stop}} {
		if p.text == "" {
			continue
		}
		part, err := importer.ParsePart(p.text)
		fail.As(hal.Usage, err)
		*p.to = part
	}
}

func (f *importFlags) readHostMemory(o *importer.Options) {
	for _, spec := range f.host {
		host, file, err := importer.ParseHost(spec)
		fail.As(hal.Usage, err)
		host.Data = readFile(file, dataMax)
		f.captures = append(f.captures, lmb.Capture{Name: filepath.Base(file),
			Size: uint64(len(host.Data)), SHA256: sha256.Sum256(host.Data)})
		o.Host = append(o.Host, host)
	}
}

// setBoard sets the board. A board without PCI ids gets those of the trace. Traces of QEMU and
// rwmmio have no ids, so that --device must name them.
func (f *importFlags) setBoard(o *importer.Options) {
	if f.board == "" && len(f.rules) > 0 {
		failUsage("--rule needs --board generic, or --board FILE with a board file, " +
			"but --board is missing")
	}
	if f.board == "" {
		return
	}
	d := boardNamed(f.board, f.rules)
	o.Board, o.BarSizesAreLimits, o.Subsystem = d.Board, d.generic, d.subsystem
	noIDs := f.from == importer.FromQemu || f.from == importer.FromRwmmio
	if noIDs && d.generic && !f.summary {
		if n, _ := fmt.Sscanf(f.device, "%4x:%4x", &d.Vendor, &d.Device); n != 2 ||
			len(f.device) != len("VVVV:DDDD") {
			failUsage("a %s trace with --board generic needs --device VVVV:DDDD, "+
				"the PCI ids of the device (see lspci -n), not %q",
				map[bool]string{true: "QEMU", false: "rwmmio"}[f.from == importer.FromQemu],
				f.device)
		}
	}
}

// setRegions combines --region with --base. The BAR of the first region becomes that of places
// without a BAR.
func (f *importFlags) setRegions(o *importer.Options) {
	names := f.regions
	if f.from == importer.FromRwmmio {
		if len(names) > 0 {
			failUsage("--region is for traces of QEMU; a trace of rwmmio takes --base only")
		}
		names = make([]string, len(f.bases)) // its events have no names
	}
	if len(f.bases) > len(names) {
		failUsage("there are more --base than --region; each --base belongs to a --region")
	}
	for i, name := range names {
		region := traces.Region{Name: name, Bar: f.bar}
		if before, bar, ok := strings.Cut(name, "="); ok {
			region.Name, region.Bar = before, parseBAR("--region "+name, bar)
		}
		if i < len(f.bases) {
			base := f.bases[i]
			if bar, address, ok := strings.Cut(base, "="); ok && f.from == importer.FromRwmmio {
				region.Bar, base = parseBAR("--base "+base, bar), address
			}
			address, err := strconv.ParseUint(base, 0, 64)
			if err != nil {
				failUsage("--base %s is not an address; write an address such as 0x10000000",
					f.bases[i])
			}
			region.Base = address
		}
		if i == 0 {
			o.Bar = region.Bar
		}
		o.Regions = append(o.Regions, region)
	}
}

func parseBAR(flag, text string) uint8 {
	n, err := strconv.ParseUint(text, 0, 8)
	if err != nil || n > 5 {
		failUsage("%s: the BAR must be 0 to 5", flag)
	}
	return uint8(n)
}

func (f *importFlags) setDeadline(o *importer.Options) {
	if f.deadline == "" {
		return
	}
	d, err := time.ParseDuration(f.deadline)
	us := d.Microseconds()
	if err != nil || us < 1 || us > math.MaxUint32 {
		failUsage("--deadline takes a duration such as 500ms, up to %s, not %q",
			lmb.WaitText(math.MaxUint32), f.deadline)
	}
	o.DeadlineUs = uint32(us)
}
