//go:build linux && (amd64 || arm64)

package recorder

import (
	"errors"
	"math/bits"
	"runtime/debug"
	"unsafe"

	"golang.org/x/sys/unix"
)

// view is a mapping of a BAR in the recorder itself. Areas share it.
type view struct {
	base   unsafe.Pointer
	size   uint64
	uses   int
	offset uint64 // in the file
}

// newView maps a part of what a program's descriptor names, as far as its mode
// allows: a descriptor to read only cannot be mapped to write.
func newView(fd int, offset, size uint64) (*view, error) {
	prot := unix.PROT_READ
	if _, write := mode(fd); write {
		prot |= unix.PROT_WRITE
	}
	base, err := unix.MmapPtr(fd, int64(offset), nil, uintptr(size), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &view{base, size, 0, offset}, nil
}

// mode reports whether a descriptor was opened to read and to write.
func mode(fd int) (read, write bool) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	flags &= unix.O_ACCMODE
	return err == nil && flags != unix.O_WRONLY, err == nil && flags == unix.O_RDWR
}

// use begins one use. v is nil for memory that is reached by /proc/PID/mem.
func (v *view) use() {
	if v != nil {
		v.uses++
	}
}

// drop ends one use. The last one unmaps the view: a mapping keeps a device open.
func (v *view) drop() {
	if v == nil {
		return
	}
	if v.uses--; v.uses == 0 {
		_ = unix.MunmapPtr(v.base, uintptr(v.size))
	}
}

// bytes returns all of a view of memory, which others write at the same time. Reading it
// faults if the file has become shorter: the reader calls caught.
func (v *view) bytes() []byte { return unsafe.Slice((*byte)(v.base), v.size) }

// errBus is the error of an access for which the program would have got SIGBUS: of a device,
// or beyond the end of a file.
var errBus = errors.New("bus fault")

// load makes one access if the processor has one of len(data) bytes: 1, 2, 4, 8, 16, and
// on amd64 32 and 64. It makes several for other lengths.
func (v *view) load(at uint64, data []byte) (err error) {
	defer caught(&err)()
	for len(data) > 0 {
		n := widestAccess(len(data))
		loadDevice(unsafe.Add(v.base, at), &data[0], n)
		at, data = at+uint64(n), data[n:]
	}
	return nil
}

// store makes accesses of the same widths as load.
func (v *view) store(at uint64, data []byte) (err error) {
	defer caught(&err)()
	for len(data) > 0 {
		n := widestAccess(len(data))
		storeDevice(unsafe.Add(v.base, at), &data[0], n)
		at, data = at+uint64(n), data[n:]
	}
	return nil
}

// widestAccess returns the width of the widest access of at most n bytes.
func widestAccess(n int) int { return min(1<<(bits.Len(uint(n))-1), mostWidth) }

// caught has faults of the goroutine end in an error, until the function that it returns
// is called.
func caught(err *error) func() {
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

// loadDevice reads width bytes in one access where the processor has one of
// that width: 1, 2, 4, 8, 16, 32, 64.
//
//go:noescape
func loadDevice(device unsafe.Pointer, data *byte, width int)

// storeDevice writes width bytes in one access, as loadDevice reads them.
//
//go:noescape
func storeDevice(device unsafe.Pointer, data *byte, width int)
