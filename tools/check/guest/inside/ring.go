package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring is one end of a ring in shared memory (tools/lmrun/RING.md).
type ring struct{ mem []byte }

const (
	ringSize, ringSlots   = 8, 16
	ringClosed            = 24
	ringWritten, ringRead = 64, 128
	ringFirst             = 4096
)

func (r ring) word(offset int) *uint64 { return (*uint64)(unsafe.Pointer(&r.mem[offset])) }

// slot returns the memory of the n-th slot, counted since the ring was made.
func (r ring) slot(n uint64) []byte {
	size := *r.word(ringSize)
	first := ringFirst + n%*r.word(ringSlots)*((size+63)&^63)
	return r.mem[first : first+size]
}

// writeFullRing writes a ring that contains all slots and is closed for writing.
func writeFullRing(path string, slots [][]byte) error {
	r := makeRing(len(slots[0]), len(slots))
	*r.word(ringWritten) = uint64(len(slots))
	for i, data := range slots {
		copy(r.slot(uint64(i)), data)
	}
	r.mem[ringClosed] = 1
	return os.WriteFile(path, r.mem, 0o600)
}

// makeRing makes an empty ring with slots of a size in bytes.
func makeRing(size, slots int) ring {
	r := ring{make([]byte, ringFirst+slots*((size+63)&^63))}
	copy(r.mem, "LMRING1")
	*r.word(ringSize), *r.word(ringSlots) = uint64(size), uint64(slots)
	return r
}

// openRing waits until lmrun has made a ring, and maps it.
func openRing(path string) (r ring, err error) {
	for end := time.Now().Add(runLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var file *os.File
		if file, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
			continue
		}
		info, _ := file.Stat()
		r.mem, err = unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_SHARED)
		file.Close()
		if err == nil && len(r.mem) > ringFirst && string(r.mem[:7]) == "LMRING1" {
			return r, nil
		}
	}
	return r, fmt.Errorf("%s: no ring, %v", path, err)
}

// takeNumber returns the first number in the next slot, and frees the slot.
func (r ring) takeNumber() (first uint32, ok bool) {
	n := atomic.LoadUint64(r.word(ringRead))
	for end := time.Now().Add(runLimit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if atomic.LoadUint64(r.word(ringWritten)) > n {
			first = binary.LittleEndian.Uint32(r.slot(n))
			atomic.StoreUint64(r.word(ringRead), n+1)
			return first, true
		}
	}
	return 0, false
}
