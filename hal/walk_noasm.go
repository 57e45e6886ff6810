//go:build !(amd64 || arm64) || purego

package hal

// This file implements the function executeWalk in Go, for processors other than amd64 and arm64
// and for programs that are built with the tag purego.

// executeWalk implements Walk.Run in Go: it executes commands. It is suitable for mocks only: each
// access to a device must be one instruction of the right width, which Go's compiler does not
// guarantee.
func executeWalk(w *Walk) { walkGeneric(w) }
