//go:build !norings

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
// both processes map as shared memory. RING.md specifies the format of the file. In builds with the
// tag norings, the file ring_none.go replaces this file.

const (
	hasRings  = true
	ringUsage = ringHelp
)

const (
	ringMagic       = 0x31474e49524d4c // "LMRING1" and a zero byte, as a little-endian number
	ringHeaderBytes = 4096             // offset of the first slot in the file, in bytes
	slotAlign       = 64               // the file offset of each slot is a multiple of 64 bytes

	newRingSlots = 8       // number of slots in a ring that lmrun creates
	maxRingSlots = 1 << 16 // largest number of slots in a ring that lmrun accepts

	ringLockPauseNs = 10_000_000 // pause between two attempts to lock the file, in nanoseconds
)

// ringLockTries is the number of attempts to lock the file of a ring. 1000 attempts take 10 s. This
// is enough, because another process locks the file only while it creates or checks the ring. It is
// a variable so that tests can set a smaller number.
var ringLockTries = 1000

// ringHeader is the structure at the beginning of a ring file. RING.md specifies it.
type ringHeader struct {
	magic     uint64 // ringMagic
	slotBytes uint64 // number of data bytes in a slot
	slots     uint64 // number of slots
	closed    uint32 // not zero if the writer will write no more slots
	_         [36]byte
	written   uint64 // number of slots that the writer has filled since the ring was created
	_         [56]byte
	read      uint64 // number of slots that the reader has released since the ring was created
}

// ring passes the data of one tensor from one writer process to one reader process, through a file
// that both processes map. The file contains a header and slots of equal size. Each slot contains
// the data of the tensor for one run.
type ring struct {
	path        string // path of the ring file
	memory      []byte // the mapped file; nil until ring.open has mapped the file
	*ringHeader        // the header in the mapped file
	// dataBytes and slotCount have the values of the header fields slotBytes and slots. The methods
	// use dataBytes and slotCount, because the other process could change the header after
	// checkHeader has checked it.
	dataBytes, slotCount uint64
	ownCounter           *uint64 // the counter that this process changes: &written or &read
	// closedByEarlierWriter is true in a reader if the ring was closed when the reader opened it,
	// and no data have arrived since then. The reader then waits for the next writer instead of
	// reporting the end of the data.
	closedByEarlierWriter bool
}

// newRing returns a ring for a tensor of dataBytes bytes. The parameter path is the path of the
// ring file. The caller must call ring.open before any other method.
func newRing(path string, dataBytes uint64) *ring {
	return &ring{path: path, dataBytes: dataBytes}
}

// open opens and maps the file of the ring. If the file does not exist or is empty, open creates
// a new ring. This process becomes the writer of the ring if isWriter is true, and otherwise the
// reader.
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
		err = r.checkHeader(isWriter)
	}
	return hal.FileFault(r.path, err)
}

// lockFile locks the file of the ring with flock(2). If another process has locked the file,
// lockFile tries again for up to 10 s and then returns an error.
func (r *ring) lockFile(fd int) error {
	for range ringLockTries {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EAGAIN && err != unix.EINTR {
			return err
		}
		hal.SleepRaw(ringLockPauseNs)
	}
	const reason = ": another process kept the file locked (flock) for 10 s"
	return hal.NewFault(hal.IO, r.path+reason)
}

// mapOrCreate maps the file into r.memory. If the file is empty, mapOrCreate first creates a new
// ring in the file. If the file has the size of a ring but a header of zeros, a process was killed
// while it created the ring. In this case mapOrCreate writes the header.
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
		// Write the header with one system call. Even if this process is killed, the header then
		// contains only zeros or is complete.
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

// checkHeader returns an error if the header does not match the size of the tensor or the size of
// the file. Otherwise it initializes r as the writer or the reader of the ring. For a writer, it
// also clears the header field `closed`. It does not reset the counters in the header, so that this
// process continues at the next slot.
func (r *ring) checkHeader(isWriter bool) error {
	h := (*ringHeader)(unsafe.Pointer(&r.memory[0]))
	size := uint64(len(r.memory))
	switch slot, slots := h.slotBytes, h.slots; {
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
	r.ownCounter = &h.read
	if isWriter {
		r.ownCounter = &h.written
		atomic.StoreUint32(&h.closed, 0)
	}
	r.closedByEarlierWriter = !isWriter && atomic.LoadUint32(&h.closed) != 0
	return nil
}

// slotStride returns the distance between two adjacent slots in the file, in bytes: the size of a
// slot, rounded up to a multiple of slotAlign.
func (r *ring) slotStride() uint64 { return (r.dataBytes + slotAlign - 1) &^ (slotAlign - 1) }

// fileBytes returns the size of a ring file with the given number of slots, in bytes.
func (r *ring) fileBytes(slots uint64) uint64 { return ringHeaderBytes + slots*r.slotStride() }

// mismatchError returns the error for a ring whose header does not match the tensor or the file,
// or contains impossible counters. The compiler must not inline mismatchError and notRingError,
// because the inlined copies would make the program larger.
//
//go:noinline
func (r *ring) mismatchError(reason string) error {
	reason = r.path + ": the ring " + reason + "; remove the file to get a new ring"
	return hal.NewFault(hal.BadTensor, reason)
}

// notRingError returns the error for a file that is not a ring file. lmrun has not changed the
// file in this case.
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

// copySlot copies data into the next free slot if this process is the writer. If this process is
// the reader, copySlot copies the oldest unread slot into data. It returns the number of copied
// bytes. After a successful copySlot, the caller must call ring.passSlot.
//
// If a writer finds no free slot, or a reader finds no unread slot, copySlot returns EAGAIN, as
// write(2) and read(2) do on a non-blocking pipe. After the last slot of a closed ring, copySlot
// returns 0 to a reader, as read(2) does at the end of a file.
func (r *ring) copySlot(data []byte) (int, error) {
	closed := atomic.LoadUint32(&r.closed) != 0
	unread := atomic.LoadUint64(&r.written) - atomic.LoadUint64(&r.read)
	r.closedByEarlierWriter = r.closedByEarlierWriter && closed && unread == 0
	index := atomic.LoadUint64(r.ownCounter) % r.slotCount
	slot := r.memory[ringHeaderBytes+index*r.slotStride():][:r.dataBytes]
	switch isWriter := r.ownCounter == &r.written; {
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

// passSlot passes the slot of the latest copySlot to the other process. The reader can then read
// the slot that the writer has filled, or the writer can fill the slot that the reader has read.
func (r *ring) passSlot() { atomic.AddUint64(r.ownCounter, 1) }

// markClosed sets the header field `closed`. A reader then knows that the writer will write no more
// slots.
func (r *ring) markClosed() { atomic.StoreUint32(&r.closed, 1) }
