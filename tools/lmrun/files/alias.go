package files

import (
	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// RejectAliases returns an error if an output is the same file as an input or another output, even
// by links. Pipes and character devices are exempt. The path "-" is standard input or output. Call
// it before outputs are opened.
func RejectAliases(outputs []string, inputs ...string) error {
	for i, path := range outputs {
		output, ok := identityOf(path)
		for j, other := range append(inputs[:len(inputs):len(inputs)], outputs[:i]...) {
			file, role := other, "input"
			switch {
			case j >= len(inputs):
				role = "output"
			case other == "-":
				file = "/dev/stdin" // standard input can be a regular file
			}
			if found, exists := identityOf(file); ok && exists && found == output {
				return hal.NewFault(hal.Usage, "output "+path+" is the same file as "+role+" "+
					other+"; name another file")
			}
		}
	}
	return nil
}

// fileIdentity is equal for two paths of the same file. Its fields depend on the file:
//   - A regular file: st_dev and st_ino.
//   - No file yet: st_dev and st_ino of its directory, and the base name.
//   - A block device: its number, st_rdev.
//   - Standard output: the name "-".
type fileIdentity struct {
	device, inode uint64
	name          string
}

// identityOf returns false for a pipe or character device, and if the directory cannot be opened.
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
