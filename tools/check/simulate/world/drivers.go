//go:build world

package main

import (
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What VFIO and tt-kmd are asked, as their headers have it (linux/vfio.h; tt-kmd
// ioctl.h): requests, and structs as 32-bit words.
const (
	watchSet, watchGet = 0xc0045706, 0x80045707 // WDIOC_SETTIMEOUT, WDIOC_GETTIMEOUT

	vfioSet, vfioStatus, vfioAttach, vfioDevice, vfioInfo = 0x3b66, 0x3b67, 0x3b68, 0x3b6a, 0x3b6c
	vfioMapDMA, vfioUnmapDMA                              = 0x3b71, 0x3b72

	ttInfo, ttMaps, ttDriver, ttPin, ttLock        = 0xfa00, 0xfa02, 0xfa05, 0xfa07, 0xfa08
	ttAllocate, ttConfigure, ttCleanupSet, ttPower = 0xfa0b, 0xfa0d, 0xfa0e, 0xfa0f
)

// vfioRange is addresses that the IOMMU maps.
type vfioRange struct{ iova, size, address uint64 }

// ttAim is what tt-kmd was told of a window, ttClean of what to store at the end.
type (
	ttAim struct {
		address                      uint64
		xEnd, yEnd, xStart, yStart   uint16
		noc, multicast, ordering, vc uint8
	}
	ttClean struct {
		x, y, noc     uint8
		address, data uint64
	}
)

func words(at unsafe.Pointer, count int) []uint32 { return unsafe.Slice((*uint32)(at), count) }
func halves(at unsafe.Pointer) []uint16           { return unsafe.Slice((*uint16)(at), 32) }
func longs(at unsafe.Pointer, count int) []uint64 { return unsafe.Slice((*uint64)(at), count) }
func octets(at unsafe.Pointer, count int) []byte  { return unsafe.Slice((*byte)(at), count) }

// ioctl answers for drivers and the watchdog.
func (m *machine) ioctl(fd int, f *pciFunction, what string, request uintptr,
	at unsafe.Pointer) (uintptr, unix.Errno) {
	if errno := m.requests[request&0xffffffff]; errno != 0 {
		m.w.say("ioctl %#x fails: %v", request, errno)
		return ^uintptr(0), errno
	}
	switch {
	case request&0xffffffff == watchSet:
		if m.feeds.timeout = int64(request>>32) * 1e9; m.feeds.timeout != m.feeds.wanted*1e9 {
			m.w.violate("the watchdog is set to %d s, %d are asked for", m.feeds.timeout/1e9,
				m.feeds.wanted)
		}
		return 0, 0
	case request == watchGet:
		return uintptr(m.feeds.timeout / 1e9), 0
	case f != nil && f.gone:
		return ^uintptr(0), unix.ENODEV
	case m.lane == "vfio" && f != nil:
		return m.vfioFunction(f, request, words(at, 8))
	case m.lane == "vfio" && what == "/dev/vfio/vfio":
		return m.vfioContainer(request, at)
	case m.lane == "vfio" && strings.HasPrefix(what, "/dev/vfio/"):
		return m.vfioGroup(what, request, at)
	case m.lane == "tt" && f != nil:
		return m.tt(f, request, at)
	}
	m.w.violate("ioctl %#x of %q", request, what)
	return ^uintptr(0), unix.ENOTTY
}

func (m *machine) vfioGroup(path string, request uintptr, at unsafe.Pointer) (uintptr, unix.Errno) {
	m.calls = append(m.calls, map[uintptr]string{vfioStatus: "status", vfioAttach: "attach",
		vfioDevice: "device"}[request])
	switch request {
	case vfioStatus:
		if w := words(at, 2); w[0] == 8 {
			w[1] = 1
			return 0, 0
		}
	case vfioAttach:
		m.container++
		return 0, 0
	case vfioDevice:
		name := string(octets(at, 12))
		for _, f := range m.functions {
			if f.address != name || m.container == 0 {
				continue
			}
			fd, err := unix.Open(m.w.file("machine"+f.folder()+"/config"),
				unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				return ^uintptr(0), unix.EIO
			}
			m.files[fd] = "vfio:" + f.address
			m.w.open = append(m.w.open, fd)
			return uintptr(fd), 0
		}
	}
	return ^uintptr(0), unix.EINVAL
}

func (m *machine) vfioContainer(request uintptr, at unsafe.Pointer) (uintptr, unix.Errno) {
	if request == vfioSet {
		if uintptr(at) != 3 || m.container != 1 {
			return ^uintptr(0), unix.EINVAL
		}
		return 0, 0
	}
	w, l := words(at, 2), longs(at, 4)
	switch {
	case request == vfioMapDMA && w[0] == 32 && w[1] == 3:
		r := vfioRange{l[2], l[3], l[1]}
		const hole, holeEnd = 0x800_0000, 0x810_0000 // of interrupts, as on QEMU's virt
		if (r.iova|r.size|r.address)%4096 != 0 || r.size == 0 ||
			r.iova < holeEnd && r.iova+r.size > hole {
			return ^uintptr(0), unix.EINVAL
		}
		for _, other := range m.dma {
			if r.iova < other.iova+other.size && other.iova < r.iova+r.size {
				return ^uintptr(0), unix.EEXIST
			}
		}
		m.dma, m.history = append(m.dma, r), append(m.history, r)
		return 0, 0
	case request == vfioUnmapDMA && w[0] == 24 && w[1] == 0:
		n := len(m.dma)
		m.dma = slices.DeleteFunc(m.dma, func(r vfioRange) bool {
			return r.iova == l[1] &&
				r.size == l[2]
		})
		if len(m.dma) < n {
			return 0, 0
		}
	}
	return ^uintptr(0), unix.EINVAL
}

// regionAt is where a region of a function lies in its file.
func regionAt(index uint32) uint64 { return uint64(index+1) << 40 }

func (m *machine) vfioFunction(f *pciFunction, request uintptr, w []uint32) (uintptr, unix.Errno) {
	if request != vfioInfo || w[0] != 32 || w[2] > 8 {
		return ^uintptr(0), unix.EINVAL
	}
	size, index := uint64(4096), w[2]
	if index != 7 {
		size = 0
		if index < 6 {
			size = f.bars[index]
		}
	}
	w[1] = 3
	if size != 0 && index < 6 {
		w[1] |= 4
	}
	l := longs(unsafe.Pointer(&w[0]), 4)
	l[2], l[3] = size, regionAt(index)
	return 0, 0
}

// ttRegion: the mappings of BARs, and behind them each BAR's windows, twice.
func ttRegion(offset uint64) (bar int, inside uint64) {
	return int(offset >> 44), offset & (1<<43 - 1)
}

func (m *machine) tt(f *pciFunction, request uintptr, at unsafe.Pointer) (uintptr, unix.Errno) {
	w := words(at, 2)
	switch request {
	case ttDriver:
		copy(words(at, 3)[1:], []uint32{12, 2})
		copy(octets(at, 16)[12:], []byte{2, 6})
	case ttInfo:
		h := halves(at)
		w[1], h[4], h[5], h[8], h[10] = 20, f.vendor, f.device, uint16(f.index+1)<<8|0x1f<<3|5, 1
	case ttMaps:
		if w[0] != 6 {
			return ^uintptr(0), unix.EINVAL
		}
		for i := range 6 {
			if bar := i &^ 1; f.bars[bar] != 0 {
				words(at, 2+36)[2+6*i] = uint32(i + 1)
				l := longs(at, 19)[1+3*i:]
				l[1], l[2] = uint64(bar)<<44|uint64(i&1)<<43, f.bars[bar]
			}
		}
	case ttLock:
		if b := octets(at, 16); w[0] != 4 || w[1] != 0 || b[8] < 16 || b[8] > 63 {
			return ^uintptr(0), unix.EINVAL
		} else if !f.locked {
			b[12] = 1
		}
	case ttAllocate:
		return m.ttWindow(f, at)
	case ttConfigure:
		h, b, id := halves(at), octets(at, 48), w[0]
		start, size := hardware(f, int(id))
		if address := longs(at, 2)[1]; !f.slots[id] || size == 0 || address%size != 0 ||
			start == 1 {
			return ^uintptr(0), unix.EINVAL
		} else {
			f.aims[int(id)] = ttAim{address, h[8], h[9], h[10], h[11], b[24], b[25], b[26], b[28]}
		}
	case ttPin:
		l := longs(at, 5)
		if w[0] != 16 || w[1] != 2 || (l[1]|l[2])%4096 != 0 || l[2] == 0 {
			return ^uintptr(0), unix.EINVAL
		}
		m.next += 1 << 24
		m.history = append(m.history, vfioRange{0x8_0000_0000 + m.next, l[2], l[1]})
		l[3], l[4] = 0x1234_0000, 0x8_0000_0000+m.next
	case ttCleanupSet:
		b, l := octets(at, 32), longs(at, 4)
		f.cleanup = &ttClean{b[9], b[10], b[11], l[2], l[3]}
		if w[0] != 32 || w[1] != 0 || b[8] != 1 {
			return ^uintptr(0), unix.EINVAL
		}
	case ttPower:
		if b := octets(at, 12); w[0] != 40 || b[9] != 15 {
			return ^uintptr(0), unix.EINVAL
		}
		f.powers = append(f.powers, halves(at)[5])
	default:
		return ^uintptr(0), unix.EINVAL
	}
	return 0, 0
}

// ttWindow gives out the first window of a size.
func (m *machine) ttWindow(f *pciFunction, at unsafe.Pointer) (uintptr, unix.Errno) {
	l := longs(at, 6)
	for id := 0; ; id++ {
		start, size := hardware(f, id)
		if size == 0 {
			return ^uintptr(0), unix.ENOMEM
		}
		if size != l[0] || f.slots[uint32(id)] || start == 1 {
			continue
		}
		f.slots[uint32(id)] = true
		words(at, 6)[4] = uint32(id)
		bar := uint64(0)
		if size == 4<<30 {
			bar = 4
		}
		l[3], l[4] = bar<<44|start, bar<<44|1<<43|start
		return 0, 0
	}
}

// hardware is where a window of a device begins in its BAR, and its size: 0 for no
// window; start 1: it is the kernel driver's (tt-isa-documentation, WormholeB0/
// PCIExpressTile/TLBs.md; tt-kmd blackhole.c, KERNEL_TLB_INDEX).
func hardware(f *pciFunction, id int) (start, size uint64) {
	n := uint64(id)
	switch {
	case f.device == 0x401e && n < 156:
		return n << 20, 1 << 20
	case f.device == 0x401e && n < 166:
		return 0x9c00000 + (n-156)<<21, 2 << 20
	case f.device == 0x401e && n < 185:
		return 0xb000000 + (n-166)<<24, 16 << 20
	case f.device == 0x401e && n == 185, f.device == 0xb140 && n == 201:
		return 1, 16 << 20
	case f.device == 0xb140 && n < 201:
		return n << 21, 2 << 20
	case f.device == 0xb140 && n < 210:
		return (n - 202) << 32, 4 << 30
	}
	return 0, 0
}

// bytesAt reads from a BAR, whatever the runner has mapped of it.
func (m *machine) bytesAt(f *pciFunction, bar int, offset uint64, size int) []byte {
	data := make([]byte, size)
	if file, err := os.Open(m.bar(f, bar)); err == nil {
		_, _ = file.ReadAt(data, int64(offset))
		file.Close()
	}
	return data
}
