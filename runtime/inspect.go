package runtime

// This file lets the caller check an image file, for example the signature of the file, before the
// caller calls Verify.

import (
	"lightmetal/fbs"
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

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

// isImmutable reports whether no process can change the file. This is the case if fs-verity
// protects the file, or if the superblock of the file system is read-only. (On dm-verity the
// superblock is always read-only.) A read-only mount is not sufficient, because the same file
// system may also be mounted writable at another place. isImmutable does not consider processes
// that can remount the file system or write to the block device below it (see THREATS.md).
func (f *File) isImmutable() bool {
	var status unix.Statx_t
	// Ignore errors: if the kernel does not have statx, status remains zero.
	_ = unix.Statx(f.fd, "", unix.AT_EMPTY_PATH, 0, &status)
	mountinfo, _ := hal.ReadText("/proc/self/mountinfo")
	device := fbs.Text("%d:%d", uint64(status.Dev_major), uint64(status.Dev_minor))
	isOnBlockDevice := status.Dev_major != 0 // tmpfs, NFS, overlayfs and so on have major number 0
	return status.Attributes&unix.STATX_ATTR_VERITY != 0 ||
		isOnBlockDevice && isReadOnlySuperblock(mountinfo, device)
}

// isReadOnlySuperblock reports whether the superblock on a block device is read-only. The parameter
// `mountinfo` is the text of /proc/self/mountinfo. The parameter `device` has the major and minor
// number of the block device, for example "8:1". Each line of `mountinfo` describes one mount, and
// has these fields, which contain no blanks:
//
//	1 2 DEVICE /root /mountpoint options - type source superblock-options
//
// All lines of a device have the same superblock options. Therefore the function reads only the
// first line of the device. It returns false for a FUSE file system, because the program that
// implements the file system can change the file at any time. The function does not use statfs or
// statx, because these calls do not distinguish a read-only superblock from a read-only mount.
func isReadOnlySuperblock(mountinfo, device string) bool {
	fileSystem := textAfter(textAfter(mountinfo, " "+device+" /"), " - ")
	options := textAfter(textAfter(fileSystem, " "), " ")
	return len(options) > 1 && options[:2] == "ro" && fileSystem[:4] != "fuse"
}
