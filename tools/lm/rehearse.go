package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/capture/importer"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/rehearsal"

	"github.com/spf13/pflag"
)

// checkRehearsal fails if a flag does not go with --rehearse, or a device is hardware.
func (f *replayFlags) checkRehearsal() {
	if f.loop != 1 || f.warmUp > 0 || f.after != "" || f.profile != "" || f.checkGolden ||
		f.checkFresh || f.stats || len(f.outputs) > 0 {
		failUsage("--rehearse is one run whose outputs have no meaning: leave out --loop, " +
			"--warm-up, --after, --profile, --check-golden, --check-fresh, --stats and --output")
	}
	for _, name := range f.devices {
		kind, _, _ := strings.Cut(name, ":")
		if kind != "mock" && kind != "playback" && kind != "ttsim" && !f.onHardware {
			failUsage("--rehearse goes on with stores after a check that fails, "+
				"which may harm %s; use a mock or the simulator, or add "+
				"--rehearse-on-hardware", name)
		}
	}
}

// rehearse runs the sequence once with its checks replaced by copies, and prints which checks did
// not hold, as a file for lm import --rehearsal. It fails if there are any, or if the run fails.
func (f *replayFlags) rehearse(path string) {
	_, source := f.checkedImage(path)
	index := sequenceNamed(source, path, f.sequence)
	f.checkRehearsal()
	r, err := rehearsal.Of(source, index)
	failIf(hal.BadImage, path, err)
	data, err := lmb.Encode(r.Image)
	failIf(hal.BadImage, path, err)
	file := openImageData(path, data)
	s := f.prepareView(path, file, verifyFile(path, file))
	defer s.close()
	end := f.newOutcome(s)
	hideWaits, releaseSignals := f.supervise(s)
	defer releaseSignals()
	ran, result := 0, runtime.Result{Command: -1}
	err = fail.Try(func() {
		fail.On(end.addResult(s, s.runOnce(s.beforeIndex)))
		result = s.run(false)
		if result.Code == hal.OK {
			ran = int(s.view.Sequences[index].Count)
		} else if result.Command >= 0 {
			ran = int(result.Command) - int(s.view.Sequences[index].First)
			result.Command = int32(r.Command(ran))
		}
		s.view = source
		fail.On(end.addResult(s, result))
		end.Runs = 1
	})
	hideWaits()
	judged := r.Judge(s.replay.Output(r.Output), ran, s.replay.Input,
		func(m rehearsal.Mismatch) string {
			return failureText(source, &runtime.Result{Command: int32(m.Command), Got: m.Got,
				Want: m.Want, Mask: m.Mask, ElementIndex: m.Element})
		})
	if result.Code != hal.OK && result.Command >= 0 {
		r.EndAt(judged, ran, failureText(source, &result))
	}
	end.Rehearsal = judged
	err = cmp.Or(err, judged.Err(), s.close())
	if asJSON {
		end.failInJSON(stdout, err)
		printJSON(stdout, end)
		return
	}
	fmt.Fprint(stdout, end.Rehearsal)
	fail.On(err)
}

// rehearsedFlags are the flags of lm import that a file of --rehearsal may have.
var rehearsedFlags = []string{"ignore", "poll", "reached", "wait"}

// applyRehearsal adds the flags in a file that lm replay --rehearse has printed. An empty line, and
// one that starts with #, is a comment. A place that the command line names already is left out.
func applyRehearsal(path string, flags *pflag.FlagSet) {
	var named []string
	for _, name := range rehearsedFlags {
		named = append(named, flagValues(flags.Lookup(name))...)
	}
	number := 0
	for line := range strings.Lines(string(readFile(path, rehearsalMax))) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, _ := strings.Cut(strings.TrimPrefix(line, "--"), " ")
		if !strings.HasPrefix(line, "--") || !slices.Contains(rehearsedFlags, name) ||
			flags.Lookup(name) == nil {
			fail.With(hal.BadImage, "%s: line %d: expected a comment or one of the flags --%s, "+
				"each with a place; lm replay --rehearse prints such a file", path, number,
				strings.Join(rehearsedFlags, ", --"))
		}
		value = strings.TrimSpace(value)
		if _, err := importer.ParseRanges(value); err != nil && value != "rising" {
			fail.With(hal.BadImage, "%s: line %d: %v", path, number, err)
		}
		if !slices.Contains(named, value) {
			fail.As(hal.Usage, flags.Set(name, value))
		}
	}
	if number == 0 {
		fail.With(hal.BadImage, "%s: the file is empty; lm replay --rehearse prints what it takes",
			path)
	}
}

const rehearsalMax = 64 << 20
