//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"unsafe"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"

	"golang.org/x/sys/unix"
)

// Requests of Tenstorrent's driver (tt-kmd, ioctl.h).
const (
	ttDeviceInfo   = 0xfa00
	ttMappings     = 0xfa02
	ttAllocateDMA  = 0xfa03
	ttReset        = 0xfa06
	ttPin          = 0xfa07
	ttUnpin        = 0xfa0a
	ttAllocate     = 0xfa0b
	ttConfigure    = 0xfa0d
	ttCleanup      = 0xfa0e
	ttOrderingZero = boards.OrderingDefault // the driver counts from 0
	noWindow       = -1
)

// driven is a device behind Tenstorrent's driver.
type driven struct {
	*device
	folder string // under /sys
	board  *boards.Board
	// in its file, by twice 0, 2, 4 for the BAR, and one for write-combining
	mappings [6]struct{ base, size uint64 }
	windows  []driverWindow
}

// driverWindow is one that the driver has given out, or, with noWindow, memory.
type driverWindow struct {
	slot                int
	size                uint64
	uncached, combining uint64 // in the file
}

// behind finds the device behind a file of the driver's, which answers whoever has the file.
func (r *recording) behind(t *thread, fd int) (*driven, error) {
	own, err := takeDescriptor(t, fd)
	if err != nil {
		return nil, err
	}
	defer unix.Close(own)
	info := struct {
		in, out           uint32
		vendor, device    uint16
		_, _, busDevFn, _ uint16
		domain, _         uint16
	}{in: 20}
	if err := request(own, ttDeviceInfo, unsafe.Pointer(&info)); err != nil {
		return nil, fmt.Errorf("GET_DEVICE_INFO: %w", err)
	}
	name := fmt.Sprintf("%04x:%02x:%02x.%x", info.domain, info.busDevFn>>8, info.busDevFn>>3&31,
		info.busDevFn&7)
	for _, d := range r.driven {
		if d.name == name {
			return d, nil
		}
	}
	d := &driven{device: r.device(name, info.vendor, info.device),
		folder: filepath.Join(sysDevices, name), board: boards.FindByID(info.vendor, info.device)}
	if d.device == nil {
		return nil, nil
	}
	if d.board == nil || d.board.TLB == nil {
		return nil, fmt.Errorf("the driver's windows of device %04x:%04x are unknown",
			info.vendor, info.device)
	}
	all := struct {
		count, _ uint32
		list     [6]struct {
			id, _      uint32
			base, size uint64
		}
	}{count: 6}
	if err := request(own, ttMappings, unsafe.Pointer(&all)); err != nil {
		return nil, fmt.Errorf("QUERY_MAPPINGS: %w", err)
	}
	for _, m := range all.list {
		if m.id >= 1 && m.id <= 6 {
			d.mappings[m.id-1].base, d.mappings[m.id-1].size = m.base, m.size
		}
	}
	r.driven = append(r.driven, d)
	return d, nil
}

// throughDriver returns the part of a device that a mapping of the driver's file has.
func (r *recording) throughDriver(t *thread, fd int, offset, length uint64) (*mapped, error) {
	d, err := r.behind(t, fd)
	if d == nil || err != nil {
		return nil, err
	}
	for _, w := range d.windows {
		for _, at := range []uint64{w.uncached, w.combining} {
			if offset-at < w.size && w.slot == noWindow {
				return nil, nil
			} else if offset-at < w.size {
				g := d.board.TLB.GroupOf(w.slot)
				return r.pci(d.folder, int(g.Bar), g.Offset+uint64(w.slot-g.First)*g.Size+offset-at)
			}
		}
	}
	for i, m := range d.mappings {
		if offset-m.base < m.size {
			return r.pci(d.folder, i&^1, offset-m.base)
		}
	}
	return nil, errors.New("the driver has not reported the PCI ids")
}

// aside returns what is behind a request's descriptor, nil for no such device.
func (r *recording) aside(t *thread, c *call, what string) *driven {
	d, err := r.behind(t, int(int32(c.arguments[0])))
	if err != nil {
		r.gap("%s of process %d is not recorded: %v", what, t.process, err)
	}
	return d
}

// allocated follows the allocation of a window: size, nothing, id, nothing, offset uncached, offset
// write-combining.
func (r *recording) allocated(t *thread, c *call, _ uint64) {
	d := r.aside(t, c, "ALLOCATE_TLB")
	if w, ok := words(t, c.arguments[2], 10); ok && d != nil {
		d.windows = append(d.windows, driverWindow{int(w[4]), long(w, 0), long(w, 6), long(w, 8)})
	}
}

// pointed follows a request by which the driver points a window, which it does by
// stores: id, nothing, address, the corners, and four bytes and one of settings.
// They come into the record as the program's.
func (r *recording) pointed(t *thread, c *call, _ uint64) {
	d := r.aside(t, c, "CONFIGURE_TLB")
	var data [32]byte
	if d == nil || readMemory(t.tid, c.arguments[2], data[:]) != len(data) {
		return
	}
	short := func(at int) uint8 { return uint8(binary.NativeEndian.Uint16(data[at:])) }
	slot, address := int(binary.NativeEndian.Uint32(data[:])), binary.NativeEndian.Uint64(data[8:])
	target := fbs.TileRoute{
		X: short(16), Y: short(18), XStart: short(20), YStart: short(22),
		NoC: data[24], Multicast: data[25] != 0,
		Ordering:        ttOrderingZero + boards.Ordering(data[26]),
		StaticVCPlusOne: data[28],
	}
	if !target.Multicast {
		target.XStart, target.YStart = 0, 0
	}
	l := d.board.TLB
	g := l.GroupOf(slot)
	if g == nil || data[27] != 0 {
		r.gap("CONFIGURE_TLB of process %d uses window %d in a way that is not recorded "+
			"(linked: %d)", t.process, slot, data[27])
		return
	}
	encoded, ok := l.EncodeWindow(g, target, address)
	if !ok {
		r.gap("CONFIGURE_TLB of process %d sets window %d to an address that boards do not "+
			"have: %x",
			t.process, slot, address)
		return
	}
	m, err := r.pci(d.folder, int(l.ConfigBar), l.ConfigOffset+uint64(slot)*l.ConfigStride)
	if err != nil {
		r.gap("CONFIGURE_TLB of process %d: %v", t.process, err)
		return
	}
	r.out.line("NOTE process %d has the driver point window %d", t.process, slot)
	for at := uint64(0); at < l.ConfigStride; at += uint64(l.ConfigWidth) {
		value := chips.LoadRegister(&encoded, at, l.ConfigWidth)
		r.out.access('W', m.bar.number, m.offset+at,
			binary.LittleEndian.AppendUint64(nil, value)[:l.ConfigWidth])
	}
}

// pinned follows a request that pins memory: bytes of the answer, flags, address, bytes, address
// on the bus, and where the flags ask for it on the NoC.
func (r *recording) pinned(t *thread, c *call, _ uint64) {
	const onNoC = 2
	w, ok := words(t, c.arguments[2], 8)
	if !ok {
		return
	}
	bus := long(w, 6)
	if more, ok := words(t, c.arguments[2]+32, 2); ok && w[1]&onNoC != 0 {
		bus = long(more, 0)
	}
	r.reach(t, long(w, 2), long(w, 4), bus)
}

// unpinned follows a request that unpins memory, by its address.
func (r *recording) unpinned(t *thread, c *call, _ uint64) {
	w, ok := words(t, c.arguments[2], 4)
	if !ok {
		return
	}
	at := long(w, 0)
	for _, m := range r.hosts.reached {
		if m.space != t.space || at < m.start || at-m.start >= m.size() {
			continue
		}
		if bus := m.bus + at - m.start; m.pieceOf(bus) == bus {
			r.unreach(t, bus, 1)
			return
		}
	}
}

func (r *recording) driverReset(t *thread, c *call, _ uint64) {
	w, _ := words(t, c.arguments[2], 2)
	r.report("process %d resets its device through the driver (RESET_DEVICE, flags %d), which a "+
		"replay does not do", t.process, w[1])
}

// driverMemory follows the allocation of memory of the driver: six words, its
// address on the bus, offset in the file, and bytes. A mapping of it is none of a BAR.
func (r *recording) driverMemory(t *thread, c *call, _ uint64) {
	r.report("process %d uses memory of the driver (ALLOCATE_DMA_BUF), which is not recorded",
		t.process)
	d := r.aside(t, c, "ALLOCATE_DMA_BUF")
	if w, ok := words(t, c.arguments[2], 11); ok && d != nil {
		d.windows = append(d.windows, driverWindow{noWindow, uint64(w[10]), long(w, 8), long(w, 8)})
	}
}

func (r *recording) driverCleanup(t *thread, c *call, _ uint64) {
	r.report("process %d asks the driver for a store when the process ends (SET_NOC_CLEANUP); "+
		"this is not replayed: a replay asks for its own", t.process)
}
