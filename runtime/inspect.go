package runtime

// Checks that a caller makes on the bytes of a file, such as of a signature.

import (
	"lightmetal/fbs"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// Inspect calls check with the bytes of the file, before Verify, and makes sure that they do not
// change afterwards: it first copies the payload into private memory too, unless the file is
// immutable. The bytes are not verified yet. The error is a *hal.Fault; an error of check that
// has no code counts as a bad image.
func (f *File) Inspect(check func(data []byte) error) error {
	if !f.isImmutable() {
		if err := f.copyToPrivate(0, uint64(len(f.data))); err != nil {
			return err
		}
	}
	return f.inspectGuarded(check)
}

// isImmutable reports whether no process can change the file: it has fs-verity, or it is on a
// block device whose superblock is read-only, as on dm-verity. A read-only mount alone does not
// count, as another mount of the same file system may be writable.
func (f *File) isImmutable() bool {
	var status unix.Statx_t
	_ = unix.Statx(f.fd, "", unix.AT_EMPTY_PATH, 0, &status) // all zero if the kernel has no statx
	mountinfo, _ := hal.ReadText("/proc/self/mountinfo")
	device := fbs.Text("%d:%d", uint64(status.Dev_major), uint64(status.Dev_minor))
	isOnBlockDevice := status.Dev_major != 0
	return status.Attributes&unix.STATX_ATTR_VERITY != 0 ||
		isOnBlockDevice && isReadOnlySuperblock(mountinfo, device)
}

// isReadOnlySuperblock reports whether the superblock of a device is read-only. Any line of the
// device will do: "1 2 DEVICE /root /mountpoint options - type source superblock-options".
// No field contains blanks. A FUSE file system is served by a program, which may change the file
// even so. statfs and statx do not report the superblock's flag apart from the mount's.
func isReadOnlySuperblock(mountinfo, device string) bool {
	kind := textAfter(textAfter(mountinfo, " "+device+" /"), " - ")
	options := textAfter(textAfter(kind, " "), " ")
	return len(options) > 1 && options[:2] == "ro" && kind[:4] != "fuse"
}
