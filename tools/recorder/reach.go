//go:build linux && (amd64 || arm64)

package recorder

import (
	"bytes"
	"slices"
)

// reached is memory of a program that a device reaches.
type reached struct {
	space  *space // nil: no device reaches it any more
	start  uint64 // in the program
	bus    uint64 // of the first byte, as the device has it
	copy   []byte // what the record says is in it
	stored []span // by the program, where it is watched, and not told yet
	scan   bool   // the kernel tells which pages the program writes
	mirror *view  // the memory itself, mapped in the recorder too; nil: it is the process's alone

	physical bool // it is in huge pages that the program knows the addresses of
	vfio     bool // VFIO maps it, as long as the program has a file of its
}

func (m *reached) size() uint64 { return uint64(len(m.copy)) }

// hosts is what devices reach of the memory of a recording's programs.
type hosts struct {
	reached   []*reached
	former    []*reached // which the device does not reach now: their bytes may come back
	forgotten []span     // bus addresses of former ones that there was no room for
	now       []byte     // room for what is there, where it is not mapped here
	over      bool       // more than the limit: nothing is followed any more
	untold    bool       // it was said that nobody tells who writes

	translated bool // a program has an IOMMU map memory for a device
}

// reach takes memory in that a device reaches from now on, nil: it is not
// followed. What was at the bus addresses until now is not there any more,
// whether or not that was said.
func (r *recording) reach(t *thread, start, size, bus uint64) *reached {
	if r.hosts.over || size == 0 {
		return nil
	}
	r.replaced(t, start, size, bus)
	if total := size + sizes(r.hosts.reached); total > r.options.HostMemory {
		r.tell("host memory is not followed: devices reach %d bytes of it at once, --host-memory lets %d be compared before each store", total,
			r.options.HostMemory)
		for _, m := range r.hosts.reached {
			m.mirror.drop()
			m.mirror = nil // where it is watched it is still looked at
		}
		r.hosts = hosts{over: true}
		return nil
	}
	m := &reached{space: t.space, start: start, bus: bus, copy: make([]byte, size)}
	if !m.read(t.tid, make([]byte, 1), 0) {
		r.tell("host memory at bus address %x, %d bytes, is not followed: the process's memory cannot be read", bus, size)
		return nil
	}
	r.recall(m)
	m.reflect(t.tid)
	r.hosts.reached = append(r.hosts.reached, m)
	r.forget()
	r.out.line("MEM %x %x", bus, size)
	watched := r.watch(t, m)
	m.scan = r.scans(t, m)
	for _, c := range r.changed(m, byProgram, true) {
		r.out.host(c)
	}
	if !m.scan && !watched && !r.hosts.untold {
		r.hosts.untold = true
		r.tell("this kernel does not tell who changes host memory (Linux 6.7 and later do): what a device writes outside of --watch is taken for the " +
			"program's")
	}
	return m
}

// replaced retires what is at bus addresses that get other memory. Where that
// may still be reached, by another device, it is said.
func (r *recording) replaced(t *thread, start, size, bus uint64) {
	r.retire(t, func(m *reached) bool {
		if max(m.bus, bus) >= min(m.bus+m.size(), bus+size) {
			return false
		}
		if m.space != t.space || m.bus < bus || m.bus+m.size() > bus+size {
			r.tell("host memory at bus address %x, %d bytes, is not followed any more: process %d has a device reach other memory at %x, %d bytes", m.bus,
				m.size(), t.process, bus, size)
		}
		return true
	})
}

// recall fills the copy of m with what the record says of its bus addresses.
// What is forgotten is made to differ from what is there: all of it is told.
func (r *recording) recall(m *reached) {
	r.hosts.forgotten = slices.DeleteFunc(r.hosts.forgotten, func(s span) bool {
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
	r.hosts.former = slices.DeleteFunc(r.hosts.former, func(old *reached) bool { return m.inherit(old) })
}

// forget makes room among the copies of what is not reached now: with those of
// what is they are no more than the limit. The oldest goes first.
func (r *recording) forget() {
	h := &r.hosts
	for len(h.former) > 0 && sizes(h.reached)+sizes(h.former) > r.options.HostMemory {
		m := h.former[0]
		h.former = slices.Delete(h.former, 0, 1)
		h.forgotten = append(h.forgotten, span{m.bus, m.bus + m.size()})
		r.out.line("NOTE what was in host memory at bus address %x, %d bytes, which no device reaches, is forgotten for --host-memory: when one does "+
			"again, all of it is told", m.bus, m.size())
	}
}

func sizes(list []*reached) (total uint64) {
	for _, m := range list {
		total += m.size()
	}
	return total
}

// inherit takes over what the record says of bus addresses that were another's.
// true: nothing of that is left outside.
func (m *reached) inherit(old *reached) bool {
	first, last := max(m.bus, old.bus), min(m.bus+m.size(), old.bus+old.size())
	if first >= last {
		return false
	}
	copy(m.copy[first-m.bus:], old.copy[first-old.bus:last-old.bus])
	return first == old.bus && last == old.bus+old.size()
}

// unreach is told that a device does not reach bus addresses any more.
func (r *recording) unreach(t *thread, bus, size uint64) {
	r.retire(t, func(m *reached) bool { return m.space == t.space && m.bus >= bus && m.bus-bus < size })
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
	r.hosts.reached = slices.DeleteFunc(r.hosts.reached, func(m *reached) bool {
		if !which(m) {
			return false
		}
		gone = append(gone, m)
		return true
	})
	for _, m := range gone {
		for _, c := range m.storedThere() {
			r.out.host(c)
		}
		m.mirror.drop()
		m.mirror = nil
		r.hosts.former = append(r.hosts.former, m)
		if t != nil && t.space == m.space {
			r.unwatch(t, m)
		}
		m.space = nil
	}
}

// read gives what is in it now. false: it cannot be told.
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

// look writes down what has changed in host memory: first what devices wrote,
// then what the program did. Where pages do not tell who it was, it was last.
func (r *recording) look(last author) {
	var list []change
	for _, m := range r.hosts.reached {
		list = append(list, r.changed(m, last, false)...)
		if last == byProgram {
			list = append(list, m.storedThere()...)
		}
	}
	slices.SortStableFunc(list, func(a, b change) int { return int(a.who) - int(b.who) })
	for _, c := range list {
		r.out.host(c)
	}
}

const word = 8 // bytes: what changes is told in these, so that an address is whole

// changed compares memory with its copy, which it brings up to date. What is
// there when a device first reaches it the program has put there.
func (r *recording) changed(m *reached, last author, first bool) (list []change) {
	written, known := m.written(m.start, m.start+m.size(), true)
	var err error
	defer caught(&err)() // of a mirror whose file has been cut
	for at, all := 0, r.present(m); at < len(all); {
		n := min(len(m.copy)-at, page-int(m.start+uint64(at))%page)
		if !bytes.Equal(all[at:at+n], m.copy[at:at+n]) {
			now := bytes.Clone(all[at : at+n]) // it may change again while it is told
			who, address := last, m.start+uint64(at)
			switch {
			case first:
			case m.space.watches(address):
				who = completed
			case known && (slices.ContainsFunc(written, func(p pageRange) bool { return address >= p.start && address < p.end }) || m.late(address)):
				who = byProgram
			case known:
				who = byDevice
			}
			list = append(list, m.differing(at, now, who)...)
			copy(m.copy[at:], now)
		}
		at += n
	}
	return list
}

// present is what is in m, empty where the program has unmapped it. It is valid
// until memory is looked at again.
func (r *recording) present(m *reached) []byte {
	var edge [1]byte
	if m.mirror != nil && m.read(0, edge[:], 0) && m.read(0, edge[:], m.size()-1) {
		return m.mirror.bytes()
	}
	r.hosts.now = slices.Grow(r.hosts.now[:0], len(m.copy))[:len(m.copy)]
	if !m.read(0, r.hosts.now, 0) {
		return nil
	}
	return r.hosts.now
}

// reflect maps memory that is shared, of one file, in the recorder too: looked at
// there it need not be copied, which takes longer than to compare it.
func (m *reached) reflect(tid int) {
	p, err := placeOf(tid, m.start)
	if err != nil || !p.shared || m.start%page != 0 || m.start+m.size() > p.end || m.size()%max(p.hugePage(tid), 1) != 0 {
		return
	}
	if m.mirror, err = p.view(tid, m.start, m.size()); err == nil {
		m.mirror.use()
	}
}

// late asks whether the program has written a page since the pages were asked
// for that it had written: then it, and no device, may have changed it.
func (m *reached) late(address uint64) bool {
	list, _ := m.written(address&^(page-1), address&^(page-1)+page, false)
	return len(list) > 0
}

// differing gives the runs of words of a page that are not as in the copy.
func (m *reached) differing(at int, now []byte, who author) (list []change) {
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
