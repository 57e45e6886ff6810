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
)

// foretold is what is to come of an errand, by what the pages say of the command
// line, of images and of exit statuses.
type foretold struct {
	exit    int
	say     string
	ran     bool // runs began
	code    hal.Code
	command int // -1: no command's failure
	seen    seen
	ignored uint32
	runs    uint64
	safe    string // how that ended, empty where it did not run
	outputs [][]byte
	waits   []int64 // of each run of main
	wrote   bool    // outputs are in place
}

// foretell decides. A limit of runs is one that they are far from.
func (e *errand) foretell() {
	order := atRuns
	e.told = foretold{command: -1}
	for _, m := range e.mishaps {
		if m.at < order {
			order, e.told.exit, e.told.say = m.at, m.exit, m.say
		}
	}
	if e.w.options.Check && order > atPlan {
		order, e.told = atPlan, foretold{command: -1, say: "the image is valid"}
		return
	}
	if order < atRuns {
		return
	}
	e.play()
	if e.random().IntN(3) == 0 && len(e.told.waits) > 0 {
		longest := slices.Max(e.told.waits)
		e.w.options.Deadline = []int64{max(4*longest/1000, 1000) * 1000,
			max(longest/4000, 1) * 1000}[e.random().IntN(2)]
		if e.play(); e.shadow.unclear {
			e.w.options.Deadline = 0
			e.play()
		}
	}
	for _, m := range e.mishaps {
		if m.at == atFinish && e.told.exit == 0 {
			e.told.exit, e.told.say, e.told.code, e.told.wrote = m.exit, m.say, hal.IO, false
			if e.w.view.SequenceByName("safe") >= 0 {
				e.told.safe = "" // all ran; nothing is to be brought to rest
			}
		}
	}
}

// play has the model run what the runner is to run, in a shadow of the machine.
func (e *errand) play() {
	w := e.w
	for _, f := range e.machine.functions {
		f.gone, f.dma = false, hal.OK
	}
	e.model = newModel(w)
	if e.model.stop(); len(w.frames) > 0 {
		copy(e.model.arena[0], w.frames[0])
	}
	e.shadow = newShadow(e.machine, e.model)
	e.machine.resetBuses()
	e.told = foretold{command: -1, ran: true}
	defer func() {
		for _, f := range e.machine.functions {
			f.gone, f.dma = false, hal.OK
		}
	}()
	if !e.sequence(w.options.Before) {
		return
	}
	stopped := false
	for !stopped && e.told.runs < w.options.Loop {
		for _, t := range e.turns {
			if t.at == int(e.told.runs)+1 {
				stopped = e.foresee(t) || stopped
			}
		}
		if !e.sequence("main") {
			return
		}
		e.told.runs++
		e.told.outputs = append(e.told.outputs, bytes.Clone(e.model.arena[1]))
		e.told.waits = append(e.told.waits, e.model.spent)
	}
	if !e.sequence(w.options.After) {
		return
	}
	if code := e.machine.state(); code != hal.OK {
		e.told.exit, e.told.code, e.told.say = code.ExitStatus(), code, "after the last run"
		e.foretellSafe()
		return
	}
	e.told.wrote = true
}

// foresee has a turn come to the shadow. It tells whether no further run begins.
func (e *errand) foresee(t turn) (stops bool) {
	f := e.machine.functions[t.function]
	switch t.kind {
	case turnGone:
		f.gone = true
	case turnBroken:
		e.shadow.broken[[2]int{f.index, 0}] = true
	case turnDMA:
		if f.dma == hal.OK && e.mastering(f) {
			f.dma = hal.DMAFault
		}
	case turnMasterOff:
		if e.mastering(f) {
			f.dma = hal.MasterOff
		}
	}
	return t.kind == turnStop
}

// mastering tells whether an image lets a function master the bus in a way that
// can be asked for.
func (e *errand) mastering(f *pciFunction) bool {
	for _, w := range e.w.view.Windows {
		if w.Kind == gen.WindowKindHost && int(w.Device) == f.index {
			return true
		}
	}
	return false
}

// sequence runs one, if there is a name. It tells whether all is well.
func (e *errand) sequence(name string) bool {
	if name == "" {
		return true
	}
	index, m := e.w.view.SequenceByName(name), e.model
	m.fresh(index)
	if m.spent, m.end = 0, 0; name == "main" {
		m.end = e.w.options.Deadline
	}
	code := m.sequence(e.shadow.do, index, 0)
	e.w.say("foretold: %s ends with %v at command %d after %d ns", name, code, m.index, m.spent)
	if e.told.ignored = m.ignored; code == hal.OK {
		return true
	}
	e.told.code, e.told.exit, e.told.command, e.told.seen = code, code.ExitStatus(), m.index, m.seen
	sequence := e.within(m.index)
	e.told.say = fmt.Sprintf("%s, command %d", e.w.name(sequence),
		m.index-int(e.w.view.Sequences[sequence].First))
	e.foretellSafe()
	return false
}

// within is the sequence that has a command.
func (e *errand) within(command int) int {
	return slices.IndexFunc(e.w.view.Sequences, func(s fbs.Sequence) bool {
		return command >= int(s.First) && command < int(s.First+s.Count)
	})
}

func (e *errand) foretellSafe() {
	index, m := e.w.view.SequenceByName("safe"), e.model
	if index < 0 {
		return
	}
	m.fresh(index)
	m.spent, m.end = 0, 0
	e.told.safe = m.sequence(e.shadow.do, index, 0).Error()
	e.w.say("foretold: safe ends with %s", e.told.safe)
}

// judge holds what came against what was foretold.
func (e *errand) judge() {
	w, t := e.w, &e.told
	if w.wrong != "" {
		return
	}
	if e.status != t.exit {
		w.violate("status %d, %d is right (%s): %q %q", e.status, t.exit, t.say, w.said[1],
			w.said[2])
		return
	}
	e.judgeReport()
	if !t.ran {
		e.shadow = &shadow{machine: e.machine}
		for _, f := range e.machine.functions {
			if f.wasMaster && t.say != "stays on" &&
				!slices.ContainsFunc(e.mishaps, func(m mishap) bool { return m.at > atLoad }) {
				w.violate("function %d mastered the bus, and nothing ran", f.index)
			}
		}
	}
	if text := e.shadow.differs(); text != "" {
		w.violate("%s", text)
	}
	for _, h := range e.machine.mapped {
		if h.bar < 0 {
			e.machine.left = append(e.machine.left, remainsOf(h))
		}
	}
	if text := e.shadow.hostDiffers(); text != "" {
		w.violate("%s", text)
	}
	e.judgeMachine()
	e.judgeOutputs()
	e.machine.feeds.judge(e)
}

// judgeMachine: at the end no device masters the bus, and nothing is left open or
// mapped of one, but behind a seal.
func (e *errand) judgeMachine() {
	m := e.machine
	for _, f := range m.functions {
		if f.command()&commandMaster != 0 && m.lane != "tt" && !f.gone && f.stuckOn == 0 {
			e.w.violate("function %d masters the bus at the end", f.index)
		}
		if e.told.ran && m.lane != "tt" && e.mastering(f) != f.wasMaster {
			e.w.violate("function %d was let master the bus: %v", f.index, f.wasMaster)
		}
		if f.cleanup != nil || e.told.ran {
			e.judgeCleanup(f)
		}
	}
	if m.filter != nil || !e.told.ran {
		return
	}
	if m.lane != "tt" && len(m.dma) > 0 || len(m.mapped) > 0 {
		e.w.violate("%d ranges of the IOMMU, %d mappings are left", len(m.dma), len(m.mapped))
	}
	for _, f := range m.functions { // all, and at the end all but a high clock (tt-kmd ioctl.h)
		if m.lane == "tt" && !f.gone && !slices.Equal(f.powers, []uint16{0x7fff, 0x7ffe}) {
			e.w.violate("function %d was asked for power %#x", f.index, f.powers)
		}
	}
	for _, path := range m.files {
		// the machine's
		if real, _ := m.path(path); real != path || strings.HasPrefix(path, "vfio:") {
			e.w.violate("%s is left open", path)
		}
	}
	if sealed := e.w.options.Seal; sealed {
		e.w.violate("nothing was sealed")
	}
}

// judgeCleanup: the driver was told of the one tile that the image lets run.
func (e *errand) judgeCleanup(f *pciFunction) {
	boot := e.w.view.SequenceByName("boot")
	if e.machine.lane != "tt" {
		return
	}
	var want ttClean
	if boot >= 0 {
		c := &e.w.view.Commands[e.w.view.Sequences[boot].First]
		if t := c.Mask; int(e.w.view.Windows[c.Window].Device) == f.index {
			want = ttClean{uint8(t), uint8(t >> 8), 0, 0xffb121b0, 0x47800}
		}
	}
	got := ttClean{}
	if f.cleanup != nil {
		got = *f.cleanup
	}
	if e.told.ran && (got.address != want.address || got.data != want.data ||
		(got.address != 0) != (want.address != 0)) {
		e.w.violate("the driver of function %d was told to store %+v at the end, %+v is right",
			f.index, got, want)
	}
}

func (e *errand) judgeReport() {
	w, t := e.w, &e.told
	out, text := w.said[1], string(w.said[1])+string(w.said[2])
	if t.exit != 0 && !strings.Contains(text, t.say) {
		w.violate("status %d with %q, which does not say %q", t.exit, text, t.say)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }) {
		w.violate("%q is not for a terminal", text)
	}
	if !w.options.JSON || len(e.mistakes) > 0 {
		if t.exit == 0 && !strings.Contains(string(out), "lmrun: ") ||
			t.exit != 0 && len(w.said[2]) == 0 && !w.options.JSON {
			w.violate("status %d with %q and %q", t.exit, out, w.said[2])
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
		w.violate("%q is no object: %v", out, err)
		return
	}
	switch {
	case r.Exit != t.exit || r.Image != w.options.Image || r.Sequence != w.options.Sequence:
		w.violate("%s, of an exit with %d", out, t.exit)
	case !t.ran:
	case r.Code != t.code.Error() || r.Runs != t.runs ||
		r.Ignored != uint64(t.ignored) && (t.command >= 0 || t.exit == 0) || r.Safe != t.safe:
		w.violate("%s; %v, %d runs, %d ignored, safe %q are right", out, t.code, t.runs, t.ignored,
			t.safe)
	case t.exit != 0 && t.command >= 0 && (r.Command != t.command ||
		(t.exit == 75 || t.exit == 76) && (seen{r.Got, r.Want, r.Mask, r.Element}) != t.seen):
		w.violate("%s; command %d, %+v are right", out, t.command, t.seen)
	case t.runs > 0 && (r.Least > r.Mean || r.Mean > r.Most || r.Least < slices.Min(t.waits) ||
		r.Most < slices.Max(t.waits)):
		w.violate("%s; runs wait for %d ns", out, t.waits)
	}
}

// judgeOutputs: a file is new or old, a pipe has the results of each good run.
func (e *errand) judgeOutputs() {
	w, t := e.w, &e.told
	if e.pipe >= 0 {
		e.drain()
		if want := bytes.Join(t.outputs, nil); !bytes.Equal(e.piped, want) && len(e.mishaps) == 0 {
			w.violate("%d bytes came out of the pipe, %d are right", len(e.piped), len(want))
		}
		return
	}
	want := []byte("old")
	if e.toFile() && t.wrote {
		want = t.outputs[len(t.outputs)-1]
	}
	got, err := os.ReadFile(w.file("out"))
	if !bytes.Equal(got, want) && (err == nil || t.ran) {
		w.violate("status %d, and the output has %d bytes (%.3q), %d (%.3q) are right", e.status,
			len(got), got, len(want), want)
	}
	if again, err := os.ReadFile(w.file("again")); len(w.options.Outputs) == 2 &&
		len(e.mishaps) == 0 && (err == nil) != t.wrote || err == nil && !bytes.Equal(again, got) {
		w.violate("status %d, and the other output has %d bytes: %v", e.status, len(again), err)
	}
	if status, err := os.Stat(w.file("out")); err == nil && status.Mode().Perm() != 0o640 {
		w.violate("the output is a file of mode %v, the old one was 640", status.Mode())
	}
	entries, _ := os.ReadDir(w.dir)
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".part") {
			w.violate("%s is left", entry.Name())
		}
	}
}

// resetBuses gives the model the address of every window that has one: by none of
// them is anything foretold but that it is stored.
func (m *machine) resetBuses() {
	m.w.buses = make([]uint64, len(m.w.view.Windows))
	for i := range m.w.buses {
		m.w.buses[i] = toldMark | uint64(i)<<16
	}
}
