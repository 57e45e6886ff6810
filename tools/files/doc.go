// Package files opens what tools read, and is the one way in which they write.
//
// A regular file is replaced whole or not at all: what is written goes to a new
// file beside it, of a random name, which is synced and then renamed. Symbolic
// links are followed, and the mode of what is replaced stays. Pipes and devices
// are written to where they are. "-" is standard output.
//
// lmrun links it: no package os, no fmt. Errors are *hal.Fault.
package files
