//go:build linux && (amd64 || arm64)

package recorder

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"lightmetal/tools/capture/record"
)

// dmaRange is a range of host memory that a device reaches: consecutive addresses in a program and
// on the bus. It consists of one or more mappings for the device, such as the pages of a buffer
// that were mapped one after the other.
type dmaRange struct {
	space         *space   // memory that has the range; nil: no device reaches the range any more
	start         uint64   // address of the first byte in the program
	bus           uint64   // bus address of the first byte
	size          uint64   // size in bytes
	mappingStarts []uint64 // bus addresses at which its mappings begin, in ascending order
	// stores of the program to watched or protected pages that are not in the record yet
	programStores []span
	isTracked     bool // the kernel tracks which pages the program writes
	// mapping of the same memory in the recorder; nil: the recorder has not mapped it
	mirror *view

	mirrorTriedSize  uint64 // size of the range when mapMirror was last called
	hasWatchedPages  bool   // some pages of the range are watched
	protectTriedSize uint64 // number of bytes, from the start, for which protection was tried
	// the record says that writes of device and program are not distinguished
	reportedMixed bool
	// the range is in huge pages whose physical addresses the program can look up
	byPhysicalAddress bool
	// VFIO has mapped the range; it does so as long as the program has a VFIO file open
	byVFIO     bool
	isReadOnly bool // the device only reads the range
}

func (m *dmaRange) lastBus() uint64 { return m.bus + m.size - 1 }

// mappingStartFrom returns the bus address of the first mapping in m that begins at or after a bus
// address. It returns the end of m if there is no such mapping.
func (m *dmaRange) mappingStartFrom(bus uint64) uint64 {
	if i, _ := slices.BinarySearch(m.mappingStarts, bus); i < len(m.mappingStarts) {
		return m.mappingStarts[i]
	}
	return m.bus + m.size
}

// mappingStartOf returns the bus address at which the mapping in m begins that contains a bus
// address.
func (m *dmaRange) mappingStartOf(bus uint64) uint64 {
	i, found := slices.BinarySearch(m.mappingStarts, bus)
	if !found {
		i--
	}
	return m.mappingStarts[i]
}

// split splits m at a bus address inside it, and returns the second part. If the address is inside
// a mapping, both parts of the mapping count as mappings.
func (m *dmaRange) split(bus uint64) *dmaRange {
	n := bus - m.bus
	k, found := slices.BinarySearch(m.mappingStarts, bus)
	starts := m.mappingStarts[k:]
	if !found {
		starts = slices.Concat([]uint64{bus}, starts)
	}
	rest := &dmaRange{
		space: m.space, start: m.start + n, bus: bus, size: m.size - n,
		mappingStarts:    starts,
		protectTriedSize: m.protectTriedSize - min(m.protectTriedSize, n),
		reportedMixed:    m.reportedMixed, isTracked: m.isTracked,
		byPhysicalAddress: m.byPhysicalAddress, byVFIO: m.byVFIO, isReadOnly: m.isReadOnly,
	}
	stored := m.programStores
	m.programStores = nil
	for _, s := range stored {
		if s.first < n {
			m.programStores = append(m.programStores, span{s.first, min(s.end, n)})
		}
		if s.end > n {
			rest.programStores = append(rest.programStores, span{max(s.first, n) - n, s.end - n})
		}
	}
	m.protectTriedSize = min(m.protectTriedSize, n)
	// an append must not overwrite the second part
	m.size, m.mappingStarts = n, m.mappingStarts[:k:k]
	m.mirror.dropUse()
	m.mirror, m.mirrorTriedSize = nil, 0
	return rest
}

// extends reports whether the range `next` continues m, both in the program and on the bus, so that
// both can become one range.
func (m *dmaRange) extends(next *dmaRange) bool {
	return next.size < mergedSizeMax && m.space == next.space && m.isTracked == next.isTracked &&
		m.byVFIO == next.byVFIO && m.byPhysicalAddress == next.byPhysicalAddress &&
		m.isReadOnly == next.isReadOnly &&
		!m.hasWatchedPages && !next.hasWatchedPages && m.start+m.size == next.start &&
		m.bus+m.size == next.bus
}

// mergedSizeMax limits the size of a mapping that is merged with its neighbours. Larger mappings
// are few, and the recorder can map a single mapping itself instead of copying it.
const mergedSizeMax = 1 << 20

// appendRange adds `next`, which continues m, to m.
func (m *dmaRange) appendRange(next *dmaRange) {
	m.size += next.size
	m.mappingStarts = append(m.mappingStarts, next.mappingStarts...)
	m.mirror.dropUse()
	next.mirror.dropUse()
	m.mirror, m.mirrorTriedSize = nil, 0
}

// hostMemory is the memory of all programs of a recording that devices reach.
type hostMemory struct {
	// ranges that devices reach, ordered by bus address, without overlaps
	ranges  []*dmaRange
	retired []*dmaRange // ranges that no device reaches now, but one may reach again
	// Contents according to the record, by bus address. Contents of retired ranges that were
	// discarded to save memory are unknown, so that all bytes are recorded again.
	pages      record.Pages
	readBuffer []byte // buffer for the current contents of ranges without a mirror
	overLimit  int    // number of mappings that exceeded the limit, and are not recorded
	// it was reported that the kernel does not track the program's writes
	reportedUntracked bool

	usesIOMMU bool // a program uses an IOMMU to map memory for a device
	// Bus addresses of the pages that a device wrote since they were mapped for it
	writtenByDevice map[uint64]bool
	isUnmapping     bool // the device loses the memory before the program's next store to it

	bytes, retiredBytes uint64 // sizes of all ranges and of all retired ranges
	mappingCount        int    // number of mappings for devices so far
	// number of entries of these lists that were examined, plus requests to the kernel about memory
	workSteps uint64
}

// overlapping returns the indices of the ranges that overlap the bus addresses from first to last.
func (h *hostMemory) overlapping(first, last uint64) (from, to int) {
	from, _ = slices.BinarySearchFunc(h.ranges, first, func(m *dmaRange, bus uint64) int {
		h.workSteps++
		return cmp.Compare(m.lastBus(), bus)
	})
	for to = from; to < len(h.ranges) && h.ranges[to].bus <= last; to++ {
		h.workSteps++
	}
	return from, to
}

// insert adds m. It appends m to the range before if m continues that range.
func (h *hostMemory) insert(m *dmaRange) {
	h.bytes += m.size
	h.mappingCount++
	i, _ := h.overlapping(m.bus, m.bus)
	if i > 0 && h.ranges[i-1].extends(m) {
		h.ranges[i-1].appendRange(m)
		return
	}
	h.ranges = slices.Insert(h.ranges, i, m)
}

// splitOut splits a range so that the mappings between two bus addresses become a range of their
// own, which it returns.
func (h *hostMemory) splitOut(m *dmaRange, from, to uint64) *dmaRange {
	i, _ := h.overlapping(m.bus, m.bus)
	if from > m.bus {
		m = m.split(from)
		i++
		h.ranges = slices.Insert(h.ranges, i, m)
	}
	if to <= m.lastBus() {
		h.ranges = slices.Insert(h.ranges, i+1, m.split(to))
	}
	return m
}

// keepRetired keeps the recorded contents of a range that no device reaches any more.
func (h *hostMemory) keepRetired(m *dmaRange) {
	h.retiredBytes += m.size
	if n := len(h.retired); n > 0 {
		last := h.retired[n-1]
		if last.bus+last.size == m.bus {
			last.appendRange(m)
			return
		}
	}
	h.retired = append(h.retired, m)
}

// addDMARange adds memory that a device reaches from now on. It returns nil if the memory is not
// recorded. Other memory at the same bus addresses is removed, whether or not the program has
// unmapped it.
func (r *recording) addDMARange(t *thread, start, size, bus uint64) *dmaRange {
	return r.addDMARangeOfKind(t, start, size, bus, dmaRange{})
}

// addDMARangeOfKind is addDMARange for memory with the fields byPhysicalAddress, byVFIO and
// isReadOnly of kind.
func (r *recording) addDMARangeOfKind(t *thread, start, size, bus uint64, kind dmaRange) *dmaRange {
	if size == 0 || bus+size-1 < bus {
		return nil
	}
	r.retireReplaced(t, start, size, bus)
	if total := size + r.hostMemory.bytes; total > r.options.HostMemoryLimit {
		r.reportOverLimit(bus, size, total)
		return nil
	}
	m := &dmaRange{
		space: t.space, start: start, bus: bus, size: size,
		mappingStarts:     []uint64{bus},
		byPhysicalAddress: kind.byPhysicalAddress, byVFIO: kind.byVFIO,
		isReadOnly: kind.isReadOnly,
	}
	if !m.readCurrent(t.tid, make([]byte, 1), 0) {
		r.reportEvent("host memory at bus address 0x%x "+
			"(%d bytes) is not recorded: the memory of the process cannot be read", bus, size)
		return nil
	}
	r.hostMemory.takeRetired(m)
	r.hostMemory.forgetDevicePages(m)
	r.discardRetired(size)
	r.out.Memory(bus, size)
	m.hasWatchedPages = r.watchRange(t, m)
	m.isTracked = r.trackWrites(t, m)
	// prevents mapping a mirror now, because the range may be merged with a neighbour
	m.mirrorTriedSize = size
	r.out.hostChanges(r.compareWithRecord(m, 0, size, byProgram, true))
	m.mirrorTriedSize = 0
	r.hostMemory.insert(m)
	if !m.isTracked && !m.hasWatchedPages {
		r.reportUntracked(t)
	}
	return m
}

// reportUntracked reports once that the kernel does not track writes.
func (r *recording) reportUntracked(t *thread) {
	if r.hostMemory.reportedUntracked {
		return
	}
	r.hostMemory.reportedUntracked = true
	remedy := "use --watch or --protect all"
	if t.space.usesKVM {
		remedy = "record on such a kernel"
	}
	r.reportEvent("this kernel does not report which pages a program has written (Linux 6.7 "+
		"and later do), so a device's writes to host memory may be recorded as those of the "+
		"program; to prevent this, %s", remedy)
}

// reportOverLimit reports that a mapping is not recorded as long as it exists.
func (r *recording) reportOverLimit(bus, size, total uint64) {
	eventsMax, more := 8, ""
	if r.options.HostMemoryLimit == 0 { // intended
		eventsMax = 1
	}
	switch r.hostMemory.overLimit++; {
	case r.hostMemory.overLimit > eventsMax:
		r.out.Line("NOTE host memory at bus address 0x%x (%d bytes) is not recorded", bus, size)
		return
	case r.hostMemory.overLimit == eventsMax:
		more = "; further mappings are only noted in the recording"
	}
	r.reportEvent("host memory at bus address 0x%x (%d bytes) is not recorded: with it, "+
		"devices reach %d bytes of host memory at once; increase --host-memory, "+
		"which is %d bytes%s", bus, size, total, r.options.HostMemoryLimit, more)
}

// retireReplaced retires the ranges at bus addresses that get other memory. It reports a
// range of another process, and one that is replaced only in part: a device may still reach it.
func (r *recording) retireReplaced(t *thread, start, size, bus uint64) {
	h, last := &r.hostMemory, bus+size-1
	from, to := h.overlapping(bus, last)
	var gone []*dmaRange
	for _, m := range slices.Clone(h.ranges[from:to]) {
		m = h.splitOut(m, m.mappingStartOf(max(bus, m.bus)),
			m.mappingStartFrom(min(last, m.lastBus())+1))
		if m.space != t.space || m.bus < bus || m.lastBus() > last {
			r.reportEvent("host memory at bus address 0x%x (%d bytes) is no longer recorded: "+
				"process %d maps other memory at bus address 0x%x (%d bytes)", m.bus,
				m.size, t.process, bus, size)
		}
		gone = append(gone, m)
	}
	r.retireRanges(t, gone)
}

// takeRetired removes the bus addresses of m from the retired ranges.
func (h *hostMemory) takeRetired(m *dmaRange) {
	h.workSteps += uint64(len(h.retired))
	var left []*dmaRange
	for _, old := range h.retired {
		left = append(left, old.outside(m)...)
	}
	h.retired, h.retiredBytes = left, 0
	for _, l := range left {
		h.retiredBytes += l.size
	}
}

// outside returns the parts of m at bus addresses that are not in other.
func (m *dmaRange) outside(other *dmaRange) (parts []*dmaRange) {
	if m.lastBus() < other.bus || other.lastBus() < m.bus {
		return []*dmaRange{m}
	}
	if other.bus > m.bus {
		rest := m.split(other.bus)
		parts, m = append(parts, m), rest
	}
	if other.lastBus() < m.lastBus() {
		parts = append(parts, m.split(other.lastBus()+1))
	}
	return parts
}

// discardRetired discards the oldest retired ranges until size more bytes fit: the sizes of all
// ranges, retired ones included, stay within the limit.
func (r *recording) discardRetired(size uint64) {
	h := &r.hostMemory
	for len(h.retired) > 0 && size+h.bytes+h.retiredBytes > r.options.HostMemoryLimit {
		m := h.retired[0]
		if to := m.mappingStartFrom(m.bus + 1); to <= m.lastBus() {
			h.retired[0] = m.split(to)
		} else {
			h.retired = slices.Delete(h.retired, 0, 1)
		}
		h.workSteps++
		h.retiredBytes -= m.size
		h.pages.Forget(m.bus, m.size)
		r.out.Line("NOTE no device reaches host memory at bus address 0x%x, "+
			"%d bytes: lm discards its copy to stay within --host-memory, "+
			"and records all of this memory when a device reaches it again", m.bus, m.size)
	}
}

// removeDMARanges retires the mappings of a program that begin between two bus addresses, because
// no device reaches them any more.
func (r *recording) removeDMARanges(t *thread, bus, size uint64) {
	if size == 0 {
		return
	}
	h, last := &r.hostMemory, bus+min(size-1, ^uint64(0)-bus)
	from, to := h.overlapping(bus, last)
	var gone []*dmaRange
	for _, m := range slices.Clone(h.ranges[from:to]) {
		first, end := m.mappingStartFrom(bus), m.bus+m.size
		if last < m.lastBus() {
			end = m.mappingStartFrom(last + 1)
		}
		if m.space == t.space && first < end {
			gone = append(gone, h.splitOut(m, first, end))
		}
	}
	r.retireRanges(t, gone)
}

// leaveSpace ends a thread's use of its memory. When no thread uses the memory any more, its ranges
// are retired.
func (r *recording) leaveSpace(s *space) {
	if s.threadCount == 1 {
		r.retireMatching(nil, func(m *dmaRange) bool { return m.space == s })
	}
	s.removeThread()
}

// retireMatching retires the ranges that a function selects. t is a thread of the process that the
// ranges belong to, or nil if the process has ended.
func (r *recording) retireMatching(t *thread, which func(*dmaRange) bool) {
	var gone []*dmaRange
	for _, m := range r.hostMemory.ranges {
		r.hostMemory.workSteps++
		if which(m) {
			gone = append(gone, m)
		}
	}
	r.retireRanges(t, gone)
}

// retireRanges writes the program's stores to the given ranges to the record, and moves the ranges
// to the retired ones. They must be in the order of their bus addresses. If t is not nil,
// retireRanges also restores the access rights of the memory of t's process.
func (r *recording) retireRanges(t *thread, gone []*dmaRange) {
	h := &r.hostMemory
	if len(gone) == 0 {
		return
	}
	from, to := h.overlapping(gone[0].bus, gone[len(gone)-1].lastBus())
	left := slices.DeleteFunc(slices.Clone(h.ranges[from:to]), func(m *dmaRange) bool {
		_, found := slices.BinarySearchFunc(gone, m.bus,
			func(g *dmaRange, bus uint64) int { return cmp.Compare(g.bus, bus) })
		return found
	})
	h.ranges = slices.Replace(h.ranges, from, to, left...)
	for _, m := range gone {
		r.out.hostChanges(r.takeProgramStores(m))
		m.mirror.dropUse()
		m.mirror = nil
		if t != nil && t.space == m.space {
			r.endWatch(t, m)
			r.endProtection(t, m.start, m.start+m.size)
			// a page may also belong to another range
			r.resetProtected(t.space, m.start, m.start+m.size)
		}
		m.space = nil
		h.bytes -= m.size
		h.keepRetired(m)
	}
}

// readCurrent reads the current contents of m. It returns false if the memory cannot be read.
func (m *dmaRange) readCurrent(tid int, data []byte, at uint64) bool {
	if m.space == nil {
		return false
	}
	n, _ := m.space.file(tid).ReadAt(data, int64(m.start+at))
	return n == len(data)
}

// change is a range of host memory whose contents differ from the record.
type change struct {
	author author
	bus    uint64
	data   []byte
}

type author uint8

const (
	byDevice author = iota
	// by the device to watched or closed pages, to which it usually writes last to report
	// completion
	byDeviceSeen
	byProgram
	// The program wrote the page, and the device probably too: who wrote a word is not known
	byBoth
)

// recordChanges records the changes of host memory since the last call: first those of devices,
// then those of the program. It attributes changes of unknown origin to the author `unknown`.
func (r *recording) recordChanges(unknown author) {
	r.recordChangesBetween(unknown, 0, ^uint64(0))
}

// recordChangesBetween records the changes from the bus address `first` to `end`, inclusive.
func (r *recording) recordChangesBetween(unknown author, first, end uint64) {
	began := time.Now()
	defer func() { r.compareTime += time.Since(began) }()
	var list []change
	from, to := r.hostMemory.overlapping(first, end)
	for _, m := range r.hostMemory.ranges[from:to] {
		stored := r.takeProgramStores(m)
		changes := r.compareWithRecord(m, max(first, m.bus)-m.bus, min(end, m.lastBus())-m.bus+1,
			unknown, false)
		switch {
		case unknown == byProgram && !changesOverlap(stored, changes):
			list = append(append(list, changes...), stored...)
		// the device wrote to bytes that the program had stored before
		case changesOverlap(stored, changes):
			r.out.hostChanges(stored)
			list = append(list, changes...)
		default:
			for _, c := range stored {
				m.noteProgramStore(c.bus-m.bus, uint64(len(c.data)))
			}
			list = append(list, changes...)
		}
	}
	slices.SortStableFunc(list, func(a, b change) int { return int(a.author) - int(b.author) })
	r.out.hostChanges(list)
}

// changesOverlap reports whether changes of two lists overlap. Both lists are in the order of their
// addresses.
func changesOverlap(a, b []change) bool {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].bus+uint64(len(a[0].data)) <= b[0].bus:
			a = a[1:]
		case b[0].bus+uint64(len(b[0].data)) <= a[0].bus:
			b = b[1:]
		default:
			return true
		}
	}
	return false
}

// size in bytes of the units in which changes are recorded, so that an address in memory is never
// split
const wordSize = 8

// compareWithRecord compares the bytes of m between two offsets with the record's contents, and
// returns the changes. It updates the contents. If isFirst is true, the device has just reached the
// memory for the first time, and all changes are the program's.
func (r *recording) compareWithRecord(m *dmaRange, from, to uint64, unknown author,
	isFirst bool) (list []change) {
	for _, s := range r.usedSpans(m, from, to) {
		list = append(list, r.compareSpan(m, s.first, s.end, unknown, isFirst)...)
	}
	return list
}

func (r *recording) compareSpan(m *dmaRange, from, to uint64, unknown author,
	isFirst bool) (list []change) {
	r.hostMemory.workSteps++
	all := r.currentBytes(m, from, to)
	if all == nil {
		middle := m.mappingStartFrom(m.bus+from+(to-from)/2) - m.bus
		if middle >= to {
			middle = m.mappingStartOf(m.bus+to-1) - m.bus
		}
		if middle <= from {
			return nil // this is a single mapping, and the program has unmapped it
		}
		return append(r.compareSpan(m, from, middle, unknown, isFirst),
			r.compareSpan(m, middle, to, unknown, isFirst)...)
	}
	written, known := m.written(m.start+from, m.start+to, true)
	var err error
	defer catchFaults(&err)() // the file of a mirror may have become shorter
	for at := from; at < to; {
		n := min(to-at, pageSize-(m.start+at)%pageSize)
		if there := all[at-from:][:n]; !r.hostMemory.pages.Equal(m.bus+at, there) {
			now := bytes.Clone(there) // the memory may change again at any time
			who, address := unknown, m.start+at
			switch {
			case isFirst, m.isReadOnly:
				who = byProgram
			case m.space.isWatchedAt(address) || m.space.isClosedAt(address):
				who = byDeviceSeen
			case m.space.isOpenAt(address): // after mprotect, kernels can lose track of writes
				who = byProgram
			case known && (inRanges(written, address) || r.writtenSince(m, address)):
				who = r.hostMemory.authorOfWrittenPage(m.bus + at)
			case known:
				who = byDevice
				r.hostMemory.noteDevicePage(m.bus + at)
			}
			list = append(list, r.hostMemory.differingWords(m.bus+at, now, who)...)
			r.hostMemory.pages.Set(m.bus+at, now)
		}
		at += n
	}
	return list
}

// authorOfWrittenPage returns who changed a page that the program wrote. If the device is losing
// the memory, the program has probably stored elsewhere in the page, and not for the device.
func (h *hostMemory) authorOfWrittenPage(bus uint64) author {
	if h.isUnmapping || h.writtenByDevice[bus&^(pageSize-1)] {
		return byBoth
	}
	return byProgram
}

func (h *hostMemory) noteDevicePage(bus uint64) {
	if h.writtenByDevice == nil {
		h.writtenByDevice = map[uint64]bool{}
	}
	h.writtenByDevice[bus&^(pageSize-1)] = true
}

// forgetDevicePages forgets what devices wrote to the bus addresses of m, which has other memory.
func (h *hostMemory) forgetDevicePages(m *dmaRange) {
	first := m.bus &^ (pageSize - 1)
	if n := (m.lastBus()-first)/pageSize + 1; n < uint64(len(h.writtenByDevice)) {
		for i := range n {
			delete(h.writtenByDevice, first+i*pageSize)
		}
		return
	}
	maps.DeleteFunc(h.writtenByDevice, func(bus uint64, _ bool) bool {
		return bus >= first && bus <= m.lastBus()
	})
}

// inRanges reports whether an address is in one of the given ranges, which are in ascending order.
func inRanges(list []pageRange, address uint64) bool {
	i, _ := slices.BinarySearchFunc(list, address, func(p pageRange, address uint64) int {
		if p.end <= address {
			return -1
		}
		return 1
	})
	return i < len(list) && address >= list[i].start
}

// currentBytes returns the current contents of m between two offsets, or nil if the program has
// unmapped them. The bytes are valid until the next call.
func (r *recording) currentBytes(m *dmaRange, from, to uint64) []byte {
	if m.mirrorTriedSize != m.size {
		m.mirrorTriedSize = m.size
		m.mapMirror(r.threadOf(m.space))
	}
	var edge [1]byte
	if m.mirror != nil && m.readCurrent(0, edge[:], from) && m.readCurrent(0, edge[:], to-1) {
		return m.mirror.bytes()[from:to]
	}
	r.hostMemory.readBuffer = slices.Grow(r.hostMemory.readBuffer[:0], int(to-from))[:to-from]
	if !m.readCurrent(0, r.hostMemory.readBuffer, from) {
		return nil
	}
	return r.hostMemory.readBuffer
}

// threadOf returns the id of a thread of a space, or 0 if the space has no thread. It skips threads
// that have ended without the recorder being notified yet, because their memory cannot be read.
func (r *recording) threadOf(s *space) int {
	for tid, t := range r.threads {
		if t.space == s && hasMemory(tid) {
			return tid
		}
	}
	return 0
}

// hasMemory reports whether a thread still has its memory. The link /proc/TID/exe can be read only
// as long as it has.
func hasMemory(tid int) bool {
	_, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", tid))
	return err == nil
}

// mapMirror maps m in the recorder, if m is shared memory of one file. The recorder can then
// compare the memory without copying it first, which would take longer than the comparison.
func (m *dmaRange) mapMirror(tid int) {
	p, err := mappingAt(tid, m.start)
	if err != nil || !p.shared || m.start%pageSize != 0 || m.start+m.size > p.end ||
		m.size%max(p.hugePageSize(tid), 1) != 0 {
		return
	}
	if m.mirror, err = p.mapView(tid, m.start, m.size); err == nil {
		m.mirror.addUse()
	}
}

// writtenSince reports whether the program has written a page since compareWithRecord queried the
// written pages. In this case the change may be the program's.
func (r *recording) writtenSince(m *dmaRange, address uint64) bool {
	r.hostMemory.workSteps++
	list, _ := m.written(address&^(pageSize-1), address&^(pageSize-1)+pageSize, false)
	return len(list) > 0
}

// differingWords returns the runs of words at a bus address that differ from the record. now has
// their current contents.
func (h *hostMemory) differingWords(bus uint64, now []byte, who author) (list []change) {
	var words []span // offsets in now
	for r := range h.pages.Runs(bus, now) {
		if r.State == record.Equal {
			continue
		}
		first := (r.Address - bus) &^ (wordSize - 1)
		end := (r.Address - bus + uint64(len(r.Data)) + wordSize - 1) &^ (wordSize - 1)
		if n := len(words); n > 0 && first <= words[n-1].end {
			words[n-1].end = end
		} else {
			words = append(words, span{first, end})
		}
	}
	for _, w := range words {
		list = append(list, change{who, bus + w.first, now[w.first:min(w.end, uint64(len(now)))]})
	}
	return list
}
