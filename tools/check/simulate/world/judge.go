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

// documented are the statuses that lmrun -help lists.
var documented = map[int]bool{0: true, 64: true, 65: true, 66: true, 69: true, 70: true, 71: true,
	74: true, 75: true, 76: true, 77: true, 78: true}

// judge holds how a life ended against what happened in it.
func (w *world) judge(f *frameLoop, end outcome, status int) {
	if w.wrong != "" {
		return
	}
	w.judgeFiles(status)
	if status < 0 {
		return
	}
	w.judgeReport(end, status)
	if w.marked && w.model == nil && status != 0 && !w.troubled() {
		w.violate("status %d of a good image, and nothing went wrong: %v", status, end.err)
	}
	if m := w.model; m != nil && w.devices != nil {
		w.judgeRuns(f, end, status)
		for _, d := range w.devices {
			if d.mastered {
				w.violate("device %d masters the bus when the runner is over", d.index)
			}
		}
	}
}

func (w *world) judgeReport(end outcome, status int) {
	if !documented[status] {
		w.violate("status %d is in no list", status)
	}
	to := w.said[1]
	if w.options.JSON {
		var object struct{ Exit int }
		if err := json.Unmarshal(to, &object); len(to) > 0 &&
			(err != nil || object.Exit != status) {
			w.violate("status %d, and on standard output %q", status, to)
		}
	}
	if len(to) == 0 && len(w.said[2]) == 0 {
		w.violate("nothing is said of status %d", status)
	}
	if status == 0 && len(to) == 0 {
		w.violate("standard output is lost, and the status is 0")
	}
}

func (w *world) judgeRuns(f *frameLoop, end outcome, status int) {
	m, result := w.model, &end.result
	code := hal.CodeOf(end.err)
	hasSafe := w.view.SequenceByName("safe") >= 0
	got := seen{result.Got, result.Want, result.Mask, result.ElementIndex}
	switch {
	case f.replay == nil && (m.begun > 0 || w.armed > 0):
		w.violate("load refused, and %d sequences ran, %d resets are armed", m.begun, w.armed)
	case m.failed != nil && (code != m.result.code || result.Code != code ||
		int(result.Command) != m.result.command || result.IgnoredFailures != m.result.ignored):
		w.violate("%v, command %d, %d ignored is reported, %v, %d, %d is right", result.Code,
			result.Command, result.IgnoredFailures, m.result.code, m.result.command,
			m.result.ignored)
	case m.failed != nil && (status == 75 || status == 76) && got != m.result.seen:
		w.violate("%+v is reported, %+v was seen", got, m.result.seen)
	case m.failed != nil && hasSafe && (m.safe == 0 && w.marked || !result.SafeRan ||
		result.SafeCode != m.result.safe):
		w.violate("safe: %d times, reported %v %v, %v is right", m.safe, result.SafeRan,
			result.SafeCode, m.result.safe)
	case m.failed == nil && m.begun > 0 && code != hal.OK && !w.committing && !w.closed() &&
		hasSafe && m.safe != 1:
		w.violate("%v after runs, and safe ran %d times", code, m.safe)
	case m.safe > 0 && code == hal.OK:
		w.violate("safe ran, and all is well")
	case code == hal.OK && w.state() != hal.OK && m.runs > 0 && !w.hurt:
		w.violate("all is well, and a device says %v", w.state())
	case w.marked && end.runs != m.runs:
		w.violate("%d runs are reported, %d were", end.runs, m.runs)
	case w.marked && code == hal.OK && w.options.Loop != 0 && m.runs < w.options.Loop &&
		stopRequested.Load() == 0 && len(w.options.Inputs) == 0:
		w.violate("%d runs of %d, and all is well", m.runs, w.options.Loop)
	case w.marked && code == hal.OK && m.runs == 0 && stopRequested.Load() == 0:
		w.violate("no run, and all is well")
	case w.marked && code == hal.OK && m.after != (w.options.After != ""):
		w.violate("all is well, and after ran: %v", m.after)
	case w.marked && code != hal.OK && m.failed == nil && !w.troubled():
		w.violate("%v, and nothing went wrong: %v", code, end.err)
	}
}

// troubled tells whether something went wrong, beside a failed run.
func (w *world) troubled() bool {
	return w.hurt || w.in.cut || w.out.cut || w.rewritten || w.state() != hal.OK ||
		stopRequested.Load() != 0 || w.cuts != 0 || len(w.frames) == 0 || w.mapFails >= 0 ||
		w.masterFails
}

// closed tells whether the runner has ended the ring that it writes.
func (w *world) closed() bool {
	return w.out.there() && uint32(w.out.count(closedAt)) != 0
}

// judgeFiles: outputs are whole and together, or as they were.
func (w *world) judgeFiles(status int) {
	fresh, same := 0, false
	for _, b := range w.options.Outputs {
		if strings.HasPrefix(b.Path, "ring:") {
			continue
		}
		data, _ := os.ReadFile(b.Path)
		last := []byte(nil)
		if len(w.results) > 0 {
			last = w.results[len(w.results)-1]
		}
		old := w.old[filepath.Base(b.Path)]
		same = same || bytes.Equal(last, old)
		switch {
		case bytes.Equal(data, old):
		case len(last) > 0 && bytes.Equal(data, last):
			fresh++
		default:
			w.violate("%s is neither old nor whole: %d bytes", b.Path, len(data))
		}
	}
	switch {
	case fresh == 1 && !w.hurt && !same && status >= 0, fresh == 0 && !same && status == 0 &&
		w.model.runs > 0 && len(w.options.Outputs) == 2, fresh > 0 && w.unsynced, fresh > 0 &&
		status > 0 && !w.hurt:
		w.violate("status %d, and %d of 2 outputs are new", status, fresh)
	}
	if parts, _ := filepath.Glob(w.file(".*.part")); status >= 0 && len(parts) > 0 {
		w.violate("%v is left", parts)
	}
	food, _ := os.ReadFile(w.file("watchdog"))
	stopped := bytes.Contains(food, []byte("V"))
	if stopped && status > 0 && status != 74 ||
		!stopped && status == 0 && w.options.Watchdog != "" && !w.hurt {
		w.violate("status %d, and the watchdog is stopped: %v", status, stopped)
	}
}
