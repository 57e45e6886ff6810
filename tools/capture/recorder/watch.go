//go:build linux && (amd64 || arm64)

package recorder

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Range is bus addresses, from the first to the last.
type Range struct{ First, Last uint64 }

// watch takes the watched pages of m from the program, so that the recorder makes the
// accesses to them, as those to a BAR. It returns false if m has no watched pages.
func (r *recording) watch(t *thread, m *reached) (watched bool) {
	for _, w := range r.options.Watch {
		first, last := max(w.First, m.bus), min(w.Last, m.bus+m.size()-1)
		if first > last {
			continue
		}
		start, end := (m.start+first-m.bus)&^(page-1), pages(m.start+last-m.bus+1)
		if err := r.watchPages(t, m, start, end); err != nil {
			r.report("host memory at bus address %x, %d bytes, is not watched: %v", first,
				last-first+1, err)
			continue
		}
		watched = true
	}
	return watched
}

func (r *recording) watchPages(t *thread, m *reached, start, end uint64) error {
	p, err := mappingAt(t.tid, start)
	if err != nil {
		return err
	}
	if huge := p.hugePageSize(t.tid); huge > 0 { // mprotect takes whole huge pages
		start, end = start&^(huge-1), (end+huge-1)&^(huge-1)
		if start < m.start || end > m.start+m.size() {
			return fmt.Errorf("the device reaches only a part of a huge page of %d bytes", huge)
		}
	}
	if end > p.end {
		return fmt.Errorf("this memory is in several mappings")
	}
	a := area{start: start, end: end, host: m, prot: p.prot}
	if p.shared { // the kernel does not let /proc/PID/mem store to a shared mapping that is closed
		if a.view, err = p.view(t.tid, start, end-start); err != nil {
			return err
		}
	}
	if _, err = r.inject(t, unix.SYS_MPROTECT, start, end-start, unix.PROT_NONE); err == nil {
		t.space.add(a)
		r.stopPointers(t, start, end)
	}
	return err
}

// endWatch opens the watched pages of m to the program again.
func (r *recording) endWatch(t *thread, m *reached) {
	for _, a := range t.space.parts(m.start&^(page-1), pages(m.start+m.size())) {
		if a.host == m {
			_, _ = r.inject(t, unix.SYS_MPROTECT, a.start, a.end-a.start, a.prot)
			t.space.remove(a.start, a.end)
		}
	}
}

// isWatchedAt reports whether an address is in a watched page.
func (s *space) isWatchedAt(address uint64) bool {
	a := s.find(address)
	return a != nil && a.host != nil
}

// place is a mapping of a program, as /proc/PID/maps describes it.
type place struct {
	start, end, offset, prot uint64
	shared                   bool
	path                     string // of its file
}

// mappingAt returns the mapping that has an address.
func mappingAt(tid int, address uint64) (p place, err error) {
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

// hugePageSize returns the size of the mapping's pages if they are huge, else 0. It reads
// smaps, which needs no more rights than maps: what map_files has of a mapping needs
// CAP_CHECKPOINT_RESTORE.
func (p *place) hugePageSize(tid int) uint64 {
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

// hugePageSizeIn returns the size of the pages of the mapping whose line in smaps begins
// with a range of addresses, 0: they are not huge.
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

// view maps a part of a program's mapping in the recorder too.
func (p *place) view(tid int, start, size uint64) (*view, error) {
	file := openOfProcess(fmt.Sprintf("/proc/%d/map_files/%x-%x", tid, p.start, p.end))
	if file == nil {
		return nil, errors.New("mapping shared memory needs CAP_CHECKPOINT_RESTORE")
	}
	defer file.Close()
	return newView(int(file.Fd()), p.offset+start-p.start, size)
}

// loadHost makes a load of the program from watched memory. If it returns something new,
// the device has written there, and all that the device wrote is recorded.
func (m *memory) loadHost(a *area, address uint64, data []byte) error {
	if err := m.accessHost(a, address, data, false); err != nil {
		return err
	}
	if known := a.host.known(address, len(data)); m.space == a.host.space && known != nil &&
		!bytes.Equal(known, data) {
		m.recordChanges(byDevice)
	}
	return nil
}

// storeHost makes a store of the program to watched memory. The record has it, with all
// others, before the next store to the device.
func (m *memory) storeHost(a *area, address uint64, data []byte) error {
	if err := m.accessHost(a, address, data, true); err != nil {
		return err
	}
	known := a.host.known(address, len(data))
	if m.space != a.host.space || known == nil {
		return nil
	}
	copy(known, data)
	a.host.noteStored(address-a.host.start, uint64(len(data)))
	return nil
}

// noteStored notes that the program has stored n bytes at an offset in m.
func (m *reached) noteStored(at, n uint64) {
	first, end := at&^(word-1), min((at+n+word-1)&^(word-1), m.size())
	if n := len(m.stored); n > 0 && first <= m.stored[n-1].end && end >= m.stored[n-1].end &&
		first >= m.stored[n-1].first {
		m.stored[n-1].end = end
		return
	}
	m.stored = append(m.stored, span{first, end})
}

// span is a part of memory, by offsets in it.
type span struct{ first, end uint64 }

// takeStored returns what the program stored to m since the last call.
func (m *reached) takeStored() (list []change) {
	slices.SortFunc(m.stored, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	for i, s := range m.stored {
		for k := i + 1; k < len(m.stored) && m.stored[k].first <= s.end; k++ {
			s.end = max(s.end, m.stored[k].end)
			m.stored[k].end = 0 // it is a part of this one
		}
		if s.end > s.first {
			list = append(list, change{byProgram, m.bus + s.first,
				bytes.Clone(m.copy[s.first:s.end])})
		}
	}
	m.stored = m.stored[:0]
	return list
}

// known returns the part of the copy at an address, nil if the device does not reach all
// of it.
func (m *reached) known(address uint64, size int) []byte {
	if at := address - m.start; address >= m.start && at+uint64(size) <= m.size() {
		return m.copy[at:][:size]
	}
	return nil
}

// accessHost makes an access to watched or protected memory.
func (m *memory) accessHost(a *area, address uint64, data []byte, store bool) error {
	if need := uint64(unix.PROT_READ) << map[bool]int{true: 1}[store]; a.prot&need == 0 {
		return &accessFault{unix.SIGSEGV, codeForbidden, address}
	}
	at, err := a.at+address-a.start, error(nil)
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
