package runtime

import (
	"lightmetal/fbs"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// Check has a function look at the bytes of the file, such as one that verifies
// a signature, and makes sure that they stay as it saw them: the payload is
// copied too, unless nobody can change it. The error is a *hal.Fault; one of the
// function's without a code counts as a bad image. Check comes before Verify: what
// it copies is not verified yet.
func (f *File) Inspect(check func(data []byte) error) error {
	if !f.isImmutable() {
		if err := f.copyToPrivate(0, uint64(len(f.data))); err != nil {
			return err
		}
	}
	return f.inspect(check)
}

// unchanging tells whether nobody can change the file: by fs-verity, or on a
// block device by a superblock that is read-only, as one on dm-verity always is.
// A mount that is read-only is no such promise.
func (f *File) isImmutable() bool {
	var s unix.Statx_t
	_ = unix.Statx(f.fd, "", unix.AT_EMPTY_PATH, 0, &s) // leaves zeros where the kernel has none
	mounts, _ := hal.ReadText("/proc/self/mountinfo")
	return s.Attributes&unix.STATX_ATTR_VERITY != 0 || s.Dev_major != 0 &&
		isReadOnlySuperblock(mounts, fbs.Text("%d:%d", uint64(s.Dev_major), uint64(s.Dev_minor)))
}

// takesNoWrites tells whether a device's superblock is read-only, by any mount's
// line: "1 2 DEVICE /root /place options - type source superblock's options". No
// name in it has blanks. What a program serves (fuseblk) may change all the same.
func isReadOnlySuperblock(mountinfo, device string) bool {
	kind := textAfter(textAfter(mountinfo, " "+device+" /"), " - ")
	options := textAfter(textAfter(kind, " "), " ")
	return len(options) > 1 && options[:2] == "ro" && kind[:4] != "fuse"
}
