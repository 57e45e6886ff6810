package recorder

import (
	"bytes"
	"errors"
	"slices"
	"time"
	"unsafe"

	"lightmetal/tools/capture/recorder/x86"

	"golang.org/x/sys/unix"
)

// follower executes the instructions after an access to a BAR, up to the next accesses, without a
// stop of the thread for each. It makes and records each access to a BAR as at a stop. It reads
// ordinary memory in chunks, and takes loads only from the chunk that it has read last, so that the
// loads are in program order. A load from a BAR discards the chunk.
//
// The kernel copies ordinary memory either in words, or with REP MOVSB, for which no manual says
// that other threads never see half of a word. In the second case, if the process has several
// threads, the thread itself makes small stores outside of its stack.
type follower struct {
	x86.Follower
	memory *memory
	state  *x86.State
	// By the address of the instruction at which a thread stopped. Above 0: after this many times
	// without a gain, following ends there. Below 0: minus the stops without following since then;
	// at benefitMin, it is tried again.
	benefit map[uint64]int8

	address uint64 // address of the instruction at which the thread stopped
	since   time.Time
	// instructions since the last access to a BAR; a copy of memory counts copyCost
	instructionsSinceAccess int
	accesses                int      // number of accesses to BARs that were followed
	accessesAtTimeCheck     int      // number of accesses when the time was last checked
	loadedAddresses         []uint64 // addresses of loads from BARs since the last store to a BAR
	codeCopies              [8]codeCopy
	lastCodeCopy            int // index of the copy of code that was read last
	data                    dataCopy
	stack                   stackCopy
	// The chunk of data that was read last, also if it was discarded; end 0: no chunk was read.
	lastFirst, lastEnd uint64

	// Arguments of system calls. They are fields because they must be on the heap, as for ptrace.
	local  unix.Iovec
	remote unix.RemoteIovec
}

type memoryCopy struct {
	start uint64
	bytes []byte
}

type dataCopy struct {
	memoryCopy
	buffer, secondBuffer [pageSize]byte
}

type codeCopy struct {
	memoryCopy
	buffer [codeChunk]byte
}

// discardCode discards all copies of code, so that code is read again.
func (f *follower) discardCode() {
	for n := range f.codeCopies {
		f.codeCopies[n].bytes = nil
	}
}

const (
	codeChunk = 256 // bytes of code that are read at once
	// bytes of data that are read at once, unless loads are at consecutive addresses
	dataChunk    = 64
	nearDistance = 256 // most bytes between two loads that count as consecutive

	followTimeMax = 250 * time.Microsecond // longest time that other threads and signals wait
	followIdleMax = 256                    // most instructions without an access to a BAR
	// number of instructions that take as long as a copy of memory
	copyCost = 16

	// stopTime is the least time that a stop takes, including the effect on the program's caches.
	stopTime = 10 * time.Microsecond

	// followedLoadsMax is the number of loads from BARs that are followed without a store to a BAR.
	// A second load from the same address is a poll. It is not followed, so that the program
	// determines the time between polls.
	followedLoadsMax = 64

	benefitMin, benefitMax = -100, 4
	benefitEntriesMax      = 1 << 16 // most entries of benefit
)

// begin prepares the follower for a stop of a thread at an address, and returns the code there.
func (f *follower) begin(m *memory, address uint64) []byte {
	f.memory, f.address, f.since = m, address, m.out.stopBegan
	f.instructionsSinceAccess, f.accesses, f.accessesAtTimeCheck, f.lastEnd = 0, 0, 0, 0
	f.loadedAddresses = f.loadedAddresses[:0]
	f.data.bytes, f.stack.bytes = nil, nil
	f.discardCode()
	return f.Fetch(address)
}

// run follows the instructions from a state on, unless benefit says that this saves no time at this
// address.
func (f *follower) run(s *x86.State) {
	if f.benefit == nil || len(f.benefit) > benefitEntriesMax {
		f.benefit = map[uint64]int8{}
	}
	paid := f.benefit[f.address]
	if paid < 0 && paid > benefitMin {
		f.benefit[f.address] = paid - 1
		return
	}
	if paid == benefitMin {
		paid = 0
	}
	f.state = s
	if loaded := f.memory.lastLoadAddress; loaded != 0 {
		f.loadedAddresses = append(f.loadedAddresses, loaded)
	}
	f.stack.readTried = !f.ownsStack()
	began := f.memory.out.now()
	f.Follow(s, f)
	f.stack.flush(f.memory.tid)
	took := f.memory.out.now().Sub(began)
	if took < time.Duration(f.accesses)*stopTime {
		f.benefit[f.address] = benefitMax
	} else if paid--; paid <= 0 {
		f.benefit[f.address] = -1
	} else {
		f.benefit[f.address] = paid
	}
}

// transferInPage reads or writes ordinary memory in one page, and reports whether it has succeeded.
func (f *follower) transferInPage(call uintptr, address uint64, data []byte) bool {
	f.instructionsSinceAccess += copyCost
	f.local = unix.Iovec{Base: &data[0], Len: uint64(len(data))}
	f.remote = unix.RemoteIovec{Base: uintptr(address), Len: len(data)}
	n, _, err := unix.Syscall6(call, uintptr(f.memory.tid), uintptr(unsafe.Pointer(&f.local)), 1,
		uintptr(unsafe.Pointer(&f.remote)), 1, 0)
	return err == 0 && int(n) == len(data)
}

// readConsistent reads n bytes into a copy, or fewer at the end of a page. The kernel copies memory
// word by word. Therefore it reads the memory twice, and discards the copy if the contents differ:
// the copy must be what the memory contained at one moment.
func (f *follower) readConsistent(c *dataCopy, address uint64, n uint64) {
	c.start, c.bytes = address, c.buffer[:min(n, pageSize-address%pageSize)]
	again := c.secondBuffer[:len(c.bytes)]
	if !f.transferInPage(unix.SYS_PROCESS_VM_READV, address, c.bytes) ||
		!f.transferInPage(unix.SYS_PROCESS_VM_READV, address, again) ||
		!bytes.Equal(again, c.bytes) {
		c.bytes = nil
	}
}

// mayTear reports whether another thread, or a device, may see half of a word that the kernel is
// copying.
func (f *follower) mayTear() bool {
	return copiesByBytes && (f.memory.space.threadCount > 1 || len(f.memory.hostMemory.ranges) > 0)
}

// copiesByBytes reports whether the kernel copies with REP MOVSB: it does if CPUID says that the
// instruction is fast (ERMS or FSRM).
var copiesByBytes = func() bool {
	const leaf, erms, fsrm = 7, 1 << 9, 1 << 4
	_, b, _, d := cpuid(leaf, 0)
	return b&erms != 0 || d&fsrm != 0
}()

// isStack reports whether an address is in the page above the top of the thread's stack, or in the
// red zone below the top.
func (f *follower) isStack(address uint64) bool {
	const redZone, rsp = 128, 4
	return address-(f.state.Reg[rsp]-redZone) < pageSize
}

// bytesAt returns n bytes of the copy at an address, or nil if the copy does not contain all of
// them.
func (c *memoryCopy) bytesAt(address uint64, n int) []byte {
	if from := address - c.start; from < uint64(len(c.bytes)) &&
		from+uint64(n) <= uint64(len(c.bytes)) {
		return c.bytes[from:][:n]
	}
	return nil
}

// Fetch implements x86.Code: it returns up to 15 bytes of code.
func (f *follower) Fetch(address uint64) []byte {
	const most = 15
	for n := range f.codeCopies {
		if code := f.codeCopies[n].bytesAt(address, most); code != nil {
			return code
		}
	}
	f.lastCodeCopy = (f.lastCodeCopy + 1) % len(f.codeCopies)
	c := &f.codeCopies[f.lastCodeCopy]
	if f.stack.overlaps(address, codeChunk) {
		f.stack.flush(f.memory.tid)
	}
	c.start, c.bytes = address, c.buffer[:codeChunk]
	c.bytes = c.bytes[:readMemory(f.memory.tid, address, c.bytes)]
	if len(c.bytes) == 0 { // the code is executable but not readable
		c.bytes = c.buffer[:most]
		c.bytes = c.bytes[:readCode(f.memory.tid, address, c.bytes)]
	}
	f.instructionsSinceAccess += copyCost
	return c.bytes[:min(most, len(c.bytes))]
}

// More implements x86.Code: it reports whether another instruction is to be followed.
func (f *follower) More() bool {
	f.instructionsSinceAccess++
	// the time is checked only after an access, never between the load and the store of one
	// instruction
	if f.accesses > f.accessesAtTimeCheck {
		f.accessesAtTimeCheck = f.accesses
		if f.memory.out.now().Sub(f.since) > followTimeMax {
			return false
		}
	}
	limit := f.memory.options.AccessLimit
	return f.instructionsSinceAccess <= followIdleMax &&
		(limit == 0 || f.memory.accesses < limit) &&
		!f.memory.isKilled
}

// errNotFollowed is the error of an access that is not followed: the thread makes it itself, or
// stops there.
var errNotFollowed = errors.New("not followed")

// barArea returns the area of the BAR that contains an entire access. It returns nil if the access
// is to ordinary memory, which may be protected. Other accesses are not followed.
func (f *follower) barArea(address uint64, size int) (*area, error) {
	s := f.memory.space
	a := s.areaAt(address)
	switch {
	case a == nil && s.nextStart(address)-address >= uint64(size),
		a != nil && a.guard != nil && a.end-address >= uint64(size):
		return nil, nil
	case a == nil, a.watched != nil, a.end-address < uint64(size),
		a.prot&unix.PROT_WRITE == 0:
		return nil, errNotFollowed
	}
	return a, nil
}

// Load implements x86.Memory.
func (f *follower) Load(address uint64, data []byte) error {
	a, err := f.barArea(address, len(data))
	if err != nil {
		return err
	}
	if a == nil {
		return f.loadOrdinary(address, data)
	}
	if len(f.loadedAddresses) >= followedLoadsMax || slices.Contains(f.loadedAddresses, address) {
		return errNotFollowed
	}
	f.data.bytes = nil
	if err := f.memory.loadArea(a, address, data); err != nil {
		return err
	}
	f.loadedAddresses = append(f.loadedAddresses, address)
	f.instructionsSinceAccess, f.accesses = 0, f.accesses+1
	return nil
}

func (f *follower) loadOrdinary(address uint64, data []byte) error {
	if there := f.stackAt(address, len(data)); there != nil {
		copy(data, there)
		return nil
	} else if f.stack.overlaps(address, len(data)) {
		return errNotFollowed // the copy of the stack contains only a part of it
	}
	there := f.data.bytesAt(address, len(data))
	if there == nil {
		f.readData(address, uint64(len(data)))
		there = f.data.bytesAt(address, len(data))
	}
	if there == nil { // the load crosses a page, or the memory has just changed
		f.data.bytes = nil
		if address%pageSize+uint64(len(data)) <= pageSize || f.mayTear() ||
			readMemory(f.memory.tid, address, data) < len(data) {
			return errNotFollowed
		}
		there = data
	}
	copy(data, there)
	return nil
}

// readData reads the chunk for a load. If the load is near the last chunk, loads go through memory
// upwards or downwards, and readData reads the part of the page that the next loads may need.
func (f *follower) readData(address, n uint64) {
	first, end := f.lastFirst, f.lastEnd
	from, to := address&^(dataChunk-1), (address+n+dataChunk-1)&^(dataChunk-1)
	switch {
	case end == 0:
	case address >= first && address < end+nearDistance:
		from, to = address, address+pageSize
	case address < first && first-address < nearDistance:
		from, to = address&^(pageSize-1), max(to, first)
	}
	f.readConsistent(&f.data, from, to-from)
	f.lastFirst, f.lastEnd = from, from+uint64(len(f.data.bytes))
}

// Store implements x86.Memory.
func (f *follower) Store(address uint64, data []byte) error {
	a, err := f.barArea(address, len(data))
	if err != nil {
		return err
	}
	if a != nil {
		if err := f.memory.storeArea(a, address, data); err != nil {
			return err
		}
		f.loadedAddresses = f.loadedAddresses[:0]
		f.instructionsSinceAccess, f.accesses = 0, f.accesses+1
		return nil
	}
	if f.memory.space.areaAt(address) != nil {
		return f.storeGuarded(address, data)
	}
	if there := f.stackAt(address, len(data)); there != nil &&
		f.stack.store(address, there, data) {
		return nil
	}
	const word = 8
	if address%pageSize+uint64(len(data)) > pageSize ||
		f.mayTear() && len(data) <= word && !f.isStack(address) ||
		!f.transferInPage(unix.SYS_PROCESS_VM_WRITEV, address, data) {
		return errNotFollowed
	}
	if f.stack.overlaps(address, len(data)) { // the transfer has shown that the page is writable
		f.stack.noteWritten(address, data)
	}
	for n := range f.codeCopies {
		if f.codeCopies[n].overlaps(address, len(data)) {
			f.discardCode()
		}
	}
	if there := f.data.bytesAt(address, len(data)); there != nil {
		copy(there, data)
	} else if f.data.overlaps(address, len(data)) {
		f.data.bytes = nil
	}
	return nil
}

// storeGuarded makes a store to a closed page of protected memory.
func (f *follower) storeGuarded(address uint64, data []byte) error {
	a := f.memory.space.areaAt(address)
	g := a.guard
	at := g.page(address)
	if g.page(address+uint64(len(data))-1) != at || !a.isClosed(address) ||
		g.storeCost[at] >= guardStores || f.memory.storeGuarded(a, address, data) != nil {
		return errNotFollowed
	}
	g.storeCost[at]++
	if f.data.overlaps(address, len(data)) {
		f.data.bytes = nil
	}
	f.instructionsSinceAccess, f.accesses = 0, f.accesses+1
	return nil
}

// stackCopy is a copy of a part of the thread's stack while the thread is stopped, if no other
// thread and no device writes there. Loads and stores then need no system call. flush writes the
// stores to the thread's memory.
type stackCopy struct {
	dataCopy
	readTried           bool            // reading the stack was tried
	writable            map[uint64]bool // page numbers of pages to which a store has succeeded
	dirtyFrom, dirtyEnd uint64          // range that flush must write; dirtyEnd 0: nothing
}

// ownsStack reports whether only the thread itself writes to its stack.
func (f *follower) ownsStack() bool {
	s, top := f.memory.space, f.state.Reg[4]
	if s.threadCount > 1 {
		return false
	}
	return !slices.ContainsFunc(f.memory.hostMemory.ranges, func(m *dmaRange) bool {
		return m.space == s && m.start < top+pageSize && top < m.start+m.size+pageSize
	})
}

// stackAt returns n bytes of the copy of the stack at an address, or nil if the copy does not
// contain them.
func (f *follower) stackAt(address uint64, n int) []byte {
	const below = 1024 // bytes below the top of the stack that the copy contains
	c := &f.stack
	if !c.readTried && f.isStack(address) {
		c.readTried = true
		c.start, c.bytes, c.dirtyEnd = (f.state.Reg[4]-below)&^(dataChunk-1), c.buffer[:], 0
		c.writable = map[uint64]bool{}
		f.instructionsSinceAccess += copyCost
		s := f.memory.space
		if s.areaAt(c.start) != nil || s.nextStart(c.start) < c.start+pageSize ||
			readMemory(f.memory.tid, c.start, c.bytes) < len(c.bytes) {
			c.bytes = nil
		}
	}
	return c.bytesAt(address, n)
}

// store stores to the copy. It returns false if the page may not be writable, because no store to
// it has succeeded yet.
func (c *stackCopy) store(address uint64, there, data []byte) bool {
	end := address + uint64(len(data))
	if !c.writable[address/pageSize] || !c.writable[(end-1)/pageSize] {
		return false
	}
	copy(there, data)
	if c.dirtyEnd == 0 {
		c.dirtyFrom = address
	}
	c.dirtyFrom, c.dirtyEnd = min(c.dirtyFrom, address), max(c.dirtyEnd, end)
	return true
}

// noteWritten updates the copy after a store to the thread's memory.
func (c *stackCopy) noteWritten(address uint64, data []byte) {
	c.writable[address/pageSize] = true
	if there := c.bytesAt(address, len(data)); there != nil {
		copy(there, data)
		return
	}
	for n, b := range data { // the copy contains only a part of the store
		if there := c.bytesAt(address+uint64(n), 1); there != nil {
			there[0] = b
		}
	}
}

// flush writes the stores to the copy to the thread's memory.
func (c *stackCopy) flush(tid int) {
	if c.dirtyEnd != 0 {
		writeMemory(tid, c.dirtyFrom, c.bytesAt(c.dirtyFrom, int(c.dirtyEnd-c.dirtyFrom)))
		c.dirtyEnd = 0
	}
}

// overlaps reports whether the copy contains any of n bytes at an address.
func (c *memoryCopy) overlaps(address uint64, n int) bool {
	return address < c.start+uint64(len(c.bytes)) && c.start < address+uint64(n)
}
