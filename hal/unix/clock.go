//go:build !nolinkname

package unix

import _ "unsafe" // for go:linkname

// Nanotime returns a monotonic time in nanoseconds. It reads the clock through the vDSO,
// without a system call. Go's own runtime has the function (runtime/GO.md); package time
// would bring 109 KB of the runtime with it.
//
//go:linkname Nanotime runtime.nanotime
func Nanotime() int64
