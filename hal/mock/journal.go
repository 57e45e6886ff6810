package mock

// This file records the accesses that a device has executed.

import (
	"fmt"
	"math"

	"lightmetal/hal"
)

// Access is a load or store with its final place. Accesses that configure TLB windows are not
// recorded.
type Access struct {
	Op    Op
	Place Place
	Width uint8
	Value uint64 // the value that was stored or loaded
}

// Record switches the journal on or off. It is off at first.
func (d *Device) Record(on bool) { d.recording, d.journalMost = on, math.MaxInt }

// RecordAtMost switches the journal on and rejects every access after the first most.
func (d *Device) RecordAtMost(most int) { d.recording, d.journalMost = true, most }

// Journal returns every access that succeeded while the journal was on.
func (d *Device) Journal() []Access { return d.journal }

func (d *Device) recordAccess(a Access) hal.Code {
	switch {
	case !d.recording:
	case len(d.journal) >= d.journalMost:
		return d.refuse("more than %d accesses", d.journalMost)
	default:
		d.journal = append(d.journal, a)
	}
	return hal.OK
}

func (a Access) String() string {
	return fmt.Sprintf("%s of %d bytes at %s = %#x", a.Op, a.Width, a.Place, a.Value)
}

func (p Place) String() string {
	switch {
	case p.Tile:
		return fmt.Sprintf("tile (%d,%d) %#x", p.X, p.Y, p.Address)
	case p.Bar == ConfigSpace:
		return fmt.Sprintf("configuration space + %#x", p.Address)
	}
	return fmt.Sprintf("BAR %d + %#x", p.Bar, p.Address)
}
