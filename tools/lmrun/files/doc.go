// Package files opens the input files and writes the output files of lmrun, lm and the other tools.
// These tools write files only through this package.
//
// A regular file is replaced completely or not at all. The package writes the data to a temporary
// file with a random name in the same directory. It syncs the temporary file to the disk, and then
// renames the temporary file to the name of the file to replace. The package follows symbolic links
// once, when it opens the output. From then on it keeps the directory open, so that later changes
// of links have no effect.
//
// The new file receives the owner and mode of the file that it replaces. To replace the file, the
// package exchanges the names of the two files and then checks the replaced file. If another
// process has changed the owner or mode of the replaced file in the meantime, the package exchanges
// the names back and returns an error.
//
// Some file systems, such as NFS and FAT, cannot exchange names. On these file systems the package
// first checks the file to replace, and then renames the temporary file. If another process changes
// the file between these two system calls, the package does not notice the change.
//
// The package writes to pipes and devices in place. Whether a file is regular depends on the type
// of the opened file and not on its path, because a path below /proc or /dev/fd can name a file of
// any type. The path "-" is standard output. If standard output is closed, the package returns an
// error.
//
// This package must not import os or fmt, because they would make lmrun larger. Every error that an
// exported function returns is a *hal.Fault, except the errors of WriteFull.
package files
