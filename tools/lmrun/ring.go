package main

import (
	"sync/atomic"
	"unsafe"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// A ring hands the data of one tensor from run to run through a file in shared
// memory, between one writer and one reader. RING.md is its specification.
const (
	ringMagic   = "LMRING1\x00"
	ringSlot    = 8  // u64: bytes of data in a slot
	ringSlots   = 16 // u64
	ringClosed  = 24 // u32: not zero when the writer has ended
	ringWritten = 64 // u64: slots written since the ring was made
	ringRead    = 128
	ringHeader  = 4096
	ringAlign   = 64 // slots begin at multiples of it

	ringSlotsNew = 8       // of a ring that lmrun makes
	ringSlotsMax = 1 << 16 // of one that it finds

	ringSpins = 100 // looks before it sleeps between looks
)

type ring struct {
	path          string
	memory        []byte
	written, read *uint64
	closed        *uint32
	slot, stride  uint64
	slots         uint64
	stale         bool // closed by an earlier writer; the next one opens it
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
		err = r.begin(path, fresh, writer)
	}
	return r, err
}

// mapRing locks and maps a file that is a ring, or gives it the size of one: then
// it is fresh.
func mapRing(fd int, path string, size uint64) (r *ring, fresh bool, err error) {
	r = &ring{path: path, slot: size, stride: (size + ringAlign - 1) &^ (ringAlign - 1), slots: ringSlotsNew}
	var status unix.Stat_t
	var magic [len(ringMagic)]byte
	if err = unix.Flock(fd, unix.LOCK_EX); err == nil {
		_, err = unix.Pread(fd, magic[:], 0)
	}
	fresh = err == nil && magic == [len(ringMagic)]byte{} // not there, or not finished
	if fresh {
		if err = unix.Ftruncate(fd, 0); err == nil {
			err = unix.Fallocate(fd, 0, 0, int64(r.bytes()))
		}
	}
	if err == nil {
		err = unix.Fstat(fd, &status)
	}
	if err != nil {
		return nil, false, hal.FileFault(path, err)
	}
	if status.Size < ringHeader {
		return nil, false, badRing(path, "is too short for one")
	}
	r.memory, err = hal.Mmap(fd, 0, int(status.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, false, hal.FileFault(path, err)
	}
	return r, fresh, nil
}

// begin makes the header of a fresh ring, and holds another's against the tensor.
func (r *ring) begin(path string, fresh, writer bool) (err error) {
	defer vanished(&err)
	r.written, r.read, r.closed = (*uint64)(r.at(ringWritten)), (*uint64)(r.at(ringRead)), (*uint32)(r.at(ringClosed))
	if fresh {
		*(*uint64)(r.at(ringSlot)), *(*uint64)(r.at(ringSlots)) = r.slot, r.slots
		// The other side may look as soon as the first eight bytes are there.
		atomic.StoreUint64((*uint64)(r.at(0)), *(*uint64)(unsafe.Pointer(unsafe.StringData(ringMagic))))
	}
	if err := r.check(path); err != nil {
		return err
	}
	if writer {
		atomic.StoreUint32(r.closed, 0)
	}
	r.stale = !writer && atomic.LoadUint32(r.closed) != 0
	return nil
}

func (r *ring) at(offset int) unsafe.Pointer { return unsafe.Pointer(&r.memory[offset]) }

func (r *ring) bytes() uint64 { return ringHeader + r.slots*r.stride }

// check holds the header against the tensor and the file. A ring that is in
// use is taken up where it stands.
func (r *ring) check(path string) error {
	slot, slots := *(*uint64)(r.at(ringSlot)), *(*uint64)(r.at(ringSlots))
	switch {
	case string(r.memory[:len(ringMagic)]) != ringMagic:
		return badRing(path, "does not begin as one")
	case slot != r.slot:
		return badRing(path, "has slots of "+decimal(slot)+" bytes, the tensor has "+decimal(r.slot))
	case slots == 0 || slots > ringSlotsMax:
		return badRing(path, "has "+decimal(slots)+" slots, from 1 to "+decimal(ringSlotsMax)+" are possible")
	}
	if r.slots = slots; uint64(len(r.memory)) != r.bytes() {
		return badRing(path, "has "+decimal(uint64(len(r.memory)))+" bytes, its header means "+decimal(r.bytes()))
	}
	return nil
}

func badRing(path, reason string) error {
	return &hal.Fault{Code: hal.BadTensor, Reason: path + ": the ring " + reason + "; remove the file to have it made anew"}
}

// wait waits until the slots written and not read are enough. Data that are
// there come before the end.
func (r *ring) wait(enough func(waiting, slots uint64) bool) (ended bool, err error) {
	for looks := 0; ; looks++ {
		closed := atomic.LoadUint32(r.closed) != 0
		waiting := atomic.LoadUint64(r.written) - atomic.LoadUint64(r.read)
		switch {
		case waiting > r.slots:
			return false, badRing(r.path, "has counters of the other side's that make no sense")
		case enough(waiting, r.slots):
			r.stale = false
			return false, nil
		case stopping.Load() != 0 || closed && !r.stale:
			return true, nil
		case !closed:
			r.stale = false
		}
		if looks > ringSpins {
			hal.Pause(streamPauseNs)
		}
	}
}

func some(waiting, _ uint64) bool     { return waiting > 0 }
func room(waiting, slots uint64) bool { return waiting < slots }
func (r *ring) data(count uint64) []byte {
	return r.memory[ringHeader+count%r.slots*r.stride:][:r.slot]
}

// take copies the oldest slot, which it leaves in place, or nothing at the end.
func (r *ring) take(data []byte) (n int, err error) {
	ended, err := r.wait(some)
	if !ended && err == nil {
		n = copy(data, r.data(atomic.LoadUint64(r.read)))
	}
	return n, err
}

// advance gives the oldest slot back to the writer.
func (r *ring) advance() { atomic.AddUint64(r.read, 1) }

// makeRoom waits until the next slot is free.
func (r *ring) makeRoom() error {
	ended, err := r.wait(room)
	if ended { // by a signal
		err = &hal.Fault{Code: hal.IO, Reason: r.path + ": nobody reads the ring, which is full"}
	}
	return err
}

// put fills the next slot, for which makeRoom has waited.
func (r *ring) put(data []byte) {
	copy(r.data(atomic.LoadUint64(r.written)), data)
	atomic.AddUint64(r.written, 1)
}

// close tells the reader that no more comes.
func (r *ring) close() { atomic.StoreUint32(r.closed, 1) }
