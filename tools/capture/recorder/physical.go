//go:build linux && (amd64 || arm64)

package recorder

import (
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"slices"

	"golang.org/x/sys/unix"
)

// pagemapFile matches the path of a file with the physical addresses of pages. A program that opens
// it may pass these addresses to a device that is not behind an IOMMU.
var pagemapFile = regexp.MustCompile(`^/proc/\d+/pagemap$`)

// hugePages has the huge pages of a program. Their physical addresses do not change.
type hugePages struct {
	readsPagemap bool        // the program has opened its pagemap
	unlocated    []pageRange // mappings whose physical addresses are not known yet
}

func mapsHugePages(t *thread, fd int, flags uint64) bool {
	if flags&unix.MAP_ANONYMOUS != 0 {
		return flags&unix.MAP_HUGETLB != 0
	}
	var s unix.Statfs_t
	return unix.Statfs(fmt.Sprintf("/proc/%d/fd/%d", t.tid, fd), &s) == nil &&
		s.Type == unix.HUGETLBFS_MAGIC
}

// locateHugePages adds a DMA range for each huge page of a program that looks up physical
// addresses. It is called before each store to a device, which may contain such an address. If the
// device is behind an IOMMU, the program itself specifies the memory that the device reaches.
func (r *recording) locateHugePages(t *thread) {
	p := &t.space.hugePages
	if !p.readsPagemap || len(p.unlocated) == 0 || r.hostMemory.usesIOMMU {
		return
	}
	p.unlocated = slices.DeleteFunc(p.unlocated, func(m pageRange) bool {
		runs := physicalRuns(t.tid, m.start, m.end)
		for _, run := range runs {
			r.addDMARangeOfKind(t, run.start, run.size, run.bus, dmaRange{byPhysicalAddress: true})
		}
		return len(runs) > 0
	})
}

// physicalRun is a range of memory whose pages have consecutive physical addresses.
type physicalRun struct{ start, size, bus uint64 }

// physicalRuns returns the physical addresses of a range of memory. It returns nil if a page is not
// present yet, or if the kernel does not report the addresses, which requires CAP_SYS_ADMIN.
func physicalRuns(tid int, start, end uint64) (list []physicalRun) {
	const present, frame = 1 << 63, 1<<55 - 1 // bits of an entry
	entries := make([]byte, (end-start)/pageSize*8)
	file, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", tid))
	if err != nil {
		return nil
	}
	defer file.Close()
	if n, _ := file.ReadAt(entries, int64(start/pageSize*8)); n != len(entries) {
		return nil
	}
	for at := start; at < end; at += pageSize {
		entry := binary.NativeEndian.Uint64(entries[(at-start)/pageSize*8:])
		bus := entry & frame * pageSize
		if entry&present == 0 || bus == 0 {
			return nil
		}
		if n := len(list); n > 0 && list[n-1].bus+list[n-1].size == bus {
			list[n-1].size += pageSize
		} else {
			list = append(list, physicalRun{at, pageSize, bus})
		}
	}
	return list
}

func (p *hugePages) add(start, end uint64) {
	p.unlocated = append(p.unlocated, pageRange{start: start, end: end})
}

// hasHugePages reports whether there are huge pages between two addresses.
func (r *recording) hasHugePages(s *space, start, end uint64) bool {
	between := func(first, last uint64) bool { return first < end && start < last }
	return slices.ContainsFunc(s.hugePages.unlocated,
		func(m pageRange) bool { return between(m.start, m.end) }) ||
		slices.ContainsFunc(r.hostMemory.ranges, func(m *dmaRange) bool {
			return m.byPhysicalAddress &&
				m.space == s && between(m.start, m.start+m.size)
		})
}

// removeHugePages removes the huge pages between two addresses. The physical addresses of the rest
// of a mapping are looked up again.
func (r *recording) removeHugePages(t *thread, start, end uint64) {
	p := &t.space.hugePages
	before := p.unlocated
	r.retireMatching(t, func(m *dmaRange) bool {
		if !m.byPhysicalAddress || m.space != t.space || m.start >= end ||
			start >= m.start+m.size {
			return false
		}
		before = append(before, pageRange{start: m.start, end: m.start + m.size})
		return true
	})
	p.unlocated = nil
	for _, m := range before {
		if m.start < min(m.end, start) {
			p.add(m.start, min(m.end, start))
		}
		if max(m.start, end) < m.end {
			p.add(max(m.start, end), m.end)
		}
	}
}
