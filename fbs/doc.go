// Package fbs reads and verifies Light Metal images. An image is a file with commands for PCIe
// devices, and with the data that the commands copy (the payload). The machine that executes
// the commands of an image is called the target.
//
// An image starts with the envelope, a FlatBuffer. Page-aligned segments with the payload
// follow. The file image.fbs is the schema of the envelope. Package gen has the Go code that
// flatc generates from the schema. FORMAT.md specifies every byte of an image.
//
// Verify checks a file and returns a View, whose slices point into the file. The steps are
// those of FORMAT.md section 1.2:
//
//   - view.go checks the preamble, a header inside the envelope;
//   - flat.go reads the FlatBuffer, and checks every offset in it;
//   - tables.go checks all tables except the commands;
//   - commands.go checks the commands, and computes the longest time of each sequence;
//     opcodes.go is the table of commands, with their fields and times, and what an Expect
//     waits for;
//     access.go decides which bytes of a device an image may access;
//   - view.go compares the checksum of the envelope with the checksum in the preamble;
//   - view.go compares the checksums of the payload with the checksums in the envelope.
//
// View.VerifiedCopy returns a copy of the View as Verify returned it, or nil for a View that has
// not been verified. Code that executes the commands of such a copy need not check any offset,
// count or index again.
package fbs
