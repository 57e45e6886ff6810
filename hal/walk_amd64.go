//go:build !purego

package hal

// executeWalk is in walk_amd64.s. It has no stack frame, so that Go can unwind the stack if an
// access faults.
//
//go:noescape
func executeWalk(w *Walk)

// Bulk copies may use AVX instructions, which load and store 32 bytes.
//
//lint:ignore U1000 only the assembly reads hasAVX
var hasAVX = detectAVX()

// detectAVX is in walk_amd64.s.
//
//lint:ignore U1000 staticcheck does not see that the assembly reads hasAVX
func detectAVX() bool
