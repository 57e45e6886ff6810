package hal

// Aperture is a window of an image, open for access. The zero value has size
// zero and must not be accessed. Nothing here checks bounds, alignment or
// width: the verifier and the board's rules did that before the first store.
type Aperture struct {
	base uintptr // address of byte 0 where the range is mapped, else 0
	port Port    // where it is not mapped
	size uint64
	slot int  // hardware window of a Tlb window, else -1
	wc   bool // mapped write-combining: bulk copies use wide streaming stores

	// Bus is the address other devices reach byte 0 at, 0 if they cannot.
	Bus uint64
}

// NewAperture is an aperture of size bytes onto a port. slot is the hardware
// window of a Tlb window, -1 for every other kind.
func NewAperture(port Port, size uint64, slot int) Aperture {
	return Aperture{port: port, size: size, slot: slot}
}

// Size is the number of bytes the aperture spans.
func (a *Aperture) Size() uint64 { return a.size }

// Slot is the hardware window behind the aperture, -1 if there is none.
func (a *Aperture) Slot() int { return a.slot }
