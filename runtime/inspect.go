package runtime

// This file lets callers check the bytes of an image file, for example a signature.

import (
	"lightmetal/fbs"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// Inspect calls check with the bytes of the file. Callers call it before Verify, therefore check
// must not trust the bytes. Inspect ensures that the bytes do not change afterwards: unless the
// file is immutable, it copies the payload into private memory first. The error is a *hal.Fault:
// if check returns an error of another type, the code is hal.BadImage.
func (f *File) Inspect(check func(data []byte) error) error {
	if !f.isImmutable() {
		if err := f.copyToPrivate(0, uint64(len(f.data))); err != nil {
			return err
		}
	}
	return f.inspectGuarded(check)
}

// isImmutable reports whether the file counts as immutable: fs-verity protects it, or the
// superblock of its file system is read-only, as it always is on dm-verity. A read-only mount is
// not enough, because the same file system may have another, writable mount. A process that can
// remount the file system or write to its block device is not defended against (THREATS.md).
func (f *File) isImmutable() bool {
	var status unix.Statx_t
	_ = unix.Statx(f.fd, "", unix.AT_EMPTY_PATH, 0, &status) // all zero if the kernel has no statx
	mountinfo, _ := hal.ReadText("/proc/self/mountinfo")
	device := fbs.Text("%d:%d", uint64(status.Dev_major), uint64(status.Dev_minor))
	isOnBlockDevice := status.Dev_major != 0
	return status.Attributes&unix.STATX_ATTR_VERITY != 0 ||
		isOnBlockDevice && isReadOnlySuperblock(mountinfo, device)
}

// isReadOnlySuperblock reports whether the superblock on a block device is read-only, according to
// the text of /proc/self/mountinfo. It reads the first line of the device, because the superblock
// options are the same in all of them:
//
//	1 2 DEVICE /root /mountpoint options - type source superblock-options
//
// No field contains blanks. A FUSE file system never counts as read-only, because the program that
// serves it may change the file. The function parses mountinfo because statfs and statx do not
// distinguish a read-only superblock from a read-only mount.
func isReadOnlySuperblock(mountinfo, device string) bool {
	fileSystem := textAfter(textAfter(mountinfo, " "+device+" /"), " - ")
	options := textAfter(textAfter(fileSystem, " "), " ")
	return len(options) > 1 && options[:2] == "ro" && fileSystem[:4] != "fuse"
}
