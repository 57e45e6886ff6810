package mock

import (
	"fmt"
	"math"

	"lightmetal/hal"
)

// Access is a load or a store as it arrived at its place. What configured the
// windows on the way is not in it.
type Access struct {
	Op    Op
	Place Place
	Width uint8
	Value uint64 // stored, or given to the loader
}

// Record switches the journal on or off. It is off at first.
func (d *Device) Record(on bool) { d.recording, d.journalMost = on, math.MaxInt }

// RecordAtMost switches the journal on and rejects every access after the first most.
func (d *Device) RecordAtMost(most int) { d.recording, d.journalMost = true, most }

// Journal is every access that went well while the journal was on.
func (d *Device) Journal() []Access { return d.journal }

func (d *Device) record(a Access) hal.Code {
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
