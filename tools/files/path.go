package files

import (
	"strings"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file resolves the path of an output to an open directory and a name in it.

// followLinks follows the symbolic links at the end of a path. It returns the open
// directory that the last one leads to and the name in it, and fills in the status of the
// file of that name, with zeros if there is no such file.
func followLinks(path string, status *unix.Stat_t) (dir int, name string, err error) {
	const linksMax = 40 // as in the kernel
	var target [unix.PathMax]byte
	from := unix.AT_FDCWD
	for range linksMax {
		// Open the directory: from here on, renamed directories change nothing.
		dir, name, err = openDir(from, path)
		closeDir(from)
		if err != nil {
			return -1, "", err
		}
		// Read the name as a link. If it is not a link, the path ends here.
		n, err := unix.Readlinkat(dir, name, target[:])
		if err == unix.EINVAL {
			err = unix.Fstatat(dir, name, status, unix.AT_SYMLINK_NOFOLLOW)
		}
		if err == unix.ENOENT {
			return dir, name, nil
		}
		if n <= 0 || err != nil {
			return dir, name, err
		}
		// The link's target begins in the directory of the link.
		from, path = dir, string(target[:n])
	}
	return from, "", unix.ELOOP
}

// openDir opens the directory of a path that begins in the directory from, and returns the
// name that follows it.
func openDir(from int, path string) (dir int, name string, err error) {
	slash := strings.LastIndexByte(path, '/') + 1
	if name = path[slash:]; name == "" {
		return -1, "", unix.EISDIR
	}
	parent := path[:slash]
	dir, err = open(from, parent+".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == unix.ENOENT {
		reason := "directory " + parent + " does not exist; `mkdir -p " + parent + "` creates it"
		err = hal.NewFault(hal.NoFile, reason)
	}
	return dir, name, err
}

func closeDir(dir int) {
	if dir >= 0 {
		_ = unix.Close(dir)
	}
}
