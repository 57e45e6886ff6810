//go:build linux && (amd64 || arm64)

package recorder

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// area is a range of a program's memory whose accesses the recorder makes: a part of a BAR, or
// watched or protected host memory.
type area struct {
	start, end uint64 // addresses in the program
	bar        *bar
	offset     uint64 // offset of start in the BAR
	prot       uint64 // access rights that the program requested; in fact it has fewer
	view       *view
	viewOffset uint64 // offset of start in the view
	// set instead of bar: watched host memory; if view is nil, space.file accesses it
	watched *dmaRange
	// set instead of bar and watched: protected host memory, accessed like watched memory
	guard *guard
}

// space is an address space of the program. The threads that share memory share it.
type space struct {
	areas         []area
	threadCount   int    // number of threads
	changingCalls int    // number of threads in a system call that may change areas
	callAddress   uint64 // address of a system call instruction; 0: none is known
	// address of a page with an instruction that the thread executes itself; 0: not mapped yet
	codePage uint64
	usesKVM  bool // a guest accesses the memory, for which faults cannot be handled
	released bool // the areas are accessible to the program again, and are not recorded
	memory   *os.File
	// file descriptors of devices for which a transferFilter is installed
	stoppingFDs map[uint64]bool
	// eventfds at whose reads the program stops; whether it stops at all waits, at all reads
	stoppingReads          []uint64
	stopsWaits, stopsReads bool

	pointerRanges []pageRange // address ranges for which a pointerFilter is installed
	writeTracker  writeTracker
	hugePages     hugePages
	follower      follower
}

// file returns /proc/PID/mem, which accesses memory regardless of the pages' access rights. tid
// must be a thread that has not ended; the first thread of a process may end before the others.
func (s *space) file(tid int) *os.File {
	if s.memory == nil {
		s.memory = openProcFile(fmt.Sprintf("/proc/%d/mem", tid))
	}
	return s.memory // every access to a nil file fails
}

// openProcFile opens a file under /proc for reading and writing. It returns nil if it cannot.
func openProcFile(path string) *os.File {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), path)
}

// areaAt returns the area that contains an address, or nil.
func (s *space) areaAt(address uint64) *area {
	if i := s.indexAfter(address); i > 0 && address < s.areas[i-1].end {
		return &s.areas[i-1]
	}
	return nil
}

// indexAfter returns the index of the first area that begins after an address.
func (s *space) indexAfter(address uint64) int {
	return sort.Search(len(s.areas), func(i int) bool { return s.areas[i].start > address })
}

// nextStart returns the address at which the first area after an address begins.
func (s *space) nextStart(address uint64) uint64 {
	if i := s.indexAfter(address); i < len(s.areas) {
		return s.areas[i].start
	}
	return ^uint64(0)
}

func (s *space) add(a area) {
	a.view.addUse()
	s.areas = append(s.areas, a)
	slices.SortFunc(s.areas, func(a, b area) int { return cmp.Compare(a.start, b.start) })
}

// clip returns the part of an area between two addresses.
func (a area) clip(start, end uint64) area {
	start, end = max(start, a.start), min(end, a.end)
	a.offset += start - a.start
	a.viewOffset += start - a.start
	a.start, a.end = start, end
	return a
}

// areasBetween returns the parts of areas between two addresses.
func (s *space) areasBetween(start, end uint64) (list []area) {
	for _, a := range s.areas {
		if p := a.clip(start, end); p.start < p.end {
			list = append(list, p)
		}
	}
	return list
}

// remove removes the areas between two addresses. An area that is only partly between them is cut.
func (s *space) remove(start, end uint64) {
	if len(s.areasBetween(start, end)) == 0 {
		return
	}
	before := s.areas
	s.areas = nil
	for _, a := range before {
		for _, rest := range []area{a.clip(0, start), a.clip(end, ^uint64(0))} {
			if rest.start < rest.end {
				s.add(rest)
			}
		}
	}
	for _, a := range before {
		a.view.dropUse()
	}
}

// setProtection sets the access rights that the program has requested between two addresses.
func (s *space) setProtection(start, end, prot uint64) {
	changed := s.areasBetween(start, end)
	for _, a := range changed {
		a.view.addUse() // keep the view while the area is removed
	}
	s.remove(start, end)
	for _, a := range changed {
		// protected memory now has the access rights that the program requested
		if a.prot = prot; a.guard == nil {
			s.add(a)
		}
		a.view.dropUse()
	}
}

// clone returns the address space of a child process that does not share memory.
func (s *space) clone() *space {
	c := &space{callAddress: s.callAddress, codePage: s.codePage, released: s.released,
		usesKVM:     s.usesKVM,
		stoppingFDs: maps.Clone(s.stoppingFDs), stoppingReads: slices.Clip(s.stoppingReads),
		stopsWaits: s.stopsWaits, stopsReads: s.stopsReads, pointerRanges: s.pointerRanges}
	for _, a := range s.areas {
		a.guard = a.guard.clone()
		c.add(a)
	}
	return c
}

// removeUnmapped removes the areas of a child process that it has not inherited from its parent:
// with madvise, programs and drivers can exclude mappings.
func (s *space) removeUnmapped(tid int) {
	if len(s.areas) == 0 {
		return
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", tid))
	if err != nil {
		return
	}
	at := uint64(0) // end of the mapping before
	for line := range strings.Lines(string(text)) {
		var start, end uint64
		if n, _ := fmt.Sscanf(line, "%x-%x", &start, &end); n == 2 {
			s.remove(at, start)
			at = end
		}
	}
	s.remove(at, ^uint64(0))
}

// removeThread ends the use by one thread.
func (s *space) removeThread() {
	if s.threadCount--; s.threadCount == 0 {
		s.remove(0, ^uint64(0))
		s.memory.Close()
		s.writeTracker.close()
	}
}
