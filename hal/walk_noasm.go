//go:build !(amd64 || arm64) || purego

package hal

// This file implements the function walk for processors for which there is no assembly
// implementation, and for programs that are built with the tag purego.

// walk implements Walk.Run in Go. It must access only windows of mocks: on a device, each
// access must be one instruction of the right width, and the Go compiler does not guarantee
// that.
func walk(w *Walk) { walkGeneric(w) }
