//go:build !cgo

package ttsim

// ChildMain does nothing, because this program was built without cgo and cannot load the library.
func ChildMain() {}

// built reports whether this program can load the library, which requires cgo.
const built = false
