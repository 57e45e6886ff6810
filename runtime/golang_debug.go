//go:build nolinkname

package runtime

// The functions of golang.go without go:linkname. The program becomes 57 KB larger.

import "runtime/debug"

func setGCPercent(percent int32) int32 { return int32(debug.SetGCPercent(int(percent))) }

func setMemoryLimit(limit int64) int64 { return debug.SetMemoryLimit(limit) }
