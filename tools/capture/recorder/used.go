//go:build linux && (amd64 || arm64)

package recorder

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"

	"lightmetal/tools/capture/record"

	"golang.org/x/sys/unix"
)

const (
	sparseMin  = 16 << 20 // from this size on, unused pages are looked for
	compareMax = 4 << 20  // most bytes that are compared at once
)

// usedSpans returns the spans of m between two offsets that may differ from the record: pages that
// were never used are zero, and are not read, because that would allocate them.
func (r *recording) usedSpans(m *dmaRange, from, to uint64) (list []span) {
	used, known := []span{{from, to}}, false
	if to-from >= sparseMin {
		used, known = m.usedPages(r.threadOf(m.space), from, to)
	}
	if known {
		for _, a := range r.hostMemory.pages.Addresses() {
			first, end := max(a, m.bus+from), min(a+record.PageSize, m.bus+to)
			if first < end {
				used = append(used, span{first - m.bus, end - m.bus})
			}
		}
		slices.SortFunc(used, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	}
	for _, s := range used {
		if n := len(list); n > 0 {
			s.first = max(s.first, list[n-1].end)
			if s.first == list[n-1].end && s.end-list[n-1].first <= compareMax {
				list[n-1].end = max(s.end, s.first)
				continue
			}
		}
		for ; s.first < s.end; s.first += compareMax {
			list = append(list, span{s.first, min(s.end, s.first+compareMax)})
		}
	}
	return list
}

// usedPages returns the offsets of the used pages of m between two offsets. If they are not known,
// it returns all between these.
func (m *dmaRange) usedPages(tid int, from, to uint64) (list []span, known bool) {
	p, err := mappingAt(tid, m.start)
	if err == nil && m.start+m.size <= p.end {
		switch {
		case p.shared:
			list, known = p.usedInFile(tid, m.start+from, m.start+to)
		case p.path == "" || p.path == "[heap]":
			list, known = presentPages(tid, m.start+from, m.start+to)
		}
	}
	if !known {
		return []span{{from, to}}, false
	}
	for i := range list {
		list[i].first, list[i].end = list[i].first-m.start, list[i].end-m.start
	}
	return list, true
}

// usedInFile returns the addresses of the pages that the mapped file has between two addresses.
func (p *mapping) usedInFile(tid int, start, end uint64) (list []span, known bool) {
	file := openProcFile(fmt.Sprintf("/proc/%d/map_files/%x-%x", tid, p.start, p.end))
	if file == nil {
		return nil, false
	}
	defer file.Close()
	for at := start; at < end; {
		data, err := unix.Seek(int(file.Fd()), int64(p.offset+at-p.start), unix.SEEK_DATA)
		if err == unix.ENXIO { // no more data
			break
		}
		hole, herr := unix.Seek(int(file.Fd()), data, unix.SEEK_HOLE)
		if err != nil || herr != nil {
			return nil, false
		}
		first := p.start + uint64(data) - p.offset
		at = min(p.start+uint64(hole)-p.offset, end)
		if first < at {
			list = append(list, span{first, at})
		}
	}
	return list, true
}

// presentPages returns the addresses of the pages of private memory that have contents.
func presentPages(tid int, start, end uint64) (list []span, known bool) {
	present := uint64(1 << 63)
	if status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid)); !strings.Contains(
		string(status), "\nVmSwap:\t       0 kB\n") {
		present |= 1 << 62 // swapped, or never used and write-protected by userfaultfd
	}
	file, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", tid))
	if err != nil {
		return nil, false
	}
	defer file.Close()
	var entries [64 << 10]byte
	for at := start &^ (pageSize - 1); at < end; {
		part := entries[:min(uint64(len(entries)), roundUpToPage(end-at)/pageSize*8)]
		if n, _ := file.ReadAt(part, int64(at/pageSize*8)); n != len(part) {
			return nil, false
		}
		for ; len(part) > 0; part, at = part[8:], at+pageSize {
			first, to := max(at, start), min(at+pageSize, end)
			switch n := len(list); {
			case binary.NativeEndian.Uint64(part)&present == 0:
			case n > 0 && list[n-1].end == first:
				list[n-1].end = to
			default:
				list = append(list, span{first, to})
			}
		}
	}
	return list, true
}
