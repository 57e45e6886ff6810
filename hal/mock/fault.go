package mock

// This file injects faults.

// FaultKind is a kind of fault.
type FaultKind uint8

const (
	// Stuck: loads of Place return the bits of Value in the bits of Mask.
	Stuck FaultKind = iota + 1
	// Late: like Stuck, but only for the first Loads loads whose result it changes.
	Late
	// AllOnes: the device is gone from operation Operation on: loads return all ones, stores have
	// no effect, and Alive returns false.
	AllOnes
	// BusFault: operation Operation returns hal.BusFault and has no effect.
	BusFault
	// NoDMA: the device reaches neither host memory nor memory of other devices.
	NoDMA
)

// Fault describes a fault to inject. Operations are numbered from 1, as Device.Operations
// counts them.
type Fault struct {
	Kind      FaultKind
	Operation int // for AllOnes and BusFault

	// For Stuck and Late. Mask and Value hold the bytes from Place.Address on, the lowest
	// first, for loads of any width.
	Place       Place
	Mask, Value uint64
	Loads       int // for Late
}

// Inject adds a fault to those injected before.
func (d *Device) Inject(f Fault) {
	d.faults = append(d.faults, f)
	d.host.unreachable = d.host.unreachable || f.Kind == NoDMA
}

// applyStuckBits returns a loaded value after the faults Stuck and Late.
func (d *Device) applyStuckBits(place Place, width uint8, value uint64) uint64 {
	for i := range d.faults {
		f := &d.faults[i]
		mask, stuck, ok := f.bits(place, width)
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

// bits returns the bits of a load that a fault changes, and their values.
func (f *Fault) bits(place Place, width uint8) (mask, stuck uint64, ok bool) {
	if f.Kind != Stuck && f.Kind != Late {
		return 0, 0, false
	}
	at := f.Place
	at.Address = place.Address
	for i := range uint64(width) {
		// an address below the fault's first byte wraps around to a large number
		if of := place.Address + i - f.Place.Address; at == place && of < 8 {
			mask |= f.Mask >> (8 * of) & 0xff << (8 * i)
			stuck |= f.Value >> (8 * of) & 0xff << (8 * i)
		}
	}
	return mask, stuck & mask, mask != 0
}
