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
	"lightmetal/tools/image/rehearsal"
	"lightmetal/tools/look/report"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
	checkFresh      bool
	profile         string
	rehearseOnly    bool
	onHardware      bool // with rehearseOnly: also on a real device
}

func replayCommand() *cobra.Command {
	f := replayFlags{window: runtime.AnyTLBWindow}
	var window uint16
	c := &cobra.Command{
		Use:  "replay IMAGE.lmb",
		Args: exactlyOne("image"),
		Run: func(c *cobra.Command, args []string) {
			if c.Flags().Changed("window") {
				if window == fbs.AnySlot {
					failUsage("--window takes a number from 0 to 65534, not %d", window)
				}
				f.window = int(window)
			}
			if f.onHardware && !f.rehearseOnly {
				failUsage("--rehearse-on-hardware is only for --rehearse, which is missing")
			}
			if f.rehearseOnly {
				f.rehearse(args[0])
			} else {
				f.replay(f.prepare(args[0]))
			}
		},
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.devices, "device", nil,
		"device to replay on; repeat the flag for each device of the image, in the image's order")
	flags.StringVar(&f.sequence, "sequence", "main", "sequence to run")
	flags.StringVar(&f.before, "before", "", "sequence to run once before the first run")
	flags.StringVar(&f.after, "after", "", "sequence to run once after the last run")
	flags.StringArrayVar(&f.inputs, "input", nil,
		"NAME=FILE or NAME=NUMBERS: data of an input tensor")
	flags.StringArrayVar(&f.outputs, "output", nil, "NAME=FILE: file for an output tensor")
	flags.DurationVar(&f.longest, "longest", time.Hour,
		"reject an image with a sequence that could take longer than this")
	flags.DurationVar(&f.waitLimit, "wait-limit", 10*time.Minute,
		"ttsim: end the run if one wait takes longer than this in real time (0: no limit); "+
			"deadlines of polls are in simulated time")
	flags.IntVar(&f.loop, "loop", 1, "number of runs")
	flags.BoolVar(&f.stats, "stats", false,
		"print minimum, median, 99th percentile and maximum of device and wall time")
	flags.IntVar(&f.warmUp, "warm-up", 0, "extra runs before the counted runs")
	flags.Uint16Var(&window, "window", 0,
		"number of the device's TLB window for the image's first tlb window "+
			"(default: the number in the image, if free)")
	f.defineChecks(flags)
	flags.StringVar(&f.profile, "profile", "",
		"time every command; write a trace for Perfetto to this file (Chrome trace JSON)")
	flags.BoolVar(&f.rehearseOnly, "rehearse", false,
		"go on after checks that fail, and print them all, with the flags of lm import that each "+
			"would take, as a file for lm import --rehearsal")
	flags.BoolVar(&f.onHardware, "rehearse-on-hardware", false,
		"permit --rehearse on a real device, which then gets all stores behind a failed check")
	defineJSONFlag(c, "print the result as JSON, also on failure")
	return c
}

// defineChecks defines the flags that compare outputs.
func (f *replayFlags) defineChecks(flags *pflag.FlagSet) {
	flags.BoolVar(&f.checkGolden, "check-golden", false,
		"compare every output with its golden data; runs after the first have the same inputs, so "+
			"they would also pass with old results, see --check-fresh")
	flags.BoolVar(&f.checkFresh, "check-fresh", false,
		"with --loop N: give each run new random inputs, except those of --input; then run "+
			"the sequence of --before again, and repeat run N; fail if the repeat has another "+
			"output than run N, or if all outputs of run N are those of run N-1")
}

// outcome is the result of lm replay, which --json prints.
type outcome struct {
	Exit   int    `json:"exit"`
	Code   string `json:"code"`
	Reason string `json:"reason,omitempty"`
	Image  string `json:"image"`
	identity
	Sequence string `json:"sequence"`
	Runs     int    `json:"runs"`
	Ignored  uint32 `json:"ignored"`
	Commands uint64 `json:"commands"`     // commands that one run executes, calls included
	Command  int32  `json:"command"`      // index in the image of the command that failed; -1: none
	At       string `json:"at,omitempty"` // position of that command: "main, command 3"
	Got      uint64 `json:"got"`
	Want     uint64 `json:"want"`
	Mask     uint64 `json:"mask"`
	Element  uint64 `json:"element"`
	Safe     string `json:"safe,omitempty"`   // how the sequence "safe" ended
	Signal   string `json:"signal,omitempty"` // the signal that ended the runs early
	LeastNs  int64  `json:"least_ns"`
	MeanNs   int64  `json:"mean_ns"`
	MostNs   int64  `json:"most_ns"`
	Virtual  bool   `json:"virtual"` // the first device's clock counts accesses

	Stats   *statistics     `json:"stats,omitempty"`
	Profile *report.Profile `json:"profile,omitempty"`

	Rehearsal *rehearsal.Report `json:"rehearsal,omitempty"`

	// outputs that were compared with golden data, after the last run with a comparison
	Golden  []*lmb.Comparison `json:"golden,omitempty"`
	Outputs []writtenOutput   `json:"outputs,omitempty"`

	before, after string
	requested     int // number of runs that --loop requests
	hasSafe       bool
	fresh         string // what --check-fresh showed
	runFailed     bool   // a command has failed, and Replay.Run has then executed the sequence safe
}

// writtenOutput is a file that lm replay has written.
type writtenOutput struct {
	Output string   `json:"output"`
	File   string   `json:"file"`
	DType  string   `json:"dtype"`
	Shape  []uint32 `json:"shape"`
}

// replay executes the runs of a session, writes the outputs, closes the devices and prints the
// outcome. The order is that of lmrun, so that both programs end with the same code.
func (f *replayFlags) replay(s *session) {
	defer s.close()
	end := f.newOutcome(s)
	hideWaits, releaseSignals := f.supervise(s)
	defer releaseSignals()
	err := fail.Try(func() { f.loopRuns(s, end) })
	hideWaits()
	end.Signal, end.requested = s.stop.signalName(), f.loop
	err = cmp.Or(err, fail.Try(func() { f.writeProfile(s, end) }))
	if err == nil {
		err = fail.Try(func() { end.Outputs = s.writeOutputs(end.Runs) })
	}
	err = cmp.Or(err, s.close())
	if asJSON {
		end.failInJSON(f.messageWriter(), err)
	}
	fail.On(err)
	printResult(f.messageWriter(), end)
	if !asJSON && end.Profile != nil {
		fail.On(end.Profile.Write(f.messageWriter()))
	}
}

func (f *replayFlags) newOutcome(s *session) *outcome {
	var id identity // the text has none
	if asJSON {
		id = identify(s.view)
	}
	return &outcome{Code: hal.OK.Error(), Image: s.path, identity: id,
		Sequence: f.sequence, Command: -1,
		Virtual: describeClock(s.devices[0]).Virtual, before: f.before, after: f.after,
		Commands: report.SequenceCounts(s.view)[s.sequenceIndex].Executed,
		hasSafe:  s.view.SequenceByName("safe") >= 0}
}

// failInJSON prints the outcome of a replay that failed with err, and fails. It does nothing if err
// is nil.
func (end *outcome) failInJSON(to io.Writer, err error) {
	if err == nil {
		return
	}
	code := codeOf(err)
	end.Exit, end.Code, end.Reason = code.ExitStatus(), code.Error(), err.Error()
	printJSON(to, end)
	fail.On(printedError{code})
}

// printedError ends lm with its exit status; its text has been printed.
type printedError struct{ code hal.Code }

func (r printedError) Error() string { return r.code.Error() }
func (r printedError) Unwrap() error { return r.code }

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

// rejectDuplicates fails if two values NAME=FILE have the same name.
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

// loopRuns executes the sequence of --before, then the runs, with progress on a terminal, and then
// the sequence of --after. At the end it checks the devices for errors, because a DMA transfer can
// fail although all commands have succeeded.
func (f *replayFlags) loopRuns(s *session, end *outcome) {
	bar := newProgressBar("runs", f.loop, 1000)
	total := int64(0)
	fail.On(end.addResult(s, s.runOnce(s.beforeIndex)))
	times := statistics{WarmUp: f.warmUp}
	for n := -f.warmUp; n < f.loop && s.stop.requested.Load() == 0; n++ {
		s.newInputs()
		start, began := time.Now(), s.devices[0].Now()
		result := s.run(n < 0)
		took, wall := s.devices[0].Now()-began, time.Since(start)
		if err := end.addResult(s, result); err != nil {
			s.stopAfterFailure(end, err)
		}
		s.keepOutputs()
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
	if err := s.compareFresh(end); err != nil {
		s.stopAfterFailure(end, err)
	}
	fail.On(end.addResult(s, s.runOnce(s.afterIndex)))
	if code := s.replay.Diagnose(); code != hal.OK {
		s.stopAfterFailure(end, newFault(code,
			"%s: device error after the last run; output files are not written", s.path))
	}
}

// addResult adds the result of a sequence to the outcome. It returns the error of a sequence that
// failed.
func (end *outcome) addResult(s *session, result runtime.Result) error {
	end.Ignored += result.IgnoredFailures
	if result.Code == hal.OK {
		return nil
	}
	end.runFailed = true
	end.Command, end.Got, end.Want, end.Mask, end.Element = result.Command, result.Got, result.Want,
		result.Mask, result.ElementIndex
	end.At = string(runtime.AppendCommandPosition(nil, s.view, int(result.Command)))
	if result.SafeRan {
		end.Safe = result.SafeSequenceCode.Error()
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
		} else if name := s.stop.signalName(); name != "" {
			text += fmt.Sprintf(": the run did not end within %v after %s",
				time.Duration(runtime.StopGraceNs), name)
		}
	case hal.InputMissing:
		name := s.missingInput()
		text += fmt.Sprintf(": input %s has no default data; use --input %s=FILE", name, name)
	case hal.RingUnset:
		text += ": name the sequence that resets the rings by --before"
	}
	switch {
	case r.SafeRan:
		text += s.safeResultText(r.SafeSequenceCode)
	case r.Command < 0: // nothing ran
	case s.view.SequenceByName("safe") < 0:
		text += "; the image has no sequence safe"
	default:
		text += "; sequence safe did not run"
	}
	return newFault(r.Code, "%s", text)
}

// safeResultText returns the part of an error that names the result of the sequence safe.
func (s *session) safeResultText(code hal.Code) string {
	text := "; then sequence safe ran: " + code.Error()
	if why := lastRefusalReason(s.devices); code == hal.Refused && why != "" {
		text += ": " + why
	}
	return text
}

// runSafe runs the sequence safe, if the image has one, after a failure that is not a failed
// command. It returns err with the result of safe.
func (s *session) runSafe(end *outcome, err error) error {
	safe := s.view.SequenceByName("safe")
	if safe < 0 {
		return err
	}
	code := s.runOnce(safe).Code
	end.Safe = code.Error()
	return fail.Around("", err, s.safeResultText(code))
}

// failureText describes a failed run in the words of lmrun, but calls the window of the command by
// its name. lmrun does not read the names of windows.
func failureText(view *fbs.View, r *runtime.Result) string {
	name := "" // stays empty if the image has no windows
	names := listing.WindowNames(lmb.Header(view))
	if window := int(view.Commands[r.Command].Window); window < len(names) {
		name = names[window]
	}
	return string(words.AppendFailure(nil, view, r, name))
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

// writeOutputs writes the outputs of the last run: all or none, as far as a file system can do
// that. Without a completed run there are no results, and it writes nothing.
func (s *session) writeOutputs(completedRuns int) (written []writtenOutput) {
	for _, device := range s.devices {
		fail.On(unplayedError(device, "the run ended"))
	}
	if completedRuns == 0 {
		return nil
	}
	for i, file := range s.outputFiles {
		o := s.outputs[i]
		t := &s.view.Tensors[o.tensorIndex]
		e := elementsOf(s.view, t)
		fail.Must(file.Write(e.formatFile(o.path, s.replay.Output(o.tensorIndex))))
		written = append(written,
			writtenOutput{s.view.Name(t.Name), o.path, lmb.DTypes[t.Dtype], e.shape})
	}
	fail.On(s.outputFiles.Commit())
	return written
}

// String returns what the replay did: which sequences ran and how often, which outputs were
// compared and written, and whether the sequence safe ran.
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
	if o.Runs < o.requested {
		printLine(&b, "%s ended the replay after %d of %d runs", o.Signal, o.Runs, o.requested)
	}
	if around := o.otherSequencesText(); around != "" {
		printLine(&b, "%s", around)
	}
	if o.Ignored > 0 {
		printLine(&b, "%s failed; the run continued, because the image says `else ignore`",
			english.Count(o.Ignored, "expect"))
	}
	if len(o.Golden) > 0 {
		each := ""
		if o.Runs > 1 {
			each = ", after each run; with the same inputs, old results are equal, too " +
				"(--check-fresh shows whether they are new)"
		}
		printLine(&b, "%s%s", lmb.ComparedText(o.Golden), each)
	}
	if o.fresh != "" {
		printLine(&b, "%s", o.fresh)
	}
	for _, w := range o.Outputs {
		printLine(&b, "%s: output %s, %s[%s], written", outputName(w.File), w.Output, w.DType,
			lmb.DimsText(w.Shape))
	}
	if o.Stats != nil {
		b.WriteString(o.Stats.text(clock))
	}
	return b.String()
}

// otherSequencesText returns which sequences ran in addition to the counted runs.
func (o *outcome) otherSequencesText() string {
	var parts []string
	if o.before != "" {
		parts = append(parts, "sequence "+o.before+" ran once before the first run")
	}
	if o.after != "" {
		parts = append(parts, "sequence "+o.after+" ran once after the last run")
	}
	if o.hasSafe && o.Sequence != "safe" {
		parts = append(parts, "sequence safe was not needed")
	}
	return strings.Join(parts, "; ")
}
