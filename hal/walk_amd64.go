//go:build !purego

package hal

// hasAVX reports whether bulk copies may use 32-byte loads and stores.
//
//lint:ignore U1000 only the assembly reads hasAVX
var hasAVX = detectAVX()

//lint:ignore U1000 staticcheck does not see that the assembly reads hasAVX
func detectAVX() bool
