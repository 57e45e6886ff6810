//go:build !amd64 && !arm64

package hal

// For mocks only: Go's compiler does not guarantee one instruction of the right width for each
// access.
func executeWalk(w *Walk) { walkGeneric(w) }
