//go:build world

package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"lightmetal/hal"

	"golang.org/x/sys/unix"
)

// machine simulates the system calls by which the backends of package hal access devices: PCI
// functions in sysfs, VFIO with an IOMMU, and tt-kmd. BARs are files, which the runner maps.
type machine struct {
	w              *world
	backend        string
	functions      []*pciFunction
	openFiles      map[int]string         // open file descriptors: the path that the runner opened
	openErrors     map[string]unix.Errno  // errors of opening paths
	ioctlErrors    map[uintptr]unix.Errno // errors of ioctls, by request
	mappings       []mapping
	lastBusAddress uint64 // last bus address of host memory that was assigned
	// The last offset in the NoC's range of host memory that tt-kmd assigned.
	lastNoCOffset   uint64
	containerGroups int          // number of groups in the container of VFIO
	dmaRanges       []vfioRange  // mapped by the IOMMU
	allDMARanges    []vfioRange  // mapped at any time
	released        []memoryCopy // host memory that the runner has unmapped
	seccompFilter   []unix.SockFilter
	noNewPrivileges bool // PR_SET_NO_NEW_PRIVS was called
	watchdog        watchdogModel
}

// pciFunction is a device of the image with its configuration space.
type pciFunction struct {
	index   int
	address string // such as 0001:01:1f.5
	vendor  uint16
	device  uint16
	bars    [6]uint64
	config  [4096]byte
	health
	stuckOn   uint16 // bits of the command register that cannot be cleared
	stuckOff  uint16 // bits that cannot be set
	wasMaster bool   // was bus master at any time

	allocatedWindows map[uint32]bool        // allocated from tt-kmd
	windowConfigs    map[int]ttWindowConfig // by TLB window
	cleanup          *ttCleanup
	powerRequests    []uint16 // power states that the runner requested from tt-kmd
	locked           bool     // another process has locked the device
}

// mapping is memory that the runner has mapped: a range of a BAR, or host memory, with bar -1.
type mapping struct {
	address, size      uintptr
	function, bar      int
	offset, busAddress uint64
}

const (
	commandMemory = 1 << 1
	commandMaster = 1 << 2
	statusErrors  = 1<<8 | 1<<12 | 1<<13 | 1<<15
)

func (f *pciFunction) commandRegister() uint16 { return binary.LittleEndian.Uint16(f.config[4:]) }

// resolvePath returns the path of the file in this world for a path that the runner opens.
func (m *machine) resolvePath(path string) (string, unix.Errno) {
	if errno := m.openErrors[path]; errno != 0 {
		m.w.logf("open %s fails: %v", path, errno)
		return path, errno
	}
	if strings.HasPrefix(path, m.w.dir) {
		return path, 0
	}
	for _, prefix := range []string{"/sys/", "/dev/", "/proc/self/pagemap", "/proc/self/fd/"} {
		if strings.HasPrefix(path, prefix) {
			return m.w.path("machine" + path), 0
		}
	}
	return path, 0
}

func (m *machine) writeFile(path, text string) {
	path = m.w.path("machine" + path)
	_ = os.MkdirAll(filepath.Dir(path), 0o700)
	_ = os.WriteFile(path, []byte(text), 0o600)
}

func (m *machine) writeLink(path, target string) {
	path = m.w.path("machine" + path)
	_ = os.MkdirAll(filepath.Dir(path), 0o700)
	_ = os.Symlink(target, path)
}

const devicesFolder = "/sys/bus/pci/devices/"

func (f *pciFunction) sysfsFolder() string { return devicesFolder + f.address }

// addFunction adds a PCI function to the machine.
func (m *machine) addFunction(vendor, device uint16, bars [6]uint64) *pciFunction {
	f := &pciFunction{index: len(m.functions), vendor: vendor, device: device, bars: bars,
		allocatedWindows: map[uint32]bool{}, windowConfigs: map[int]ttWindowConfig{}}
	f.address = fmt.Sprintf("0001:%02x:1f.5", f.index+1)
	m.functions = append(m.functions, f)
	binary.LittleEndian.PutUint16(f.config[0:], vendor)
	binary.LittleEndian.PutUint16(f.config[2:], device)
	f.config[4] = map[string]byte{"pci": commandMemory,
		"tt": commandMemory | commandMaster}[m.backend]
	resource := ""
	for i := range 13 {
		if i >= 6 || bars[i] == 0 {
			resource += "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
			continue
		}
		binary.LittleEndian.PutUint64(f.config[0x10+4*i:], f.barBusAddress(i)|0xc)
		start := uint64(i+1) << 44
		resource += fmt.Sprintf("0x%016x 0x%016x 0x%016x\n", start, start+bars[i]-1, 0x14220c)
		m.writeFile(fmt.Sprintf("%s/resource%d", f.sysfsFolder(), i), "")
		_ = os.Truncate(m.barFile(f, i), int64(bars[i]))
		m.writeLink(fmt.Sprintf("%s/resource%d_wc", f.sysfsFolder(), i),
			fmt.Sprintf("resource%d", i))
	}
	for name, text := range map[string]string{"modalias": modalias(vendor, device, 0x5678),
		"resource": resource, "enable": "0\n", "config": string(f.config[:]), "reset": ""} {
		m.writeFile(f.sysfsFolder()+"/"+name, text)
	}
	group := fmt.Sprint(7 + f.index/2) // two functions in each group
	switch m.backend {
	case "vfio":
		m.writeLink(f.sysfsFolder()+"/driver", "../../drivers/vfio-pci")
		m.writeLink(f.sysfsFolder()+"/iommu_group", "../../groups/"+group)
		m.writeFile("/dev/vfio/"+group, "")
		m.writeFile("/dev/vfio/vfio", "")
	case "tt":
		m.writeLink(f.sysfsFolder()+"/driver", "../../drivers/tenstorrent")
		m.writeFile(f.devicePath(), "")
	}
	return f
}

// modalias returns the content of a function's file modalias in sysfs (drivers/pci/pci-sysfs.c of
// Linux).
func modalias(vendor, device, subdevice uint16) string {
	return fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08Xbc12sc00i00\n", vendor, device, 0x1234, subdevice)
}

func (f *pciFunction) devicePath() string { return fmt.Sprintf("/dev/tenstorrent/%d", f.index) }

// barBusAddress returns the address of a BAR on the bus. It differs from the address of the
// processor, as on machines whose host bridge translates addresses.
func (f *pciFunction) barBusAddress(bar int) uint64 {
	return uint64(f.index+1)<<48 | uint64(bar+1)<<40
}

func (m *machine) barFile(f *pciFunction, bar int) string {
	return m.w.path(fmt.Sprintf("machine%s/resource%d", f.sysfsFolder(), bar))
}

// functionOf returns the function to which an open file belongs, and the file's name.
func (m *machine) functionOf(fd int) (f *pciFunction, name string) {
	path := m.openFiles[fd]
	for _, f := range m.functions {
		switch {
		case strings.HasPrefix(path, f.sysfsFolder()+"/"):
			return f, strings.TrimSuffix(path[len(f.sysfsFolder())+1:], "_wc")
		case path == f.devicePath() || path == "vfio:"+f.address:
			return f, "node"
		}
	}
	return nil, path
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

// handleCall simulates a system call on devices. `handled` is false for other system calls.
func (m *machine) handleCall(number uintptr, a [6]uintptr) (n uintptr, errno unix.Errno,
	handled bool) {
	fd := int(a[0])
	f, name := m.functionOf(fd)
	buffer := unsafe.Pointer(a[1])
	switch {
	case number == unix.SYS_IOCTL:
		n, errno = m.handleIoctl(fd, f, name, a[1], unsafe.Pointer(a[2]))
		return n, errno, true
	case number == unix.SYS_PREAD64 && name == "/proc/self/pagemap":
		*(*uint64)(buffer) = m.pageFrame(uintptr(a[3])/8*4096) | 1<<63
		return 8, 0, true
	case f != nil && (name == "config" || name == "node") && number == unix.SYS_PREAD64:
		data, offset := memoryAt(a[1], a[2]), int(a[3]&0xfff)
		n = uintptr(copy(data, f.config[offset:]))
		if f.gone {
			for i := range data {
				data[i] = 0xff
			}
		}
		return n, 0, true
	case f != nil && (name == "config" || name == "node") && number == unix.SYS_PWRITE64:
		m.storeConfig(f, int(a[3]&0xfff), memoryAt(a[1], a[2]))
		return a[2], 0, true
	case number == unix.SYS_PWRITE64:
		if f != nil && name == "enable" {
			m.storeConfig(f, 4, []byte{byte(f.commandRegister()) | commandMemory, 0})
		}
	case number == unix.SYS_CLOSE:
		delete(m.openFiles, fd)
	}
	return 0, 0, false
}

// storeConfig stores to configuration space.
func (m *machine) storeConfig(f *pciFunction, offset int, data []byte) {
	if f.gone {
		return
	}
	if len(data) != 2 || offset != 4 && offset != 6 {
		m.w.errorf("store of %d bytes to configuration space at %#x", len(data), offset)
		return
	}
	value := binary.LittleEndian.Uint16(data)
	old := binary.LittleEndian.Uint16(f.config[offset:])
	if offset == 6 {
		if value&^statusErrors != 0 {
			m.w.errorf("store of %#x to the status register", value)
		}
		binary.LittleEndian.PutUint16(f.config[offset:], old&^value)
		return
	}
	value = (value | old&f.stuckOn) &^ (f.stuckOff &^ old)
	if (old^value)&^(commandMemory|commandMaster) != 0 {
		m.w.errorf("store of %#x to the command register, which was %#x", value, old)
	}
	binary.LittleEndian.PutUint16(f.config[offset:], value)
	f.wasMaster = f.wasMaster || value&commandMaster != 0
	m.w.logf("function %d: command register %#x", f.index, value)
}

// pageFrame returns the page frame number of a page of host memory on a bus without an IOMMU.
func (m *machine) pageFrame(page uintptr) uint64 {
	for _, h := range m.mappings {
		if h.bar < 0 && page >= h.address && page < h.address+h.size {
			return (h.busAddress + uint64(page-h.address)) / 4096
		}
	}
	return 0
}

// mmap maps a BAR or host memory. `handled` is false for other mappings.
func (m *machine) mmap(a [6]uintptr) (n uintptr, errno unix.Errno, handled bool) {
	const huge = unix.MAP_HUGETLB
	size, flags, fd, offset := a[1], int(a[3]), int(a[4]), uint64(a[5])
	if fd < 0 || int32(fd) < 0 {
		if flags&unix.MAP_LOCKED == 0 {
			return 0, 0, false
		}
		if flags&huge != 0 && m.ioctlErrors[huge] != 0 {
			return ^uintptr(0), m.ioctlErrors[huge], true
		}
		n, _, errno = unix.Syscall6(unix.SYS_MMAP, 0, size, a[2],
			uintptr(flags&^(huge|63<<26|unix.MAP_LOCKED|unix.MAP_POPULATE)), ^uintptr(0), 0)
		if errno == 0 {
			m.lastBusAddress += 1 << 30
			m.mappings = append(m.mappings, mapping{n, size, -1, -1, 0, m.lastBusAddress})
		}
		return n, errno, true
	}
	f, name := m.functionOf(fd)
	if f == nil {
		return 0, 0, false
	}
	bar := -1
	if _, err := fmt.Sscanf(name, "resource%d", &bar); err != nil {
		bar, offset = m.locateRegion(f, offset)
	}
	if bar < 0 || f.bars[bar] == 0 || offset+uint64(size) > f.bars[bar] &&
		offset+uint64(size) > (f.bars[bar]+4095)&^4095 {
		m.w.errorf("invalid mapping of %#x bytes at %#x of BAR %d of function %d", size, offset,
			bar, f.index)
		return ^uintptr(0), unix.EINVAL, true
	}
	file, err := os.OpenFile(m.barFile(f, bar), os.O_RDWR, 0)
	if err != nil {
		return ^uintptr(0), unix.ENOENT, true
	}
	defer file.Close()
	n, _, errno = unix.Syscall6(unix.SYS_MMAP, 0, size, a[2], unix.MAP_SHARED, file.Fd(),
		uintptr(offset))
	if errno == 0 {
		m.mappings = append(m.mappings, mapping{n, size, f.index, bar, offset, 0})
		m.w.logf("function %d: %#x bytes at %#x of BAR %d are mapped", f.index, size, offset, bar)
	}
	return n, errno, true
}

// locateRegion returns the BAR, and the offset in it, for an offset in the device file of a driver.
func (m *machine) locateRegion(f *pciFunction, offset uint64) (bar int, barOffset uint64) {
	if m.backend == "vfio" {
		return int(offset>>40) - 1, offset & (1<<40 - 1)
	}
	return splitTTOffset(offset)
}

// releaseMapping is called before the runner unmaps memory. It keeps a copy of host memory.
func (m *machine) releaseMapping(address uintptr) {
	index := slices.IndexFunc(m.mappings, func(h mapping) bool { return h.address == address })
	if index < 0 {
		return
	}
	if h := m.mappings[index]; h.bar < 0 {
		for _, f := range m.functions {
			if f.commandRegister()&commandMaster != 0 && !f.gone && m.backend != "tt" &&
				f.stuckOn == 0 {
				m.w.errorf("host memory is unmapped while function %d is bus master", f.index)
			}
		}
		m.released = append(m.released, copyOf(h))
	}
	m.mappings = slices.Delete(m.mappings, index, index+1)
}

// storedExtents returns the parts of a BAR's file that are not holes, because they have been stored
// to.
func (m *machine) storedExtents(f *pciFunction, bar int) (list []extent) {
	file, err := os.Open(m.barFile(f, bar))
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
	mapping
	data []byte
}

// copyOf copies at most 64 KiB of a mapping.
func copyOf(h mapping) memoryCopy {
	return memoryCopy{h, slices.Clone(memoryAt(h.address, min(h.size, 1<<16)))}
}

// hostMemoryAt returns the host memory that a function accesses at a bus address, or nil if there
// is none. On the tiles of a board, the PCIe controller translates the address (Synopsys DesignWare
// PCIe, iATU; tt-kmd wormhole.c and blackhole.c).
func (m *machine) hostMemoryAt(f *pciFunction, bus uint64) []byte {
	if f.vendor == 0x1e52 && m.backend != "tt" {
		from, noc := uint64(0x1200), uint64(0x8_0000_0000)
		if f.device == 0xb140 {
			from, noc = 0x1000, 4<<58
		}
		for region := range uint64(16) {
			r := m.readBAR(f, 2, from+region*0x200, 0x24)
			base, limit := binary.LittleEndian.Uint64(r[8:]),
				uint64(binary.LittleEndian.Uint32(r[16:]))|
					uint64(binary.LittleEndian.Uint32(r[32:]))<<32
			if binary.LittleEndian.Uint32(r[4:]) != 0 {
				m.w.errorf("translation region %d of function %d is enabled at the end", region,
					f.index)
			}
			if offset := bus - noc; offset >= base && offset <= limit && limit > 0 {
				bus = binary.LittleEndian.Uint64(r[20:]) + offset - base
				break
			}
		}
	}
	for _, l := range m.released {
		if m.backend == "pci" && bus >= l.busAddress && bus < l.busAddress+uint64(len(l.data)) {
			return l.data[bus-l.busAddress:]
		}
		for _, r := range m.allDMARanges {
			if at := bus - r.iova + r.address; m.backend != "pci" && bus >= r.iova &&
				bus < r.iova+r.size && at >= uint64(l.address) &&
				at < uint64(l.address)+uint64(len(l.data)) {
				return l.data[at-uint64(l.address):]
			}
		}
	}
	return nil
}
