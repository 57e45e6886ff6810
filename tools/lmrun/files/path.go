package files

import (
	"strings"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file finds the directory and the base name of an output. It follows all symbolic links in
// the path of the output.

// followLinks follows the symbolic links from path to a file that is not a link. It returns a file
// descriptor of the directory that contains this file, and the base name of the file. If the file
// exists, followLinks stores its status in *status.
func followLinks(path string, status *unix.Stat_t) (dirFD int, name string, err error) {
	const maxLinks = 40 // Linux, too, follows at most 40 symbolic links in one path
	var target [unix.PathMax]byte
	baseFD := unix.AT_FDCWD
	for range maxLinks {
		// Open the directory. The file descriptor refers to this directory even if another
		// process renames it later.
		dirFD, name, err = openParent(baseFD, path)
		closeDir(baseFD)
		if err != nil {
			return -1, "", err
		}
		// Try to read the file as a symbolic link. EINVAL means that the file is not a link.
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

// openParent splits path after the last slash into the path of a directory and a base name. It
// opens the directory. A relative path begins at the directory with the file descriptor baseFD.
// openParent returns the file descriptor of the opened directory, and the base name.
func openParent(baseFD int, path string) (dirFD int, name string, err error) {
	slash := strings.LastIndexByte(path, '/') + 1
	if name = path[slash:]; name == "" {
		return -1, "", unix.EISDIR
	}
	parent := path[:slash]
	dirFD, err = openAt(baseFD, parent+".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == unix.ENOENT {
		reason := "directory " + parent + " does not exist; `mkdir -p " + parent + "` creates it"
		err = hal.NewFault(hal.NoFile, reason)
	}
	return dirFD, name, err
}

// closeDir closes a file descriptor of a directory. It does nothing if dirFD is negative.
func closeDir(dirFD int) {
	if dirFD >= 0 {
		_ = unix.Close(dirFD)
	}
}
