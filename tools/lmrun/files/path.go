package files

import (
	"strings"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file resolves the path of an output to an open directory and a base name in it.

// followLinks resolves path. If the last element of path is a symbolic link, it follows the
// link, and further links at its end. It returns a file descriptor of the resulting
// directory, and the base name in it. It fills in status with the status of the file with
// this name, and leaves status unchanged if no such file exists.
func followLinks(path string, status *unix.Stat_t) (dirFD int, name string, err error) {
	const linksMax = 40 // symbolic links that may follow one another; the same limit as in Linux
	var target [unix.PathMax]byte
	baseFD := unix.AT_FDCWD
	for range linksMax {
		// Open the directory. If it is renamed from now on, the descriptor still refers to it.
		dirFD, name, err = openDir(baseFD, path)
		closeDir(baseFD)
		if err != nil {
			return -1, "", err
		}
		// Read the file with this name as a link. EINVAL means that it is not a link, so that
		// the path is resolved.
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
		// Continue with the target of the link, which is relative to the directory of the link.
		baseFD, path = dirFD, string(target[:n])
	}
	return baseFD, "", unix.ELOOP
}

// openDir opens the directory part of path, which is relative to the directory of baseFD. It
// returns the file descriptor of that directory and the base name of path.
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
