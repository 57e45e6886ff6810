package importer

import (
	"fmt"

	"lightmetal/tools/importer/traces"
)

func (d *dropper) run() (out outcome, err error) {
	if !d.with("drop") {
		return out, nil
	}
	d.pending, d.current = make([]int, len(d.windows)), make([]step, len(d.windows))
	for i := range d.pending {
		d.pending[i] = -1
	}
	for i := range d.steps.n {
		d.step(i)
	}
	for _, i := range d.pending {
		d.remove(i)
	}
	d.sweep()
	if all := d.points + d.early; all > 0 {
		out.did = fmt.Sprintf("%d of %s change nothing", d.dropped+d.early, traces.Counted(all, "point"))
	}
	return out, nil
}

// dropper takes out the points of a window that no access follows, and those that
// leave it where it is.
type dropper struct {
	*program
	early           int    // points that were never made, as they would change nothing
	pending         []int  // of each window: the point that no access has followed yet, -1: none
	current         []step // of each window: the point that it has, op stepNone: none
	points, dropped int
}

func (d *dropper) remove(i int) {
	if i >= 0 {
		d.steps.at(i).op = stepNone
		d.dropped++
	}
}

func (d *dropper) step(i int) {
	s := d.steps.at(i)
	w := s.window
	switch {
	case s.op == stepCut:
		for w := range d.pending {
			d.remove(d.pending[w])
			d.pending[w], d.current[w] = -1, step{}
		}
	case s.op == stepPoint:
		d.points++
		d.remove(d.pending[w])
		d.pending[w] = i
	case s.touches() && d.pending[w] >= 0:
		now, before := d.steps.at(d.pending[w]), &d.current[w]
		if before.op == stepPoint && before.at == now.at && before.mask == now.mask {
			d.remove(d.pending[w])
		} else {
			*before = *now
		}
		d.pending[w] = -1
	}
}
