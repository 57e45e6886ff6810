//go:build (amd64 || arm64) && !purego

package hal

// walk implements Walk.Run in assembly. It is the only routine that accesses mapped
// devices. It calls nothing and has no frame, so that a fault in it unwinds, and the
// scheduler does not interrupt it.
//
//go:noescape
func walk(w *Walk)
