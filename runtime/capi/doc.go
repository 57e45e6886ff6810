// Capi is a C interface to package runtime, for firmware in C. `./build.sh archive` compiles this
// package to the static library liblightmetal.a. Comments in this package call the library the
// archive. The header lightmetal.h is written by hand. README.md describes how to link the archive,
// and how the archive affects a process.
//
// image.go manages the open images and checks the order of calls. calls.go and report.go contain
// the functions that C code calls, and therefore need cgo. Without cgo the package builds as a
// program that does nothing, so that `go build ./...` succeeds on every machine.
package main

// main must exist because Go builds an archive only from a package main. This function is never
// called: the C program that links the archive has a main function of its own.
func main() {}
