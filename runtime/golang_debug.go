//go:build nolinkname

package runtime

// This file replaces golang.go in builds with -tags nolinkname. It implements the same functions
// without go:linkname, by calling runtime/debug. This makes the program 57 KB larger.

import "runtime/debug"

// setGCPercent sets GOGC in percent; a negative value turns the garbage collector off.
func setGCPercent(percent int32) int32 { return int32(debug.SetGCPercent(int(percent))) }

// setMemoryLimit sets GOMEMLIMIT in bytes.
func setMemoryLimit(limit int64) int64 { return debug.SetMemoryLimit(limit) }
