//go:build !(amd64 || arm64) || purego

package hal

// walk without assembly is for mocks only. It must not access a device: the compiler
// does not guarantee how many accesses it makes, nor how wide they are.
func walk(w *Walk) { walkGeneric(w) }
