package files

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file rejects outputs that would overwrite an input or each other.

// RejectAliases returns an error if an output is the same file as an input or as another output,
// even under another path because of links. Pipes and character devices are exempt. The path "-" is
// standard input in `inputs`, and standard output in `outputs`. Callers must call RejectAliases
// before they open the outputs.
func RejectAliases(outputs []string, inputs ...string) error {
	for i, path := range outputs {
		output, ok := identityOf(path)
		if !ok {
			continue
		}
		for _, input := range inputs {
			file := input
			if input == "-" {
				// Standard input can be a regular file. Use a path with which stat(2) finds the
				// file.
				file = "/dev/stdin"
			}
			if hasIdentity(file, output) {
				return aliasError(path, "input", input)
			}
		}
		for _, other := range outputs[:i] {
			if hasIdentity(other, output) {
				return aliasError(path, "output", other)
			}
		}
	}
	return nil
}

// aliasError returns the error for an output that is the same file as another file. The parameter
// otherRole is "input" or "output": the role of the file at the path `other`.
func aliasError(output, otherRole, other string) error {
	reason := "output " + output + " is the same file as " + otherRole + " " + other
	return hal.NewFault(hal.Usage, reason+"; name another file")
}

// hasIdentity reports whether the file at path has the given identity.
func hasIdentity(path string, identity fileIdentity) bool {
	found, ok := identityOf(path)
	return ok && found == identity
}

// fileIdentity identifies a file: two paths name the same file if their identities are equal. The
// fields depend on the file:
//   - A regular file: `device` and `inode` are st_dev and st_ino of the file. `name` is empty.
//   - A file that does not exist yet: `device` and `inode` are st_dev and st_ino of the directory
//     in which the file would be. `name` is the base name of the file.
//   - A block device: `device` is the number of the block device. The other fields are zero.
//   - Standard output: `name` is "-". The other fields are zero.
type fileIdentity struct {
	device, inode uint64
	name          string
}

// identityOf returns the identity of the file at path. The result `ok` is false if the file has a
// type that RejectAliases does not compare, such as a pipe or a character device, or if the
// directory of the file cannot be opened.
func identityOf(path string) (identity fileIdentity, ok bool) {
	if IsStdout(path) {
		return fileIdentity{name: "-"}, true
	}
	var status unix.Stat_t
	if unix.Stat(path, &status) == nil {
		switch status.Mode & unix.S_IFMT {
		case unix.S_IFBLK: // several inodes in /dev can name the same block device
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
