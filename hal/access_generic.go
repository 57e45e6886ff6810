package hal

import (
	"unsafe"

	"lightmetal/fbs"
)

// The oracle: what the assembly does, in plain Go. It may drive a device only
// where there is no assembly: the compiler promises nothing about the accesses
// it makes.

func bytesAt(device uintptr, n int) []byte { return unsafe.Slice((*byte)(pointer(device)), n) }

func loadGeneric(device uintptr, width uint8) uint64 { return get(bytesAt(device, int(width))) }

func storeGeneric(device uintptr, width uint8, value uint64) { put(bytesAt(device, int(width)), value) }

// The offsets that the assembly has of the fields of a command.
const (
	_ = -(unsafe.Offsetof(fbs.Command{}.Offset) ^ 8)
	_ = -(unsafe.Offsetof(fbs.Command{}.Value) ^ 16)
	_ = -(unsafe.Offsetof(fbs.Command{}.Mask) ^ 24)
	_ = -(unsafe.Sizeof(fbs.Command{}) ^ 32)
)

func storeRunGeneric(device uintptr, first *fbs.Command, count uint64, at *int32) (done uint64) {
	for _, c := range unsafe.Slice(first, count) {
		alike := c
		alike.Offset, alike.Value = first.Offset, first.Value
		if alike != *first {
			break
		}
		storeGeneric(device+uintptr(c.Offset), c.Width, c.Value)
		*at++
		done++
	}
	return done
}

func copyInGeneric(device, step uintptr, width uint8, data []byte) {
	for ; len(data) > 0; data = data[width:] {
		storeGeneric(device, width, get(data[:width]))
		device += step
	}
}

func copyOutGeneric(device, step uintptr, width uint8, data []byte) {
	for ; len(data) > 0; data = data[width:] {
		put(data[:width], loadGeneric(device, width))
		device += step
	}
}

func fillGeneric(device, step uintptr, width uint8, value, count uint64) {
	for ; count > 0; count-- {
		storeGeneric(device, width, value)
		device += step
	}
}

func bulkInGeneric(device uintptr, data []byte) { copy(bytesAt(device, len(data)), data) }

func bulkOutGeneric(device uintptr, data []byte) { copy(data, bytesAt(device, len(data))) }

// pointer makes an address of mapped memory a pointer. Vet takes the plain
// conversion for a mistake, which it is for memory that Go manages.
func pointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// addressOf gives the address of the first byte of mem. It is called through a
// variable, so that mem escapes: a buffer on a stack would move.
var addressOf = func(mem []byte) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
}
