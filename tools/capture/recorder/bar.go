//go:build linux && (amd64 || arm64)

package recorder

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// device is a device of which the program mapped a BAR.
type device struct {
	number     int // in the record
	vendor, id uint16
	name       string // DDDD:BB:DD.F, or "file" if files represent the device
}

type bar struct {
	number     int // in the record
	device     *device
	index      int
	base, size uint64
}

// File is a file that represents a BAR or host memory.
type File struct {
	Path           string // path as in /proc/PID/fd; memfd:NAME for a memfd
	Bar            int
	Vendor, Device uint16
	Offset, Size   uint64 // place of the file in the BAR, and size of the BAR; 0: of the file

	Memory bool   // the file represents host memory that a device reaches, not a BAR
	Bus    uint64 // bus address of the first byte of host memory
}

// matches reports whether a path in /proc is the path of the file.
func (f *File) matches(path string) bool {
	path = strings.TrimSuffix(path, " (deleted)")
	return path == f.Path || path == "/"+f.Path
}

// mapTarget is what a program maps: a part of a BAR. If bar is nil, it is host memory that a file
// represents.
type mapTarget struct {
	bar    *bar
	offset uint64
}

var resourceName = regexp.MustCompile(`^resource([0-5])(_wc)?$`)

const (
	sysDevices = "/sys/bus/pci/devices"
	vfioFile   = "anon_inode:[vfio-device]"
	// VFIO_PCI_OFFSET_SHIFT: a file offset is the index of a region << 40, plus the offset in the
	// region
	vfioShift = 40
	uioPage   = 12 // the index of a map of UIO is the file offset in pages
)

// identifyMapping returns what a program maps from a file descriptor at an offset, as the name of
// the file in /proc shows. It returns nil if the file does not belong to a device that is recorded.
func (r *recording) identifyMapping(t *thread, fd int, offset, length uint64) (*mapTarget, error) {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.tid, fd))
	if err != nil {
		return nil, nil // the system call will fail
	}
	folder, name := filepath.Split(path)
	switch resource := resourceName.FindStringSubmatch(name); {
	case strings.HasPrefix(path, "/sys/") && resource != nil:
		index, _ := strconv.Atoi(resource[1])
		return r.pciTarget(folder, index, offset)
	case path == vfioFile:
		return r.vfioTarget(t, fd, offset)
	case strings.HasPrefix(path, "/dev/vfio/devices/"):
		return r.vfioRegionTarget(filepath.Join("/sys/class/vfio-dev", name, "device"), offset)
	case strings.HasPrefix(path, "/dev/uio"):
		return r.uioTarget(name, offset)
	case strings.HasPrefix(path, "/dev/tenstorrent/"):
		return r.driverTarget(t, fd, offset, length)
	case path == "/dev/mem":
		return r.devMemTarget(offset)
	}
	for _, f := range r.options.Files {
		if same := f.matches(path); same && f.Memory {
			return &mapTarget{nil, f.Bus + offset}, nil
		} else if same {
			return r.fileTarget(t, fd, f, offset, length)
		}
	}
	if characterFile.MatchString(path) {
		return r.characterTarget(t, fd, path, offset)
	}
	return nil, nil
}

func (r *recording) vfioTarget(t *thread, fd int, offset uint64) (*mapTarget, error) {
	name := r.vfioDeviceName(t, fd)
	if name == "" {
		return nil, fmt.Errorf("the device of VFIO file descriptor %d of process %d is unknown",
			fd, t.process)
	}
	return r.vfioRegionTarget(filepath.Join(sysDevices, name), offset)
}

// vfioRegionTarget returns the BAR at an offset in a file of VFIO. The first six regions of the
// file are the BARs.
func (r *recording) vfioRegionTarget(folder string, offset uint64) (*mapTarget, error) {
	index := offset >> vfioShift
	if index > 5 {
		return nil, nil
	}
	return r.pciTarget(folder, int(index), offset&(1<<vfioShift-1))
}

func (r *recording) uioTarget(name string, offset uint64) (*mapTarget, error) {
	folder := filepath.Join("/sys/class/uio", name)
	base, err := readNumberFile(filepath.Join(folder, "maps", fmt.Sprintf("map%d", offset>>uioPage),
		"addr"))
	if err != nil {
		return nil, err
	}
	return r.barContaining(filepath.Join(folder, "device"), base)
}

// devMemTarget returns the BAR at a physical address in /dev/mem, or nil if no BAR has this
// address.
func (r *recording) devMemTarget(address uint64) (*mapTarget, error) {
	folders, _ := filepath.Glob(sysDevices + "/*")
	for _, folder := range folders {
		if m, err := r.barContaining(folder, address); m != nil || err != nil {
			return m, err
		}
	}
	return nil, nil
}

// barContaining returns the BAR of a device that contains a physical address, or nil.
func (r *recording) barContaining(folder string, address uint64) (*mapTarget, error) {
	bars, err := barRanges(folder)
	if err != nil {
		return nil, err
	}
	for index, b := range bars {
		if address-b.base < b.size {
			return r.pciTarget(folder, index, address-b.base)
		}
	}
	return nil, nil
}

// barRanges returns the physical addresses and sizes of the BARs of a device, given its directory
// in /sys.
func barRanges(folder string) (bars [6]struct{ base, size uint64 }, err error) {
	text, err := os.ReadFile(filepath.Join(folder, "resource"))
	if err != nil {
		return bars, err
	}
	for index, line := range strings.SplitN(string(text), "\n", 7) {
		var first, last, flags uint64
		if n, _ := fmt.Sscanf(line, "0x%x 0x%x 0x%x", &first, &last, &flags); n == 3 && index < 6 &&
			last > first {
			bars[index].base, bars[index].size = first, last-first+1
		}
	}
	return bars, nil
}

// pciTarget returns an offset in a BAR of the PCI device with a directory in /sys.
func (r *recording) pciTarget(folder string, index int, offset uint64) (*mapTarget, error) {
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, err
	}
	vendor, verr := readNumberFile(filepath.Join(folder, "vendor"))
	id, derr := readNumberFile(filepath.Join(folder, "device"))
	bars, rerr := barRanges(folder)
	if verr != nil || derr != nil || rerr != nil {
		return nil, fmt.Errorf("%s is not a PCI device", folder)
	}
	d := r.findOrAddDevice(filepath.Base(folder), uint16(vendor), uint16(id))
	if d == nil {
		return nil, nil
	}
	return &mapTarget{r.findOrAddBAR(d, index, bars[index].base, bars[index].size), offset}, nil
}

// fileTarget returns an offset in the BAR that a file represents.
func (r *recording) fileTarget(t *thread, fd int, f File, offset, length uint64) (
	*mapTarget, error) {
	var info unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", t.tid, fd), &info); err != nil {
		return nil, err
	}
	isCharacter := info.Mode&unix.S_IFMT == unix.S_IFCHR
	if isCharacter {
		r.reportDriver(f.Path)
	}
	size := f.Size
	if size == 0 {
		size = f.Offset + max(uint64(info.Size), offset+length)
	}
	offset += f.Offset
	d := r.findOrAddDevice("file", f.Vendor, f.Device)
	b := r.findOrAddBAR(d, f.Bar, 0, size)
	switch {
	case offset+length <= b.size:
		return &mapTarget{b, offset}, nil
	case isCharacter || f.Size != 0:
		return nil, fmt.Errorf("%s is mapped up to 0x%x, but BAR %d has 0x%x bytes; use --file "+
			"%[1]s=BAR:SIZE with the size of the BAR", f.Path, offset+length, f.Bar, b.size)
	}
	return nil, fmt.Errorf("file %s has grown since the program first mapped the file", f.Path)
}

// findOrAddDevice returns the device with a name and ids, and writes a DEVICE line if the device is
// new. It returns nil if the options exclude the device.
func (r *recording) findOrAddDevice(name string, vendor, id uint16) *device {
	for _, d := range r.devices {
		if d.name == name && d.vendor == vendor && d.id == id {
			return d
		}
	}
	if name != "file" && !r.options.selects(name, vendor, id) {
		return nil
	}
	d := &device{len(r.devices), vendor, id, name}
	r.devices = append(r.devices, d)
	r.out.Device(d.number, vendor, id, name)
	if before := r.unmappedDevices[name]; before != nil {
		for line := range strings.Lines(before.text.String()) {
			r.out.Line("%s",
				strings.TrimSpace(strings.Replace(line, "#", fmt.Sprintf("%x", d.number), 1)))
		}
		if delete(r.unmappedDevices, name); before.droppedAccesses > 0 {
			r.reportGap(
				"%d accesses to configuration space of device %s before the program mapped "+
					"a BAR are not recorded: lm keeps only 1 MiB of such accesses",
				before.droppedAccesses, name)
		}
	}
	return d
}

func (r *recording) findOrAddBAR(d *device, index int, base, size uint64) *bar {
	for _, b := range r.bars {
		if b.device == d && b.index == index {
			return b
		}
	}
	b := &bar{len(r.bars), d, index, base, size}
	r.bars = append(r.bars, b)
	r.out.Bar(b.number, d.number, index, base, size)
	return b
}

// selects reports whether a device is recorded: one that the options list, or any device if they
// list none.
func (o *Options) selects(name string, vendor, id uint16) bool {
	return len(o.Devices) == 0 || slices.Contains(o.Devices, name) ||
		slices.Contains(o.Devices, fmt.Sprintf("%04x:%04x", vendor, id))
}

// readNumberFile reads a file in /sys that contains one number.
func readNumberFile(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 0, 64)
}
