// Package files opens the input files and writes the output files of lmrun, lm and the other tools.
// These tools write files only through this package.
//
// A regular file is replaced completely or not at all: the data go to a temporary file with a
// random name in the same directory, which is synced to the disk and renamed; then the directory is
// synced. Owner and mode are the writer's. The package follows symbolic links once, when it opens
// the output. From then on it keeps the directory open, so that later changes of links have no
// effect. Each temporary file is locked (flock) while it is written, so that a later process can
// tell and remove those of killed processes.
//
// The package writes to pipes and devices in place. Whether a file is regular depends on the type
// of the opened file and not on its path, because a path below /proc or /dev/fd can name a file of
// any type. The path "-" is standard output. If standard output is closed, the package returns an
// error.
//
// This package must not import os or fmt, because they would make lmrun larger. Every error that an
// exported function returns is a *hal.Fault, except the errors of WriteFull.
package files
