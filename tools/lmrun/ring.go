//go:build !norings

package main

import (
	"sync/atomic"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/files"

	"golang.org/x/sys/unix"
)

// This file implements rings in shared memory, which RING.md specifies. The build tag
// norings leaves it out.

const (
	hasRings  = true
	ringUsage = ringHelp
)

const (
	ringMagic  = 0x31474e49524d4c // "LMRING1" and a zero, little endian
	ringHeader = 4096             // bytes before the first slot
	ringAlign  = 64               // slots begin at multiples of it

	ringSlotsNew = 8       // slots of a ring that lmrun makes
	ringSlotsMax = 1 << 16 // slots of a ring that another process made

	ringLockPauseNs = 10_000_000 // between two attempts to lock the file
)

// ringLockTries is how often lmrun tries to lock the file before it fails: for 10 s. The
// other process locks it only while it makes or checks a ring. Tests try less often.
var ringLockTries = 1000

// header is the beginning of the file of a ring.
type header struct {
	magic   uint64
	slot    uint64 // bytes of data in a slot
	slots   uint64
	closed  uint32 // not zero after the writer has ended
	_       [36]byte
	written uint64 // slots written since the ring was made
	_       [56]byte
	read    uint64 // slots that the reader has returned
}

// ring passes the data of one tensor from one writer to one reader through a file in
// shared memory, one slot for each run.
type ring struct {
	path   string
	memory []byte // the file, mapped
	*header
	// size is the bytes of data in a slot and count the number of slots. They are copies
	// from when the header was checked: the other process can write to the header.
	size, count  uint64
	ownCounter   *uint64 // &written or &read: the one that this side changes
	closedBefore bool    // an earlier writer closed the ring; the next one opens it
}

func newRing(path string, size uint64) *ring { return &ring{path: path, size: size} }

// open maps the ring of a tensor as its writer or its reader, and makes the ring if the
// file is new.
func (r *ring) open(writer bool) error {
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Open(r.path, flags, 0o660)
	if err == unix.ELOOP {
		return r.notRing("a symbolic link")
	}
	if err != nil {
		return hal.FileFault(r.path, err)
	}
	defer unix.Close(fd)
	// Closing fd alone would not unlock the file, since the mapping refers to it too.
	defer unix.Flock(fd, unix.LOCK_UN)
	if err = r.lock(fd); err == nil {
		err = r.mapFile(fd)
	}
	if err == nil {
		err = r.checkHeader(writer)
	}
	return hal.FileFault(r.path, err)
}

// lock locks the file. It waits for a limited time if another process has it locked.
func (r *ring) lock(fd int) error {
	for range ringLockTries {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EAGAIN && err != unix.EINTR {
			return err
		}
		hal.SleepRaw(ringLockPauseNs)
	}
	const reason = ": another process has kept the ring locked (flock) for 10 s"
	return hal.NewFault(hal.IO, r.path+reason)
}

// mapFile maps the file if it is a ring. It makes a ring of an empty file, and completes a
// ring whose maker was killed: a file of the size of a ring that begins with 4096 zeros.
func (r *ring) mapFile(fd int) error {
	size, err := r.fileSize(fd)
	if err != nil {
		return err
	}
	head := make([]byte, ringHeader)
	if _, err = unix.Pread(fd, head, 0); err != nil {
		return err
	}
	slots := (size - ringHeader) / r.stride()
	isUnfinished := isZero(head) && validSlots(slots) && size == r.bytes(slots)
	switch {
	case isUnfinished:
		// One write, so that a killed process leaves either zeros or a complete header.
		begin := [...]uint64{ringMagic, r.size, slots}
		data := unsafe.Slice((*byte)(unsafe.Pointer(&begin)), unsafe.Sizeof(begin))
		err = files.WriteFull(fd, data)
	case (*header)(unsafe.Pointer(&head[0])).magic != ringMagic:
		err = r.notRing("bad magic")
	}
	if err != nil {
		return err
	}
	const writable, shared = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	r.memory, err = hal.Mmap(fd, 0, int(size), writable, shared)
	return err
}

// fileSize returns the size of the file, which has room for a header. It allocates the
// space of a new ring if the file is empty.
func (r *ring) fileSize(fd int) (uint64, error) {
	var status unix.Stat_t
	err := unix.Fstat(fd, &status)
	switch {
	case err != nil:
		return 0, err
	case status.Mode&unix.S_IFMT != unix.S_IFREG:
		return 0, r.notRing("not a regular file")
	case status.Size == 0:
		size := r.bytes(ringSlotsNew)
		return size, unix.Fallocate(fd, 0, 0, int64(size))
	case status.Size < ringHeader:
		return 0, r.notRing("too short")
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

func validSlots(slots uint64) bool { return slots >= 1 && slots <= ringSlotsMax }

// checkHeader compares the header with the tensor and the file, and takes the ring into
// use with the counters that it has.
func (r *ring) checkHeader(writer bool) error {
	h := (*header)(unsafe.Pointer(&r.memory[0]))
	size := uint64(len(r.memory))
	switch slot, slots := h.slot, h.slots; {
	case slot != r.size:
		return r.fault(fbs.Text("has slots of %d bytes, the tensor has %d", slot, r.size))
	case !validSlots(slots):
		return r.fault(fbs.Text("has %d slots, from 1 to %d are possible", slots, ringSlotsMax))
	case size != r.bytes(slots):
		return r.fault(fbs.Text("has %d bytes, its header means %d", size, r.bytes(slots)))
	default:
		r.count = slots
	}
	r.header = h
	r.ownCounter = &h.read
	if writer {
		r.ownCounter = &h.written
		atomic.StoreUint32(&h.closed, 0)
	}
	r.closedBefore = !writer && atomic.LoadUint32(&h.closed) != 0
	return nil
}

// stride returns the distance of two slots.
func (r *ring) stride() uint64 { return (r.size + ringAlign - 1) &^ (ringAlign - 1) }

// bytes returns the size of the file of a ring with so many slots.
func (r *ring) bytes(slots uint64) uint64 { return ringHeader + slots*r.stride() }

// fault returns the error for a ring that does not fit the tensor or the file.
func (r *ring) fault(reason string) error {
	reason = r.path + ": the ring " + reason + "; without this file, lmrun makes a new one"
	return hal.NewFault(hal.BadTensor, reason)
}

// notRing returns the error for a file that is not a ring, and that lmrun does not change.
func (r *ring) notRing(reason string) error {
	return hal.NewFault(hal.BadTensor, r.path+" is not a ring file ("+reason+")")
}

// contains reports whether an address lies in the memory of the ring.
func (r *ring) contains(address uintptr) bool {
	return r.memory != nil && address-hal.AddressOf(r.memory) < uintptr(len(r.memory))
}

// transfer copies the oldest slot to data, or data to the next free slot, and returns what
// read(2) and write(2) return for a non-blocking pipe. All data of a closed ring are read
// before its end is reported. The other side sees the change after advance.
func (r *ring) transfer(data []byte) (int, error) {
	closed := atomic.LoadUint32(&r.closed) != 0
	waiting := atomic.LoadUint64(&r.written) - atomic.LoadUint64(&r.read)
	r.closedBefore = r.closedBefore && closed && waiting == 0
	index := atomic.LoadUint64(r.ownCounter) % r.count
	slot := r.memory[ringHeader+index*r.stride():][:r.size]
	switch writer := r.ownCounter == &r.written; {
	case waiting > r.count:
		return -1, r.fault("has impossible counters: more unread slots than it has")
	case writer && waiting < r.count:
		return copy(slot, data), nil
	case !writer && waiting > 0:
		return copy(data, slot), nil
	case !writer && closed && !r.closedBefore:
		return 0, nil
	}
	return -1, unix.EAGAIN
}

// advance makes the slot that was transferred available to the other side.
func (r *ring) advance() { atomic.AddUint64(r.ownCounter, 1) }

// markClosed reports to the reader that no more data follow.
func (r *ring) markClosed() { atomic.StoreUint32(&r.closed, 1) }
