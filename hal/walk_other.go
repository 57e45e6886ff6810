//go:build !amd64 && !arm64

package hal

// executeWalk is for mocks only: each access to a device must be one instruction of the right
// width, which Go's compiler does not guarantee.
func executeWalk(w *Walk) { walkGeneric(w) }
