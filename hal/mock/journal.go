package mock

import (
	"fmt"
	"math"
	"slices"

	"lightmetal/hal"
)

// Access is a load or store after TLB windows have translated its address. Stores to the
// registers that program TLB windows are not recorded.
type Access struct {
	Op    Op
	Place Place
	Width uint8  // bytes
	Value uint64 // value that was stored or loaded
}

// Record switches recording of accesses on or off. A new device does not record.
func (d *Device) Record(on bool) { d.recording, d.journalMost = on, math.MaxInt }

// reservedMost limits the memory that RecordAtMost reserves, in accesses.
const reservedMost = 1 << 18

// RecordAtMost switches recording on. After this number of accesses, the device rejects every
// access. RecordAtMost reserves memory for the journal: a growing journal would be copied again and
// again, and depending on the garbage collector, the peak of memory usage would be several times
// its size.
func (d *Device) RecordAtMost(most int) {
	d.recording, d.journalMost = true, most
	d.journal = slices.Grow(d.journal, min(most, reservedMost))
}

// Journal returns all accesses that succeeded while recording was on.
func (d *Device) Journal() []Access { return d.journal }

// recordAccess rejects an access if the journal is full.
func (d *Device) recordAccess(a Access) hal.Code {
	switch {
	case !d.recording:
	case len(d.journal) >= d.journalMost:
		return d.refuse("the journal of the mock is full: the journal may have at most %d accesses",
			d.journalMost)
	default:
		d.journal = append(d.journal, a)
	}
	return hal.OK
}

// String returns the text of an access for messages.
func (a Access) String() string {
	return fmt.Sprintf("%s of %d bytes at %s = %#x", a.Op, a.Width, a.Place, a.Value)
}

// String returns the text of a place for messages.
func (p Place) String() string {
	switch {
	case p.Tile:
		return fmt.Sprintf("tile (%d,%d) %#x", p.X, p.Y, p.Address)
	case p.Bar == ConfigSpace:
		return fmt.Sprintf("configuration space + %#x", p.Address)
	}
	return fmt.Sprintf("BAR %d + %#x", p.Bar, p.Address)
}
