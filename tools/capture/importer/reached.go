package importer

// This file finds counters that the recorded program waited for, such as the completion pointer of
// a queue: a replay that is slower than the device finds such a counter beyond the value that the
// program saw. A poll then waits until the counter has reached the value (gen.ConditionReached).

import (
	"fmt"
	"slices"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/english"
)

// counter describes the polls of one register, in the order of the program.
type counter struct {
	loop
	place  string   // as flags name it
	line   int32    // of the first poll
	polls  []int    // numbers of the steps
	values []uint64 // different values that the polls wait for
	rises  bool     // each value is equal to the one before, or later by the counter's width
}

// isLikely reports whether the register is probably a counter. Flags and states rise, too, but have
// few and small values.
func (c *counter) isLikely() bool {
	const stateMax = 0xff
	return c.rises && (len(c.values) > 2 || len(c.values) == 2 && c.values[0] > stateMax)
}

// isCounterMask reports whether mask has some of its lowest bits set, and no other.
func isCounterMask(mask uint64) bool { return mask != 0 && mask&(mask+1) == 0 }

// hasReached reports whether a counter with the value `later` has reached `value`.
func hasReached(later, value, mask uint64) bool {
	return fbs.ConditionMet(&fbs.Command{Mode: uint8(gen.ConditionReached), Mask: mask,
		Value: value}, later)
}

// counters returns the registers that are polled, in the order of their first polls.
func (f *folder) counters() (list []*counter) {
	known := map[loop]*counter{}
	for i := range f.steps.n {
		s := f.steps.at(i)
		if s.op != stepPoll {
			continue
		}
		key := f.loopOf(int32(i))
		c := known[key]
		if c == nil {
			c = &counter{loop: key, place: f.placeOf(s), line: int32(s.line), rises: true}
			known[key] = c
			list = append(list, c)
		}
		mask := f.mask(s)
		c.polls = append(c.polls, i)
		if n := len(c.values); n == 0 || c.values[n-1] != s.value {
			c.rises = c.rises && (n == 0 || hasReached(s.value, c.values[n-1], mask))
			c.values = append(c.values, s.value)
		}
		c.rises = c.rises && isCounterMask(mask)
	}
	return list
}

// placeOf returns the place that a step accesses, as flags have it.
func (p *program) placeOf(s *step) string {
	var place Place
	if s.aim >= 0 {
		a := &p.aims[s.aim]
		place = Place{Tile: true, X: a.x0, Y: a.y0}
	} else if w := &p.windows[s.window]; w.Kind == gen.WindowKindHost {
		place.Bus = true
	} else {
		place = Place{Named: true, Bar: w.bar}
	}
	address, _ := p.at(s, place)
	return fmt.Sprintf("%s0x%x", place.spec(), address)
}

// waitForCounters makes polls wait until a counter has reached the recorded value: the polls of
// Options.Reached, and with Options.Rising those of all registers that are probably counters. It
// reports such registers, if the user has not chosen them.
func (f *folder) waitForCounters(out *outcome) {
	polls, likely := 0, []*counter(nil)
	for _, c := range f.counters() {
		chosen, _ := f.inRange(f.steps.at(c.polls[0]), f.o.Reached)
		switch {
		case chosen || f.o.Rising && c.isLikely():
			f.pollLoads(c)
			polls += f.makeReached(c, out)
		case c.isLikely():
			likely = append(likely, c)
		}
	}
	if polls > 0 {
		if out.did != "" {
			out.did += "; "
		}
		out.did += english.Count(polls, "poll") + " until a counter has reached a value"
	}
	if len(likely) > 0 {
		c := likely[0]
		last := c.values[len(c.values)-1]
		const text = "the polls of %s wait for rising values (0x%x to 0x%x), and may find " +
			"a later one: if these are counters, --reached %s or --reached rising accepts that"
		registers := english.Count(len(likely), "register")
		out.warn(int(c.line), text, registers, c.values[0], last, c.place)
	}
}

// pollLoads makes polls of the single loads of a counter, because they may find a later value, too.
// In host memory, such a load compares what the device wrote after each poll for it.
func (f *folder) pollLoads(c *counter) {
	for i := range f.steps.n {
		if !f.isSingleLoad(i) || f.loopOf(int32(i)) != c.loop {
			continue
		}
		mask, _ := f.listed(f.steps.at(i))
		f.poll(int32(i), f.since(int32(i)), mask)
		f.steps.at(i).count = 1
		c.polls = append(c.polls, i)
	}
}

// makeReached changes the polls of a counter.
func (f *folder) makeReached(c *counter, out *outcome) (polls int) {
	for _, i := range c.polls {
		s := f.steps.at(i)
		if mask := f.mask(s); !isCounterMask(mask) {
			out.warn(int(s.line), "--reached %s: this poll stays as it is, because it compares "+
				"the bits 0x%x; a counter has the lowest bits, such as 0xff", c.place, mask)
			continue
		}
		s.flags |= reachedStep
		polls++
	}
	return polls
}

// SetReached sets Options.Reached and Options.Rising from the values of a flag.
func (o *Options) SetReached(specs []string) error {
	o.Rising = slices.Contains(specs, risingWord)
	for _, spec := range specs {
		if spec == risingWord {
			continue
		}
		ranges, err := ParseRanges(spec)
		if err != nil {
			return err
		}
		o.Reached = append(o.Reached, ranges...)
	}
	return nil
}

// risingWord selects all registers that are probably counters.
const risingWord = "rising"
