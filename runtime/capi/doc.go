// Capi is a C interface to package runtime, for firmware in C. `./build.sh archive` compiles it to
// the static library liblightmetal.a, the archive. The header lightmetal.h is written by hand;
// README.md describes how to link the archive, and how it affects a process.
//
// image.go has the open images and the order of calls, calls.go and report.go the functions that C
// calls, and freeze.go the threads of a frozen process. Without cgo, the package is a program that
// does nothing, so that `go build ./...` succeeds on every machine.
package main

// main is never called; Go builds an archive only from a package main.
func main() {}
