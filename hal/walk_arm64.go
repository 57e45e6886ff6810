//go:build !purego

package hal

// executeWalk is in walk_arm64.s. It has no stack frame, so that Go can unwind the stack if an
// access faults.
//
//go:noescape
func executeWalk(w *Walk)
