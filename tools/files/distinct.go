package files

import (
	"lightmetal/hal"
	"lightmetal/hal/unix"
)

// RejectAliases returns an error if an output is the same file as an input or as
// another output, whatever names and links lead to it. Callers ask before they open
// anything for writing. Devices and pipes may be both. "-" is standard input or output.
func RejectAliases(outputs []string, inputs ...string) error {
	for i, path := range outputs {
		here, ok := identityOf(path)
		for j, other := range append(inputs[:len(inputs):len(inputs)], outputs[:i]...) {
			reason, real := " is the input ", other
			if j >= len(inputs) {
				reason = " is the same file as output "
			} else if other == "-" {
				real = "/dev/stdin" // a file that the shell opened counts too
			}
			if there, found := identityOf(real); ok && found && here == there {
				return hal.NewFault(hal.Usage, "output "+path+reason+other+"; name another file")
			}
		}
	}
	return nil
}

// place is a file, or, where none is there yet, its folder and its name in it.
type fileIdentity struct {
	device, inode uint64
	name          string
}

func identityOf(path string) (p fileIdentity, ok bool) {
	var status unix.Stat_t
	if IsStdout(path) {
		return fileIdentity{name: "-"}, true
	}
	if unix.Stat(path, &status) == nil {
		if status.Mode&unix.S_IFMT == unix.S_IFBLK { // which may have several nodes
			return fileIdentity{device: status.Rdev}, true
		}
		return fileIdentity{status.Dev, status.Ino, ""}, status.Mode&unix.S_IFMT == unix.S_IFREG
	}
	dir, name, err := follow(path, &status)
	ok = err == nil && unix.Fstat(dir, &status) == nil
	closeDir(dir)
	return fileIdentity{status.Dev, status.Ino, name}, ok
}
