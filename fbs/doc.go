// Package fbs reads and verifies Light Metal images, the files that a target replays.
//
// An image is a FlatBuffer, the envelope, followed by page-aligned segments of payload.
// image.fbs is the schema of the envelope, package gen the Go code that flatc generates
// from it, and FORMAT.md the specification of every byte.
//
// Verify checks a file and returns a View, whose slices point into the file. The steps are
// those of FORMAT.md section 1.2:
//
//   - view.go checks the preamble;
//   - flat.go reads the FlatBuffer, and checks every offset in it;
//   - tables.go checks all tables except the commands;
//   - commands.go checks the commands, and computes the longest time of each sequence from
//     the times in times.go;
//   - view.go compares the checksum of the envelope;
//   - tables.go compares the checksums of the payload.
//
// Only a View that Verify has returned has an Original. Therefore code that executes an
// Original need not check an offset, a count or a reference again.
package fbs
