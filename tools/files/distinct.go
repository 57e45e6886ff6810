package files

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// This file rejects outputs that would overwrite an input or each other.

// RejectAliases returns an error if an output is the same file as an input or as another
// output, whatever names and links lead to it. Callers call it before they open a file for
// writing. Devices and pipes may be both. "-" is standard input or output.
func RejectAliases(outputs []string, inputs ...string) error {
	for i, path := range outputs {
		here, ok := identityOf(path)
		if !ok {
			continue
		}
		for _, input := range inputs {
			file := input
			if input == "-" {
				file = "/dev/stdin" // a file that the shell opened counts too
			}
			if isFile(file, here) {
				return aliasError(path, " is the input ", input)
			}
		}
		for _, other := range outputs[:i] {
			if isFile(other, here) {
				return aliasError(path, " is the same file as output ", other)
			}
		}
	}
	return nil
}

func aliasError(path, relation, other string) error {
	return hal.NewFault(hal.Usage, "output "+path+relation+other+"; name another file")
}

// isFile reports whether a path leads to a file.
func isFile(path string, file fileIdentity) bool {
	identity, ok := identityOf(path)
	return ok && identity == file
}

// fileIdentity is what distinguishes a file from all others: device and inode, or those of
// its directory and its name if there is no file yet.
type fileIdentity struct {
	device, inode uint64
	name          string
}

// identityOf returns the identity of a file that must not be an output twice. It is false
// for pipes and character devices, and if the path leads nowhere.
func identityOf(path string) (p fileIdentity, ok bool) {
	if IsStdout(path) {
		return fileIdentity{name: "-"}, true
	}
	var status unix.Stat_t
	if unix.Stat(path, &status) == nil {
		switch status.Mode & unix.S_IFMT {
		case unix.S_IFBLK: // several nodes can mean one device
			return fileIdentity{device: status.Rdev}, true
		case unix.S_IFREG:
			return fileIdentity{device: status.Dev, inode: status.Ino}, true
		}
		return fileIdentity{}, false
	}
	dir, name, err := followLinks(path, &status)
	ok = err == nil && unix.Fstat(dir, &status) == nil
	closeDir(dir)
	return fileIdentity{status.Dev, status.Ino, name}, ok
}
