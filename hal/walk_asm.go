//go:build (amd64 || arm64) && !purego

package hal

import (
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// walk is Walk.Run. It is the one routine that touches mapped devices: it calls
// nothing and has no frame, so that a fault in it unwinds, and a walk is not
// interrupted.
//
//go:noescape
func walk(w *Walk)

// fence makes what comes before it reach device and memory before what follows.
func fence() {
	w := Walk{Next: &fences[0], Stop: &fences[1]}
	w.Run()
}

var fences = [2]fbs.Command{{Opcode: gen.OpcodeFence}}
