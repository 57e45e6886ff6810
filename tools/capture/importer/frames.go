package importer

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"lightmetal/tools/capture/importer/runs"
	"lightmetal/tools/capture/importer/traces"
)

// Frames is the proposal of FindFrames: the repeated part of a trace becomes the frame, the parts
// before and after it become init and stop, and data that differ between the repetitions become
// inputs and outputs.
type Frames struct {
	Found      bool        `json:"found"`  // false: no frame is possible, for the reason Why
	Why        string      `json:"why"`    // reason why there is no frame
	Chosen     int         `json:"chosen"` // number in Candidates, from 1; 0: there are none
	Candidates []Candidate `json:"candidates"`
	Counters   []Counter   `json:"counters"` // in the whole trace
	Flags      []string    `json:"flags"`    // flags of lm import with the same effect

	proposal Options // options equal to Flags
}

// Candidate is a part of the trace that repeats itself.
type Candidate struct {
	// First line, and last line of the last complete repetition
	Lines    [2]int `json:"lines"`
	Times    int    `json:"times"`    // complete repetitions
	Accesses int    `json:"accesses"` // of one repetition; a loop that waits counts as one
	Starts   []int  `json:"starts"`   // lines at which repetitions begin
	// Accesses of a last repetition that the end of the trace cuts off
	Cut     int       `json:"cut"`
	Again   [][2]int  `json:"again"` // lines of later runs with the same repetition
	Varies  []Varying `json:"varies"`
	Refused []string  `json:"refused"` // reasons why it cannot be a frame; empty: it can
	Notes   []string  `json:"notes"`
	Rings   []Ring    `json:"rings,omitempty"` // what moves from repetition to repetition

	plan      []ringUse
	hostParts []hostPart // what the frame stores to host memory, and what the device writes there
	skipped   []int      // lines of waits that the frame leaves out
	cycle     int        // repetitions after which fields of entries start again; 0: none do

	run              runs.Run
	firstToken       int
	nextLine         int   // line after the last repetition, 0: the trace ends there
	nextToken        int   // token at nextLine
	repetitionTokens []int // first tokens of the repetitions
	counterCycle     int   // repetitions after which counters start again; 0: unknown

	isNegligible bool // too small to be shown
	// In each repetition the program stores to host memory, and in some the device writes there
	usesHostMemory    bool
	hasEndlessCounter bool    // a counter was not seen to start again
	countsInside      bool    // an input has a counter
	polls             []Range // loops that waited in later repetitions, but not in the first
	deadlineUs        uint32  // of the longest wait
}

// hasRole reports whether something that differs between the repetitions has a role.
func (c *Candidate) hasRole(role string) bool {
	return slices.ContainsFunc(c.Varies, func(v Varying) bool { return v.Role == role })
}

func (c *Candidate) addRepetition(f *finder, at int) {
	c.repetitionTokens, c.Starts = append(c.repetitionTokens, at),
		append(c.Starts, f.firstRelatedLine(at))
}

// Varying is a range of memory whose data differ between the repetitions.
type Varying struct {
	Name    string `json:"name"`    // only inputs and outputs
	Role    string `json:"role"`    // input, output, or another one such as counter
	Place   string `json:"place"`   // tile, BAR or host memory
	Address uint64 `json:"address"` // in the place
	Size    uint64 `json:"size"`    // bytes
	Line    int    `json:"line"`    // line of the first access
	DType   string `json:"dtype"`   // only inputs and outputs
	Shape   uint32 `json:"shape"`   // elements
	Why     string `json:"why"`
	Again   int    `json:"again"` // other commands of the repetition to which the same applies

	spec      TensorSpec
	rejection string // reason why it cannot be part of a frame; empty: it can
	isPort    bool   // the place is a data port: too many stores to it differ

	values   [][]byte   // of an input or output, for each repetition
	accesses []accessed // in the first repetition, in its order
}

// finder looks for frames in the steps of a trace.
type finder struct {
	*program
	tokens
	runs    []runs.Run
	options Options
}

// FindFrames finds the repeated part of a trace: the same commands with other data. It proposes
// options that make the sequences init, frame and stop. `which` is the number of the candidate to
// use, from 1; 0 selects the best. FindFrames reads the trace to its end, so an import must read it
// again. The error is an *Error; a trace without a frame is not an error.
func FindFrames(r io.Reader, o Options, which int) (*Frames, error) {
	switch {
	case o.Frame != Part{} || o.Stop != Part{}:
		return nil, traces.UsageError("use either --find-frames or --frame, not both")
	case slices.Contains(o.Without, "fold"):
		return nil,
			traces.UsageError(
				"--find-frames needs the pass fold, because waits of different length " +
					"hide the repetitions; remove --without fold")
	}
	f := finder{options: o}
	o.Inputs, o.Outputs = nil, nil
	l, _, err := readSteps(r, o, true)
	if err != nil {
		return nil, err
	}
	for _, pass := range l.analysisPasses() {
		if _, err := pass.run(); err != nil {
			return nil, err
		}
	}
	f.program = l.program
	f.tokenize()
	f.runs = runs.Find(f.ids)
	return f.choose(which)
}

// Apply adds the proposed options to o.
func (f *Frames) Apply(o *Options) {
	p := &f.proposal
	o.Frame, o.Stop = p.Frame, p.Stop
	o.Inputs = slices.Concat(o.Inputs, p.Inputs)
	o.Outputs = slices.Concat(o.Outputs, p.Outputs)
	o.Poll = slices.Concat(o.Poll, p.Poll)
	o.DeadlineUs = cmp.Or(o.DeadlineUs, p.DeadlineUs)
	o.moves, o.hostParts, o.skipped = p.moves, p.hostParts, p.skipped
}

const (
	examinedMax   = 64 // maximum number of runs that are examined
	candidatesMax = 8  // maximum number of candidates that are shown
)

// choose examines the runs that cover most of the trace, and chooses one.
func (f *finder) choose(which int) (*Frames, error) {
	found := &Frames{Candidates: []Candidate{}, Flags: []string{}, Counters: f.findCounters()}
	for _, r := range f.runsByWeight() {
		if len(found.Candidates) < candidatesMax && f.isNewPeriod(found.Candidates, r) {
			if c := f.examine(r); !c.isNegligible {
				found.Candidates = append(found.Candidates, c)
			}
		}
	}
	if len(found.Candidates) == 0 && which == 0 {
		if why := f.preferRings(found, 0); why != "" {
			found.Why = why
			return found, nil
		}
		if found.Chosen > 0 {
			f.propose(found, &found.Candidates[0])
			found.Found = true
			return found, nil
		}
	}
	if len(found.Candidates) == 0 {
		found.Why = "the trace has no repetition: no part of it occurs twice in a row"
		return found, nil
	}
	found.Chosen = which
	if which == 0 {
		found.Chosen = 1 + bestCandidate(found.Candidates)
	}
	why := f.preferRings(found, which)
	if found.Chosen > len(found.Candidates) {
		return nil, traces.UsageError("--candidate must be 1 to %d, "+
			"the number of candidates that --find-frames found, not %d",
			len(found.Candidates), which)
	}
	c := &found.Candidates[found.Chosen-1]
	if found.Found = len(c.Refused) == 0 && why == ""; !found.Found {
		found.Why = cmp.Or(why, strings.Join(c.Refused[:min(1, len(c.Refused))], ""))
		return found, nil
	}
	f.propose(found, c)
	return found, nil
}

// preferRings adds the repetition with rings to the candidates. It chooses it if it covers more of
// the trace than the chosen candidate, if that candidate is no frame, or if the user describes
// rings. The reason says why a repetition that covers more is no frame.
func (f *finder) preferRings(found *Frames, which int) (reason string) {
	c, reason, lines := f.findRings()
	least := 0
	if found.Chosen > 0 && found.Chosen <= len(found.Candidates) {
		o := &found.Candidates[found.Chosen-1]
		if len(o.Refused) == 0 && len(f.options.Rings) == 0 {
			least = o.Lines[1] - o.Lines[0]
		}
		if o.countsInside && slices.ContainsFunc(o.Varies, func(v Varying) bool {
			return v.Role == "input" && v.spec.Bus
		}) {
			least /= 2 // it may be a queue whose entries and doorbells are inputs
		}
	}
	if c != nil {
		found.Candidates = append(found.Candidates, *c)
	}
	switch {
	case which != 0 || lines <= least:
		return ""
	case c != nil:
		found.Chosen = len(found.Candidates)
	}
	return reason
}

// isNewPeriod reports whether a run differs from the listed candidates. A run that repeats the
// period of a candidate does not.
func (f *finder) isNewPeriod(list []Candidate, r runs.Run) bool {
	return !slices.ContainsFunc(list, func(c Candidate) bool {
		return c.run.Period == r.Period &&
			f.isSamePeriod(c.run, r)
	})
}

// bestCandidate returns the index of the candidate to use if the user does not choose: the first,
// which covers most of the trace. If that cannot be a frame, it is one inside of the first that can
// be a frame, or else one that hands memory to the device, as drivers do, or that has inputs and
// outputs. If the data of the first are the same in each repetition, a candidate outside of it with
// inputs and outputs is better: a program that sets up many tiles may repeat its stores more often
// than its frames.
func bestCandidate(list []Candidate) int {
	outer := &list[0]
	isPossible := func(c *Candidate) bool { return len(c.Refused) == 0 }
	hasInputAndOutput := func(c *Candidate) bool {
		return c.hasRole("input") &&
			c.hasRole("output")
	}
	inside := func(c *Candidate) bool {
		return c.run.Start >= outer.run.Start && c.run.End() <= outer.run.End() &&
			2*c.run.Length*(1+len(c.Again)) >= outer.run.Length
	}
	isOutside := func(c *Candidate) bool {
		return c.run.Start >= outer.run.End() || c.run.End() <= outer.run.Start
	}
	constant := isPossible(outer) && !outer.hasRole("input") && !outer.hasRole("output")
	for _, fits := range []func(c *Candidate) bool{
		func(c *Candidate) bool {
			return constant && isPossible(c) && hasInputAndOutput(c) &&
				isOutside(c)
		},
		func(c *Candidate) bool { return isPossible(c) && inside(c) },
		func(c *Candidate) bool { return isPossible(c) && c.usesHostMemory },
		func(c *Candidate) bool { return isPossible(c) && hasInputAndOutput(c) },
		func(c *Candidate) bool { return c.usesHostMemory },
	} {
		for i := range list {
			if fits(&list[i]) {
				return i
			}
		}
	}
	return 0
}

// commandKindsMax is the number of different commands from which a period gets no more weight.
// Shorter loops of two or three commands often only feed or drain a data port.
const commandKindsMax = 8

// runsByWeight returns the runs that explain most of the trace, in descending order.
func (f *finder) runsByWeight() []runs.Run {
	weight, length, same := map[runs.Run]int{}, map[uint64]int{}, make([]uint64, len(f.runs))
	for i, r := range f.runs {
		same[i] = f.periodHash(r)
		length[same[i]] += r.Length
	}
	for i, r := range f.runs {
		weight[r] = (length[same[i]] + r.Length/2) * f.commandKinds(r)
	}
	list := slices.Clone(f.runs)
	slices.SortStableFunc(list,
		func(a, b runs.Run) int { return cmp.Compare(weight[b], weight[a]) })
	return list[:min(len(list), examinedMax)]
}

// periodHash returns a number that is equal for runs that repeat the same period.
func (f *finder) periodHash(r runs.Run) uint64 {
	list := f.ids[r.Start : r.Start+r.Period]
	least, hash := runs.LeastRotation(list), uint64(r.Period)
	for i := range list {
		hash = hash*0x100000001b3 ^ uint64(list[(least+i)%len(list)])
	}
	return hash
}

// commandKinds returns the number of different commands of a run, at most commandKindsMax.
func (f *finder) commandKinds(r runs.Run) int {
	seen := map[uint32]bool{}
	for _, id := range f.ids[r.Start : r.Start+r.Period] {
		if seen[id] = true; len(seen) == commandKindsMax {
			break
		}
	}
	return len(seen)
}

// examine makes a candidate of a run. It determines where the repetitions begin, what differs
// between them, and why the run cannot be a frame.
func (f *finder) examine(r runs.Run) Candidate {
	c := Candidate{run: r, Times: r.Times(), Accesses: r.Period, Varies: []Varying{},
		Refused: []string{}, Notes: []string{}, Again: [][2]int{}}
	c.firstToken = f.bestStart(r)
	c.usesHostMemory = len(f.hostChangesIn(c.firstToken, r.End(), true)) > 0
	for k := range c.Times {
		at := c.firstToken + k*r.Period
		c.usesHostMemory = c.usesHostMemory && len(f.hostChangesIn(at, at+r.Period, false)) > 0
		c.addRepetition(f, at)
	}
	if c.isNegligible = f.commandKinds(r) == 1 && !c.usesHostMemory; c.isNegligible {
		return c
	}
	end := c.firstToken + c.Times*r.Period
	c.Lines = [2]int{c.Starts[0], f.lastLine(end - 1)}
	if end < len(f.ids) {
		c.nextToken, c.nextLine = end, f.firstRelatedLine(end)
	}
	if r.End() == len(f.ids) && end < len(f.ids) {
		c.Cut, c.nextLine = len(f.ids)-end, 0
	}
	f.addLaterRuns(&c)
	if reason := f.shapeReason(&c); reason != "" {
		c.Refused = append(c.Refused, reason)
		return c
	}
	columns := repetitionDiff{finder: f, candidate: &c}
	columns.compare()
	columns.classify()
	if c.counterCycle > 1 && !c.hasEndlessCounter && 2*c.counterCycle <= c.Times {
		if turn := f.examine(runs.Run{Start: r.Start, Length: r.Length,
			Period: r.Period * c.counterCycle}); len(turn.Refused) == 0 {
			turn.Notes = append(turn.Notes,
				fmt.Sprintf("a frame contains %d repetitions, after which the counters start again",
					c.counterCycle))
			return turn
		}
	}
	return c
}

// bestStart returns the token at which frames should begin. Only tokens that keep the number of
// complete repetitions are candidates. The best one stores after a token that loads; among several,
// the one before which the program paused longest.
func (f *finder) bestStart(r runs.Run) int {
	best, most, pause := r.Start, -1, int64(0)
	for from := r.Start; from <= r.Start+r.Length%r.Period; from++ {
		score, gap, at := f.startScore(from), int64(0), from
		for ; at+r.Period <= r.End(); at += r.Period {
			gap += f.pauseBefore(at)
			if f.startsInsideLine(at) {
				score = -1
			}
		}
		if r.End() < len(f.ids) && f.startsInsideLine(at) {
			score = -1
		}
		if score > most || score == most && gap > pause {
			best, most, pause = from, score, gap
		}
	}
	return best
}

// startScore returns a score from 0 to 2 for a frame that begins at a token.
func (f *finder) startScore(at int) int {
	score := 0
	if f.isStore(at) {
		score++
	}
	if at == 0 || !f.isStore(at-1) {
		score++
	}
	return score
}

// addLaterRuns adds the runs after a candidate that have the same repetition, and notes the earlier
// runs.
func (f *finder) addLaterRuns(c *Candidate) {
	end := c.run.End()
	var more []runs.Run
	for _, r := range f.runs {
		if r.Period == c.run.Period && r.End() <= c.run.Start && f.isSamePeriod(c.run, r) {
			c.Notes = append(c.Notes,
				fmt.Sprintf("lines %d..%d have the same commands, but come before the frame, "+
					"so these lines become a part of the sequence init",
					f.lineOf(r.Start), f.lastLine(r.End()-1)))
		}
		if r.Period == c.run.Period && r.Start >= end && f.isSamePeriod(c.run, r) {
			more = append(more, r)
		}
	}
	slices.SortFunc(more, func(a, b runs.Run) int { return a.Start - b.Start })
	for _, r := range more {
		for at := r.Start + f.periodShift(c.firstToken, r); at+r.Period <= r.End(); at += r.Period {
			c.addRepetition(f, at)
		}
		c.Again = append(c.Again, [2]int{f.lineOf(r.Start), f.lastLine(r.End() - 1)})
		c.nextLine, c.Cut = 0, 0
		if r.End() < len(f.ids) {
			c.nextToken, c.nextLine = r.End(), f.firstRelatedLine(r.End())
		}
	}
}

// isSamePeriod reports whether two runs repeat the same period, possibly rotated.
func (f *finder) isSamePeriod(a, b runs.Run) bool {
	shift := f.periodShift(a.Start, b)
	return slices.Equal(f.ids[a.Start:a.Start+a.Period],
		f.ids[b.Start+shift:b.Start+shift+b.Period])
}

// periodShift returns the offset from the start of r at which the period of r begins in the same
// way as at token `from`.
func (f *finder) periodShift(from int, r runs.Run) int {
	mine, other := f.ids[from:from+r.Period], f.ids[r.Start:r.Start+r.Period]
	return (runs.LeastRotation(other) - runs.LeastRotation(mine) + r.Period) % r.Period
}

// A run that covers less than negligiblePercent of the trace is not shown if it only stores or only
// loads.
const negligiblePercent = 2

// A run with few commands that occurs only twice must cover at least setupPercent of the trace.
const setupPercent = 25

// commandsBetween returns the number of commands between the repetitions that belong to none of
// them.
func (f *finder) commandsBetween(c *Candidate) int {
	last := c.repetitionTokens[len(c.repetitionTokens)-1] + c.run.Period
	return last - c.firstToken - len(c.repetitionTokens)*c.run.Period
}

// shapeReason returns the reason why a run cannot be a frame, without regard to its data, or "".
func (f *finder) shapeReason(c *Candidate) string {
	stores, loads := false, false
	for at := c.firstToken; at < c.firstToken+c.run.Period; at++ {
		stores, loads = stores || f.isStore(at), loads || !f.isStore(at) || c.usesHostMemory
	}
	covers := 100 * c.run.Length / len(f.ids)
	c.isNegligible = covers < negligiblePercent && (!stores || !loads)
	switch {
	case slices.ContainsFunc(c.repetitionTokens, f.startsInsideLine):
		return "a repetition begins inside a line of the trace, " +
			"but lm can cut a trace only between lines"
	case c.nextLine != 0 && f.startsInsideLine(c.nextToken):
		return "the last repetition ends inside a line of the trace, " +
			"but lm can cut a trace only between lines"
	case stores && loads && len(c.repetitionTokens) == 2 && c.run.Period < commandKindsMax &&
		covers < setupPercent:
		return fmt.Sprintf("the repetition occurs only twice, "+
			"with %d commands each (%d %% of the trace), so it is probably a part of the setup",
			c.run.Period, covers)
	case f.commandsBetween(c) > len(c.repetitionTokens)*c.run.Period:
		return fmt.Sprintf("between the repetitions are %d commands, "+
			"more than in the repetitions, and a frame would lack these commands: "+
			"the repetitions are probably a part of the setup",
			f.commandsBetween(c))
	case stores && loads:
	case c.Times < 3 || covers < 50:
		does := "loads and never stores"
		if stores {
			does = "stores and never loads"
		}
		return fmt.Sprintf("the repetition %s (%d %% of the trace), "+
			"so it is probably a data port or a wait", does, covers)
	}
	return ""
}
