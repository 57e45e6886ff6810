package vector

// This file compares what a reader does with the steps of a vector.

import (
	"bytes"
	"fmt"
)

// Machine is the machine of a vector. It answers the accesses of a reader, and compares them with
// the steps of the vector. Its time is virtual.
type Machine struct {
	// SkipsFences: the reader executes fences where Machine cannot see them.
	SkipsFences bool

	vector *Vector
	next   int    // index of the next step
	done   []bool // bytes that the reader has accessed, if the next step has Data
	loads  int    // loads that the reader has made, if the next step is a load that repeats
	now    int64  // nanoseconds
	began  int64  // time at which the run began
	gone   map[int]bool
	err    error // the first difference
}

// NewMachine returns the machine of a vector.
func NewMachine(v *Vector) *Machine { return &Machine{vector: v, gone: map[int]bool{}} }

// Err returns the first difference between the reader and the vector, nil if they agree.
func (m *Machine) Err() error { return m.err }

func (m *Machine) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf("step %d: %s", m.next, fmt.Sprintf(format, args...))
	}
}

// head returns the next step that the reader takes part in.
func (m *Machine) head() *Step {
	for m.next < len(m.vector.Steps) {
		s := &m.vector.Steps[m.next]
		switch {
		case s.Kind == Gone:
			m.gone[s.Index] = true
		case s.Kind == Elapsed:
			if m.now-m.began < int64(s.Value) {
				m.fail("%d ns have passed, at least %d expected", m.now-m.began, s.Value)
			}
		case s.Kind == Fence && m.SkipsFences:
		default:
			return s
		}
		m.skip()
	}
	return &Step{}
}

// skip goes to the next step.
func (m *Machine) skip() { m.next, m.done, m.loads = m.next+1, nil, 0 }

// hasBytesLeft reports whether a step needs accesses to bytes that have not been accessed.
func (m *Machine) hasBytesLeft(s *Step) bool {
	return s.Data != nil && (m.done == nil || bytes.Contains(boolBytes(m.done), []byte{0}))
}

func boolBytes(list []bool) (data []byte) {
	for _, b := range list {
		data = append(data, map[bool]byte{true: 1}[b])
	}
	return data
}

// Load answers a load. ok is false if the load is answered with an error.
func (m *Machine) Load(space Space, offset uint64, width uint8) (value uint64, ok bool) {
	return m.access(Step{Kind: Load, Space: space, Offset: offset, Width: width})
}

// Store answers a store.
func (m *Machine) Store(space Space, offset uint64, width uint8, value uint64) (ok bool) {
	_, ok = m.access(Step{Kind: Store, Space: space, Offset: offset, Width: width, Value: value})
	return ok
}

// access answers a load or a store.
func (m *Machine) access(got Step) (value uint64, ok bool) {
	m.now += m.vector.AccessNs
	for m.err == nil {
		want := m.head()
		if want.Kind == StoreBytes || want.Kind == LoadBytes {
			if value, ok := m.accessBytes(want, &got); ok {
				return value, true
			}
			if !m.hasBytesLeft(want) {
				m.skip()
				continue
			}
		}
		expected := *want
		expected.Until, expected.Fails = 0, false
		if got.Kind == Load {
			expected.Value = 0
		}
		if got.String() != expected.String() {
			m.fail("%v was made, %v expected", got, want)
			break
		}
		if want.Until == 0 {
			m.skip()
			return want.Value, !want.Fails
		}
		if m.now < want.Until {
			m.loads++
			return want.Value, true
		}
		m.skip()
	}
	return 0, true
}

// accessBytes answers an access to bytes of a step with Data. ok is false if the access is not one
// of these.
func (m *Machine) accessBytes(want, got *Step) (value uint64, ok bool) {
	first := got.Offset - want.Offset
	isInside := got.Offset >= want.Offset && first+uint64(got.Width) <= uint64(len(want.Data))
	isStore := got.Kind == Store
	if got.Space != want.Space || !isInside || isStore != (want.Kind == StoreBytes) {
		return 0, false
	}
	if m.done == nil {
		m.done = make([]bool, len(want.Data))
	}
	for i := range uint64(got.Width) {
		m.done[first+i] = true
		value |= uint64(want.Data[first+i]) << (8 * i)
	}
	if isStore && value != got.Value {
		m.fail("%v was made, the value should be %#x", got, value)
	}
	return value, true
}

// LoadBytes answers loads of memory.
func (m *Machine) LoadBytes(space Space, offset uint64, width uint8, data []byte) (ok bool) {
	for i := range data {
		value, ok := m.Load(space, offset+uint64(i), 1)
		if !ok {
			return false
		}
		data[i] = byte(value)
	}
	return true
}

// StoreBytes answers stores of memory.
func (m *Machine) StoreBytes(space Space, offset uint64, width uint8, data []byte) (ok bool) {
	for i := range data {
		if !m.Store(space, offset+uint64(i), 1, uint64(data[i])) {
			return false
		}
	}
	return true
}

// skipBytes skips steps with Data whose bytes have all been accessed.
func (m *Machine) skipBytes() *Step {
	want := m.head()
	for m.done != nil && !m.hasBytesLeft(want) {
		m.skip()
		want = m.head()
	}
	return want
}

// Fence answers a fence. A reader may make more fences than a vector lists.
func (m *Machine) Fence() {
	if m.skipBytes().Kind == Fence {
		m.skip()
	}
}

// IsPresent answers a query. A reader may make more queries than a vector lists.
func (m *Machine) IsPresent(device int) bool {
	want := m.skipBytes()
	if steps := m.vector.Steps[m.next:]; m.loads > 0 && len(steps) > 1 && steps[1].Kind == Query {
		m.skip() // the load that was repeated was the last one
		want = m.head()
	}
	if want.Kind == Query && want.Index == device {
		m.skip()
		m.head() // the device may go away now
	}
	return !m.gone[device]
}

// Now returns the time.
func (m *Machine) Now() int64 { return m.now }

// Wait lets time pass.
func (m *Machine) Wait(nanoseconds int64) {
	if nanoseconds > 0 {
		m.now += nanoseconds + m.vector.LateNs
	}
}

// Device returns the device with an index in the image: `needed`, unless the vector has another.
func (m *Machine) Device(index int, needed Device) Device {
	for _, d := range m.vector.Devices {
		if d.Index == index {
			return d
		}
	}
	return needed
}

// BusAddress returns the bus address of a window.
func (m *Machine) BusAddress(window int) (address uint64, ok bool) {
	for _, w := range m.vector.Windows {
		if w.Index == window {
			return w.Bus, true
		}
	}
	return 0, false
}

// finish skips a load that has been repeated until the run ended, and returns the next step.
func (m *Machine) finish() *Step {
	want := m.skipBytes()
	if m.loads > 0 {
		m.skip()
		want = m.head()
	}
	return want
}

// Next returns the next step that the caller of a reader takes: an input, a run, or the end of the
// use of the image. It goes past this step. It returns nil at the end of the vector.
func (m *Machine) Next() *Step {
	want := m.finish()
	if want.Kind == 0 {
		return nil
	}
	m.skip()
	if want.Kind == Run {
		m.began = m.now
	}
	return want
}

// Ended compares the results of a run with the vector. `output` returns the bytes of a tensor.
func (m *Machine) Ended(results []Step, output func(tensor int) []byte) {
	for _, got := range results {
		if want := m.finish(); m.err == nil && want.String() != got.String() {
			m.fail("%v, %v expected", got, want)
		}
		m.skip()
	}
	for want := m.head(); want.Kind == Output; want = m.head() {
		got := Step{Kind: Output, Index: want.Index, Data: output(want.Index)}
		if want.String() != got.String() {
			m.fail("%v, %v expected", got, want)
		}
		m.skip()
	}
}
