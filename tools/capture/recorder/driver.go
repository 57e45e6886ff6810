//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"unsafe"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"

	"golang.org/x/sys/unix"
)

// ioctl requests of Tenstorrent's driver (tt-kmd, ioctl.h).
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
	ttOrderingZero = boards.OrderingDefault // the driver numbers orderings from 0
	noWindow       = -1
)

// driverDevice is a device that Tenstorrent's driver manages.
type driverDevice struct {
	*device
	sysDir string // directory in /sys
	board  *boards.Board
	// mappings of BARs in the driver's file: index 0, 2 or 4 is the uncached mapping of this BAR,
	// and the next index is its write-combining mapping
	mappings [6]struct{ base, size uint64 }
	windows  []driverWindow
}

// driverWindow is a TLB window that the driver has allocated for the program. If its slot is
// noWindow, it is memory that the driver has allocated.
type driverWindow struct {
	slot                     int
	size                     uint64
	uncached, writeCombining uint64 // offsets of its two mappings in the driver's file
}

// deviceOfDriverFile returns the device of an open file of the driver. It queries the driver with a
// copy of the file descriptor.
func (r *recording) deviceOfDriverFile(t *thread, fd int) (*driverDevice, error) {
	own, err := copyFD(t, fd)
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
	if err := ioctl(own, ttDeviceInfo, unsafe.Pointer(&info)); err != nil {
		return nil, fmt.Errorf("GET_DEVICE_INFO: %w", err)
	}
	name := fmt.Sprintf("%04x:%02x:%02x.%x", info.domain, info.busDevFn>>8, info.busDevFn>>3&31,
		info.busDevFn&7)
	for _, d := range r.driverDevices {
		if d.name == name {
			return d, nil
		}
	}
	d := &driverDevice{device: r.findOrAddDevice(name, info.vendor, info.device),
		sysDir: filepath.Join(sysDevices, name), board: boards.FindByID(info.vendor, info.device)}
	if d.device == nil {
		return nil, nil
	}
	if d.board == nil || d.board.TLB == nil {
		return nil, fmt.Errorf("lm does not know the TLB windows of device %04x:%04x",
			info.vendor, info.device)
	}
	all := struct {
		count, _ uint32
		list     [6]struct {
			id, _      uint32
			base, size uint64
		}
	}{count: 6}
	if err := ioctl(own, ttMappings, unsafe.Pointer(&all)); err != nil {
		return nil, fmt.Errorf("QUERY_MAPPINGS: %w", err)
	}
	for _, m := range all.list {
		if m.id >= 1 && m.id <= 6 {
			d.mappings[m.id-1].base, d.mappings[m.id-1].size = m.base, m.size
		}
	}
	r.driverDevices = append(r.driverDevices, d)
	return d, nil
}

// driverTarget returns the part of a BAR that a mapping of the driver's file maps.
func (r *recording) driverTarget(t *thread, fd int, offset, length uint64) (*mapTarget, error) {
	d, err := r.deviceOfDriverFile(t, fd)
	if d == nil || err != nil {
		return nil, err
	}
	for _, w := range d.windows {
		for _, at := range []uint64{w.uncached, w.writeCombining} {
			if offset-at < w.size && w.slot == noWindow {
				return nil, nil
			} else if offset-at < w.size {
				g := d.board.TLB.GroupOf(w.slot)
				return r.pciTarget(d.sysDir, int(g.Bar),
					g.Offset+uint64(w.slot-g.First)*g.Size+offset-at)
			}
		}
	}
	for i, m := range d.mappings {
		if offset-m.base < m.size {
			return r.pciTarget(d.sysDir, i&^1, offset-m.base)
		}
	}
	return nil, fmt.Errorf("the program mapped offset 0x%x of the driver's file, but the "+
		"driver has not reported a BAR or TLB window there", offset)
}

// deviceOfRequest returns the device to which an ioctl request goes, or nil if the device is
// unknown or not recorded.
func (r *recording) deviceOfRequest(t *thread, c *call, what string) *driverDevice {
	d, err := r.deviceOfDriverFile(t, int(int32(c.arguments[0])))
	if err != nil {
		r.reportGap("%s of process %d is not recorded: %v", what, t.process, err)
	}
	return d
}

// addDriverWindow handles the allocation of a TLB window. The 32-bit words of the request are: size
// (2), unused (2), id, unused, offset of the uncached mapping (2), offset of the write-combining
// mapping (2).
func (r *recording) addDriverWindow(t *thread, c *call, _ uint64) {
	d := r.deviceOfRequest(t, c, "ALLOCATE_TLB")
	if w, ok := readWords(t, c.arguments[2], 10); ok && d != nil {
		d.windows = append(d.windows, driverWindow{int(w[4]), uint64At(w, 0), uint64At(w, 6),
			uint64At(w, 8)})
	}
}

// recordWindowStores handles a request that configures a TLB window: id, unused word, address,
// coordinates of the tiles, and five bytes of settings. The driver configures the window with
// stores to registers. The record has them as stores of the program.
func (r *recording) recordWindowStores(t *thread, c *call, _ uint64) {
	d := r.deviceOfRequest(t, c, "CONFIGURE_TLB")
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
	if g == nil {
		r.reportGap("CONFIGURE_TLB of process %d is not recorded: the device has no TLB window %d",
			t.process, slot)
		return
	}
	if data[27] != 0 {
		r.reportGap("CONFIGURE_TLB of process %d makes TLB window %d a linked window, "+
			"which lm cannot record", t.process, slot)
		return
	}
	encoded, ok := l.EncodeWindow(g, target, address)
	if !ok {
		r.reportGap("CONFIGURE_TLB of process %d sets TLB window %d to address 0x%x, "+
			"which the TLB cannot encode", t.process, slot, address)
		return
	}
	m, err := r.pciTarget(d.sysDir, int(l.ConfigBar), l.ConfigOffset+uint64(slot)*l.ConfigStride)
	if err != nil {
		r.reportGap("CONFIGURE_TLB of process %d is not recorded: %v", t.process, err)
		return
	}
	r.out.Line("NOTE the driver points TLB window %[2]d for process %[1]d", t.process, slot)
	for at := uint64(0); at < l.ConfigStride; at += uint64(l.ConfigWidth) {
		value := chips.LoadRegister(&encoded, at, l.ConfigWidth)
		r.out.Access('W', m.bar.number, m.offset+at,
			binary.LittleEndian.AppendUint64(nil, value)[:l.ConfigWidth])
	}
}

// addPinnedMemory handles a request that pins memory. Its words are: size of the result, flags,
// address (2), size in bytes (2), bus address (2), and the NoC address (2) if the flags request it.
func (r *recording) addPinnedMemory(t *thread, c *call, _ uint64) {
	const onNoC = 2
	w, ok := readWords(t, c.arguments[2], 8)
	if !ok {
		return
	}
	bus := uint64At(w, 6)
	if more, ok := readWords(t, c.arguments[2]+32, 2); ok && w[1]&onNoC != 0 {
		bus = uint64At(more, 0)
	}
	r.addDMARange(t, uint64At(w, 2), uint64At(w, 4), bus)
}

// removePinnedMemory handles a request that unpins the memory at an address.
func (r *recording) removePinnedMemory(t *thread, c *call, _ uint64) {
	w, ok := readWords(t, c.arguments[2], 4)
	if !ok {
		return
	}
	at := uint64At(w, 0)
	for _, m := range r.hostMemory.ranges {
		if m.space != t.space || at < m.start || at-m.start >= m.size {
			continue
		}
		if bus := m.bus + at - m.start; m.mappingStartOf(bus) == bus {
			r.removeDMARanges(t, bus, 1)
			return
		}
	}
}

func (r *recording) reportDriverReset(t *thread, c *call, _ uint64) {
	w, _ := readWords(t, c.arguments[2], 2)
	r.reportEvent("process %d resets its device through the driver (RESET_DEVICE, "+
		"flags %d): a replay does not repeat the reset", t.process, w[1])
}

// addDriverMemory handles the allocation of memory by the driver: six words, then the bus
// address (2), the offset in the file (2) and the size in bytes. A later mapping of this memory is
// not a mapping of a BAR.
func (r *recording) addDriverMemory(t *thread, c *call, _ uint64) {
	r.reportEvent("process %d uses memory of the driver (ALLOCATE_DMA_BUF): "+
		"accesses to this memory are not recorded", t.process)
	d := r.deviceOfRequest(t, c, "ALLOCATE_DMA_BUF")
	if w, ok := readWords(t, c.arguments[2], 11); ok && d != nil {
		d.windows = append(d.windows, driverWindow{noWindow, uint64(w[10]), uint64At(w, 8),
			uint64At(w, 8)})
	}
}

func (r *recording) reportDriverCleanup(t *thread, c *call, _ uint64) {
	r.reportEvent("process %d has the driver make a store when the process ends "+
		"(SET_NOC_CLEANUP): a replay omits it; "+
		"on a tt: device, a replay may reset cores of one tile instead", t.process)
}
