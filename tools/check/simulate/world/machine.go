//go:build world

package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"unsafe"

	"lightmetal/hal"
	"lightmetal/tools/check/fakekernel"

	"golang.org/x/sys/unix"
)

// machine is a fake machine on which the runner opens devices of one backend. It checks how the
// runner uses them.
type machine struct {
	*fakekernel.Kernel
	w         *world
	backend   string
	functions []*pciFunction
	// Bus addresses of host memory on a bus without an IOMMU, by address in the process.
	physical        map[uintptr]uint64
	lastPhysical    uint64       // the last one that was assigned
	released        []memoryCopy // host memory that the runner has unmapped
	seccompFilter   []unix.SockFilter
	noNewPrivileges bool // PR_SET_NO_NEW_PRIVS was called
	watchdog        watchdogModel
}

// pciFunction is a device of the image.
type pciFunction struct {
	*fakekernel.Function
	dma hal.Code // result of Diagnose while the device is present
}

func (f *pciFunction) diagnosis() hal.Code {
	h := health{f.Gone, f.dma}
	return h.diagnosis()
}

// newMachine returns a machine without devices.
func newMachine(w *world, backend string) *machine {
	m := &machine{w: w, backend: backend, physical: map[uintptr]uint64{},
		lastPhysical: 1 << 32}
	m.Kernel = fakekernel.New(w.path("machine"), w.errorf)
	m.Pagemap, m.OnConfigStore = m.pagemapEntry, m.checkConfigStore
	return m
}

// addFunction adds a PCI function to the machine, two functions to each IOMMU group.
func (m *machine) addFunction(vendor, device uint16, bars [6]uint64) *pciFunction {
	index := len(m.functions)
	f := &pciFunction{Function: m.AddFunction(fmt.Sprintf("0001:%02x:1f.5", index+1), vendor,
		device, bars)}
	m.functions = append(m.functions, f)
	m.WriteFile(f.Path("modalias"), fakekernel.Modalias(vendor, device, 0x1234, 0x5678))
	m.WriteFile(f.Path("reset"), "")
	switch m.backend {
	case "vfio":
		f.SetCommand(0)
		m.BindToVFIO(f.Function, fmt.Sprint(7+index/2))
	case "tt":
		f.SetCommand(fakekernel.CommandMemory | fakekernel.CommandMaster)
		m.BindToTT(f.Function)
	}
	return f
}

// resolvePath returns the path of the file in this world for a path that the runner opens.
func (m *machine) resolvePath(path string) (string, unix.Errno) {
	resolved, err := path, error(nil)
	if strings.HasPrefix(path, m.w.dir) {
		err = m.Begin("open " + path)
	} else {
		resolved, err = m.Resolve(path, "")
	}
	if err != nil {
		m.w.logf("open %s fails: %v", path, err)
	}
	return resolved, errnoOf(err)
}

// errnoOf returns the number of the error of a system call; 0 for no error.
func errnoOf(err error) unix.Errno {
	errno, _ := err.(unix.Errno)
	return errno
}

// diagnosis returns the first failure that a function reports, in their order.
func (m *machine) diagnosis() hal.Code {
	for _, f := range m.functions {
		if code := f.diagnosis(); code != hal.OK {
			return code
		}
	}
	return hal.OK
}

// handleCall executes a system call on a device. `handled` is false for other system calls.
func (m *machine) handleCall(number uintptr, a [6]uintptr) (n uintptr, errno unix.Errno,
	handled bool) {
	fd := int(a[0])
	f, name := m.Locate(m.OpenFiles[fd])
	isDevice := f != nil || name == fakekernel.PagemapPath
	var result int
	var err error
	switch {
	case number == unix.SYS_IOCTL:
		n, errno = m.handleIoctl(fd, a[1], a[2])
		return n, errno, true
	case number == unix.SYS_PREAD64 && isDevice:
		result, err = m.Pread(fd, memoryAt(a[1], a[2]), int64(a[3]))
	case number == unix.SYS_PWRITE64 && isDevice:
		result, err = m.Pwrite(fd, memoryAt(a[1], a[2]), int64(a[3]))
	case number == unix.SYS_CLOSE:
		m.RecordClose(fd)
		return 0, 0, false
	default:
		return 0, 0, false
	}
	return uintptr(result), errnoOf(err), true
}

// Requests of the watchdog (linux/watchdog.h). The argument of an ioctl that sets a number is in
// the upper 32 bits of the request.
const watchdogSetTimeout, watchdogGetTimeout = 0xc0045706, 0x80045707

// handleIoctl executes the ioctls of the drivers and of the watchdog.
func (m *machine) handleIoctl(fd int, request, argument uintptr) (uintptr, unix.Errno) {
	number := request & 0xffffffff
	if number != watchdogSetTimeout && number != watchdogGetTimeout {
		value := uintptr(0)
		if request == fakekernel.SetIOMMU {
			value, argument = argument, 0
		}
		n, err := m.Ioctl(fd, request, value, unsafe.Pointer(argument))
		if request == fakekernel.GroupGetDeviceFD && err == nil {
			m.w.openFDs = append(m.w.openFDs, n)
		}
		return uintptr(n), errnoOf(err)
	}
	if err := m.Begin(fmt.Sprintf("ioctl %x", number)); err != nil {
		return ^uintptr(0), errnoOf(err)
	}
	if number == watchdogGetTimeout {
		return uintptr(m.watchdog.timeoutNs / 1e9), 0
	}
	seconds := int64(request >> 32)
	if m.watchdog.timeoutNs = seconds * 1e9; seconds != m.watchdog.requestedSeconds {
		m.w.errorf("timeout of the watchdog set to %d s, expected %d s", seconds,
			m.watchdog.requestedSeconds)
	}
	return 0, 0
}

// checkConfigStore checks that the runner stores only to the command register and the status
// register, and changes only the bits of memory decoding, bus mastering and INTx.
func (m *machine) checkConfigStore(f *fakekernel.Function, offset int, data []byte) {
	if len(data) != 2 || offset != 4 && offset != 6 {
		m.w.errorf("store of %d bytes to configuration space at %#x", len(data), offset)
		return
	}
	const statusErrors = 1<<8 | 1<<12 | 1<<13 | 1<<15
	value := binary.LittleEndian.Uint16(data)
	changed := (f.Command() ^ value) &^ (fakekernel.CommandMemory | fakekernel.CommandMaster |
		fakekernel.CommandINTxOff)
	switch {
	case offset == 6 && value&^statusErrors != 0:
		m.w.errorf("store of %#x to the status register", value)
	case offset == 4 && changed != 0:
		m.w.errorf("store of %#x to the command register, which was %#x", value, f.Command())
	}
	m.w.logf("function %d: store of %#x at %#x of configuration space", f.Index, value, offset)
}

// pagemapEntry returns the entry of the page map for a page of host memory on a bus without an
// IOMMU.
func (m *machine) pagemapEntry(page uint64) uint64 {
	const present = 1 << 63
	for _, h := range m.Mappings {
		if start := uint64(h.Address); h.Bar < 0 && page >= start && page < start+uint64(h.Size) {
			return present | (m.physical[h.Address]+page-start)/4096
		}
	}
	return present
}

// mmap maps a BAR or host memory. `handled` is false for other mappings.
func (m *machine) mmap(a [6]uintptr) (n uintptr, errno unix.Errno, handled bool) {
	fd, flags := int(int32(a[4])), int(a[3])
	f, _ := m.Locate(m.OpenFiles[fd])
	if fd >= 0 && f == nil || fd < 0 && flags&unix.MAP_LOCKED == 0 {
		return 0, 0, false
	}
	mem, err := m.Mmap(fd, int64(a[5]), int(a[1]), int(a[2]), flags)
	if err != nil {
		return ^uintptr(0), errnoOf(err), true
	}
	n = uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	if fd < 0 {
		m.lastPhysical += 1 << 30
		m.physical[n] = m.lastPhysical
	}
	return n, 0, true
}

// munmap unmaps a BAR or host memory, of which it keeps a copy. `handled` is false for other
// memory.
func (m *machine) munmap(a [6]uintptr) (errno unix.Errno, handled bool) {
	index := slices.IndexFunc(m.Mappings,
		func(h fakekernel.Mapping) bool { return h.Address == a[0] })
	if index < 0 {
		return 0, false
	}
	if h := m.Mappings[index]; h.Bar < 0 {
		for _, f := range m.functions {
			if f.Command()&fakekernel.CommandMaster != 0 && !f.Gone && m.backend != "tt" &&
				f.StuckOn == 0 {
				m.w.errorf("host memory is unmapped while function %d is bus master", f.Index)
			}
		}
		m.keepCopy(h)
	}
	return errnoOf(m.Munmap(memoryAt(a[0], a[1]))), true
}

// storedExtents returns the parts of a BAR's file that are not holes, because they have been stored
// to.
func (m *machine) storedExtents(f *pciFunction, bar int) (list []extent) {
	file, err := os.Open(f.BarFile(bar))
	if err != nil {
		return list
	}
	defer file.Close()
	const seekData, seekHole = 3, 4
	for at := int64(0); ; {
		from, err := unix.Seek(int(file.Fd()), at, seekData)
		if err != nil {
			return list
		}
		if at, err = unix.Seek(int(file.Fd()), from, seekHole); err != nil {
			return list
		}
		data := make([]byte, at-from)
		_, _ = file.ReadAt(data, from)
		list = append(list, extent{uint64(from), data})
	}
}

// extent is a part of a BAR.
type extent struct {
	offset uint64
	data   []byte
}

// memoryCopy is a copy of host memory, made when it was unmapped or at the end.
type memoryCopy struct {
	address  uintptr
	physical uint64
	data     []byte
}

// keepCopy copies at most 64 KiB of host memory.
func (m *machine) keepCopy(h fakekernel.Mapping) {
	data := slices.Clone(memoryAt(h.Address, min(h.Size, 1<<16)))
	m.released = append(m.released, memoryCopy{h.Address, m.physical[h.Address], data})
}

// hostMemoryAt returns the host memory that a function accesses at a bus address, or nil if there
// is none. On the tiles of a board, the PCIe controller translates the address (Synopsys DesignWare
// PCIe, iATU; tt-kmd wormhole.c and blackhole.c).
func (m *machine) hostMemoryAt(f *pciFunction, bus uint64) []byte {
	if f.Vendor == 0x1e52 && m.backend != "tt" {
		from, noc := uint64(0x1200), uint64(0x8_0000_0000)
		if f.Device == 0xb140 {
			from, noc = 0x1000, 4<<58
		}
		for region := range uint64(16) {
			r := m.readBAR(f, 2, from+region*0x200, 0x24)
			base, limit := binary.LittleEndian.Uint64(r[8:]),
				uint64(binary.LittleEndian.Uint32(r[16:]))|
					uint64(binary.LittleEndian.Uint32(r[32:]))<<32
			if binary.LittleEndian.Uint32(r[4:]) != 0 {
				m.w.errorf("translation region %d of function %d is enabled at the end", region,
					f.Index)
			}
			if offset := bus - noc; offset >= base && offset <= limit && limit > 0 {
				bus = binary.LittleEndian.Uint64(r[20:]) + offset - base
				break
			}
		}
	}
	for _, l := range m.released {
		if m.backend == "pci" && bus >= l.physical && bus < l.physical+uint64(len(l.data)) {
			return l.data[bus-l.physical:]
		}
		for _, r := range m.VFIO.AllDMA {
			if at := bus - r.IOVA + r.Address; m.backend != "pci" && bus >= r.IOVA &&
				bus < r.IOVA+r.Size && at >= uint64(l.address) &&
				at < uint64(l.address)+uint64(len(l.data)) {
				return l.data[at-uint64(l.address):]
			}
		}
	}
	return nil
}

// readBAR reads from a BAR, even if the runner has not mapped it.
func (m *machine) readBAR(f *pciFunction, bar int, offset uint64, size int) []byte {
	data := make([]byte, size)
	if file, err := os.Open(f.BarFile(bar)); err == nil {
		_, _ = file.ReadAt(data, int64(offset))
		file.Close()
	}
	return data
}
