package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	words "lightmetal/runtime/report"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/lmrun/files"
	"lightmetal/tools/look/report"

	"github.com/spf13/cobra"
)

// replayFlags are the flags of lm replay as they are typed.
type replayFlags struct {
	devices         []string
	sequence        string
	before, after   string // empty: none
	inputs, outputs []string
	longest         time.Duration
	waitLimit       time.Duration
	loop            int
	window          int
	warmUp          int
	stats           bool
	checkGolden     bool
	profile         string
}

func replayCommand() *cobra.Command {
	f := replayFlags{window: runtime.AnyTLBWindow}
	var window uint16
	c := &cobra.Command{
		Use:  "replay IMAGE.lmb",
		Args: exactlyOne("image"),
		Run: func(c *cobra.Command, args []string) {
			if c.Flags().Changed("window") {
				f.window = int(window)
			}
			f.run(args[0])
		},
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.devices, "device", nil,
		"device; once for each device of the image, in order")
	flags.StringVar(&f.sequence, "sequence", "main", "sequence to run")
	flags.StringVar(&f.before, "before", "", "sequence to run once before the first run")
	flags.StringVar(&f.after, "after", "", "sequence to run once after the last run")
	flags.StringArrayVar(&f.inputs, "input", nil,
		"NAME=FILE or NAME=NUMBERS: data of an input tensor")
	flags.StringArrayVar(&f.outputs, "output", nil, "NAME=FILE: file for an output tensor")
	flags.DurationVar(&f.longest, "longest", time.Hour,
		"reject an image whose sequences could take longer")
	flags.DurationVar(&f.waitLimit, "wait-limit", 10*time.Minute,
		"ttsim: end the run if one wait takes longer in real time (0: no limit); deadlines of "+
			"polls are in simulated time")
	flags.IntVar(&f.loop, "loop", 1, "run this many times")
	flags.BoolVar(&f.stats, "stats", false,
		"print minimum, median, 99th percentile and maximum of device and wall time")
	flags.IntVar(&f.warmUp, "warm-up", 0, "extra runs before the others, which are not counted")
	flags.Uint16Var(&window, "window", 0,
		"hardware TLB window for the first tlb window (default: the one in the image, if free)")
	flags.BoolVar(&f.checkGolden, "check-golden", false,
		"compare every output with its golden data")
	flags.StringVar(&f.profile, "profile", "",
		"time every command; write a trace for Perfetto to this file (Chrome trace JSON)")
	jsonFlag(c, "result as JSON, on failure too")
	return c
}

// outcome is the result of lm replay, which --json prints.
type outcome struct {
	Exit     int    `json:"exit"`
	Code     string `json:"code"`
	Reason   string `json:"reason,omitempty"`
	Image    string `json:"image"`
	Sequence string `json:"sequence"`
	Runs     int    `json:"runs"`
	Ignored  uint32 `json:"ignored"`
	Commands uint64 `json:"commands"`     // that a run executes, calls included
	Command  int32  `json:"command"`      // that failed, -1: none
	At       string `json:"at,omitempty"` // the same within its sequence: "main, command 3"
	Got      uint64 `json:"got"`
	Want     uint64 `json:"want"`
	Mask     uint64 `json:"mask"`
	Element  uint64 `json:"element"`
	Safe     string `json:"safe,omitempty"` // how the sequence "safe" ended
	LeastNs  int64  `json:"least_ns"`
	MeanNs   int64  `json:"mean_ns"`
	MostNs   int64  `json:"most_ns"`
	Virtual  bool   `json:"virtual"` // the first device's clock counts accesses

	Stats   *statistics     `json:"stats,omitempty"`
	Profile *report.Profile `json:"profile,omitempty"`

	// outputs that were compared with golden data, in the last run that was
	Golden  []*lmb.Comparison `json:"golden,omitempty"`
	Outputs []writtenOutput   `json:"outputs,omitempty"`

	before, after string
	hasSafe       bool
}

// writtenOutput is a file that lm replay has written.
type writtenOutput struct {
	Output string   `json:"output"`
	File   string   `json:"file"`
	DType  string   `json:"dtype"`
	Shape  []uint32 `json:"shape"`
}

func (f *replayFlags) run(path string) {
	s := f.prepare(path)
	defer s.close()
	end := &outcome{Code: hal.OK.Error(), Image: path, Sequence: f.sequence, Command: -1,
		Virtual: clockOf(s.devices[0]).Virtual, before: f.before, after: f.after,
		Commands: report.Counts(s.view)[s.index].Executed,
		hasSafe:  s.view.SequenceByName("safe") >= 0}
	stop := f.supervise(s)
	err := fail.Try(func() { f.loopRuns(s, end) })
	stop()
	err = cmp.Or(err, fail.Try(func() { f.writeProfile(s, end) }))
	if err == nil {
		err = fail.Try(func() { end.Outputs = f.writeOutputs(s) })
	}
	if asJSON && err != nil {
		code := codeOf(err)
		end.Exit, end.Code, end.Reason = code.ExitStatus(), code.Error(), err.Error()
		printJSON(f.messageWriter(), end)
		fail.On(reported{code})
	}
	fail.On(err)
	printResult(f.messageWriter(), end)
	if !asJSON && end.Profile != nil {
		fail.On(end.Profile.Write(f.messageWriter()))
	}
}

// reported is an error that has been printed.
type reported struct{ code hal.Code }

func (r reported) Error() string { return r.code.Error() }
func (r reported) Unwrap() error { return r.code }

// writtenFiles returns the paths that a replay writes to.
func (f *replayFlags) writtenFiles() []string {
	var list []string
	for _, spec := range f.outputs {
		list = append(list, outputFiles(spec)...)
	}
	if f.profile != "" {
		list = append(list, f.profile)
	}
	return list
}

func (f *replayFlags) messageWriter() io.Writer { return messageWriter(f.writtenFiles()...) }

// rejectDuplicates fails if two of NAME=FILE have the same name.
func rejectDuplicates(flag string, specs []string) {
	seen := map[string]bool{}
	for _, spec := range specs {
		name, _, _ := strings.Cut(spec, "=")
		if seen[name] {
			failUsage("%s%s is named twice", flag, name)
		}
		seen[name] = true
	}
}

// loopRuns runs the sequence as often as asked, with progress on a terminal.
func (f *replayFlags) loopRuns(s *session, end *outcome) {
	bar := progressOf("runs", f.loop, 1000)
	total := int64(0)
	fail.On(end.noteFailure(s, s.runOnce(s.before)))
	times := statistics{WarmUp: f.warmUp}
	for n := -f.warmUp; n < f.loop; n++ {
		start, began := time.Now(), s.devices[0].Now()
		result := s.run(n < 0)
		took, wall := s.devices[0].Now()-began, time.Since(start)
		end.Ignored += result.IgnoredFailures
		if result.Code != hal.OK {
			s.stopAfterFailure(end, end.noteFailure(s, result))
		}
		if n < 0 {
			continue
		}
		times.addRun(took, int64(wall))
		if end.Runs == 0 {
			end.LeastNs = took
		}
		end.Runs++
		total += took
		end.LeastNs, end.MostNs, end.MeanNs = min(end.LeastNs, took), max(end.MostNs, took),
			total/int64(end.Runs)
		if f.checkGolden {
			s.profileGolden()
			if err := f.compareGolden(s, end); err != nil {
				s.stopAfterFailure(end, err)
			}
		}
		bar(end.Runs)
	}
	times.summarize()
	if f.stats {
		end.Stats = &times
	}
	fail.On(end.noteFailure(s, s.runOnce(s.after)))
}

// noteFailure keeps what a failed run saw, and returns its error.
func (end *outcome) noteFailure(s *session, result runtime.Result) error {
	if result.Code == hal.OK {
		return nil
	}
	end.Command, end.Got, end.Want, end.Mask, end.Element = result.Command, result.Got, result.Want,
		result.Mask, result.ElementIndex
	end.At = string(runtime.AppendPlace(nil, s.view, int(result.Command)))
	if result.SafeRan {
		end.Safe = result.SafeCode.Error()
	}
	return s.runError(result)
}

// runError returns an error with the command that failed and what it loaded.
func (s *session) runError(r runtime.Result) error {
	text := s.path
	if r.Command >= 0 {
		text += ": " + failureText(s.view, &r)
	}
	switch r.Code {
	case hal.Refused, hal.BusFault, hal.FrameLate:
		if why := refusalReason(s.devices); why != "" {
			text += ": " + why
		}
	case hal.InputMissing:
		name := s.missingInput()
		text += fmt.Sprintf(": input %s has no default data; use --input %s=FILE", name, name)
	}
	switch {
	case r.SafeRan:
		text += "; then ran sequence safe: " + r.SafeCode.Error()
		if why := lastRefusalReason(s.devices); r.SafeCode == hal.Refused && why != "" {
			text += ": " + why
		}
	case r.Command < 0: // nothing ran
	case s.view.SequenceByName("safe") < 0:
		text += "; the image has no sequence safe"
	default:
		text += "; sequence safe did not run"
	}
	return newFault(r.Code, "%s", text)
}

// failureText describes a failed run in the words of lmrun, but calls the window of the command by
// its name. lmrun does not read the names of windows.
func failureText(view *fbs.View, r *runtime.Result) string {
	text := string(words.AppendFailure(nil, view, r))
	place := string(runtime.AppendPlace(nil, view, int(r.Command)))
	window := view.Commands[r.Command].Window
	names := listing.WindowNames(lmb.Header(view))
	if int(window) >= len(names) {
		return text // a command that accesses no window, of an image that has none
	}
	rest := strings.TrimPrefix(text, place)
	return place + strings.Replace(rest, fmt.Sprintf(" w%d", window), " "+names[window], 1)
}

// compareOutputs compares every output with its golden data, if it has any.
func (s *session) compareOutputs() (list []*lmb.Comparison) {
	notes := fail.Must(lmb.ReadNotes(s.view))
	for i := range s.view.Tensors {
		t := &s.view.Tensors[i]
		golden := s.view.TensorData(t)
		if t.Role == gen.RoleOutput && golden != nil {
			list = append(list, notes.Goldens[i].Compare(s.view.Name(t.Name), t.Dtype,
				t.Shape()[:t.Dims], s.replay.Output(i), golden))
		}
	}
	return list
}

// compareGolden compares every output with its golden data. The error names the first output that
// does not match.
func (f *replayFlags) compareGolden(s *session, end *outcome) error {
	end.Golden = s.compareOutputs()
	if len(end.Golden) == 0 {
		return newFault(hal.Usage, "--check-golden: %s has no output with golden data", s.path)
	}
	var differing []*lmb.Comparison
	for _, c := range end.Golden {
		if !c.Matches {
			differing = append(differing, c)
		}
	}
	run := ""
	if f.loop > 1 {
		run = fmt.Sprintf("run %d of %d: ", end.Runs, f.loop)
	}
	return mismatchError(run, differing)
}

// mismatchError returns an error that shows the first of the outputs that do not match their golden
// data, or nil if all match.
func mismatchError(prefix string, differing []*lmb.Comparison) error {
	if len(differing) == 0 {
		return nil
	}
	more := ""
	if n := len(differing) - 1; n > 0 {
		more = "; and " + english.Count(n, "more output")
	}
	return newFault(hal.CompareFailed, "%s%s%s", prefix, differing[0], more)
}

// writeOutputs writes the outputs: all or none, as far as a file system can do that.
func (f *replayFlags) writeOutputs(s *session) (written []writtenOutput) {
	for _, device := range s.devices {
		fail.On(unplayedError(device, "the run ended"))
	}
	var list files.Outputs
	defer func() { list.Discard() }()
	for _, spec := range f.outputs {
		index, path := s.findTensor(spec, gen.RoleOutput, "--output")
		t := &s.view.Tensors[index]
		e := elementsOf(s.view, t)
		data := e.formatFile(path, s.replay.Output(index))
		file := fail.Must(files.Replace(path, 0o666))
		list = append(list, file)
		fail.Must(file.Write(data))
		written = append(written,
			writtenOutput{s.view.Name(t.Name), path, lmb.DTypes[t.Dtype], e.shape})
	}
	fail.On(list.Commit())
	return written
}

// String says what the replay did: which sequences ran and how often, which outputs were compared
// and written, and whether the sequence safe ran.
func (o *outcome) String() string {
	var b strings.Builder
	clock := "device"
	if o.Virtual {
		clock = "virtual"
	}
	times := lmb.TimeText(o.MeanNs)
	if o.Runs > 1 {
		times = fmt.Sprintf("least %s, mean %s, most %s", lmb.TimeText(o.LeastNs), times,
			lmb.TimeText(o.MostNs))
	}
	printLine(&b, "%s: %s of %s, %s of %s; %s time %s", o.Code, o.Sequence, o.Image,
		english.Count(o.Runs, "run"), english.Count(o.Commands, "command"), clock, times)
	if around := o.aroundText(); around != "" {
		printLine(&b, "%s", around)
	}
	if o.Ignored > 0 {
		printLine(&b, "%s failed and the run continued, as the image says (else ignore)",
			english.Count(o.Ignored, "expect"))
	}
	if len(o.Golden) > 0 {
		each := ""
		if o.Runs > 1 {
			each = ", after each run"
		}
		printLine(&b, "%s%s", lmb.ComparedText(o.Golden), each)
	}
	for _, w := range o.Outputs {
		printLine(&b, "%s: output %s, %s[%s], written", standardOutput(w.File), w.Output, w.DType,
			lmb.DimsText(w.Shape))
	}
	if o.Stats != nil {
		b.WriteString(o.Stats.text(clock))
	}
	return b.String()
}

// aroundText says which sequences ran apart from the counted runs.
func (o *outcome) aroundText() string {
	var parts []string
	if o.before != "" {
		parts = append(parts, o.before+" ran once before")
	}
	if o.after != "" {
		parts = append(parts, o.after+" ran once after")
	}
	if o.hasSafe && o.Sequence != "safe" {
		parts = append(parts, "safe was not needed")
	}
	return strings.Join(parts, "; ")
}
