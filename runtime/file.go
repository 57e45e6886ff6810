package runtime

// File: an image file in memory, partly copied, partly mapped.

import (
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// File is an image file in memory. The envelope, whose commands a run executes, and the default
// data of inputs are private copies, made before they are verified: a process that rewrites or
// truncates the file changes none of them. The rest of the payload stays in the page cache and
// goes to the device without a copy. Only Verify, Inspect and Replay.Run read it there, and they
// return an error if it is gone.
type File struct {
	path         string
	fd           int
	data         []byte
	privateEnd   uint64 // data before this offset are a copy; a multiple of the page, or all
	inputsCopied bool   // default data of inputs are copies too; later calls of Verify keep them
}

// Open maps a file and copies its envelope. The error is a *hal.Fault.
func Open(path string) (*File, error) {
	// O_NONBLOCK: opening a pipe without a writer must not wait.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, hal.FileFault(path, err)
	}
	f := &File{path: path, fd: fd}
	if err := f.mapAndCopyEnvelope(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) mapAndCopyEnvelope() error {
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
	// The first page has the size of the envelope. It is read from the copy, so that a change of
	// the file meanwhile does not count.
	if err = f.copyToPrivate(0, 1); err == nil {
		err = f.copyToPrivate(0, fbs.ReadStruct[fbs.Preamble](f.data).Envelope)
	}
	return err
}

// hugePageCopyMin is the size of a copy from which huge pages are worth asking for. Without them
// copying takes as long as three passes over the bytes.
const hugePageCopyMin = 2 << 20

// copyToPrivate replaces the mapped pages with the bytes of the file from first up to end by
// private copies, except pages that are private already.
func (f *File) copyToPrivate(first, end uint64) error {
	// Whole pages are replaced, because mmap replaces nothing smaller.
	size, page := uint64(len(f.data)), uint64(unix.Getpagesize())
	first = max(first/page*page, f.privateEnd)
	end = min(fbs.RoundUp(min(end, size), page), size)
	if first >= end {
		return nil
	}
	part := f.data[first:end]

	// Reject more than the machine has: the copy would wake the OOM killer.
	if available, _ := availableMemory(end - first); end-first > available {
		const text = ": %d bytes of it must be copied into memory, the machine has %d available"
		return hal.NewFault(hal.BadImage, f.path+fbs.Text(text, end-first, available))
	}

	// Map anonymous memory over the pages of the file, so that f.data stays one slice.
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(&part[0]), uintptr(len(part)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED)
	if len(part) >= hugePageCopyMin && err == nil {
		_ = unix.Madvise(part, unix.MADV_HUGEPAGE) // not every kernel has them
	}

	// Read the file into it; pread, because the mapping is gone.
	for n, done := 0, 0; done < len(part) && err == nil; done += n {
		n, err = unix.Pread(f.fd, part[done:], int64(first)+int64(done))
		if n == 0 {
			return hal.NewFault(hal.IO, f.path+": "+FileTruncatedText)
		}
	}
	if err != nil {
		return hal.FileFault(f.path, err)
	}

	// From here on nothing in this process may change the bytes either.
	if first == f.privateEnd {
		f.privateEnd = end
	}
	return unix.Mprotect(part, unix.PROT_READ)
}

// FileTruncatedText is the reason of an error, or of a run that failed, because bytes of the image
// file are gone.
const FileTruncatedText = "the image file was cut short while it was read; " +
	"replace it by a rename (mv)"

// Verify checks every byte of the file. The error is a *hal.Fault.
func (f *File) Verify() (view *fbs.View, err error) {
	err = f.inspectGuarded(func(data []byte) (err error) {
		view, err = fbs.VerifyEnvelope(data)
		return err
	})
	if err == nil {
		err = f.copyInputs(view)
	}
	if err == nil {
		err = f.inspectGuarded(func([]byte) error { return view.VerifyPayload() })
	}
	if err != nil {
		return nil, err
	}
	return view, nil
}

// copyInputs copies the payload from the first default data of an input to the last. Tools that
// make images put such data first, so that little else is copied.
func (f *File) copyInputs(view *fbs.View) error {
	if f.inputsCopied {
		return nil
	}
	first, end := uint64(len(f.data)), uint64(0)
	payload := uint64(hal.AddressOf(view.Payload) - hal.AddressOf(f.data))
	for i := range view.Tensors {
		t := &view.Tensors[i]
		if t.Role == gen.RoleInput && t.HasData != 0 {
			begin := payload + t.DataOffset
			first = min(first, begin)
			end = max(end, begin+t.Size)
		}
	}
	err := f.copyToPrivate(first, end)
	f.inputsCopied = err == nil
	return err
}

// inspectGuarded calls check with the bytes of the file and returns its error, with the path in
// front. A file that is truncated meanwhile is an error too, and so is a panic.
func (f *File) inspectGuarded(check func(data []byte) error) error {
	var err error
	ended := recoverPanic(func() { err = check(f.data) })
	fault, hasCode := err.(*hal.Fault)
	code, reason := hal.BadImage, ""
	switch {
	case ended.FaultedIn(hal.AddressOf(f.data), uint64(len(f.data))):
		code, reason = hal.IO, FileTruncatedText
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

// recoverPanic calls a function and returns the panic that ended it, if one did. Memory faults are
// panics meanwhile.
func recoverPanic(call func()) (ended hal.Panic) {
	defer hal.Recover(hal.PanicOnFault(true), &ended)
	call()
	return ended
}

// Close unmaps the file. No View or Replay of it may be used afterwards.
func (f *File) Close() error {
	unix.Close(f.fd)
	return hal.Munmap(f.data)
}
