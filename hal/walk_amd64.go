//go:build !purego

package hal

// This file checks whether the processor supports AVX, for the assembly for amd64.

// hasAVX is true if bulk copies may use AVX instructions, which load and store 32 bytes.
//
//lint:ignore U1000 only the assembly reads hasAVX
var hasAVX = detectAVX()

// detectAVX reports whether the processor and the operating system support AVX. The assembly
// in walk_amd64.s implements detectAVX.
//
//lint:ignore U1000 staticcheck does not see that the assembly reads hasAVX
func detectAVX() bool
