//go:build !(amd64 || arm64) || purego

package hal

import "sync/atomic"

var (
	load, store               = loadGeneric, storeGeneric
	storeRun32, storeRun64    = storeRunGeneric, storeRunGeneric
	copyIn, copyOut, fill     = copyInGeneric, copyOutGeneric, fillGeneric
	bulkIn, streamIn, bulkOut = bulkInGeneric, bulkInGeneric, bulkOutGeneric
)

var fenced atomic.Uint32

// fence is as much as Go without assembly offers: it orders memory, which is
// enough for a stand-in. Do not drive a device through this file.
func fence() { fenced.Add(1) }
