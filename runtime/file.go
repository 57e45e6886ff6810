package runtime

import (
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// File is an image in memory. The envelope, whose commands a run executes, and the recorded
// data of inputs are private copies, made before they are verified: whoever rewrites or cuts
// the file changes nothing of them. The rest of the payload stays in the page cache, and goes
// to the device without a copy in between. Only Verify, Check and Replay.Run read it there,
// and return an error if it is gone.
type File struct {
	path    string
	fd      int
	data    []byte
	private uint64 // bytes from the first on that are a copy; whole pages, or all
	inputs  bool   // recorded inputs are copies too, and verified: never copied again
}

// Open maps a file and copies its envelope. The error is a *hal.Fault.
func Open(path string) (*File, error) {
	// A pipe that nobody writes to must not keep us: O_NONBLOCK.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, hal.FileFault(path, err)
	}
	f := &File{path: path, fd: fd}
	if err := f.read(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) read() error {
	var status unix.Stat_t
	err := unix.Fstat(f.fd, &status)
	switch {
	case err != nil || status.Mode&unix.S_IFMT != unix.S_IFREG:
		return hal.NewFault(hal.BadImage, f.path+" is a directory or a device, an image is a file")
	case status.Size == 0:
		return hal.NewFault(hal.BadImage, f.path+": the file is empty")
	}
	f.data, err = hal.Mmap(f.fd, 0, int(status.Size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return hal.FileFault(f.path, err)
	}
	// How large the envelope is stands in its first page, and counts as it was
	// when that was copied.
	if err = f.copyToPrivate(0, 1); err == nil {
		err = f.copyToPrivate(0, fbs.ReadStruct[fbs.Preamble](f.data).Envelope)
	}
	return err
}

// hugePage is the size from which on the copy is worth huge pages: without
// them it takes as long as three passes over it.
const hugePage = 2 << 20

// copyToPrivate puts private copies in place of the pages that hold the bytes of the file from
// first up to end, as far as they are not private yet.
func (f *File) copyToPrivate(first, end uint64) error {
	size, page := uint64(len(f.data)), uint64(unix.Getpagesize())
	first = max(first/page*page, f.private)
	end = min(fbs.RoundUp(min(end, size), page), size)
	if first >= end {
		return nil
	}
	part := f.data[first:end]
	if pages, _ := availableMemory(end - first); end-first > pages {
		const text = ": %d bytes of it are to be copied into memory, the machine has %d available"
		return hal.NewFault(hal.BadImage, f.path+fbs.Text(text, end-first, pages))
	}
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(&part[0]), uintptr(len(part)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED)
	if len(part) >= hugePage && err == nil {
		_ = unix.Madvise(part, unix.MADV_HUGEPAGE) // where the kernel has them
	}
	for n, done := 0, 0; done < len(part) && err == nil; done += n {
		n, err = unix.Pread(f.fd, part[done:], int64(first)+int64(done))
		if n == 0 {
			return hal.NewFault(hal.IO, f.path+": "+CutShort)
		}
	}
	if err != nil {
		return hal.FileFault(f.path, err)
	}
	if first == f.private {
		f.private = end
	}
	return unix.Mprotect(part, unix.PROT_READ)
}

// CutShort is the reason of an error, or of a run that failed, because bytes of the image
// file cannot be read.
const CutShort = "the image file was cut short while it was read; replace it by a rename (mv)"

// Verify checks every byte of the file. The error is a *hal.Fault.
func (f *File) Verify() (view *fbs.View, err error) {
	err = f.inspect(func(data []byte) (err error) {
		view, err = fbs.VerifyEnvelope(data)
		return err
	})
	if err == nil {
		err = f.copyInputs(view)
	}
	if err == nil {
		err = f.inspect(func([]byte) error { return view.VerifyPayload() })
	}
	if err != nil {
		return nil, err
	}
	return view, nil
}

// copyInputs copies the payload from the first recorded input to the last. Tools that make
// images put recorded data in front of all else, so that it is little more than those.
func (f *File) copyInputs(view *fbs.View) error {
	first, end := uint64(len(f.data)), uint64(0)
	payload := uint64(hal.AddressOf(view.Payload) - hal.AddressOf(f.data))
	for i := range view.Tensors {
		if t := &view.Tensors[i]; t.Role == gen.RoleInput && t.HasData != 0 {
			first = min(first, payload+t.DataOffset)
			end = max(end, payload+t.DataOffset+t.Size)
		}
	}
	if f.inputs {
		return nil
	}
	err := f.copyToPrivate(first, end)
	f.inputs = err == nil
	return err
}

// inspect calls a function with the bytes of the file, and returns its error with the path. A
// file that is cut short meanwhile is an error too.
func (f *File) inspect(check func(data []byte) error) error {
	ended, err := f.recovered(check)
	fault, hasCode := err.(*hal.Fault)
	code, reason := hal.BadImage, ""
	switch {
	case ended.In(hal.AddressOf(f.data), uint64(len(f.data))):
		code, reason = hal.IO, CutShort
	case ended.Cause != nil:
		code, reason = hal.Internal, "panic: "+hal.PanicText(ended.Cause)
	case err == nil:
		return nil
	case hasCode:
		code, reason = fault.Code, fault.Reason
	default:
		reason = err.Error()
	}
	return hal.NewFault(code, f.path+": "+reason)
}

// recovered calls a function with the bytes of the file, and returns the panic that ended it.
func (f *File) recovered(check func(data []byte) error) (ended hal.Panic, err error) {
	defer hal.Recover(hal.PanicOnFault(true), &ended)
	err = check(f.data)
	return ended, err
}

// Close unmaps the file. No View or Replay of it may be used afterwards.
func (f *File) Close() error {
	unix.Close(f.fd)
	return hal.Munmap(f.data)
}
