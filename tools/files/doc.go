// Package files opens what tools read, and is the one way in which they write.
//
// A regular file is replaced completely or not at all: the data go to a temporary file
// in the same directory, of a random name, which is synced and then renamed. Symbolic
// links are followed once, at the start, and the directory stays open. The new file gets
// owner and mode of the file that it replaces. The two files are
// exchanged, and if the old one has another owner or mode by then, exchanged again, which
// is an error. On a file system that cannot exchange files (NFS, FAT), a process that may
// rename in the directory can put another file there between the check and the rename,
// which are two consecutive system calls there. Whether a file is regular is decided by the
// file and not by its path, also below /proc and /dev/fd. Pipes and devices are written
// in place. "-" is standard output, which must be open.
//
// lmrun links it: no package os, no fmt. Errors are *hal.Fault.
package files
