//go:build armbe || arm64be || m68k || mips || mips64 || mips64p32 || ppc || ppc64 || s390 || s390x || shbe || sparc || sparc64

package fbs

// This file makes a build for a big-endian processor fail: the structs of an image
// are read in place, and their integers are little endian.
var _ = lightmetalSupportsOnlyLittleEndianProcessors
