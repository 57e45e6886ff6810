package importer

import (
	"fmt"
	"slices"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/lmb"
)

// hostMemory follows what a recording tells of host memory: what the device
// read there the program had stored, and what the device wrote the program may
// have waited for.
type hostMemory struct {
	*regions
	exact bool // hosts are
	due   bool // the program stored to the device since the last slot
	slot  int  // of the last one, -1: none
	wrote []hostStore
	// the last byte that the device wrote and that was different; of exact memory that of each
	// piece
	changed []hostStore
	since   int64 // when the first of wrote was
	line    int   // of the last
	direct  int   // accesses of the program through the PCIe tile
}

// Device is told that the device reached host memory at a bus address.
func (l *lifter) Device(line int, time int64, write bool, bus uint64, data []byte) error {
	i, offset, err := l.hostAt(line, bus, uint64(len(data)))
	if err != nil {
		return err
	}
	s := hostStore{i, offset, data}
	inside := l.inside(&traces.Access{Line: line, Time: time, Op: traces.OpLoad})
	between := !inside && l.cut.now == segmentBetween
	if h := &l.hosts[i]; write {
		h.wrote = true
	} else if h.stored == 0 {
		h.stored = line
	}
	switch {
	case write && inside:
		l.deviceWrote(line, time, s)
	case write && between:
		l.hosts[i].store(offset, data)
	case write:
		l.learn(s, true)
	default:
		l.deviceRead(line, time, s, inside, between)
	}
	return nil
}

// deviceRead takes what the device read, or, of exact memory, what the program
// stored before the line that follows.
func (l *lifter) deviceRead(line int, time int64, s hostStore, inside, between bool) {
	h, early := &l.hosts[s.host], !inside && !between
	stored := []hostStore{s}
	if l.host.exact {
		l.settle(time)
		h.store(s.offset, s.data)
	} else {
		stored = l.learn(s, early)
	}
	switch {
	case between:
		l.cut.between = append(l.cut.between, stored...)
	case early && l.host.exact:
		h.first = append(h.first, s)
	default:
		if l.host.exact && l.host.slot != l.steps.n-1 {
			l.host.slot = l.hole(line, time)
		}
		for _, s := range stored {
			l.place(line, time, s)
		}
		l.host.due = true
	}
}

// hostAt finds the host memory that holds an address, or adds it.
func (l *lifter) hostAt(line int, bus, size uint64) (index int, offset uint64, err error) {
	for i := range l.hosts {
		h := &l.hosts[i]
		reach := h.size
		if !h.given && !h.exact {
			reach = l.growthLimit(h)
		}
		if bus >= h.bus && bus-h.bus < reach {
			h.size = max(h.size, bus-h.bus+size)
			if h.given && h.size > reach || h.size > hostSizeMax {
				return 0, 0, traces.Refuse(line,
					"the device reaches %d bytes of host memory at 0x%x, beyond the end of %s",
					size, bus, h.name)
			}
			return i, bus - h.bus, nil
		}
	}
	return l.newHost(line, bus, size)
}

func (l *lifter) newHost(line int, bus, size uint64) (index int, offset uint64, err error) {
	h := hostSpace{name: fmt.Sprintf("host%d", len(l.hosts)), bus: bus &^ (hostApart - 1),
		pages: map[uint64]*hostPage{}}
	if g, ok := l.host.ofBus(bus); ok {
		h.bus, h.seen, h.whole = g.target, l.host.NoCBase+g.base, true
	} else if l.host.RegionCount != 0 {
		h.seen, h.whole = l.host.NoCBase+h.bus, true
	}
	h.size = bus - h.bus + size
	if h.size > hostSizeMax || len(l.hosts) == hostsMax {
		return 0, 0,
			traces.Refuse(line,
				"with the host memory at 0x%x, the device reaches more than an image of "+
					"this capture may have; import a part",
				bus)
	}
	l.addHost(h)
	return len(l.hosts) - 1, bus - h.bus, nil
}

// addHost adds host memory and its window, whose size is not known yet.
func (p *program) addHost(h hostSpace) {
	h.window = uint16(len(p.windows))
	w := window{bar: uint8(hostBar + len(p.hosts))}
	w.Window = lmb.Window{Window: fbs.Window{Kind: gen.WindowKindHost, Slot: fbs.NoSlot},
		Name: h.name}
	p.windows = append(p.windows, w)
	p.hosts = append(p.hosts, h)
}

// learn takes what was read from host memory, and returns what the program must
// have stored since the last time; what nobody had read before was there from
// the start, as is everything where early is set.
func (l *lifter) learn(s hostStore, early bool) (stored []hostStore) {
	h := &l.hosts[s.host]
	for p := range h.parts(s.offset, s.data) {
		for from, to := 0, 0; from < len(p.data); from = to {
			known, equal := p.has(from)
			for to = from + 1; to < len(p.data); to++ {
				if k, e := p.has(to); k != known || k && e != equal {
					break
				}
			}
			piece := hostStore{s.host, p.offset + uint64(from), p.data[from:to]}
			switch {
			case !known, !equal && early:
				h.first = append(h.first, piece)
			case !equal:
				stored = append(stored, piece)
			}
		}
		p.take()
	}
	return stored
}

// place puts a store of the program in front of its last stores to the device:
// one of them had the device read what is stored.
func (l *lifter) place(line int, time int64, s hostStore) {
	if l.host.slot < 0 {
		l.host.slot = l.hole(line, time)
	}
	at := l.steps.at(l.host.slot)
	if at.op == stepNone {
		at.op, at.to = stepHost, int32(len(l.late))
		l.late = append(l.late, nil)
	}
	l.late[at.to] = append(l.late[at.to], s)
}

// deviceWrote takes what the device wrote.
func (l *lifter) deviceWrote(line int, time int64, s hostStore) {
	fresh, changed := false, hostStore{}
	for p := range l.hosts[s.host].parts(s.offset, s.data) {
		for k, b := range p.data {
			known, equal := p.has(k)
			fresh = fresh || !known || !equal
			if !known && b != 0 || known && !equal {
				changed = hostStore{s.host, p.offset + uint64(k), p.data[k : k+1]}
			}
		}
		p.take()
	}
	if !fresh || l.ignores(s) {
		return // what was there: nobody could tell
	}
	if len(l.host.wrote) == 0 {
		l.host.since = time
	}
	if !l.host.exact && changed.data != nil {
		l.host.changed = l.host.changed[:0] // the device's order is known: what came last is enough
	}
	if changed.data != nil {
		l.host.changed = append(l.host.changed, changed)
	}
	l.host.wrote, l.host.line = append(l.host.wrote, s), line
}

// settle makes steps of what the device wrote since the program's last store:
// the program may have waited for it before it went on, so a replay waits for
// the last that changed, and compares all of it.
func (l *lifter) settle(time int64) {
	wrote := l.host.wrote
	l.host.wrote = nil
	if len(wrote) == 0 {
		return
	}
	for _, c := range l.host.changed {
		h, word := &l.hosts[c.host], c.offset&^3
		g := h.page(word)
		l.steps.add(step{
			op: stepPoll, width: 4, count: 1, line: uint32(l.host.line), time: time,
			value: traces.Little(g.data[word%hostPageSize:][:4]), to: l.maskIndex(g.mask(word)),
			us: l.deadline(time - l.host.since), window: h.window, offset: uint32(word), aim: -1,
			flags: memoryStep,
		})
	}
	l.host.changed = l.host.changed[:0]
	for _, s := range joined(wrote) {
		l.compareHost(s, time)
	}
}

// compareHost makes loads of what host memory holds now where s lies.
func (l *lifter) compareHost(s hostStore, time int64) {
	h := &l.hosts[s.host]
	a := traces.Access{Line: l.host.line, Op: traces.OpLoad, Time: time, Offset: s.offset}
	data := make([]byte, len(s.data))
	for p := range h.parts(s.offset, data) {
		copy(p.data, p.page.data[p.at:])
	}
	for e, data := range traces.Natural(a, data) {
		l.hostStep(s.host, e, data)
	}
}

// hostStep makes a step of the program's accesses to host memory.
func (l *lifter) hostStep(host int, a *traces.Access, data []byte) {
	s := stepOf(a, uint32(len(data)/int(a.Width)))
	s.window, s.offset, s.flags = l.hosts[host].window, uint32(a.Offset), memoryStep
	if s.count == 1 {
		s.value = traces.Little(data)
	}
	if !l.join(&s, data) {
		if s.count > 1 {
			s.value = l.data.add(data)
		}
		l.steps.add(s)
	}
}

// before comes in front of a store to the device: what the device wrote until
// then is waited for, and what the program stored to host memory goes here.
func (l *lifter) before(s *step) {
	if l.host.exact {
		l.settle(s.time)
		return
	}
	if s.op != stepStore || len(l.hosts) == 0 && len(l.host.enabled) == 0 {
		return
	}
	l.settle(s.time)
	if end := l.steps.end(); l.host.due || end == nil || end.op != stepStore {
		l.host.slot = l.hole(int(s.line), s.time)
		l.host.due = false
	}
}

// throughPCIe takes an access that the program made, through the PCIe tile, of
// its own memory: it becomes one of that memory.
func (l *lifter) throughPCIe(a *traces.Access, at *aim, address uint64) (taken bool, err error) {
	if at.kinds[0] != chips.PCIe || at.target.Multicast {
		return false, nil
	}
	bus, ok := l.host.toBus(address)
	if !ok {
		return false, nil
	}
	i, offset, err := l.hostAt(a.Line, bus, uint64(a.Width))
	if err != nil {
		return true, err
	}
	l.host.direct++
	e := *a
	e.Offset = offset
	data := traces.Bytes(a.Value, a.Width)
	if a.Op == traces.OpStore {
		l.settle(a.Time)
		l.hosts[i].store(offset, data)
		l.program.stores++
	} else {
		l.program.loads++
		for _, s := range l.learn(hostStore{i, offset, data}, false) {
			l.host.slot = l.hole(a.Line, a.Time)
			l.place(a.Line, a.Time, s)
		}
	}
	l.hostStep(i, &e, data)
	return true, nil
}

// hostAct is what happened to host memory between two commands. What the
// program stored there, and what it saw that the device wrote, is what changed:
// it depends on the data, and so is no command.
type hostAct struct {
	step   int32
	before int32 // token that it is in front of
	wrote  bool  // by the device
}

// act takes a step that is one, and reports whether it is.
func (f *finder) act(s *step, index int) bool {
	wrote := s.touches() && f.windows[s.window].Kind == gen.WindowKindHost
	if s.op != stepHost && !wrote {
		return false
	}
	f.acts = append(f.acts, hostAct{int32(index), int32(len(f.ids)), wrote})
	return true
}

// lead is the first line of what belongs to a token: of what the program stored
// to host memory in front of it, or its own.
func (f *finder) lead(at int) int {
	line := f.lineOf(at)
	for _, a := range f.actsOf(at, at+1, false) {
		line = min(line, int(f.steps.at(int(a.step)).line))
	}
	return line
}

// actsOf returns what happened to host memory in a repetition from one token to
// another: what the program stored in front of its commands, or what the device
// had written after them.
func (f *finder) actsOf(from, to int, wrote bool) (list []hostAct) {
	if wrote {
		from, to = from+1, to+1
	}
	low, _ := slices.BinarySearchFunc(f.acts, from,
		func(a hostAct, at int) int { return int(a.before) - at })
	for _, a := range f.acts[low:] {
		if int(a.before) >= to {
			break
		}
		if a.wrote == wrote {
			list = append(list, a)
		}
	}
	return list
}

// stored is the bytes of host memory in a list of acts.
func (f *finder) stored(list []hostAct) []hostStore {
	var all []hostStore
	for _, a := range list {
		s := f.steps.at(int(a.step))
		switch {
		case s.op == stepHost:
			all = append(all, f.late[s.to]...)
		case s.op == stepLoad:
			all = append(all, hostStore{int(f.windows[s.window].bar - hostBar), uint64(s.offset),
				f.moved(s)})
		}
	}
	return joined(all)
}
