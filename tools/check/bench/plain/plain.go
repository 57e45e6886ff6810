// Package plain is a device of nothing but mapped memory, laid out as
// tools/check/bench/c/layout.c lays it out, so that programs can leave their bytes in the
// same places: the BARs of each target in turn, each a whole number of pages,
// then host memory, then what Tlb windows show, each one place wherever it
// points, and a page with 16 bytes of registers for each of those. It has no
// configuration space.
package plain

import (
	"time"

	"lightmetal/boards"
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
	tiles := uint64(0)
	for i := range view.Windows {
		switch w := &view.Windows[i]; w.Kind {
		case gen.WindowKindConfig:
			return 0
		case gen.WindowKindTlb:
			if group(view, w) == nil {
				return 0
			}
			tiles += roundUp(w.Size)
		}
	}
	return barStart(view, len(view.Devices), 0) + view.Reservation.HostBytes + tiles + page
}

// group is the kind of hardware window that a Tlb window is, nil for none.
func group(view *fbs.View, w *fbs.Window) *boards.WindowGroup {
	board := boards.FindByID(view.Devices[w.Device].Vendor, view.Devices[w.Device].Device)
	if board == nil || board.TLB == nil {
		return nil
	}
	for i := range board.TLB.Groups {
		if g := &board.TLB.Groups[i]; g.Size == w.Size && w.Size < 1<<32 {
			return g
		}
	}
	return nil
}

// Devices gives a device for each target of an image, all in one memory of at
// least Size bytes.
func Devices(view *fbs.View, memory []byte) []hal.Device {
	s := &shared{view: view, memory: memory, host: barStart(view, len(view.Devices), 0)}
	s.tiles = s.host + view.Reservation.HostBytes
	devices := make([]hal.Device, len(view.Devices))
	for i := range devices {
		d := &device{shared: s, target: i}
		if board := boards.FindByID(view.Devices[i].Vendor, view.Devices[i].Device); board != nil &&
			board.TLB != nil {
			d.tlb, d.registers = board.TLB, hal.AddressOf(memory[Size(view)-page:])
		}
		devices[i] = d
	}
	return devices
}

// shared is what the devices have in common.
type shared struct {
	view        *fbs.View
	memory      []byte
	host, tiles uint64 // where the next window of each kind goes
	slots       int    // Tlb windows
}

type device struct {
	hal.BaseDevice
	*shared
	target    int
	tlb       *boards.TLBLayout
	registers uintptr
}

func barStart(view *fbs.View, target, bar int) uint64 {
	start := uint64(0)
	for t := range min(target+1, len(view.Devices)) {
		for b, size := range view.Devices[t].MinBarSizes() {
			if t < target || b < bar {
				start += roundUp(size)
			}
		}
	}
	return start
}

func roundUp(n uint64) uint64 { return (n + page - 1) / page * page }

func (d *device) Identity() hal.Identity {
	t := &d.view.Devices[d.target]
	return hal.Identity{Name: "plain", Vendor: t.Vendor, Device: t.Device,
		BarSizes: *t.MinBarSizes()}
}

func (d *device) Map(w fbs.Window) (hal.Aperture, error) {
	var start uint64
	slot := -1
	switch w.Kind {
	case gen.WindowKindBar:
		start = barStart(d.view, d.target, int(w.Bar)) + w.Offset
	case gen.WindowKindHost:
		start = d.host
		d.host += roundUp(w.Size)
	case gen.WindowKindTlb:
		start, slot = d.tiles, d.slots
		d.tiles += roundUp(w.Size)
		d.slots++
	default:
		return hal.Aperture{}, &hal.Fault{Code: hal.NoDevice,
			Reason: "plain memory has no configuration space"}
	}
	a := hal.MappedAperture(d.memory, start, w.Size, slot)
	a.BusAddress = BusBase + start
	return a, nil
}

// EncodeWindow implements hal.Device.
func (d *device) EncodeWindow(a *hal.Aperture, t fbs.TileRoute, address uint64,
	c *fbs.Command) (registers, home uintptr, code hal.Code) {
	g := group(d.view, &fbs.Window{Kind: gen.WindowKindTlb, Device: uint8(d.target), Size: a.Size})
	words, ok := d.tlb.EncodeWindow(g, t, address)
	if !ok {
		return 0, 0, hal.Refused
	}
	c.Offset, c.Width, c.Amount, c.Value, c.Mask = 16*uint32(a.Slot), d.tlb.ConfigWidth, 0,
		words[0], words[1]
	return d.registers, a.Base, hal.OK
}

var opened = time.Now()

func (d *device) Now() int64 { return int64(time.Since(opened)) }

func (d *device) Sleep(nanoseconds int64) { hal.SleepRaw(nanoseconds) }
