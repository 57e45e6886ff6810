//go:build !nolinkname

package runtime

// This file declares functions of Go's runtime. The linker finds them by name (go:linkname).

import _ "unsafe" // go:linkname requires this import

// The package runtime/debug exports the same functions. But it imports os, fmt and reflect, which
// would add 57 KB to the program. Therefore this package does not import runtime/debug. If a later
// version of Go rejects the go:linkname directives below, build with -tags nolinkname (see GO.md).

// setGCPercent sets GOGC and returns its previous value. GOGC is the growth of the heap, in
// percent, at which Go collects garbage. A negative value turns the garbage collector off.
//
//go:linkname setGCPercent runtime/debug.setGCPercent
func setGCPercent(percent int32) (before int32)

// setMemoryLimit sets GOMEMLIMIT and returns its previous value. GOMEMLIMIT is the memory, in
// bytes, above which Go collects garbage even if GOGC is off.
//
//go:linkname setMemoryLimit runtime/debug.setMemoryLimit
func setMemoryLimit(limit int64) (before int64)
