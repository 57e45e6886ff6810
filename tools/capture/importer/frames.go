package importer

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"lightmetal/tools/capture/importer/runs"
	"lightmetal/tools/capture/importer/traces"
)

// Frames is what FindFrames proposes: the repeated part of a trace as a frame,
// what comes before and after it as init and stop, and what differs between
// the repetitions as inputs and outputs.
type Frames struct {
	Found      bool        `json:"found"`  // false: no frame can be made; Why says it
	Why        string      `json:"why"`    // why it is none
	Chosen     int         `json:"chosen"` // number in Candidates, from 1; 0: there are none
	Candidates []Candidate `json:"candidates"`
	Counters   []Counter   `json:"counters"` // in the whole trace
	Flags      []string    `json:"flags"`    // of lm import, that do the same by hand

	proposal Options // what Flags say
}

// Candidate is a stretch of the trace that repeats itself.
type Candidate struct {
	// the first of it, and the last of the last whole repetition
	Lines    [2]int `json:"lines"`
	Times    int    `json:"times"`    // whole repetitions
	Accesses int    `json:"accesses"` // of one of them; a loop that waits is one
	Starts   []int  `json:"starts"`   // lines at which repetitions begin
	// accesses of another one that the end of the trace cuts off
	Cut     int       `json:"cut"`
	Again   [][2]int  `json:"again"` // lines at which the same comes again later
	Varies  []Varying `json:"varies"`
	Refused []string  `json:"refused"` // why no frame can be made of it; none: it can
	Notes   []string  `json:"notes"`

	run    runs.Run
	from   int   // token
	next   int   // line after the last repetition, 0: the trace ends there
	behind int   // token of next
	reps   []int // tokens that repetitions begin with
	cycle  int   // repetitions after which what counts begins again, 0: not seen

	slight     bool    // not worth to be shown
	hands      bool    // the program stores to host memory in each repetition, the device in some
	endless    bool    // something counts and was not seen to begin again
	polls      []Range // that wait where the first repetition had not to
	deadlineUs uint32  // of the longest wait
}

// has reports whether something with a role differs between the repetitions.
func (c *Candidate) has(role string) bool {
	return slices.ContainsFunc(c.Varies, func(v Varying) bool { return v.Role == role })
}

// begin adds a repetition.
func (c *Candidate) begin(f *finder, at int) {
	c.reps, c.Starts = append(c.reps, at), append(c.Starts, f.lead(at))
}

// Varying is something that differs between repetitions.
type Varying struct {
	Name    string `json:"name"`    // of an input or output
	Role    string `json:"role"`    // input, output, or what else it is
	Place   string `json:"place"`   // the tile, the BAR or the host memory
	Address uint64 `json:"address"` // in it
	Size    uint64 `json:"size"`    // bytes
	Line    int    `json:"line"`    // of the first access
	DType   string `json:"dtype"`   // of an input or output
	Shape   uint32 `json:"shape"`   // elements
	Why     string `json:"why"`
	Again   int    `json:"again"` // more commands of the repetition of which the same is true

	spec TensorSpec
	bad  string // why no frame can have it; empty: it can
	fed  bool   // more stores to the place differ than are told apart by lines

	values   [][]byte   // of an input or output, in each repetition
	accesses []accessed // of the first repetition, in its order
}

// finder looks for frames in the steps of a trace.
type finder struct {
	*program
	tokens
	runs []runs.Run
	o    Options
}

// FindFrames finds the repeated part of a trace, by the same commands with
// other data, and proposes options that make init, frame and stop of it. The
// trace is read to its end and has to be read again to be imported. which is
// the candidate to take, from 1; 0 is the best. The error is an *Error; that
// there is no frame is none.
func FindFrames(r io.Reader, o Options, which int) (*Frames, error) {
	switch {
	case o.Frame != Part{} || o.Stop != Part{}:
		return nil, traces.Usage("use either --find-frames or --frame, not both")
	case slices.Contains(o.Without, "fold"):
		return nil,
			traces.Usage("--find-frames needs the pass fold, because it finds frames by " +
				"their waits")
	}
	f := finder{o: o}
	o.Inputs, o.Outputs = nil, nil
	l, _, err := lifted(r, o, true)
	if err != nil {
		return nil, err
	}
	for _, pass := range l.meaning() {
		if _, err := pass.run(); err != nil {
			return nil, err
		}
	}
	f.program = l.program
	f.tokenize()
	f.runs = runs.Find(f.ids)
	return f.choose(which)
}

// Apply has an import make of a trace what was found in it.
func (f *Frames) Apply(o *Options) {
	p := &f.proposal
	o.Frame, o.Stop = p.Frame, p.Stop
	o.Inputs = slices.Concat(o.Inputs, p.Inputs)
	o.Outputs = slices.Concat(o.Outputs, p.Outputs)
	o.Poll = slices.Concat(o.Poll, p.Poll)
	o.DeadlineUs = cmp.Or(o.DeadlineUs, p.DeadlineUs)
}

const (
	looksMax      = 64 // runs that are looked at, the most covering ones first
	candidatesMax = 8  // that are shown
)

// choose looks at the runs that cover most and takes one.
func (f *finder) choose(which int) (*Frames, error) {
	found := &Frames{Candidates: []Candidate{}, Flags: []string{}, Counters: f.counters()}
	for _, r := range f.heaviest() {
		if len(found.Candidates) < candidatesMax && f.differs(found.Candidates, r) {
			if c := f.look(r); !c.slight {
				found.Candidates = append(found.Candidates, c)
			}
		}
	}
	if len(found.Candidates) == 0 {
		found.Why = "the trace has no repetition: no part of it occurs twice in a row"
		return found, nil
	}
	found.Chosen = which
	if which == 0 {
		found.Chosen = 1 + best(found.Candidates)
	}
	if found.Chosen > len(found.Candidates) {
		return nil, traces.Usage("there is no --candidate %d: --find-frames found only "+
			"%d", which, len(found.Candidates))
	}
	c := &found.Candidates[found.Chosen-1]
	if found.Found = len(c.Refused) == 0; !found.Found {
		found.Why = c.Refused[0]
		return found, nil
	}
	f.propose(found, c)
	return found, nil
}

// differs reports whether a run is another than those that are listed: not the
// same period once more, nor part of a shorter one.
func (f *finder) differs(list []Candidate, r runs.Run) bool {
	return !slices.ContainsFunc(list, func(c Candidate) bool {
		return c.run.Period == r.Period &&
			f.again(c.run, r)
	})
}

// best returns the index of the candidate to use if the user does not choose one: the candidate
// that covers most of the trace. If that cannot be a frame, best returns one inside of it that can,
// or else one that hands memory to the device, as drivers do, or that has inputs and outputs. If
// the data of the chosen one are the same in each repetition, best prefers another one that has
// inputs and outputs: a program that sets up many tiles may repeat its stores more often than its
// frames.
func best(list []Candidate) int {
	outer := &list[0]
	can := func(c *Candidate) bool { return len(c.Refused) == 0 }
	moves := func(c *Candidate) bool { return c.has("input") && c.has("output") }
	inside := func(c *Candidate) bool {
		return c.run.Start >= outer.run.Start && c.run.End() <= outer.run.End() &&
			2*c.run.Length*(1+len(c.Again)) >= outer.run.Length
	}
	beside := func(c *Candidate) bool {
		return c.run.Start >= outer.run.End() || c.run.End() <= outer.run.Start
	}
	constant := can(outer) && !outer.has("input") && !outer.has("output")
	for _, fits := range []func(c *Candidate) bool{
		func(c *Candidate) bool { return constant && can(c) && moves(c) && beside(c) },
		func(c *Candidate) bool { return can(c) && inside(c) },
		func(c *Candidate) bool { return can(c) && c.hands },
		func(c *Candidate) bool { return can(c) && moves(c) },
		func(c *Candidate) bool { return c.hands },
	} {
		for i := range list {
			if fits(&list[i]) {
				return i
			}
		}
	}
	return 0
}

// commandsAlike is how many different commands make a period worth no less than
// a longer one. A loop of two or three more often feeds or drains a port.
const commandsAlike = 8

// heaviest returns the runs that explain most of the trace, the best first.
func (f *finder) heaviest() []runs.Run {
	weight, length, same := map[runs.Run]int{}, map[uint64]int{}, make([]uint64, len(f.runs))
	for i, r := range f.runs {
		same[i] = f.same(r)
		length[same[i]] += r.Length
	}
	for i, r := range f.runs {
		weight[r] = (length[same[i]] + r.Length/2) * f.kinds(r)
	}
	list := slices.Clone(f.runs)
	slices.SortStableFunc(list,
		func(a, b runs.Run) int { return cmp.Compare(weight[b], weight[a]) })
	return list[:min(len(list), looksMax)]
}

// same is a number that runs have in common which repeat the same period.
func (f *finder) same(r runs.Run) uint64 {
	list := f.ids[r.Start : r.Start+r.Period]
	least, hash := runs.Least(list), uint64(r.Period)
	for i := range list {
		hash = hash*0x100000001b3 ^ uint64(list[(least+i)%len(list)])
	}
	return hash
}

// kinds is how many different commands a run has, as far as that counts.
func (f *finder) kinds(r runs.Run) int {
	seen := map[uint32]bool{}
	for _, id := range f.ids[r.Start : r.Start+r.Period] {
		if seen[id] = true; len(seen) == commandsAlike {
			break
		}
	}
	return len(seen)
}

// look makes a candidate of a run: where its repetitions begin, what differs,
// and what stands against it.
func (f *finder) look(r runs.Run) Candidate {
	c := Candidate{run: r, Times: r.Times(), Accesses: r.Period, Varies: []Varying{},
		Refused: []string{}, Notes: []string{}, Again: [][2]int{}}
	c.from = f.rotation(r)
	c.hands = len(f.actsOf(c.from, r.End(), true)) > 0
	for k := range c.Times {
		at := c.from + k*r.Period
		c.hands = c.hands && len(f.actsOf(at, at+r.Period, false)) > 0
		c.begin(f, at)
	}
	if c.slight = f.kinds(r) == 1 && !c.hands; c.slight {
		return c
	}
	end := c.from + c.Times*r.Period
	c.Lines = [2]int{c.Starts[0], f.lastLine(end - 1)}
	if end < len(f.ids) {
		c.behind, c.next = end, f.lead(end)
	}
	if r.End() == len(f.ids) && end < len(f.ids) {
		c.Cut, c.next = len(f.ids)-end, 0
	}
	f.later(&c)
	if reason := f.shape(&c); reason != "" {
		c.Refused = append(c.Refused, reason)
		return c
	}
	columns := columns{finder: f, c: &c}
	columns.compare()
	columns.settle()
	if c.cycle > 1 && !c.endless && 2*c.cycle <= c.Times {
		if turn := f.look(runs.Run{Start: r.Start, Length: r.Length,
			Period: r.Period * c.cycle}); len(turn.Refused) == 0 {
			turn.Notes = append(turn.Notes,
				fmt.Sprintf("a frame is %d repetitions, after which the counters start again",
					c.cycle))
			return turn
		}
	}
	return c
}

// rotation is the token that a frame begins with: of those that leave as many
// whole repetitions, one that stores after one that looks, and of these the
// one that the program took most time before.
func (f *finder) rotation(r runs.Run) int {
	best, most, pause := r.Start, -1, int64(0)
	for from := r.Start; from <= r.Start+r.Length%r.Period; from++ {
		score, gap, at := f.begins(from), int64(0), from
		for ; at+r.Period <= r.End(); at += r.Period {
			gap += f.gap(at)
			if f.splits(at) {
				score = -1
			}
		}
		if r.End() < len(f.ids) && f.splits(at) {
			score = -1
		}
		if score > most || score == most && gap > pause {
			best, most, pause = from, score, gap
		}
	}
	return best
}

// begins says how well a frame begins with a token.
func (f *finder) begins(at int) int {
	score := 0
	if f.stores(at) {
		score++
	}
	if at == 0 || !f.stores(at-1) {
		score++
	}
	return score
}

// later finds the runs after a candidate that are more of the same.
func (f *finder) later(c *Candidate) {
	end := c.run.End()
	var more []runs.Run
	for _, r := range f.runs {
		if r.Period == c.run.Period && r.End() <= c.run.Start && f.again(c.run, r) {
			c.Notes = append(c.Notes,
				fmt.Sprintf("lines %d..%d have the same commands, earlier; they stay in init",
					f.lineOf(r.Start), f.lastLine(r.End()-1)))
		}
		if r.Period == c.run.Period && r.Start >= end && f.again(c.run, r) {
			more = append(more, r)
		}
	}
	slices.SortFunc(more, func(a, b runs.Run) int { return a.Start - b.Start })
	for _, r := range more {
		for at := r.Start + f.shift(c.from, r); at+r.Period <= r.End(); at += r.Period {
			c.begin(f, at)
		}
		c.Again = append(c.Again, [2]int{f.lineOf(r.Start), f.lastLine(r.End() - 1)})
		c.next, c.Cut = 0, 0
		if r.End() < len(f.ids) {
			c.behind, c.next = r.End(), f.lead(r.End())
		}
	}
}

// again reports whether a run repeats the same period, from any of its places on.
func (f *finder) again(a, b runs.Run) bool {
	shift := f.shift(a.Start, b)
	return slices.Equal(f.ids[a.Start:a.Start+a.Period],
		f.ids[b.Start+shift:b.Start+shift+b.Period])
}

// shift is how far after its start a run has the period that begins with a
// token, if it has it.
func (f *finder) shift(from int, r runs.Run) int {
	mine, other := f.ids[from:from+r.Period], f.ids[r.Start:r.Start+r.Period]
	return (runs.Least(other) - runs.Least(mine) + r.Period) % r.Period
}

// slightPercent of the trace are not worth a word where they only store, or
// only load.
const slightPercent = 2

// stepPercent of the trace are not worth a frame that has few commands and comes
// only twice.
const stepPercent = 25

// between is how many commands lie between the repetitions and are in none.
func (f *finder) between(c *Candidate) int {
	last := c.reps[len(c.reps)-1] + c.run.Period
	return last - c.from - len(c.reps)*c.run.Period
}

// shape says why a run can be no frame, whatever its data is.
func (f *finder) shape(c *Candidate) string {
	stores, looks := false, false
	for at := c.from; at < c.from+c.run.Period; at++ {
		stores, looks = stores || f.stores(at), looks || !f.stores(at) || c.hands
	}
	covers := 100 * c.run.Length / len(f.ids)
	c.slight = covers < slightPercent && (!stores || !looks)
	switch {
	case slices.ContainsFunc(c.reps, f.splits):
		return "a repetition begins within a line of the trace, which cannot be cut there"
	case c.next != 0 && f.splits(c.behind):
		return "the last repetition ends within a line of the trace, which cannot be cut there"
	case stores && looks && len(c.reps) == 2 && c.run.Period < commandsAlike &&
		covers < stepPercent:
		return fmt.Sprintf("it occurs only twice, with %d commands each, and is %d %% of "+
			"the trace: more likely a part of the setup", c.run.Period, covers)
	case f.between(c) > len(c.reps)*c.run.Period:
		return fmt.Sprintf("between the repetitions are %d commands, more than in them, which a "+
			"frame would leave out: more likely a part of the setup",
			f.between(c))
	case stores && looks:
	case c.Times < 3 || covers < 50:
		does := "loads and never stores"
		if stores {
			does = "stores and never loads"
		}
		return fmt.Sprintf("it %s, and is %d %% of the trace: more likely a data port, "+
			"or a wait", does, covers)
	}
	return ""
}
