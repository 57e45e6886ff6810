// Capi is the runtime as a C archive: liblightmetal.a and the hand-kept
// lightmetal.h, for firmware in C. README.md says how to link it and what it
// does to a process; `./build.sh archive` builds it.
//
// image.go holds the open images and what may be done to one when; calls.go and
// report.go are the C interface. Without cgo, which these two need, nothing calls
// the rest, and it is an empty program: every package builds everywhere.
package main

// main is never called: a C archive has the host's.
func main() {}
