//go:build !cgo

package ttsim

// ChildMain does nothing: this program was built without cgo and cannot load
// the library.
func ChildMain() {}

const built = false
