package files

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// Distinct refuses an output that is an input or another output, whatever
// names and links lead there. It is asked before anything is opened for
// writing. Devices and pipes may be both.
func Distinct(outputs []string, inputs ...string) error {
	for i, path := range outputs {
		here, own := placeOf(path)
		for j, other := range append(inputs[:len(inputs):len(inputs)], outputs[:i]...) {
			reason := " is to be written and is an input: "
			if j >= len(inputs) {
				reason = " is to be written twice, also as "
			} else if other == "-" { // standard input
				continue
			}
			if there, owned := placeOf(other); own && owned && here == there {
				return hal.NewFault(hal.Usage, path+reason+other)
			}
		}
	}
	return nil
}

// place is a file, or, where none is there yet, its folder and its name in it.
type place struct {
	device, inode uint64
	name          string
}

func placeOf(path string) (p place, ok bool) {
	var status unix.Stat_t
	if IsStdout(path) {
		return place{name: "-"}, true
	}
	if unix.Stat(path, &status) == nil {
		if status.Mode&unix.S_IFMT == unix.S_IFBLK { // which may have several nodes
			return place{device: status.Rdev}, true
		}
		return place{status.Dev, status.Ino, ""}, status.Mode&unix.S_IFMT == unix.S_IFREG
	}
	dir, name, err := follow(path, &status)
	ok = err == nil && unix.Fstat(dir, &status) == nil
	closeDir(dir)
	return place{status.Dev, status.Ino, name}, ok
}
