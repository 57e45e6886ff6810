package mock

// FaultKind is a kind of fault.
type FaultKind uint8

const (
	// Stuck replaces bits of loaded values: a load of Place returns the bits of Value where Mask
	// has ones.
	Stuck FaultKind = iota + 1

	// Late is a Stuck that ends after it has changed the values of Fault.Loads loads.
	Late

	// AllOnes removes the device at the operation with the number Fault.Operation. From then on,
	// loads return all ones, stores have no effect, and Alive returns false.
	AllOnes

	// BusFault makes the operation with the number Fault.Operation return hal.BusFault. The
	// operation has no effect.
	BusFault

	// NoDMA makes all DMA transfers of the device fail.
	NoDMA
)

// Fault describes a fault to inject. The first operation of a device has the number 1. See
// Device.Operations.
type Fault struct {
	Kind      FaultKind
	Operation int // number of an operation; only for AllOnes and BusFault

	// Place, Mask and Value are only for Stuck and Late. The lowest byte of Mask and Value
	// belongs to the byte at Place.Address, the next to the byte after that, and so on. The
	// fault applies to every load of one of these 8 bytes, whatever the width of the load.
	Place       Place
	Mask, Value uint64
	Loads       int // number of loads to change; only for Late
}

// Inject adds a fault. Earlier faults remain.
func (d *Device) Inject(f Fault) {
	d.faults = append(d.faults, f)
	d.host.unreachable = d.host.unreachable || f.Kind == NoDMA
}

// applyStuckBits returns the loaded value, changed by the faults Stuck and Late.
func (d *Device) applyStuckBits(place Place, width uint8, value uint64) uint64 {
	for i := range d.faults {
		f := &d.faults[i]
		mask, stuck, ok := f.changedBits(place, width)
		if !ok || value&mask == stuck {
			continue
		}
		if f.Kind == Late {
			if f.Loads == 0 {
				continue
			}
			f.Loads--
		}
		value = value&^mask | stuck
	}
	return value
}

// changedBits returns the mask of the bits that a Stuck or Late fault changes in a load, and the
// new values of these bits. `ok` is false if the fault does not apply to the load.
func (f *Fault) changedBits(place Place, width uint8) (mask, stuck uint64, ok bool) {
	if f.Kind != Stuck && f.Kind != Late {
		return 0, 0, false
	}
	at := f.Place
	at.Address = place.Address
	for i := range uint64(width) {
		// Before the first byte of the fault, the unsigned difference is large.
		if of := place.Address + i - f.Place.Address; at == place && of < 8 {
			mask |= f.Mask >> (8 * of) & 0xff << (8 * i)
			stuck |= f.Value >> (8 * of) & 0xff << (8 * i)
		}
	}
	return mask, stuck & mask, mask != 0
}
