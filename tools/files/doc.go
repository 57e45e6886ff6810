// Package files opens what tools read, and is the only way in which they write.
//
// A regular file is replaced completely or not at all: the data go to a temporary file with
// a random name in the same directory, which is synced and then renamed. Symbolic links are
// followed once, at the start, and the directory stays open.
//
// The new file gets owner and mode of the file that it replaces. At the end the two files
// are exchanged. If the replaced file has another owner or mode by then, they are exchanged
// again, and that is an error. Some file systems (NFS, FAT) cannot exchange files: there, a
// process that may rename files in the directory can put another file in the place between
// the check and the rename, which are two consecutive system calls.
//
// Whether a file is regular is decided by the file and not by its path, also below /proc and
// /dev/fd. Pipes and devices are written in place. "-" is standard output, which must be
// open.
//
// lmrun links this package: no package os, no fmt. Errors are *hal.Fault.
package files
