// Package files opens what tools read, and is the one way in which they write.
//
// A regular file is replaced completely or not at all: the data go to a temporary file
// in the same directory, of a random name, which is synced and then renamed. Symbolic
// links are followed once, at the start, and the directory stays open. The new file gets
// owner and mode of the file that it replaces. If another file has the name by the time
// of the rename, it is replaced only if it has the same owner and mode. A process that may
// rename in the directory can still exchange files between that check and the rename,
// which are two consecutive system calls. Whether a file is regular is decided by the
// file and not by its path, also below /proc and /dev/fd. Pipes and devices are written
// in place. "-" is standard output, which must be open.
//
// lmrun links it: no package os, no fmt. Errors are *hal.Fault.
package files
