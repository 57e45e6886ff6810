//go:build linux && (amd64 || arm64)

package recorder

import (
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// The kernel tracks for each page whether the program has written it, and a huge page is one page.
// If a program stored anything to a huge page, everything that the device wrote to the page would
// be attributed to the program. Therefore, at each store to a BAR, the recorder closes the
// program's huge pages: it removes the right to store to them. It executes the stores that follow,
// and so knows what the program wrote. All other changes are the device's. Loads are not slower. If
// the recorder cannot execute a store, or if there are many, it opens the page until the next store
// to a BAR. The record then says that writes of the device to this page are attributed to the
// program meanwhile.

// Protect selects the host memory whose pages are closed in this way.
type Protect uint8

// The values of Protect.
const (
	ProtectHuge Protect = iota // memory in huge pages
	ProtectAll
	ProtectNone
)

// guardStores limits the cost of the stores to one page that the recorder executes between two
// stores to a BAR. A store that the follower executes costs 1. A store at which the thread stops
// takes 25 to 65 us, and costs guardStop.
const guardStores, guardStop = 64 << 10, 32

// guard is the state of the pages of an area of protected memory. Each page is either open, or
// closed: stores of the program to it fault.
type guard struct {
	// process whose memory the device reaches; a child process has a copy of the area
	owner     *space
	pageBytes uint64          // size of a page in bytes
	open      map[uint64]bool // open pages, by address
	storeCost map[uint64]int  // cost of the stores to a page since it was closed, by address
}

func (g *guard) page(address uint64) uint64 { return address &^ (g.pageBytes - 1) }

// clone returns the guard of a child process's copy of the area.
func (g *guard) clone() *guard {
	if g == nil {
		return nil
	}
	return &guard{owner: g.owner, pageBytes: g.pageBytes, open: maps.Clone(g.open),
		storeCost: map[uint64]int{}}
}

func (s *space) isClosedAt(address uint64) bool {
	a := s.areaAt(address)
	return a != nil && a.isClosed(address)
}

// isOpenAt reports whether an address is in a protected page that is open.
func (s *space) isOpenAt(address uint64) bool {
	a := s.areaAt(address)
	return a != nil && a.guard != nil && !a.isClosed(address)
}

func (a *area) isClosed(address uint64) bool {
	return a.guard != nil && !a.guard.open[a.guard.page(address)]
}

// recordBeforeStore records the changes of host memory before a store of a thread to a BAR, because
// the device may write to host memory afterwards. It closes the open pages first, so that stores of
// other threads do not change them meanwhile.
func (r *recording) recordBeforeStore(t *thread) {
	closed := r.closePages(t)
	r.recordChanges(byProgram)
	closed.markClosed()
}

// closingPages is a list of pages that the program cannot store to any more. They count as open
// until the program's stores to them are recorded.
type closingPages []struct {
	*guard
	page uint64
}

func (c closingPages) markClosed() {
	for _, p := range c {
		delete(p.open, p.page)
		delete(p.storeCost, p.page)
	}
}

// closePages closes all open pages of the thread's process that a device reaches.
func (r *recording) closePages(t *thread) (list closingPages) {
	if t.space.released {
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
func (r *recording) closeRange(t *thread, a *area, start, end uint64) (list closingPages) {
	g := a.guard
	for start = max(g.page(start), a.start); start < min(end, a.end); {
		if !g.open[start] {
			start += g.pageBytes
			continue
		}
		from := start
		for start < a.end && g.open[start] {
			list = append(list, struct {
				*guard
				page uint64
			}{g, start})
			start += g.pageBytes
		}
		if _, err := r.injectCall(t, unix.SYS_MPROTECT, from, start-from,
			a.prot&^unix.PROT_WRITE); err != nil {
			return list[:len(list)-int((start-from)/g.pageBytes)] // these stay open
		}
	}
	return list
}

// protectNewMemory adds areas for memory that devices reach and that is not protected yet.
func (r *recording) protectNewMemory(t *thread) {
	if !slices.ContainsFunc(r.hostMemory.ranges, func(m *dmaRange) bool {
		return !m.hasWatchedPages && m.protectTriedSize < m.size
	}) {
		return
	}
	for _, m := range r.hostMemory.ranges {
		if m.hasWatchedPages || m.protectTriedSize >= m.size {
			continue
		}
		from, tid := m.start+m.protectTriedSize, t.tid
		if m.space != t.space {
			tid = r.threadOf(m.space)
		}
		m.protectTriedSize = m.size
		for at := from; at < m.start+m.size; {
			p, err := mappingAt(tid, at)
			if err != nil {
				break // the program has unmapped it
			}
			huge := p.hugePageSize(tid)
			wanted := huge > 0 || r.options.Protect == ProtectAll
			if reason := r.protectMapping(t, m, &p, at, huge); reason != "" && wanted &&
				!m.reportedMixed {
				m.reportedMixed = true
				pages := ""
				if huge > 0 {
					pages = " in huge pages"
				}
				r.reportEvent("host memory at bus address 0x%x (%d bytes%s): "+
					"a device's writes to a page that the program also writes "+
					"are attributed to the program, because %s",
					m.bus, m.size, pages, reason)
			}
			at = p.end
		}
	}
	r.stopCallsWithPointers(t)
}

// stopCallsWithPointers makes the kernel stop system calls that have a pointer to protected memory.
// It ends the protection of memory for which it cannot.
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
			r.reportEvent("host memory of process %d at 0x%x (%d bytes): "+
				"a device's writes to a page that the program also writes "+
				"are attributed to the program, because of too many mappings",
				t.process, start, end-start)
		}
	}
}

// protectMapping adds areas with open pages for the part of m that is in the mapping p, from an
// address on. If it cannot, it returns the reason. huge is the size of the mapping's huge pages, or
// 0.
func (r *recording) protectMapping(
	t *thread, m *dmaRange, p *mapping, from, huge uint64,
) (reason string) {
	all := r.options.Protect == ProtectAll
	switch {
	case p.prot&unix.PROT_WRITE == 0:
		return "" // the program does not store there
	case r.options.Protect == ProtectNone:
		return "of --protect none"
	case !all && huge == 0:
		return ""
	case t.space.usesKVM:
		return "the program uses KVM, so lm does not protect its memory"
	case m.space != t.space:
		return "another process stores to the device"
	case !p.shared && huge > 0:
		return "these huge pages are private to the process, so lm cannot store to them: map " +
			"them with MAP_SHARED, or add --watch"
	}
	unit := max(huge, pageSize)
	start, end := max(p.start, from&^(unit-1)), min(p.end, (m.start+m.size+unit-1)&^(unit-1))
	for start < end {
		if a := t.space.areaAt(start); a != nil {
			start = a.end
			continue
		}
		to := min(end, t.space.nextStart(start))
		a := area{start: start, end: to, prot: p.prot}
		a.guard = &guard{owner: t.space, pageBytes: unit, open: map[uint64]bool{},
			storeCost: map[uint64]int{}}
		if p.shared {
			var err error
			if a.view, err = p.mapView(t.tid, start, to-start); err != nil {
				return fmt.Sprintf("lm cannot map the memory (%v)", err)
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

// openPagesAgain records what the device wrote to the pages between two addresses, and opens them.
// Until they are closed, a device's writes to them count as the program's: openPagesAgain reports
// that, with the reason `why`. With an empty `why` it reports nothing, because the caller closes
// the pages before the program continues.
func (r *recording) openPagesAgain(t *thread, a *area, start, end uint64, why string) error {
	g := a.guard
	start, end = max(g.page(start), a.start), min((end+g.pageBytes-1)&^(g.pageBytes-1), a.end)
	bus := uint64(0)
	for _, m := range slices.Clone(r.hostMemory.ranges) {
		first, last := max(m.start, start), min(m.start+m.size, end)
		if m.space != t.space || first >= last {
			continue
		}
		bus = m.bus + first - m.start
		r.recordChangesBetween(byDevice, bus, m.bus+last-m.start-1)
	}
	if _, err := r.injectCall(t, unix.SYS_MPROTECT, start, end-start, a.prot); err != nil {
		return err
	}
	for at := start; at < end; at += g.pageBytes {
		g.open[at] = true
	}
	if key := fmt.Sprintf("open %x", bus); why != "" && bus != 0 && !r.reportedOnce[key] {
		r.reportedOnce[key] = true
		r.reportEvent("host memory at bus address 0x%x: "+
			"a device's writes to this page are attributed "+
			"to the program until the next store to a BAR, because %s", bus, why)
	}
	return nil
}

// handleStoreFault handles a fault at a protected page. It returns false if the program would have
// faulted without the recorder too.
func (r *recording) handleStoreFault(t *thread, a *area, info *signalInfo) bool {
	fault := info.address()
	regs, err := registersOf(t.tid)
	if err != nil || fault == regs.pc() || info.code() == codeNotMapped ||
		a.prot&unix.PROT_WRITE == 0 {
		return false
	}
	if !a.isClosed(fault) {
		return true // the page was opened for another thread; this thread repeats the store
	}
	g, at := a.guard, a.guard.page(fault)
	why := ""
	if err := step(t.tid, fault, &memory{r, t}); err != nil {
		why = fmt.Sprintf("lm cannot execute an instruction that stores to the page: %v", err)
	} else if g.storeCost[at] += guardStop; g.storeCost[at] > guardStores {
		why = fmt.Sprintf("the program made more than %d stores to the page", guardStores/guardStop)
	}
	// the list of areas may have changed
	if a = t.space.areaAt(fault); why != "" && a != nil && a.guard != nil {
		return r.openPagesAgain(t, a, at, at+1, why) == nil
	}
	return true
}

// storeGuarded makes a store of the program to protected memory. Before the store it records what
// the device has written to the same words.
func (m *memory) storeGuarded(a *area, address uint64, data []byte) error {
	if a.prot&unix.PROT_WRITE == 0 {
		return &accessFault{unix.SIGSEGV, codeForbidden, address}
	}
	// false for a child process's copy of the memory
	isReached := m.space == a.guard.owner || a.view != nil
	if isReached {
		m.eachDMARange(a.guard.owner, address, uint64(len(data)),
			func(h *dmaRange, at, n, _ uint64) {
				m.recordDeviceWords(a, h, at, n)
			})
	}
	if err := m.accessHost(a, address, data, true); err != nil {
		return fmt.Errorf("lm cannot write to the program's memory: %w", err)
	}
	if isReached {
		m.eachDMARange(a.guard.owner, address, uint64(len(data)),
			func(h *dmaRange, at, n, from uint64) {
				m.hostMemory.pages.Set(h.bus+at, data[from:from+n])
				h.noteProgramStore(at, n)
			})
	}
	return nil
}

// eachDMARange calls a function for each part of n bytes of memory that a device reaches. The
// arguments are the range, the offset of the part in the range, its length, and its offset in the n
// bytes.
func (r *recording) eachDMARange(s *space, address, n uint64,
	do func(m *dmaRange, at, n, from uint64)) {
	for _, m := range r.hostMemory.ranges {
		first, end := max(m.start, address), min(m.start+m.size, address+n)
		if m.space == s && first < end {
			do(m, first-m.start, end-first, first-address)
		}
	}
}

// recordDeviceWords records what a device has written to the words of h in which n bytes at the
// offset `at` lie. The program's earlier stores come first.
func (m *memory) recordDeviceWords(a *area, h *dmaRange, at, n uint64) {
	first, end := at&^(wordSize-1), min((at+n+wordSize-1)&^(wordSize-1), h.size)
	now := make([]byte, end-first)
	if address := h.start + first; address < a.start || address+uint64(len(now)) > a.end ||
		m.accessHost(a, address, now, false) != nil {
		return
	}
	list := m.hostMemory.differingWords(h.bus+first, now, byDeviceSeen)
	if len(list) == 0 {
		return
	}
	m.out.hostChanges(m.takeProgramStores(h)) // the program made these stores earlier
	m.out.hostChanges(list)
	m.hostMemory.pages.Set(h.bus+first, now)
}

// endProtection ends the protection of memory between two addresses. t is a thread of the
// process.
func (r *recording) endProtection(t *thread, start, end uint64) {
	for _, a := range t.space.areasBetween(start, end) {
		if a.guard == nil {
			continue
		}
		from, to := max(a.guard.page(a.start), start&^(a.guard.pageBytes-1)),
			(a.end+a.guard.pageBytes-1)&^(a.guard.pageBytes-1)
		_, _ = r.injectCall(t, unix.SYS_MPROTECT, from, to-from, a.prot)
		t.space.remove(from, to)
	}
}

// resetProtected makes protectNewMemory protect the memory between two addresses again at the next
// store to a BAR, because the memory has lost its areas.
func (r *recording) resetProtected(s *space, start, end uint64) {
	for _, m := range r.hostMemory.ranges {
		if m.space == s && m.start < end && start < m.start+m.size {
			m.protectTriedSize = 0
		}
	}
}

// resultArguments lists, for system calls, the arguments that point to memory to which the kernel
// stores. Lists of buffers are not included. For other calls, every argument may be such a pointer.
// The table has the calls that drivers make often or wait in: a register that is not an argument of
// the call may still contain an old pointer to protected memory.
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

// kernelStores returns the memory to which the kernel may store in a system call.
func kernelStores(t *thread, c *call) (list []span) {
	arguments, known := resultArguments[c.number]
	for i, p := range pointers(t, c) {
		if !known || slices.Contains(arguments, i) ||
			i >= len(c.arguments) && !readsBuffers(c.number) {
			list = append(list, p)
		}
	}
	return append(list, mappedForDevice(t, c)...)
}

// readsBuffers reports whether the kernel only reads the buffers of a call with a list of buffers.
func readsBuffers(number uint64) bool {
	switch number {
	case unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_PWRITEV2, unix.SYS_SENDMSG:
		return true
	}
	return false
}

// closedPages returns the closed pages to which the kernel stores in a system call.
func (t *thread) closedPages(c *call) (list []span) {
	if isMemoryCall(c.number) ||
		!slices.ContainsFunc(t.space.areas, func(a area) bool { return a.guard != nil }) {
		return nil
	}
	for _, p := range kernelStores(t, c) {
		for i := range t.space.areas {
			a := &t.space.areas[i]
			if a.guard == nil || p.first >= a.end || p.end <= a.start {
				continue
			}
			end := p.end
			for _, v := range c.arguments { // one of the arguments may be the length
				if end == p.first+1 && v < a.end-p.first {
					end = max(end, p.first+v)
				}
			}
			first := max(a.guard.page(max(p.first, a.start)), a.start)
			end = min((end+a.guard.pageBytes-1)&^(a.guard.pageBytes-1), a.end)
			for at := first; at < end; at += a.guard.pageBytes {
				if a.isClosed(at) {
					list = append(list, span{first, end})
					break
				}
			}
		}
	}
	return list
}

// mappedForDevice returns the memory that an ioctl request maps for a device. The kernel checks
// that the program may store to this memory.
func mappedForDevice(t *thread, c *call) []span {
	if c.number != unix.SYS_IOCTL {
		return nil
	}
	at, ok := map[uint32]int{requestMap: 2, requestIOMap: 4, ttPin: 2}[uint32(c.arguments[1])]
	if !ok {
		return nil
	}
	w, ok := readWords(t, c.arguments[2], at+4)
	if !ok {
		return nil
	}
	first, n := uint64At(w, at), uint64At(w, at+2)
	if uint32(c.arguments[1]) == requestMap {
		if w, ok = readWords(t, c.arguments[2], 8); !ok {
			return nil
		}
		n = uint64At(w, 6)
	}
	return []span{{first, first + n}}
}

// postponeCall makes the kernel skip a system call that would fail because it stores to closed
// pages. restartCall opens the pages when the skipped call exits, and the thread makes the call
// again.
func (r *recording) postponeCall(t *thread, c *call, regs *registers, pages []span) bool {
	if regs.skipCall(t.tid) != nil {
		return false
	}
	c.pagesToOpen, c.isMinor, t.call = pages, true, c
	return ptrace(unix.PTRACE_SYSCALL, t.tid, 0, 0) == nil
}

// restartCall opens the pages of a postponed call, and makes the thread make the call again.
func (r *recording) restartCall(t *thread, c *call, regs *registers) {
	for _, p := range c.pagesToOpen {
		for _, a := range t.space.areasBetween(p.first, p.end) {
			if a.guard != nil {
				_ = r.openPagesAgain(t, &a, a.start, a.end, "")
			}
		}
	}
	t.openedPages = c.pagesToOpen
	regs.setPC(regs.pc() - uint64(len(callInstruction)))
	regs.setCall(c.number, c.arguments[:])
	_ = regs.write(t.tid)
}

// closePagesAfter closes the pages that were opened for a system call. It records the kernel's
// stores to them as the program's.
func (r *recording) closePagesAfter(t *thread, c *call) {
	for _, p := range c.openedPages {
		var closed closingPages
		for _, a := range t.space.areasBetween(p.first, p.end) {
			if a.guard == nil || a.guard.owner != t.space {
				continue
			}
			closed = append(closed, r.closeRange(t, &a, a.start, a.end)...)
			for _, m := range slices.Clone(r.hostMemory.ranges) {
				if first, end := max(m.start, a.start),
					min(m.start+m.size, a.end); m.space == t.space && first < end {
					r.recordChangesBetween(byProgram, m.bus+first-m.start, m.bus+end-1-m.start)
				}
			}
		}
		closed.markClosed()
	}
}
