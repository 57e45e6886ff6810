//go:build linux && (amd64 || arm64)

package recorder

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Range is a range of bus addresses. Last is the address of its last byte.
type Range struct{ First, Last uint64 }

// watchRange removes the program's access to the watched pages of m, so that the recorder makes the
// accesses to them, as those to a BAR. It returns false if m has no watched pages.
func (r *recording) watchRange(t *thread, m *dmaRange) (watched bool) {
	for _, w := range r.options.Watch {
		first, last := max(w.First, m.bus), min(w.Last, m.bus+m.size-1)
		if first > last {
			continue
		}
		start, end := (m.start+first-m.bus)&^(pageSize-1), roundUpToPage(m.start+last-m.bus+1)
		if err := r.watchPages(t, m, start, end); err != nil {
			r.reportEvent("host memory at bus address 0x%x (%d bytes) is not watched: %v", first,
				last-first+1, err)
			continue
		}
		watched = true
	}
	return watched
}

func (r *recording) watchPages(t *thread, m *dmaRange, start, end uint64) error {
	p, err := mappingAt(t.tid, start)
	if err != nil {
		return err
	}
	if huge := p.hugePageSize(t.tid); huge > 0 { // mprotect takes whole huge pages
		start, end = start&^(huge-1), (end+huge-1)&^(huge-1)
		if start < m.start || end > m.start+m.size {
			return fmt.Errorf("a huge page of %d bytes also contains memory that the "+
				"program did not map for the device", huge)
		}
	}
	if end > p.end {
		return fmt.Errorf("this memory is in several mappings")
	}
	a := area{start: start, end: end, watched: m, prot: p.prot}
	// through /proc/PID/mem the kernel rejects stores to a shared mapping without access rights
	if p.shared {
		if a.view, err = p.mapView(t.tid, start, end-start); err != nil {
			return err
		}
	}
	if _, err = r.injectCall(t, unix.SYS_MPROTECT, start, end-start, unix.PROT_NONE); err == nil {
		t.space.add(a)
		r.stopPointers(t, start, end)
	}
	return err
}

// endWatch makes the watched pages of m accessible to the program again.
func (r *recording) endWatch(t *thread, m *dmaRange) {
	for _, a := range t.space.areasBetween(m.start&^(pageSize-1), roundUpToPage(m.start+m.size)) {
		if a.watched == m {
			_, _ = r.injectCall(t, unix.SYS_MPROTECT, a.start, a.end-a.start, a.prot)
			t.space.remove(a.start, a.end)
		}
	}
}

func (s *space) isWatchedAt(address uint64) bool {
	a := s.areaAt(address)
	return a != nil && a.watched != nil
}

// mapping is a mapping of a program, as a line of /proc/PID/maps describes it.
type mapping struct {
	start, end, offset, prot uint64
	shared                   bool
	path                     string // path of the mapped file, or ""
}

// mappingAt returns the mapping that contains an address.
func mappingAt(tid int, address uint64) (p mapping, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", tid))
	if err != nil {
		return p, err
	}
	for line := range strings.Lines(string(text)) {
		var rights string
		n, _ := fmt.Sscanf(line, "%x-%x %s %x", &p.start, &p.end, &rights, &p.offset)
		if fields := strings.SplitN(line, " ", 6); n == 4 && len(fields) == 6 &&
			address >= p.start && address < p.end {
			// the path follows device and inode, and may have blanks
			p.path = strings.TrimSpace(fields[5])
			for i, right := range "rwx" { // PROT_READ, PROT_WRITE, PROT_EXEC
				if rune(rights[i]) == right {
					p.prot |= 1 << i
				}
			}
			p.shared = rights[3] == 's'
			return p, nil
		}
	}
	return p, fmt.Errorf("nothing is mapped at %#x", address)
}

// smallestHugePage is the size of the smallest huge page of amd64 and arm64.
const smallestHugePage = 64 << 10

// hugePageSize returns the size of the mapping's pages in bytes if they are huge, else 0. It reads
// smaps, which requires the same rights as maps. Information about the mapping in map_files would
// require CAP_CHECKPOINT_RESTORE.
func (p *mapping) hugePageSize(tid int) uint64 {
	if (p.start|p.end)%smallestHugePage != 0 {
		return 0 // smaps is long, and most mappings are small
	}
	file, err := os.Open(fmt.Sprintf("/proc/%d/smaps", tid))
	if err != nil {
		return 0
	}
	defer file.Close()
	return hugePageSizeIn(file, fmt.Sprintf("%08x-%08x ", p.start, p.end))
}

// hugePageSizeIn returns the size in bytes of the pages of a mapping, or 0 if the pages are not
// huge. addresses is the beginning of the mapping's line in smaps.
func hugePageSizeIn(smaps io.Reader, addresses string) uint64 {
	found, size := false, uint64(0)
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch {
		case strings.HasPrefix(name, addresses):
			found = true
		case found && name == "KernelPageSize":
			_, _ = fmt.Sscanf(value, "%d kB", &size)
		case found && name == "VmFlags":
			if !slices.Contains(strings.Fields(value), "ht") {
				return 0
			}
			return size << 10
		}
	}
	return 0
}

// mapView maps a part of a program's mapping in the recorder.
func (p *mapping) mapView(tid int, start, size uint64) (*view, error) {
	file := openProcFile(fmt.Sprintf("/proc/%d/map_files/%x-%x", tid, p.start, p.end))
	if file == nil {
		return nil, errors.New(
			"lm cannot map shared memory of the program without CAP_CHECKPOINT_RESTORE")
	}
	defer file.Close()
	return newView(int(file.Fd()), p.offset+start-p.start, size)
}

// loadWatched makes a load of the program from watched memory. If the value differs from the
// record, the device has written there, and all that devices wrote is recorded.
func (m *memory) loadWatched(a *area, address uint64, data []byte) error {
	if err := m.accessHost(a, address, data, false); err != nil {
		return err
	}
	if bus, ok := m.recordedAt(a, address, len(data)); ok && !m.hostMemory.pages.Equal(bus, data) {
		m.recordChanges(byDevice)
	}
	return nil
}

// storeWatched makes a store of the program to watched memory. It is recorded together with the
// other stores, before the next store to a BAR.
func (m *memory) storeWatched(a *area, address uint64, data []byte) error {
	if err := m.accessHost(a, address, data, true); err != nil {
		return err
	}
	if bus, ok := m.recordedAt(a, address, len(data)); ok {
		m.hostMemory.pages.Set(bus, data)
		a.watched.noteProgramStore(address-a.watched.start, uint64(len(data)))
	}
	return nil
}

// noteProgramStore adds n bytes at an offset in m to the stores of the program that are not
// recorded yet.
func (m *dmaRange) noteProgramStore(at, n uint64) {
	first, end := at&^(wordSize-1), min((at+n+wordSize-1)&^(wordSize-1), m.size)
	if n := len(m.programStores); n > 0 && first <= m.programStores[n-1].end &&
		end >= m.programStores[n-1].end &&
		first >= m.programStores[n-1].first {
		m.programStores[n-1].end = end
		return
	}
	m.programStores = append(m.programStores, span{first, end})
}

// span is a range of addresses or offsets, from first up to but not including end.
type span struct{ first, end uint64 }

// takeProgramStores returns the program's stores to m that are not recorded yet, and empties their
// list.
func (r *recording) takeProgramStores(m *dmaRange) (list []change) {
	slices.SortFunc(m.programStores, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	for i, s := range m.programStores {
		for k := i + 1; k < len(m.programStores) && m.programStores[k].first <= s.end; k++ {
			s.end = max(s.end, m.programStores[k].end)
			m.programStores[k].end = 0 // it is merged into this span
		}
		if s.end > s.first {
			bus := m.bus + s.first
			list = append(list,
				change{byProgram, bus, r.hostMemory.pages.Bytes(bus, s.end-s.first)})
		}
	}
	m.programStores = m.programStores[:0]
	return list
}

// recordedAt returns the bus address of watched memory. ok is false if the device does not reach
// all of the memory, or if it is a child process's copy.
func (m *memory) recordedAt(a *area, address uint64, size int) (bus uint64, ok bool) {
	h := a.watched
	at := address - h.start
	return h.bus + at, m.space == h.space && address >= h.start && at+uint64(size) <= h.size
}

// accessHost makes an access to watched or protected memory.
func (m *memory) accessHost(a *area, address uint64, data []byte, store bool) error {
	if need := uint64(unix.PROT_READ) << map[bool]int{true: 1}[store]; a.prot&need == 0 {
		return &accessFault{unix.SIGSEGV, codeForbidden, address}
	}
	at, err := a.viewOffset+address-a.start, error(nil)
	switch {
	case a.view != nil && store:
		err = a.view.store(at, data)
	case a.view != nil:
		err = a.view.load(at, data)
	case store:
		_, err = m.space.file(m.tid).WriteAt(data, int64(address))
	default:
		_, err = m.space.file(m.tid).ReadAt(data, int64(address))
	}
	if err != nil {
		return &accessFault{unix.SIGBUS, codeBus, address}
	}
	return nil
}
