//go:build linux && (amd64 || arm64)

package recorder

import (
	"errors"
	"math/bits"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

// view is a mapping of a BAR, or of host memory, in the recorder. Several areas may share a view.
type view struct {
	base   unsafe.Pointer
	size   uint64
	uses   int
	offset uint64 // offset in the mapped file
}

// newView maps a part of an open file with the access rights of the file descriptor: if the file is
// open only for reading, the mapping is read-only.
func newView(fd int, offset, size uint64) (*view, error) {
	prot := unix.PROT_READ
	if _, write := openMode(fd); write {
		prot |= unix.PROT_WRITE
	}
	base, err := unix.MmapPtr(fd, int64(offset), nil, uintptr(size), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &view{base, size, 0, offset}, nil
}

// openMode reports whether a file descriptor is open for reading and for writing.
func openMode(fd int) (read, write bool) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	flags &= unix.O_ACCMODE
	return err == nil && flags != unix.O_WRONLY, err == nil && flags == unix.O_RDWR
}

// addUse counts one more use. v is nil for memory that is accessed through /proc/PID/mem.
func (v *view) addUse() {
	if v != nil {
		v.uses++
	}
}

// dropUse ends one use. The last one unmaps the view, because a mapping keeps a device open.
func (v *view) dropUse() {
	if v == nil {
		return
	}
	if v.uses--; v.uses == 0 {
		_ = unix.MunmapPtr(v.base, uintptr(v.size))
	}
}

// bytes returns the memory of a view, which others may write at the same time. Reading it faults if
// the file has become shorter. Therefore the reader must call catchFaults.
func (v *view) bytes() []byte { return unsafe.Slice((*byte)(v.base), v.size) }

// errBus is the error of an access that the recorder makes for the program, and at which the
// program would have got SIGBUS: the device does not respond, or the address is beyond the end of a
// file.
var errBus = errors.New("bus fault")

// load loads len(data) bytes with as few accesses as possible. It is one access for 1, 2, 4, 8 and
// 16 bytes, and on amd64 also for 32 and 64 bytes.
func (v *view) load(at uint64, data []byte) (err error) {
	defer catchFaults(&err)()
	for len(data) > 0 {
		n := widestAccess(len(data))
		loadDevice(unsafe.Add(v.base, at), &data[0], n)
		at, data = at+uint64(n), data[n:]
	}
	return nil
}

// store stores with accesses of the same widths as load.
func (v *view) store(at uint64, data []byte) (err error) {
	defer catchFaults(&err)()
	for len(data) > 0 {
		n := widestAccess(len(data))
		storeDevice(unsafe.Add(v.base, at), &data[0], n)
		at, data = at+uint64(n), data[n:]
	}
	return nil
}

// widestAccess returns the width of the widest access of at most n bytes.
func widestAccess(n int) int { return min(1<<(bits.Len(uint(n))-1), widestAccessMax) }

// catchFaults turns memory faults of the goroutine into the error errBus, until the function that
// it returns is called.
func catchFaults(err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if r := recover(); r != nil {
			if _, ok := r.(interface{ Addr() uintptr }); !ok {
				panic(r)
			}
			*err = errBus
		}
	}
}

// loadDevice loads width bytes in one access. width must be the width of an access of the
// processor: 1, 2, 4, 8 or 16, and on amd64 also 32 or 64.
//
//go:noescape
func loadDevice(device unsafe.Pointer, data *byte, width int)

// storeDevice stores width bytes in one access, with the same widths as loadDevice.
//
//go:noescape
func storeDevice(device unsafe.Pointer, data *byte, width int)
