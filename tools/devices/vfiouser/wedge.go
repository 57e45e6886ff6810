package vfiouser

import (
	"bytes"
	"slices"
	"time"
)

// Wedge is a fault: the device hangs until a certain event. While it hangs, loads from its BARs
// return all ones, stores to them have no effect, and the device does not access memory. Its
// configuration space still answers, as on a chip whose PCI Express controller works while the rest
// of the chip hangs.
type Wedge struct {
	Until string // one of WedgeEnds; empty: the device never hangs
	// Access is the number of the first access to a BAR at which the device hangs. Accesses count
	// from 1, and from 1 again after each event that ended a wedge.
	Access int
	// Reconnect is the time for which the server waits for a new client after a client has
	// disconnected, if Until is "power".
	Reconnect time.Duration
}

// Events that end a wedge.
const (
	functionReset = "flr"    // function level reset through configuration space, or busReset
	busReset      = "bus"    // DEVICE_RESET, which QEMU sends when a bridge resets the bus
	enumeration   = "rescan" // a kernel stores all ones to the register of a BAR, to read its size
	newClient     = "power"  // a client connects again, because QEMU adds the device again
)

// WedgeEnds returns the values of Wedge.Until.
func WedgeEnds() []string { return []string{functionReset, busReset, enumeration, newClient} }

type wedge struct {
	Wedge
	accesses int // number of accesses to BARs since the last event that ended the wedge
}

// hangs counts an access to a BAR, and reports whether the device hangs at this access.
func (w *wedge) hangs() bool {
	if w.Until == "" {
		return false
	}
	w.accesses++
	return w.accesses >= w.Access
}

// isHanging reports whether the device has begun to hang, and no event has ended that.
func (w *wedge) isHanging() bool { return w.Until != "" && w.accesses >= w.Access }

// end ends the wedge if the device hangs and Until is one of the events.
func (w *wedge) end(events ...string) {
	if w.isHanging() && slices.Contains(events, w.Until) {
		w.accesses = 0
	}
}

// sizesBar reports whether a kernel uses this store to configuration space to find out the size of
// a BAR.
func sizesBar(offset uint64, data []byte) bool {
	return offset >= regBar && offset < regBar+4*6 && len(data) == 4 &&
		bytes.Count(data, []byte{0xff}) == len(data)
}
