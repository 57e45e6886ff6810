//go:build (amd64 || arm64) && !purego

package hal

// This file declares the function executeWalk for amd64 and arm64. Assembly implements this
// function.

// executeWalk implements Walk.Run in assembly (walk_amd64.s, walk_arm64.s). It makes all accesses
// to mapped device memory. It calls no function and has no stack frame, so that Go can unwind the
// stack if an access faults. Go's scheduler does not preempt assembly.
//
//go:noescape
func executeWalk(w *Walk)
