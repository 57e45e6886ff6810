package importer

import (
	"bytes"
	"fmt"
	"slices"

	"lightmetal/tools/capture/importer/traces"
)

// hostRange is a part of host memory that repetitions of a frame store to, or
// that the device writes in them.
type hostRange struct {
	hostStore          // what is there now
	after     [][]byte // what was there after each repetition
}

// comparedMax is how much of host memory is compared, in bytes, times the
// repetitions.
const comparedMax = 256 << 20

// hostMemory says what differs there between the repetitions.
func (c *columns) hostMemory() {
	for _, wrote := range []bool{false, true} {
		who, remedy := "the program stores", "import fewer repetitions with --part FROM..TO"
		if wrote {
			who, remedy = "the device writes", "leave memory out with --ignore bus:FIRST-LAST"
		}
		var reps [][]hostStore
		for _, start := range c.c.reps {
			reps = append(reps, c.stored(c.actsOf(start, start+c.c.run.Period, wrote)))
		}
		if s, stride := hostRing(reps[:c.c.run.Times()]); stride != 0 {
			c.refuseHost(s,
				fmt.Sprintf("%s to a ring in host memory, %d bytes further each time: neither an "+
					"input nor a constant", who, stride))
			continue
		}
		var ranges []hostRange // all places that repetitions reach, as few as possible
		for _, s := range joined(slices.Concat(reps...)) {
			s.data = make([]byte, len(s.data))
			ranges = append(ranges, hostRange{hostStore: s})
		}
		if !c.follow(ranges, wrote) {
			c.refuseHost(ranges[0].hostStore,
				who+" more to host memory than lm import compares; "+remedy)
			continue
		}
		for i := range ranges {
			for _, s := range ranges[i].regions() {
				c.hostRegion(&ranges[i], s, wrote, who)
			}
		}
	}
	if given := c.has("output"); given && !c.waits() {
		c.c.Refused = append(c.c.Refused,
			"the program waits only for the output itself: a replay could not detect when the "+
				"output is complete")
	}
}

// regions are the parts that differ, as those of a patch.
func (r *hostRange) regions() []span {
	p := piece{address: r.offset, size: uint64(len(r.data)), memory: true}
	for _, b := range r.after[1:] {
		p.against(r.after[0], b)
	}
	return patch{p}.regions()
}

// hostRegion says what a part of host memory is that differs.
func (c *columns) hostRegion(r *hostRange, s span, wrote bool, who string) {
	var values [][]byte
	for _, b := range r.after {
		values = append(values, b[s.from:s.to])
	}
	part := hostStore{r.host, r.offset + s.from, values[0]}
	if n := c.counts(values); n != "" {
		c.refuseHost(part, who+" what "+n+": neither an input nor a constant")
		return
	}
	if c.addresses(r, s) {
		c.refuseHost(part,
			who+" other addresses of host memory in each repetition: neither an input nor a "+
				"constant")
		return
	}
	h := &c.hosts[r.host]
	v := Varying{Role: "input", Place: h.name, Address: h.bus + part.offset, Size: s.to - s.from,
		Line: c.c.Starts[0]}
	if wrote {
		v.Role = "output"
	}
	v.spec = TensorSpec{Place: Place{Bus: true}, Address: v.Address}
	if !c.given(&v) {
		c.take(v, values, &piece{address: v.Address, memory: true})
	}
}

// addresses reports whether a word that differs is an address of host memory in each
// repetition: a driver takes another buffer each time.
func (c *columns) addresses(r *hostRange, s span) bool {
	for at := s.from &^ 7; at < s.to && at+8 <= uint64(len(r.data)); at += 8 {
		outside := func(b []byte) bool {
			i, _ := c.hostAddress(traces.Little(b[at:at+8]), 8)
			return i < 0 || c.hosts[i].bus == 0
		}
		if !slices.ContainsFunc(r.after, outside) {
			return true
		}
	}
	return false
}

// waits reports whether a frame waits for something that is no output.
func (c *columns) waits() bool {
	if slices.ContainsFunc(c.pieces, func(p piece) bool { return p.op == stepPoll }) {
		return true
	}
	for _, a := range c.actsOf(c.c.from, c.c.from+c.c.run.Period, true) {
		s := c.steps.at(int(a.step))
		h := int(c.windows[s.window].bar) - hostBar
		if s.op == stepPoll && !slices.ContainsFunc(c.c.Varies, func(v Varying) bool {
			return v.Role == "output" && v.spec.Bus &&
				c.hosts[h].bus+uint64(s.offset) < v.Address+v.Size &&
				v.Address < c.hosts[h].bus+uint64(s.offset)+s.size()
		}) {
			return true
		}
	}
	return len(c.actsOf(c.c.from, c.c.from+c.c.run.Period, true)) == 0
}

func (c *columns) refuseHost(s hostStore, reason string) {
	h := &c.hosts[s.host]
	c.refuse(Varying{Role: "memory", Place: h.name, Address: h.bus + s.offset,
		Size: uint64(len(s.data)), Line: c.c.Starts[0], bad: reason})
}

// hostRing finds a piece that lies as much further in each repetition as in the
// one before, and no more where it was; a stride of 0: there is none.
func hostRing(reps [][]hostStore) (s hostStore, stride int64) {
	has := func(rep []hostStore, host int, offset uint64) bool {
		_, ok := slices.BinarySearchFunc(rep, hostStore{host: host, offset: offset},
			hostStore.compare)
		return ok
	}
	for _, s := range reps[0] {
		for _, next := range reps[1] {
			stride := int64(next.offset - s.offset)
			if next.host != s.host || stride == 0 || has(reps[1], s.host, s.offset) ||
				len(reps) < countsMin {
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

// follow goes through what happens to ranges of host memory, from the start of
// the trace on, and keeps what is there after each repetition. It reports whether
// that is not too much.
func (c *columns) follow(ranges []hostRange, wrote bool) bool {
	size := 0
	for i := range ranges {
		size += len(ranges[i].data)
	}
	if size*len(c.c.reps) > comparedMax {
		return false
	}
	apply := func(s hostStore) {
		for i := range ranges {
			s.onto(ranges[i].hostStore)
		}
	}
	for i := range c.hosts {
		for _, s := range c.hosts[i].first {
			apply(s)
		}
	}
	next := 0
	for _, start := range c.c.reps {
		list := c.actsOf(start, start+c.c.run.Period, wrote)
		for ; len(list) > 0 && next < len(c.acts) &&
			c.acts[next].step <= list[len(list)-1].step; next++ {
			for _, s := range c.stored(c.acts[next : next+1]) {
				apply(s)
			}
		}
		for i := range ranges {
			ranges[i].after = append(ranges[i].after, bytes.Clone(ranges[i].data))
		}
	}
	return true
}

// Memory takes host memory that the device reaches from here on. Parts of one MiB, and what
// touches, are one window, whose bytes before the first that is reached are taken off at the end.
func (l *lifter) Memory(line int, bus, size uint64) error {
	l.host.exact = true
	l.settle(0)
	if size > hostSizeMax {
		return tooMuch(line, bus, size)
	}
	h := l.exactAt(bus)
	if h == nil {
		if len(l.hosts) == hostsMax {
			return traces.Refuse(line, "the device uses more than %d separate ranges of host "+
				"memory", hostsMax)
		}
		base := bus &^ (hostApart - 1)
		l.addHost(hostSpace{name: fmt.Sprintf("host%d", len(l.hosts)), bus: base, exact: true,
			low: bus - base, pages: map[uint64]*hostPage{}})
		h = &l.hosts[len(l.hosts)-1]
	}
	end, all := bus-h.bus+size, uint64(0)
	for i := range l.hosts {
		o := &l.hosts[i]
		if o != h && o.bus < h.bus+end && h.bus < o.bus+o.size {
			return traces.Refuse(line,
				"host memory at 0x%x, %d bytes, overlaps %s, which was a separate range "+
					"before", bus, size, o.name)
		}
		all += o.size
	}
	if all += max(h.size, end) - h.size; end > hostSizeMax || all > hostsSizeMax {
		return tooMuch(line, bus, size)
	}
	h.low, h.size = min(h.low, bus-h.bus), max(h.size, end)
	return nil
}

func tooMuch(line int, bus, size uint64) error {
	return traces.Refuse(line,
		"host memory at 0x%x, %d bytes, is too much: an image may have %d MiB in one range and "+
			"%d MiB in all",
		bus, size,
		hostSizeMax>>20, hostsSizeMax>>20)
}

// exactAt finds the host memory that bus addresses from one on belong to.
func (l *lifter) exactAt(bus uint64) *hostSpace {
	for i := range l.hosts {
		if h := &l.hosts[i]; h.exact && bus >= h.bus && bus-h.bus <= max(h.size, hostApart-1) {
			return h
		}
	}
	return nil
}

// ignores reports whether what the device writes there does not matter to the
// user. A replay then neither waits for it nor looks at it.
func (l *lifter) ignores(s hostStore) bool {
	first := l.hosts[s.host].bus + s.offset
	return slices.ContainsFunc(l.o.Ignore, func(r Range) bool {
		in := r.Bus && first >= r.First && first+uint64(len(s.data))-1 <= r.Last
		l.matched[r] = l.matched[r] || in
		return in
	})
}
