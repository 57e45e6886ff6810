//go:build nolinkname

package runtime

import (
	"runtime/debug"
	"time"
)

func setGCPercent(percent int32) int32 { return int32(debug.SetGCPercent(int(percent))) }
func setMemoryLimit(limit int64) int64 { return debug.SetMemoryLimit(limit) }
func sleep(nanoseconds int64)          { time.Sleep(time.Duration(nanoseconds)) }
