//go:build armbe || arm64be || mips || mips64 || ppc || ppc64 || s390 || s390x || sparc64

package fbs

// No file declares this name, so that builds for big-endian processors fail: the structs of an
// image are little endian, and are read in place.
var _ = lightmetalSupportsOnlyLittleEndianProcessors
