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

// follower executes the instructions that follow an access to a BAR, up to the next ones, without
// a stop for each. Each access to a BAR is made and recorded as at a stop of its own. Ordinary
// memory is read in chunks, and only of the last chunk are loads taken, so that loads are in the
// order of the program; an access to a BAR that is a load ends the chunk.
//
// The kernel copies ordinary memory by words, or by REP MOVSB, of which no manual says that other
// threads never see half of a word. Then small stores outside of the stack, of a program of several
// threads, are the thread's.
type follower struct {
	x86.Follower
	memory *memory
	state  *x86.State
	// how often following paid after an instruction, less how often it did not
	paid map[uint64]int8

	address  uint64 // of the instruction that the thread stopped at
	since    time.Time
	idle     int      // instructions since the last access to a BAR
	accesses int      // to BARs, that were followed
	timed    int      // of them, when the time was last compared
	loaded   []uint64 // addresses in BARs since the last store to one
	code     [8]codeCopy
	oldest   int // of code: the last that was read
	data     chunk
	stack    stackCopy
	// the last chunk of data, which may have been forgotten since; end 0: there was none
	lastFirst, lastEnd uint64

	// arguments of system calls, which lie on the heap as those of ptrace
	local  unix.Iovec
	remote unix.RemoteIovec
}

// part is a copy of a part of memory.
type part struct {
	start uint64
	bytes []byte
}

// chunk is a copy of data.
type chunk struct {
	part
	room, again [page]byte
}

// codeCopy is a copy of code.
type codeCopy struct {
	part
	room [codeChunk]byte
}

// forgetCode has all code read again.
func (f *follower) forgetCode() {
	for n := range f.code {
		f.code[n].bytes = nil
	}
}

const (
	codeChunk = 256 // bytes of code that are read at once
	dataChunk = 64  // bytes of data, unless loads are of one address after the other
	near      = 256 // bytes between two loads of which one is after the other

	followTime = 250 * time.Microsecond // how long other threads and signals wait
	followIdle = 256                    // instructions without an access to a BAR
	copyCost   = 16                     // as many instructions take as long as a copy

	// stopTime is what a stop takes at least, with what it has the program's caches forget.
	stopTime = 10 * time.Microsecond

	// loadsMost is how many loads of a BAR are followed without a store to one. A load from an
	// address of them is a poll, whose time is the program's: it is a stop.
	loadsMost = 64

	paidLeast, paidMost = -100, 4
	paidMemory          = 1 << 16 // instructions of which that is known
)

// begin reads the code at which a thread stopped.
func (f *follower) begin(m *memory, address uint64) []byte {
	f.memory, f.address, f.since = m, address, m.out.since
	f.idle, f.accesses, f.timed, f.lastEnd = 0, 0, 0, 0
	f.loaded = f.loaded[:0]
	f.data.bytes, f.stack.bytes = nil, nil
	f.forgetCode()
	return f.Fetch(address)
}

// run follows from a state on, if that has paid or may pay.
func (f *follower) run(s *x86.State) {
	if f.paid == nil || len(f.paid) > paidMemory {
		f.paid = map[uint64]int8{}
	}
	paid := f.paid[f.address]
	if paid < 0 && paid > paidLeast {
		f.paid[f.address] = paid - 1
		return
	}
	if paid == paidLeast {
		paid = 0
	}
	f.state = s
	if loaded := f.memory.loadedAt; loaded != 0 {
		f.loaded = append(f.loaded, loaded)
	}
	f.stack.tried = !f.ownsStack()
	began := f.memory.out.wall()
	f.Follow(s, f)
	f.stack.flush(f.memory.tid)
	took := f.memory.out.wall().Sub(began)
	if took < time.Duration(f.accesses)*stopTime {
		f.paid[f.address] = paidMost
	} else if paid--; paid <= 0 {
		f.paid[f.address] = -1
	} else {
		f.paid[f.address] = paid
	}
}

// transfer reads or writes ordinary memory in one page, and reports whether it could.
func (f *follower) transfer(call uintptr, address uint64, data []byte) bool {
	f.idle += copyCost
	f.local = unix.Iovec{Base: &data[0], Len: uint64(len(data))}
	f.remote = unix.RemoteIovec{Base: uintptr(address), Len: len(data)}
	n, _, err := unix.Syscall6(call, uintptr(f.memory.tid), uintptr(unsafe.Pointer(&f.local)), 1,
		uintptr(unsafe.Pointer(&f.remote)), 1, 0)
	return err == 0 && int(n) == len(data)
}

// read reads n bytes into a chunk, or up to the end of the page. What it reads is of one moment:
// the kernel copies one word after the other, so it is read twice, and has to be the same.
func (f *follower) read(c *chunk, address uint64, n uint64) {
	c.start, c.bytes = address, c.room[:min(n, page-address%page)]
	again := c.again[:len(c.bytes)]
	if !f.transfer(unix.SYS_PROCESS_VM_READV, address, c.bytes) ||
		!f.transfer(unix.SYS_PROCESS_VM_READV, address, again) || !bytes.Equal(again, c.bytes) {
		c.bytes = nil
	}
}

// mayTear reports whether another thread, or a device, may access a word of which the kernel has
// copied half.
func (f *follower) mayTear() bool {
	return copiesByBytes && (f.memory.space.uses > 1 || len(f.memory.hosts.reached) > 0)
}

// copiesByBytes is whether the kernel uses REP MOVSB: CPUID says that it is fast (ERMS or FSRM).
var copiesByBytes = func() bool {
	const leaf, erms, fsrm = 7, 1 << 9, 1 << 4
	_, b, _, d := cpuid(leaf, 0)
	return b&erms != 0 || d&fsrm != 0
}()

// isStack reports whether an address is near the top of the thread's stack.
func (f *follower) isStack(address uint64) bool {
	const redZone, rsp = 128, 4
	return address-(f.state.Reg[rsp]-redZone) < page
}

// at returns n bytes at an address, nil if the part does not have them.
func (c *part) at(address uint64, n int) []byte {
	if from := address - c.start; from < uint64(len(c.bytes)) &&
		from+uint64(n) <= uint64(len(c.bytes)) {
		return c.bytes[from:][:n]
	}
	return nil
}

// Fetch returns up to 15 bytes of code.
func (f *follower) Fetch(address uint64) []byte {
	const most = 15
	for n := range f.code {
		if code := f.code[n].at(address, most); code != nil {
			return code
		}
	}
	f.oldest = (f.oldest + 1) % len(f.code)
	c := &f.code[f.oldest]
	if f.stack.overlaps(address, codeChunk) {
		f.stack.flush(f.memory.tid)
	}
	c.start, c.bytes = address, c.room[:codeChunk]
	c.bytes = c.bytes[:readMemory(f.memory.tid, address, c.bytes)]
	if len(c.bytes) == 0 { // it can only be executed
		c.bytes = c.room[:most]
		c.bytes = c.bytes[:readCode(f.memory.tid, address, c.bytes)]
	}
	f.idle += copyCost
	return c.bytes[:min(most, len(c.bytes))]
}

// More reports whether another instruction is to be followed.
func (f *follower) More() bool {
	f.idle++
	if f.accesses > f.timed { // not between the load and the store of an instruction
		f.timed = f.accesses
		if f.memory.out.wall().Sub(f.since) > followTime {
			return false
		}
	}
	limit := f.memory.options.Limit
	return f.idle <= followIdle && (limit == 0 || f.memory.accesses < limit) && !f.memory.ending
}

// errNotFollowed is the error of an access that the thread makes itself, or at its next stop.
var errNotFollowed = errors.New("not followed")

// bar returns the area of a BAR that has all of an access, nil if it is of ordinary memory,
// which may be protected.
// Other accesses are not followed.
func (f *follower) bar(address uint64, size int) (*area, error) {
	s := f.memory.space
	a := s.find(address)
	switch {
	case a == nil && s.next(address)-address >= uint64(size),
		a != nil && a.guard != nil && a.end-address >= uint64(size):
		return nil, nil
	case a == nil, a.host != nil, a.end-address < uint64(size),
		a.prot&unix.PROT_WRITE == 0:
		return nil, errNotFollowed
	}
	return a, nil
}

// Load makes a load.
func (f *follower) Load(address uint64, data []byte) error {
	a, err := f.bar(address, len(data))
	if err != nil {
		return err
	}
	if a == nil {
		return f.loadOrdinary(address, data)
	}
	if len(f.loaded) >= loadsMost || slices.Contains(f.loaded, address) {
		return errNotFollowed
	}
	f.data.bytes = nil
	if err := f.memory.loadBar(a, address, data); err != nil {
		return err
	}
	f.loaded = append(f.loaded, address)
	f.idle, f.accesses = 0, f.accesses+1
	return nil
}

func (f *follower) loadOrdinary(address uint64, data []byte) error {
	if there := f.stackAt(address, len(data)); there != nil {
		copy(data, there)
		return nil
	} else if f.stack.overlaps(address, len(data)) {
		return errNotFollowed // in part
	}
	there := f.data.at(address, len(data))
	if there == nil {
		f.readData(address, uint64(len(data)))
		there = f.data.at(address, len(data))
	}
	if there == nil { // it crosses a page, or has just changed
		f.data.bytes = nil
		if address%page+uint64(len(data)) <= page || f.mayTear() ||
			readMemory(f.memory.tid, address, data) < len(data) {
			return errNotFollowed
		}
		there = data
	}
	copy(data, there)
	return nil
}

// readData reads the chunk for a load. Near the chunk before it loads go upwards or downwards
// through memory: then it is as much of a page as they may need.
func (f *follower) readData(address, n uint64) {
	first, end := f.lastFirst, f.lastEnd
	from, to := address&^(dataChunk-1), (address+n+dataChunk-1)&^(dataChunk-1)
	switch {
	case end == 0:
	case address >= first && address < end+near:
		from, to = address, address+page
	case address < first && first-address < near:
		from, to = address&^(page-1), max(to, first)
	}
	f.read(&f.data, from, to-from)
	f.lastFirst, f.lastEnd = from, from+uint64(len(f.data.bytes))
}

// Store makes a store.
func (f *follower) Store(address uint64, data []byte) error {
	a, err := f.bar(address, len(data))
	if err != nil {
		return err
	}
	if a != nil {
		if err := f.memory.storeBar(a, address, data); err != nil {
			return err
		}
		f.loaded = f.loaded[:0]
		f.idle, f.accesses = 0, f.accesses+1
		return nil
	}
	if f.memory.space.find(address) != nil {
		return f.storeGuarded(address, data)
	}
	if there := f.stackAt(address, len(data)); there != nil &&
		f.stack.store(address, there, data) {
		return nil
	}
	const word = 8
	if address%page+uint64(len(data)) > page ||
		f.mayTear() && len(data) <= word && !f.isStack(address) ||
		!f.transfer(unix.SYS_PROCESS_VM_WRITEV, address, data) {
		return errNotFollowed
	}
	if f.stack.overlaps(address, len(data)) { // it can be written
		f.stack.written(address, data)
	}
	for n := range f.code {
		if f.code[n].overlaps(address, len(data)) {
			f.forgetCode()
		}
	}
	if there := f.data.at(address, len(data)); there != nil {
		copy(there, data)
	} else if f.data.overlaps(address, len(data)) {
		f.data.bytes = nil
	}
	return nil
}

// storeGuarded makes a store to a closed page of protected memory.
func (f *follower) storeGuarded(address uint64, data []byte) error {
	a := f.memory.space.find(address)
	g := a.guard
	at := g.page(address)
	if g.page(address+uint64(len(data))-1) != at || !a.isClosed(address) ||
		g.stores[at] >= guardStores || f.memory.storeGuarded(a, address, data) != nil {
		return errNotFollowed
	}
	g.stores[at]++
	if f.data.overlaps(address, len(data)) {
		f.data.bytes = nil
	}
	f.idle, f.accesses = 0, f.accesses+1
	return nil
}

// stackCopy is a part of the thread's stack while it is stopped, if no other thread and no device
// writes there: loads and stores need no system call. Stores are written to the thread at the end.
type stackCopy struct {
	chunk
	tried    bool            // to read it
	writable map[uint64]bool // pages to which a store has been made
	from, to uint64          // that is not written yet; to 0: nothing
}

// ownsStack reports whether only the thread itself writes to its stack.
func (f *follower) ownsStack() bool {
	s, top := f.memory.space, f.state.Reg[4]
	if s.uses > 1 {
		return false
	}
	return !slices.ContainsFunc(f.memory.hosts.reached, func(m *reached) bool {
		return m.space == s && m.start < top+page && top < m.start+m.size()+page
	})
}

// stackAt returns n bytes of the copy at an address, nil if it does not have them.
func (f *follower) stackAt(address uint64, n int) []byte {
	const below = 1024 // of what is read, below the top
	c := &f.stack
	if !c.tried && f.isStack(address) {
		c.tried = true
		c.start, c.bytes, c.to = (f.state.Reg[4]-below)&^(dataChunk-1), c.room[:], 0
		c.writable = map[uint64]bool{}
		f.idle += copyCost
		s := f.memory.space
		if s.find(c.start) != nil || s.next(c.start) < c.start+page ||
			readMemory(f.memory.tid, c.start, c.bytes) < len(c.bytes) {
			c.bytes = nil
		}
	}
	return c.at(address, n)
}

// store stores to the copy. It returns false if no store to the page has shown yet that it can be
// written.
func (c *stackCopy) store(address uint64, there, data []byte) bool {
	end := address + uint64(len(data))
	if !c.writable[address/page] || !c.writable[(end-1)/page] {
		return false
	}
	copy(there, data)
	if c.to == 0 {
		c.from = address
	}
	c.from, c.to = min(c.from, address), max(c.to, end)
	return true
}

// written notes a store that the thread's memory has already.
func (c *stackCopy) written(address uint64, data []byte) {
	c.writable[address/page] = true
	if there := c.at(address, len(data)); there != nil {
		copy(there, data)
		return
	}
	for n, b := range data { // in part
		if there := c.at(address+uint64(n), 1); there != nil {
			there[0] = b
		}
	}
}

// flush writes what was stored to the thread's memory.
func (c *stackCopy) flush(tid int) {
	if c.to != 0 {
		writeMemory(tid, c.from, c.at(c.from, int(c.to-c.from)))
		c.to = 0
	}
}

// overlaps reports whether a part has some of n bytes at an address.
func (c *part) overlaps(address uint64, n int) bool {
	return address < c.start+uint64(len(c.bytes)) && c.start < address+uint64(n)
}
