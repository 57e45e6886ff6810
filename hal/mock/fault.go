package mock

// FaultKind is a way to fail.
type FaultKind uint8

const (
	// Stuck: the bits of Mask at Place read as those of Value.
	Stuck FaultKind = iota + 1
	// Late: like Stuck, until Loads loads would have read something else.
	Late
	// AllOnes: from operation Operation on the device is gone: loads give all ones, stores are
	// lost, Alive is false.
	AllOnes
	// BusFault: operation Operation does not happen and gives hal.BusFault.
	BusFault
	// NoDMA: the device reaches no memory, of the host or of its peers.
	NoDMA
)

// Fault is one thing that goes wrong. Operations are counted from 1, as Device.Operations counts
// them.
type Fault struct {
	Kind      FaultKind
	Operation int // of AllOnes and BusFault

	// Of Stuck and Late. Mask and Value hold the bytes from Place.Address on,
	// lowest first, whatever the width they are loaded with.
	Place       Place
	Mask, Value uint64
	Loads       int // of Late
}

// Inject makes a fault happen. Faults add up.
func (d *Device) Inject(f Fault) {
	d.faults = append(d.faults, f)
	d.host.cut = d.host.cut || f.Kind == NoDMA
}

// stick gives a loaded value as the faults show it.
func (d *Device) stick(place Place, width uint8, value uint64) uint64 {
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

// bits is the part of a fault that an access sees.
func (f *Fault) bits(place Place, width uint8) (mask, stuck uint64, ok bool) {
	if f.Kind != Stuck && f.Kind != Late {
		return 0, 0, false
	}
	at := f.Place
	at.Address = place.Address
	for i := range uint64(width) {
		// before the fault's first byte it wraps round to far beyond
		if of := place.Address + i - f.Place.Address; at == place && of < 8 {
			mask |= f.Mask >> (8 * of) & 0xff << (8 * i)
			stuck |= f.Value >> (8 * of) & 0xff << (8 * i)
		}
	}
	return mask, stuck & mask, mask != 0
}
