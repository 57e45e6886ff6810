package main

import (
	"sync/atomic"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/lmrun/files"

	"golang.org/x/sys/unix"
)

// This file implements rings. A ring passes tensor data between two processes through a file that
// both processes map as shared memory. RING.md specifies the format of the file.

const (
	ringMagic       = 0x31474e49524d4c // "LMRING1" and a zero byte, as a little-endian number
	ringHeaderBytes = 4096             // offset of the first slot in the file, in bytes
	slotAlignBytes  = 64               // the file offset of each slot is a multiple of 64 bytes

	newRingSlots = 8       // number of slots in a ring that lmrun creates
	maxRingSlots = 1 << 16 // largest number of slots in a ring that lmrun accepts
)

// ringLockTries is the number of attempts to lock the file of a ring. 1000 attempts take 10 s,
// which is enough because other processes lock the file only while they create or check the ring.
// Tests set a smaller number.
var ringLockTries = 1000

// ringHeader is the structure at the beginning of a ring file. RING.md specifies it.
type ringHeader struct {
	magic         uint64 // must equal ringMagic
	slotBytes     uint64 // number of data bytes in a slot
	numberOfSlots uint64 // number of slots in the file
	closed        uint32 // not zero if the writer will write no more slots
	_             [36]byte
	slotsWritten  uint64 // how often the writer has filled a slot since the ring was created
	_             [56]byte
	slotsRead     uint64 // how often the reader has released a slot since the ring was created
}

// ring passes the data of one tensor from one writer process to one reader process, through a file
// that both processes map. The file contains a header and slots of equal size. Each slot contains
// the data of the tensor for one run.
type ring struct {
	path        string // path of the ring file
	memory      []byte // the mapped file; nil until ring.open has mapped the file
	*ringHeader        // the header in the mapped file
	// dataBytes and slotCount are copies of the header fields slotBytes and numberOfSlots. Methods
	// must use the copies, because the other process can change the header after
	// attach has checked it.
	dataBytes, slotCount uint64
	slotsMoved           *uint64 // &slotsWritten in the writer, &slotsRead in the reader
	// closedByEarlierWriter is true in a reader if the ring was closed when the reader opened it,
	// and no data have arrived since then. In this state, the reader waits for the next writer and
	// does not report the end of the data.
	closedByEarlierWriter bool
}

// newRing returns a ring for a tensor of dataBytes bytes. The parameter path is the path of the
// ring file. The caller must call ring.open before any other method.
func newRing(path string, dataBytes uint64) *ring {
	return &ring{path: path, dataBytes: dataBytes}
}

// open opens and maps the file of the ring, as the writer of the ring if isWriter is true, and
// otherwise as the reader. If the file does not exist or is empty, open creates a new ring.
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
	// Unlock the file explicitly, because closing fd does not unlock a file that is still mapped.
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

// mapOrCreate maps the file into r.memory. If the file is empty, mapOrCreate first creates a new
// ring in the file. If the file has the size of a ring, but its header contains only zeros, then a
// process was killed while it created the ring, and mapOrCreate writes the missing header.
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
		// Write the header with one system call, so that it is complete or contains only zeros
		// even if this process is killed.
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

// allocateIfEmpty returns the size of the file in bytes. If the file is empty, allocateIfEmpty
// first allocates the space of a new ring. It returns an error if the file is not a regular file,
// or is shorter than the header of a ring.
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

// isAllZero reports whether all bytes of data are zero.
func isAllZero(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}

// isValidSlotCount reports whether a ring can have this number of slots.
func isValidSlotCount(slots uint64) bool { return slots >= 1 && slots <= maxRingSlots }

// attach returns an error if the header does not match the size of the tensor or the
// size of the file. Otherwise it initializes r as the writer or the reader of the ring. For a
// writer, it also clears the header field `closed`. It leaves slotsWritten and slotsRead unchanged,
// so that a restarted process continues at its next slot.
func (r *ring) attach(isWriter bool) error {
	h := (*ringHeader)(unsafe.Pointer(&r.memory[0]))
	size := uint64(len(r.memory))
	switch slot, slots := h.slotBytes, h.numberOfSlots; {
	case slot != r.dataBytes:
		return r.mismatchError(fbs.Text("has slots of %d bytes, but the tensor has %d bytes",
			slot, r.dataBytes))
	case !isValidSlotCount(slots):
		return r.mismatchError(fbs.Text("has %d slots, but must have 1 to %d", slots,
			maxRingSlots))
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

// slotStride returns the distance between two adjacent slots in the file, in bytes: the size of a
// slot, rounded up to a multiple of slotAlignBytes.
func (r *ring) slotStride() uint64 {
	return (r.dataBytes + slotAlignBytes - 1) &^ (slotAlignBytes - 1)
}

// fileBytes returns the size of a ring file with the given number of slots, in bytes.
func (r *ring) fileBytes(slots uint64) uint64 { return ringHeaderBytes + slots*r.slotStride() }

// mismatchError returns the error for a ring whose header does not match the tensor or the file, or
// contains impossible counters. The directive go:noinline below makes the program smaller.
//
//go:noinline
func (r *ring) mismatchError(reason string) error {
	return hal.JoinFault(hal.BadTensor, r.path, ": the ring ", reason,
		"; remove the file to get a new ring")
}

// notRingError returns the error for a file that is not a ring file. lmrun leaves the file
// unchanged.
//
//go:noinline
func (r *ring) notRingError(reason string) error {
	return hal.NewFault(hal.BadTensor, r.path+" is not a ring file ("+reason+"); name another file")
}

// containsAddress reports whether the address is inside the memory to which the ring file is
// mapped.
func (r *ring) containsAddress(address uintptr) bool {
	return r.memory != nil && address-hal.AddressOf(r.memory) < uintptr(len(r.memory))
}

// moveSlot transfers one slot. In the writer, it copies data into the next free slot. In the
// reader, it copies the oldest unread slot into data. It returns the number of copied bytes. After
// a successful moveSlot, the caller must call ring.handOverSlot.
//
// If no slot is free (writer) or unread (reader), moveSlot returns EAGAIN, as write(2) and
// read(2) do on a non-blocking pipe. After the last slot of a closed ring, moveSlot returns
// 0 to the reader, as read(2) does at the end of a file.
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

// handOverSlot passes the slot of the latest moveSlot to the other process. If this process
// is the writer, the reader can then read the slot. If this process is the reader, the writer can
// then fill the slot again.
func (r *ring) handOverSlot() { atomic.AddUint64(r.slotsMoved, 1) }

// markClosed sets the header field `closed`. A reader then knows that the writer will write no more
// slots.
func (r *ring) markClosed() { atomic.StoreUint32(&r.closed, 1) }
