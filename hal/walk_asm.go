//go:build (amd64 || arm64) && !purego

package hal

// walk implements Walk.Run in assembly. It is the only routine that accesses mapped
// devices. walk calls no function and has no stack frame; therefore Go can unwind the
// stack after a fault in walk. Go's scheduler does not preempt assembly.
//
//go:noescape
func walk(w *Walk)
