//go:build linux && (amd64 || arm64)

package recorder

import (
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// The kernel notes page by page what a program writes, and a huge page is one
// page: if the program stored anything there, all that its device wrote there
// would count as the program's. So with each store to a BAR the program loses the
// right to store to its huge pages. The recorder executes the stores that follow,
// and so knows what the program wrote: all else that changes is the device's. Loads
// are not slowed. If the recorder cannot execute a store, or if there are many, the
// program gets the page back until the next store to a BAR, and the record says
// that what the device writes there meanwhile counts as the program's.

// Protect selects the host memory that is protected in this way.
type Protect uint8

// The kinds of Protect.
const (
	ProtectHuge Protect = iota // memory in huge pages
	ProtectAll
	ProtectNone
)

// guardStores bounds how many stores to one page the recorder executes between two stores to
// a BAR. One that is a stop takes 25 to 65 us, and counts for guardStop that are followed.
const guardStores, guardStop = 64 << 10, 32

// guard is the state of the pages of an area of protected memory. They are closed,
// which makes stores to them fault, or open.
type guard struct {
	owner  *space          // memory that the device reaches: a child has a copy of the area
	unit   uint64          // bytes of a page
	open   map[uint64]bool // by the address of the page
	stores map[uint64]int  // executed in a page since it was closed
}

func (g *guard) page(address uint64) uint64 { return address &^ (g.unit - 1) }

// copy returns the guard of a child's copy of the area.
func (g *guard) copy() *guard {
	if g == nil {
		return nil
	}
	return &guard{owner: g.owner, unit: g.unit, open: maps.Clone(g.open), stores: map[uint64]int{}}
}

// isClosedAt reports whether an address is in a closed page.
func (s *space) isClosedAt(address uint64) bool {
	a := s.find(address)
	return a != nil && a.isClosed(address)
}

// isOpenAt reports whether an address is in a protected page that is open.
func (s *space) isOpenAt(address uint64) bool {
	a := s.find(address)
	return a != nil && a.guard != nil && !a.isClosed(address)
}

func (a *area) isClosed(address uint64) bool {
	return a.guard != nil && !a.guard.open[a.guard.page(address)]
}

// recordBeforeStore writes down what has changed in host memory before a thread's
// store to a BAR, after which the device may write there. Pages are closed for the
// program first, so that no store of another thread falls between.
func (r *recording) recordBeforeStore(t *thread) {
	closed := r.closePages(t)
	r.recordChanges(byProgram)
	closed.markClosed()
}

// closing is a list of pages that the program cannot store to any more. They count as
// open until the record has what the program stored to them.
type closing []struct {
	*guard
	page uint64
}

func (c closing) markClosed() {
	for _, p := range c {
		delete(p.open, p.page)
		delete(p.stores, p.page)
	}
}

// closePages closes all open pages of a thread's memory that a device reaches.
func (r *recording) closePages(t *thread) (list closing) {
	if t.space.released || r.hosts.overLimit {
		return nil
	}
	r.protectNewMemory(t)
	for i := range t.space.areas {
		if a := &t.space.areas[i]; a.guard != nil && a.guard.owner == t.space &&
			len(a.guard.open) > 0 {
			list = append(list, r.closeRange(t, a, a.start, a.end)...)
		}
	}
	return list
}

// closeRange closes the open pages of an area between two addresses.
func (r *recording) closeRange(t *thread, a *area, start, end uint64) (list closing) {
	g := a.guard
	for start = max(g.page(start), a.start); start < min(end, a.end); {
		if !g.open[start] {
			start += g.unit
			continue
		}
		from := start
		for start < a.end && g.open[start] {
			list = append(list, struct {
				*guard
				page uint64
			}{g, start})
			start += g.unit
		}
		if _, err := r.inject(t, unix.SYS_MPROTECT, from, start-from,
			a.prot&^unix.PROT_WRITE); err != nil {
			return list[:len(list)-int((start-from)/g.unit)] // these stay open
		}
	}
	return list
}

// protectNewMemory adds areas for memory that devices reach and that has no areas yet.
func (r *recording) protectNewMemory(t *thread) {
	if !slices.ContainsFunc(r.hosts.reached, func(m *reached) bool {
		return !m.watched && m.guarded < m.size()
	}) {
		return
	}
	for _, m := range r.hosts.reached {
		if m.watched || m.guarded >= m.size() {
			continue
		}
		from, tid := m.start+m.guarded, t.tid
		if m.space != t.space {
			tid = r.threadOf(m.space)
		}
		m.guarded = m.size()
		for at := from; at < m.start+m.size(); {
			p, err := mappingAt(tid, at)
			if err != nil {
				break // the program has unmapped it
			}
			huge := p.hugePageSize(tid)
			wanted := huge > 0 || r.options.Protect == ProtectAll
			if reason := r.protectMapping(t, m, &p, at, huge); reason != "" && wanted && !m.mixed {
				m.mixed = true
				pages := ""
				if huge > 0 {
					pages = "is in huge pages, and "
				}
				r.report("host memory at bus address %x, %d bytes, %s%s: if device and "+
					"program write to one page, all changes count as the program's", m.bus,
					m.size(), pages, reason)
			}
			at = p.end
		}
	}
	r.stopCallsWithPointers(t)
}

// stopCallsWithPointers has the kernel stop system calls that get a pointer to protected
// memory. Memory for which it cannot is not protected any more.
func (r *recording) stopCallsWithPointers(t *thread) {
	areas := slices.DeleteFunc(slices.Clone(t.space.areas),
		func(a area) bool { return a.guard == nil })
	for i := 0; i < len(areas); {
		start, end := areas[i].start, areas[i].end
		for i++; i < len(areas) && areas[i].start == end; i++ {
			end = areas[i].end
		}
		if !r.stopPointers(t, start, end) {
			r.endProtection(t, start, end)
			r.report("host memory of process %d at %x, %d bytes, has too many mappings to "+
				"be protected: if device and program write to one page, all changes count as "+
				"the program's", t.process, start, end-start)
		}
	}
}

// protectMapping adds areas with open pages for the part of m that lies in a mapping,
// beginning at an address. If it cannot, it returns the reason.
func (r *recording) protectMapping(
	t *thread, m *reached, p *place, from, huge uint64,
) (reason string) {
	all := r.options.Protect == ProtectAll
	switch {
	case p.prot&unix.PROT_WRITE == 0:
		return "" // the program does not store there
	case r.options.Protect == ProtectNone:
		return "is not protected (--protect none)"
	case !all && huge == 0:
		return ""
	case m.space != t.space:
		return "another process stores to the device"
	case !p.shared && huge > 0:
		return "is private to the process, so that no other can store to it"
	}
	unit := max(huge, page)
	start, end := max(p.start, from&^(unit-1)), min(p.end, (m.start+m.size()+unit-1)&^(unit-1))
	for start < end {
		if a := t.space.find(start); a != nil {
			start = a.end
			continue
		}
		to := min(end, t.space.next(start))
		a := area{start: start, end: to, prot: p.prot}
		a.guard = &guard{owner: t.space, unit: unit, open: map[uint64]bool{},
			stores: map[uint64]int{}}
		if p.shared {
			var err error
			if a.view, err = p.view(t.tid, start, to-start); err != nil {
				return fmt.Sprintf("lm cannot map it (%v)", err)
			}
		}
		for at := start; at < to; at += unit {
			a.guard.open[at] = true
		}
		t.space.add(a)
		start = to
	}
	return ""
}

// openPagesAgain opens the pages between two addresses to stores of the program, after the
// record has what the device wrote there. If why is not empty, the record says that from
// here on program and device are not distinguished, and why. If it is empty, the pages are
// closed again before the program continues.
func (r *recording) openPagesAgain(t *thread, a *area, start, end uint64, why string) error {
	g := a.guard
	start, end = max(g.page(start), a.start), min((end+g.unit-1)&^(g.unit-1), a.end)
	bus := uint64(0)
	for _, m := range slices.Clone(r.hosts.reached) {
		first, last := max(m.start, start), min(m.start+m.size(), end)
		if m.space != t.space || first >= last {
			continue
		}
		bus = m.bus + first - m.start
		r.recordChangesBetween(byDevice, bus, m.bus+last-m.start-1)
	}
	if _, err := r.inject(t, unix.SYS_MPROTECT, start, end-start, a.prot); err != nil {
		return err
	}
	for at := start; at < end; at += g.unit {
		g.open[at] = true
	}
	if key := fmt.Sprintf("open %x", bus); why != "" && bus != 0 && !r.byCall[key] {
		r.byCall[key] = true
		r.report("host memory at bus address %x: until the next store to a BAR, writes of a "+
			"device to this page count as the program's: %s", bus, why)
	}
	return nil
}

// storeFaulted handles a store of a thread to a closed page. It returns false if the fault
// is the program's own.
func (r *recording) storeFaulted(t *thread, a *area, info *signalInfo) bool {
	fault := info.address()
	regs, err := registersOf(t.tid)
	if err != nil || fault == regs.pc() || info.code() == codeNotMapped ||
		a.prot&unix.PROT_WRITE == 0 {
		return false
	}
	if !a.isClosed(fault) {
		return true // the page was opened for another thread: the thread repeats the store
	}
	g, at := a.guard, a.guard.page(fault)
	why := ""
	if err := step(t.tid, fault, &memory{r, t}); err != nil {
		why = fmt.Sprintf("lm cannot execute an instruction there: %v", err)
	} else if g.stores[at] += guardStop; g.stores[at] > guardStores {
		why = fmt.Sprintf("the program made more than %d stores to it", guardStores/guardStop)
	}
	if a = t.space.find(fault); why != "" && a != nil && a.guard != nil { // areas may have moved
		return r.openPagesAgain(t, a, at, at+1, why) == nil
	}
	return true
}

// storeGuarded makes a store of the program to protected memory. Before that it records
// what the device has written to the same words.
func (m *memory) storeGuarded(a *area, address uint64, data []byte) error {
	if a.prot&unix.PROT_WRITE == 0 {
		return &accessFault{unix.SIGSEGV, codeForbidden, address}
	}
	isReached := m.space == a.guard.owner || a.view != nil // else it is a child's own copy
	if isReached {
		m.eachReached(a.guard.owner, address, uint64(len(data)), func(h *reached, at, n, _ uint64) {
			m.deviceWrote(a, h, at, n)
		})
	}
	if err := m.accessHost(a, address, data, true); err != nil {
		return fmt.Errorf("lm cannot write to its memory: %w", err)
	}
	if isReached {
		m.eachReached(a.guard.owner, address, uint64(len(data)),
			func(h *reached, at, n, from uint64) {
				copy(h.copy[at:], data[from:from+n])
				h.noteStored(at, n)
			})
	}
	return nil
}

// eachReached calls a function for each part of n bytes of memory that a device reaches:
// with the offsets of the part in m and in the n bytes, and its length.
func (r *recording) eachReached(s *space, address, n uint64,
	do func(m *reached, at, n, from uint64)) {
	for _, m := range r.hosts.reached {
		first, end := max(m.start, address), min(m.start+m.size(), address+n)
		if m.space == s && first < end {
			do(m, first-m.start, end-first, first-address)
		}
	}
}

// deviceWrote records what a device has written to the words of a part of h.
func (m *memory) deviceWrote(a *area, h *reached, at, n uint64) {
	first, end := at&^(word-1), min((at+n+word-1)&^(word-1), h.size())
	now := make([]byte, end-first)
	if address := h.start + first; address < a.start || address+uint64(len(now)) > a.end ||
		m.accessHost(a, address, now, false) != nil {
		return
	}
	list := h.differingWords(int(first), now, completed)
	if len(list) == 0 {
		return
	}
	for _, c := range h.takeStored() { // these stores came before
		m.out.host(c)
	}
	for _, c := range list {
		m.out.host(c)
	}
	copy(h.copy[first:], now)
}

// endProtection ends the protection of memory between two addresses. t is a thread of the
// process.
func (r *recording) endProtection(t *thread, start, end uint64) {
	for _, a := range t.space.parts(start, end) {
		if a.guard == nil {
			continue
		}
		from, to := max(a.guard.page(a.start), start&^(a.guard.unit-1)),
			(a.end+a.guard.unit-1)&^(a.guard.unit-1)
		_, _ = r.inject(t, unix.SYS_MPROTECT, from, to-from, a.prot)
		t.space.remove(from, to)
	}
}

// resetProtected has memory between two addresses, which has lost its areas, protected
// again at the next store to a BAR.
func (r *recording) resetProtected(s *space, start, end uint64) {
	for _, m := range r.hosts.reached {
		if m.space == s && m.start < end && start < m.start+m.size() {
			m.guarded = 0
		}
	}
}

// resultArguments has, by system call, the arguments that point at memory to which the
// kernel stores, besides lists of buffers. All arguments of other calls may. It names the
// calls that a driver makes often, or waits in: registers in which they have no argument
// keep what was in them, such as a pointer into protected memory.
var resultArguments = map[uint64][]int{
	unix.SYS_WRITE: nil, unix.SYS_PWRITE64: nil, unix.SYS_WRITEV: nil, unix.SYS_PWRITEV: nil,
	unix.SYS_PWRITEV2: nil, unix.SYS_SENDTO: nil, unix.SYS_SENDMSG: nil,
	unix.SYS_FUTEX: nil, unix.SYS_MSYNC: nil, unix.SYS_MLOCK: nil, unix.SYS_MUNLOCK: nil,
	unix.SYS_EXECVE: nil, unix.SYS_EXIT: nil, unix.SYS_EXIT_GROUP: nil,
	unix.SYS_OPENAT: nil, unix.SYS_CLOSE: nil, unix.SYS_LSEEK: nil, unix.SYS_FTRUNCATE: nil,
	unix.SYS_FLOCK: nil, unix.SYS_DUP: nil, unix.SYS_BRK: nil, unix.SYS_SCHED_YIELD: nil,
	unix.SYS_GETPID: nil, unix.SYS_GETTID: nil, unix.SYS_TGKILL: nil,
	unix.SYS_READV: nil, unix.SYS_PREADV: nil, unix.SYS_PREADV2: nil,
	unix.SYS_READ: {1}, unix.SYS_PREAD64: {1}, unix.SYS_GETDENTS64: {1}, unix.SYS_FSTAT: {1},
	unix.SYS_RECVMSG: {1}, unix.SYS_RECVFROM: {1, 4, 5}, unix.SYS_GETRANDOM: {0},
	unix.SYS_PPOLL: {0, 2}, callPoll: {0}, unix.SYS_EPOLL_PWAIT: {1}, callEpoll: {1},
	unix.SYS_READLINKAT: {2},
	unix.SYS_NANOSLEEP:  {1}, unix.SYS_CLOCK_NANOSLEEP: {3}, unix.SYS_CLOCK_GETTIME: {1},
	unix.SYS_IOCTL: {2}, unix.SYS_FCNTL: {2},
}

// storesOfKernel returns the memory to which the kernel may store in a call.
func storesOfKernel(t *thread, c *call) (list []span) {
	arguments, known := resultArguments[c.number]
	for i, p := range pointers(t, c) {
		if !known || slices.Contains(arguments, i) ||
			i >= len(c.arguments) && !isWriting(c.number) {
			list = append(list, p)
		}
	}
	return append(list, mappedForDevice(t, c)...)
}

// isWriting reports whether a call with a list of buffers only reads them.
func isWriting(number uint64) bool {
	switch number {
	case unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_PWRITEV2, unix.SYS_SENDMSG:
		return true
	}
	return false
}

// closedPages returns the closed pages that the kernel stores to in a call.
func (t *thread) closedPages(c *call) (list []span) {
	if isAboutMemory(c.number) ||
		!slices.ContainsFunc(t.space.areas, func(a area) bool { return a.guard != nil }) {
		return nil
	}
	for _, p := range storesOfKernel(t, c) {
		for i := range t.space.areas {
			a := &t.space.areas[i]
			if a.guard == nil || p.first >= a.end || p.end <= a.start {
				continue
			}
			end := p.end
			for _, v := range c.arguments { // one may be the length
				if end == p.first+1 && v < a.end-p.first {
					end = max(end, p.first+v)
				}
			}
			first := max(a.guard.page(max(p.first, a.start)), a.start)
			end = min((end+a.guard.unit-1)&^(a.guard.unit-1), a.end)
			for at := first; at < end; at += a.guard.unit {
				if a.isClosed(at) {
					list = append(list, span{first, end})
					break
				}
			}
		}
	}
	return list
}

// mappedForDevice returns the memory that a request maps for a device, which the
// kernel then checks for the right to store.
func mappedForDevice(t *thread, c *call) []span {
	if c.number != unix.SYS_IOCTL {
		return nil
	}
	at, ok := map[uint32]int{requestMap: 2, requestIOMap: 4, ttPin: 2}[uint32(c.arguments[1])]
	if !ok {
		return nil
	}
	w, ok := words(t, c.arguments[2], at+4)
	if !ok {
		return nil
	}
	first, n := long(w, at), long(w, at+2)
	if uint32(c.arguments[1]) == requestMap {
		if w, ok = words(t, c.arguments[2], 8); !ok {
			return nil
		}
		n = long(w, 6)
	}
	return []span{{first, first + n}}
}

// postponeCall has the kernel skip a call whose result it could not store. Pages are opened
// at the end of the skipped call, and the thread makes the call again.
func (r *recording) postponeCall(t *thread, c *call, regs *registers, pages []span) bool {
	if regs.skip(t.tid) != nil {
		return false
	}
	c.opens, c.only, t.call = pages, true, c
	return ptrace(unix.PTRACE_SYSCALL, t.tid, 0, 0) == nil
}

// restartCall has a thread make a postponed call.
func (r *recording) restartCall(t *thread, c *call, regs *registers) {
	for _, p := range c.opens {
		for _, a := range t.space.parts(p.first, p.end) {
			if a.guard != nil {
				_ = r.openPagesAgain(t, &a, a.start, a.end, "")
			}
		}
	}
	t.opened = c.opens
	regs.setPC(regs.pc() - uint64(len(callCode)))
	regs.prepare(c.number, c.arguments[:])
	_ = regs.put(t.tid)
}

// closePagesAfter closes the pages again that were open for a call, and records what the
// kernel stored there for the program.
func (r *recording) closePagesAfter(t *thread, c *call) {
	for _, p := range c.opened {
		var closed closing
		for _, a := range t.space.parts(p.first, p.end) {
			if a.guard == nil || a.guard.owner != t.space {
				continue
			}
			closed = append(closed, r.closeRange(t, &a, a.start, a.end)...)
			for _, m := range slices.Clone(r.hosts.reached) {
				if first, end := max(m.start, a.start),
					min(m.start+m.size(), a.end); m.space == t.space && first < end {
					r.recordChangesBetween(byProgram, m.bus+first-m.start, m.bus+end-1-m.start)
				}
			}
		}
		closed.markClosed()
	}
}
