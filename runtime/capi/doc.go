// Capi is the runtime as a C archive, for firmware in C: liblightmetal.a and lightmetal.h, which is
// written by hand. README.md describes how to link it and what it does to a process;
// `./build.sh archive` builds it.
//
// image.go has the open images and the order of calls on them; calls.go and report.go are the
// functions that C calls. Those two need cgo. Without it nothing calls the rest, and the package is
// an empty program, so that every package builds everywhere.
package main

// main is never called: a C archive has the host's.
func main() {}
