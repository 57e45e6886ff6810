//go:build (amd64 || arm64) && !purego

package hal

// This file declares the walk for processors on which assembly implements it.

// walk implements Walk.Run in assembly (walk_amd64.s, walk_arm64.s). All accesses to mapped
// device memory are in this function. It calls no function and has no stack frame. Therefore
// Go can unwind the stack if an access faults. Go's scheduler does not preempt assembly.
//
//go:noescape
func walk(w *Walk)
