// Capi is the runtime as a C archive: liblightmetal.a and the hand-kept
// lightmetal.h, for firmware in C. README.md says how to link it and what it
// does to a process; `./build.sh archive` builds it.
//
// image.go holds the open images and what may be done to one when; calls.go is
// the C interface without C, which tests can call; export.go, the only file
// that needs cgo, takes C's arguments apart and nothing else. Without cgo the
// package is an empty program, so that every package builds everywhere.
package main

// main is never called: a C archive has the host's.
func main() {}
