package importer

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"lightmetal/tools/image/english"
)

// propose sets the options for a candidate, and the equivalent flags.
func (f *finder) propose(found *Frames, c *Candidate) {
	p := &found.proposal
	flag := func(name, format string, a ...any) {
		found.Flags = append(found.Flags, fmt.Sprintf("--"+name+" "+format, a...))
	}
	p.Frame = Part{strconv.Itoa(c.Lines[0]), strconv.Itoa(c.Starts[1] - 1)}
	flag("frame", "%s..%s", p.Frame.From, p.Frame.To)
	if c.nextLine != 0 {
		p.Stop = Part{From: strconv.Itoa(c.nextLine)}
		flag("stop", "%s..", p.Stop.From)
	}
	for _, v := range c.Varies {
		switch v.Role {
		case "input":
			p.Inputs = append(p.Inputs, v.spec)
		case "output":
			p.Outputs = append(p.Outputs, v.spec)
		}
		flag(v.Role, "%s=%s,%s,%d", v.Name, v.spec.placeText(), v.DType, v.Shape)
	}
	p.Poll, p.moves, p.hostParts, p.skipped = c.polls, c.plan, c.hostParts, c.skipped
	for _, r := range c.polls {
		flag("poll", "%s0x%x-0x%x", r.Place.flagText(), r.First, r.Last)
	}
	if f.options.DeadlineUs == 0 && c.deadlineUs != 0 {
		p.DeadlineUs = f.longestWait()
		flag("deadline", "%s", time.Duration(p.DeadlineUs)*time.Microsecond)
	}
}

// longestWait returns the longest deadline of a poll in the trace.
func (f *finder) longestWait() (us uint32) {
	for i := range f.steps.count {
		if s := f.steps.at(i); s.op == stepPoll {
			us = max(us, s.durationUs)
		}
	}
	return us
}

// String returns the candidates as a table, the differences in the chosen one, and the equivalent
// flags.
func (f *Frames) String() string {
	var b strings.Builder
	for i := range f.Candidates {
		c := &f.Candidates[i]
		mark := " "
		if i+1 == f.Chosen {
			mark = "*"
		}
		fmt.Fprintf(&b, "repeats %s%d lines %d..%d: %s of %s%s\n", mark, i+1, c.Lines[0],
			c.Lines[1],
			english.Count(len(c.Starts), "repetition"), english.Count(c.Accesses, "command"),
			c.verdict())
	}
	for _, c := range f.Counters {
		fmt.Fprintf(&b, "counts     %s 0x%x, %s from line %d on: %s\n", c.Place, c.Address,
			english.Count(c.Times, "store"), c.Line, c.Values)
	}
	if f.Chosen > 0 {
		f.Candidates[f.Chosen-1].explain(&b)
	}
	if !f.Found {
		fmt.Fprintf(&b, "no frame   %s\n", f.Why)
		b.WriteString("once       if the program does its work only once, " +
			"import without --find-frames; --input and --output name its data\n")
		f.writeHint(&b)
		return b.String()
	}
	if len(f.Candidates[f.Chosen-1].Rings) == 0 { // no flags make rings of what moves
		fmt.Fprintf(&b, "by hand    %s\n", strings.Join(f.Flags, " "))
	}
	return b.String()
}

// writeHint suggests flags for counters.
func (f *Frames) writeHint(b *strings.Builder) {
	if f.Chosen == 0 {
		return
	}
	var flags []string
	for _, v := range f.Candidates[f.Chosen-1].Varies {
		if v.Role == "counter" && v.Size&(v.Size-1) == 0 {
			flags = append(flags, fmt.Sprintf("--input NAME%d=%s%s,uint%d,1", len(flags),
				v.spec.Place.flagText(), v.spec.addressText(), 8*v.Size))
		}
	}
	if len(flags) > 0 {
		fmt.Fprintf(b, "by hand    %s makes inputs of the counters, "+
			"which the replaying program must set in each run; "+
			"or choose another repetition with --candidate\n", strings.Join(flags, " "))
	}
}

func (c *Candidate) verdict() string {
	if len(c.Refused) == 0 {
		return ""
	}
	text := "; not a frame: " + c.Refused[0]
	if n := len(c.Refused) - 1; n > 0 {
		text += fmt.Sprintf(" (and %s)", english.Count(n, "more reason"))
	}
	return text
}

// explain prints the lines of the repetitions of the chosen candidate, and what differs between
// them.
func (c *Candidate) explain(b *strings.Builder) {
	fmt.Fprintf(b, "begins     in lines %s\n", lineList(c.Starts))
	if c.Cut > 0 {
		fmt.Fprintf(b, "cut        the trace ends %s into another repetition, which is left out\n",
			english.Count(c.Cut, "command"))
	}
	for _, again := range c.Again {
		fmt.Fprintf(b, "again      lines %d..%d repeat the same commands; these lines, "+
			"and the lines between the repetitions, are left out\n", again[0], again[1])
	}
	if c.nextLine == 0 {
		b.WriteString("stop       nothing follows the repetitions\n")
	} else {
		fmt.Fprintf(b, "stop       from line %d on\n", c.nextLine)
	}
	for i := range c.Rings {
		fmt.Fprintf(b, "ring       %s\n", &c.Rings[i])
	}
	for i := range c.Varies {
		if i == differencesMax {
			fmt.Fprintf(b, "...        %d more values that differ\n", len(c.Varies)-i)
			break
		}
		c.Varies[i].explain(b)
	}
	for _, n := range c.Notes {
		fmt.Fprintf(b, "note       %s\n", n)
	}
}

// differencesMax is the maximum number of differences that explain prints.
const differencesMax = 24

func (v *Varying) explain(b *strings.Builder) {
	fmt.Fprintf(b, "%-10s %s 0x%x, %s, line %d", v.Role, v.Place, v.Address,
		english.Count(int(v.Size), "byte"), v.Line)
	if v.Name != "" {
		fmt.Fprintf(b, ": %s, %s x %d", v.Name, v.DType, v.Shape)
	}
	if v.Again > 0 {
		fmt.Fprintf(b, " and %s", english.Count(v.Again, "more command"))
	}
	fmt.Fprintf(b, " (%s)\n", v.Why)
}

// lineList returns line numbers as text. Of many, it contains the first ones and the last.
func lineList(lines []int) string {
	var list []string
	for _, n := range lines {
		list = append(list, strconv.Itoa(n))
	}
	if n := len(list); n > 8 {
		list = append(list[:6], "...", list[n-1])
	}
	return strings.Join(list, ", ")
}
