//go:build world

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/check/fakekernel"
	"lightmetal/tools/check/vectors/oracle"
	"lightmetal/tools/check/vectors/vector"
)

// expectation is the expected result of a process run, as the documentation specifies it for the
// command line, the image and the exit status.
type expectation struct {
	exitStatus     int
	message        string // text that the runner must report
	runsBegin      bool   // the runner reaches the first run
	code           hal.Code
	command        int // index of the command that fails; -1: none
	mismatch       mismatch
	ignored        uint32
	runs           uint64
	safeResult     string // result of the sequence safe; "" if it does not run
	outputs        [][]byte
	waitsNs        []int64 // time that each run of main waits, in nanoseconds
	outputsWritten bool    // the runner writes the outputs
}

// computeExpectation computes the expected result. If it chooses a deadline, no run ends near it:
// the deadline is at least twice the waiting time of each run, or at most half of it.
func (e *processRun) computeExpectation() {
	firstStep := stepRuns
	e.expected = expectation{command: -1}
	for _, f := range e.faults {
		if f.step < firstStep {
			firstStep, e.expected.exitStatus, e.expected.message = f.step, f.exitStatus, f.message
		}
	}
	if e.w.options.CheckOnly && firstStep > stepPlan {
		firstStep, e.expected = stepPlan, expectation{command: -1, message: "the image is valid"}
		return
	}
	if firstStep < stepRuns {
		return
	}
	e.runReference()
	if e.random().IntN(3) == 0 && len(e.expected.waitsNs) > 0 {
		longest := slices.Max(e.expected.waitsNs)
		e.w.options.DeadlineNs = []int64{max(4*longest/1000, 1000) * 1000,
			max(longest/4000, 1) * 1000}[e.random().IntN(2)]
		if e.runReference(); e.reference.lateUnclear {
			e.w.options.DeadlineNs = 0
			e.runReference()
		}
	}
	for _, f := range e.faults {
		if f.step == stepCommit && e.expected.exitStatus == 0 {
			e.expected.exitStatus, e.expected.message = f.exitStatus, f.message
			e.expected.code, e.expected.outputsWritten = hal.IO, false
			if e.w.view.SequenceByName("safe") >= 0 {
				e.expected.safeResult = "" // all sequences were successful, so safe does not run
			}
		}
	}
}

// runReference executes in the reference machine what the runner is expected to execute.
func (e *processRun) runReference() {
	w := e.w
	for _, f := range e.machine.functions {
		f.Gone, f.dma = false, hal.OK
	}
	var fault *oracle.Fault
	if e.reference, fault = newReference(e); fault != nil {
		w.errorf("the oracle rejects the image: %v", fault)
		return
	}
	if len(w.frames) > 0 {
		e.reference.SetInput(0, w.frames[0])
	}
	e.expected = expectation{command: -1, runsBegin: true}
	defer func() {
		for _, f := range e.machine.functions {
			f.Gone, f.dma = false, hal.OK
		}
	}()
	if !e.runReferenceSequence(w.options.SequenceBefore) {
		return
	}
	stopped := false
	for !stopped && e.expected.runs < w.options.RunCount {
		for _, t := range e.events {
			if t.beforeRun == int(e.expected.runs)+1 {
				stopped = e.applyToReference(t) || stopped
			}
		}
		if !e.runReferenceSequence("main") {
			return
		}
		e.expected.runs++
		e.expected.outputs = append(e.expected.outputs, bytes.Clone(e.reference.Tensor(1)))
		e.expected.waitsNs = append(e.expected.waitsNs, e.reference.waitedNs)
	}
	if !e.runReferenceSequence(w.options.SequenceAfter) {
		return
	}
	if code := e.machine.diagnosis(); code != hal.OK {
		e.expected.exitStatus, e.expected.code, e.expected.message = code.ExitStatus(), code,
			"after the last run"
		e.runReferenceSafe()
		return
	}
	e.expected.outputsWritten = true
}

// applyToReference applies an event to the reference machine. It reports whether the event ends the
// runs.
func (e *processRun) applyToReference(t runEvent) (endsRuns bool) {
	f := e.machine.functions[t.function]
	switch t.kind {
	case eventDeviceGone:
		f.Gone = true
	case eventBusErrors:
		e.reference.busErrors[vector.OfBar(f.Index, 0)] = true
	case eventDMAFault:
		if f.dma == hal.OK && e.usesBusMaster(f) {
			f.dma = hal.DMAFault
		}
	case eventBusMasterOff:
		if e.usesBusMaster(f) {
			f.dma = hal.MasterOff
		}
	}
	return t.kind == eventSignal
}

// usesBusMaster reports whether the image has a window of host memory for a function. If so, the
// runner enables its bus mastering.
func (e *processRun) usesBusMaster(f *pciFunction) bool {
	for _, w := range e.w.view.Windows {
		if w.Kind == gen.WindowKindHost && int(w.Device) == f.Index {
			return true
		}
	}
	return false
}

// runReferenceSequence executes a sequence in the reference machine, unless its name is "". It
// reports whether the sequence is successful.
func (e *processRun) runReferenceSequence(name string) bool {
	if name == "" {
		return true
	}
	limitNs := int64(0)
	if name == "main" {
		limitNs = e.w.options.DeadlineNs
	}
	result, code := e.reference.execute(e.image.Find(name), limitNs)
	e.w.logf("expected: %s ends with %v at command %d after %d ns", name, code, result.Command,
		e.reference.waitedNs)
	if e.expected.ignored += result.Ignored; code == hal.OK {
		return true
	}
	e.expected.code, e.expected.exitStatus = code, code.ExitStatus()
	e.expected.command, e.expected.mismatch = result.Command, mismatchOf(result)
	sequence := e.sequenceOf(result.Command)
	e.expected.message = fmt.Sprintf("%s, command %d", e.w.sequenceName(sequence),
		result.Command-int(e.w.view.Sequences[sequence].First))
	e.runReferenceSafe()
	return false
}

// sequenceOf returns the index of the sequence that contains a command.
func (e *processRun) sequenceOf(command int) int {
	return slices.IndexFunc(e.w.view.Sequences, func(s fbs.Sequence) bool {
		return command >= int(s.First) && command < int(s.First+s.Count)
	})
}

// runReferenceSafe executes the sequence safe in the reference machine, if the image has it.
func (e *processRun) runReferenceSafe() {
	safe := e.image.Find("safe")
	if safe < 0 {
		return
	}
	_, code := e.reference.execute(safe, 0)
	e.expected.safeResult = code.Error()
	e.w.logf("expected: safe ends with %s", e.expected.safeResult)
}

// check compares the process run with the expected result.
func (e *processRun) check() {
	w, t := e.w, &e.expected
	if w.firstError != "" {
		return
	}
	if e.exitStatus != t.exitStatus {
		w.errorf("status %d, expected %d (%s): %q %q", e.exitStatus, t.exitStatus, t.message,
			w.printed[1], w.printed[2])
		return
	}
	e.checkReport()
	if !t.runsBegin {
		e.reference = &referenceMachine{machine: e.machine}
		for _, f := range e.machine.functions {
			afterLoad := slices.ContainsFunc(e.faults,
				func(f injectedFault) bool { return f.step > stepLoad })
			if f.WasMaster && t.message != "stays on" && !afterLoad {
				w.errorf("function %d was bus master, but no sequence ran", f.Index)
			}
		}
	}
	if text := e.reference.barDifference(); text != "" {
		w.errorf("%s", text)
	}
	for _, h := range e.machine.Mappings {
		if h.Bar < 0 {
			e.machine.keepCopy(h)
		}
	}
	if text := e.reference.hostMemoryDifference(); text != "" {
		w.errorf("%s", text)
	}
	e.checkMachine()
	e.checkOutputs()
	e.machine.watchdog.checkStop(e)
}

// checkMachine checks that no device masters the bus at the end, and that no file or mapping of a
// device is left. A sealed process cannot close them.
func (e *processRun) checkMachine() {
	m := e.machine
	for _, f := range m.functions {
		if f.Command()&fakekernel.CommandMaster != 0 && m.backend != "tt" && !f.Gone &&
			f.StuckOn == 0 {
			e.w.errorf("function %d is bus master at the end", f.Index)
		}
		if e.expected.runsBegin && m.backend != "tt" && e.usesBusMaster(f) != f.WasMaster {
			e.w.errorf("function %d was bus master: %v, expected the opposite", f.Index,
				f.WasMaster)
		}
		if f.Cleanup != nil || e.expected.runsBegin {
			e.checkCleanup(f)
		}
	}
	if m.seccompFilter != nil || !e.expected.runsBegin {
		return
	}
	if left := len(m.VFIO.DMA) + m.VFIO.DMAAtClose; left > 0 || len(m.Mappings) > 0 {
		e.w.errorf("%d ranges of the IOMMU and %d mappings were not removed", left, len(m.Mappings))
	}
	// The runner requests all flags at the start, and at the end all except the high clock (ioctl.h
	// of tt-kmd).
	for _, f := range m.functions {
		if m.backend == "tt" && !f.Gone &&
			!slices.Equal(f.PowerRequests, []uint16{0x7fff, 0x7ffe}) {
			e.w.errorf("wrong power states were requested of function %d: %#x", f.Index,
				f.PowerRequests)
		}
	}
	for _, path := range m.OpenFiles {
		// Only files of the simulated machine must be closed.
		if !strings.HasPrefix(path, e.w.dir) {
			e.w.errorf("%s was not closed", path)
		}
	}
	if sealed := e.w.options.Seal; sealed {
		e.w.errorf("the process was not sealed")
	}
}

// checkCleanup checks that the runner registered the store that resets the core of the sequence
// boot again.
func (e *processRun) checkCleanup(f *pciFunction) {
	boot := e.w.view.SequenceByName("boot")
	if e.machine.backend != "tt" {
		return
	}
	var want fakekernel.TTCleanup
	if boot >= 0 {
		c := &e.w.view.Commands[e.w.view.Sequences[boot].First]
		if t := c.Mask; int(e.w.view.Windows[c.Window].Device) == f.Index {
			want = fakekernel.TTCleanup{X: uint8(t), Y: uint8(t >> 8), Address: 0xffb121b0,
				Data: 0x47800}
		}
	}
	got := fakekernel.TTCleanup{}
	if f.Cleanup != nil {
		got = *f.Cleanup
	}
	if e.expected.runsBegin && (got.Address != want.Address || got.Data != want.Data ||
		(got.Address != 0) != (want.Address != 0)) {
		e.w.errorf("cleanup of function %d is %+v, expected %+v", f.Index, got, want)
	}
}

// checkReport compares what the runner printed with the expected result.
func (e *processRun) checkReport() {
	w, t := e.w, &e.expected
	out, text := w.printed[1], string(w.printed[1])+string(w.printed[2])
	if t.exitStatus != 0 && !strings.Contains(text, t.message) {
		w.errorf("status %d: report %q does not contain %q", t.exitStatus, text, t.message)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }) {
		w.errorf("report %q contains control characters", text)
	}
	if !w.options.PrintJSON || len(e.wrongArguments) > 0 {
		if t.exitStatus == 0 && !strings.Contains(string(out), "lmrun: ") ||
			t.exitStatus != 0 && len(w.printed[2]) == 0 && !w.options.PrintJSON {
			w.errorf("status %d: standard output %q, standard error %q", t.exitStatus, out,
				w.printed[2])
		}
		return
	}
	var r struct {
		Exit, Command                       int
		Code, Image, Sequence, Safe, Reason string
		Runs, Ignored, Got, Want, Mask      uint64
		Element                             uint64
		Least                               int64 `json:"least_ns"`
		Mean                                int64 `json:"mean_ns"`
		Most                                int64 `json:"most_ns"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		w.errorf("invalid JSON %q: %v", out, err)
		return
	}
	switch {
	case r.Exit != t.exitStatus || r.Image != w.options.Image || r.Sequence != w.options.Sequence:
		w.errorf("%s: expected exit status %d and the options' image and sequence", out,
			t.exitStatus)
	case !t.runsBegin:
	case r.Code != t.code.Error() || r.Runs != t.runs ||
		r.Ignored != uint64(t.ignored) && (t.command >= 0 || t.exitStatus == 0) ||
		r.Safe != t.safeResult:
		w.errorf("%s: expected %v, %d runs, %d ignored, safe %q", out, t.code, t.runs, t.ignored,
			t.safeResult)
	case t.exitStatus != 0 && t.command >= 0 && (r.Command != t.command ||
		(t.exitStatus == 75 || t.exitStatus == 76) &&
			(mismatch{r.Got, r.Want, r.Mask, r.Element}) != t.mismatch):
		w.errorf("%s: expected command %d, %+v", out, t.command, t.mismatch)
	case t.runs > 0 && (r.Least > r.Mean || r.Mean > r.Most || r.Least < slices.Min(t.waitsNs) ||
		r.Most < slices.Max(t.waitsNs)):
		w.errorf("%s: times do not fit the waiting times of the runs, %d ns", out, t.waitsNs)
	}
}

// checkOutputs checks that an output file has either its old or its complete new content, and that
// a pipe has the results of all successful runs.
func (e *processRun) checkOutputs() {
	w, t := e.w, &e.expected
	if e.outputPipe >= 0 {
		e.drainPipe()
		if want := bytes.Join(t.outputs, nil); !bytes.Equal(e.pipeData, want) &&
			len(e.faults) == 0 {
			w.errorf("pipe: %d bytes of output, expected %d, or different bytes", len(e.pipeData),
				len(want))
		}
		return
	}
	want := []byte("old")
	if e.writesFile() && t.outputsWritten {
		want = t.outputs[len(t.outputs)-1]
	}
	got, err := os.ReadFile(w.path("out"))
	if !bytes.Equal(got, want) && (err == nil || t.runsBegin) {
		w.errorf("status %d: the output has %d bytes (%.3q), expected %d (%.3q)", e.exitStatus,
			len(got), got, len(want), want)
	}
	if again, err := os.ReadFile(w.path("again")); len(w.options.Outputs) == 2 &&
		len(e.faults) == 0 && (err == nil) != t.outputsWritten || err == nil &&
		!bytes.Equal(again, got) {
		w.errorf("status %d: wrong second output of %d bytes: %v", e.exitStatus, len(again), err)
	}
	entries, _ := os.ReadDir(w.dir)
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".part") {
			w.errorf("temporary file %s was not removed", entry.Name())
		}
	}
}
