package files

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file rejects outputs that would overwrite an input or each other.

// RejectAliases returns an error if an output is the same file as an input or as another
// output, even if the paths differ because of links. Callers must call it before they open
// an output. A character device or a pipe may be an input and an output, or several
// outputs. The path "-" is standard input or standard output.
func RejectAliases(outputs []string, inputs ...string) error {
	for i, path := range outputs {
		output, ok := identityOf(path)
		if !ok {
			continue
		}
		for _, input := range inputs {
			file := input
			if input == "-" {
				file = "/dev/stdin" // standard input may be a regular file
			}
			if leadsTo(file, output) {
				return aliasError(path, "input", input)
			}
		}
		for _, other := range outputs[:i] {
			if leadsTo(other, output) {
				return aliasError(path, "output", other)
			}
		}
	}
	return nil
}

// aliasError returns the error for an output that is the same file as other, which is an
// input or another output, as role says.
func aliasError(path, role, other string) error {
	reason := "output " + path + " is the same file as " + role + " " + other
	return hal.NewFault(hal.Usage, reason+"; name another file")
}

// leadsTo reports whether the file at path has the given identity.
func leadsTo(path string, identity fileIdentity) bool {
	found, ok := identityOf(path)
	return ok && found == identity
}

// fileIdentity distinguishes a file from all others. For a file that exists, device and
// inode are its own, and name is empty. For a file that does not exist yet, they are the
// device and inode of its directory, and name is its base name. For a block device, device
// is the number of the block device. For standard output, name is "-".
type fileIdentity struct {
	device, inode uint64
	name          string
}

// identityOf returns the identity of the file at path. The result ok is false for a file
// that may be named several times, such as a pipe or a character device, and if the
// directory of the file does not exist.
func identityOf(path string) (identity fileIdentity, ok bool) {
	if IsStdout(path) {
		return fileIdentity{name: "-"}, true
	}
	var status unix.Stat_t
	if unix.Stat(path, &status) == nil {
		switch status.Mode & unix.S_IFMT {
		case unix.S_IFBLK: // several files in /dev can name one block device
			return fileIdentity{device: status.Rdev}, true
		case unix.S_IFREG:
			return fileIdentity{device: status.Dev, inode: status.Ino}, true
		}
		return fileIdentity{}, false
	}
	dirFD, name, err := followLinks(path, &status)
	ok = err == nil && unix.Fstat(dirFD, &status) == nil
	closeDir(dirFD)
	return fileIdentity{status.Dev, status.Ino, name}, ok
}
