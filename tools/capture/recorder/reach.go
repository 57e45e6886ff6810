//go:build linux && (amd64 || arm64)

package recorder

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"time"
)

// reached is memory of a program that a device reaches. Neighbours that were
// mapped one after the other, such as the pages of a buffer, are one.
type reached struct {
	space  *space   // nil: no device reaches it any more
	start  uint64   // in the program
	bus    uint64   // of the first byte, as the device has it
	copy   []byte   // what the record says is in it
	pieces []uint64 // bus addresses at which the mappings in it begin, in order
	stored []span   // by the program, to watched or protected pages; not in the record yet
	scan   bool     // the kernel notes which pages the program writes
	mirror *view    // the memory itself, mapped in the recorder too; nil: it is the process's alone

	mirrored uint64 // bytes for which a mirror was last tried
	watched  bool   // some of it is watched
	guarded  uint64 // bytes of it for which protection was tried
	mixed    bool   // the record says that device and program are not distinguished
	physical bool   // it is in huge pages that the program knows the addresses of
	vfio     bool   // VFIO maps it, as long as the program has a file of its
}

func (m *reached) size() uint64 { return uint64(len(m.copy)) }

// last returns the bus address of the last byte.
func (m *reached) last() uint64 { return m.bus + m.size() - 1 }

// pieceFrom returns where the first mapping in m begins that begins at a bus
// address or after it, and the end of m if there is none.
func (m *reached) pieceFrom(bus uint64) uint64 {
	if i, _ := slices.BinarySearch(m.pieces, bus); i < len(m.pieces) {
		return m.pieces[i]
	}
	return m.bus + m.size()
}

// pieceOf returns where the mapping in m begins that has a bus address.
func (m *reached) pieceOf(bus uint64) uint64 {
	i, found := slices.BinarySearch(m.pieces, bus)
	if !found {
		i--
	}
	return m.pieces[i]
}

// split cuts m at a bus address inside of it, at which a mapping begins, and
// returns the part from there on.
func (m *reached) split(bus uint64) *reached {
	n := bus - m.bus
	k, _ := slices.BinarySearch(m.pieces, bus)
	rest := &reached{
		space: m.space, start: m.start + n, bus: bus, copy: m.copy[n:], pieces: m.pieces[k:],
		guarded: m.guarded - min(m.guarded, n), mixed: m.mixed, scan: m.scan, physical: m.physical,
		vfio: m.vfio,
	}
	stored := m.stored
	m.stored = nil
	for _, s := range stored {
		if s.first < n {
			m.stored = append(m.stored, span{s.first, min(s.end, n)})
		}
		if s.end > n {
			rest.stored = append(rest.stored, span{max(s.first, n) - n, s.end - n})
		}
	}
	m.guarded = min(m.guarded, n)
	m.copy, m.pieces = m.copy[:n:n], m.pieces[:k:k] // an append must not reach the rest
	m.mirror.drop()
	m.mirror, m.mirrored = nil, 0
	return rest
}

// extends reports whether next, which was reached last, continues m in the
// program and on the bus.
func (m *reached) extends(next *reached) bool {
	return next.size() < mergedSize && m.space == next.space && m.scan == next.scan &&
		m.vfio == next.vfio && m.physical == next.physical &&
		!m.watched && !next.watched && m.start+m.size() == next.start && m.bus+m.size() == next.bus
}

// mergedSize is the size from which on a mapping is not merged with its neighbours: there
// are few such mappings, and a single mapping the recorder can map too instead of copying it.
const mergedSize = 1 << 20

// append adds next, which continues m.
func (m *reached) append(next *reached) {
	m.copy = append(m.copy, next.copy...)
	m.pieces = append(m.pieces, next.pieces...)
	m.mirror.drop()
	next.mirror.drop()
	m.mirror, m.mirrored = nil, 0
}

// hosts is what devices reach of the memory of a recording's programs.
type hosts struct {
	reached           []*reached // by bus addresses, of which no two have the same
	retired           []*reached // which the device does not reach now, but may again
	forgotten         []span     // bus addresses of retired ones that there was no room for
	now               []byte     // room for what is there, where it is not mapped here
	overLimit         bool       // more than the limit: nothing is followed any more
	saidUnknownWriter bool       // it was reported that the kernel does not note who writes

	translated bool // a program has an IOMMU map memory for a device

	bytes, retiredBytes uint64 // of reached and of retired
	mappings            int    // that were reached so far
	// entries of these lists looked at, and requests to the kernel about memory
	steps uint64
}

// overlapping returns the indices of what has bus addresses from the first to the last.
func (h *hosts) overlapping(first, last uint64) (from, to int) {
	from, _ = slices.BinarySearchFunc(h.reached, first, func(m *reached, bus uint64) int {
		h.steps++
		return cmp.Compare(m.last(), bus)
	})
	for to = from; to < len(h.reached) && h.reached[to].bus <= last; to++ {
		h.steps++
	}
	return from, to
}

// insert adds m, as a part of its neighbour if it continues that.
func (h *hosts) insert(m *reached) {
	h.bytes += m.size()
	h.mappings++
	i, _ := h.overlapping(m.bus, m.bus)
	if i > 0 && h.reached[i-1].extends(m) {
		h.reached[i-1].append(m)
		return
	}
	h.reached = slices.Insert(h.reached, i, m)
}

// isolate cuts the mappings from one bus address up to another out of a reached
// part and returns them as a part of its own.
func (h *hosts) isolate(m *reached, from, to uint64) *reached {
	i, _ := h.overlapping(m.bus, m.bus)
	if from > m.bus {
		m = m.split(from)
		i++
		h.reached = slices.Insert(h.reached, i, m)
	}
	if to <= m.last() {
		h.reached = slices.Insert(h.reached, i+1, m.split(to))
	}
	return m
}

// keepRetired keeps what the record says of memory that is not reached any more.
func (h *hosts) keepRetired(m *reached) {
	h.retiredBytes += m.size()
	if n := len(h.retired); n > 0 {
		last := h.retired[n-1]
		if last.bus+last.size() == m.bus {
			last.append(m)
			return
		}
	}
	h.retired = append(h.retired, m)
}

// reach takes memory in that a device reaches from now on, nil: it is not
// followed. What was at the bus addresses until now is not there any more,
// whether or not that was said.
func (r *recording) reach(t *thread, start, size, bus uint64) *reached {
	return r.reachBy(t, start, size, bus, reached{})
}

// reachBy is reach, of a kind of memory.
func (r *recording) reachBy(t *thread, start, size, bus uint64, kind reached) *reached {
	if r.hosts.overLimit || size == 0 || bus+size-1 < bus {
		return nil
	}
	r.replaced(t, start, size, bus)
	if total := size + r.hosts.bytes; total > r.options.HostMemory {
		r.report("host memory is not recorded: devices reach %d bytes of it at once, but "+
			"--host-memory limits comparing to %d", total, r.options.HostMemory)
		for _, m := range r.hosts.reached {
			m.mirror.drop()
			m.mirror = nil // where it is watched it is still looked at
		}
		r.hosts = hosts{overLimit: true, mappings: r.hosts.mappings}
		return nil
	}
	m := &reached{
		space: t.space, start: start, bus: bus, copy: make([]byte, size), pieces: []uint64{bus},
		physical: kind.physical, vfio: kind.vfio,
	}
	if !m.read(t.tid, make([]byte, 1), 0) {
		r.report("host memory at bus address %x, %d bytes, is not recorded: the memory of "+
			"the process cannot be read", bus, size)
		return nil
	}
	r.recall(m)
	r.forget(size)
	r.out.line("MEM %x %x", bus, size)
	m.watched = r.watch(t, m)
	m.scan = r.scans(t, m)
	m.mirrored = size // not yet: it may become a part of its neighbour
	for _, c := range r.changed(m, 0, size, byProgram, true) {
		r.out.host(c)
	}
	m.mirrored = 0
	r.hosts.insert(m)
	if !m.scan && !m.watched && !r.hosts.saidUnknownWriter {
		r.hosts.saidUnknownWriter = true
		r.report("this kernel does not report who changes host memory (Linux 6.7 and later " +
			"do): writes of a device outside of --watch count as the program's")
	}
	return m
}

// replaced retires what is at bus addresses that get other memory. Where that
// may still be reached, by another device, it is said.
func (r *recording) replaced(t *thread, start, size, bus uint64) {
	h, last := &r.hosts, bus+size-1
	from, to := h.overlapping(bus, last)
	var gone []*reached
	for _, m := range slices.Clone(h.reached[from:to]) {
		m = h.isolate(m, m.pieceOf(max(bus, m.bus)), m.pieceFrom(min(last, m.last())+1))
		if m.space != t.space || m.bus < bus || m.last() > last {
			r.report("host memory at bus address %x, %d bytes, is no longer recorded: "+
				"process %d maps other memory at %x, %d bytes, for a device", m.bus,
				m.size(), t.process, bus, size)
		}
		gone = append(gone, m)
	}
	r.retireList(t, gone)
}

// recall fills the copy of m with what the record says of its bus addresses.
// The copy of forgotten bytes is made to differ from memory, so that all are recorded.
func (r *recording) recall(m *reached) {
	h := &r.hosts
	h.steps += uint64(len(h.forgotten) + len(h.retired))
	h.forgotten = slices.DeleteFunc(h.forgotten, func(s span) bool {
		first, end := max(s.first, m.bus), min(s.end, m.bus+m.size())
		if first >= end {
			return false
		}
		data := m.copy[first-m.bus : end-m.bus]
		m.read(0, data, first-m.bus)
		for i := range data {
			data[i] = ^data[i]
		}
		return first == s.first && end == s.end
	})
	var former []*reached
	for _, old := range h.retired {
		former = append(former, m.inherit(h, old)...)
	}
	h.retired = former
}

// inherit takes over what the record says of bus addresses that were another's,
// and returns what is left of that.
func (m *reached) inherit(h *hosts, old *reached) (left []*reached) {
	first, last := max(m.bus, old.bus), min(m.last(), old.last())
	if first > last {
		return []*reached{old}
	}
	copy(m.copy[first-m.bus:], old.copy[first-old.bus:last-old.bus+1])
	h.retiredBytes -= old.size()
	if from := old.pieceOf(first); from > old.bus {
		rest := old.split(from)
		left, old = append(left, old), rest
	}
	if to := old.pieceFrom(last); to <= old.last() && to > last {
		left = append(left, old.split(to))
	}
	if first > old.bus || last < old.last() { // a mapping of which only a part is reached again
		left = append(left, old)
	}
	for _, l := range left {
		h.retiredBytes += l.size()
	}
	return left
}

// forget makes room for so many bytes among the copies of what is not reached now:
// with those of what is they are no more than the limit. The oldest goes first.
func (r *recording) forget(size uint64) {
	h := &r.hosts
	for len(h.retired) > 0 && size+h.bytes+h.retiredBytes > r.options.HostMemory {
		m := h.retired[0]
		if to := m.pieceFrom(m.bus + 1); to <= m.last() {
			h.retired[0] = m.split(to)
		} else {
			h.retired = slices.Delete(h.retired, 0, 1)
		}
		h.steps++
		h.retiredBytes -= m.size()
		h.forgotten = append(h.forgotten, span{m.bus, m.bus + m.size()})
		r.out.line("NOTE no device reaches host memory at bus address %x, %d bytes: lm discards "+
			"its copy to stay within --host-memory, and records all of this memory when a "+
			"device reaches it again", m.bus, m.size())
	}
}

// unreach ends the following of mappings that begin at bus addresses which a device does
// not reach any more.
func (r *recording) unreach(t *thread, bus, size uint64) {
	if size == 0 {
		return
	}
	h, last := &r.hosts, bus+min(size-1, ^uint64(0)-bus)
	from, to := h.overlapping(bus, last)
	var gone []*reached
	for _, m := range slices.Clone(h.reached[from:to]) {
		first, end := m.pieceFrom(bus), m.bus+m.size()
		if last < m.last() {
			end = m.pieceFrom(last + 1)
		}
		if m.space == t.space && first < end {
			gone = append(gone, h.isolate(m, first, end))
		}
	}
	r.retireList(t, gone)
}

// drop ends a thread's use of its memory. With the last one ends what devices reach of it.
func (r *recording) drop(s *space) {
	if s.uses == 1 {
		r.retire(nil, func(m *reached) bool { return m.space == s })
	}
	s.drop()
}

// retire ends the following of memory, after what the program stored there.
// Its own gets a process back by its thread t, nil: it has ended.
func (r *recording) retire(t *thread, which func(*reached) bool) {
	var gone []*reached
	for _, m := range r.hosts.reached {
		r.hosts.steps++
		if which(m) {
			gone = append(gone, m)
		}
	}
	r.retireList(t, gone)
}

// retireList is retire, of parts in the order of their bus addresses.
func (r *recording) retireList(t *thread, gone []*reached) {
	h := &r.hosts
	if len(gone) == 0 {
		return
	}
	from, to := h.overlapping(gone[0].bus, gone[len(gone)-1].last())
	left := slices.DeleteFunc(slices.Clone(h.reached[from:to]), func(m *reached) bool {
		_, found := slices.BinarySearchFunc(gone, m.bus,
			func(g *reached, bus uint64) int { return cmp.Compare(g.bus, bus) })
		return found
	})
	h.reached = slices.Replace(h.reached, from, to, left...)
	for _, m := range gone {
		for _, c := range m.takeStored() {
			r.out.host(c)
		}
		m.mirror.drop()
		m.mirror = nil
		if t != nil && t.space == m.space {
			r.endWatch(t, m)
			r.endProtection(t, m.start, m.start+m.size())
			// a page may be in another part too
			r.resetProtected(t.space, m.start, m.start+m.size())
		}
		m.space = nil
		h.bytes -= m.size()
		h.keepRetired(m)
	}
}

// read reads what is in m now. It returns false if the memory cannot be read.
func (m *reached) read(tid int, data []byte, at uint64) bool {
	if m.space == nil {
		return false
	}
	n, _ := m.space.file(tid).ReadAt(data, int64(m.start+at))
	return n == len(data)
}

// change is a part of host memory that is not as the record has it.
type change struct {
	who  author
	bus  uint64
	data []byte
}

type author uint8

const (
	byDevice  author = iota
	completed        // by the device, where the program looks for it: the last that it writes
	byProgram
)

// recordChanges records what has changed in host memory: first what devices wrote, then
// what the program did. Changes whose author is not known are those of last.
func (r *recording) recordChanges(last author) {
	r.recordChangesBetween(last, 0, ^uint64(0))
}

// recordChangesBetween records what has changed between two bus addresses.
func (r *recording) recordChangesBetween(last author, first, end uint64) {
	began := time.Now()
	defer func() { r.comparing += time.Since(began) }()
	var list []change
	from, to := r.hosts.overlapping(first, end)
	for _, m := range r.hosts.reached[from:to] {
		stored := m.takeStored()
		changes := r.changed(m, max(first, m.bus)-m.bus, min(end, m.last())-m.bus+1, last, false)
		switch {
		case last == byProgram && !overlap(stored, changes):
			list = append(append(list, changes...), stored...)
		case overlap(stored, changes): // the device wrote where the program had stored
			for _, c := range stored {
				r.out.host(c)
			}
			list = append(list, changes...)
		default:
			for _, c := range stored {
				m.noteStored(c.bus-m.bus, uint64(len(c.data)))
			}
			list = append(list, changes...)
		}
	}
	slices.SortStableFunc(list, func(a, b change) int { return int(a.who) - int(b.who) })
	for _, c := range list {
		r.out.host(c)
	}
}

// overlap reports whether two lists, in the order of their addresses, have changes
// of the same bytes.
func overlap(a, b []change) bool {
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

const word = 8 // bytes: changes are recorded in words, so that an address is whole

// changed compares a part of memory, by offsets in it, with its copy, which it
// brings up to date. What is there when a device first reaches it the program
// has put there.
func (r *recording) changed(m *reached, from, to uint64, last author, first bool) (list []change) {
	r.hosts.steps++
	all := r.currentBytes(m, from, to)
	if all == nil {
		middle := m.pieceFrom(m.bus+from+(to-from)/2) - m.bus
		if middle >= to {
			middle = m.pieceOf(m.bus+to-1) - m.bus
		}
		if middle <= from {
			return nil // a single mapping, which the program has unmapped
		}
		return append(r.changed(m, from, middle, last, first),
			r.changed(m, middle, to, last, first)...)
	}
	written, known := m.written(m.start+from, m.start+to, true)
	var err error
	defer caught(&err)() // of a mirror whose file has been cut
	for at := from; at < to; {
		n := min(to-at, page-(m.start+at)%page)
		if there := all[at-from:][:n]; !bytes.Equal(there, m.copy[at:at+n]) {
			now := bytes.Clone(there) // it may change again meanwhile
			who, address := last, m.start+at
			switch {
			case first:
			case m.space.isWatchedAt(address) || m.space.isClosedAt(address):
				who = completed
			case m.space.isOpenAt(address): // kernels lose note of what is written after mprotect
				who = byProgram
			case known && (inRanges(written, address) || r.writtenSince(m, address)):
				who = byProgram
			case known:
				who = byDevice
			}
			list = append(list, m.differingWords(int(at), now, who)...)
			copy(m.copy[at:], now)
		}
		at += n
	}
	return list
}

// inRanges reports whether an address lies in one of ranges in order.
func inRanges(list []pageRange, address uint64) bool {
	i, _ := slices.BinarySearchFunc(list, address, func(p pageRange, address uint64) int {
		if p.end <= address {
			return -1
		}
		return 1
	})
	return i < len(list) && address >= list[i].start
}

// currentBytes returns what is in a part of m, nil if the program has unmapped it. The
// bytes are valid until the next call.
func (r *recording) currentBytes(m *reached, from, to uint64) []byte {
	if m.mirrored != m.size() {
		m.mirrored = m.size()
		m.mapMirror(r.threadOf(m.space))
	}
	var edge [1]byte
	if m.mirror != nil && m.read(0, edge[:], from) && m.read(0, edge[:], to-1) {
		return m.mirror.bytes()[from:to]
	}
	r.hosts.now = slices.Grow(r.hosts.now[:0], int(to-from))[:to-from]
	if !m.read(0, r.hosts.now, from) {
		return nil
	}
	return r.hosts.now
}

// threadOf returns a thread of a space, 0: it has no thread. A thread that has ended has no
// memory any more, also if the recorder has not been notified yet.
func (r *recording) threadOf(s *space) int {
	for tid, t := range r.threads {
		if t.space == s && hasMemory(tid) {
			return tid
		}
	}
	return 0
}

// hasMemory reports whether a thread has not ended: the kernel names its program.
func hasMemory(tid int) bool {
	_, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", tid))
	return err == nil
}

// mapMirror maps shared memory of one file in the recorder too. There it is compared
// without being copied first, which takes longer than the comparison.
func (m *reached) mapMirror(tid int) {
	p, err := mappingAt(tid, m.start)
	if err != nil || !p.shared || m.start%page != 0 || m.start+m.size() > p.end ||
		m.size()%max(p.hugePageSize(tid), 1) != 0 {
		return
	}
	if m.mirror, err = p.view(tid, m.start, m.size()); err == nil {
		m.mirror.use()
	}
}

// writtenSince reports whether the program has written a page since the written pages were
// queried: then the change may be the program's.
func (r *recording) writtenSince(m *reached, address uint64) bool {
	r.hosts.steps++
	list, _ := m.written(address&^(page-1), address&^(page-1)+page, false)
	return len(list) > 0
}

// differingWords returns the runs of words of a page that differ from the copy.
func (m *reached) differingWords(at int, now []byte, who author) (list []change) {
	first := -1
	for i := 0; i <= len(now); i += word {
		end := min(i+word, len(now))
		same := i >= len(now) || bytes.Equal(now[i:end], m.copy[at+i:at+end])
		switch {
		case !same && first < 0:
			first = i
		case same && first >= 0:
			list = append(list, change{who, m.bus + uint64(at+first), now[first:min(i, len(now))]})
			first = -1
		}
	}
	return list
}
