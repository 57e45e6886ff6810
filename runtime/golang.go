//go:build !nolinkname

package runtime

// Functions of Go's runtime, by name.

import _ "unsafe" // for go:linkname

// Package runtime/debug would link os, fmt and reflection: 57 KB. Go's runtime exports these two
// functions to it under these names (GO.md). If a later Go rejects that, build with
// -tags nolinkname.

//go:linkname setGCPercent runtime/debug.setGCPercent
func setGCPercent(percent int32) (before int32)

//go:linkname setMemoryLimit runtime/debug.setMemoryLimit
func setMemoryLimit(limit int64) (before int64)
