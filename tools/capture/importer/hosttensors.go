package importer

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/capture/record"
	"lightmetal/tools/image/english"
)

// hostTensors makes copies for inputs and outputs in host memory. A trace contains only the changes
// of host memory, so the image copies whole tensors: an input at the first store of the frame to
// it, or at the start of the frame; an output at the frame's last load of bytes that the device
// wrote.
type hostTensors struct {
	*program
	// For the index of an input: the bytes that it has, and the first step whose stores count
	taken      map[int][]bool
	firstSteps map[int]int
	// For the index of a step that polls an output: the previous value, until which the image waits
	ownWaits      map[int]uint64
	indexes       []int         // indexes of the tensors in host memory
	copiesAt      map[int][]int // for the index of a step: tensors that are copied there
	hasFrameEnded bool          // the frame has ended
	warnings      []string      // warnings about outputs that the program itself stored
}

// findTensors finds the tensors in host memory, and the steps at which they are copied.
func (h *hostTensors) findTensors() error {
	h.taken, h.firstSteps = map[int][]bool{}, map[int]int{}
	for i := range h.tensors {
		t := &h.tensors[i]
		if !t.Bus {
			continue
		}
		m := slices.IndexFunc(h.hostSpaces, func(m hostSpace) bool {
			return t.Address >= m.bus && t.Address-m.bus < m.size &&
				t.size <= m.size-(t.Address-m.bus)
		})
		if m < 0 {
			return traces.UsageError("%s %s: the recording has no host memory at %s", t.kind(),
				t.Name,
				t.placeSummary())
		}
		t.host, t.Address = m, t.Address-h.hostSpaces[m].bus
		t.data = make([]byte, t.size)
		for _, s := range h.hostSpaces[m].initialStores {
			t.copyStore(s)
		}
		h.indexes, h.taken[i] = append(h.indexes, i), make([]bool, t.size)
		if t.Line > 0 && !h.hostSpaces[m].exact {
			return traces.UsageError("input %s: @%d with bus: needs a recording of lm record",
				t.Name, t.Line)
		}
	}
	h.copiesAt, h.ownWaits = map[int][]int{}, map[int]uint64{}
	for _, i := range h.indexes {
		n, found := h.copyStep(&h.tensors[i])
		if !found && h.tensors[i].role == gen.RoleOutput {
			return traces.TraceError(0, "output %s: the recording shows no write by the device "+
				"to this output%s",
				h.tensors[i].Name, h.storedInsteadText(&h.tensors[i]))
		}
		if found {
			h.firstSteps[i] = n
		}
		if err := h.checkStores(&h.tensors[i], found); err != nil {
			return err
		}
		if err := h.findOwnWaits(&h.tensors[i], n); err != nil {
			return err
		}
		if h.tensors[i].role == gen.RoleOutput {
			if own := len(h.lastStored(&h.tensors[i], n+1)); own > 0 {
				h.warnings = append(h.warnings,
					fmt.Sprintf("output %s: the program, not the device, stored %s of this "+
						"output last, so the image contains these bytes; "+
						"if the device wrote these bytes, record again with %s",
						h.tensors[i].Name, english.Count(own, "byte"), recordFlagsHint))
			}
		}
		h.copiesAt[n] = append(h.copiesAt[n], i)
	}
	return nil
}

// storedInsteadText returns a note for an error if the program stored to an output that the device
// does not write. Recordings that cannot distinguish the two attribute the results to the program.
func (h *hostTensors) storedInsteadText(t *tensor) string {
	if n := len(h.lastStored(t, h.steps.count)); n > 0 {
		return fmt.Sprintf("; the recording shows that the program stored %s there; "+
			"if the device wrote these bytes, record again with %s",
			english.Count(n, "byte"), recordFlagsHint)
	}
	return ""
}

// lastStored returns the offsets of the bytes of an output that, before a step, the program stored
// last in the frame.
func (h *hostTensors) lastStored(t *tensor, before int) map[uint64]bool {
	last := map[uint64]bool{}
	within := h.options.Frame == Part{}
	for n := range before {
		s := h.steps.at(n)
		switch {
		case s.op == stepSequenceStart:
			within = segment(s.operand) == segmentFrame
		case !within:
		case s.op == stepHostStores:
			for _, l := range h.hostStoreLists[s.operand] {
				for from, to := t.overlap(l.host, l.offset,
					uint64(len(l.data))); from < to; from++ {
					last[from] = true
				}
			}
		case s.op == stepLoad:
			for from, to := h.loadedPart(s, t); from < to; from++ {
				delete(last, from)
			}
		}
	}
	return last
}

// copyStep returns the index of the step at which a tensor is copied: in the frame, the first store
// to an input, or the last load of an output. Without such a step, found is false, and the step is
// the first of the frame.
func (h *hostTensors) copyStep(t *tensor) (at int, found bool) {
	within := h.options.Frame == Part{}
	for n := range h.steps.count {
		s := h.steps.at(n)
		if s.op == stepSequenceStart {
			if within = segment(s.operand) == segmentFrame; within {
				at = n
			}
		}
		if within && h.usesTensor(n, t) {
			if at, found = n, true; t.role == gen.RoleInput {
				break
			}
		}
	}
	return at, found
}

// overlap returns the part of a tensor that n bytes at an offset in host memory overlap.
func (t *tensor) overlap(host int, offset, n uint64) (from, to uint64) {
	from, to = max(offset, t.Address), min(offset+n, t.Address+t.size)
	if host != t.host || from >= to {
		return 0, 0
	}
	return from - t.Address, to - t.Address
}

// copyStore copies the bytes of a store that are in the tensor into the tensor's data.
func (t *tensor) copyStore(s hostStore) { s.copyOnto(hostStore{t.host, t.Address, t.data}) }

// usesTensor reports whether a step stores to an input, or loads from an output.
func (h *hostTensors) usesTensor(n int, t *tensor) bool {
	s := h.steps.at(n)
	if t.role == gen.RoleInput {
		if s.op != stepHostStores || h.isEarly(t, n) {
			return false
		}
		return slices.ContainsFunc(h.hostStoreLists[s.operand], func(l hostStore) bool {
			from, to := t.overlap(l.host, l.offset, uint64(len(l.data)))
			return from < to
		})
	}
	from, to := h.loadedPart(s, t)
	return s.op == stepLoad && from < to
}

// loadedPart returns the part of a tensor that a step loads or polls in host memory.
func (h *hostTensors) loadedPart(s *step, t *tensor) (from, to uint64) {
	if s.op != stepLoad && s.op != stepPoll || h.windows[s.window].Kind != gen.WindowKindHost {
		return 0, 0
	}
	return t.overlap(int(h.windows[s.window].bar-hostBarBase), uint64(s.offset), s.size())
}

// replaceStep appends s to out without the parts that tensors replace, and then the copies that are
// due at this step. n is the index of s. The result is false, and s is not appended, if s does not
// access host memory.
func (h *hostTensors) replaceStep(s step, n int, within bool, out *stepList) bool {
	for _, i := range h.copiesAt[n] {
		defer h.addCopy(i, out)
	}
	h.hasFrameEnded = h.hasFrameEnded || s.op == stepSequenceStart && !within
	switch {
	case s.op == stepSequenceStart:
		out.appendStep(s) // the copies belong to the sequence that starts here
	case s.op == stepHostStores:
		h.addHostStores(s, n, within, out)
	case s.accessesDevice() && h.windows[s.window].Kind == gen.WindowKindHost:
		h.addDeviceWrite(s, n, within, out)
	default:
		return false
	}
	return true
}

// addHostStores appends the stores of the program that do not belong to an input.
func (h *hostTensors) addHostStores(s step, n int, within bool, out *stepList) {
	list := h.hostStoreLists[s.operand]
	for _, i := range h.indexes {
		t := &h.tensors[i]
		if within && t.role == gen.RoleInput && n >= h.firstSteps[i] {
			list = t.takeStores(h.taken[i], list)
			continue
		}
		for _, l := range list {
			if !h.hasFrameEnded {
				t.copyStore(l)
			}
		}
	}
	h.hostStoreLists[s.operand] = list
	out.appendStep(s)
}

// isEarly reports whether the stores of a step are before the line from which on they count.
func (h *hostTensors) isEarly(t *tensor, n int) bool {
	return n+1 < h.steps.count && int(h.steps.at(n+1).line) <= t.Line
}

// takeStores takes the bytes of stores that the input does not have yet, and returns the rest.
func (t *tensor) takeStores(taken []bool, list []hostStore) (rest []hostStore) {
	before := slices.Clone(taken)
	for _, l := range list {
		from, to := t.overlap(l.host, l.offset, uint64(len(l.data)))
		first := 0 // first byte that is not in rest or taken yet
		for at := from; at < to; at++ {
			if before[at] {
				continue
			}
			k := int(t.Address + at - l.offset)
			taken[at], t.data[at] = true, l.data[k]
			if first < k {
				rest = append(rest, hostStore{l.host, l.offset + uint64(first), l.data[first:k]})
			}
			first = k + 1
		}
		if first < len(l.data) {
			rest = append(rest, hostStore{l.host, l.offset + uint64(first), l.data[first:]})
		}
	}
	return rest
}

// checkStores returns an error if the program stores different values to an input in host memory.
// Stores without an access to the device between them count as one.
func (h *hostTensors) checkStores(t *tensor, found bool) error {
	switch {
	case t.role != gen.RoleInput || !h.hostSpaces[t.host].exact:
		return nil
	case t.Line > 0 && !found:
		return traces.TraceError(t.Line, "the program does not store to input %s in or after this "+
			"line", t.Name)
	case t.Line > 0:
		return nil
	}
	within, ambiguous := h.options.Frame == Part{}, false
	now, stored := slices.Clone(t.data), make([]bool, t.size)
	var lines []string
	for n := range h.steps.count {
		s := h.steps.at(n)
		switch {
		case s.op == stepSequenceStart:
			within = segment(s.operand) == segmentFrame
		case within && h.usesTensor(n, t):
			lines = append(lines, fmt.Sprint(s.line))
			before := slices.Clone(now)
			for _, l := range h.hostStoreLists[s.operand] {
				l.copyOnto(hostStore{t.host, t.Address, now})
			}
			for at := range now {
				ambiguous = ambiguous || stored[at] && now[at] != before[at]
			}
			for _, l := range h.hostStoreLists[s.operand] {
				for from, to := t.overlap(l.host, l.offset,
					uint64(len(l.data))); from < to; from++ {
					stored[from] = true
				}
			}
		}
	}
	if !ambiguous {
		return nil
	}
	return traces.TraceError(0, "the program stores different values to input %s (%s), but an "+
		"input has only one value in each run; choose one of the stores with "+
		"--input %[1]s=bus:0x%[3]x@LINE", t.Name, linesText(lines),
		h.hostSpaces[t.host].bus+t.Address)
}

// addDeviceWrite appends a load or poll of bytes that the device wrote. Bytes of an output are left
// out, because they are copied instead.
func (h *hostTensors) addDeviceWrite(s step, n int, within bool, out *stepList) {
	inOutput := false
	for _, i := range h.indexes {
		t := &h.tensors[i]
		from, to := h.loadedPart(&s, t)
		if s.op == stepLoad && from < to && (t.role == gen.RoleOutput || !within) &&
			!h.hasFrameEnded {
			t.copyStore(hostStore{t.host, uint64(s.offset), h.dataOf(&s)})
		}
		inOutput = inOutput || within && t.role == gen.RoleOutput && from < to
	}
	if !inOutput {
		out.appendStep(s)
		return
	}
	if before, waits := h.ownWaits[n]; waits {
		s.value, s.flags = before, s.flags|flagChanged
		out.appendStep(s)
		return
	}
	for j := range s.elementCount() {
		if e := h.singleAccess(&s, j); !h.isInOutput(&e) {
			out.appendStep(e)
		}
	}
}

func (h *hostTensors) isInOutput(s *step) bool {
	return slices.ContainsFunc(h.indexes, func(i int) bool {
		from, to := h.loadedPart(s, &h.tensors[i])
		return h.tensors[i].role == gen.RoleOutput && from < to
	})
}

// addCopy appends the copy of a whole tensor.
func (h *hostTensors) addCopy(i int, out *stepList) {
	t := &h.tensors[i]
	width := uint64(8)
	for (t.Address|t.size)%width != 0 {
		width /= 2
	}
	op := stepStore
	if t.role == gen.RoleOutput {
		op = stepLoad
	}
	before := step{}
	if end := out.lastStep(); end != nil {
		before = *end
	}
	t.uses++
	out.appendStep(step{
		op: op, width: uint8(width), count: uint32(t.size / width), line: before.line,
		time: before.lastTime(), window: h.hostSpaces[t.host].window,
		offset: uint32(t.Address), target: -1, operand: int32(i), flags: flagMemory,
	})
}

// hostSpace is host memory that becomes a window of the image.
type hostSpace struct {
	name          string
	bus           uint64 // bus address of its first byte
	deviceAddress uint64 // address of its first byte as the device uses it; 0: equal to bus
	size          uint64 // up to the last byte that was accessed
	window        uint16
	throughIATU   bool // tiles reach it through the iATU: only stores of 8 bytes are relocated
	keepsAddress  bool // the window keeps the recorded address
	fromUser      bool // the user has provided its contents
	exact         bool // from a recording that contains all changes of the memory
	// If exact: offset of the first byte that the device accesses
	firstOffset    uint64
	firstStoreLine int          // if exact: line of the program's first store to it, 0: none
	deviceWrote    bool         // if exact: the device wrote to it
	pages          record.Pages // its contents at the current line of the trace, by offset
	initialStores  []hostStore  // initial contents
}

// firstAddress returns the address of the first byte as the device uses it.
func (h *hostSpace) firstAddress() uint64 {
	if h.throughIATU {
		return h.deviceAddress
	}
	return h.bus
}

const (
	// Addresses outside regions belong to one host memory if they are in the same block of this
	// size.
	hostBlockSize = 1 << 20
	hostSizeMax   = 1 << 30
	hostsSizeMax  = 4 << 30 // of all host memories together
	hostsMax      = 64
	hostBarBase   = 64 // value of window.bar for the first host memory; BARs have smaller numbers
)

// hostStore is data that the program stored to host memory.
type hostStore struct {
	host   int // index into program.hostSpaces
	offset uint64
	data   []byte
}

// quadwords returns the offsets and values of the aligned 8-byte words that are stored.
func (s hostStore) quadwords() iter.Seq2[uint64, uint64] {
	return func(yield func(offset, value uint64) bool) {
		for at := -int(s.offset) & 7; at+8 <= len(s.data); at += 8 {
			if !yield(s.offset+uint64(at), traces.Little(s.data[at:][:8])) {
				return
			}
		}
	}
}

// copyOnto copies the bytes of s that overlap `there` into it.
func (s hostStore) copyOnto(there hostStore) {
	from, to := max(there.offset, s.offset), min(there.offset+uint64(len(there.data)),
		s.offset+uint64(len(s.data)))
	if there.host == s.host && from < to {
		copy(there.data[from-there.offset:], s.data[from-s.offset:to-s.offset])
	}
}

// hostSizeLimit returns the maximum size of a host memory: the size of its region, hostBlockSize
// without an iATU, or else one block more than now, but not into the next host memory.
func (l *lifter) hostSizeLimit(h *hostSpace) uint64 {
	if g, ok := l.host.regionAtBus(h.bus); ok && h.throughIATU {
		return g.size
	}
	if !h.throughIATU {
		return hostBlockSize
	}
	limit := fbs.RoundUp(h.size, hostBlockSize) + hostBlockSize
	for i := range l.hostSpaces {
		if o := &l.hostSpaces[i]; o.bus > h.bus {
			limit = min(limit, o.bus-h.bus)
		}
	}
	return limit
}

// mergeStores sorts stores, and merges those that touch or overlap. Where stores overlap, the later
// one wins.
func mergeStores(list []hostStore) (out []hostStore) {
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, hostStore.compare)
	var ends []uint64
	for _, s := range sorted {
		end := s.offset + uint64(len(s.data))
		if n := len(out); n > 0 && out[n-1].host == s.host && s.offset <= ends[n-1] {
			ends[n-1] = max(ends[n-1], end)
			continue
		}
		out, ends = append(out, s), append(ends, end)
	}
	if len(out) == len(list) {
		return out
	}
	for i := range out {
		out[i].data = make([]byte, ends[i]-out[i].offset)
	}
	for _, s := range list {
		i, found := slices.BinarySearchFunc(out, s, hostStore.compare)
		if !found {
			i--
		}
		copy(out[i].data[s.offset-out[i].offset:], s.data)
	}
	return out
}

// compare orders stores by host memory and offset.
func (s hostStore) compare(other hostStore) int {
	return cmp.Or(s.host-other.host, cmp.Compare(s.offset, other.offset))
}
