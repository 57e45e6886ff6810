package importer

import (
	"fmt"

	"lightmetal/tools/importer/traces"
)

// expect reports the loads that are left; they are held against what they
// gave when recorded, or, without this pass, carried out and forgotten.
func (p *program) expect() (out outcome, err error) {
	n := 0
	for i := range p.steps.n {
		s := p.steps.at(i)
		if s.op != stepLoad || s.tensor() >= 0 {
			continue
		}
		n += int(s.count)
		if !p.with("expect") {
			s.op = stepIgnore
		}
	}
	switch {
	case n == 0:
	case !p.with("expect"):
		out.did = fmt.Sprintf("off: the value of %s is ignored", traces.Counted(n, "load"))
	default:
		out.did = fmt.Sprintf("%s must give what they gave when recorded", traces.Counted(n, "load"))
	}
	return out, nil
}

// pauseNs is how long a program must do nothing to be taken to wait on purpose.
const pauseNs = 10_000_000

// pauses warns of what a replay does not do: wait where the program slept and
// did not poll.
func (p *program) pauses() (out outcome, err error) {
	n, first := 0, 0
	var a *step // the last access
	for i := range p.steps.n {
		b := p.steps.at(i)
		if !b.touches() {
			continue
		}
		if a != nil && a.time != 0 && b.time-a.last() >= pauseNs && b.op != stepPoll {
			if n++; n == 1 {
				first = int(b.line)
			}
		}
		a = b
	}
	if n > 0 {
		out.warn(first, "the program paused for 10 ms or more before this line, and %s in all: a replay goes on at once "+
			"(put a delay into the listing where the device needs it)", traces.Counted(n, "time"))
	}
	return out, nil
}
