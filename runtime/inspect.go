package runtime

// This file lets the caller check an image file, for example the signature of the file, before the
// caller calls Verify.

import "golang.org/x/sys/unix"

// Inspect passes all bytes of the file to the function `check`, and returns the error of that
// function. The bytes have not been verified, so the function must handle invalid images.
//
// Later calls of Verify and Run use the same bytes as the function `check`. To ensure this, Inspect
// first copies the payload into private memory, unless the file is immutable.
//
// The error is a *hal.Fault. If `check` returns an error of another type, Inspect converts it to a
// *hal.Fault with the code hal.BadImage.
func (f *File) Inspect(check func(data []byte) error) error {
	if !f.isImmutable() {
		if err := f.copyToPrivate(0, uint64(len(f.data))); err != nil {
			return err
		}
	}
	return f.inspectCatchingFaults(check)
}

// isImmutable reports whether fs-verity protects the file, so that no process can change it. It
// ignores processes that can write to the block device (see THREATS.md).
func (f *File) isImmutable() bool {
	var status unix.Statx_t
	// Ignore errors: if the kernel does not have statx, status remains zero.
	_ = unix.Statx(f.fd, "", unix.AT_EMPTY_PATH, 0, &status)
	return status.Attributes&unix.STATX_ATTR_VERITY != 0
}
