// Capi is the interface of package runtime for firmware in C. `./build.sh archive` compiles it to
// the static library liblightmetal.a, which this package calls the archive. The header
// lightmetal.h is written by hand. README.md describes how to link the archive, and how the archive
// affects a process.
//
// image.go manages the open images and checks the order of calls. calls.go and report.go contain
// the functions that C code calls. These two files need cgo. Without cgo the package builds as a
// program that does nothing, so that `go build ./...` succeeds on every machine.
package main

// main must exist because Go builds an archive only from a package main. It is never called: the C
// program that links the archive has a main of its own.
func main() {}
