package files

import (
	"strings"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// followLinks follows symbolic links to a path that is no link. It returns an open descriptor of
// its directory, its base name, and if the file exists its status.
func followLinks(path string, status *unix.Stat_t) (dirFD int, name string, err error) {
	const maxLinks = 40 // as in Linux
	var target [unix.PathMax]byte
	baseFD := unix.AT_FDCWD
	for range maxLinks + 1 {
		// The descriptor stays valid if another process renames the directory.
		dirFD, name, err = openParent(baseFD, path)
		closeDir(baseFD)
		if err != nil {
			return -1, "", err
		}
		// EINVAL: the file is not a link.
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
		// The path in a link is relative to the directory of the link.
		baseFD, path = dirFD, string(target[:n])
	}
	return baseFD, "", unix.ELOOP
}

// openParent opens the directory of path, which is relative to baseFD, and returns its base name.
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

func closeDir(dirFD int) {
	if dirFD >= 0 {
		_ = unix.Close(dirFD)
	}
}
