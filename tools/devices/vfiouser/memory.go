package vfiouser

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	regionsMax = 4096 // largest number of mapped ranges of client memory

	dmaRead     = 1  // the device may read
	dmaWrite    = 2  // the device may write
	unmapAll    = 2  // flag of DMA_UNMAP: unmap everything
	dmaMapSize  = 32 // bytes of a DMA_MAP request
	dmaUnmapMin = 24 // smallest number of bytes of a DMA_UNMAP request
)

// memory is the client memory that the device reaches, by I/O address. A client with an IOMMU may
// map each page separately, so that an access may span several pieces. memory then maps the
// adjacent pieces once more as a run. The runs are unmapped when the pieces change.
type memory struct {
	pieces []piece
	runs   []run
}

// run is a second mapping of adjacent pieces, in one range of this process's addresses.
type run struct {
	address uint64 // I/O address
	data    []byte
}

// piece is a range that one DMA_MAP request has mapped. If the request had no file descriptor, the
// device cannot access the range, and data is nil.
type piece struct {
	address, size uint64
	data          []byte
	writable      bool
}

// add maps a piece. The mapping remains when the file descriptor is closed.
func (m *memory) add(address, size, offset uint64, flags uint32, fds []int) error {
	switch {
	case size == 0 || address+size < address:
		return fmt.Errorf("%w: memory of %#x bytes at %#x is empty, or ends above 2^64",
			unix.EINVAL, size, address)
	case len(m.pieces) == regionsMax:
		return fmt.Errorf("%w: the client maps more than %d ranges of memory", unix.ENOSPC,
			regionsMax)
	case len(fds) > 1:
		return fmt.Errorf("%w: "+
			"one range of memory has %d file descriptors instead of one", unix.EINVAL, len(fds))
	}
	for _, p := range m.pieces {
		if address < p.address+p.size && p.address < address+size {
			return fmt.Errorf("%w: memory of %#x bytes at %#x overlaps the memory mapped at %#x",
				unix.EEXIST, size, address, p.address)
		}
	}
	p := piece{address: address, size: size, writable: flags&dmaWrite != 0}
	if len(fds) == 1 && flags&(dmaRead|dmaWrite) != 0 {
		var err error
		if p.data, err = mapPiece(fds[0], offset, size, p.writable); err != nil {
			return err
		}
	}
	m.unmapRuns()
	m.pieces = append(m.pieces, p)
	return nil
}

// mapPiece maps client memory. It rejects a mapping beyond the end of the file, because an access
// there would end this process.
func mapPiece(fd int, offset, size uint64, writable bool) ([]byte, error) {
	var status unix.Stat_t
	if err := unix.Fstat(fd, &status); err != nil {
		return nil, err
	}
	if end := uint64(status.Size); offset > end || size > end-offset {
		return nil, fmt.Errorf("%w: the file of the memory has %#x bytes, "+
			"but the mapping needs %#x bytes at offset %#x", unix.EINVAL, status.Size, size, offset)
	}
	protection := unix.PROT_READ
	if writable {
		protection |= unix.PROT_WRITE
	}
	return unix.Mmap(fd, int64(offset), int(size), protection, unix.MAP_SHARED)
}

// remove unmaps all pieces that lie completely inside a range. The device cannot access them after
// the call.
func (m *memory) remove(address, size uint64) {
	m.unmapRuns()
	kept := m.pieces[:0]
	for _, p := range m.pieces {
		if p.address >= address && p.size <= size && p.address-address <= size-p.size {
			p.unmap()
		} else {
			kept = append(kept, p)
		}
	}
	m.pieces = kept
}

func (m *memory) clear() {
	m.unmapRuns()
	for _, p := range m.pieces {
		p.unmap()
	}
	m.pieces = nil
}

func (p *piece) unmap() {
	if p.data != nil {
		_ = unix.Munmap(p.data) // cannot fail: mapPiece made the mapping
	}
}

func (m *memory) unmapRuns() {
	for _, r := range m.runs {
		// cannot fail: join made the mapping
		_ = unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(r.data)), uintptr(len(r.data)))
	}
	m.runs = nil
}

// reachable reports whether the device may read and write the piece.
func (p *piece) reachable() bool { return p.writable && p.data != nil }

// bytes returns client memory at an I/O address. It returns nil unless the device may read and
// write all of it. If the memory spans adjacent pieces, bytes maps them as a run.
func (m *memory) bytes(address, size uint64) []byte {
	for i := range m.pieces {
		p := &m.pieces[i]
		if p.reachable() {
			if data := within(p.address, p.data, address, size); data != nil {
				return data
			}
		}
	}
	for i := range m.runs {
		if data := within(m.runs[i].address, m.runs[i].data, address, size); data != nil {
			return data
		}
	}
	joined, err := m.join(address, size)
	if err != nil {
		return nil
	}
	m.runs = append(m.runs, joined)
	return within(joined.address, joined.data, address, size)
}

// within returns size bytes of memory at an address, where start is the address of the first byte
// of memory. It returns nil if memory does not contain all of them.
func within(start uint64, memory []byte, address, size uint64) []byte {
	length := uint64(len(memory))
	if address < start || size > length || address-start > length-size {
		return nil
	}
	return memory[address-start:][:size]
}

// errGap means that part of a range is not mapped, or that its mappings are not whole pages.
var errGap = errors.New("the client must map all of this range, and only in whole pages")

// join maps the pieces around a range of addresses a second time, one after the other. It maps all
// adjacent pieces, so that no later access requires another mapping of these pieces. The pieces
// must consist of complete pages.
func (m *memory) join(address, size uint64) (run, error) {
	list := slices.DeleteFunc(slices.Clone(m.pieces), func(p piece) bool { return !p.reachable() })
	slices.SortFunc(list, func(a, b piece) int { return cmp.Compare(a.address, b.address) })
	page := uint64(unix.Getpagesize())
	first, last := -1, -1 // indices of the first and last of the adjacent pieces around address
	for i := range list {
		p := &list[i]
		whole := p.address%page == 0 && p.size%page == 0
		switch {
		case whole && last == i-1 && first >= 0 && list[last].address+list[last].size == p.address:
			last = i
		case first >= 0 && address < list[last].address+list[last].size:
			// the adjacent pieces around address end before this piece
		case whole:
			first, last = i, i
		default:
			first, last = -1, -1
		}
	}
	if first < 0 {
		return run{}, errGap
	}
	start, end := list[first].address, list[last].address+list[last].size
	if address < start || size > end-start || address-start > end-start-size {
		return run{}, errGap
	}
	length := uintptr(end - start)
	base, err := unix.MmapPtr(-1, 0, nil, length, unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return run{}, err
	}
	for _, p := range list[first : last+1] {
		// With an old size of 0, mremap maps the shared memory a second time (mremap(2)).
		to := unsafe.Add(base, p.address-start)
		_, err := unix.MremapPtr(unsafe.Pointer(&p.data[0]), 0, to, uintptr(p.size),
			unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED)
		if err != nil {
			_ = unix.MunmapPtr(base, length)
			return run{}, err
		}
	}
	return run{start, unsafe.Slice((*byte)(base), length)}, nil
}
