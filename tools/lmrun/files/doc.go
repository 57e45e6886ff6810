// Package files opens the inputs and writes the outputs of lmrun, lm and the other tools.
//
// A regular file is replaced completely or not at all: the data go to a temporary file with a
// random name in the same directory, which is synced to the disk and renamed; then the directory is
// synced. Owner and mode are the writer's. Symbolic links are followed once, when the output is
// opened; then the directory stays open, so that later changes of links have no effect. A temporary
// file is locked (flock) while it is written, so that a later process can remove those of killed
// processes.
//
// Pipes and devices are written in place. The type of the opened file decides this, since a path
// below /proc or /dev/fd can name a file of any type. The path "-" is standard output; a closed one
// is an error.
//
// This package does not import os or fmt, which would make lmrun larger. Every error of an exported
// function is a *hal.Fault, except those of WriteFull and Lock.
package files
