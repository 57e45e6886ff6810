//go:build world

package main

import (
	"bytes"
	"iter"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// Kinds of accesses. A sleep is not an access, but the time that a Delay command waits.
const (
	load byte = iota + 1
	store
	point
	sleep
)

// access is an access to a device, or the access that the model expects next.
type access struct {
	kind      byte
	window    uint16
	width     uint8
	anyValue  bool   // expected with any value
	bulkBytes uint32 // expected: any part, not yet accessed, of so many bytes from offset
	offset    uint64
	value     uint64 // stored, or the address of a point
	mask      uint64 // of a point
}

// model computes which accesses the runner must make, from FORMAT.md 6.2 alone. It receives the
// result of each access and returns the next access that it expects.
type model struct {
	w       *world
	next    func() (access, bool)
	stop    func()
	started bool
	want    access

	last        access   // the last access that was made
	value       uint64   // result of the last access
	code        hal.Code // how the last access ended
	arrivalTime int64    // time at which the runner requested the access

	deadline       int64 // end of the time limit of a run; 0: none
	commandIndex   int   // command that is being executed
	untilClockRead int   // commands until the runner reads the clock
	arena          [][]byte
	reference      *referenceMachine // if not nil, the model runs on it, without the runner
	waitedNs       int64             // time that a run on the reference waits in commands
	ignored        uint32
	mismatch       mismatch  // of a failed Expect or Compare
	failure        *hal.Code // failure of the first run that failed; nil: none
	expected       failedRun
	progress
}

// failedRun is the result that a failed run must report.
type failedRun struct {
	code, safe hal.Code
	command    int
	ignored    uint32
	mismatch   mismatch
}

// mismatch is the value that a failed command found, and the value that it expected.
type mismatch struct{ got, want, mask, element uint64 }

// progress counts which sequences have run in this process.
type progress struct {
	sequencesBegun      int // sequences of any name
	runs                uint64
	beforeRan, afterRan bool
	safeRuns            int
	stopped             bool // a signal arrived before the last run ended
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
	m.next, m.stop = iter.Pull(func(yield func(access) bool) { m.follow(yield) })
	return m
}

// processEnded ends the coroutine of the model when the process ends.
const processEnded = hal.Code(255)

// follow computes the accesses of all sequences, one after the other.
func (m *model) follow(yield func(access) bool) {
	do := func(a access) hal.Code {
		if !yield(a) {
			return processEnded
		}
		return m.code
	}
	for _, name := range [...]string{"main", "safe"} {
		sequence := m.w.view.SequenceByName(name)
		if m.w.hasMarks || sequence < 0 || name == "safe" && m.failure == nil &&
			m.w.diagnosis() == hal.OK {
			continue
		}
		m.beginSequence(sequence)
		if code := m.runSequence(do, sequence, 0); code != processEnded {
			m.endSequence(sequence, code)
		}
	}
	for m.w.hasMarks && m.followSequence(do) {
	}
}

// followSequence waits until the runner begins a sequence, and computes its accesses. The first
// command of each sequence stores its number.
func (m *model) followSequence(do func(access) hal.Code) bool {
	m.deadline = 0
	m.commandIndex = -1
	code := do(access{kind: store, window: markWindow, offset: markOffset, width: 4,
		anyValue: true})
	sequence := int(m.last.value) - 1
	if code == processEnded || sequence < 0 || sequence >= len(m.w.view.Sequences) {
		return false
	}
	m.w.sequenceBegins(sequence)
	if m.w.sequenceName(sequence) == "main" && m.w.options.DeadlineNs != 0 {
		m.deadline = m.arrivalTime + m.w.options.DeadlineNs
	}
	m.beginSequence(sequence)
	if code == hal.OK {
		code = m.runSequence(do, sequence, 1)
	}
	if code != processEnded {
		m.endSequence(sequence, code)
	}
	return code != processEnded
}

func (m *model) beginSequence(sequence int) {
	m.commandIndex, m.ignored, m.mismatch = int(m.w.view.Sequences[sequence].First), 0, mismatch{}
}

func (m *model) endSequence(sequence int, code hal.Code) {
	m.w.logf("sequence %s ends at command %d: %v", m.w.sequenceName(sequence), m.commandIndex, code)
	switch {
	case m.w.sequenceName(sequence) == "safe":
		m.expected.safe = code
	case code != hal.OK:
		m.expected = failedRun{code: code, command: m.commandIndex, ignored: m.ignored,
			mismatch: m.mismatch}
		m.failure = &m.expected.code
	case m.w.sequenceName(sequence) == "main":
		m.runs++
		m.w.recordResults()
	}
	m.stopped = stopRequested.Load() != 0
}

// commandsPerClockRead is the number of commands, including those of called sequences, between two
// reads of the clock.
const commandsPerClockRead = 256

// runSequence executes a sequence from command `from` on. The sequence is not called by another
// one.
func (m *model) runSequence(do func(access) hal.Code, sequence, from int) hal.Code {
	m.untilClockRead = commandsPerClockRead
	code := m.runCommands(do, sequence, from)
	if code == hal.OK && m.isLate() {
		return hal.FrameLate
	}
	return code
}

func (m *model) runCommands(do func(access) hal.Code, sequence, from int) hal.Code {
	s := m.w.view.Sequences[sequence]
	last := int(s.Count) - 1
	for at := 0; at < last; {
		next := min(at+m.untilClockRead, last)
		for n := max(at, from); n < next; n++ {
			m.commandIndex = int(s.First) + n
			if code := m.runCommand(do, &m.w.view.Commands[m.commandIndex]); code != hal.OK {
				return code
			}
		}
		m.commandIndex = int(s.First) + next
		m.untilClockRead -= next - at
		if at = next; m.untilClockRead <= 0 {
			m.untilClockRead = commandsPerClockRead
			if m.isLate() {
				return hal.FrameLate
			}
		}
	}
	m.commandIndex = int(s.First) + last
	return hal.OK
}

// isLate reports whether a run has exceeded its time limit.
func (m *model) isLate() bool {
	if m.reference != nil {
		return m.reference.isLate(m)
	}
	return m.deadline != 0 && m.w.now > m.deadline
}

func (m *model) runCommand(do func(access) hal.Code, c *fbs.Command) hal.Code {
	a := access{kind: store, window: c.Window, width: c.Width, offset: uint64(c.Offset),
		value: c.Value}
	switch c.Opcode {
	case gen.OpcodeWrite:
		return do(a)
	case gen.OpcodeRelocate:
		a.value += m.w.busAddresses[c.Index]
		return do(a)
	case gen.OpcodeModify:
		return m.runModify(do, c, a)
	case gen.OpcodeCopyIn, gen.OpcodeCopyOut:
		return m.runCopy(do, c, a)
	case gen.OpcodeFill:
		return m.runFill(do, c, a)
	case gen.OpcodeExpect:
		return m.applyPolicy(c, m.runExpect(do, c, a))
	case gen.OpcodeCompare:
		return m.applyPolicy(c, m.runCompare(do, c, a))
	case gen.OpcodePoint:
		return do(access{kind: point, window: c.Window, value: c.Value, mask: c.Mask})
	case gen.OpcodeDelay:
		return m.runDelay(do, c)
	case gen.OpcodeCall:
		return m.runCommands(do, int(c.Index), 0)
	case gen.OpcodeFence, gen.OpcodeEnd:
		return hal.OK
	}
	m.w.errorf("command %d with opcode %d was executed", m.commandIndex, c.Opcode)
	return processEnded
}

func (m *model) isDeviceGone(c *fbs.Command) bool {
	device := m.w.view.Windows[c.Window].Device
	if m.reference != nil {
		return m.reference.machine.functions[device].Gone
	}
	return m.w.devices[device].gone
}

// isLoadLost reports whether a load returned all ones because its device is gone.
func (m *model) isLoadLost(c *fbs.Command) bool {
	return m.value == fbs.WidthMask(c.Width) && m.isDeviceGone(c)
}

// runLoad executes a load. It returns DeviceGone if the device is gone.
func (m *model) runLoad(do func(access) hal.Code, c *fbs.Command, a access) hal.Code {
	code := do(a)
	if code == hal.OK && m.isLoadLost(c) {
		code = hal.DeviceGone
	}
	return code
}

func (m *model) runModify(do func(access) hal.Code, c *fbs.Command, a access) hal.Code {
	a.kind = load
	if code := m.runLoad(do, c, a); code != hal.OK {
		return code
	}
	a.kind, a.value = store, c.Value|m.value&^c.Mask
	return do(a)
}

func (m *model) runFill(do func(access) hal.Code, c *fbs.Command, a access) hal.Code {
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

func (m *model) runCompare(do func(access) hal.Code, c *fbs.Command, a access) hal.Code {
	a.kind = load
	for n, data := uint64(0), m.commandData(c); len(data) > 0; n, data = n+1, data[c.Width:] {
		if code := do(a); code != hal.OK {
			return code
		}
		if want := littleEndian(data[:c.Width]); m.value != want {
			m.mismatch = mismatch{m.value, want, fbs.WidthMask(c.Width), n}
			return hal.CompareFailed
		}
		a.offset += uint64(c.Width)
	}
	return hal.OK
}

func (m *model) isConditionMet(c *fbs.Command) bool {
	if gen.Condition(c.Mode) == gen.ConditionReached {
		return (m.value-c.Value)&c.Mask <= c.Mask/2
	}
	return (m.value&c.Mask == c.Value) == (gen.Condition(c.Mode) == gen.ConditionEqual)
}

func (m *model) failExpect(c *fbs.Command, code hal.Code) hal.Code {
	m.mismatch = mismatch{m.value, c.Value, c.Mask, 0}
	return code
}

func (m *model) runExpect(do func(access) hal.Code, c *fbs.Command, a access) hal.Code {
	a.kind = load
	code := m.runLoad(do, c, a)
	switch {
	case code != hal.OK:
		return code
	case m.isConditionMet(c):
		return hal.OK
	case c.Amount == 0:
		return m.failExpect(c, hal.ExpectFailed)
	}
	if m.reference != nil {
		return m.reference.runPoll(m, c)
	}
	return m.runPoll(do, c, a)
}

// checkNext compares an access of the runner with the expected access.
func (m *model) checkNext(a access) {
	if !m.started {
		m.started = true
		m.want, _ = m.next()
	}
	want := m.want
	if want.bulkBytes != 0 && a.offset >= want.offset &&
		a.offset+uint64(a.width) <= want.offset+uint64(want.bulkBytes) {
		want.offset, want.width, want.bulkBytes = a.offset, a.width, 0
	}
	if want.anyValue || a.kind == load {
		want.value, want.anyValue = a.value, false
	}
	if a != want {
		m.w.errorf("command %d: access %+v, expected %+v", m.commandIndex, a, m.want)
	}
}

// finishAccess passes the result of an access to the model, and computes the next expected access.
func (m *model) finishAccess(a access, value uint64, code hal.Code) {
	m.last, m.value, m.code = a, value, code
	m.want, _ = m.next()
}

func littleEndian(data []byte) (value uint64) {
	for i := len(data) - 1; i >= 0; i-- {
		value = value<<8 | uint64(data[i])
	}
	return value
}

func putLittleEndian(data []byte, value uint64) {
	for i := range data {
		data[i] = byte(value >> (8 * i))
	}
}
