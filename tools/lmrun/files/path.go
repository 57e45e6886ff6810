package files

import (
	"strings"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file resolves the path of an output to a directory, which it opens, and the base name of
// the file in that directory.

// followLinks resolves path to a directory and the base name of a file. If the file is a symbolic
// link, followLinks continues with the path in the link, until it finds a file that is not a
// link. It returns a file descriptor of the directory of that file, and the base name of that
// file. It stores the status of that file in *status. If that file does not exist, followLinks
// does not change *status.
func followLinks(path string, status *unix.Stat_t) (dirFD int, name string, err error) {
	const linksMax = 40 // the same number of symbolic links as the kernel follows
	var target [unix.PathMax]byte
	baseFD := unix.AT_FDCWD
	for range linksMax {
		// Open the directory. The file descriptor refers to this directory even if another
		// process renames it later.
		dirFD, name, err = openDir(baseFD, path)
		closeDir(baseFD)
		if err != nil {
			return -1, "", err
		}
		// Try to read the file as a symbolic link. EINVAL means that the file is not a link.
		// The path is then resolved.
		n, err := unix.Readlinkat(dirFD, name, target[:])
		if err == unix.EINVAL {
			err = unix.Fstatat(dirFD, name, status, unix.AT_SYMLINK_NOFOLLOW)
		}
		if err == unix.ENOENT {
			return dirFD, name, nil
		}
		if n <= 0 || err != nil {
			return dirFD, name, err
		}
		// Continue with the path in the link, which is relative to the directory of the link.
		baseFD, path = dirFD, string(target[:n])
	}
	return baseFD, "", unix.ELOOP
}

// openDir splits path at the last slash and opens the directory before the slash. A relative path
// begins at the directory with the file descriptor baseFD. openDir returns the file descriptor of
// the opened directory, and the base name after the slash.
func openDir(baseFD int, path string) (dirFD int, name string, err error) {
	slash := strings.LastIndexByte(path, '/') + 1
	if name = path[slash:]; name == "" {
		return -1, "", unix.EISDIR
	}
	parent := path[:slash]
	dirFD, err = openAt(baseFD, parent+".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == unix.ENOENT {
		reason := "directory " + parent + " does not exist; `mkdir -p " + parent + "` creates it"
		err = hal.NewFault(hal.NoFile, reason)
	}
	return dirFD, name, err
}

// closeDir closes the file descriptor of a directory, unless it is negative.
func closeDir(dirFD int) {
	if dirFD >= 0 {
		_ = unix.Close(dirFD)
	}
}
