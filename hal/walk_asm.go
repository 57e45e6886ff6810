//go:build (amd64 || arm64) && !purego

package hal

// walk is Walk.Run. It is the one routine that touches mapped devices: it calls
// nothing and has no frame, so that a fault in it unwinds, and a walk is not
// interrupted.
//
//go:noescape
func walk(w *Walk)
