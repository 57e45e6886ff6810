package report

import (
	"fmt"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
)

// failureBanner describes a failed run, at the top of the page.
type failureBanner struct {
	Title   string
	Place   string // where the run failed, such as "main, command 3"
	Link    string // address of the failed command's line on the page; empty: none
	Command string // text of the failed command, in the form of a listing
	Facts   []fact
	Reason  string // the message of lm replay
}

// fact is a name and a value. If Code is true, the page shows the value in the font of code.
type fact struct {
	Name, Value string
	Code        bool
}

// failureBanner describes the failure of a profile's last run.
func (r *Report) failureBanner(p *Profile, listing *pageListing) *failureBanner {
	f := p.Failed
	b := &failureBanner{Title: "The run failed: " + sanitize(f.Code), Reason: sanitize(f.Reason)}
	sequence := sanitize(p.Sequence)
	if command := r.failedCommand(p); command != nil {
		index := int(f.Command)
		name, number := r.commandPosition(index)
		sequence = name
		b.Place = fmt.Sprintf("%s, command %d", name, number)
		b.Link = listing.commandLink(uint32(index))
		b.Command = shortenName(CommandText(r.view, index), listingColumns)
		b.Facts = append(b.Facts, f.comparison(command)...)
	} else {
		b.Place = sequence + ", after its last command"
	}
	for i := range p.Golden {
		if g := &p.Golden[i]; g.Differ > 0 || g.Reason != "" {
			b.Facts = append(b.Facts, fact{Name: "output " + sanitize(g.Output), Value: g.text()})
		}
	}
	run := sequence
	if p.Runs > 1 {
		run += fmt.Sprintf(", run %s", countText(uint64(p.Runs)))
	}
	b.Facts = append(b.Facts, fact{Name: "sequence", Value: run},
		fact{Name: "time until the failure", Value: lmb.TimeText(f.Ns) + p.virtualText()},
		fact{Name: "sequence safe", Value: r.safeText(f)})
	return b
}

func (p *Profile) virtualText() string {
	if p.Virtual {
		return ", virtual"
	}
	return ""
}

// failedCommand returns the command that failed, nil if the run reached its end or if the profile
// names a command that the image does not have.
func (r *Report) failedCommand(p *Profile) *fbs.Command {
	if p == nil || p.Failed == nil {
		return nil
	}
	if index := int(p.Failed.Command); index >= 0 && index < len(r.view.Commands) {
		return &r.view.Commands[index]
	}
	return nil
}

// commandPosition returns the sequence that contains a command, and the number of the command in
// it.
func (r *Report) commandPosition(index int) (sequence string, number int) {
	if index >= len(r.view.Commands) {
		return "", 0 // a profile may name any command
	}
	i, number := lmb.SequenceOf(r.view, index)
	return sanitize(r.view.Name(r.view.Sequences[i].Name)), number
}

// comparison returns what the failed command loaded and wanted. It returns nil if the command
// compares nothing.
func (f *Failure) comparison(c *fbs.Command) (facts []fact) {
	if f.Mask == 0 {
		return nil
	}
	hex := func(n uint64) string { return fmt.Sprintf("0x%x", n) }
	facts = append(facts, fact{"got", hex(f.Got), true})
	equal := c.Opcode == gen.OpcodeCompare || gen.Condition(c.Mode) == gen.ConditionEqual
	switch {
	case equal:
		facts = append(facts, fact{"wanted", hex(f.Want), true})
	case f.Want == 0:
		facts = append(facts, fact{"wanted", "any bit of " + hex(f.Mask) + " set", true})
	case f.Want == f.Mask:
		facts = append(facts, fact{"wanted", "any bit of " + hex(f.Mask) + " clear", true})
	default:
		facts = append(facts, fact{"wanted", "anything but " + hex(f.Want), true})
	}
	if c.Opcode == gen.OpcodeCompare {
		facts = append(facts, fact{"element", countText(f.Element), false})
	} else if !isFullMask(f.Mask, c.Width) {
		facts = append(facts, fact{"mask", hex(f.Mask), true})
	}
	return facts
}

// isFullMask reports whether a mask has all bits of an access of width bytes.
func isFullMask(mask uint64, width uint8) bool {
	return mask == ^uint64(0)>>(64-8*min(max(uint(width), 1), 8))
}

// safeText returns whether the sequence safe ran, and how it ended.
func (r *Report) safeText(f *Failure) string {
	switch {
	case f.Safe != "":
		return "ran: " + sanitize(f.Safe)
	case r.view.SequenceByName("safe") < 0:
		return "the image has no sequence safe"
	}
	return "did not run"
}
