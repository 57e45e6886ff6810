package main

import "fmt"

// match compares a trace with the plan: the trace must have all accesses of the plan, in order and
// with the right kind, width, offset and value, and no others.
//
// If a load did not meet its condition and so ended the run, failed is the command of that load,
// such as "main[3]", and rest is the part of the trace after the load. That part is empty, or is
// the trace of the sequence "safe".
func (p *plan) match(trace []access) (failed string, rest []access, err error) {
	failed, rest, err = p.matchPrefix(trace)
	if failed == "" && err == nil && len(rest) > 0 {
		return "", nil, fmt.Errorf("after the last command, access %d: %v", len(trace)-len(rest),
			rest[0])
	}
	return failed, rest, err
}

// matchPrefix is like match, but the trace may have more accesses after those of the plan. They are
// returned in rest.
func (p *plan) matchPrefix(trace []access) (failed string, rest []access, err error) {
	m := matcher{trace: trace}
	for i := range p.steps {
		s := &p.steps[i]
		ok, err := m.matchStep(s)
		if err != nil {
			return "", nil, fmt.Errorf("%s, access %d: %w", s.command, m.matched, err)
		}
		if !ok && s.endsRun {
			return s.command, trace[m.matched:], nil
		}
	}
	return "", trace[m.matched:], nil
}

// matcher compares the accesses of a trace with steps, one after the other.
type matcher struct {
	trace      []access
	matched    int    // number of accesses that have been matched
	lastLoaded uint64 // value that the last load returned
}

// matchStep matches the accesses of one step, and reports whether the last access met the step's
// condition.
func (m *matcher) matchStep(s *step) (ok bool, err error) {
	if s.width == 0 {
		return true, m.matchBulk(s)
	}
	for {
		if err := m.matchAccess(s); err != nil {
			return false, err
		}
		ok = s.store || s.isMet == nil || s.isMet(m.lastLoaded)
		if ok || !s.isPoll || !m.repeatsLoad(s) {
			return ok, nil
		}
	}
}

// repeatsLoad reports whether the next access is a load with the offset and width of the step.
func (m *matcher) repeatsLoad(s *step) bool {
	if m.matched == len(m.trace) {
		return false
	}
	a := m.trace[m.matched]
	return !a.store && a.offset == s.offset && a.width == s.width
}

// matchAccess matches one access of a step that has a width.
func (m *matcher) matchAccess(s *step) error {
	a, err := m.nextAccess(s)
	if err != nil {
		return err
	}
	if a.offset != s.offset || a.width != s.width {
		return fmt.Errorf("want %d bytes at %#x, have a %v", s.width, s.offset, a)
	}
	return m.checkValue(s, a, 0)
}

// matchBulk matches the accesses of a bulk step: they may have any widths, must have ascending
// offsets, and must cover the range of the step exactly.
func (m *matcher) matchBulk(s *step) error {
	for done := uint64(0); done < s.size; {
		a, err := m.nextAccess(s)
		if err != nil {
			return err
		}
		if a.offset != s.offset+done || uint64(a.width) > s.size-done {
			return fmt.Errorf("want up to %d bytes at %#x, have a %v", s.size-done, s.offset+done,
				a)
		}
		if err := m.checkValue(s, a, done); err != nil {
			return err
		}
		done += uint64(a.width)
	}
	return nil
}

// nextAccess returns the next access of the trace, which must be of the same kind as the step: a
// load or a store.
func (m *matcher) nextAccess(s *step) (access, error) {
	if m.matched == len(m.trace) {
		return access{}, fmt.Errorf("the trace ends here, with the access at %#x missing", s.offset)
	}
	a := m.trace[m.matched]
	if a.store != s.store {
		verb := "load"
		if s.store {
			verb = "store"
		}
		return a, fmt.Errorf("want a %s at %#x, have a %v", verb, s.offset, a)
	}
	m.matched++
	return a, nil
}

// checkValue compares the value of a store with the step's data from the byte offset `done` on. It
// copies the value of a load to the step's output.
func (m *matcher) checkValue(s *step, a access, done uint64) error {
	if !a.store {
		m.lastLoaded = a.value
		if s.output != nil {
			copy(s.output[done:done+uint64(a.width)], littleEndianBytes(a.value))
		}
		return nil
	}
	want := littleEndianValue(s.data[done:done+uint64(a.width)]) | m.lastLoaded&s.keptBits
	if !s.anyValue && a.value != want {
		return fmt.Errorf("want value %#x, have a %v", want, a)
	}
	return nil
}

// applyTo executes the plan on a byte slice. The result is the expected contents of a device that
// consists only of memory, whose accesses QEMU cannot trace. It returns an error if the memory does
// not meet a condition of the plan.
func (p *plan) applyTo(memory []byte) error {
	var lastLoaded uint64
	for i := range p.steps {
		s := &p.steps[i]
		size := s.size
		if s.width != 0 {
			size = uint64(s.width)
		}
		bytes := memory[s.offset : s.offset+size]
		switch {
		case s.anyValue:
			return fmt.Errorf("%s: the value depends on a bus address", s.command)
		case s.store && s.width == 0:
			copy(bytes, s.data)
		case s.store:
			copy(bytes, littleEndianBytes(littleEndianValue(s.data) | lastLoaded&s.keptBits)[:size])
		case s.isMet != nil && !s.isMet(littleEndianValue(bytes)):
			return fmt.Errorf("%s: the condition is not met: the memory has %#x", s.command,
				littleEndianValue(bytes))
		default:
			lastLoaded = littleEndianValue(bytes)
			copy(s.output, bytes)
		}
	}
	return nil
}
