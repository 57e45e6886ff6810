//go:build (amd64 || arm64) && !purego

package hal

import "unsafe"

// walk implements Walk.Run in assembly. It is the only routine that accesses mapped
// devices. It calls nothing and has no frame, so that a fault in it unwinds, and the
// scheduler does not interrupt it.
//
//go:noescape
func walk(w *Walk)

// The assembly relies on this layout. A constant expression below is negative, and does
// not compile, if a field has another offset or size.
const (
	// The opcode and width are compared as one word.
	_ = -unsafe.Offsetof(command{}.Opcode)
	_ = -(unsafe.Offsetof(command{}.Width) - 1)

	_ = -(unsafe.Sizeof(command{}.Opcode) - 1)
	_ = -(unsafe.Sizeof(command{}.Width) - 1)
	_ = -(unsafe.Sizeof(command{}.Mode) - 1)
	_ = -(unsafe.Sizeof(command{}.Window) - 2)
	_ = -(unsafe.Sizeof(command{}.Index) - 2)
	_ = -(unsafe.Sizeof(command{}.Offset) - 4)
	_ = -(unsafe.Sizeof(command{}.Amount) - 4)
	_ = -(unsafe.Sizeof(command{}.Value) - 8)
	_ = -(unsafe.Sizeof(command{}.Mask) - 8)

	// Entries of the tables.
	_ = -(unsafe.Sizeof(*Walk{}.Windows) - 8)
)
