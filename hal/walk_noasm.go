//go:build !(amd64 || arm64) || purego

package hal

// walk implements Walk.Run without assembly, for mocks only. It must not access a device,
// because the compiler does not guarantee the number and the width of the accesses.
func walk(w *Walk) { walkGeneric(w) }
