// Package plain implements devices that consist of mapped memory only. The layout is the same as in
// tools/check/bench/c/layout.c, so that both programs leave their bytes at the same offsets. The
// memory contains the BARs of each device in turn, each a whole number of pages, then host memory,
// then one range for each Tlb window, whatever it points to, and a page with 16 bytes of registers
// for each Tlb window. There is no configuration space.
package plain

import (
	"time"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
)

// BusBase is the bus address of the first byte.
const BusBase = 0x10000000

const pageSize = 4096

// Size returns the size of the memory that the devices of an image need, or 0 if plain memory
// cannot replace them.
func Size(view *fbs.View) uint64 {
	tlbBytes := uint64(0)
	for i := range view.Windows {
		switch w := &view.Windows[i]; w.Kind {
		case gen.WindowKindConfig:
			return 0
		case gen.WindowKindTlb:
			if tlbGroup(view, w) == nil {
				return 0
			}
			tlbBytes += roundUp(w.Size)
		}
	}
	return barStart(view, len(view.Devices), 0) + view.Reservation.HostBytes + tlbBytes + pageSize
}

// tlbGroup returns the kind of TLB window that the device provides for a Tlb window of the image,
// or nil.
func tlbGroup(view *fbs.View, w *fbs.Window) *boards.WindowGroup {
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

// Devices returns a device for each device of an image. All use the same memory of at least Size
// bytes.
func Devices(view *fbs.View, memory []byte) []hal.Device {
	s := &shared{view: view, memory: memory, nextHost: barStart(view, len(view.Devices), 0)}
	s.nextTLB = s.nextHost + view.Reservation.HostBytes
	devices := make([]hal.Device, len(view.Devices))
	for i := range devices {
		d := &device{shared: s, index: i}
		if board := boards.FindByID(view.Devices[i].Vendor, view.Devices[i].Device); board != nil &&
			board.TLB != nil {
			d.tlb, d.registers = board.TLB, hal.AddressOf(memory[Size(view)-pageSize:])
		}
		devices[i] = d
	}
	return devices
}

// shared is the state that the devices share.
type shared struct {
	view              *fbs.View
	memory            []byte
	nextHost, nextTLB uint64 // offset of the next window of each kind
	mappedTLBs        int    // number of mapped Tlb windows
}

type device struct {
	mock.BaseDevice
	*shared
	index     int
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

func roundUp(n uint64) uint64 { return (n + pageSize - 1) / pageSize * pageSize }

func (d *device) Identity() hal.Identity {
	t := &d.view.Devices[d.index]
	return hal.Identity{Name: "plain", Vendor: t.Vendor, Device: t.Device,
		BarSizes: *t.MinBarSizes()}
}

func (d *device) Map(w fbs.Window) (hal.Aperture, error) {
	var start uint64
	slot := -1
	switch w.Kind {
	case gen.WindowKindBar:
		start = barStart(d.view, d.index, int(w.Bar)) + w.Offset
	case gen.WindowKindHost:
		start = d.nextHost
		d.nextHost += roundUp(w.Size)
	case gen.WindowKindTlb:
		start, slot = d.nextTLB, d.mappedTLBs
		d.nextTLB += roundUp(w.Size)
		d.mappedTLBs++
	default:
		return hal.Aperture{}, &hal.Fault{Code: hal.NoDevice,
			Reason: "plain memory has no configuration space"}
	}
	a := hal.MappedAperture(d.memory, start, w.Size, slot)
	a.BusAddress = BusBase + start
	return a, nil
}

// EncodePoint implements hal.Device.
func (d *device) EncodePoint(a *hal.Aperture, t fbs.TileRoute, address uint64,
	c *fbs.Command) (registers, home uintptr, code hal.Code) {
	g := tlbGroup(d.view, &fbs.Window{Kind: gen.WindowKindTlb, Device: uint8(d.index),
		Size: a.Size})
	words, ok := d.tlb.EncodeWindow(g, t, address)
	if !ok {
		return 0, 0, hal.Refused
	}
	c.Offset, c.Width, c.Amount, c.Value, c.Mask = 16*uint32(a.TLBWindow), d.tlb.ConfigWidth, 0,
		words[0], words[1]
	return d.registers, a.Base, hal.OK
}

var startTime = time.Now()

func (d *device) Now() int64 { return int64(time.Since(startTime)) }

func (d *device) Sleep(nanoseconds int64) { hal.SleepRaw(nanoseconds) }
