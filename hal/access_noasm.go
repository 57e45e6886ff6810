//go:build !(amd64 || arm64) || purego

package hal

import (
	"sync/atomic"

	"lightmetal/fbs"
)

func load(device uintptr, width uint8) uint64 { return loadGeneric(device, width) }

func store(device uintptr, width uint8, value uint64) { storeGeneric(device, width, value) }

func storeRun32(device uintptr, first *fbs.Command, count uint64, at *int32) uint64 {
	return storeRunGeneric(device, first, count, at)
}

func storeRun64(device uintptr, first *fbs.Command, count uint64, at *int32) uint64 {
	return storeRunGeneric(device, first, count, at)
}

func copyIn(device, step uintptr, width uint8, data []byte) {
	copyInGeneric(device, step, width, data)
}

func copyOut(device, step uintptr, width uint8, data []byte) {
	copyOutGeneric(device, step, width, data)
}

func fill(device, step uintptr, width uint8, value, count uint64) {
	fillGeneric(device, step, width, value, count)
}

func bulkIn(device uintptr, data []byte) { bulkInGeneric(device, data) }

func streamIn(device uintptr, data []byte) { bulkInGeneric(device, data) }

func bulkOut(device uintptr, data []byte) { bulkOutGeneric(device, data) }

var fenced atomic.Uint32

// fence is as much as Go without assembly offers: it orders memory, which is
// enough for a stand-in. Do not drive a device through this file.
func fence() { fenced.Add(1) }
