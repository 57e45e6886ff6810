package importer

import (
	"bytes"
	"fmt"
	"slices"

	"lightmetal/tools/capture/importer/traces"
)

// hostRange is a range of host memory to which the program stores, or the device writes, in
// repetitions of a frame.
type hostRange struct {
	hostStore          // current contents
	contents  [][]byte // contents after each repetition
}

// comparedBytesMax limits the bytes of host memory that are compared, multiplied by the number of
// repetitions.
const comparedBytesMax = 256 << 20

// classifyHostMemory decides what the differences in host memory between the repetitions are.
func (c *repetitionDiff) classifyHostMemory() {
	for _, wrote := range []bool{false, true} {
		who, remedy := "the program stores", "import fewer repetitions with --part FROM..TO"
		if wrote {
			who, remedy = "the device writes", "leave memory out with --ignore bus:FIRST-LAST"
		}
		var reps [][]hostStore
		for _, start := range c.candidate.repetitionTokens {
			reps = append(reps, c.storesOf(c.hostChangesIn(start, start+c.candidate.run.Period,
				wrote)))
		}
		if s, stride := findHostRing(reps[:c.candidate.run.Times()]); stride != 0 {
			c.rejectHostMemory(s,
				fmt.Sprintf("%s to a ring in host memory, "+
					"%d bytes further each time, so the data is neither an input nor a constant",
					who, stride))
			continue
		}
		var ranges []hostRange // all ranges that repetitions access, merged
		for _, s := range mergeStores(slices.Concat(reps...)) {
			s.data = make([]byte, len(s.data))
			ranges = append(ranges, hostRange{hostStore: s})
		}
		if !c.recordContents(ranges, wrote) {
			c.rejectHostMemory(ranges[0].hostStore,
				fmt.Sprintf("%s more data to host memory than lm import can compare (%d MiB); %s",
					who, comparedBytesMax>>20, remedy))
			continue
		}
		for i := range ranges {
			for _, s := range ranges[i].differingSpans() {
				c.classifyHostSpan(&ranges[i], s, wrote, who)
			}
		}
	}
	if given := c.hasRole("output"); given && !c.hasOtherWait() {
		c.candidate.Refused = append(c.candidate.Refused,
			"the program waits only for the output itself: "+
				"a replay could not detect when the output is complete")
	}
}

// differingSpans returns the parts of the range that differ between repetitions.
func (r *hostRange) differingSpans() []span {
	p := piece{address: r.offset, size: uint64(len(r.data)), memory: true}
	for _, b := range r.contents[1:] {
		p.markDiffering(r.contents[0], b)
	}
	return patch{p}.differingSpans()
}

// classifyHostSpan decides whether a part of host memory that differs is an input, an output or
// something else.
func (c *repetitionDiff) classifyHostSpan(r *hostRange, s span, wrote bool, who string) {
	var values [][]byte
	for _, b := range r.contents {
		values = append(values, b[s.from:s.to])
	}
	part := hostStore{r.host, r.offset + s.from, values[0]}
	if n := c.describeCounter(values); n != "" {
		c.rejectHostMemory(part, who+" a value that "+n+
			": an image cannot replay it as an input or as a constant")
		return
	}
	if c.isHostAddress(r, s) {
		c.rejectHostMemory(part,
			who+" a different host memory address in each repetition: "+
				"an image cannot replay this value as an input or as a constant")
		return
	}
	h := &c.hostSpaces[r.host]
	v := Varying{Role: "input", Place: h.name, Address: h.bus + part.offset, Size: s.to - s.from,
		Line: c.candidate.Starts[0]}
	if wrote {
		v.Role = "output"
	}
	v.spec = TensorSpec{Place: Place{Bus: true}, Address: v.Address}
	if !c.isSpecified(&v) {
		c.addVarying(v, values, &piece{address: v.Address, memory: true})
	}
}

// isHostAddress reports whether a word that differs is an address of host memory in each
// repetition, as if a driver uses another buffer each time.
func (c *repetitionDiff) isHostAddress(r *hostRange, s span) bool {
	for at := s.from &^ 7; at < s.to && at+8 <= uint64(len(r.data)); at += 8 {
		outside := func(b []byte) bool {
			i, _ := c.findHostAddress(traces.Little(b[at:at+8]), 8)
			return i < 0 || c.hostSpaces[i].bus == 0
		}
		if !slices.ContainsFunc(r.contents, outside) {
			return true
		}
	}
	return false
}

// hasOtherWait reports whether a frame polls anything that is not an output, or whether the device
// writes no host memory in it.
func (c *repetitionDiff) hasOtherWait() bool {
	if slices.ContainsFunc(c.pieces, func(p piece) bool { return p.op == stepPoll }) {
		return true
	}
	for _, a := range c.hostChangesIn(c.candidate.firstToken,
		c.candidate.firstToken+c.candidate.run.Period, true) {
		s := c.steps.at(int(a.step))
		h := int(c.windows[s.window].bar) - hostBarBase
		if s.op == stepPoll && !slices.ContainsFunc(c.candidate.Varies, func(v Varying) bool {
			return v.Role == "output" && v.spec.Bus &&
				c.hostSpaces[h].bus+uint64(s.offset) < v.Address+v.Size &&
				v.Address < c.hostSpaces[h].bus+uint64(s.offset)+s.size()
		}) {
			return true
		}
	}
	return len(c.hostChangesIn(c.candidate.firstToken,
		c.candidate.firstToken+c.candidate.run.Period, true)) == 0
}

func (c *repetitionDiff) rejectHostMemory(s hostStore, reason string) {
	h := &c.hostSpaces[s.host]
	c.reject(Varying{Role: "memory", Place: h.name, Address: h.bus + s.offset,
		Size: uint64(len(s.data)), Line: c.candidate.Starts[0], rejection: reason})
}

// findHostRing returns a store that moves by the same stride from each repetition to the next, and
// does not return to an earlier address. A stride of 0 means that there is none.
func findHostRing(reps [][]hostStore) (s hostStore, stride int64) {
	has := func(rep []hostStore, host int, offset uint64) bool {
		_, ok := slices.BinarySearchFunc(rep, hostStore{host: host, offset: offset},
			hostStore.compare)
		return ok
	}
	for _, s := range reps[0] {
		for _, next := range reps[1] {
			stride := int64(next.offset - s.offset)
			if next.host != s.host || stride == 0 || has(reps[1], s.host, s.offset) ||
				len(reps) < counterRepetitionsMin {
				continue
			}
			all := true
			for k, rep := range reps {
				all = all && has(rep, s.host, s.offset+uint64(int64(k)*stride))
			}
			if all {
				return s, stride
			}
		}
	}
	return s, 0
}

// recordContents applies all changes to the ranges of host memory, from the start of the trace, and
// records the contents after each repetition. It returns false if that would need too much memory.
func (c *repetitionDiff) recordContents(ranges []hostRange, wrote bool) bool {
	size := 0
	for i := range ranges {
		size += len(ranges[i].data)
	}
	if size*len(c.candidate.repetitionTokens) > comparedBytesMax {
		return false
	}
	apply := func(s hostStore) {
		for i := range ranges {
			s.copyOnto(ranges[i].hostStore)
		}
	}
	for i := range c.hostSpaces {
		for _, s := range c.hostSpaces[i].initialStores {
			apply(s)
		}
	}
	next := 0
	for _, start := range c.candidate.repetitionTokens {
		list := c.hostChangesIn(start, start+c.candidate.run.Period, wrote)
		for ; len(list) > 0 && next < len(c.hostChanges) &&
			c.hostChanges[next].step <= list[len(list)-1].step; next++ {
			for _, s := range c.storesOf(c.hostChanges[next : next+1]) {
				apply(s)
			}
		}
		for i := range ranges {
			ranges[i].contents = append(ranges[i].contents, bytes.Clone(ranges[i].data))
		}
	}
	return true
}

// Memory adds host memory that the device may access from this line on. Ranges in the same MiB, and
// adjacent ranges, become one window. At the end, trimHosts removes the bytes of the window before
// the first byte that the device accesses.
func (l *lifter) Memory(line int, bus, size uint64) error {
	l.host.exact = true
	l.flushDeviceWrites(0)
	if l.isAfterPart(line) {
		return nil
	}
	if size > hostSizeMax {
		return tooLargeError(line, bus, size)
	}
	h := l.exactHostAt(bus)
	if h == nil {
		if len(l.hostSpaces) == hostsMax {
			return tooManyHostsError(line)
		}
		base := bus &^ (hostBlockSize - 1)
		l.addHostSpace(hostSpace{name: fmt.Sprintf("host%d", len(l.hostSpaces)), bus: base,
			exact: true, firstOffset: bus - base})
		h = &l.hostSpaces[len(l.hostSpaces)-1]
	}
	end, all := bus-h.bus+size, uint64(0)
	for i := range l.hostSpaces {
		o := &l.hostSpaces[i]
		if o != h && o.bus < h.bus+end && h.bus < o.bus+o.size {
			return traces.TraceError(line,
				"host memory at 0x%x, %d bytes, "+
					"overlaps host memory %s, but an image cannot join ranges "+
					"that were separate before", bus, size, o.name)
		}
		all += o.size
	}
	if all += max(h.size, end) - h.size; end > hostSizeMax || all > hostsSizeMax {
		return tooLargeError(line, bus, size)
	}
	h.firstOffset, h.size = min(h.firstOffset, bus-h.bus), max(h.size, end)
	return nil
}

func tooLargeError(line int, bus, size uint64) error {
	return traces.TraceError(line,
		"host memory at 0x%x, %d bytes, "+
			"is too much: an image may have at most %d MiB in one range and %d MiB in all",
		bus, size,
		hostSizeMax>>20, hostsSizeMax>>20)
}

func tooManyHostsError(line int) error {
	return traces.TraceError(line, "the device uses more than %d separate ranges of host memory, "+
		"the most that an image may have", hostsMax)
}

// exactHostAt returns the exact host memory that a bus address belongs to or extends, or nil.
func (l *lifter) exactHostAt(bus uint64) *hostSpace {
	for i := range l.hostSpaces {
		if h := &l.hostSpaces[i]; h.exact && bus >= h.bus &&
			bus-h.bus <= max(h.size, hostBlockSize-1) {
			return h
		}
	}
	return nil
}

// ignoresWrite reports whether the user ignores what the device writes to a range. A replay then
// neither polls nor compares it.
func (l *lifter) ignoresWrite(s hostStore) bool {
	first := l.hostSpaces[s.host].bus + s.offset
	return slices.ContainsFunc(l.options.Ignore, func(r Range) bool {
		in := r.Bus && first >= r.First && first+uint64(len(s.data))-1 <= r.Last
		l.matchedRanges[r] = l.matchedRanges[r] || in
		return in
	})
}
