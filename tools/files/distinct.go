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

// same tells that two paths lead to one file with data of its own. Where none
// is there yet, only equal names are known to.
func same(a, b string) bool {
	if IsStdout(a) || IsStdout(b) {
		return IsStdout(a) && IsStdout(b)
	}
	var left, right unix.Stat_t
	if unix.Stat(a, &left) == nil && unix.Stat(b, &right) == nil {
		if left.Mode&right.Mode&unix.S_IFMT == unix.S_IFBLK { // which may have several nodes
			return left.Rdev == right.Rdev
		}
		return left.Dev == right.Dev && left.Ino == right.Ino && left.Mode&unix.S_IFMT == unix.S_IFREG
	}
	from, err := resolve(a)
	to, err2 := resolve(b)
	if err != nil || err2 != nil {
		return false
	}
	folderA, nameA := split(from)
	folderB, nameB := split(to)
	return nameA == nameB && unix.Stat(folderA, &left) == nil && unix.Stat(folderB, &right) == nil &&
		left.Dev == right.Dev && left.Ino == right.Ino
}

func split(path string) (folder, name string) {
	at := strings.LastIndexByte(path, '/') + 1
	if at == 0 {
		return ".", path
	}
	return path[:at], path[at:]
}
