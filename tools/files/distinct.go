package files

import (
	"strings"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// Distinct refuses an output that is an input or another output, whatever
// names and links lead there. It is asked before anything is opened for
// writing. Devices and pipes may be both.
func Distinct(outputs []string, inputs ...string) error {
	for i, path := range outputs {
		for _, input := range inputs {
			if input != "-" && same(path, input) { // which is standard input
				return &hal.Fault{Code: hal.Usage, Reason: path + " is to be written and is an input: " + input}
			}
		}
		for _, other := range outputs[:i] {
			if same(path, other) {
				return &hal.Fault{Code: hal.Usage, Reason: path + " is to be written twice, also as " + other}
			}
		}
	}
	return nil
}

// same tells that two paths lead to one place of data of its own.
func same(a, b string) bool {
	left, ok := placeOf(a)
	right, ok2 := placeOf(b)
	return ok && ok2 && left == right
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
	target, err := resolve(path)
	at := strings.LastIndexByte(target, '/') + 1
	ok = err == nil && unix.Stat(target[:at]+".", &status) == nil
	return place{status.Dev, status.Ino, target[at:]}, ok
}
