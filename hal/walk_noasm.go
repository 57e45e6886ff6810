//go:build !(amd64 || arm64) || purego

package hal

// walk without assembly is for stand-ins. Do not drive a device through this
// file: the compiler promises nothing about the accesses that it makes.
func walk(w *Walk) { walkGeneric(w) }
