package rehearsal

import (
	"fmt"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/image/english"
	"lightmetal/tools/image/lmb"
)

// Report says which checks a run has made, and at which places they did not hold.
type Report struct {
	Checks   int       `json:"checks"`   // that the run made
	Differ   int       `json:"differ"`   // that did not hold
	Findings []Finding `json:"findings"` // in the order of the run
	// The poll at which the run ended, with flags that make it hold; nil: no poll ended the run
	Ended *Finding `json:"ended,omitempty"`
}

// Finding is a place where checks did not hold.
type Finding struct {
	Place  string `json:"place"`
	Checks int    `json:"checks"` // that the run made there
	Differ int    `json:"differ"`
	// Flag of lm import that makes the checks of this place hold: ignore, wait or reached. Empty:
	// no flag names the place.
	Flag  string   `json:"flag"`
	First string   `json:"first"` // the first check that did not hold
	Other []string `json:"other"` // further flags that are possible
}

// Judge compares what a run has loaded with what the source wants. ran is the number of commands of
// the sequence that the run completed, input returns the data of an input, and text describes a
// mismatch.
func (r *Rehearsal) Judge(output []byte, ran int, input func(tensor int) []byte,
	text func(Mismatch) string) *Report {
	report := &Report{Findings: []Finding{}}
	byPlace := map[string]*history{}
	var order []*history
	for i := range r.checks {
		c := &r.checks[i]
		if c.at >= ran {
			break
		}
		command := &r.source.Commands[c.command]
		key := fmt.Sprint(c.place, command.Window, command.Offset, command.Amount)
		h := byPlace[key]
		if h == nil {
			h = &history{first: c}
			byPlace[key], order = h, append(order, h)
		}
		m, holds := c.judge(command, output[c.offset:][:c.size], r.golden(command, input))
		h.add(command, m, holds)
	}
	for _, h := range order {
		report.Checks += h.checks
		report.Differ += h.differ
		if h.differ > 0 {
			flag, other := h.flags()
			report.Findings = append(report.Findings, Finding{h.first.place, h.checks,
				h.differ, flag, text(h.failed), other})
		}
	}
	return report
}

// Err returns an error if a check did not hold.
func (r *Report) Err() error {
	if r.Differ == 0 {
		return nil
	}
	return &hal.Fault{Code: hal.ExpectFailed, Reason: fmt.Sprintf(
		"%d of %s did not hold, at %s; save the lines above in a file, look at them, and use it "+
			"with lm import --rehearsal", r.Differ, english.Count(r.Checks, "check"),
		english.Count(len(r.Findings), "place"))}
}

// EndAt says that the run ended at a command of the source, with this text, if it is a poll.
func (r *Rehearsal) EndAt(report *Report, number int, text string) {
	command := &r.source.Commands[r.commands[number]]
	if command.Opcode != gen.OpcodeExpect || command.Amount == 0 {
		return
	}
	windows := places{r.source, map[uint16]*fbs.Command{}}
	for _, i := range r.commands[:number] {
		windows.follow(&r.source.Commands[i])
	}
	place, _ := windows.of(command, uint64(command.Width))
	report.Ended = &Finding{Place: place, Checks: 1, Differ: 1, First: text}
	if place != "" {
		report.Ended.Other = []string{"ignore", "reached"}
	}
}

// golden returns the bytes that a Compare wants.
func (r *Rehearsal) golden(c *fbs.Command, input func(tensor int) []byte) []byte {
	if c.Opcode != gen.OpcodeCompare {
		return nil
	}
	data := r.source.Payload
	if tensor, ok := lmb.TensorOf(c); ok {
		data = input(tensor)
	}
	return data[c.Value:][:c.Amount]
}

// history is what the checks of one place have seen.
type history struct {
	first  *check
	checks int
	differ int      // checks that did not hold
	failed Mismatch // the first of them
	last   uint64   // loaded by the check before
	moved  bool     // a check that does not hold loaded something else than the check before
	// each check wants at least what the check before it wanted, and its load had reached that
	neverFell bool
	rose      bool // a check wants more than the check before it
	wanted    uint64
}

func (h *history) add(c *fbs.Command, m Mismatch, holds bool) {
	reached := gen.Condition(c.Mode) == gen.ConditionEqual && (m.Got-m.Want)&m.Mask <= m.Mask>>1
	h.neverFell = reached && (h.checks == 0 || h.neverFell && m.Want >= h.wanted)
	h.rose = h.rose || h.checks > 0 && m.Want > h.wanted
	if !holds {
		if h.differ++; h.differ == 1 {
			h.failed = m
		}
		h.moved = h.moved || m.Got != h.last
	}
	h.last, h.wanted = m.Got, m.Want
	h.checks++
}

// flags returns the flag that fits, and others that are possible: "reached" for a counter beyond
// the recorded value, "wait" for a register that has not changed yet.
func (h *history) flags() (flag string, other []string) {
	switch {
	case h.first.place == "":
		return "", nil
	case !h.first.exact:
		return "ignore", nil
	case h.neverFell && h.rose:
		return "reached", []string{"ignore", "wait"}
	case !h.moved:
		return "wait", []string{"ignore"}
	}
	return "ignore", []string{"wait"}
}

// String returns the findings as a file for lm import --rehearsal.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s made, %d did not hold\n", english.Count(r.Checks, "check"), r.Differ)
	for i := range r.Findings {
		f := &r.Findings[i]
		fmt.Fprintf(&b, "# %d of %s; the first: %s\n", f.Differ, english.Count(f.Checks, "check"),
			f.First)
		if f.Flag == "" {
			b.WriteString("# host memory: --ignore bus:FIRST-LAST, with the recorded addresses\n")
			continue
		}
		fmt.Fprintf(&b, "--%s %s\n", f.Flag, f.Place)
		f.writeOther(&b)
	}
	if f := r.Ended; f != nil {
		fmt.Fprintf(&b, "# the run ended at %s\n# what follows it was not rehearsed\n", f.First)
		f.writeOther(&b)
	}
	return b.String()
}

func (f *Finding) writeOther(b *strings.Builder) {
	for _, other := range f.Other {
		fmt.Fprintf(b, "# or --%s %s\n", other, f.Place)
	}
}
