//go:build !purego

package hal

// hasAVX is read by the bulk copies.
var hasAVX = detectAVX()

func detectAVX() bool
