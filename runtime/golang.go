//go:build !nolinkname

package runtime

import _ "unsafe" // for go:linkname

// Package runtime/debug would bring os, fmt and reflection with it: 57 KB. Go's
// own runtime names these two functions for it (GO.md). Should a later Go refuse
// that, build with -tags nolinkname.

//go:linkname setGCPercent runtime/debug.setGCPercent
func setGCPercent(percent int32) (before int32)

//go:linkname setMemoryLimit runtime/debug.setMemoryLimit
func setMemoryLimit(limit int64) (before int64)
