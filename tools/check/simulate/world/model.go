//go:build world

package main

import (
	"bytes"
	"iter"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// What an access does. A nap is no access: time that a Delay lets pass.
const (
	load byte = iota + 1
	store
	point
	nap
)

// access is one step of a device, or what is wanted next of one.
type access struct {
	kind   byte
	window uint16
	width  uint8
	any    bool   // wanted: with whatever value
	bulk   uint32 // wanted: a part, not made yet, of so many bytes from offset on
	offset uint64
	value  uint64 // stored, or the address of a point
	mask   uint64 // of a point
}

// model says what a life of the runner does to its devices, by FORMAT.md 6.2 and
// nothing else: it is told each answer, and gives the next access that is wanted.
type model struct {
	w      *world
	next   func() (access, bool)
	stop   func()
	primed bool
	want   access

	did     access   // the last access as it was made
	got     uint64   // what it gave
	code    hal.Code // how it ended
	arrived int64    // when it was asked for

	end     int64 // a run is late then; 0: never
	index   int   // of the command that is carried out
	due     int   // commands until the clock is read
	arena   [][]byte
	still   *shadow // not nil: memory that nothing moves by itself, in no time
	spent   int64   // nanoseconds of a run on it, but for what is too little to tell
	ignored uint32
	seen    seen      // of a failed check or comparison
	failed  *hal.Code // of a run, nil: none has
	result  runResult
	story
}

// runResult is what a failed run is to say.
type runResult struct {
	code, safe hal.Code
	command    int
	ignored    uint32
	seen       seen
}

type seen struct{ got, want, mask, element uint64 }

// story is which sequences ran in this life.
type story struct {
	begun         int // runs of any kind
	runs          uint64
	before, after bool
	safe          int
	stopped       bool // a signal came before the last run was over
}

func newModel(w *world) *model {
	m := &model{w: w}
	for i := range w.view.Tensors {
		m.arena = append(m.arena, bytes.Clone(w.view.TensorData(&w.view.Tensors[i])))
		if m.arena[i] == nil {
			m.arena[i] = make([]byte, w.view.Tensors[i].Size)
		}
		if w.view.Tensors[i].Role == gen.RoleOutput {
			clear(m.arena[i])
		}
	}
	m.next, m.stop = iter.Pull(func(yield func(access) bool) { m.live(yield) })
	return m
}

// gone ends the coroutine when its life does.
const gone = hal.Code(255)

// live follows sequence after sequence.
func (m *model) live(yield func(access) bool) {
	do := func(a access) hal.Code {
		if !yield(a) {
			return gone
		}
		return m.code
	}
	for _, name := range [...]string{"main", "safe"} {
		sequence := m.w.view.SequenceByName(name)
		if m.w.marked || sequence < 0 || name == "safe" && m.failed == nil &&
			m.w.state() == hal.OK {
			continue
		}
		m.fresh(sequence)
		if code := m.sequence(do, sequence, 0); code != gone {
			m.ended(sequence, code)
		}
	}
	for m.w.marked && m.run(do) {
	}
}

// run waits for a sequence, each of which begins with a store of its number, and
// follows it.
func (m *model) run(do func(access) hal.Code) bool {
	m.end = 0
	m.index = -1
	code := do(access{kind: store, window: markWindow, offset: markOffset, width: 4, any: true})
	sequence := int(m.did.value) - 1
	if code == gone || sequence < 0 || sequence >= len(m.w.view.Sequences) {
		return false
	}
	m.w.begins(sequence)
	if m.w.name(sequence) == "main" && m.w.options.Deadline != 0 {
		m.end = m.arrived + m.w.options.Deadline
	}
	m.fresh(sequence)
	if code == hal.OK {
		code = m.sequence(do, sequence, 1)
	}
	if code != gone {
		m.ended(sequence, code)
	}
	return code != gone
}

func (m *model) fresh(sequence int) {
	m.index, m.ignored, m.seen = int(m.w.view.Sequences[sequence].First), 0, seen{}
}

func (m *model) ended(sequence int, code hal.Code) {
	m.w.say("%s ends at command %d: %v", m.w.name(sequence), m.index, code)
	switch {
	case m.w.name(sequence) == "safe":
		m.result.safe = code
	case code != hal.OK:
		m.result = runResult{code: code, command: m.index, ignored: m.ignored, seen: m.seen}
		m.failed = &m.result.code
	case m.w.name(sequence) == "main":
		m.runs++
		m.w.completed()
	}
	m.stopped = stopRequested.Load() != 0
}

// limitEvery is how many commands run between two reads of the clock, those of called
// sequences among them.
const limitEvery = 256

// sequence runs one that nothing calls, from a command on.
func (m *model) sequence(do func(access) hal.Code, sequence, from int) hal.Code {
	m.due = limitEvery
	code := m.execute(do, sequence, from)
	if code == hal.OK && m.late() {
		return hal.FrameLate
	}
	return code
}

func (m *model) execute(do func(access) hal.Code, sequence, from int) hal.Code {
	s := m.w.view.Sequences[sequence]
	last := int(s.Count) - 1
	for at := 0; at < last; {
		next := min(at+m.due, last)
		for n := max(at, from); n < next; n++ {
			m.index = int(s.First) + n
			if code := m.command(do, &m.w.view.Commands[m.index]); code != hal.OK {
				return code
			}
		}
		m.index = int(s.First) + next
		m.due -= next - at
		if at = next; m.due <= 0 {
			m.due = limitEvery
			if m.late() {
				return hal.FrameLate
			}
		}
	}
	m.index = int(s.First) + last
	return hal.OK
}

// late tells whether a run takes longer than its limit.
func (m *model) late() bool {
	if m.still != nil {
		return m.still.late(m)
	}
	return m.end != 0 && m.w.now > m.end
}

func (m *model) command(do func(access) hal.Code, c *fbs.Command) hal.Code {
	a := access{kind: store, window: c.Window, width: c.Width, offset: uint64(c.Offset),
		value: c.Value}
	switch c.Opcode {
	case gen.OpcodeWrite:
		return do(a)
	case gen.OpcodeRelocate:
		a.value += m.w.buses[c.Index]
		return do(a)
	case gen.OpcodeModify:
		return m.change(do, c, a)
	case gen.OpcodeCopyIn, gen.OpcodeCopyOut:
		return m.copy(do, c, a)
	case gen.OpcodeFill:
		return m.fill(do, c, a)
	case gen.OpcodeExpect:
		return m.settle(c, m.check(do, c, a))
	case gen.OpcodeCompare:
		return m.settle(c, m.compare(do, c, a))
	case gen.OpcodePoint:
		return do(access{kind: point, window: c.Window, value: c.Value, mask: c.Mask})
	case gen.OpcodeDelay:
		return m.delay(do, c)
	case gen.OpcodeCall:
		return m.execute(do, int(c.Index), 0)
	case gen.OpcodeFence, gen.OpcodeEnd:
		return hal.OK
	}
	m.w.violate("command %d with opcode %d is carried out", m.index, c.Opcode)
	return gone
}

func (m *model) dead(c *fbs.Command) bool {
	device := m.w.view.Windows[c.Window].Device
	if m.still != nil {
		return m.still.machine.functions[device].gone
	}
	return m.w.devices[device].gone
}

// lost tells whether an access gave all ones, of a device that is gone.
func (m *model) lost(c *fbs.Command) bool { return m.got == fbs.WidthMask(c.Width) && m.dead(c) }

// load carries out a load, which tells of a device that is gone.
func (m *model) load(do func(access) hal.Code, c *fbs.Command, a access) hal.Code {
	code := do(a)
	if code == hal.OK && m.lost(c) {
		code = hal.DeviceGone
	}
	return code
}

func (m *model) change(do func(access) hal.Code, c *fbs.Command, a access) hal.Code {
	a.kind = load
	if code := m.load(do, c, a); code != hal.OK {
		return code
	}
	a.kind, a.value = store, c.Value|m.got&^c.Mask
	return do(a)
}

func (m *model) fill(do func(access) hal.Code, c *fbs.Command, a access) hal.Code {
	for n := uint32(0); n < c.Amount; n += uint32(c.Width) {
		if code := do(a); code != hal.OK {
			return code
		}
		if gen.Access(c.Mode) == gen.AccessExact {
			a.offset += uint64(c.Width)
		}
	}
	return hal.OK
}

func (m *model) compare(do func(access) hal.Code, c *fbs.Command, a access) hal.Code {
	a.kind = load
	for n, data := uint64(0), m.memory(c); len(data) > 0; n, data = n+1, data[c.Width:] {
		if code := do(a); code != hal.OK {
			return code
		}
		if want := get(data[:c.Width]); m.got != want {
			m.seen = seen{m.got, want, fbs.WidthMask(c.Width), n}
			return hal.CompareFailed
		}
		a.offset += uint64(c.Width)
	}
	return hal.OK
}

func (m *model) holds(c *fbs.Command) bool {
	if gen.Condition(c.Mode) == gen.ConditionReached {
		return (m.got-c.Value)&c.Mask <= c.Mask/2
	}
	return (m.got&c.Mask == c.Value) == (gen.Condition(c.Mode) == gen.ConditionEqual)
}

func (m *model) saw(c *fbs.Command, code hal.Code) hal.Code {
	m.seen = seen{m.got, c.Value, c.Mask, 0}
	return code
}

func (m *model) check(do func(access) hal.Code, c *fbs.Command, a access) hal.Code {
	a.kind = load
	code := m.load(do, c, a)
	switch {
	case code != hal.OK:
		return code
	case m.holds(c):
		return hal.OK
	case c.Amount == 0:
		return m.saw(c, hal.ExpectFailed)
	}
	if m.still != nil {
		return m.still.wait(m, c)
	}
	return m.wait(do, c, a)
}

// expect holds an access against what is wanted.
func (m *model) expect(a access) {
	if !m.primed {
		m.primed = true
		m.want, _ = m.next()
	}
	want := m.want
	if want.bulk != 0 && a.offset >= want.offset &&
		a.offset+uint64(a.width) <= want.offset+uint64(want.bulk) {
		want.offset, want.width, want.bulk = a.offset, a.width, 0
	}
	if want.any || a.kind == load {
		want.value, want.any = a.value, false
	}
	if a != want {
		m.w.violate("command %d: %+v is made, %+v is wanted", m.index, a, m.want)
	}
}

// answer tells how the access ended, and learns what is wanted next.
func (m *model) answer(a access, value uint64, code hal.Code) {
	m.did, m.got, m.code = a, value, code
	m.want, _ = m.next()
}

func get(data []byte) (value uint64) {
	for i := len(data) - 1; i >= 0; i-- {
		value = value<<8 | uint64(data[i])
	}
	return value
}

func put(data []byte, value uint64) {
	for i := range data {
		data[i] = byte(value >> (8 * i))
	}
}
