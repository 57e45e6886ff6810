package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lightmetal/hal"
	"lightmetal/tools/check/vectors/oracle"
)

// replayStep describes the replay of a step lmrun or golden in a scenario.
type replayStep struct {
	image, sequence string
	firstTLBWindow  int // value of -window, or anyTLBWindow
	loops           int
	inputs          map[string]string // paths in the guest, by tensor
	failed          string            // the command that fails, such as main[3]; "": none
	rejected        bool              // lmrun ends before the first access
}

// failedCommand matches the sequence and the command in the message of a failure.
var failedCommand = regexp.MustCompile(`(\w+), command (\d+)`)

// parseReplay parses the words of a step; ok is false if the step replays no image.
func parseReplay(words []string) (r replayStep, ok bool) {
	r = replayStep{sequence: "main", firstTLBWindow: anyTLBWindow, loops: 1,
		inputs: map[string]string{}}
	var args []string
	switch words[0] {
	case "golden": // DEVICE IMAGE ARGUMENT...
		args = append(slices.Clone(words[3:]), words[2])
	case "lmrun": // STATUS TEXT ARGUMENT... IMAGE
		args = words[3:]
		status, _ := strconv.Atoi(words[1])
		rejecting := []hal.Code{hal.Usage, hal.BadImage, hal.NoDevice, hal.WrongDevice}
		r.rejected = slices.ContainsFunc(rejecting, func(code hal.Code) bool {
			return code.ExitStatus() == status
		})
		if match := failedCommand.FindStringSubmatch(words[2]); match != nil && status != 0 {
			r.failed = match[1] + "[" + match[2] + "]"
		}
	default:
		return r, false
	}
	for i, word := range args {
		value := ""
		if i+1 < len(args) {
			value = args[i+1]
		}
		switch word {
		case "-sequence":
			r.sequence = value
		case "-window":
			r.firstTLBWindow, _ = strconv.Atoi(value)
		case "-loop":
			r.loops, _ = strconv.Atoi(value)
		case "-input":
			tensor, path, _ := strings.Cut(value, "=")
			r.inputs[tensor] = path
		}
	}
	r.image = args[len(args)-1]
	return r, true
}

// requireTrace requires that a trace has exactly the accesses to a region of all replays in the
// steps of the scenarios, in order. After a run that fails, the sequence safe runs.
func (r *scenarioRun) requireTrace(t *testing.T, traced region, trace []access) {
	t.Helper()
	count := len(trace)
	for i := range r.scenarios {
		for _, s := range r.scenarios[i].Steps {
			run, ok := parseReplay(s.Words)
			if !ok || run.rejected {
				continue
			}
			var err error
			if trace, err = run.match(r.files, traced, trace); err != nil {
				t.Fatalf("%s: %s: QEMU's trace: %v", s.Place, strings.Join(s.Words, " "), err)
			}
		}
	}
	if len(trace) > 0 {
		t.Errorf("%d accesses after all runs, the first (access %d) is %v", len(trace),
			count-len(trace), trace[0])
	}
	t.Logf("evidence: %d accesses in QEMU's trace as the images say", count)
}

// match compares the start of a trace with the accesses of the replay, and returns the rest of the
// trace.
func (run replayStep) match(files map[string][]byte, traced region,
	trace []access) (rest []access, err error) {
	f, err := newFollower(files[run.image], traced, run.firstTLBWindow)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(f.image.Devices, func(d oracle.Device) bool {
		return d.Vendor == traced.vendor && d.Device == traced.device
	}) {
		return trace, nil
	}
	for tensor, path := range run.inputs {
		f.setInput(tensor, files[path])
	}
	for range run.loops {
		failed, rest, err := f.follow(run.sequence, trace)
		if err != nil || failed != run.failed {
			return nil, fmt.Errorf("failed at %q, want %q; %v", failed, run.failed, err)
		}
		trace = rest
	}
	return trace, nil
}

// qemuTrace returns the accesses to a region of QEMU's own devices, from QEMU's trace.
func (m *machine) qemuTrace(t *testing.T, traced region) []access {
	t.Helper()
	log, err := os.Open(m.traceFile)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	trace, err := parseTrace(log, traced)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}
