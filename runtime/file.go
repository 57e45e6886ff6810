package runtime

// This file opens and verifies image files. A part of the file is copied, the rest is mapped.

import (
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// File is an image file in memory. The envelope, which contains the commands, and the default data
// of inputs are copied into private memory before they are verified. Therefore a process that
// rewrites or truncates the file cannot change the copies. The rest of the payload is mapped: it
// stays in the page cache, and runs copy it from there to the device. Only Verify, Inspect and
// Replay.Run read the mapped payload; they return an error if the file has been truncated.
type File struct {
	path string
	fd   int
	data []byte // the bytes of the file: private copies and mapped pages
	// All bytes of data before this offset are a private copy. The offset is a multiple of the
	// page size, or the size of the file.
	privateEnd   uint64
	inputsCopied bool // the default data of inputs are private copies; Verify copies them once
}

// Open maps a file and copies its envelope. The error is a *hal.Fault.
func Open(path string) (*File, error) {
	// Without O_NONBLOCK, opening a FIFO waits until another process opens it for writing.
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

// mapAndCopyEnvelope maps the whole file, then replaces the envelope by a private copy.
func (f *File) mapAndCopyEnvelope() error {
	var status unix.Stat_t
	err := unix.Fstat(f.fd, &status)
	switch {
	case err != nil || status.Mode&unix.S_IFMT != unix.S_IFREG:
		return hal.NewFault(hal.BadImage, f.path+" is not a regular file; name an image file")
	case status.Size == 0:
		return hal.NewFault(hal.BadImage, f.path+": the file is empty")
	}
	f.data, err = hal.Mmap(f.fd, 0, int(status.Size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return hal.FileFault(f.path, err)
	}
	// Copy the first page, because it contains the size of the envelope. The size is read from the
	// copy, so that another process cannot change it between the two calls.
	if err = f.copyToPrivate(0, 1); err == nil {
		err = f.copyToPrivate(0, fbs.ReadStruct[fbs.Preamble](f.data).Envelope)
	}
	return err
}

// hugePageCopyMin is the smallest copy, in bytes, for which copyToPrivate requests huge pages. In
// small pages, a copy takes as long as reading its bytes three times.
const hugePageCopyMin = 2 << 20

// copyToPrivate copies the bytes of the file from offset first up to offset end into private
// memory, which replaces the mapped pages at the same addresses. It copies whole pages, and skips
// the pages before f.privateEnd, which are private already.
func (f *File) copyToPrivate(first, end uint64) error {
	// Extend the range to whole pages, because mmap replaces only whole pages.
	size, page := uint64(len(f.data)), uint64(unix.Getpagesize())
	first = max(first/page*page, f.privateEnd)
	end = min(fbs.RoundUp(min(end, size), page), size)
	if first >= end {
		return nil
	}
	part := f.data[first:end]

	// Return an error if the copy does not fit into memory. Otherwise the kernel's OOM killer
	// would end a process.
	if available, _ := availableMemory(end - first); end-first > available {
		const text = ": the copy needs %d bytes of memory, but only %d are available"
		return hal.NewFault(hal.BadImage, f.path+fbs.Text(text, end-first, available))
	}

	// Map anonymous memory at the addresses of the file's pages, so that f.data stays one slice.
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(&part[0]), uintptr(len(part)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED)
	if len(part) >= hugePageCopyMin && err == nil {
		_ = unix.Madvise(part, unix.MADV_HUGEPAGE) // optional: fails on kernels without huge pages
	}

	// Fill the anonymous memory with pread, because the pages of the file are not mapped any more.
	for n, done := 0, 0; done < len(part) && err == nil; done += n {
		n, err = unix.Pread(f.fd, part[done:], int64(first)+int64(done))
		if n == 0 {
			return hal.NewFault(hal.IO, f.path+": "+FileTruncatedText)
		}
	}
	if err != nil {
		return hal.FileFault(f.path, err)
	}

	// Make the copy read-only, so that this process cannot change it either.
	if first == f.privateEnd {
		f.privateEnd = end
	}
	return unix.Mprotect(part, unix.PROT_READ)
}

// FileTruncatedText is the text of an error, or of the failure of a run, if another process has
// truncated the image file.
const FileTruncatedText = "the image file was cut short while it was read; " +
	"to replace an image, rename the new file to its name (mv)"

// Verify checks every byte of the file and returns a view of the image. The error is a *hal.Fault.
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

// copyInputs copies the default data of all inputs into private memory. It copies one range of the
// payload: from the first byte of such data to the last. Tools that make images put the default
// data of inputs first in the payload, so that the range contains little else.
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

// inspectGuarded calls check with the bytes of the file. It returns the error of check, preceded
// by the path of the file. If check panics, or if the file is truncated while check reads it,
// inspectGuarded returns an error too.
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

// recoverPanic calls f. If f panics, recoverPanic stops the panic and returns a description of it;
// otherwise it returns the zero value. A memory fault in f becomes a panic.
func recoverPanic(f func()) (ended hal.Panic) {
	defer hal.Recover(hal.PanicOnFault(true), &ended)
	f()
	return ended
}

// Close unmaps the file. The caller must not use a View or Replay of the file afterwards.
func (f *File) Close() error {
	unix.Close(f.fd)
	return hal.Munmap(f.data)
}
