//go:build world

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"lightmetal/hal"
)

// documentedStatuses are the exit statuses that `lmrun -help` lists.
var documentedStatuses = map[int]bool{0: true, 64: true, 65: true, 66: true, 69: true, 70: true,
	71: true,
	74: true, 75: true, 76: true, 77: true, 78: true}

// checkProcess compares the end of a process with what happened while it ran.
func (w *world) checkProcess(f *runLoop, end outcome, status int) {
	if w.firstError != "" {
		return
	}
	w.checkFiles(status)
	if status < 0 {
		return
	}
	w.checkReport(end, status)
	if w.hasMarks && w.model == nil && status != 0 && !w.wasDisturbed() {
		w.errorf("status %d of a valid image without any fault: %v", status, end.err)
	}
	if m := w.model; m != nil && w.devices != nil {
		w.checkRuns(f, end, status)
		for _, d := range w.devices {
			if d.isBusMaster {
				w.errorf("device %d is bus master at the end", d.index)
			}
		}
	}
}

func (w *world) checkReport(end outcome, status int) {
	if !documentedStatuses[status] {
		w.errorf("exit status %d is not documented", status)
	}
	out := w.printed[1]
	if w.options.PrintJSON {
		var object struct{ Exit int }
		if err := json.Unmarshal(out, &object); len(out) > 0 &&
			(err != nil || object.Exit != status) {
			w.errorf("status %d: wrong JSON on standard output: %q", status, out)
		}
	}
	if len(out) == 0 && len(w.printed[2]) == 0 {
		w.errorf("status %d without a report", status)
	}
	if status == 0 && len(out) == 0 {
		w.errorf("status 0, but standard output is empty")
	}
}

func (w *world) checkRuns(f *runLoop, end outcome, status int) {
	m, result := w.model, &end.result
	code := hal.CodeOf(end.err)
	hasSafe := w.view.SequenceByName("safe") >= 0
	reported := mismatch{result.Got, result.Want, result.Mask, result.ElementIndex}
	switch {
	case f.replay == nil && (m.sequencesBegun > 0 || w.exitCleanups > 0):
		w.errorf("Load failed, but %d sequences ran and %d exit cleanups were registered",
			m.sequencesBegun, w.exitCleanups)
	case m.failure != nil && (code != m.expected.code || result.Code != code ||
		int(result.Command) != m.expected.command || result.IgnoredFailures != m.expected.ignored):
		w.errorf("reported %v, command %d, %d ignored; expected %v, %d, %d", result.Code,
			result.Command, result.IgnoredFailures, m.expected.code, m.expected.command,
			m.expected.ignored)
	case m.failure != nil && (status == 75 || status == 76) && reported != m.expected.mismatch:
		w.errorf("reported %+v, expected %+v", reported, m.expected.mismatch)
	case m.failure != nil && hasSafe && (m.safeRuns == 0 && w.hasMarks || !result.SafeRan ||
		result.SafeSequenceCode != m.expected.safe):
		w.errorf("safe ran %d times, reported %v %v, expected %v", m.safeRuns, result.SafeRan,
			result.SafeSequenceCode, m.expected.safe)
	case m.failure == nil && m.sequencesBegun > 0 && code != hal.OK && !w.committing &&
		!w.isOutputClosed() && hasSafe && m.safeRuns != 1:
		w.errorf("%v after runs, but safe ran %d times", code, m.safeRuns)
	case m.safeRuns > 0 && code == hal.OK:
		w.errorf("safe ran, but success was reported")
	case code == hal.OK && w.diagnosis() != hal.OK && m.runs > 0 && !w.disturbed:
		w.errorf("success was reported, but a device reports %v", w.diagnosis())
	case w.hasMarks && end.runs != m.runs:
		w.errorf("reported %d runs, expected %d", end.runs, m.runs)
	case w.hasMarks && code == hal.OK && w.options.RunCount != 0 && m.runs < w.options.RunCount &&
		stopRequested.Load() == 0 && len(w.options.Inputs) == 0:
		w.errorf("success was reported after %d runs of %d", m.runs, w.options.RunCount)
	case w.hasMarks && code == hal.OK && m.runs == 0 && stopRequested.Load() == 0:
		w.errorf("success was reported without a run")
	case w.hasMarks && code == hal.OK && m.afterRan != (w.options.SequenceAfter != "") &&
		(m.sequencesBegun > 0 || stopRequested.Load() == 0):
		w.errorf("success was reported; sequence after ran: %v, expected the opposite", m.afterRan)
	case w.hasMarks && code != hal.OK && m.failure == nil && !w.wasDisturbed():
		w.errorf("%v without any fault: %v", code, end.err)
	}
}

// wasDisturbed reports whether something other than a command failed, which can explain a failure
// of the process.
func (w *world) wasDisturbed() bool {
	return w.disturbed || w.inRing.truncated || w.outRing.truncated || w.imageOverwritten ||
		w.diagnosis() != hal.OK || stopRequested.Load() != 0 || w.missingBytes != 0 ||
		len(w.frames) == 0 || w.failingMap >= 0 || w.busMasterFails
}

// isOutputClosed reports whether the runner has closed the ring of outputs.
func (w *world) isOutputClosed() bool {
	return w.outRing.attach() && uint32(w.outRing.load(closedOffset)) != 0
}

// checkFiles checks that either all outputs are new and complete, or all are unchanged.
func (w *world) checkFiles(status int) {
	newFiles, same := 0, false
	for _, b := range w.options.Outputs {
		if strings.HasPrefix(b.Path, "ring:") {
			continue
		}
		data, _ := os.ReadFile(b.Path)
		last := []byte(nil)
		if len(w.results) > 0 {
			last = w.results[len(w.results)-1]
		}
		old := w.oldFiles[filepath.Base(b.Path)]
		same = same || bytes.Equal(last, old)
		switch {
		case bytes.Equal(data, old):
		case len(last) > 0 && bytes.Equal(data, last):
			newFiles++
		default:
			w.errorf("%s is neither unchanged nor complete: %d bytes", b.Path, len(data))
		}
	}
	switch {
	case newFiles == 1 && !w.disturbed && !same && status >= 0,
		newFiles == 0 && !same && status == 0 && w.model.runs > 0 && len(w.options.Outputs) == 2,
		newFiles > 0 && w.syncFailed,
		newFiles > 0 && status > 0 && !w.disturbed:
		w.errorf("status %d, but %d of 2 outputs are new", status, newFiles)
	}
	if parts, _ := filepath.Glob(w.path(".*.part")); status >= 0 && len(parts) > 0 {
		w.errorf("temporary files %v were not removed", parts)
	}
	watchdogData, _ := os.ReadFile(w.path("watchdog"))
	stopped := bytes.Contains(watchdogData, []byte("V"))
	if stopped && status > 0 && status != 74 ||
		!stopped && status == 0 && w.options.Watchdog != "" && !w.disturbed {
		w.errorf("status %d, watchdog stopped: %v", status, stopped)
	}
}
