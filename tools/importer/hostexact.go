package importer

import (
	"fmt"
	"slices"

	"lightmetal/tools/importer/traces"
)

// Memory takes host memory that the device reaches from here on. Parts of one MiB, and what touches, are one window,
// whose bytes before the first that is reached are taken off at the end.
func (l *lifter) Memory(line int, bus, size uint64) error {
	l.host.exact = true
	l.settle(0)
	if size > hostSizeMax {
		return tooMuch(line, bus, size)
	}
	h := l.exactAt(bus)
	if h == nil {
		if len(l.hosts) == hostsMax {
			return traces.Refuse(line, "more than %d separate places of host memory", hostsMax)
		}
		base := bus &^ (hostApart - 1)
		l.addHost(hostSpace{name: fmt.Sprintf("host%d", len(l.hosts)), bus: base, exact: true, low: bus - base, pages: map[uint64]*hostPage{}})
		h = &l.hosts[len(l.hosts)-1]
	}
	end, all := bus-h.bus+size, uint64(0)
	for i := range l.hosts {
		o := &l.hosts[i]
		if o != h && o.bus < h.bus+end && h.bus < o.bus+o.size {
			return traces.Refuse(line, "host memory at 0x%x, %d bytes, runs into %s, which was apart", bus, size, o.name)
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
	return traces.Refuse(line, "host memory at 0x%x, %d bytes: an image has at most %d MiB in one piece and %d MiB in all", bus, size,
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

// programStored takes what the program stored before the line that follows.
func (l *lifter) programStored(line int, time int64, inside bool, s hostStore) {
	h := &l.hosts[s.host]
	l.settle(time)
	h.store(s.offset, s.data)
	switch {
	case !inside && l.cut.now == segmentBetween:
		l.cut.between = append(l.cut.between, s)
		return
	case !inside:
		h.first = append(h.first, s)
		return
	}
	if l.host.slot < 0 || l.host.slot != l.steps.n-1 {
		l.slotHere(line, time)
	}
	l.place(line, time, s)
}

// ignores tells whether what the device writes there does not matter to the
// user. A replay then neither waits for it nor looks at it.
func (l *lifter) ignores(s hostStore) bool {
	first := l.hosts[s.host].bus + s.offset
	return slices.ContainsFunc(l.o.Ignore, func(r Range) bool {
		return r.Bus && first >= r.First && first+uint64(len(s.data))-1 <= r.Last
	})
}
