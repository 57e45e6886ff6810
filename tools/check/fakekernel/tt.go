package fakekernel

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of tt-kmd (ioctl.h of tt-kmd).
const (
	TTGetDeviceInfo = 0xfa00
	TTQueryMappings = 0xfa02
	TTGetDriverInfo = 0xfa05
	TTPinPages      = 0xfa07
	TTLockControl   = 0xfa08
	TTAllocateTLB   = 0xfa0b
	TTConfigureTLB  = 0xfa0d
	TTSetNoCCleanup = 0xfa0e
	TTSetPowerState = 0xfa0f
)

// TT is the state of Tenstorrent's driver (tt-kmd 2.x, chardev.c, memory.c, tlb.c).
type TT struct {
	API            uint32 // version of the driver's interface
	Minor          uint8  // minor version of the driver; the major version is 2
	NextNoCAddress uint64 // address on the NoC of the next pinned memory
}

// ttState is the state of Tenstorrent's driver for one function.
type ttState struct {
	ReservedWindows map[uint32]bool  // numbers of the TLB windows that the program has reserved
	Programmed      []TTWindowConfig // TLB windows that the program has programmed, in order
	Cleanup         *TTCleanup
	PowerRequests   []uint16 // flags of the power states that the program requested
	LockedByOther   bool     // another program has locked the device
	LockAcquired    bool     // the program has locked the device
}

// TTWindowConfig is the configuration of a TLB window.
type TTWindowConfig struct {
	Window                       uint32
	Address                      uint64
	XEnd, YEnd, XStart, YStart   uint16
	NoC, Multicast, Ordering, VC uint8
}

// TTCleanup is the store that the driver makes when the program ends.
type TTCleanup struct {
	X, Y, NoC     uint8
	Address, Data uint64
}

// BindToTT binds Tenstorrent's driver to a function. The path of the driver's file ends with the
// index of the function.
func (k *Kernel) BindToTT(f *Function) {
	f.DriverPath = fmt.Sprintf("/dev/tenstorrent/%d", f.Index)
	k.BindDriver(f, "tenstorrent")
	k.WriteFile(f.DriverPath, "")
}

// ttOffset returns the offset of a BAR in the driver's file. The mappings with write-combining have
// the same bytes. splitTTOffset is the inverse.
func ttOffset(bar int, writeCombining bool) uint64 {
	if writeCombining {
		return uint64(bar)<<44 | 1<<43
	}
	return uint64(bar) << 44
}

func splitTTOffset(offset uint64) (bar int, inBar uint64, writeCombining bool) {
	return int(offset >> 44), offset & (1<<43 - 1), offset>>43&1 != 0
}

// ttStructureSizes are the sizes of the arguments of the requests.
var ttStructureSizes = map[uintptr]int{TTGetDeviceInfo: 24, TTQueryMappings: 8 + 6*24,
	TTGetDriverInfo: 16, TTPinPages: 40, TTLockControl: 16, TTAllocateTLB: 48, TTConfigureTLB: 48,
	TTSetNoCCleanup: 32, TTSetPowerState: 40}

func (k *Kernel) ttIoctl(f *Function, request uintptr, argument unsafe.Pointer) unix.Errno {
	s := structureAt(argument, ttStructureSizes[request])
	switch request {
	case TTGetDriverInfo:
		if s.uint32(0) != 12 {
			return unix.EINVAL
		}
		s.setUint32(4, 12)
		s.setUint32(8, k.TT.API)
		s[12], s[13] = 2, k.TT.Minor
	case TTGetDeviceInfo:
		return f.fillDeviceInfo(s)
	case TTQueryMappings:
		return f.listMappings(s)
	case TTLockControl:
		if s.uint32(0) != 4 || s.uint32(4) != 0 || s[8] < 16 || s[8] > 63 {
			return unix.EINVAL
		}
		if !f.LockedByOther && !f.LockAcquired {
			s[12], f.LockAcquired = 1, true
		}
	case TTAllocateTLB:
		return f.allocateTLB(s)
	case TTConfigureTLB:
		return f.configureTLB(s)
	case TTPinPages:
		return k.pinPages(s)
	case TTSetNoCCleanup:
		if s.uint32(0) != 32 || s.uint32(4) != 0 || s[8] != 1 || s.uint64(16)&3 != 0 || s[11] > 1 {
			return unix.EINVAL
		}
		f.Cleanup = &TTCleanup{s[9], s[10], s[11], s.uint64(16), s.uint64(24)}
	case TTSetPowerState:
		const allFlagsValid = 15
		if k.TT.Minor < 6 || s.uint32(0) != 40 || s.uint32(4) != 0 || s[8] != 0 ||
			s[9] != allFlagsValid {
			return unix.EINVAL
		}
		f.PowerRequests = append(f.PowerRequests, s.uint16(10))
	default:
		return unix.EINVAL
	}
	return 0
}

// fillDeviceInfo executes GET_DEVICE_INFO.
func (f *Function) fillDeviceInfo(s structure) unix.Errno {
	if s.uint32(0) != 20 {
		return unix.EINVAL
	}
	var domain, bus, slot, number uint16
	_, _ = fmt.Sscanf(f.Address, "%x:%x:%x.%x", &domain, &bus, &slot, &number)
	s.setUint32(4, 20)
	s.setUint16(8, f.Vendor)
	s.setUint16(10, f.Device)
	s.setUint16(16, bus<<8|slot<<3|number)
	s.setUint16(20, domain)
	return 0
}

// listMappings executes QUERY_MAPPINGS: mappings 2n and 2n+1, counted from 0, are BAR 2n, without
// and with write-combining.
func (f *Function) listMappings(s structure) unix.Errno {
	if s.uint32(0) != 6 {
		return unix.EINVAL
	}
	for i := range 6 {
		bar, entry := i&^1, s[8+24*i:]
		if f.Bars[bar] == 0 {
			continue
		}
		entry.setUint32(0, uint32(i+1))
		entry.setUint64(8, ttOffset(bar, i&1 != 0))
		entry.setUint64(16, f.Bars[bar])
	}
	return 0
}

// allocateTLB reserves the first free TLB window of the requested size.
func (f *Function) allocateTLB(s structure) unix.Errno {
	for id := 0; ; id++ {
		bar, start, size := f.TLBWindow(id)
		switch {
		case size == 0:
			return unix.ENOMEM
		case size != s.uint64(0) || f.ReservedWindows[uint32(id)] || bar < 0:
			continue
		}
		f.ReservedWindows[uint32(id)] = true
		s.setUint32(16, uint32(id))
		s.setUint64(24, ttOffset(bar, false)+start)
		s.setUint64(32, ttOffset(bar, true)+start)
		return 0
	}
}

func (f *Function) configureTLB(s structure) unix.Errno {
	c := TTWindowConfig{Window: s.uint32(0), Address: s.uint64(8), XEnd: s.uint16(16),
		YEnd: s.uint16(18), XStart: s.uint16(20), YStart: s.uint16(22), NoC: s[24],
		Multicast: s[25], Ordering: s[26], VC: s[28]}
	_, _, size := f.TLBWindow(int(c.Window))
	switch {
	case !f.ReservedWindows[c.Window]:
		return unix.EPERM
	case c.Address%size != 0 || s[27] != 0:
		return unix.EINVAL
	}
	f.Programmed = append(f.Programmed, c)
	return 0
}

func (k *Kernel) pinPages(s structure) unix.Errno {
	const reachableOnNoC = 2
	pin := DMARange{IOVA: k.TT.NextNoCAddress, Size: s.uint64(16), Address: s.uint64(8)}
	if s.uint32(0) != 16 || s.uint32(4) != reachableOnNoC || (pin.Address|pin.Size)%4096 != 0 ||
		pin.Size == 0 {
		return unix.EINVAL
	}
	s.setUint64(24, 0x1234_0000)
	s.setUint64(32, pin.IOVA)
	k.TT.NextNoCAddress += pin.Size
	k.VFIO.AllDMA = append(k.VFIO.AllDMA, pin)
	return 0
}

// TLBWindow returns the BAR of a TLB window, its offset in the BAR, and its size. The size is 0 if
// the device has no such window. The BAR is -1 for the window that the kernel driver uses
// (tt-isa-documentation, WormholeB0/PCIExpressTile/TLBs.md; tt-kmd blackhole.c, KERNEL_TLB_INDEX).
func (f *Function) TLBWindow(id int) (bar int, start, size uint64) {
	n := uint64(id)
	switch {
	case f.Device == 0x401e && n < 156:
		return 0, n << 20, 1 << 20
	case f.Device == 0x401e && n < 166:
		return 0, 0x9c00000 + (n-156)<<21, 2 << 20
	case f.Device == 0x401e && n < 185:
		return 0, 0xb000000 + (n-166)<<24, 16 << 20
	case f.Device == 0x401e && n == 185, f.Device == 0xb140 && n == 201:
		return -1, 0, 16 << 20
	case f.Device == 0xb140 && n < 201:
		return 0, n << 21, 2 << 20
	case f.Device == 0xb140 && n < 210:
		return 4, (n - 202) << 32, 4 << 30
	}
	return 0, 0, 0
}
