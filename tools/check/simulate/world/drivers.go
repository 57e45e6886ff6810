//go:build world

package main

import (
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of VFIO, the watchdog and tt-kmd (linux/vfio.h, linux/watchdog.h, ioctl.h of tt-kmd).
const (
	watchdogSetTimeout, watchdogGetTimeout = 0xc0045706, 0x80045707

	vfioSetIOMMU          = 0x3b66
	vfioGroupGetStatus    = 0x3b67
	vfioGroupSetContainer = 0x3b68
	vfioGroupGetDeviceFD  = 0x3b6a
	vfioGetRegionInfo     = 0x3b6c
	vfioMapDMA            = 0x3b71
	vfioUnmapDMA          = 0x3b72

	ttGetDeviceInfo = 0xfa00
	ttQueryMappings = 0xfa02
	ttGetDriverInfo = 0xfa05
	ttPinPages      = 0xfa07
	ttLockControl   = 0xfa08
	ttAllocateTLB   = 0xfa0b
	ttConfigureTLB  = 0xfa0d
	ttSetNoCCleanup = 0xfa0e
	ttSetPowerState = 0xfa0f
)

// vfioRange is a range of bus addresses that the IOMMU maps to an address in the process.
type vfioRange struct{ iova, size, address uint64 }

// ttWindowConfig is the configuration of a TLB window that the runner passed to tt-kmd. ttCleanup
// is the store that tt-kmd makes when the process ends.
type (
	ttWindowConfig struct {
		address                      uint64
		xEnd, yEnd, xStart, yStart   uint16
		noc, multicast, ordering, vc uint8
	}
	ttCleanup struct {
		x, y, noc     uint8
		address, data uint64
	}
)

func uint32sAt(at unsafe.Pointer, count int) []uint32 { return unsafe.Slice((*uint32)(at), count) }
func uint16sAt(at unsafe.Pointer) []uint16            { return unsafe.Slice((*uint16)(at), 32) }
func uint64sAt(at unsafe.Pointer, count int) []uint64 { return unsafe.Slice((*uint64)(at), count) }
func uint8sAt(at unsafe.Pointer, count int) []byte    { return unsafe.Slice((*byte)(at), count) }

// handleIoctl simulates the ioctls of the drivers and of the watchdog.
func (m *machine) handleIoctl(fd int, f *pciFunction, name string, request uintptr,
	argument unsafe.Pointer) (uintptr, unix.Errno) {
	if errno := m.ioctlErrors[request&0xffffffff]; errno != 0 {
		m.w.logf("ioctl %#x fails: %v", request, errno)
		return ^uintptr(0), errno
	}
	switch {
	case request&0xffffffff == watchdogSetTimeout:
		seconds := int64(request >> 32)
		if m.watchdog.timeoutNs = seconds * 1e9; seconds != m.watchdog.requestedSeconds {
			m.w.errorf("timeout of the watchdog set to %d s, expected %d s",
				seconds, m.watchdog.requestedSeconds)
		}
		return 0, 0
	case request == watchdogGetTimeout:
		return uintptr(m.watchdog.timeoutNs / 1e9), 0
	case f != nil && f.gone:
		return ^uintptr(0), unix.ENODEV
	case m.backend == "vfio" && f != nil:
		return m.handleFunctionIoctl(f, request, uint32sAt(argument, 8))
	case m.backend == "vfio" && name == "/dev/vfio/vfio":
		return m.handleContainerIoctl(request, argument)
	case m.backend == "vfio" && strings.HasPrefix(name, "/dev/vfio/"):
		return m.handleGroupIoctl(name, request, argument)
	case m.backend == "tt" && f != nil:
		return m.handleTTIoctl(f, request, argument)
	}
	m.w.errorf("unexpected ioctl %#x of %q", request, name)
	return ^uintptr(0), unix.ENOTTY
}

func (m *machine) handleGroupIoctl(path string, request uintptr, argument unsafe.Pointer) (uintptr,
	unix.Errno) {
	switch request {
	case vfioGroupGetStatus:
		if w := uint32sAt(argument, 2); w[0] == 8 {
			w[1] = 1
			return 0, 0
		}
	case vfioGroupSetContainer:
		m.containerGroups++
		return 0, 0
	case vfioGroupGetDeviceFD:
		name := string(uint8sAt(argument, 12))
		for _, f := range m.functions {
			if f.address != name || m.containerGroups == 0 {
				continue
			}
			fd, err := unix.Open(m.w.path("machine"+f.sysfsFolder()+"/config"),
				unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				return ^uintptr(0), unix.EIO
			}
			m.openFiles[fd] = "vfio:" + f.address
			m.w.openFDs = append(m.w.openFDs, fd)
			return uintptr(fd), 0
		}
	}
	return ^uintptr(0), unix.EINVAL
}

func (m *machine) handleContainerIoctl(request uintptr, argument unsafe.Pointer) (uintptr,
	unix.Errno) {
	if request == vfioSetIOMMU {
		if uintptr(argument) != 3 || m.containerGroups != 1 {
			return ^uintptr(0), unix.EINVAL
		}
		return 0, 0
	}
	w, l := uint32sAt(argument, 2), uint64sAt(argument, 4)
	switch {
	case request == vfioMapDMA && w[0] == 32 && w[1] == 3:
		r := vfioRange{l[2], l[3], l[1]}
		// The range of interrupts, as on the machine virt of QEMU.
		const hole, holeEnd = 0x800_0000, 0x810_0000
		if (r.iova|r.size|r.address)%4096 != 0 || r.size == 0 ||
			r.iova < holeEnd && r.iova+r.size > hole {
			return ^uintptr(0), unix.EINVAL
		}
		for _, other := range m.dmaRanges {
			if r.iova < other.iova+other.size && other.iova < r.iova+r.size {
				return ^uintptr(0), unix.EEXIST
			}
		}
		m.dmaRanges, m.allDMARanges = append(m.dmaRanges, r), append(m.allDMARanges, r)
		return 0, 0
	case request == vfioUnmapDMA && w[0] == 24 && w[1] == 0:
		n := len(m.dmaRanges)
		m.dmaRanges = slices.DeleteFunc(m.dmaRanges,
			func(r vfioRange) bool { return r.iova == l[1] && r.size == l[2] })
		if len(m.dmaRanges) < n {
			return 0, 0
		}
	}
	return ^uintptr(0), unix.EINVAL
}

// regionOffset returns the offset of a region in the device file of VFIO.
func regionOffset(index uint32) uint64 { return uint64(index+1) << 40 }

func (m *machine) handleFunctionIoctl(f *pciFunction, request uintptr, w []uint32) (uintptr,
	unix.Errno) {
	if request != vfioGetRegionInfo || w[0] != 32 || w[2] > 8 {
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
	l := uint64sAt(unsafe.Pointer(&w[0]), 4)
	l[2], l[3] = size, regionOffset(index)
	return 0, 0
}

// splitTTOffset splits an offset in the device file of tt-kmd into a BAR and an offset in the BAR.
// Bit 43 selects the mapping with write combining, which has the same bytes.
func splitTTOffset(offset uint64) (bar int, barOffset uint64) {
	return int(offset >> 44), offset & (1<<43 - 1)
}

func (m *machine) handleTTIoctl(f *pciFunction, request uintptr, argument unsafe.Pointer) (uintptr,
	unix.Errno) {
	w := uint32sAt(argument, 2)
	switch request {
	case ttGetDriverInfo:
		copy(uint32sAt(argument, 3)[1:], []uint32{12, 2})
		copy(uint8sAt(argument, 16)[12:], []byte{2, 6})
	case ttGetDeviceInfo:
		h := uint16sAt(argument)
		w[1], h[4], h[5], h[8], h[10] = 20, f.vendor, f.device, uint16(f.index+1)<<8|0x1f<<3|5, 1
	case ttQueryMappings:
		if w[0] != 6 {
			return ^uintptr(0), unix.EINVAL
		}
		for i := range 6 {
			if bar := i &^ 1; f.bars[bar] != 0 {
				uint32sAt(argument, 2+36)[2+6*i] = uint32(i + 1)
				l := uint64sAt(argument, 19)[1+3*i:]
				l[1], l[2] = uint64(bar)<<44|uint64(i&1)<<43, f.bars[bar]
			}
		}
	case ttLockControl:
		if b := uint8sAt(argument, 16); w[0] != 4 || w[1] != 0 || b[8] < 16 || b[8] > 63 {
			return ^uintptr(0), unix.EINVAL
		} else if !f.locked {
			b[12] = 1
		}
	case ttAllocateTLB:
		return m.allocateTTWindow(f, argument)
	case ttConfigureTLB:
		h, b, id := uint16sAt(argument), uint8sAt(argument, 48), w[0]
		start, size := tlbWindow(f, int(id))
		if address := uint64sAt(argument, 2)[1]; !f.allocatedWindows[id] || size == 0 ||
			address%size != 0 || start == 1 {
			return ^uintptr(0), unix.EINVAL
		} else {
			f.windowConfigs[int(id)] = ttWindowConfig{address, h[8], h[9], h[10], h[11], b[24],
				b[25], b[26], b[28]}
		}
	case ttPinPages:
		l := uint64sAt(argument, 5)
		if w[0] != 16 || w[1] != 2 || (l[1]|l[2])%4096 != 0 || l[2] == 0 {
			return ^uintptr(0), unix.EINVAL
		}
		m.lastNoCOffset += 1 << 24
		m.allDMARanges = append(m.allDMARanges,
			vfioRange{0x8_0000_0000 + m.lastNoCOffset, l[2], l[1]})
		l[3], l[4] = 0x1234_0000, 0x8_0000_0000+m.lastNoCOffset
	case ttSetNoCCleanup:
		b, l := uint8sAt(argument, 32), uint64sAt(argument, 4)
		f.cleanup = &ttCleanup{b[9], b[10], b[11], l[2], l[3]}
		if w[0] != 32 || w[1] != 0 || b[8] != 1 {
			return ^uintptr(0), unix.EINVAL
		}
	case ttSetPowerState:
		if b := uint8sAt(argument, 12); w[0] != 40 || b[9] != 15 {
			return ^uintptr(0), unix.EINVAL
		}
		f.powerRequests = append(f.powerRequests, uint16sAt(argument)[5])
	default:
		return ^uintptr(0), unix.EINVAL
	}
	return 0, 0
}

// allocateTTWindow allocates the first free TLB window of the requested size.
func (m *machine) allocateTTWindow(f *pciFunction, argument unsafe.Pointer) (uintptr, unix.Errno) {
	l := uint64sAt(argument, 6)
	for id := 0; ; id++ {
		start, size := tlbWindow(f, id)
		if size == 0 {
			return ^uintptr(0), unix.ENOMEM
		}
		if size != l[0] || f.allocatedWindows[uint32(id)] || start == 1 {
			continue
		}
		f.allocatedWindows[uint32(id)] = true
		uint32sAt(argument, 6)[4] = uint32(id)
		bar := uint64(0)
		if size == 4<<30 {
			bar = 4
		}
		l[3], l[4] = bar<<44|start, bar<<44|1<<43|start
		return 0, 0
	}
}

// tlbWindow returns the offset of a TLB window in its BAR, and its size. The size is 0 if the
// device has no such window. A start of 1 marks the window that the kernel driver uses
// (tt-isa-documentation, WormholeB0/PCIExpressTile/TLBs.md; tt-kmd blackhole.c, KERNEL_TLB_INDEX).
func tlbWindow(f *pciFunction, id int) (start, size uint64) {
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

// readBAR reads from a BAR, even if the runner has not mapped it.
func (m *machine) readBAR(f *pciFunction, bar int, offset uint64, size int) []byte {
	data := make([]byte, size)
	if file, err := os.Open(m.barFile(f, bar)); err == nil {
		_, _ = file.ReadAt(data, int64(offset))
		file.Close()
	}
	return data
}
