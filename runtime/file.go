package runtime

import (
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// File is an open image file. Its envelope and the default data of inputs are private copies. The
// rest of the payload is mapped: runs copy it to the device from the page cache, and fail, as
// Verify and Inspect do, if another process has truncated the file.
type File struct {
	path string // for error messages
	fd   int
	data []byte // all bytes of the file: private copies or mapped

	privateEnd   uint64 // data[:privateEnd] is a private copy: whole pages, or the whole file
	inputsCopied bool
}

// Open opens and maps an image file, and copies its envelope into private memory. The error is a
// *hal.Fault.
func Open(path string) (*File, error) {
	// Without O_NONBLOCK, open(2) of a FIFO waits for a writer.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, hal.FileFault(path, err)
	}
	return OpenFD(fd, path)
}

// OpenFD is Open for the open file fd, which the File closes. Errors call the file `name`.
func OpenFD(fd int, name string) (*File, error) {
	f := &File{path: name, fd: fd}
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
		return hal.NewFault(hal.BadImage, f.path+" is not a regular file; name an image file")
	case status.Size == 0:
		return hal.NewFault(hal.BadImage, f.path+": the file is empty")
	}
	f.data, err = hal.Mmap(f.fd, 0, int(status.Size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return hal.FileFault(f.path, err)
	}
	// Read the size of the envelope from the copy of the first page, which no process can change.
	if err = f.copyToPrivate(0, 1); err == nil {
		err = f.copyToPrivate(0, fbs.ReadStruct[fbs.Preamble](f.data).EnvelopeSize)
	}
	return err
}

const hugePageCopyMinBytes = 2 << 20 // larger copies take three times as long in small pages

// copyToPrivate replaces the mapped pages of data[first:end] by private copies at the same
// addresses.
func (f *File) copyToPrivate(first, end uint64) error {
	size, page := uint64(len(f.data)), uint64(unix.Getpagesize())
	first = max(first/page*page, f.privateEnd)
	end = min(fbs.RoundUp(min(end, size), page), size)
	if first >= end {
		return nil
	}
	part := f.data[first:end]

	// If the memory is too small, the kernel's OOM killer may kill any process.
	if available, _ := availableMemoryFor(end - first); end-first > available {
		const text = ": too little memory: the copy of the file needs %d bytes, but only %d are " +
			"available; stop other programs, or use a smaller image"
		return hal.NewFault(hal.BadImage, f.path+fbs.Text(text, end-first, available))
	}

	_, err := unix.MmapPtr(-1, 0, unsafe.Pointer(&part[0]), uintptr(len(part)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_FIXED)
	if len(part) >= hugePageCopyMinBytes && err == nil {
		_ = unix.Madvise(part, unix.MADV_HUGEPAGE) // some kernels lack huge pages
	}

	// pread, because the pages of the file are no longer mapped.
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
	// A store of this process would now fault.
	return unix.Mprotect(part, unix.PROT_READ)
}

// FileTruncatedText is the reason of an error after another process has truncated the image file.
const FileTruncatedText = "the image file was cut short while it was read; " +
	"to replace an image, move the new file over it (`mv`)"

// Verify checks every byte of the file, and returns a view of the image for Load. The error is a
// *hal.Fault.
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

// copyInputs copies the payload from the first default data to the last. It does so once: a later
// Verify must not change what a Replay uses.
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

// inspectCatchingFaults returns the error of check, also if check panics, or if another process
// truncates the file meanwhile. The text begins with the file's path.
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

// Close closes and unmaps the file. Afterwards no View of it, and no Replay of such a View, may be
// used.
func (f *File) Close() error {
	unix.Close(f.fd)
	return hal.Munmap(f.data)
}
