package runtime

import "golang.org/x/sys/unix"

// Inspect passes all bytes of the file, not verified yet, to `check`, and returns its error as a
// *hal.Fault. Verify and Run use the same bytes: unless the file has fs-verity, Inspect first
// copies the payload, too, into private memory.
func (f *File) Inspect(check func(data []byte) error) error {
	if !f.hasVerity() {
		if err := f.copyToPrivate(0, uint64(len(f.data))); err != nil {
			return err
		}
	}
	return f.inspectCatchingFaults(check)
}

// hasVerity reports whether fs-verity protects the file: no process can then open it for writing.
func (f *File) hasVerity() bool {
	var status unix.Statx_t
	_ = unix.Statx(f.fd, "", unix.AT_EMPTY_PATH, 0, &status) // old kernels have no verity: 0
	return status.Attributes&unix.STATX_ATTR_VERITY != 0
}
