package importer

// A program may wait for a counter, such as the completion pointer of a queue. A replay that is
// slower than the device finds the counter beyond the value that the program saw. So a poll waits
// until the counter has reached the value (gen.ConditionReached).

import (
	"fmt"
	"slices"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/english"
)

// polledRegister describes the polls of one register, in the order of the program.
type polledRegister struct {
	loadKey
	place     string   // register, in the form that flags accept
	line      int32    // of the first poll
	pollSteps []int    // indexes of the steps
	values    []uint64 // values that the polls wait for, without repetitions in a row
	rises     bool     // each value is equal to the one before, or later by the counter's width
}

// isLikelyCounter reports whether the register is probably a counter. Flags and states rise, too,
// but have few and small values.
func (c *polledRegister) isLikelyCounter() bool {
	const stateMax = 0xff
	return c.rises && (len(c.values) > 2 || len(c.values) == 2 && c.values[0] > stateMax)
}

// isCounterMask reports whether mask has some of its lowest bits set, and no other.
func isCounterMask(mask uint64) bool { return mask != 0 && mask&(mask+1) == 0 }

func hasReached(later, value, mask uint64) bool {
	return fbs.ConditionMet(&fbs.Command{Mode: uint8(gen.ConditionReached), Mask: mask,
		Value: value}, later)
}

// polledRegisters returns the registers that are polled, in the order of their first polls.
func (f *pollDetector) polledRegisters() (list []*polledRegister) {
	known := map[loadKey]*polledRegister{}
	for i := range f.steps.count {
		s := f.steps.at(i)
		if s.op != stepPoll {
			continue
		}
		key := f.loadKeyOf(int32(i))
		c := known[key]
		if c == nil {
			c = &polledRegister{loadKey: key, place: f.placeText(s), line: int32(s.line),
				rises: true}
			known[key] = c
			list = append(list, c)
		}
		mask := f.maskOf(s)
		c.pollSteps = append(c.pollSteps, i)
		if n := len(c.values); n == 0 || c.values[n-1] != s.value {
			c.rises = c.rises && (n == 0 || hasReached(s.value, c.values[n-1], mask))
			c.values = append(c.values, s.value)
		}
		c.rises = c.rises && isCounterMask(mask)
	}
	return list
}

// placeText returns the register that a step accesses, in the form that flags accept.
func (p *program) placeText(s *step) string {
	var place Place
	if s.target >= 0 {
		a := &p.targets[s.target]
		place = Place{Tile: true, X: a.x0, Y: a.y0}
	} else if w := &p.windows[s.window]; w.Kind == gen.WindowKindHost {
		place.Bus = true
	} else {
		place = Place{HasBar: true, Bar: w.bar}
	}
	address, _ := p.addressIn(s, place)
	return fmt.Sprintf("%s0x%x", place.flagText(), address)
}

// waitForCounters makes polls wait until a counter has reached the recorded value: the polls of
// Options.CounterRanges, and with Options.DetectCounters those of all registers that are probably
// counters. It reports such registers, if the user has not chosen them.
func (f *pollDetector) waitForCounters(out *passResult) {
	polls, likely := 0, []*polledRegister(nil)
	for _, c := range f.polledRegisters() {
		chosen, _ := f.isInRanges(f.steps.at(c.pollSteps[0]), f.options.CounterRanges)
		switch {
		case chosen || f.options.DetectCounters && c.isLikelyCounter():
			f.pollLoads(c)
			polls += f.waitUntilReached(c, out)
		case c.isLikelyCounter():
			likely = append(likely, c)
		}
	}
	if polls > 0 {
		if out.summary != "" {
			out.summary += "; "
		}
		out.summary += english.Count(polls, "poll") + " wait until a counter has reached a value"
	}
	if len(likely) > 0 {
		c := likely[0]
		last := c.values[len(c.values)-1]
		const text = "the polls of %s wait for rising values (0x%x to 0x%x), and fail " +
			"if the value is already higher; if these are counters, use --reached %s or " +
			"--reached rising"
		registers := english.Count(len(likely), "register")
		out.addWarning(int(c.line), text, registers, c.values[0], last, c.place)
	}
}

// pollLoads makes polls of the single loads of a counter, because they may find a later value, too.
// In host memory, such a load compares what the device wrote after each poll for it.
func (f *pollDetector) pollLoads(c *polledRegister) {
	for i := range f.steps.count {
		if !f.isSingleLoad(i) || f.loadKeyOf(int32(i)) != c.loadKey {
			continue
		}
		mask, _ := f.listedMask(f.steps.at(i))
		f.makePoll(int32(i), f.loopStart(int32(i)), mask)
		f.steps.at(i).count = 1
		c.pollSteps = append(c.pollSteps, i)
	}
}

// waitUntilReached makes the polls of a counter wait until it has reached the value.
func (f *pollDetector) waitUntilReached(c *polledRegister, out *passResult) (polls int) {
	for _, i := range c.pollSteps {
		s := f.steps.at(i)
		if mask := f.maskOf(s); !isCounterMask(mask) {
			out.addWarning(int(s.line), "--reached %s: this poll stays as it is, "+
				"because its mask 0x%x does not have the form 2^n - 1, such as 0xff", c.place, mask)
			continue
		}
		s.flags |= flagCounter
		polls++
	}
	return polls
}

// SetReached sets Options.CounterRanges and Options.DetectCounters from the values of a flag.
func (o *Options) SetReached(specs []string) error {
	o.DetectCounters = slices.Contains(specs, risingWord)
	for _, spec := range specs {
		if spec == risingWord {
			continue
		}
		ranges, err := ParseRanges(spec)
		if err != nil {
			return err
		}
		o.CounterRanges = append(o.CounterRanges, ranges...)
	}
	return nil
}

// risingWord selects all registers that are probably counters.
const risingWord = "rising"
