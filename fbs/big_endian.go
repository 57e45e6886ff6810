//go:build armbe || arm64be || mips || mips64 || ppc || ppc64 || s390 || s390x || sparc64

package fbs

// This file makes every build for a big-endian processor fail, because no file declares the
// name below. All integers in an image are little endian, and package fbs reads the structs of
// an image in place, without converting the byte order.
var _ = lightmetalSupportsOnlyLittleEndianProcessors
