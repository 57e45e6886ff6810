//go:build !nolinkname

package runtime

// This file declares functions of Go's runtime that are linked by name.

import _ "unsafe" // for go:linkname

// The functions below are those that runtime/debug calls. This package does not import
// runtime/debug, because its dependencies os, fmt and reflect would add 57 KB to the program. If a
// later version of Go rejects the linkname directives (see GO.md), build with -tags nolinkname.

//go:linkname setGCPercent runtime/debug.setGCPercent
func setGCPercent(percent int32) (before int32)

//go:linkname setMemoryLimit runtime/debug.setMemoryLimit
func setMemoryLimit(limit int64) (before int64)
