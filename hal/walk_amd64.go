//go:build !purego

package hal

// executeWalk is in walk_amd64.s. It has no stack frame, so that Go can unwind the stack if an
// access faults.
//
//go:noescape
func executeWalk(w *Walk)

// hasAVX says whether bulk copies may use AVX instructions, which load and store 32 bytes.
//
//lint:ignore U1000 only the assembly reads hasAVX
var hasAVX = detectAVX()

// detectAVX, in walk_amd64.s, reports whether the processor and the kernel support AVX.
//
//lint:ignore U1000 staticcheck does not see that the assembly reads hasAVX
func detectAVX() bool
