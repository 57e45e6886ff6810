//go:build armbe || arm64be || mips || mips64 || ppc || ppc64 || s390 || s390x || sparc64

package fbs

// This file makes a build for a big-endian processor fail, because this name is not declared.
// The structs of an image are read in place, and their integers are little endian.
var _ = lightmetalSupportsOnlyLittleEndianProcessors
