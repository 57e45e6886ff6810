//go:build !(amd64 || arm64) || purego

package hal

// This file implements the walk for processors without assembly for it, and for programs
// that are built with the tag purego.

// walk implements Walk.Run in Go. Only windows of mocks may be accessed in this way:
// on a device, each access must be one instruction of the right width, which the compiler
// does not guarantee.
func walk(w *Walk) { walkGeneric(w) }
