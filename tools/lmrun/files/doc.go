// Package files opens the inputs of tools, and writes their outputs. Tools write files only
// through this package.
//
// A regular file is replaced completely or not at all: the data are written to a temporary
// file in the same directory, which is synced and then renamed. The name of the temporary
// file is random. Symbolic links are followed once, when the output is opened. From then on
// the directory stays open, so that later changes of links have no effect.
//
// The new file receives the owner and mode of the file that it replaces. At the end the new
// file and the replaced file exchange their names, and the replaced file is checked. If
// another process has changed its owner or mode meanwhile, the names are exchanged back, and
// it is an error. Some file systems (NFS, FAT) cannot exchange names. On these the check
// precedes the rename, and another process may replace the file between the two system
// calls. Such a replacement is not noticed.
//
// Pipes and devices are written in place. The package decides by the type of the opened
// file, not by its path, whether a file is regular; this matters for paths below /proc and
// /dev/fd. The path "-" is standard output, which must be open.
//
// This package must not import os or fmt, because lmrun links it. Errors are *hal.Fault.
package files
