//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// control is a request to a device, by ioctl, that stops the program.
type control struct {
	request uint32
	// tells whether its end matters; nil: it does
	enter func(r *recording, t *thread, c *call) bool
	exit  func(r *recording, t *thread, c *call, result uint64)
}

// Requests that have a device reach memory.
const (
	requestMap   = 0x3b71 // VFIO_IOMMU_MAP_DMA; of a device VFIO_DEVICE_PCI_HOT_RESET
	requestIOMap = 0x3b85 // IOMMU_IOAS_MAP
)

// controls are from linux/vfio.h, linux/iommufd.h and tt-kmd's ioctl.h.
var controls = []control{
	{0x3b6a, (*recording).namesDevice, (*recording).gotDevice}, // VFIO_GROUP_GET_DEVICE_FD
	// VFIO_IOMMU_MAP_DMA; of a device VFIO_DEVICE_PCI_HOT_RESET
	{requestMap, nil, (*recording).mapped},
	{0x3b72, (*recording).unmapsBus, (*recording).unmapped},    // VFIO_IOMMU_UNMAP_DMA
	{requestIOMap, nil, (*recording).mappedByFile},             // IOMMU_IOAS_MAP
	{0x3b86, (*recording).unmaps, (*recording).unmappedByFile}, // IOMMU_IOAS_UNMAP
	{0x3b6f, nil, (*recording).wasReset},                       // VFIO_DEVICE_RESET
	{ttAllocate, nil, (*recording).allocated},
	{ttConfigure, nil, (*recording).pointed},
	{ttPin, nil, (*recording).pinned},
	{ttUnpin, (*recording).unmaps, (*recording).unpinned},
	{ttReset, nil, (*recording).driverReset},
	{ttAllocateDMA, nil, (*recording).driverMemory},
	{ttCleanup, nil, (*recording).driverCleanup},
}

func (r *recording) enterControl(t *thread, c *call) bool {
	for i := range controls {
		if k := &controls[i]; k.request == uint32(c.arguments[1]) {
			c.control = k
			return k.enter == nil || k.enter(r, t, c)
		}
	}
	return false
}

func (r *recording) namesDevice(t *thread, c *call) bool {
	c.name = readText(t.tid, c.arguments[2])
	return c.name != ""
}

func (r *recording) gotDevice(t *thread, c *call, fd uint64) {
	r.opened = append(r.opened, opened{t.process, int(fd), c.name})
	r.openedFile(t, fd)
}

// words reads a structure of 32-bit and 64-bit numbers: the latter are two.
func words(t *thread, address uint64, n int) (list []uint32, ok bool) {
	data := make([]byte, 4*n)
	ok = readMemory(t.tid, address, data) == len(data)
	for i := range n {
		list = append(list, binary.NativeEndian.Uint32(data[4*i:]))
	}
	return list, ok
}

func long(w []uint32, at int) uint64 { return uint64(w[at]) | uint64(w[at+1])<<32 }

// mapped follows a request with struct vfio_iommu_type1_dma_map: argsz,
// flags, address, bus address, bytes.
func (r *recording) mapped(t *thread, c *call, _ uint64) {
	if path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.tid,
		int32(c.arguments[0]))); path == vfioFile {
		r.wasReset(t, c, 0)
		return
	}
	r.hosts.translated = true
	if w, ok := words(t, c.arguments[2], 8); ok {
		r.reachBy(t, long(w, 2), long(w, 6), long(w, 4), reached{vfio: true})
	}
}

// unmaps looks at memory for the last time.
func (r *recording) unmaps(*thread, *call) bool {
	if slices.ContainsFunc(r.hosts.reached, func(m *reached) bool { return m.scan }) {
		r.recordChanges(byDevice)
	}
	return true
}

// unmapsBus is unmaps of struct vfio_iommu_type1_dma_unmap: of its addresses alone,
// as there may be one such call for each page.
func (r *recording) unmapsBus(t *thread, c *call) bool {
	w, ok := words(t, c.arguments[2], 6)
	if !ok || w[1]&2 != 0 || long(w, 4) == 0 {
		return r.unmaps(t, c)
	}
	first := long(w, 2)
	last := first + min(long(w, 4)-1, ^uint64(0)-first)
	from, to := r.hosts.overlapping(first, last)
	if slices.ContainsFunc(r.hosts.reached[from:to], func(m *reached) bool { return m.scan }) {
		r.recordChangesBetween(byDevice, first, last)
	}
	return true
}

// unmapped follows a request with struct vfio_iommu_type1_dma_unmap: argsz,
// flags, bus address, bytes.
func (r *recording) unmapped(t *thread, c *call, _ uint64) {
	if w, ok := words(t, c.arguments[2], 6); ok && w[1]&2 != 0 { // VFIO_DMA_UNMAP_FLAG_ALL
		r.unreach(t, 0, ^uint64(0))
	} else if ok {
		r.unreach(t, long(w, 2), long(w, 4))
	}
}

// mappedByFile follows a request with struct iommu_ioas_map: size, flags, space,
// nothing, address, bytes, bus address.
func (r *recording) mappedByFile(t *thread, c *call, _ uint64) {
	r.hosts.translated = true
	if w, ok := words(t, c.arguments[2], 10); ok {
		r.reach(t, long(w, 4), long(w, 6), long(w, 8))
	}
}

// unmappedByFile follows a request with struct iommu_ioas_unmap: size, space, bus address, bytes.
func (r *recording) unmappedByFile(t *thread, c *call, _ uint64) {
	if w, ok := words(t, c.arguments[2], 6); ok {
		r.unreach(t, long(w, 2), long(w, 4))
	}
}

// ofVFIO reports whether a path is of a container, a group or a device.
func ofVFIO(path string) bool { return path == vfioFile || strings.HasPrefix(path, "/dev/vfio/") }

// closedVFIO follows the closing of a file of VFIO. Where no process
// has one any more, nor a BAR mapped, no device reaches what VFIO had mapped.
func (r *recording) closedVFIO(t *thread) {
	for _, other := range r.threads {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", other.tid))
		for _, file := range files {
			if path, _ := os.Readlink(file); ofVFIO(path) {
				return
			}
		}
		if slices.ContainsFunc(other.space.areas, func(a area) bool { return a.bar != nil }) {
			return
		}
	}
	r.retire(t, func(m *reached) bool { return m.vfio })
}

func (r *recording) wasReset(t *thread, c *call, _ uint64) {
	name := r.vfioName(t, int(int32(c.arguments[0])))
	r.report("process %d resets device %s, which a replay does not do", t.process, name)
}
