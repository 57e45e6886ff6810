//go:build nolinkname

package runtime

// This file replaces golang.go in builds with -tags nolinkname.

import "runtime/debug"

func setGCPercent(percent int32) int32 { return int32(debug.SetGCPercent(int(percent))) }
func setMemoryLimit(limit int64) int64 { return debug.SetMemoryLimit(limit) }
