package vfiouser

import (
	"bytes"
	"slices"
	"time"
)

// Wedge is a fault: the device hangs until a certain event. Meanwhile loads from its BARs return
// all ones, stores to them have no effect, and it accesses no memory. Its configuration space
// answers, as that of a chip whose PCI Express controller works while everything behind it hangs.
type Wedge struct {
	Until string // a name of WedgeEnds; empty: the device never hangs
	// Access is the number of the first access to a BAR that finds the device hanging. Accesses are
	// counted from 1, and again from 1 after each event that ended a wedge.
	Access int
	// Reconnect is how long a server of a device that hangs until the client connects again waits
	// for that, after the client has left.
	Reconnect time.Duration
}

// The events that end a wedge.
const (
	functionReset = "flr"    // a function level reset by configuration space, or busReset
	busReset      = "bus"    // DEVICE_RESET, which QEMU sends when a bridge resets the bus
	enumeration   = "rescan" // all ones stored to the register of a BAR: a kernel sizes the BAR
	newClient     = "power"  // the client connects again: QEMU adds the device again
)

// WedgeEnds returns the values of Wedge.Until.
func WedgeEnds() []string { return []string{functionReset, busReset, enumeration, newClient} }

// wedge counts accesses, and knows whether the device hangs.
type wedge struct {
	Wedge
	accesses int
}

// hangs counts an access to a BAR, and reports whether it finds the device hanging.
func (w *wedge) hangs() bool {
	if w.Until == "" {
		return false
	}
	w.accesses++
	return w.accesses >= w.Access
}

// isHanging reports whether an access has found the device hanging, and no reset has ended that.
func (w *wedge) isHanging() bool { return w.Until != "" && w.accesses >= w.Access }

// end ends the wedge if it waits for one of the events.
func (w *wedge) end(events ...string) {
	if w.isHanging() && slices.Contains(events, w.Until) {
		w.accesses = 0
	}
}

// sizesBar reports whether a store to configuration space is that by which a kernel sizes a BAR.
func sizesBar(offset uint64, data []byte) bool {
	return offset >= regBar && offset < regBar+4*6 && len(data) == 4 &&
		bytes.Count(data, []byte{0xff}) == len(data)
}
