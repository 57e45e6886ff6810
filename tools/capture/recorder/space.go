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

// area is a part of a program's memory that is a BAR.
type area struct {
	start, end uint64 // addresses in the program
	bar        *bar
	offset     uint64 // of start, in the BAR
	prot       uint64 // that the program asked for; what it has is none
	view       *view
	at         uint64 // of start, in the view
	// instead of a BAR: watched host memory, which without a view is reached by space.file
	host  *reached
	guard *guard // instead of both: protected host memory, reached as watched one
}

// space is what the threads of a program share that share memory: its areas,
// in the order of their addresses.
type space struct {
	areas    []area
	uses     int    // by threads
	changing int    // threads inside a system call that changes areas
	gate     uint64 // address of an instruction that calls the kernel, 0: none seen
	// address of a page for instructions that the thread executes itself, 0: none yet
	scratch  uint64
	released bool // areas are the program's own again, unrecorded
	memory   *os.File
	// descriptors by which data is moved to devices: filters of them are there
	stops    map[uint64]bool
	pointed  []pageRange // where a pointer in a system call stops it: filters of them are there
	pages    pageFiles
	physical physical
	follow   follower
}

// file is the memory itself, which it reaches whatever rights pages have. It takes
// a thread that lives: the first one may have ended before the others.
func (s *space) file(tid int) *os.File {
	if s.memory == nil {
		s.memory = openOfProcess(fmt.Sprintf("/proc/%d/mem", tid))
	}
	return s.memory // of which nil reads nothing
}

// openOfProcess opens a file under /proc to read and to write, nil where it cannot.
func openOfProcess(path string) *os.File {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), path)
}

// find returns the area that an address lies in, or nil.
func (s *space) find(address uint64) *area {
	if i := s.after(address); i > 0 && address < s.areas[i-1].end {
		return &s.areas[i-1]
	}
	return nil
}

// after returns the index of the first area that begins after an address.
func (s *space) after(address uint64) int {
	return sort.Search(len(s.areas), func(i int) bool { return s.areas[i].start > address })
}

// next returns where the first area after an address begins.
func (s *space) next(address uint64) uint64 {
	if i := s.after(address); i < len(s.areas) {
		return s.areas[i].start
	}
	return ^uint64(0)
}

func (s *space) add(a area) {
	a.view.use()
	s.areas = append(s.areas, a)
	slices.SortFunc(s.areas, func(a, b area) int { return cmp.Compare(a.start, b.start) })
}

// part is the part of an area between two addresses.
func (a area) part(start, end uint64) area {
	start, end = max(start, a.start), min(end, a.end)
	a.offset += start - a.start
	a.at += start - a.start
	a.start, a.end = start, end
	return a
}

// parts returns what lies between two addresses.
func (s *space) parts(start, end uint64) (list []area) {
	for _, a := range s.areas {
		if p := a.part(start, end); p.start < p.end {
			list = append(list, p)
		}
	}
	return list
}

// remove takes out what lies between two addresses, and cuts what only begins
// or ends there.
func (s *space) remove(start, end uint64) {
	if len(s.parts(start, end)) == 0 {
		return
	}
	before := s.areas
	s.areas = nil
	for _, a := range before {
		for _, rest := range []area{a.part(0, start), a.part(end, ^uint64(0))} {
			if rest.start < rest.end {
				s.add(rest)
			}
		}
	}
	for _, a := range before {
		a.view.drop()
	}
}

// protect notes what the program asks for between two addresses.
func (s *space) protect(start, end, prot uint64) {
	changed := s.parts(start, end)
	for _, a := range changed {
		a.view.use() // over the removal
	}
	s.remove(start, end)
	for _, a := range changed {
		if a.prot = prot; a.guard == nil { // else it has the rights that the program asked for
			s.add(a)
		}
		a.view.drop()
	}
}

// copy is what a child gets that does not share memory.
func (s *space) copy() *space {
	c := &space{gate: s.gate, scratch: s.scratch, released: s.released, stops: maps.Clone(s.stops),
		pointed: s.pointed}
	for _, a := range s.areas {
		a.guard = a.guard.copy()
		c.add(a)
	}
	return c
}

// removeUnmapped takes out what a child has not got of its parent's mappings:
// madvise and drivers can keep some from it.
func (s *space) removeUnmapped(tid int) {
	if len(s.areas) == 0 {
		return
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", tid))
	if err != nil {
		return
	}
	at := uint64(0) // of what is not mapped
	for line := range strings.Lines(string(text)) {
		var start, end uint64
		if n, _ := fmt.Sscanf(line, "%x-%x", &start, &end); n == 2 {
			s.remove(at, start)
			at = end
		}
	}
	s.remove(at, ^uint64(0))
}

// drop ends one thread's use.
func (s *space) drop() {
	if s.uses--; s.uses == 0 {
		s.remove(0, ^uint64(0))
		s.memory.Close()
		s.pages.close()
	}
}
