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

// This file implements rings in shared memory, which RING.md specifies. The build tag norings
// leaves this file out.

const (
	hasRings  = true
	ringUsage = ringHelp
)

const (
	ringMagic       = 0x31474e49524d4c // "LMRING1" and a zero, little endian
	ringHeaderBytes = 4096             // bytes before the first slot
	slotAlign       = 64               // each slot begins at a multiple of slotAlign bytes

	newRingSlots = 8       // number of slots of a ring that lmrun makes
	maxRingSlots = 1 << 16 // largest number of slots that lmrun accepts

	ringLockPauseNs = 10_000_000 // pause between two attempts to lock the file
)

// ringLockTries is the number of attempts to lock the file. 1000 attempts take 10 s. That is
// enough, since the other process locks the file only while it makes or checks the ring. Tests
// set a smaller number.
var ringLockTries = 1000

// ringHeader is the structure at the beginning of a ring file.
type ringHeader struct {
	magic     uint64 // ringMagic
	slotBytes uint64 // bytes of data in a slot
	slots     uint64 // number of slots
	closed    uint32 // not zero if the writer will write no more slots
	_         [36]byte
	written   uint64 // number of slots that the writer has filled since the ring was made
	_         [56]byte
	read      uint64 // number of slots that the reader has released
}

// ring passes the data of one tensor from one writer process to one reader process through a
// file in shared memory. Each run uses one slot.
type ring struct {
	path   string
	memory []byte // the mapped file; nil before open
	*ringHeader
	// dataBytes and slotCount are copies of slotBytes and slots from the checked header. The
	// other process could change the header after the check.
	dataBytes, slotCount uint64
	ownCounter           *uint64 // the counter that this process changes: &written or &read
	// closedBefore is true in a reader if an earlier writer has closed the empty ring. The reader
	// then waits for the next writer.
	closedBefore bool
}

// newRing returns the ring at path for a tensor of dataBytes bytes. The caller must call open
// before any other method.
func newRing(path string, dataBytes uint64) *ring {
	return &ring{path: path, dataBytes: dataBytes}
}

// open maps the ring, as its writer if isWriter is true and otherwise as its reader. If the
// file does not exist or is empty, open makes a new ring.
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
	// Unlock explicitly: closing fd does not unlock the file while the file is mapped.
	defer unix.Flock(fd, unix.LOCK_UN)
	if err = r.lock(fd); err == nil {
		err = r.mapFile(fd)
	}
	if err == nil {
		err = r.checkHeader(isWriter)
	}
	return hal.FileFault(r.path, err)
}

// lock locks the file. If another process has locked the file, lock waits for a limited time.
func (r *ring) lock(fd int) error {
	for range ringLockTries {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EAGAIN && err != unix.EINTR {
			return err
		}
		hal.SleepRaw(ringLockPauseNs)
	}
	const reason = ": another process has kept the ring file locked (flock) for 10 s"
	return hal.NewFault(hal.IO, r.path+reason)
}

// mapFile maps the ring file into memory, and first turns an empty file into a new ring. If the
// file has the size of a ring but begins with 4096 zeros, the process that made the file was
// killed before it wrote the header. mapFile then writes the header.
func (r *ring) mapFile(fd int) error {
	size, err := r.fileSize(fd)
	if err != nil {
		return err
	}
	head := make([]byte, ringHeaderBytes)
	if _, err = unix.Pread(fd, head, 0); err != nil {
		return err
	}
	slots := (size - ringHeaderBytes) / r.stride()
	isUnfinished := isZero(head) && isValidSlotCount(slots) && size == r.fileBytes(slots)
	switch {
	case isUnfinished:
		// Write the header with one system call: if this process is killed, the file has
		// either zeros or a complete header.
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

// fileSize returns the size of the file, or an error if the file is smaller than a header. If
// the file is empty, fileSize first allocates the space of a new ring.
func (r *ring) fileSize(fd int) (uint64, error) {
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
		return 0, r.notRingError("shorter than its header")
	}
	return uint64(status.Size), nil
}

func isZero(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}

func isValidSlotCount(slots uint64) bool { return slots >= 1 && slots <= maxRingSlots }

// checkHeader returns an error if the header does not match the size of the tensor or of the
// file. Otherwise it attaches this process to the ring and keeps the counters of the ring.
func (r *ring) checkHeader(isWriter bool) error {
	h := (*ringHeader)(unsafe.Pointer(&r.memory[0]))
	size := uint64(len(r.memory))
	switch slot, slots := h.slotBytes, h.slots; {
	case slot != r.dataBytes:
		return r.mismatchError(fbs.Text("has slots of %d bytes, but the tensor has %d bytes",
			slot, r.dataBytes))
	case !isValidSlotCount(slots):
		return r.mismatchError(fbs.Text("has %d slots; the limits are 1 and %d", slots,
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
	r.closedBefore = !isWriter && atomic.LoadUint32(&h.closed) != 0
	return nil
}

// stride returns the distance between the beginnings of two adjacent slots, in bytes.
func (r *ring) stride() uint64 { return (r.dataBytes + slotAlign - 1) &^ (slotAlign - 1) }

// fileBytes returns the file size of a ring with the given number of slots.
func (r *ring) fileBytes(slots uint64) uint64 { return ringHeaderBytes + slots*r.stride() }

// mismatchError returns the error for a ring that does not match the tensor or the file.
func (r *ring) mismatchError(reason string) error {
	reason = r.path + ": the ring " + reason + "; remove the file to have lmrun make a new ring"
	return hal.NewFault(hal.BadTensor, reason)
}

// notRingError returns the error for a file that is not a ring file. lmrun does not change such
// a file.
func (r *ring) notRingError(reason string) error {
	return hal.NewFault(hal.BadTensor, r.path+" is not a ring file ("+reason+")")
}

// contains reports whether the address lies in the mapped memory of the ring.
func (r *ring) contains(address uintptr) bool {
	return r.memory != nil && address-hal.AddressOf(r.memory) < uintptr(len(r.memory))
}

// transfer copies data to the next free slot if this process is the writer, and otherwise the
// oldest unread slot to data. The results are those of write(2) or read(2) on a non-blocking
// pipe: EAGAIN if the ring is full or empty, and for a reader 0 after the last slot of a closed
// ring. After a successful transfer, the caller must call advance.
func (r *ring) transfer(data []byte) (int, error) {
	closed := atomic.LoadUint32(&r.closed) != 0
	unread := atomic.LoadUint64(&r.written) - atomic.LoadUint64(&r.read)
	r.closedBefore = r.closedBefore && closed && unread == 0
	index := atomic.LoadUint64(r.ownCounter) % r.slotCount
	slot := r.memory[ringHeaderBytes+index*r.stride():][:r.dataBytes]
	switch isWriter := r.ownCounter == &r.written; {
	case unread > r.slotCount:
		return -1, r.mismatchError("has impossible counters: more unread slots than slots")
	case isWriter && unread < r.slotCount:
		return copy(slot, data), nil
	case !isWriter && unread > 0:
		return copy(data, slot), nil
	case !isWriter && closed && !r.closedBefore:
		return 0, nil
	}
	return -1, unix.EAGAIN
}

// advance makes the transferred slot available to the other process: a filled slot to the
// reader, or a read slot to the writer.
func (r *ring) advance() { atomic.AddUint64(r.ownCounter, 1) }

// markClosed marks the ring as closed: the writer will write no more data.
func (r *ring) markClosed() { atomic.StoreUint32(&r.closed, 1) }
