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

// device is one that a program mapped a BAR of.
type device struct {
	number     int // in the record
	vendor, id uint16
	name       string // DDDD:BB:DD.F, or the files that stand for it
}

// bar is a BAR of a device.
type bar struct {
	number     int // in the record
	device     *device
	index      int
	base, size uint64
}

// File is a file that represents a BAR.
type File struct {
	Path           string // as /proc/PID/fd has it; memfd:NAME for one without
	Bar            int
	Vendor, Device uint16

	Memory bool   // it is host memory that a device reaches instead
	Bus    uint64 // of its first byte, as the device has it
}

// is reports whether a path, as /proc has it, is the file's.
func (f *File) is(path string) bool {
	path = strings.TrimSuffix(path, " (deleted)")
	return path == f.Path || path == "/"+f.Path
}

// mapped is what a program asks to map: a place in a BAR, or, without one, host
// memory at a bus address that a file stands for.
type mapped struct {
	bar    *bar
	offset uint64
}

var resourceName = regexp.MustCompile(`^resource([0-5])(_wc)?$`)

const (
	sysDevices = "/sys/bus/pci/devices"
	vfioFile   = "anon_inode:[vfio-device]"
	vfioShift  = 40 // VFIO_PCI_OFFSET_SHIFT: which region, above where in it
	uioPage    = 12 // UIO counts its maps in pages of the offset
)

// identify returns what of a device a descriptor's file is, from an offset on, by the name
// that /proc has for the descriptor. nil: it is not of a device that is recorded.
func (r *recording) identify(t *thread, fd int, offset, length uint64) (*mapped, error) {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.tid, fd))
	if err != nil {
		return nil, nil // the call will fail
	}
	folder, name := filepath.Split(path)
	switch resource := resourceName.FindStringSubmatch(name); {
	case strings.HasPrefix(path, "/sys/") && resource != nil:
		index, _ := strconv.Atoi(resource[1])
		return r.pci(folder, index, offset)
	case path == vfioFile:
		return r.vfio(t, fd, offset)
	case strings.HasPrefix(path, "/dev/vfio/devices/"):
		return r.region(filepath.Join("/sys/class/vfio-dev", name, "device"), offset)
	case strings.HasPrefix(path, "/dev/uio"):
		return r.uio(name, offset)
	case strings.HasPrefix(path, "/dev/tenstorrent/"):
		return r.throughDriver(t, fd, offset, length)
	case path == "/dev/mem":
		return r.physical(offset)
	}
	for _, f := range r.options.Files {
		if same := f.is(path); same && f.Memory {
			return &mapped{nil, f.Bus + offset}, nil
		} else if same {
			return r.file(t, fd, f, offset, length)
		}
	}
	return nil, nil
}

func (r *recording) vfio(t *thread, fd int, offset uint64) (*mapped, error) {
	name := r.vfioName(t, fd)
	if name == "" {
		return nil, fmt.Errorf("the device of VFIO's descriptor %d of process %d is unknown",
			fd, t.process)
	}
	return r.region(filepath.Join(sysDevices, name), offset)
}

// region is one of VFIO's. The first six are the BARs.
func (r *recording) region(folder string, offset uint64) (*mapped, error) {
	index := offset >> vfioShift
	if index > 5 {
		return nil, nil
	}
	return r.pci(folder, int(index), offset&(1<<vfioShift-1))
}

func (r *recording) uio(name string, offset uint64) (*mapped, error) {
	folder := filepath.Join("/sys/class/uio", name)
	base, err := readNumber(filepath.Join(folder, "maps", fmt.Sprintf("map%d", offset>>uioPage),
		"addr"))
	if err != nil {
		return nil, err
	}
	return r.within(filepath.Join(folder, "device"), base)
}

// physical is an address in /dev/mem. What lies in no BAR is not a device.
func (r *recording) physical(address uint64) (*mapped, error) {
	folders, _ := filepath.Glob(sysDevices + "/*")
	for _, folder := range folders {
		if m, err := r.within(folder, address); m != nil || err != nil {
			return m, err
		}
	}
	return nil, nil
}

// within finds the BAR of a device that a physical address lies in.
func (r *recording) within(folder string, address uint64) (*mapped, error) {
	bars, err := resources(folder)
	if err != nil {
		return nil, err
	}
	for index, b := range bars {
		if address-b.base < b.size {
			return r.pci(folder, index, address-b.base)
		}
	}
	return nil, nil
}

// resources reads where the BARs of a device lie.
func resources(folder string) (bars [6]struct{ base, size uint64 }, err error) {
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

// pci returns the BAR of a device of a folder under /sys.
func (r *recording) pci(folder string, index int, offset uint64) (*mapped, error) {
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, err
	}
	vendor, verr := readNumber(filepath.Join(folder, "vendor"))
	id, derr := readNumber(filepath.Join(folder, "device"))
	bars, rerr := resources(folder)
	if verr != nil || derr != nil || rerr != nil {
		return nil, fmt.Errorf("%s is not a PCI device", folder)
	}
	d := r.device(filepath.Base(folder), uint16(vendor), uint16(id))
	if d == nil {
		return nil, nil
	}
	return &mapped{r.bar(d, index, bars[index].base, bars[index].size), offset}, nil
}

// file returns the BAR that a file stands for.
func (r *recording) file(t *thread, fd int, f File, offset, length uint64) (*mapped, error) {
	var info unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", t.tid, fd), &info); err != nil {
		return nil, err
	}
	d := r.device("file", f.Vendor, f.Device)
	b := r.bar(d, f.Bar, 0, max(uint64(info.Size), offset+length))
	if offset+length > b.size {
		return nil, fmt.Errorf("%s has grown after it was first mapped", f.Path)
	}
	return &mapped{b, offset}, nil
}

// device finds a device by its name, and writes it down when it is new. nil:
// it is not to be recorded.
func (r *recording) device(name string, vendor, id uint16) *device {
	for _, d := range r.devices {
		if d.name == name && d.vendor == vendor && d.id == id {
			return d
		}
	}
	if name != "file" && !r.options.wants(name, vendor, id) {
		return nil
	}
	d := &device{len(r.devices), vendor, id, name}
	r.devices = append(r.devices, d)
	r.out.line("DEVICE %d %04x %04x %s", d.number, vendor, id, name)
	if before := r.unused[name]; before != nil {
		for line := range strings.Lines(before.text.String()) {
			r.out.line("%s",
				strings.TrimSpace(strings.Replace(line, "#", fmt.Sprintf("%x", d.number), 1)))
		}
		if delete(r.unused, name); before.lost > 0 {
			r.gap("%d accesses to configuration space of device %s before its first BAR are "+
				"not recorded: there were too many", before.lost,
				name)
		}
	}
	return d
}

func (r *recording) bar(d *device, index int, base, size uint64) *bar {
	for _, b := range r.bars {
		if b.device == d && b.index == index {
			return b
		}
	}
	b := &bar{len(r.bars), d, index, base, size}
	r.bars = append(r.bars, b)
	r.out.line("BAR %d %d %d %x %x", b.number, d.number, index, base, size)
	return b
}

// wants reports whether a device is to be recorded: all are where none is named.
func (o *Options) wants(name string, vendor, id uint16) bool {
	return len(o.Devices) == 0 || slices.Contains(o.Devices, name) ||
		slices.Contains(o.Devices, fmt.Sprintf("%04x:%04x", vendor, id))
}

// readNumber reads a file of one number, as /sys has them.
func readNumber(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 0, 64)
}
