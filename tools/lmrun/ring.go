package main

import (
	"sync/atomic"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

const (
	ringMagic  = 0x31474e49524d4c // "LMRING1" and a zero, of little endian
	ringHeader = 4096
	ringAlign  = 64 // slots begin at multiples of it

	ringSlotsNew = 8       // of a ring that lmrun makes
	ringSlotsMax = 1 << 16 // of one that it finds
)

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
	size, count uint64  // of a slot and in slots, of which the header had the same once
	mine        *uint64 // written or read: the one that this side changes
	stale       bool    // closed by an earlier writer; the next one opens it
}

// openRing maps a ring for a tensor, to write or to read, and makes it where
// there is none.
func openRing(path string, size uint64, writer bool) (*ring, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o660)
	if err != nil {
		return nil, hal.FileFault(path, err)
	}
	defer unix.Close(fd)
	defer unix.Flock(fd, unix.LOCK_UN) // which a mapping would keep
	r, fresh, err := mapRing(fd, path, size)
	if err == nil {
		err = r.begin(fresh, writer)
	}
	return r, err
}

// mapRing locks and maps a file that is a ring, or gives it the size of one: then
// it is fresh.
func mapRing(fd int, path string, size uint64) (r *ring, fresh bool, err error) {
	r = &ring{path: path, size: size, count: ringSlotsNew}
	var status unix.Stat_t
	var magic [8]byte
	if err = unix.Flock(fd, unix.LOCK_EX); err == nil {
		_, err = unix.Pread(fd, magic[:], 0)
	}
	fresh = err == nil && magic == [8]byte{} // not there, or not finished
	if fresh {
		if err = unix.Ftruncate(fd, 0); err == nil {
			err = unix.Fallocate(fd, 0, 0, int64(r.bytes()))
		}
	}
	if err == nil {
		err = unix.Fstat(fd, &status)
	}
	if err == nil && status.Size < ringHeader {
		err = r.bad("is too short for one")
	}
	if err == nil {
		r.memory, err = hal.Mmap(fd, 0, int(status.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	}
	return r, fresh, hal.FileFault(path, err)
}

// begin makes the header of a fresh ring, and holds another's against the tensor
// and the file. A ring that is in use is taken up where it stands.
func (r *ring) begin(fresh, writer bool) (err error) {
	defer vanished(&err)
	h := (*header)(unsafe.Pointer(&r.memory[0]))
	if r.header, r.mine = h, &h.read; writer {
		r.mine = &h.written
	}
	if fresh {
		h.slot, h.slots = r.size, r.count
		atomic.StoreUint64(&h.magic, ringMagic) // from now on the other side may look
	}
	switch slot, slots := h.slot, h.slots; {
	case h.magic != ringMagic:
		return r.bad("does not begin as one")
	case slot != r.size:
		return r.bad(fbs.Text("has slots of %d bytes, the tensor has %d", slot, r.size))
	case slots == 0 || slots > ringSlotsMax:
		return r.bad(fbs.Text("has %d slots, from 1 to %d are possible", slots, ringSlotsMax))
	default:
		r.count = slots
	}
	if uint64(len(r.memory)) != r.bytes() {
		return r.bad(fbs.Text("has %d bytes, its header means %d", uint64(len(r.memory)), r.bytes()))
	}
	if writer {
		atomic.StoreUint32(&h.closed, 0)
	}
	r.stale = !writer && atomic.LoadUint32(&h.closed) != 0
	return nil
}

func (r *ring) stride() uint64 { return (r.size + ringAlign - 1) &^ (ringAlign - 1) }
func (r *ring) bytes() uint64  { return ringHeader + r.count*r.stride() }

func (r *ring) bad(reason string) error {
	return &hal.Fault{Code: hal.BadTensor, Reason: r.path + ": the ring " + reason + "; remove the file to have it made anew"}
}

// move copies the oldest slot, or fills the next one, and answers as read(2) and
// write(2) do of a pipe that is not to wait. Data that are there come before the
// end. The slot is the other side's after step.
func (r *ring) move(data []byte) (int, error) {
	closed := atomic.LoadUint32(&r.closed) != 0
	waiting := atomic.LoadUint64(&r.written) - atomic.LoadUint64(&r.read)
	r.stale = r.stale && closed && waiting == 0
	slot := r.memory[ringHeader+atomic.LoadUint64(r.mine)%r.count*r.stride():][:r.size]
	switch writer := r.mine == &r.written; {
	case waiting > r.count:
		return -1, r.bad("has counters of the other side's that make no sense")
	case writer && waiting < r.count:
		return copy(slot, data), nil
	case !writer && waiting > 0:
		return copy(data, slot), nil
	case !writer && closed && !r.stale:
		return 0, nil
	}
	return -1, unix.EAGAIN
}

// step gives the slot that was moved to the other side.
func (r *ring) step() { atomic.AddUint64(r.mine, 1) }

// close tells the reader that no more comes.
func (r *ring) close() { atomic.StoreUint32(&r.closed, 1) }
