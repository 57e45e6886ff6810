// Capi is the runtime as a C archive, for firmware in C. `./build.sh archive` builds the archive
// liblightmetal.a. The header lightmetal.h is written by hand. README.md describes how to link the
// archive and how the archive affects a process.
//
// image.go manages the open images and checks the order of calls. calls.go and report.go contain
// the functions that C calls; these two files need cgo. Without cgo the package still builds, as a
// program that does nothing, so that `go build ./...` succeeds on every machine.
package main

// main is never called: the C program that links the archive has its own main.
func main() {}
