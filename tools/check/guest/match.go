package main

import "fmt"

// match compares a trace with the plan: every access in order, of the right
// kind, width, place and value, and none that the plan does not have. failed
// is the place of the load that had to satisfy a condition, did not, and so
// ended the run; rest is what comes after it, which is the run of `safe` or
// nothing.
func (p *plan) match(trace []access) (failed string, rest []access, err error) {
	failed, rest, err = p.consume(trace)
	if failed == "" && err == nil && len(rest) > 0 {
		return "", nil, fmt.Errorf("after the last command, access %d: %v", len(trace)-len(rest),
			rest[0])
	}
	return failed, rest, err
}

// consume is match of a trace that may go on after the plan.
func (p *plan) consume(trace []access) (failed string, rest []access, err error) {
	t := tracer{trace: trace}
	for i := range p.steps {
		s := &p.steps[i]
		ok, err := t.step(s)
		if err != nil {
			return "", nil, fmt.Errorf("%s, access %d: %w", s.place, t.used, err)
		}
		if !ok && s.fail {
			return s.place, trace[t.used:], nil
		}
	}
	return "", trace[t.used:], nil
}

// tracer walks a trace.
type tracer struct {
	trace []access
	used  int
	last  uint64 // what the last load gave
}

// step consumes the accesses of one step, and tells whether its condition
// holds in the end.
func (t *tracer) step(s *step) (ok bool, err error) {
	if s.width == 0 {
		return true, t.bulk(s)
	}
	for {
		if err := t.one(s); err != nil {
			return false, err
		}
		ok = s.store || s.holds == nil || s.holds(t.last)
		if ok || !s.repeat || !t.again(s) {
			return ok, nil
		}
	}
}

// again tells whether the next access is the same load once more.
func (t *tracer) again(s *step) bool {
	if t.used == len(t.trace) {
		return false
	}
	a := t.trace[t.used]
	return !a.store && a.offset == s.offset && a.width == s.width
}

func (t *tracer) one(s *step) error {
	a, err := t.next(s)
	if err != nil {
		return err
	}
	if a.offset != s.offset || a.width != s.width {
		return fmt.Errorf("want %d bytes at %#x, have a %v", s.width, s.offset, a)
	}
	return t.value(s, a, 0)
}

// bulk consumes accesses of any width that cover the range in ascending order.
func (t *tracer) bulk(s *step) error {
	for done := uint64(0); done < s.size; {
		a, err := t.next(s)
		if err != nil {
			return err
		}
		if a.offset != s.offset+done || uint64(a.width) > s.size-done {
			return fmt.Errorf("want up to %d bytes at %#x, have a %v", s.size-done, s.offset+done,
				a)
		}
		if err := t.value(s, a, done); err != nil {
			return err
		}
		done += uint64(a.width)
	}
	return nil
}

// next takes one access of the step's kind.
func (t *tracer) next(s *step) (access, error) {
	if t.used == len(t.trace) {
		return access{}, fmt.Errorf("the trace ends here, with the access at %#x missing", s.offset)
	}
	a := t.trace[t.used]
	if a.store != s.store {
		verb := "load"
		if s.store {
			verb = "store"
		}
		return a, fmt.Errorf("want a %s at %#x, have a %v", verb, s.offset, a)
	}
	t.used++
	return a, nil
}

// value holds a store's value against the step's data from byte done on, and
// keeps a load's.
func (t *tracer) value(s *step, a access, done uint64) error {
	if !a.store {
		t.last = a.value
		if s.output != nil {
			copy(s.output[done:done+uint64(a.width)], littleEndian(a.value))
		}
		return nil
	}
	want := number(s.data[done:done+uint64(a.width)]) | t.last&s.keep
	if !s.unknown && a.value != want {
		return fmt.Errorf("want value %#x, have a %v", want, a)
	}
	return nil
}

// apply plays the plan on memory: the result a device that is nothing but
// memory must have, where QEMU has no trace. An error is a condition that
// cannot hold there.
func (p *plan) apply(memory []byte) error {
	var last uint64
	for i := range p.steps {
		s := &p.steps[i]
		size := s.size
		if s.width != 0 {
			size = uint64(s.width)
		}
		place := memory[s.offset : s.offset+size]
		switch {
		case s.unknown:
			return fmt.Errorf("%s: the value is not known here", s.place)
		case s.store && s.width == 0:
			copy(place, s.data)
		case s.store:
			copy(place, littleEndian(number(s.data) | last&s.keep)[:size])
		case s.holds != nil && !s.holds(number(place)):
			return fmt.Errorf("%s: the condition does not hold, memory has %#x", s.place,
				number(place))
		default:
			last = number(place)
			copy(s.output, place)
		}
	}
	return nil
}
