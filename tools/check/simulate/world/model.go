//go:build world

package main

import (
	"bytes"
	"iter"

	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/check/vectors/oracle"
	"lightmetal/tools/check/vectors/vector"
)

// Kinds of accesses. A sleep is not an access, but the time that a Delay command waits. An arrival
// is the time at which the next access of any kind begins.
const (
	load byte = iota + 1
	store
	point
	sleep
	arrival
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

// model computes which accesses the runner must make: the oracle executes the image, and model is
// its machine. Each access of the oracle is the access that is expected next, and has the result of
// the runner's access.
type model struct {
	*oracle.Player
	w     *world
	image *oracle.Image
	next  func() (access, bool)
	stop  func()
	yield func(access) bool
	want  access
	ended bool // the process has ended: the oracle's accesses fail

	last        access   // the last access that was made, or has arrived
	value       uint64   // result of the last access
	code        hal.Code // how the last access ended
	arrivalTime int64    // time at which the runner requested the access
	hasArrived  bool     // an access has arrived that has not been made yet

	deadline int64     // end of the time limit of a run; 0: none
	loads    int       // loads of a poll after the first one
	failure  *hal.Code // failure of the first run that failed; nil: none
	expected failedRun
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

func mismatchOf(r vector.Result) mismatch { return mismatch{r.Got, r.Want, r.Mask, r.Element} }

// progress counts which sequences have run in this process.
type progress struct {
	sequencesBegun      int // sequences of any name
	runs                uint64
	beforeRan, afterRan bool
	safeRuns            int
	stopped             bool // a signal arrived before the last run ended
}

// newModel returns the model of a process. The view has the image that the process has read.
func newModel(w *world) *model {
	const page = 4096
	file := bytes.Clone(w.view.Envelope)
	if len(w.view.Payload) > 0 {
		file = append(file, make([]byte, -len(file)&(page-1))...)
		file = append(file, w.view.Payload...)
	}
	m := &model{w: w, Player: &oracle.Player{}}
	var fault *oracle.Fault
	if m.image, fault = oracle.Verify(file); fault != nil {
		w.errorf("the runner accepts an image that the oracle rejects: %v", fault)
		m.image = &oracle.Image{}
	}
	m.next, m.stop = iter.Pull(m.follow)
	m.want, _ = m.next()
	return m
}

// follow computes the accesses of all sequences, one after the other.
func (m *model) follow(yield func(access) bool) {
	m.yield = yield
	if m.do(access{kind: arrival}); m.ended { // the windows are mapped now
		return
	}
	player, fault := oracle.Load(m.image, m, uint64(m.w.options.MaxSequenceNs/1000))
	if fault != nil {
		m.w.errorf("the runner loads an image that the oracle rejects: %v", fault)
		return
	}
	m.Player = player
	for m.w.hasMarks && m.followSequence() {
	}
	for _, name := range [...]string{"main", "safe"} {
		sequence := m.image.Find(name)
		if m.w.hasMarks || sequence < 0 || name == "safe" && m.failure == nil &&
			m.w.diagnosis() == hal.OK {
			continue
		}
		m.execute(sequence, 0)
	}
}

// followSequence computes the accesses of the sequence that begins with the access that has
// arrived: the first command of each sequence stores its number. It waits until the next sequence
// begins.
func (m *model) followSequence() bool {
	mark := access{kind: store, window: markWindow, offset: markOffset, width: 4,
		value: m.last.value}
	sequence := int(m.last.value) - 1
	if m.last != mark || sequence < 0 || sequence >= len(m.image.Sequences) {
		m.do(mark)
		return false
	}
	m.w.sequenceBegins(sequence)
	limitNs := int64(0)
	if m.w.sequenceName(sequence) == "main" {
		limitNs = m.w.options.DeadlineNs
	}
	m.execute(sequence, limitNs)
	m.do(access{kind: arrival})
	return !m.ended
}

// execute computes the accesses of a run, and records how it must end. limitNs is its time limit;
// 0: none.
func (m *model) execute(sequence int, limitNs int64) {
	if m.deadline = 0; limitNs != 0 {
		m.deadline = m.arrivalTime + limitNs
	}
	result := m.Execute(sequence, limitNs)
	if m.ended {
		return
	}
	code := codeNamed(result.Code)
	if code == hal.BusFault {
		code = m.code
	}
	name := m.w.sequenceName(sequence)
	m.w.logf("sequence %s ends at command %d: %v", name, m.Command, code)
	switch {
	case name == "safe":
		m.expected.safe = code
	case code != hal.OK:
		m.expected = failedRun{code: code, command: result.Command, ignored: result.Ignored,
			mismatch: mismatchOf(result)}
		m.failure = &m.expected.code
	case name == "main":
		m.runs++
		m.w.recordResults()
	}
	m.stopped = stopRequested.Load() != 0
}

// codeNames has the oracle's names of the codes of runs.
var codeNames = map[hal.Code]string{hal.OK: "done", hal.BusFault: "bus-fault",
	hal.DeviceGone: "device-gone", hal.ExpectFailed: "expect-failed",
	hal.DeadlinePassed: "deadline-passed", hal.CompareFailed: "compare-failed",
	hal.FrameLate: "frame-late", hal.DMAFault: "dma-fault", hal.MasterOff: "master-off"}

func codeNamed(name string) hal.Code {
	for code, known := range codeNames {
		if known == name {
			return code
		}
	}
	return hal.Internal
}

// do waits until the runner has made the access a, or until an access arrives. It returns the code
// of the access.
func (m *model) do(a access) hal.Code {
	m.hasArrived = false
	if m.ended = m.ended || !m.yield(a); m.ended {
		return hal.BusFault
	}
	m.hasArrived = a.kind == arrival
	return m.code
}

// current returns the command that is being executed.
func (m *model) current() *oracle.Command { return &m.image.Commands[m.Command] }

// request returns the access of the current command at an offset of its space.
func (m *model) request(kind byte, offset uint64, width uint8, value uint64) access {
	window := m.current().Window
	_, first := m.Place(window)
	return access{kind: kind, window: window, width: width, offset: offset - first, value: value}
}

// Load implements oracle.Machine.
func (m *model) Load(_ vector.Space, offset uint64, width uint8) (value uint64, ok bool) {
	if !m.hasArrived { // not the second or a later load of a poll
		m.loads = 0
	}
	code := m.do(m.request(load, offset, width, 0))
	return m.value, code == hal.OK
}

// Store implements oracle.Machine.
func (m *model) Store(_ vector.Space, offset uint64, width uint8, value uint64) (ok bool) {
	return m.do(m.request(store, offset, width, value)) == hal.OK
}

// LoadBytes implements oracle.Machine.
func (m *model) LoadBytes(_ vector.Space, offset uint64, _ uint8, data []byte) (ok bool) {
	return m.copyBytes(m.request(load, offset, 0, 0), data)
}

// StoreBytes implements oracle.Machine.
func (m *model) StoreBytes(_ vector.Space, offset uint64, _ uint8, data []byte) (ok bool) {
	return m.copyBytes(m.request(store, offset, 0, 0), data)
}

// copyBytes accepts accesses of any order and width, and checks that they cover each byte exactly
// once.
func (m *model) copyBytes(a access, data []byte) (ok bool) {
	a.bulkBytes, a.anyValue = uint32(len(data)), true
	done := make([]bool, len(data))
	for left := len(data); left > 0; left -= int(m.last.width) {
		if code := m.do(a); code != hal.OK {
			return false
		}
		part := data[m.last.offset-a.offset:][:m.last.width]
		if a.kind == load {
			putLittleEndian(part, m.value)
		} else if littleEndian(part) != m.last.value {
			m.w.errorf("bulk copy stored %x, expected %x", m.last.value, part)
		}
		for i := range part {
			if at := int(m.last.offset-a.offset) + i; done[at] {
				m.w.errorf("bulk copy accessed byte %d twice", at)
			} else {
				done[at] = true
			}
		}
	}
	return true
}

// Point implements oracle.Driver.
func (m *model) Point(c *oracle.Command, _ int) (code string, isDone bool) {
	a := access{kind: point, window: c.Window, value: c.Value, mask: c.Mask}
	if m.do(a) != hal.OK {
		return codeNames[hal.BusFault], true
	}
	return codeNames[hal.OK], true
}

// Fence implements oracle.Machine.
func (m *model) Fence() {}

// IsPresent implements oracle.Machine.
func (m *model) IsPresent(device int) bool { return !m.w.devices[device].gone }

// Diagnose implements oracle.Driver.
func (m *model) Diagnose(device int) (code string) {
	return codeNames[m.w.devices[device].diagnosis()]
}

// Now implements oracle.Machine.
func (m *model) Now() int64 {
	if m.hasArrived {
		return m.arrivalTime
	}
	return m.w.now
}

// maxSteadyLoads is more than the number of loads of a poll whose pauses become longer.
const maxSteadyLoads = 2000

// Wait implements oracle.Machine. A Delay may consist of several sleeps. In a poll, it checks the
// time at which the next load begins: no pause is too long or too short.
func (m *model) Wait(nanoseconds int64) {
	before, c := m.w.now, m.current()
	if c.Opcode == uint8(gen.OpcodeDelay) {
		for m.w.now < before+nanoseconds && (m.deadline == 0 || m.w.now <= m.deadline) && !m.ended {
			m.do(access{kind: sleep})
		}
		return
	}
	if m.do(access{kind: arrival}); m.ended {
		return
	}
	pause := m.arrivalTime - before
	isLate := m.deadline != 0 && m.arrivalTime > m.deadline
	m.loads++
	switch {
	case pause > nanoseconds+m.w.clockJump || m.loads > maxSteadyLoads && c.Index == 0:
		m.w.errorf("load %d of a poll came %d ns after the previous load, allowed are %d ns",
			m.loads, pause, nanoseconds)
	case c.Index != 0 && pause < nanoseconds && !isLate:
		m.w.errorf("load %d of a poll came only %d ns after the previous load", m.loads, pause)
	}
	m.w.clockJump = 0
}

// Device implements oracle.Machine.
func (m *model) Device(_ int, needed vector.Device) vector.Device {
	return needed.WithLargeBARs()
}

// BusAddress implements oracle.Machine.
func (m *model) BusAddress(window int) (address uint64, ok bool) {
	return m.w.busAddresses[window], true
}

// checkNext compares an access of the runner with the expected access.
func (m *model) checkNext(a access) {
	m.last = a
	if m.want.kind == arrival {
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
		m.w.errorf("command %d: access %+v, expected %+v", m.Command, a, m.want)
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
