package importer

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/capture/record"
	"lightmetal/tools/image/lmb"
)

// hostMemory follows the accesses of host memory in a recording. Data that the device read were
// stored by the program, and the program may have waited for data that the device wrote.
type hostMemory struct {
	*iatuState
	exact           bool // all host memory is exact (hostSpace.exact)
	storedSinceSlot bool // the program stored to the device since slotStep
	// Index of the step before which stores to host memory are placed; -1: none
	slotStep      int
	pendingWrites []hostStore // writes of the device that are not in steps yet
	// The last byte that the device changed; of exact memory, one for each write
	pendingChanges  []hostStore
	pendingSince    int64 // time of the first write in pendingWrites
	pendingLine     int   // line of the last write in pendingWrites
	programAccesses int   // accesses of the program to host memory through the PCIe tile
	// Of a frame with Options.hostParts: stores of the program that are not in pages yet
	frameStores []hostStore
	undecided   []undecidedRange
	whole       wholeHost
}

// Device processes an access of the device to host memory at a bus address.
func (l *lifter) Device(line int, time int64, write bool, bus uint64, data []byte) error {
	if l.isAfterPart(line) {
		return nil
	}
	i, offset, err := l.hostSpaceAt(line, bus, uint64(len(data)))
	if err != nil {
		return err
	}
	s := hostStore{i, offset, data}
	inside := l.enterSegment(&traces.Access{Line: line, Time: time, Op: traces.OpLoad})
	between := !inside && l.cut.current == segmentBetween
	if h := &l.hostSpaces[i]; write {
		h.deviceWrote = true
	} else if h.firstStoreLine == 0 {
		h.firstStoreLine = line
	}
	switch {
	case inside && l.isInHostFrame():
		l.changeInFrame(s, write)
	case write && inside:
		l.processWrite(line, time, s)
	case write && between:
		l.hostSpaces[i].pages.Set(offset, data)
	case write:
		l.learnStores(s, true)
	default:
		l.processRead(line, time, s, inside, between)
	}
	return nil
}

// processRead processes a read of the device. If the memory is exact, the line stands for a store
// of the program before the next line.
func (l *lifter) processRead(line int, time int64, s hostStore, inside, between bool) {
	h, early := &l.hostSpaces[s.host], !inside && !between
	stored := []hostStore{s}
	if l.host.exact {
		l.flushDeviceWrites(time)
		h.pages.Set(s.offset, s.data)
	} else if l.host.isWhole() && (inside || between && l.options.isInHostRing(h.bus+s.offset, 1)) {
		h.pages.Set(s.offset, s.data)
		if inside {
			l.placeWhole(line, time, s)
			l.host.storedSinceSlot = true
		}
		return
	} else {
		stored = l.learnStores(s, early)
	}
	switch {
	case between:
		l.cut.leftOutStores = append(l.cut.leftOutStores, stored...)
	case early && l.host.exact:
		h.initialStores = append(h.initialStores, s)
	default:
		if l.host.exact && l.host.slotStep != l.steps.count-1 {
			l.host.slotStep = l.addPlaceholder(line, time)
		}
		for _, s := range stored {
			l.placeStore(line, time, s)
		}
		l.host.storedSinceSlot = true
	}
}

// hostSpaceAt returns the host memory that contains a bus address, and adds it if there is none.
func (l *lifter) hostSpaceAt(line int, bus, size uint64) (index int, offset uint64, err error) {
	for i := range l.hostSpaces {
		h := &l.hostSpaces[i]
		reach := h.size
		if !h.fromUser && !h.exact {
			reach = l.hostSizeLimit(h)
		}
		if bus >= h.bus && bus-h.bus < reach {
			h.size = max(h.size, bus-h.bus+size)
			if h.fromUser && h.size > reach {
				return 0, 0, traces.TraceError(line,
					"the device accesses %d bytes at bus address 0x%x, "+
						"beyond the end of host memory %s; use a larger file in --host",
					size, bus, h.name)
			}
			if h.size > hostSizeMax {
				return 0, 0, tooLargeError(line, h.bus, h.size)
			}
			return i, bus - h.bus, nil
		}
	}
	return l.addHostSpaceAt(line, bus, size)
}

func (l *lifter) addHostSpaceAt(line int, bus, size uint64) (index int, offset uint64, err error) {
	h := hostSpace{name: fmt.Sprintf("host%d", len(l.hostSpaces)), bus: bus &^ (hostBlockSize - 1),
		pages: record.Pages{Unknown: true}}
	if g, ok := l.host.regionAtBus(bus); ok {
		h.bus, h.deviceAddress, h.throughIATU = g.target, l.host.NoCBase+g.base, true
	} else if l.host.RegionCount != 0 {
		h.deviceAddress, h.throughIATU = l.host.NoCBase+h.bus, true
	}
	h.size = bus - h.bus + size
	if h.size > hostSizeMax {
		return 0, 0, tooLargeError(line, h.bus, h.size)
	}
	if len(l.hostSpaces) == hostsMax {
		return 0, 0, tooManyHostsError(line)
	}
	l.addHostSpace(h)
	return len(l.hostSpaces) - 1, bus - h.bus, nil
}

// addHostSpace adds a host memory and its window. The size of the window is set later.
func (p *program) addHostSpace(h hostSpace) {
	h.window = uint16(len(p.windows))
	w := window{bar: uint8(hostBarBase + len(p.hostSpaces))}
	w.Window = lmb.Window{Window: fbs.Window{Kind: gen.WindowKindHost, Slot: fbs.AnySlot},
		Name: h.name}
	p.windows = append(p.windows, w)
	p.hostSpaces = append(p.hostSpaces, h)
}

// learnStores processes data that were read from host memory, and returns the parts that the
// program must have stored since the last access. Parts that were never accessed before are initial
// contents; if early is true, all parts are.
func (l *lifter) learnStores(s hostStore, early bool) (stored []hostStore) {
	h := &l.hostSpaces[s.host]
	for r := range h.pages.Runs(s.offset, s.data) {
		part := hostStore{s.host, r.Address, r.Data}
		switch {
		case r.State == record.Unknown, r.State == record.Differs && early:
			h.initialStores = append(h.initialStores, part)
		case r.State == record.Differs:
			stored = append(stored, part)
		}
	}
	h.pages.Set(s.offset, s.data)
	return stored
}

// placeStore adds a store to host memory before the last stores of the program to the device,
// because one of these made the device read the stored data.
func (l *lifter) placeStore(line int, time int64, s hostStore) {
	if l.host.slotStep < 0 {
		l.host.slotStep = l.addPlaceholder(line, time)
	}
	at := l.steps.at(l.host.slotStep)
	if at.op == stepNone {
		at.op, at.operand = stepHostStores, int32(len(l.hostStoreLists))
		l.hostStoreLists = append(l.hostStoreLists, nil)
	}
	l.hostStoreLists[at.operand] = append(l.hostStoreLists[at.operand], s)
}

// processWrite notes data that the device wrote, for flushDeviceWrites.
func (l *lifter) processWrite(line int, time int64, s hostStore) {
	pages, fresh, changed := &l.hostSpaces[s.host].pages, false, hostStore{}
	for r := range pages.Runs(s.offset, s.data) {
		length := len(r.Data) // up to the last byte that has changed, or may have
		switch r.State {
		case record.Equal:
			continue
		case record.Unknown:
			length = len(bytes.TrimRight(r.Data, "\x00"))
		}
		fresh = true
		if length > 0 {
			last := length - 1
			changed = hostStore{s.host, r.Address + uint64(last), r.Data[last:length]}
		}
	}
	pages.Set(s.offset, s.data)
	if !fresh && !l.host.isWhole() || l.ignoresWrite(s) {
		return // no change, so the program cannot have noticed it
	}
	if len(l.host.pendingWrites) == 0 {
		l.host.pendingSince = time
	}
	if !l.host.exact && changed.data != nil {
		// Accesses are in the device's order, so only the last change matters
		l.host.pendingChanges = l.host.pendingChanges[:0]
	}
	if changed.data != nil {
		l.host.pendingChanges = append(l.host.pendingChanges, changed)
	}
	l.host.pendingWrites, l.host.pendingLine = append(l.host.pendingWrites, s), line
}

// flushDeviceWrites makes steps for what the device wrote since the program's last store. The
// program may have waited for these data, so a replay polls the last change and compares all data.
func (l *lifter) flushDeviceWrites(time int64) {
	wrote := l.host.pendingWrites
	l.host.pendingWrites = nil
	if len(wrote) == 0 {
		return
	}
	polled := -1 // word of which a poll compares all
	for _, c := range l.host.pendingChanges {
		h, word := &l.hostSpaces[c.host], c.offset&^3
		value := h.pages.Bytes(word, 4)
		mask := h.knownMask(word, value) & l.comparedMask(h.bus+word)
		if mask == 0 {
			continue
		}
		flags := uint8(flagMemory)
		if l.isInterrupted {
			flags |= flagInterrupt
		}
		l.steps.appendStep(step{
			op: stepPoll, width: 4, count: 1, line: uint32(l.host.pendingLine), time: time,
			value:      traces.Little(value),
			operand:    l.maskIndex(mask),
			durationUs: l.deadlineUs(time - l.host.pendingSince), window: h.window,
			offset: uint32(word), target: -1,
			flags: flags,
		})
		if mask == math.MaxUint32 && !l.host.exact {
			polled = int(word)
		}
	}
	l.host.pendingChanges = l.host.pendingChanges[:0]
	for _, s := range mergeStores(wrote) {
		if !l.options.movesHost() || int(s.offset) != polled || len(s.data) != 4 {
			l.compareHost(s, time)
		}
	}
}

// comparedMask returns a mask with ones for the bytes of a 4-byte word that Options.Ignore does not
// name.
func (l *lifter) comparedMask(bus uint64) (mask uint64) {
	for k := range uint64(4) {
		ignored := slices.ContainsFunc(l.options.Ignore, func(r Range) bool {
			return r.Bus && bus+k >= r.First && bus+k <= r.Last
		})
		if !ignored {
			mask |= 0xff << (8 * k)
		}
	}
	return mask
}

// knownMask returns a mask with ones for the known bytes of the 4-byte word at an offset.
func (h *hostSpace) knownMask(word uint64, value []byte) (mask uint64) {
	for r := range h.pages.Runs(word, value) {
		if r.State != record.Unknown {
			mask |= (1<<(8*len(r.Data)) - 1) << (8 * (r.Address - word))
		}
	}
	return mask
}

// compareHost adds loads of the current contents of host memory in the range of s.
func (l *lifter) compareHost(s hostStore, time int64) {
	h := &l.hostSpaces[s.host]
	a := traces.Access{Line: l.host.pendingLine, Op: traces.OpLoad, Time: time, Offset: s.offset}
	current := h.pages.Bytes(s.offset, uint64(len(s.data)))
	for e, data := range traces.NaturalAccesses(a, current) {
		l.addHostStep(s.host, e, data)
	}
}

// addHostStep adds a step for adjacent accesses of the program to host memory.
func (l *lifter) addHostStep(host int, a *traces.Access, data []byte) {
	s := newStep(a, uint32(len(data)/int(a.Width)))
	s.window, s.offset, s.flags = l.hostSpaces[host].window, uint32(a.Offset), flagMemory
	if s.count == 1 {
		s.value = traces.Little(data)
	}
	if !l.mergeIntoLast(&s, data) {
		if s.count > 1 {
			s.value = l.runData.store(data)
		}
		l.steps.appendStep(s)
	}
}

// prepareAccess must be called before each step of an access to the device. It makes steps for what
// the device wrote so far, and sets slotStep for stores to host memory.
func (l *lifter) prepareAccess(s *step) {
	if l.isInHostFrame() {
		l.addHostParts(int(s.line), s.time)
		return
	}
	if l.host.exact {
		l.flushDeviceWrites(s.time)
		return
	}
	w := &l.host.whole
	w.noteWait(s)
	if s.op != stepStore || len(l.hostSpaces) == 0 && len(l.host.enabled) == 0 {
		return
	}
	w.waited = w.waited || len(l.host.pendingWrites) > 0
	l.flushDeviceWrites(s.time)
	if end := l.steps.lastStep(); l.host.storedSinceSlot || end == nil || end.op != stepStore {
		w.lateSlot = l.addPlaceholder(int(s.line), s.time)
		if !w.enabled || w.waited || l.host.slotStep < 0 {
			l.host.slotStep = w.lateSlot
		}
		l.host.storedSinceSlot, w.waited = false, false
	}
}

// accessThroughPCIe processes an access of the program to its own memory through the PCIe tile: it
// becomes an access of host memory. taken is false for any other access.
func (l *lifter) accessThroughPCIe(a *traces.Access, at *windowTarget, address uint64) (taken bool,
	err error) {
	if at.kinds[0] != chips.PCIe || at.route.Multicast {
		return false, nil
	}
	bus, ok := l.host.busAddress(address)
	if !ok {
		return false, nil
	}
	i, offset, err := l.hostSpaceAt(a.Line, bus, uint64(a.Width))
	if err != nil {
		return true, err
	}
	l.host.programAccesses++
	e := *a
	e.Offset = offset
	data := traces.Bytes(a.Value, a.Width)
	if a.Op == traces.OpStore {
		l.flushDeviceWrites(a.Time)
		l.hostSpaces[i].pages.Set(offset, data)
		l.program.stores++
	} else {
		l.program.loads++
		for _, s := range l.learnStores(hostStore{i, offset, data}, false) {
			l.host.slotStep = l.addPlaceholder(a.Line, a.Time)
			l.placeStore(a.Line, a.Time, s)
		}
	}
	l.addHostStep(i, &e, data)
	return true, nil
}

// hostChange is a change of host memory between two commands, by the program or by the device.
// Changes depend on the data, so they are not tokens.
type hostChange struct {
	step   int32
	before int32 // index of the next token
	wrote  bool  // by the device
}

// recordHostChange records a step that changes host memory, and reports whether the step does so.
func (f *finder) recordHostChange(s *step, index int) bool {
	wrote := s.accessesDevice() && f.windows[s.window].Kind == gen.WindowKindHost
	if s.op != stepHostStores && !wrote {
		return false
	}
	f.hostChanges = append(f.hostChanges, hostChange{int32(index), int32(len(f.ids)), wrote})
	return true
}

// firstRelatedLine returns the first line of a token, including stores to host memory before it.
func (f *finder) firstRelatedLine(at int) int {
	line := f.lineOf(at)
	for _, a := range f.hostChangesIn(at, at+1, false) {
		line = min(line, int(f.steps.at(int(a.step)).line))
	}
	return line
}

// hostChangesIn returns the changes of host memory in a repetition from one token to another: if
// wrote is false, stores of the program before these tokens; otherwise writes of the device after
// them.
func (f *finder) hostChangesIn(from, to int, wrote bool) (list []hostChange) {
	if wrote {
		from, to = from+1, to+1
	}
	low, _ := slices.BinarySearchFunc(f.hostChanges, from,
		func(a hostChange, at int) int { return int(a.before) - at })
	for _, a := range f.hostChanges[low:] {
		if int(a.before) >= to {
			break
		}
		if a.wrote == wrote {
			list = append(list, a)
		}
	}
	return list
}

// storesOf returns the bytes of host memory that a list of changes contains.
func (f *finder) storesOf(list []hostChange) []hostStore {
	var all []hostStore
	for _, a := range list {
		s := f.steps.at(int(a.step))
		switch {
		case s.op == stepHostStores:
			all = append(all, f.hostStoreLists[s.operand]...)
		case s.op == stepLoad:
			all = append(all, hostStore{int(f.windows[s.window].bar - hostBarBase),
				uint64(s.offset),
				f.dataOf(s)})
		}
	}
	return mergeStores(all)
}
