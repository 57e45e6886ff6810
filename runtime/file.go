package runtime

// This file opens image files and verifies their contents. It copies some parts of an image file
// into private memory, so that other processes cannot change these parts. The rest is mapped.

import (
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// File is an open image file. The file consists of the envelope, which contains tables and
// commands, and of the payload, which contains data.
//
// The envelope and the default data of inputs are copied into private memory before they are
// verified. Therefore another process that rewrites or truncates the file cannot change the copies.
// The rest of the payload is mapped. Runs copy it to the device directly from the page cache. Only
// Verify, Inspect and Replay.Run read the mapped payload. These three functions return an error if
// the file has been truncated.
type File struct {
	path string // path that the caller passed to Open, for error messages
	fd   int    // file descriptor, from which copyToPrivate reads
	data []byte // all bytes of the file: some pages are private copies, the others are mapped
	// data[:privateEnd] is a private copy. The offset privateEnd is a multiple of the page size, or
	// is the size of the file.
	privateEnd   uint64
	inputsCopied bool // copyInputs has copied the default data of inputs into private memory
}

// Open opens and maps an image file, and copies its envelope into private memory. The error is a
// *hal.Fault.
func Open(path string) (*File, error) {
	// O_NONBLOCK matters if the path names a FIFO: without this flag, open(2) would wait until
	// another process opens the FIFO for writing.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, hal.FileFault(path, err)
	}
	return OpenFD(fd, path)
}

// OpenFD is Open for the open file fd, which the File closes. Errors call it name.
func OpenFD(fd int, name string) (*File, error) {
	f := &File{path: name, fd: fd}
	if err := f.mapAndCopyEnvelope(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// mapAndCopyEnvelope maps the whole file, then replaces the pages of the envelope by a private
// copy.
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
	// Copy the first page, which contains the size of the envelope. Then read this size from the
	// copy, because other processes cannot change the copy. Last, copy the rest of the envelope.
	if err = f.copyToPrivate(0, 1); err == nil {
		err = f.copyToPrivate(0, fbs.ReadStruct[fbs.Preamble](f.data).EnvelopeSize)
	}
	return err
}

// hugePageCopyMinBytes is the smallest size of a copy for which copyToPrivate requests huge pages.
// Without huge pages, a copy of this size takes about three times as long.
const hugePageCopyMinBytes = 2 << 20

// copyToPrivate copies the range f.data[first:end] of the file into private memory. The private
// memory replaces the mapped pages at the same addresses. copyToPrivate copies whole pages, and
// skips the pages before f.privateEnd, because those pages are a private copy already.
func (f *File) copyToPrivate(first, end uint64) error {
	// Extend the range to whole pages, because mmap can replace only whole pages.
	size, page := uint64(len(f.data)), uint64(unix.Getpagesize())
	first = max(first/page*page, f.privateEnd)
	end = min(fbs.RoundUp(min(end, size), page), size)
	if first >= end {
		return nil
	}
	part := f.data[first:end]

	// Return an error if the copy does not fit into the available memory. Without this check, the
	// kernel's OOM killer could kill a process.
	if available, _ := availableMemoryFor(end - first); end-first > available {
		const text = ": too little memory: the copy of the file needs %d bytes, but only %d are " +
			"available"
		return hal.NewFault(hal.BadImage, f.path+fbs.Text(text, end-first, available))
	}

	// Replace the mapped pages of the file by anonymous memory. The addresses remain the same, so
	// that f.data remains one slice of all bytes of the file.
	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(&part[0]), uintptr(len(part)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED)
	if len(part) >= hugePageCopyMinBytes && err == nil {
		_ = unix.Madvise(part, unix.MADV_HUGEPAGE) // ignore errors: some kernels lack huge pages
	}

	// Read the bytes of the file into the anonymous memory. Read them with pread, because the pages
	// of the file are no longer mapped.
	for n, done := 0, 0; done < len(part) && err == nil; done += n {
		n, err = unix.Pread(f.fd, part[done:], int64(first)+int64(done))
		if n == 0 {
			return hal.NewFault(hal.IO, f.path+": "+FileTruncatedText)
		}
	}
	if err != nil {
		return hal.FileFault(f.path, err)
	}

	if first == f.privateEnd {
		f.privateEnd = end
	}
	// Make the copy read-only, so that this process cannot change it by mistake.
	return unix.Mprotect(part, unix.PROT_READ)
}

// FileTruncatedText is the reason in an error message if another process has truncated the image
// file while this process read it.
const FileTruncatedText = "the image file was cut short while it was read; " +
	"to replace an image, move the new file over it (`mv`)"

// Verify checks every byte of the file, and returns a view of the image. Load accepts this view.
// The error is a *hal.Fault.
func (f *File) Verify() (view *fbs.View, err error) {
	err = f.inspectCatchingFaults(func(data []byte) (err error) {
		view, err = fbs.VerifyEnvelope(data)
		return err
	})
	if err == nil {
		err = f.copyInputs(view)
	}
	if err == nil {
		err = f.inspectCatchingFaults(func([]byte) error { return view.VerifyPayload() })
	}
	if err != nil {
		return nil, err
	}
	return view, nil
}

// copyInputs copies the default data of all inputs into private memory, unless an earlier call has
// copied this data. It copies one range of the payload: from the first to the last byte of default
// data. The range contains little other data, because the tools that create images put the default
// data of inputs at the start of the payload.
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

// inspectCatchingFaults passes the bytes of the file to the function `check`, and returns the error
// of `check`. It also returns an error if `check` panics, or if another process truncates the file
// while `check` reads the file. Each error text begins with the file's path.
func (f *File) inspectCatchingFaults(check func(data []byte) error) error {
	var err error
	ended := callAndRecover(func() { err = check(f.data) })
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

// callAndRecover calls f. If f panics, callAndRecover recovers and returns a description of the
// panic. If f does not panic, callAndRecover returns the zero value. A memory fault in f is a
// panic, too.
func callAndRecover(f func()) (recovered hal.Panic) {
	defer hal.Recover(hal.SetPanicOnFault(true), &recovered)
	f()
	return recovered
}

// Close closes and unmaps the file. Afterwards the caller must not use a View of the file or a
// Replay of such a View.
func (f *File) Close() error {
	unix.Close(f.fd)
	return hal.Munmap(f.data)
}
