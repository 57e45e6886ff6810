//go:build !purego

package hal

// hasAVX is read by bulk copies.
//
//lint:ignore U1000 only the assembly reads it
var hasAVX = detectAVX()

//lint:ignore U1000 staticcheck does not see that hasAVX is read
func detectAVX() bool
