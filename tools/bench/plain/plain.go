// Package plain is a device of nothing but mapped memory, laid out as
// testdata/cref lays it out, so that two programs can leave their bytes in the
// same places: the BARs of each target in turn, each a whole number of pages,
// then host memory. It has no tiles and no configuration space.
package plain

import (
	"time"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
)

// BusBase is the bus address of the first byte.
const BusBase = 0x10000000

const page = 4096

// Size is the memory that the devices of an image need, 0 where plain memory
// cannot stand for them.
func Size(view *fbs.View) uint64 {
	for i := range view.Windows {
		if kind := view.Windows[i].Kind; kind != gen.WindowKindBar && kind != gen.WindowKindHost {
			return 0
		}
	}
	return barStart(view, len(view.Targets), 0) + view.Reservation.HostBytes
}

// Devices gives a device for each target of an image, all in one memory of at
// least Size bytes.
func Devices(view *fbs.View, memory []byte) []hal.Device {
	host := barStart(view, len(view.Targets), 0)
	devices := make([]hal.Device, len(view.Targets))
	for i := range devices {
		devices[i] = &device{view: view, target: i, memory: memory, host: &host}
	}
	return devices
}

type device struct {
	view   *fbs.View
	target int
	memory []byte
	host   *uint64 // where the next Host window goes
}

func barStart(view *fbs.View, target, bar int) uint64 {
	start := uint64(0)
	for t := range min(target+1, len(view.Targets)) {
		for b, size := range view.Targets[t].Bars {
			if t < target || b < bar {
				start += roundUp(size)
			}
		}
	}
	return start
}

func roundUp(n uint64) uint64 { return (n + page - 1) / page * page }

func (d *device) Identity() hal.Identity {
	t := &d.view.Targets[d.target]
	return hal.Identity{Name: "plain", Vendor: t.Vendor, Device: t.Device, Bars: t.Bars}
}

func (d *device) Map(w fbs.Window) (hal.Aperture, error) {
	var start uint64
	switch w.Kind {
	case gen.WindowKindBar:
		start = barStart(d.view, d.target, int(w.Bar)) + w.Offset
	case gen.WindowKindHost:
		start = *d.host
		*d.host += roundUp(w.Size)
	default:
		return hal.Aperture{}, &hal.Fault{Code: hal.NoDevice, Reason: "plain memory has BARs and host memory and no other windows"}
	}
	a := hal.MappedAperture(d.memory, start, w.Size, -1, w.Flags&fbs.FlagWriteCombining != 0)
	a.Bus = BusBase + start
	return a, nil
}

func (d *device) Point(*hal.Aperture, fbs.Target, uint64) hal.Code { return hal.Refused }

func (d *device) Alive() bool { return true }

var opened = time.Now()

func (d *device) Now() int64 { return int64(time.Since(opened)) }

func (d *device) Sleep(nanoseconds int64) { hal.Pause(nanoseconds) }

func (d *device) Close() error { return nil }
