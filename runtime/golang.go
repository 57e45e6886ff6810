//go:build !nolinkname

package runtime

import _ "unsafe" // for go:linkname

// Package runtime/debug exports these, but links os, fmt and reflect, 57 KB. If a later Go rejects
// the directives, build with -tags nolinkname (GO.md).

// setGCPercent sets GOGC; a negative value turns the garbage collector off.
//
//go:linkname setGCPercent runtime/debug.setGCPercent
func setGCPercent(percent int32) (before int32)

// setMemoryLimit sets GOMEMLIMIT in bytes, at which Go collects garbage in spite of GOGC.
//
//go:linkname setMemoryLimit runtime/debug.setMemoryLimit
func setMemoryLimit(limit int64) (before int64)
