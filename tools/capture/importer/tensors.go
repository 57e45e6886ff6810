package importer

import (
	"fmt"
	"slices"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/english"
)

// assigner makes copies of the stores to inputs and of the loads from
// outputs. Loads from an input, and from the ranges to ignore, lose their
// value: it follows what the replay is given.
type assigner struct {
	*program
	out     outcome
	ignored int // loads whose value is given up
	split   int // accesses at the edge of a tensor
}

func (a *assigner) run() (outcome, error) {
	if err := a.addTensors(); err != nil {
		return a.out, err
	}
	for _, r := range slices.Concat(a.o.Poll, a.o.Ignore) {
		if err := a.checkPlace(fmt.Sprintf("range 0x%x-0x%x", r.First, r.Last),
			r.Place); err != nil {
			return a.out, err
		}
	}
	if len(a.tensors) == 0 && len(a.o.Ignore) == 0 {
		return a.out, nil
	}
	hosted := hostTensors{program: a.program}
	if err := hosted.begin(); err != nil {
		return a.out, err
	}
	for _, text := range hosted.own {
		a.out.warn(0, "%s", text)
	}
	within, n := a.o.Frame == Part{}, -1
	err := a.steps.rewrite(func(s *step, out *steps) error {
		if s.op == stepCut {
			within = segment(s.to) == segmentFrame
		}
		n++
		if hosted.step(*s, n, within, out) {
			return nil
		}
		if !within {
			out.add(*s)
			return nil
		}
		return a.assign(out, *s)
	})
	if err == nil {
		err = a.checkComplete()
	}
	a.out.did = a.text()
	return a.out, err
}

func (a *assigner) text() string {
	var list clauses
	for i := range a.tensors {
		t := &a.tensors[i]
		thing := "store"
		if t.role == gen.RoleOutput {
			thing = "load"
		}
		list.add(1, "%s %s of %d bytes from %s", t.kind(), t.Name, t.size,
			english.Count(t.uses, thing))
	}
	list.add(a.split, "%s split at the edge of a tensor", english.Count(a.split, "access"))
	list.add(a.ignored, "the value of %s is ignored", english.Count(a.ignored, "load"))
	return strings.Join(list, "; ")
}

// addTensors checks the inputs and outputs that are asked for.
func (a *assigner) addTensors() error {
	for _, s := range a.o.Inputs {
		a.tensors = append(a.tensors, tensor{TensorSpec: s, role: gen.RoleInput})
	}
	for _, s := range a.o.Outputs {
		a.tensors = append(a.tensors, tensor{TensorSpec: s, role: gen.RoleOutput})
	}
	if len(a.tensors) > fbs.TensorsMax {
		return traces.Usage("%d tensors are named; an image may have %d", len(a.tensors),
			fbs.TensorsMax)
	}
	for i := range a.tensors {
		t := &a.tensors[i]
		if err := a.checkSpec(t); err != nil {
			return err
		}
		for j := range i {
			if err := distinct(&a.tensors[j], t, a.o.Bar); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *assigner) checkSpec(t *tensor) error {
	t.size = t.Size()
	t.extent = t.size
	switch {
	case nameReason(t.Name) != "":
		return traces.Usage("%s %q: %s", t.kind(), t.Name, nameReason(t.Name))
	case t.size == 0 || t.size > tensorSizeMax || len(t.Shape) == 0 || len(t.Shape) > fbs.DimsMax ||
		t.last() < t.Address:
		return traces.Usage("%s %s needs an element type and a shape, and at most 4 GiB", t.kind(),
			t.Name)
	case t.Line > 0 && t.role == gen.RoleOutput:
		return traces.Usage("output %s: an output has the data of the last load; leave @%d "+
			"out", t.Name, t.Line)
	}
	if t.Page != 0 {
		return a.checkInterleaved(t)
	}
	return a.checkPlace(t.kind()+" "+t.Name, t.Place)
}

// checkPlace refuses a tile where there are none.
func (p *program) checkPlace(who string, place Place) error {
	tile := strings.TrimSpace(place.String())
	switch {
	case place.Tile && p.board.TLB == nil:
		return traces.Usage("%s has tile %s, but board %s has no tiles; leave X,Y out", who, tile,
			p.board.Name)
	case place.Tile && !p.with("lift"):
		return traces.Usage("%s has tile %s, which only the pass lift finds", who, tile)
	}
	return nil
}

// at returns the address that a step accesses in a place; ok is false where it
// accesses another.
func (p *program) at(s *step, place Place) (address uint64, ok bool) {
	if s.aim >= 0 {
		a := &p.aims[s.aim]
		return a.address + uint64(s.offset), place.Tile && a.has(place.X, place.Y)
	}
	w := &p.windows[s.window]
	if w.Kind == gen.WindowKindHost {
		return p.hosts[w.bar-hostBar].bus + uint64(s.offset), place.Bus
	}
	return w.base + uint64(s.offset), !place.Tile && !place.Bus && w.bar == place.in(p.o.Bar).Bar
}

// assign appends a step to out, or the parts of it that belong to different
// tensors.
func (a *assigner) assign(out *steps, s step) error {
	if s.op != stepStore && s.op != stepLoad {
		a.stored(&s, -1)
		out.add(s)
		return nil
	}
	index, whole, err := a.tensorOf(&s)
	if err != nil {
		return err
	}
	ignored, all := false, true
	if s.op == stepLoad && index < 0 {
		ignored, all = a.inRange(&s, a.o.Ignore)
	}
	switch {
	case (!whole || !all) && s.run() > 1:
		return a.divide(out, s)
	case !whole:
		return a.halve(out, s, &a.tensors[index])
	case index >= 0:
		return a.use(out, s, index)
	case ignored:
		s.op = stepIgnore
		a.ignored += int(s.count)
	}
	a.stored(&s, index)
	out.add(s)
	return nil
}

// divide assigns the halves of a run.
func (a *assigner) divide(out *steps, s step) error {
	n := s.run() / 2
	if err := a.assign(out, a.part(&s, 0, n)); err != nil {
		return err
	}
	return a.assign(out, a.part(&s, n, s.run()))
}

// tensorOf finds the tensor that a step belongs to, -1 if there is none. whole
// is false where some of the step's bytes belong to the tensor and some do not.
func (a *assigner) tensorOf(s *step) (index int, whole bool, err error) {
	if s.op == stepStore {
		return a.tensorWith(s, gen.RoleInput)
	}
	if index, whole, err = a.tensorWith(s, gen.RoleOutput); index >= 0 || err != nil {
		return index, whole, err
	}
	return a.tensorWith(s, gen.RoleInput)
}

func (a *assigner) tensorWith(s *step, role gen.Role) (index int, whole bool, err error) {
	index, whole = -1, true
	other := -1
	for i := range a.tensors {
		t := &a.tensors[i]
		address, inside, ok := a.reach(s, t)
		if t.role != role || !ok {
			continue
		}
		taken, all := t.takes(s, address)
		switch {
		case !taken:
			continue
		case index >= 0 && t.Place == a.tensors[index].Place:
			if t.Line < a.tensors[index].Line {
				continue
			}
			index = i
		default:
			index, other = i, index
		}
		whole = whole && all && inside
	}
	// Tensors in one place do not overlap: this is a store to several tiles.
	if whole && other >= 0 {
		return 0, false, traces.Refuse(int(s.line),
			"this store reaches several tiles, and both input %s and input %s; name only one of "+
				"these inputs",
			a.tensors[other].Name, a.tensors[index].Name)
	}
	return index, whole, nil
}

// inRange reports whether a step accesses one of the ranges, and whether all of
// it does that, or nothing.
func (p *program) inRange(s *step, ranges []Range) (in, all bool) {
	all = true
	for _, r := range ranges {
		address, ok := p.at(s, r.Place)
		if last := address + s.size() - 1; ok && address <= r.Last && last >= r.First {
			in, all, p.matched[r] = true, all &&
				(s.run() == 1 || address >= r.First && last <= r.Last), true
		}
	}
	return in, all
}

// unmatched warns of ranges that met no load.
func (p *program) unmatched(flag string, ranges []Range) (out outcome) {
	for _, r := range ranges {
		if !p.matched[r] {
			out.warn(0, "%s %s0x%x-0x%x has no effect: no load is in this range", flag,
				r.Place, r.First, r.Last)
		}
	}
	return out
}

// halve splits a step at the edge of a tensor, if the device cannot tell.
func (a *assigner) halve(out *steps, s step, t *tensor) error {
	if s.width == 1 || !s.is(memoryStep) || a.rule(&s).Widths&(s.width/2) == 0 {
		return traces.Refuse(int(s.line),
			"an access of %d bytes is only partly in %s %s (%s), and the device accepts no "+
				"narrower access there", s.width,
			t.kind(), t.Name, t.span())
	}
	if s.flags&halfStep == 0 {
		a.split++
	}
	s.flags |= halfStep
	low, high := s, s
	low.width /= 2
	high.width /= 2
	high.offset += uint32(low.width)
	low.value &= fbs.WidthMask(low.width)
	high.value >>= 8 * low.width
	if err := a.assign(out, low); err != nil {
		return err
	}
	return a.assign(out, high)
}

// use appends a step that lies in a tensor, and takes its bytes into the
// tensor.
func (a *assigner) use(out *steps, s step, index int) error {
	t := &a.tensors[index]
	if s.op == stepLoad && t.role == gen.RoleInput {
		s.op = stepIgnore
		a.ignored += int(s.count)
		out.add(s)
		return nil
	}
	if t.data == nil {
		// A tensor larger than what the trace moves cannot be complete; if it
		// is very large, memory is not reserved to say which bytes are missing.
		if t.size > max(sureSizeMax, 8*uint64(a.loads+a.stores)) {
			return traces.Usage("%s %s has %d bytes, more than all accesses of the trace", t.kind(),
				t.Name, t.size)
		}
		t.data, t.have = make([]byte, t.size), make([]bool, t.size)
		if t.Line > 0 {
			t.holds = make([]bool, t.size)
		}
	}
	address, _, _ := a.reach(&s, t)
	offset := address - t.Address
	for i, b := range a.moved(&s) {
		if err := a.take(out, t, s.lineOf(uint32(i)/uint32(s.width)), index, offset+uint64(i),
			b); err != nil {
			return err
		}
	}
	t.uses += int(s.count)
	a.stored(&s, index)
	s.to, s.value = int32(index), offset
	out.add(s)
	return nil
}

// take takes one byte into a tensor. An input is stored again in every pass of
// a workload, but then with the same data, or it is no input of the whole. Of
// an output the last load counts: that is also what a replay gives.
func (a *assigner) take(out *steps, t *tensor, line, index int, offset uint64, value byte) error {
	if !t.have[offset] {
		t.have[offset] = true
	} else if t.data[offset] != value {
		if t.role == gen.RoleInput {
			before := lineBefore(out, index, offset)
			return traces.Refuse(line,
				"byte %d of input %s is stored with other data than in line %d, but an "+
					"input has one value in a run (ADDRESS@LINE selects one of the stores)", offset,
				t.Name, before)
		}
		if !t.changed {
			a.out.warn(line, "output %s is loaded again with other data than in line %d; "+
				"the last data are used",
				t.Name, lineBefore(out, index, offset))
		}
		t.changed = true
	}
	t.data[offset] = value
	return nil
}

// lineBefore finds the last access that used a byte of a tensor.
func lineBefore(list *steps, index int, offset uint64) int {
	for i := list.n - 1; i >= 0; i-- {
		if s := list.at(i); s.tensor() == index && s.value <= offset && offset < s.value+s.size() {
			return s.lineOf(uint32((offset - s.value) / uint64(s.width)))
		}
	}
	return 0
}

// checkComplete refuses a tensor that the trace does not use as a whole.
func (a *assigner) checkComplete() error {
	for i := range a.tensors {
		t := &a.tensors[i]
		switch {
		case t.data == nil:
			return traces.Refuse(0, "%s %s: no byte at %s is %s in this trace%s", t.kind(),
				t.Name, t.span(), t.verb(), a.placesHint(t))
		case slices.Contains(t.have, false):
			return traces.Refuse(0, "%s %s: bytes %s are never %s in this trace", t.kind(),
				t.Name, t.missingRanges(), t.verb())
		}
	}
	return nil
}

// placesHint names where else the trace stores or loads, for those who took
// the wrong tile.
func (p *assigner) placesHint(t *tensor) string {
	want := stepStore
	if t.role == gen.RoleOutput {
		want = stepLoad
	}
	var list []string
	seen := map[string]bool{}
	for i := range p.steps.n {
		s := p.steps.at(i)
		if s.op != want || s.aim < 0 {
			continue
		}
		a := &p.aims[s.aim]
		text := fmt.Sprintf("(%d,%d)", a.x0, a.y0)
		if a.target.Multicast {
			text += fmt.Sprintf("-(%d,%d)", a.x1, a.y1)
		}
		if !seen[text] && len(list) < 16 {
			list = append(list, text)
		}
		seen[text] = true
	}
	if len(list) == 0 {
		return ""
	}
	return "; tiles that are: " + strings.Join(list, " ")
}
