package main

import (
	"sync/atomic"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

const (
	ringMagic       = 0x31474e49524d4c // "LMRING1" and a zero byte, little-endian
	ringHeaderBytes = 4096             // offset of the first slot
	slotAlignBytes  = 64               // of the offset of each slot

	newRingSlots = 8
	maxRingSlots = 1 << 16
)

// ringLockTries attempts take 10 s. Other processes lock a ring only while they create or check it.
var ringLockTries = 1000 // tests set another number

// ringHeader is the beginning of a ring file, as RING.md specifies it.
type ringHeader struct {
	magic         uint64
	slotBytes     uint64
	numberOfSlots uint64
	closed        uint32 // not 0: the writer writes no more slots
	_             [36]byte
	slotsWritten  uint64 // by all writers since the ring was created
	_             [56]byte
	slotsRead     uint64 // released by all readers since then
}

// ring passes the data of one tensor from a writer process to a reader process, through a file that
// both map. RING.md describes it. Each slot has the data of one run.
type ring struct {
	path        string
	memory      []byte // the mapped file; nil before ring.open
	*ringHeader        // in the mapped file
	// dataBytes, the tensor's size, and slotCount are copies of header fields, which the other
	// process can change after attach has checked them.
	dataBytes, slotCount uint64
	slotsMoved           *uint64 // &slotsWritten in the writer, &slotsRead in the reader
	// closedByEarlierWriter is true in a reader that found the ring closed and empty, until data
	// arrive. It then waits for the next writer and reports no end of the data.
	closedByEarlierWriter bool
}

// open opens and maps the file, or creates the ring if the file does not exist or is empty.
func (r *ring) open(isWriter bool) error {
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Open(r.path, flags, 0o660)
	if err == unix.ELOOP {
		return r.notRingError("a symbolic link")
	}
	if err != nil {
		return hal.FileFault(r.path, err)
	}
	defer unix.Close(fd)
	// Closing fd does not unlock a file that is still mapped.
	defer unix.Flock(fd, unix.LOCK_UN)
	if err = r.lockFile(fd); err == nil {
		err = r.mapOrCreate(fd)
	}
	if err == nil {
		err = r.attach(isWriter)
	}
	return hal.FileFault(r.path, err)
}

func (r *ring) lockFile(fd int) error {
	for range ringLockTries {
		if err := files.Lock(fd, 1); err != unix.EAGAIN || stopRequested.Load() != 0 {
			return err
		}
	}
	const reason = ": locked by another process (flock) for 10 s; stop that process"
	return hal.NewFault(hal.IO, r.path+reason)
}

// mapOrCreate maps the file. It first writes the header of a new ring, or of one whose creator was
// killed: its size is right, and its header has only zeros.
func (r *ring) mapOrCreate(fd int) error {
	size, err := r.allocateIfEmpty(fd)
	if err != nil {
		return err
	}
	head := make([]byte, ringHeaderBytes)
	if _, err = unix.Pread(fd, head, 0); err != nil {
		return err
	}
	slots := (size - ringHeaderBytes) / r.slotStride()
	isUnfinished := isAllZero(head) && isValidSlotCount(slots) && size == r.fileBytes(slots)
	switch {
	case isUnfinished:
		// One system call writes the header completely or not at all, even if this process is
		// killed.
		fields := [...]uint64{ringMagic, r.dataBytes, slots}
		data := unsafe.Slice((*byte)(unsafe.Pointer(&fields)), unsafe.Sizeof(fields))
		err = files.WriteFull(fd, data)
	case (*ringHeader)(unsafe.Pointer(&head[0])).magic != ringMagic:
		err = r.notRingError("bad magic")
	}
	if err != nil {
		return err
	}
	const writable, shared = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	r.memory, err = hal.Mmap(fd, 0, int(size), writable, shared)
	return err
}

// allocateIfEmpty returns the size of the file, and first allocates a new ring in an empty one.
func (r *ring) allocateIfEmpty(fd int) (uint64, error) {
	var status unix.Stat_t
	err := unix.Fstat(fd, &status)
	switch {
	case err != nil:
		return 0, err
	case status.Mode&unix.S_IFMT != unix.S_IFREG:
		return 0, r.notRingError("not a regular file")
	case status.Size == 0:
		size := r.fileBytes(newRingSlots)
		return size, unix.Fallocate(fd, 0, 0, int64(size))
	case status.Size < ringHeaderBytes:
		return 0, r.notRingError("shorter than a ring header")
	}
	return uint64(status.Size), nil
}

func isAllZero(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}

func isValidSlotCount(slots uint64) bool { return slots >= 1 && slots <= maxRingSlots }

// attach checks the header and becomes the writer or reader. It leaves slotsWritten and slotsRead
// unchanged, so that a restarted process continues at its next slot.
func (r *ring) attach(isWriter bool) error {
	h := (*ringHeader)(unsafe.Pointer(&r.memory[0]))
	size := uint64(len(r.memory))
	switch slot, slots := h.slotBytes, h.numberOfSlots; {
	case slot != r.dataBytes:
		return r.mismatchError(fbs.Text("has slots of %d bytes, but the tensor has %d bytes",
			slot, r.dataBytes))
	case !isValidSlotCount(slots):
		return r.mismatchError(fbs.Text("has %d slots, but must have 1 to %d", slots, maxRingSlots))
	case size != r.fileBytes(slots):
		return r.mismatchError(fbs.Text("has %d bytes, but its header says %d", size,
			r.fileBytes(slots)))
	default:
		r.slotCount = slots
	}
	r.ringHeader = h
	r.slotsMoved = &h.slotsRead
	if isWriter {
		r.slotsMoved = &h.slotsWritten
		atomic.StoreUint32(&h.closed, 0)
	}
	r.closedByEarlierWriter = !isWriter && atomic.LoadUint32(&h.closed) != 0
	return nil
}

// slotStride returns the bytes from the start of one slot to that of the next.
func (r *ring) slotStride() uint64 {
	return (r.dataBytes + slotAlignBytes - 1) &^ (slotAlignBytes - 1)
}

func (r *ring) fileBytes(slots uint64) uint64 { return ringHeaderBytes + slots*r.slotStride() }

// mismatchError is for a ring that does not fit the tensor or the file. Inlining would enlarge the
// program.
//
//go:noinline
func (r *ring) mismatchError(reason string) error {
	return hal.JoinFault(hal.BadTensor, r.path, ": the ring ", reason,
		"; remove the file to get a new ring")
}

// notRingError is for another file, which lmrun leaves unchanged. Inlining would enlarge the
// program.
//
//go:noinline
func (r *ring) notRingError(reason string) error {
	return hal.NewFault(hal.BadTensor, r.path+" is not a ring file ("+reason+"); name another file")
}

func (r *ring) containsAddress(address uintptr) bool {
	return r.memory != nil && address-hal.AddressOf(r.memory) < uintptr(len(r.memory))
}

// moveSlot copies data into the next free slot (writer), or the oldest unread slot into data
// (reader). The caller must then call handOverSlot.
//
// It returns what read(2) and write(2) return for a non-blocking pipe: EAGAIN if no slot is free or
// unread, and 0 after the last slot of a closed ring.
func (r *ring) moveSlot(data []byte) (int, error) {
	closed := atomic.LoadUint32(&r.closed) != 0
	unread := atomic.LoadUint64(&r.slotsWritten) - atomic.LoadUint64(&r.slotsRead)
	r.closedByEarlierWriter = r.closedByEarlierWriter && closed && unread == 0
	index := atomic.LoadUint64(r.slotsMoved) % r.slotCount
	slot := r.memory[ringHeaderBytes+index*r.slotStride():][:r.dataBytes]
	switch isWriter := r.slotsMoved == &r.slotsWritten; {
	case unread > r.slotCount:
		return -1, r.mismatchError("has impossible counters: more unread slots than slots")
	case isWriter && unread < r.slotCount:
		return copy(slot, data), nil
	case !isWriter && unread > 0:
		return copy(data, slot), nil
	case !isWriter && closed && !r.closedByEarlierWriter:
		return 0, nil
	}
	return -1, unix.EAGAIN
}

// handOverSlot lets the other process read or fill the slot of the latest moveSlot.
func (r *ring) handOverSlot() { atomic.AddUint64(r.slotsMoved, 1) }

func (r *ring) markClosed() { atomic.StoreUint32(&r.closed, 1) }
