package main

import (
	"sync/atomic"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/tools/files"

	"golang.org/x/sys/unix"
)

const (
	ringMagic  = 0x31474e49524d4c // "LMRING1" and a zero, of little endian
	ringHeader = 4096
	ringAlign  = 64 // slots begin at multiples of it

	ringSlotsNew = 8       // of a ring that lmrun makes
	ringSlotsMax = 1 << 16 // of one that it finds

	ringLockPauseNs = 10_000_000 // between two attempts to lock the file
)

// ringLockTries is how often lmrun tries to lock the file before it fails: for 10 s. A
// peer holds the lock only while it makes or checks a ring. Tests try less often.
var ringLockTries = 1000

// header is how the file of a ring begins.
type header struct {
	magic   uint64
	slot    uint64 // bytes of data in a slot
	slots   uint64
	closed  uint32 // not zero when the writer has ended
	_       [36]byte
	written uint64 // slots written since the ring was made
	_       [56]byte
	read    uint64
}

// ring hands the data of one tensor from run to run through a file in shared
// memory, between one writer and one reader. RING.md is its specification.
type ring struct {
	path   string
	memory []byte
	*header
	size, count  uint64  // of a slot and in slots, of which the header had the same once
	ownCounter   *uint64 // written or read: the one that this side changes
	closedBefore bool    // closed by an earlier writer; the next one opens it
}

// open maps the ring of a tensor, to write or to read, and makes it if the file is new.
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
	defer unix.Flock(fd, unix.LOCK_UN) // the mapping would keep the lock
	if err = r.lock(fd); err == nil {
		err = r.mapFile(fd)
	}
	if err == nil {
		err = r.checkHeader(writer)
	}
	return hal.FileFault(r.path, err)
}

// lock locks the file, and waits for a limited time while another process has it locked.
func (r *ring) lock(fd int) error {
	for range ringLockTries {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if err != unix.EAGAIN && err != unix.EINTR {
			return err
		}
		hal.SleepRaw(ringLockPauseNs)
	}
	const reason = ": another process keeps the ring locked (flock), for 10 s by now"
	return hal.NewFault(hal.IO, r.path+reason)
}

// mapFile maps the file of a ring, and nothing else. An empty file, and one of the size
// of a ring that begins with 4096 zeros, which its maker did not complete, become one.
func (r *ring) mapFile(fd int) error {
	var status unix.Stat_t
	err := unix.Fstat(fd, &status)
	if err == nil && status.Mode&unix.S_IFMT != unix.S_IFREG {
		err = r.notRing("not a regular file")
	}
	if err == nil && status.Size == 0 {
		status.Size = int64(r.bytes(ringSlotsNew))
		err = unix.Fallocate(fd, 0, 0, status.Size)
	}
	head, size := make([]byte, ringHeader), uint64(status.Size)
	if err == nil && size < ringHeader {
		err = r.notRing("too short")
	}
	if err == nil {
		_, err = unix.Pread(fd, head, 0)
	}
	if err != nil {
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

func isZero(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}

func validSlots(slots uint64) bool { return slots >= 1 && slots <= ringSlotsMax }

// checkHeader checks the header against the tensor and the file. A ring that is in use
// stays as it is.
func (r *ring) checkHeader(writer bool) error {
	h := (*header)(unsafe.Pointer(&r.memory[0]))
	if r.header, r.ownCounter = h, &h.read; writer {
		r.ownCounter = &h.written
	}
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
	if writer {
		atomic.StoreUint32(&h.closed, 0)
	}
	r.closedBefore = !writer && atomic.LoadUint32(&h.closed) != 0
	return nil
}

func (r *ring) stride() uint64 { return (r.size + ringAlign - 1) &^ (ringAlign - 1) }

// bytes returns the size of the file of a ring with so many slots.
func (r *ring) bytes(slots uint64) uint64 { return ringHeader + slots*r.stride() }

func (r *ring) fault(reason string) error {
	reason = r.path + ": the ring " + reason + "; without this file, lmrun makes a new one"
	return hal.NewFault(hal.BadTensor, reason)
}

// notRing is the error for a file that lmrun leaves as it is.
func (r *ring) notRing(reason string) error {
	return hal.NewFault(hal.BadTensor, r.path+" is not a ring file ("+reason+")")
}

// contains reports whether an address lies in the memory of the ring.
func (r *ring) contains(address uintptr) bool {
	return r.memory != nil && address-hal.AddressOf(r.memory) < uintptr(len(r.memory))
}

// move copies the oldest slot, or fills the next one, and answers as read(2) and
// write(2) do of a pipe that is not to wait. Data that are there come before the
// end. The slot is the other side's after step.
func (r *ring) transfer(data []byte) (int, error) {
	closed := atomic.LoadUint32(&r.closed) != 0
	waiting := atomic.LoadUint64(&r.written) - atomic.LoadUint64(&r.read)
	r.closedBefore = r.closedBefore && closed && waiting == 0
	slot := r.memory[ringHeader+atomic.LoadUint64(r.ownCounter)%r.count*r.stride():][:r.size]
	switch writer := r.ownCounter == &r.written; {
	case waiting > r.count:
		return -1, r.fault("has counters of the other side's that make no sense")
	case writer && waiting < r.count:
		return copy(slot, data), nil
	case !writer && waiting > 0:
		return copy(data, slot), nil
	case !writer && closed && !r.closedBefore:
		return 0, nil
	}
	return -1, unix.EAGAIN
}

// step gives the slot that was moved to the other side.
func (r *ring) advance() { atomic.AddUint64(r.ownCounter, 1) }

// close tells the reader that no more comes.
func (r *ring) markClosed() { atomic.StoreUint32(&r.closed, 1) }
