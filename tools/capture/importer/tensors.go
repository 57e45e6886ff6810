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

// tensorAssigner turns stores to inputs and loads from outputs into copies. The values of loads
// from an input, and from the ranges to ignore, are not compared, because they depend on the data
// of the replay.
type tensorAssigner struct {
	*program
	result        passResult
	ignoredLoads  int // loads whose values are ignored
	splitAccesses int // accesses that were split at the edge of a tensor
	ignoresOnly   bool
}

func (a *tensorAssigner) run() (passResult, error) {
	if err := a.addTensors(); err != nil {
		return a.result, err
	}
	for _, r := range slices.Concat(a.options.Poll, a.options.Wait, a.options.Ignore,
		a.options.Omit, a.options.AsData) {
		if err := a.checkPlace(fmt.Sprintf("range 0x%x-0x%x", r.First, r.Last),
			r.Place); err != nil {
			return a.result, err
		}
	}
	if len(a.tensors) == 0 && len(a.options.Ignore) == 0 && len(a.options.varying) == 0 {
		return a.result, nil
	}
	hosted := hostTensors{program: a.program}
	if err := hosted.findTensors(); err != nil {
		return a.result, err
	}
	for _, text := range hosted.warnings {
		a.result.addWarning(0, "%s", text)
	}
	within, n := a.options.Frame == Part{}, -1
	err := a.steps.rewrite(func(s *step, out *stepList) error {
		if s.op == stepSequenceStart {
			within = segment(s.operand) == segmentFrame
		}
		n++
		if hosted.replaceStep(*s, n, within, out) {
			return nil
		}
		a.ignoresOnly = !within
		return a.assignStep(out, *s)
	})
	if err == nil {
		err = a.checkComplete()
	}
	a.result.summary = a.tensorSummary()
	return a.result, err
}

func (a *tensorAssigner) tensorSummary() string {
	var list clauses
	for i := range a.tensors {
		t := &a.tensors[i]
		thing := "store"
		if t.role == gen.RoleOutput {
			thing = "load"
		}
		list.addIfAny(1, "%s %s of %d bytes from %s", t.kind(), t.Name, t.size,
			english.Count(t.uses, thing))
	}
	list.addIfAny(a.splitAccesses, "%s split at the edge of a tensor",
		english.Count(a.splitAccesses, "access"))
	list.addIfAny(a.ignoredLoads, "the value of %s is ignored",
		english.Count(a.ignoredLoads, "load"))
	return strings.Join(list, "; ")
}

// addTensors checks the inputs and outputs of the options and adds them.
func (a *tensorAssigner) addTensors() error {
	for _, s := range a.options.Inputs {
		a.tensors = append(a.tensors, tensor{TensorSpec: s, role: gen.RoleInput})
	}
	for _, s := range a.options.Outputs {
		a.tensors = append(a.tensors, tensor{TensorSpec: s, role: gen.RoleOutput})
	}
	if len(a.tensors) > fbs.TensorsMax {
		return traces.UsageError("%d tensors are named, but an image may have at most %d",
			len(a.tensors), fbs.TensorsMax)
	}
	for i := range a.tensors {
		t := &a.tensors[i]
		if err := a.checkSpec(t); err != nil {
			return err
		}
		for j := range i {
			if err := checkDistinct(&a.tensors[j], t, a.options.Bar); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *tensorAssigner) checkSpec(t *tensor) error {
	t.size = t.Size()
	t.extent = t.size
	switch {
	case nameReason(t.Name) != "":
		return traces.UsageError("%s %q: %s", t.kind(), t.Name, nameReason(t.Name))
	case t.size == 0 || t.size > tensorSizeMax || len(t.Shape) == 0 || len(t.Shape) > fbs.DimsMax ||
		t.last() < t.Address:
		return traces.UsageError(
			"%s %s must have an element type, a shape, and at most 4 GiB of data",
			t.kind(), t.Name)
	case t.Line > 0 && t.role == gen.RoleOutput:
		return traces.UsageError("output %s always has the data of the last load; remove @%d",
			t.Name, t.Line)
	}
	if t.isSharded() {
		return a.checkSharded(t)
	}
	if t.Page != 0 {
		return a.checkInterleaved(t)
	}
	return a.checkPlace(t.kind()+" "+t.Name, t.Place)
}

// checkPlace returns an error if the place is a tile, but the board has no tiles or the pass lift
// is off.
func (p *program) checkPlace(who string, place Place) error {
	tile := strings.TrimSpace(place.String())
	switch {
	case place.Tile && p.board.TLB == nil:
		return traces.UsageError("%s has tile %s, but board %s has no tiles; leave X,Y out", who,
			tile,
			p.board.Name)
	case place.Tile && p.homes != nil && p.homes.numbers[int(place.Y)<<8|int(place.X)] == 0:
		return traces.UsageError("%s has tile %s, which is impossible: board %s has no such tile",
			who, tile, p.board.Name)
	case place.Tile && !p.isPassEnabled("lift"):
		return traces.UsageError("%s has tile %s, which needs the pass lift; remove --without lift",
			who, tile)
	}
	return nil
}

// addressIn returns the address that a step accesses. ok is false if it does not access the given
// place.
func (p *program) addressIn(s *step, place Place) (address uint64, ok bool) {
	if s.target >= 0 {
		a := &p.targets[s.target]
		return a.address + uint64(s.offset), place.Tile && (a.containsTile(place.X, place.Y) ||
			p.homes.contains(&a.shown, place.X, place.Y))
	}
	w := &p.windows[s.window]
	if w.Kind == gen.WindowKindHost {
		return p.hostSpaces[w.bar-hostBarBase].bus + uint64(s.offset), place.Bus
	}
	return w.base + uint64(s.offset), !place.Tile && !place.Bus &&
		w.bar == place.withDefaultBar(p.options.Bar).Bar
}

// assignStep appends a step to out, split into parts if these belong to different tensors or to
// ranges of Options.Ignore. Outside the frame, only the ranges count.
func (a *tensorAssigner) assignStep(out *stepList, s step) error {
	if s.op != stepStore && s.op != stepLoad {
		a.updateHolds(&s, -1)
		out.appendStep(s)
		return nil
	}
	index, whole := -1, true
	if !a.ignoresOnly {
		var err error
		if index, whole, err = a.tensorOf(&s); err != nil {
			return err
		}
	}
	ignored, all := false, true
	if s.op == stepLoad && index < 0 {
		if ignored, all = a.isInRanges(&s, a.options.Ignore); !ignored {
			ignored, all = a.varies(&s)
		}
	}
	switch {
	case (!whole || !all) && s.elementCount() > 1:
		return a.assignHalves(out, s)
	case !whole:
		return a.splitAtEdge(out, s, &a.tensors[index])
	case index >= 0:
		return a.useStep(out, s, index)
	case ignored:
		s.op = stepIgnore
		a.ignoredLoads += int(s.count)
	}
	a.updateHolds(&s, index)
	out.appendStep(s)
	return nil
}

// varies reports whether loads of a step have other values in another recording. all is false if
// only some of the loads have.
func (a *tensorAssigner) varies(s *step) (in, all bool) {
	all = true
	for k := range s.count {
		isOne := a.options.varying[s.lineOf(k)]
		in, all = in || isOne, all && isOne
	}
	return in, all || s.elementCount() == 1
}

// assignHalves assigns each half of a run.
func (a *tensorAssigner) assignHalves(out *stepList, s step) error {
	n := s.elementCount() / 2
	if err := a.assignStep(out, a.accessRange(&s, 0, n)); err != nil {
		return err
	}
	return a.assignStep(out, a.accessRange(&s, n, s.elementCount()))
}

// tensorOf returns the index of the tensor that a step belongs to, or -1. whole is false if only
// some of the step's bytes belong to the tensor.
func (a *tensorAssigner) tensorOf(s *step) (index int, whole bool, err error) {
	if s.op == stepStore {
		return a.tensorWithRole(s, gen.RoleInput)
	}
	if index, whole, err = a.tensorWithRole(s, gen.RoleOutput); index >= 0 || err != nil {
		return index, whole, err
	}
	return a.tensorWithRole(s, gen.RoleInput)
}

func (a *tensorAssigner) tensorWithRole(s *step, role gen.Role) (index int, whole bool, err error) {
	index, whole = -1, true
	other := -1
	for i := range a.tensors {
		t := &a.tensors[i]
		address, inside, ok := a.tensorAddress(s, t)
		if t.role != role || !ok {
			continue
		}
		taken, all := t.ownsStep(s, address)
		switch {
		case !taken:
			continue
		case index >= 0 && t.Place == a.tensors[index].Place && t.Cores == a.tensors[index].Cores:
			if t.Line < a.tensors[index].Line {
				continue
			}
			index = i
		default:
			index, other = i, index
		}
		whole = whole && all && inside
	}
	if whole && other >= 0 {
		return 0, false, describeShared(s, &a.tensors[other], &a.tensors[index])
	}
	return index, whole, nil
}

// describeShared is for a step of two tensors. On the same cores they do not overlap
// (checkDistinct), so that the step is a store to several tiles.
func describeShared(s *step, t, other *tensor) error {
	if t.Cores != other.Cores {
		return traces.TraceError(int(s.line), "this access is of both %s %s and %s %s, whose "+
			"cores overlap; name only one of them", t.kind(), t.Name, other.kind(), other.Name)
	}
	return traces.TraceError(int(s.line), "this store to several tiles writes both input %s and "+
		"input %s; name only one of these inputs", t.Name, other.Name)
}

// isInRanges reports whether a step accesses one of the ranges. all is false if only a part of the
// step does.
func (p *program) isInRanges(s *step, ranges []Range) (in, all bool) {
	all = true
	for _, r := range ranges {
		address, ok := p.addressIn(s, r.Place)
		if last := address + s.size() - 1; ok && address <= r.Last && last >= r.First {
			in, all, p.matchedRanges[r] = true, all &&
				(s.elementCount() == 1 || address >= r.First && last <= r.Last), true
		}
	}
	return in, all
}

// warnUnmatched warns about ranges that contain no access.
func (p *program) warnUnmatched(flag, access string, ranges []Range) (out passResult) {
	for _, r := range ranges {
		if !p.matchedRanges[r] && !(r.Bus && flag == "--as-data") { // only --again needs these
			out.addWarning(0, "%s %s0x%x-0x%x has no effect: no %s is in this range", flag,
				r.Place, r.First, r.Last, access)
		}
	}
	return out
}

// splitAtEdge splits a step at the edge of a tensor, unless the device requires its width.
func (a *tensorAssigner) splitAtEdge(out *stepList, s step, t *tensor) error {
	if s.width == 1 || !s.hasFlag(flagMemory) || a.ruleOfStep(&s).Widths&(s.width/2) == 0 {
		return traces.TraceError(int(s.line),
			"an access of %d bytes is only partly in %s %s (%s), "+
				"and the device accepts no narrower access there", s.width,
			t.kind(), t.Name, t.placeSummary())
	}
	if s.flags&flagSplit == 0 {
		a.splitAccesses++
	}
	s.flags |= flagSplit
	low, high := s, s
	low.width /= 2
	high.width /= 2
	high.offset += uint32(low.width)
	low.value &= fbs.WidthMask(low.width)
	high.value >>= 8 * low.width
	if err := a.assignStep(out, low); err != nil {
		return err
	}
	return a.assignStep(out, high)
}

// useStep appends a step that accesses a tensor, and copies its bytes to the tensor's data.
func (a *tensorAssigner) useStep(out *stepList, s step, index int) error {
	t := &a.tensors[index]
	if s.op == stepLoad && t.role == gen.RoleInput {
		s.op = stepIgnore
		a.ignoredLoads += int(s.count)
		out.appendStep(s)
		return nil
	}
	if t.data == nil {
		// A tensor larger than all accesses together cannot be complete. If it is also very large,
		// do not allocate memory only to report which bytes are missing.
		if t.size > max(smallSizeMax, 8*uint64(a.loads+a.stores)) {
			return traces.UsageError(
				"%s %s has %d bytes, more than all accesses of the trace transfer",
				t.kind(), t.Name, t.size)
		}
		t.data, t.accessed = make([]byte, t.size), make([]bool, t.size)
		if t.Line > 0 {
			t.holds = make([]bool, t.size)
		}
	}
	address, _, _ := a.tensorAddress(&s, t)
	offset := address - t.Address
	for i, b := range a.dataOf(&s) {
		if err := a.takeByte(out, t, s.lineOf(uint32(i)/uint32(s.width)), index, offset+uint64(i),
			b); err != nil {
			return err
		}
	}
	t.uses += int(s.count)
	a.updateHolds(&s, index)
	s.operand, s.value = int32(index), offset
	out.appendStep(s)
	return nil
}

// takeByte records one byte of a tensor. A program may store an input several times, but only with
// the same data. Of an output, the last load counts, as in a replay.
func (a *tensorAssigner) takeByte(out *stepList, t *tensor, line, index int, offset uint64,
	value byte) error {
	if !t.accessed[offset] {
		t.accessed[offset] = true
	} else if t.data[offset] != value {
		if t.role == gen.RoleInput {
			before := lineBefore(out, index, offset)
			return traces.TraceError(line,
				"this line and line %d store different values to byte %d of input %s, "+
					"but an input has only one value in each run; "+
					"choose one of the stores with --input %s=ADDRESS@LINE", before, offset,
				t.Name, t.Name)
		}
		if !t.changed {
			a.result.addWarning(line, "output %s is loaded again with other data than in line %d; "+
				"the last data are used",
				t.Name, lineBefore(out, index, offset))
		}
		t.changed = true
	}
	t.data[offset] = value
	return nil
}

// lineBefore returns the line of the last access that used a byte of a tensor.
func lineBefore(list *stepList, index int, offset uint64) int {
	for i := list.count - 1; i >= 0; i-- {
		if s := list.at(i); s.tensorIndex() == index && s.value <= offset &&
			offset < s.value+s.size() {
			return s.lineOf(uint32((offset - s.value) / uint64(s.width)))
		}
	}
	return 0
}

// checkComplete returns an error if the trace does not access all bytes of a tensor.
func (a *tensorAssigner) checkComplete() error {
	for i := range a.tensors {
		t := &a.tensors[i]
		switch {
		case t.data == nil:
			return traces.TraceError(0, "%s %s: no byte at %s is %s in this trace%s", t.kind(),
				t.Name, t.placeSummary(), t.verb(), a.nearHint(t))
		case slices.Contains(t.accessed, false):
			return traces.TraceError(0, "%s %s: bytes %s are never %s in this trace", t.kind(),
				t.Name, t.missingRanges(), t.verb())
		}
	}
	return nil
}

// placesHint lists the tiles that the trace accesses, in case the user named the wrong tile.
func (p *tensorAssigner) placesHint(t *tensor) string {
	want, verb := stepStore, "stores to"
	if t.role == gen.RoleOutput {
		want, verb = stepLoad, "loads from"
	}
	var list []string
	seen := map[string]bool{}
	for i := range p.steps.count {
		s := p.steps.at(i)
		if s.op != want || s.target < 0 {
			continue
		}
		a := &p.targets[s.target]
		text := fmt.Sprintf("(%d,%d)", a.x0, a.y0)
		if a.route.Multicast {
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
	return "; the trace " + verb + " tiles " + strings.Join(list, " ")
}
