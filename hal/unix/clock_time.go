//go:build nolinkname

package unix

import "time"

var clockStart = time.Now()

// Nanotime returns a monotonic time in nanoseconds.
func Nanotime() int64 { return int64(time.Since(clockStart)) }
