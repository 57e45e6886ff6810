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

// pagemapFile is the name of a file with the physical addresses of pages: a program that
// opens it may pass these to a device that is not behind an IOMMU.
var pagemapFile = regexp.MustCompile(`^/proc/\d+/pagemap$`)

// physical is what a program has in huge pages, which stay where they are.
type physical struct {
	asked  bool        // it has opened its pagemap
	mapped []pageRange // that the device is not known to reach yet
}

// isHuge reports whether a mapping is of huge pages.
func isHuge(t *thread, fd int, flags uint64) bool {
	if flags&unix.MAP_ANONYMOUS != 0 {
		return flags&unix.MAP_HUGETLB != 0
	}
	var s unix.Statfs_t
	return unix.Statfs(fmt.Sprintf("/proc/%d/fd/%d", t.tid, fd), &s) == nil &&
		s.Type == unix.HUGETLBFS_MAGIC
}

// locates has the device reach the huge pages of a program that looks up
// physical addresses, before the program stores to it. Where an IOMMU is in
// front of the device the program says itself what it reaches.
func (r *recording) locates(t *thread) {
	p := &t.space.physical
	if !p.asked || len(p.mapped) == 0 || r.hosts.translated || r.hosts.overLimit {
		return
	}
	p.mapped = slices.DeleteFunc(p.mapped, func(m pageRange) bool {
		runs := physicalRuns(t.tid, m.start, m.end)
		for _, run := range runs {
			r.reachBy(t, run.at, run.size, run.bus, reached{physical: true})
		}
		return len(runs) > 0
	})
}

// physicalRun is memory whose pages follow each other.
type physicalRun struct{ at, size, bus uint64 }

// physicalRuns reads where memory lies, nil where it is not there yet, or the
// kernel does not say (it takes CAP_SYS_ADMIN).
func physicalRuns(tid int, start, end uint64) (list []physicalRun) {
	const present, frame = 1 << 63, 1<<55 - 1 // of an entry
	entries := make([]byte, (end-start)/page*8)
	file, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", tid))
	if err != nil {
		return nil
	}
	defer file.Close()
	if n, _ := file.ReadAt(entries, int64(start/page*8)); n != len(entries) {
		return nil
	}
	for at := start; at < end; at += page {
		entry := binary.NativeEndian.Uint64(entries[(at-start)/page*8:])
		bus := entry & frame * page
		if entry&present == 0 || bus == 0 {
			return nil
		}
		if n := len(list); n > 0 && list[n-1].bus+list[n-1].size == bus {
			list[n-1].size += page
		} else {
			list = append(list, physicalRun{at, page, bus})
		}
	}
	return list
}

// mapsHuge notes huge pages between two addresses.
func (p *physical) mapsHuge(start, end uint64) {
	p.mapped = append(p.mapped, pageRange{start: start, end: end})
}

// hasHuge reports whether there are huge pages between two addresses.
func (r *recording) hasHuge(s *space, start, end uint64) bool {
	between := func(first, last uint64) bool { return first < end && start < last }
	return slices.ContainsFunc(s.physical.mapped,
		func(m pageRange) bool { return between(m.start, m.end) }) ||
		slices.ContainsFunc(r.hosts.reached, func(m *reached) bool {
			return m.physical &&
				m.space == s && between(m.start, m.start+m.size())
		})
}

// losesHuge notes that there are no huge pages between two addresses any more. The bus
// addresses of what is left of a mapping are looked up again.
func (r *recording) losesHuge(t *thread, start, end uint64) {
	p := &t.space.physical
	before := p.mapped
	r.retire(t, func(m *reached) bool {
		if !m.physical || m.space != t.space || m.start >= end || start >= m.start+m.size() {
			return false
		}
		before = append(before, pageRange{start: m.start, end: m.start + m.size()})
		return true
	})
	p.mapped = nil
	for _, m := range before {
		if m.start < min(m.end, start) {
			p.mapsHuge(m.start, min(m.end, start))
		}
		if max(m.start, end) < m.end {
			p.mapsHuge(max(m.start, end), m.end)
		}
	}
}
