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

// machine is what stands behind the system calls by which the lanes of package hal
// reach devices: PCI functions as sysfs has them, VFIO with an IOMMU, Tenstorrent's
// driver. BARs are files, and mapped as such.
type machine struct {
	w         *world
	lane      string
	functions []*pciFunction
	files     map[int]string // open, as the runner named them
	errors    map[string]unix.Errno
	requests  map[uintptr]unix.Errno // of ioctl
	mapped    []mapping
	pages     uint64      // the bus address of the next host memory
	next      uint64      // and the tiles'
	container int         // groups in VFIO's, -1: it has no IOMMU yet
	dma       []vfioRange // that the IOMMU maps
	history   []vfioRange
	left      []remains
	calls     []string // what matters of their order
	filter    []unix.SockFilter
	shielded  bool // no new privileges
	feeds     feeding
}

// pciFunction is a device of the image, with its configuration space.
type pciFunction struct {
	index   int
	address string // 0001:01:1f.5
	vendor  uint16
	device  uint16
	bars    [6]uint64
	config  [4096]byte
	health
	stuckOn   uint16 // bits of the command register that cannot be cleared
	stuckOff  uint16
	wasMaster bool // since it was opened

	slots   map[uint32]bool // of tt's driver
	aims    map[int]ttAim
	cleanup *ttClean
	powers  []uint16 // that were asked for
	locked  bool
}

// mapping is memory that the runner mapped: of a BAR, or host memory, bar -1.
type mapping struct {
	address, size uintptr
	function, bar int
	offset, bus   uint64
}

const (
	commandMemory = 1 << 1
	commandMaster = 1 << 2
	statusDMA     = 1<<8 | 1<<12 | 1<<13 | 1<<15
)

func (f *pciFunction) command() uint16 { return binary.LittleEndian.Uint16(f.config[4:]) }

// path gives the file of this world's that a path means.
func (m *machine) path(path string) (string, unix.Errno) {
	if errno := m.errors[path]; errno != 0 {
		m.w.say("open %s fails: %v", path, errno)
		return path, errno
	}
	if strings.HasPrefix(path, m.w.dir) {
		return path, 0
	}
	for _, prefix := range []string{"/sys/", "/dev/", "/proc/self/pagemap", "/proc/self/fd/"} {
		if strings.HasPrefix(path, prefix) {
			return m.w.file("machine" + path), 0
		}
	}
	return path, 0
}

func (m *machine) write(path, text string) {
	path = m.w.file("machine" + path)
	_ = os.MkdirAll(filepath.Dir(path), 0o700)
	_ = os.WriteFile(path, []byte(text), 0o600)
}

func (m *machine) link(path, to string) {
	path = m.w.file("machine" + path)
	_ = os.MkdirAll(filepath.Dir(path), 0o700)
	_ = os.Symlink(to, path)
}

const sysfsFolder = "/sys/bus/pci/devices/"

func (f *pciFunction) folder() string { return sysfsFolder + f.address }

// add gives the machine a function.
func (m *machine) add(vendor, device uint16, bars [6]uint64) *pciFunction {
	f := &pciFunction{index: len(m.functions), vendor: vendor, device: device, bars: bars,
		slots: map[uint32]bool{}, aims: map[int]ttAim{}}
	f.address = fmt.Sprintf("0001:%02x:1f.5", f.index+1)
	m.functions = append(m.functions, f)
	binary.LittleEndian.PutUint16(f.config[0:], vendor)
	binary.LittleEndian.PutUint16(f.config[2:], device)
	f.config[4] = map[string]byte{"pci": commandMemory, "tt": commandMemory | commandMaster}[m.lane]
	resource := ""
	for i := range 13 {
		if i >= 6 || bars[i] == 0 {
			resource += "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
			continue
		}
		binary.LittleEndian.PutUint64(f.config[0x10+4*i:], f.busOf(i)|0xc)
		start := uint64(i+1) << 44
		resource += fmt.Sprintf("0x%016x 0x%016x 0x%016x\n", start, start+bars[i]-1, 0x14220c)
		m.write(fmt.Sprintf("%s/resource%d", f.folder(), i), "")
		_ = os.Truncate(m.bar(f, i), int64(bars[i]))
		m.link(fmt.Sprintf("%s/resource%d_wc", f.folder(), i), fmt.Sprintf("resource%d", i))
	}
	for name, text := range map[string]string{"modalias": modalias(vendor, device, 0x5678),
		"resource": resource, "enable": "0\n", "config": string(f.config[:]), "reset": ""} {
		m.write(f.folder()+"/"+name, text)
	}
	group := fmt.Sprint(7 + f.index/2) // two in one
	switch m.lane {
	case "vfio":
		m.link(f.folder()+"/driver", "../../drivers/vfio-pci")
		m.link(f.folder()+"/iommu_group", "../../groups/"+group)
		m.write("/dev/vfio/"+group, "")
		m.write("/dev/vfio/vfio", "")
	case "tt":
		m.link(f.folder()+"/driver", "../../drivers/tenstorrent")
		m.write(f.node(), "")
	}
	return f
}

// modalias is what sysfs tells of a function's ids (drivers/pci/pci-sysfs.c of Linux).
func modalias(vendor, device, subdevice uint16) string {
	return fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08Xbc12sc00i00\n", vendor, device, 0x1234, subdevice)
}

func (f *pciFunction) node() string { return fmt.Sprintf("/dev/tenstorrent/%d", f.index) }

// busOf is where other devices reach a BAR, which a bridge keeps apart from where
// the processor does.
func (f *pciFunction) busOf(bar int) uint64 { return uint64(f.index+1)<<48 | uint64(bar+1)<<40 }

func (m *machine) bar(f *pciFunction, bar int) string {
	return m.w.file(fmt.Sprintf("machine%s/resource%d", f.folder(), bar))
}

// of is the function that an open file is of, and what of it.
func (m *machine) of(fd int) (f *pciFunction, what string) {
	path := m.files[fd]
	for _, f := range m.functions {
		switch {
		case strings.HasPrefix(path, f.folder()+"/"):
			return f, strings.TrimSuffix(path[len(f.folder())+1:], "_wc")
		case path == f.node() || path == "vfio:"+f.address:
			return f, "node"
		}
	}
	return nil, path
}

// state is what the functions are to say of themselves.
func (m *machine) state() hal.Code {
	for _, f := range m.functions {
		if code := f.state(); code != hal.OK {
			return code
		}
	}
	return hal.OK
}

// call answers a system call that is about devices; answered is false where it is
// not.
func (m *machine) call(number uintptr, a [6]uintptr) (n uintptr, errno unix.Errno, answered bool) {
	fd := int(a[0])
	f, what := m.of(fd)
	at := unsafe.Pointer(a[1])
	switch {
	case number == unix.SYS_IOCTL:
		n, errno = m.ioctl(fd, f, what, a[1], unsafe.Pointer(a[2]))
		return n, errno, true
	case number == unix.SYS_PREAD64 && what == "/proc/self/pagemap":
		*(*uint64)(at) = m.frame(uintptr(a[3])/8*4096) | 1<<63
		return 8, 0, true
	case f != nil && (what == "config" || what == "node") && number == unix.SYS_PREAD64:
		data, offset := bytesOf(a[1], a[2]), int(a[3]&0xfff)
		n = uintptr(copy(data, f.config[offset:]))
		if f.gone {
			for i := range data {
				data[i] = 0xff
			}
		}
		return n, 0, true
	case f != nil && (what == "config" || what == "node") && number == unix.SYS_PWRITE64:
		m.configure(f, int(a[3]&0xfff), bytesOf(a[1], a[2]))
		return a[2], 0, true
	case number == unix.SYS_PWRITE64:
		m.calls = append(m.calls, filepath.Base(what))
		if f != nil && what == "enable" {
			m.configure(f, 4, []byte{byte(f.command()) | commandMemory, 0})
		}
	case number == unix.SYS_CLOSE:
		delete(m.files, fd)
	}
	return 0, 0, false
}

// configure is a store to configuration space.
func (m *machine) configure(f *pciFunction, at int, data []byte) {
	if f.gone {
		return
	}
	if len(data) != 2 || at != 4 && at != 6 {
		m.w.violate("%d bytes are stored to configuration space at %#x", len(data), at)
		return
	}
	value := binary.LittleEndian.Uint16(data)
	was := binary.LittleEndian.Uint16(f.config[at:])
	if at == 6 {
		if value&^statusDMA != 0 {
			m.w.violate("%#x is stored to the status register", value)
		}
		binary.LittleEndian.PutUint16(f.config[at:], was&^value)
		return
	}
	value = (value | was&f.stuckOn) &^ (f.stuckOff &^ was)
	if (was^value)&^(commandMemory|commandMaster) != 0 {
		m.w.violate("the command register becomes %#x, it was %#x", value, was)
	}
	binary.LittleEndian.PutUint16(f.config[at:], value)
	f.wasMaster = f.wasMaster || value&commandMaster != 0
	m.w.say("function %d: command %#x", f.index, value)
}

// frame is where a page of host memory lies on a bus without an IOMMU.
func (m *machine) frame(page uintptr) uint64 {
	for _, h := range m.mapped {
		if h.bar < 0 && page >= h.address && page < h.address+h.size {
			return (h.bus + uint64(page-h.address)) / 4096
		}
	}
	return 0
}

// mmap maps what a file of a device stands for; answered is false for others.
func (m *machine) mmap(a [6]uintptr) (n uintptr, errno unix.Errno, answered bool) {
	const huge = unix.MAP_HUGETLB
	size, flags, fd, offset := a[1], int(a[3]), int(a[4]), uint64(a[5])
	if fd < 0 || int32(fd) < 0 {
		if flags&unix.MAP_LOCKED == 0 {
			return 0, 0, false
		}
		if flags&huge != 0 && m.requests[huge] != 0 {
			return ^uintptr(0), m.requests[huge], true
		}
		n, _, errno = unix.Syscall6(unix.SYS_MMAP, 0, size, a[2],
			uintptr(flags&^(huge|63<<26|unix.MAP_LOCKED|unix.MAP_POPULATE)), ^uintptr(0), 0)
		if errno == 0 {
			m.pages += 1 << 30
			m.mapped = append(m.mapped, mapping{n, size, -1, -1, 0, m.pages})
		}
		return n, errno, true
	}
	f, what := m.of(fd)
	if f == nil {
		return 0, 0, false
	}
	bar := -1
	if _, err := fmt.Sscanf(what, "resource%d", &bar); err != nil {
		bar, offset = m.region(f, offset)
	}
	if bar < 0 || f.bars[bar] == 0 || offset+uint64(size) > f.bars[bar] &&
		offset+uint64(size) > (f.bars[bar]+4095)&^4095 {
		m.w.violate("%#x bytes at %#x of BAR %d of function %d are mapped", size, offset, bar,
			f.index)
		return ^uintptr(0), unix.EINVAL, true
	}
	file, err := os.OpenFile(m.bar(f, bar), os.O_RDWR, 0)
	if err != nil {
		return ^uintptr(0), unix.ENOENT, true
	}
	defer file.Close()
	n, _, errno = unix.Syscall6(unix.SYS_MMAP, 0, size, a[2], unix.MAP_SHARED, file.Fd(),
		uintptr(offset))
	if errno == 0 {
		m.mapped = append(m.mapped, mapping{n, size, f.index, bar, offset, 0})
		m.w.say("function %d: %#x bytes at %#x of BAR %d are mapped", f.index, size, offset, bar)
	}
	return n, errno, true
}

// region is the BAR and the place in it that an offset in a driver's file means.
func (m *machine) region(f *pciFunction, offset uint64) (bar int, inside uint64) {
	if m.lane == "vfio" {
		return int(offset>>40) - 1, offset & (1<<40 - 1)
	}
	return ttRegion(offset)
}

// unmap is told before memory is given back.
func (m *machine) unmap(address uintptr) {
	at := slices.IndexFunc(m.mapped, func(h mapping) bool { return h.address == address })
	if at < 0 {
		return
	}
	if h := m.mapped[at]; h.bar < 0 {
		for _, f := range m.functions {
			if f.command()&commandMaster != 0 && !f.gone && m.lane != "tt" && f.stuckOn == 0 {
				m.w.violate("host memory is given back, and function %d masters the bus", f.index)
			}
		}
		m.left = append(m.left, remainsOf(h))
	}
	m.mapped = slices.Delete(m.mapped, at, at+1)
}

// extents gives what has been stored to a BAR: parts of it that are not holes.
func (m *machine) extents(f *pciFunction, bar int) (list []extent) {
	file, err := os.Open(m.bar(f, bar))
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

type extent struct {
	offset uint64
	data   []byte
}

// remains is what was in host memory when it was given back, or at the end.
type remains struct {
	mapping
	data []byte
}

func remainsOf(h mapping) remains {
	return remains{h, slices.Clone(bytesOf(h.address, min(h.size, 1<<16)))}
}

// reached is the host memory that a function reaches at an address, nil where it
// reaches none: for tiles through the translation of their PCIe controller (Synopsys
// DesignWare PCIe, iATU; tt-kmd wormhole.c and blackhole.c).
func (m *machine) reached(f *pciFunction, bus uint64) []byte {
	if f.vendor == 0x1e52 && m.lane != "tt" {
		from, noc := uint64(0x1200), uint64(0x8_0000_0000)
		if f.device == 0xb140 {
			from, noc = 0x1000, 4<<58
		}
		for region := range uint64(16) {
			r := m.bytesAt(f, 2, from+region*0x200, 0x24)
			base, limit := binary.LittleEndian.Uint64(r[8:]),
				uint64(binary.LittleEndian.Uint32(r[16:]))|
					uint64(binary.LittleEndian.Uint32(r[32:]))<<32
			if binary.LittleEndian.Uint32(r[4:]) != 0 {
				m.w.violate("region %d of function %d translates at the end", region, f.index)
			}
			if offset := bus - noc; offset >= base && offset <= limit && limit > 0 {
				bus = binary.LittleEndian.Uint64(r[20:]) + offset - base
				break
			}
		}
	}
	for _, l := range m.left {
		if m.lane == "pci" && bus >= l.bus && bus < l.bus+uint64(len(l.data)) {
			return l.data[bus-l.bus:]
		}
		for _, r := range m.history {
			if at := bus - r.iova + r.address; m.lane != "pci" && bus >= r.iova &&
				bus < r.iova+r.size && at >= uint64(l.address) &&
				at < uint64(l.address)+uint64(len(l.data)) {
				return l.data[at-uint64(l.address):]
			}
		}
	}
	return nil
}
