// Package fbs reads and verifies Light Metal images, the files that a target replays.
//
// An image is a FlatBuffer, the envelope, followed by page-aligned segments of payload.
// image.fbs is the schema of the envelope, package gen the Go code that flatc generates
// from it, and FORMAT.md the specification of every byte.
//
// Verify checks a file and returns a View, whose slices refer to the file. The steps are
// those of FORMAT.md section 1.2:
//
//   - view.go checks the preamble;
//   - flat.go reads the FlatBuffer, within its bounds;
//   - tables.go checks all tables but the commands;
//   - commands.go checks the commands and computes the checksum of the envelope; times.go
//     has the parts of the longest time of a sequence;
//   - tables.go checks the checksums of the payload.
//
// Verify is the only way to a View with an Original, so code that executes an image need
// not check an offset, a count or a reference again.
package fbs
