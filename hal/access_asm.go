//go:build (amd64 || arm64) && !purego

package hal

import "lightmetal/fbs"

// One load or store instruction of width bytes. The choice of the width is
// made in assembly, because one more call costs a quarter of the whole.

func load(device uintptr, width uint8) uint64
func store(device uintptr, width uint8, value uint64)

// The stores of a run of plain Writes, of 4 and 8 bytes: from first on, up to
// count of them, as long as they are alike in all but offset and value. at is
// one more after each store, so that it names the command of one that faults.
// The result is how many were made, at least one.

//go:noescape
func storeRun32(device uintptr, first *fbs.Command, count uint64, at *int32) uint64

//go:noescape
func storeRun64(device uintptr, first *fbs.Command, count uint64, at *int32) uint64

// Accesses of one width, in order, lowest address first. The device address
// moves by step after each: by the width, or by zero for a FIFO. The length of
// data is a multiple of the width.

//go:noescape
func copyIn8(device, step uintptr, data []byte)

//go:noescape
func copyIn16(device, step uintptr, data []byte)

//go:noescape
func copyIn32(device, step uintptr, data []byte)

//go:noescape
func copyIn64(device, step uintptr, data []byte)

//go:noescape
func copyOut8(device, step uintptr, data []byte)

//go:noescape
func copyOut16(device, step uintptr, data []byte)

//go:noescape
func copyOut32(device, step uintptr, data []byte)

//go:noescape
func copyOut64(device, step uintptr, data []byte)

func fill8(device, step uintptr, value uint8, count uint64)
func fill16(device, step uintptr, value uint16, count uint64)
func fill32(device, step uintptr, value uint32, count uint64)
func fill64(device, step uintptr, value uint64, count uint64)

// Copies to and from a range that is memory: as wide as the processor can,
// naturally aligned on the device, never overlapping. streamIn is bulkIn for a
// write-combining mapping; a fence has to follow it.

//go:noescape
func bulkIn(device uintptr, data []byte)

//go:noescape
func streamIn(device uintptr, data []byte)

//go:noescape
func bulkOut(device uintptr, data []byte)

// fence is a full barrier: loads and stores before it come before those after
// it, of host memory, and on uncached and write-combining mappings alike.
func fence()

func copyIn(device, step uintptr, width uint8, data []byte) {
	switch width {
	case 1:
		copyIn8(device, step, data)
	case 2:
		copyIn16(device, step, data)
	case 4:
		copyIn32(device, step, data)
	case 8:
		copyIn64(device, step, data)
	}
}

func copyOut(device, step uintptr, width uint8, data []byte) {
	switch width {
	case 1:
		copyOut8(device, step, data)
	case 2:
		copyOut16(device, step, data)
	case 4:
		copyOut32(device, step, data)
	case 8:
		copyOut64(device, step, data)
	}
}

func fill(device, step uintptr, width uint8, value, count uint64) {
	switch width {
	case 1:
		fill8(device, step, uint8(value), count)
	case 2:
		fill16(device, step, uint16(value), count)
	case 4:
		fill32(device, step, uint32(value), count)
	case 8:
		fill64(device, step, value, count)
	}
}
