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

// ioctlHandler handles an ioctl request to a device. The filter stops the program at such requests.
type ioctlHandler struct {
	request uint32
	// Reports whether the exit of the request must be handled; nil: it must.
	enter func(r *recording, t *thread, c *call) bool
	exit  func(r *recording, t *thread, c *call, result uint64)
}

// Requests that make a device reach memory.
const (
	requestMap   = 0x3b71 // VFIO_IOMMU_MAP_DMA; on the file of a device VFIO_DEVICE_PCI_HOT_RESET
	requestIOMap = 0x3b85 // IOMMU_IOAS_MAP
)

// ioctlHandlers are the handled requests of linux/vfio.h, linux/iommufd.h and tt-kmd's ioctl.h.
var ioctlHandlers = []ioctlHandler{
	{0x3b6a, (*recording).readDeviceName, (*recording).addVFIODevice}, // VFIO_GROUP_GET_DEVICE_FD
	// VFIO_IOMMU_MAP_DMA; on the file of a device VFIO_DEVICE_PCI_HOT_RESET
	{requestMap, nil, (*recording).addDMAMapping},
	// VFIO_IOMMU_UNMAP_DMA
	{0x3b72, (*recording).recordBeforeDMAUnmap, (*recording).removeDMAMapping},
	{requestIOMap, nil, (*recording).addIOMMUFDMapping},                         // IOMMU_IOAS_MAP
	{0x3b86, (*recording).recordBeforeUnmap, (*recording).removeIOMMUFDMapping}, // IOMMU_IOAS_UNMAP
	// VFIO_DEVICE_SET_IRQS
	{0x3b6e, nil, (*recording).addInterrupts},
	// VFIO_DEVICE_RESET
	{0x3b6f, nil, (*recording).reportReset},
	{ttAllocate, nil, (*recording).addDriverWindow},
	{ttConfigure, nil, (*recording).recordWindowStores},
	{ttPin, nil, (*recording).addPinnedMemory},
	{ttUnpin, (*recording).recordBeforeUnmap, (*recording).removePinnedMemory},
	{ttReset, nil, (*recording).reportDriverReset},
	{ttAllocateDMA, nil, (*recording).addDriverMemory},
	{ttCleanup, nil, (*recording).reportDriverCleanup},
}

func (r *recording) enterIoctl(t *thread, c *call) bool {
	for i := range ioctlHandlers {
		if k := &ioctlHandlers[i]; k.request == uint32(c.arguments[1]) {
			c.ioctl = k
			return k.enter == nil || k.enter(r, t, c)
		}
	}
	return false
}

func (r *recording) readDeviceName(t *thread, c *call) bool {
	c.deviceName = readCString(t.tid, c.arguments[2])
	return c.deviceName != ""
}

func (r *recording) addVFIODevice(t *thread, c *call, fd uint64) {
	r.vfioFDs = append(r.vfioFDs, vfioFD{t.process, int(fd), c.deviceName})
	r.handleOpenedFD(t, fd)
}

// readWords reads n 32-bit words of a structure. A 64-bit number in it is two words.
func readWords(t *thread, address uint64, n int) (list []uint32, ok bool) {
	data := make([]byte, 4*n)
	ok = readMemory(t.tid, address, data) == len(data)
	for i := range n {
		list = append(list, binary.NativeEndian.Uint32(data[4*i:]))
	}
	return list, ok
}

func uint64At(w []uint32, at int) uint64 { return uint64(w[at]) | uint64(w[at+1])<<32 }

// addDMAMapping handles a request with struct vfio_iommu_type1_dma_map. Its words are: argsz,
// flags, address (2), bus address (2), size in bytes (2).
func (r *recording) addDMAMapping(t *thread, c *call, _ uint64) {
	if path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.tid,
		int32(c.arguments[0]))); path == vfioFile {
		r.reportReset(t, c, 0)
		return
	}
	r.hostMemory.usesIOMMU = true
	if w, ok := readWords(t, c.arguments[2], 8); ok {
		const canWrite = 2 // VFIO_DMA_MAP_FLAG_WRITE
		r.addDMARangeOfKind(t, uint64At(w, 2), uint64At(w, 6), uint64At(w, 4),
			dmaRange{byVFIO: true, isReadOnly: w[1]&canWrite == 0})
	}
}

// recordBeforeUnmap records the device's writes before memory is unmapped, when the memory can be
// read for the last time.
func (r *recording) recordBeforeUnmap(*thread, *call) bool {
	if slices.ContainsFunc(r.hostMemory.ranges, func(m *dmaRange) bool { return m.isTracked }) {
		r.recordChanges(byDevice)
	}
	return true
}

// recordBeforeDMAUnmap is recordBeforeUnmap for struct vfio_iommu_type1_dma_unmap. It looks only at
// the addresses of the request, because a program may make one such request for each page.
func (r *recording) recordBeforeDMAUnmap(t *thread, c *call) bool {
	w, ok := readWords(t, c.arguments[2], 6)
	if !ok || w[1]&2 != 0 || uint64At(w, 4) == 0 {
		return r.recordBeforeUnmap(t, c)
	}
	first := uint64At(w, 2)
	last := first + min(uint64At(w, 4)-1, ^uint64(0)-first)
	from, to := r.hostMemory.overlapping(first, last)
	if slices.ContainsFunc(r.hostMemory.ranges[from:to],
		func(m *dmaRange) bool { return m.isTracked }) {
		r.hostMemory.isUnmapping = true
		r.recordChangesBetween(byDevice, first, last)
		r.hostMemory.isUnmapping = false
	}
	return true
}

// removeDMAMapping handles a request with struct vfio_iommu_type1_dma_unmap. Its words are: argsz,
// flags, bus address (2), size in bytes (2).
func (r *recording) removeDMAMapping(t *thread, c *call, _ uint64) {
	if w, ok := readWords(t, c.arguments[2], 6); ok && w[1]&2 != 0 { // VFIO_DMA_UNMAP_FLAG_ALL
		r.removeDMARanges(t, 0, ^uint64(0))
	} else if ok {
		r.removeDMARanges(t, uint64At(w, 2), uint64At(w, 4))
	}
}

// addIOMMUFDMapping handles a request with struct iommu_ioas_map. Its words are: size, flags, id of
// the address space, reserved, address (2), size in bytes (2), bus address (2).
func (r *recording) addIOMMUFDMapping(t *thread, c *call, _ uint64) {
	r.hostMemory.usesIOMMU = true
	if w, ok := readWords(t, c.arguments[2], 10); ok {
		const canWrite = 2 // IOMMU_IOAS_MAP_WRITEABLE
		r.addDMARangeOfKind(t, uint64At(w, 4), uint64At(w, 6), uint64At(w, 8),
			dmaRange{isReadOnly: w[1]&canWrite == 0})
	}
}

// removeIOMMUFDMapping handles a request with struct iommu_ioas_unmap. Its words are: size, id of
// the address space, bus address (2), size in bytes (2).
func (r *recording) removeIOMMUFDMapping(t *thread, c *call, _ uint64) {
	if w, ok := readWords(t, c.arguments[2], 6); ok {
		r.removeDMARanges(t, uint64At(w, 2), uint64At(w, 4))
	}
}

// isVFIOFile reports whether a path is a container, group or device of VFIO.
func isVFIOFile(path string) bool {
	return path == vfioFile || strings.HasPrefix(path, "/dev/vfio/")
}

// handleVFIOClose handles the closing of a file of VFIO. If no process has a file of VFIO open, or
// a BAR mapped, no device reaches any more what VFIO had mapped.
func (r *recording) handleVFIOClose(t *thread) {
	for _, other := range r.threads {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", other.tid))
		for _, file := range files {
			if path, _ := os.Readlink(file); isVFIOFile(path) {
				return
			}
		}
		if slices.ContainsFunc(other.space.areas, func(a area) bool { return a.bar != nil }) {
			return
		}
	}
	r.retireMatching(t, func(m *dmaRange) bool { return m.byVFIO })
}

func (r *recording) reportReset(t *thread, c *call, _ uint64) {
	if name := r.requestedDevice(t, c); r.accesses == 0 {
		r.out.Line("NOTE process %d resets device %s before the first access", t.process, name)
	} else {
		r.reportEvent("process %d resets device %s: a replay does not repeat the reset", t.process,
			name)
	}
}

// requestedDevice returns the name of the device to whose VFIO file a request goes, or "".
func (r *recording) requestedDevice(t *thread, c *call) string {
	fd := int(int32(c.arguments[0]))
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.tid, fd))
	folder, err := filepath.EvalSymlinks(filepath.Join("/sys/class/vfio-dev", filepath.Base(path),
		"device"))
	if err == nil && isVFIOFile(path) {
		return filepath.Base(folder)
	}
	return r.vfioDeviceName(t, fd)
}
