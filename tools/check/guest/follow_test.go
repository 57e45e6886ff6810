package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/hal"
	"lightmetal/tools/image/lmb"
)

// replayStep is what a step lmrun or golden of a scenario says of a run.
type replayStep struct {
	image, sequence, slot string
	loops                 int
	inputs                map[string]string // files of the guest, by tensor
	failed                string            // the command that ends main, such as main[3]
	rejected              bool              // before the first access
}

// failedCommand is the command in the text of a failure.
var failedCommand = regexp.MustCompile(`(\w+), command (\d+)`)

func parseReplay(words []string) (r replayStep, ok bool) {
	r = replayStep{sequence: "main", slot: "0", loops: 1, inputs: map[string]string{}}
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
			r.slot = value
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

// follow compares a trace with the accesses to a region that the steps of scenarios imply: all
// runs of images, in order. A run that fails ends with the sequence safe.
func (r *scenarioRun) follow(t *testing.T, of region, trace []access) {
	t.Helper()
	count := len(trace)
	for i := range r.scenarios {
		for _, s := range r.scenarios[i].Steps {
			run, ok := parseReplay(s.Words)
			if !ok || run.rejected {
				continue
			}
			var err error
			if trace, err = run.follow(r.files, of, trace); err != nil {
				t.Fatalf("%s: %s: QEMU's trace: %v", s.Place, strings.Join(s.Words, " "), err)
			}
		}
	}
	if len(trace) > 0 {
		t.Errorf("after all runs, access %d: %v", count-len(trace), trace[0])
	}
	t.Logf("evidence: %d accesses in QEMU's trace as the images say", count)
}

// follow consumes the accesses of a replay and returns those after it.
func (run replayStep) follow(files map[string][]byte, of region, trace []access) ([]access, error) {
	image, err := lmb.Decode(files[run.image])
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(image.Devices, func(d lmb.Device) bool {
		return d.Vendor == of.vendor && d.Device == of.device
	}) {
		return trace, nil
	}
	inputs := map[string][]byte{}
	for tensor, path := range run.inputs {
		inputs[tensor] = files[path]
	}
	expandSequence := func(sequence string) (*plan, error) {
		if slot, _ := strconv.Atoi(run.slot); hasTLB(of) {
			return expandIn(image, sequence, of, from(slot, image, of), inputs)
		}
		return expand(image, sequence, of, inputs)
	}
	for range run.loops {
		p, err := expandSequence(run.sequence)
		if err != nil {
			return nil, err
		}
		failed, rest, err := p.consume(trace)
		if err != nil || failed != run.failed {
			return nil, fmt.Errorf("failed at %q, want %q; %v", failed, run.failed, err)
		}
		trace = rest
	}
	if run.failed == "" {
		return trace, nil
	}
	safe, err := expandSequence("safe")
	if err != nil {
		return trace, nil // the image has none
	}
	failed, rest, err := safe.consume(trace)
	if failed != "" {
		err = fmt.Errorf("safe failed at %q", failed)
	}
	return rest, err
}

func hasTLB(of region) bool {
	b := boards.FindByID(of.vendor, of.device)
	return b != nil && b.TLB != nil
}

// qemuTrace is what QEMU saw of a region of its own devices.
func (m *machine) qemuTrace(t *testing.T, of region) []access {
	t.Helper()
	log, err := os.Open(m.trace)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	trace, err := parseTrace(log, of)
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// followEdu also checks that the first run, of a capture, computes the three factorials of that,
// whatever its image looks like.
func followEdu(t *testing.T, r *scenarioRun) {
	trace := r.qemuTrace(t, edu)
	r.follow(t, edu, trace)
	var started []uint64
	for _, a := range trace {
		if a.store && a.offset == 8 {
			started = append(started, a.value)
		}
	}
	if len(started) < 3 || !slices.Equal(started[:3], []uint64{5, 10, 12}) {
		t.Errorf("started the factorials of %v, want 5, 10, 12 first", started)
	}
}

func followMasters(t *testing.T, r *scenarioRun) {
	for _, of := range []region{edu, nvme} {
		r.follow(t, of, r.qemuTrace(t, of))
	}
}
