package vfiouser

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	regionsMax = 4096 // pieces of client memory at once

	dmaRead     = 1 // the device may read
	dmaWrite    = 2 // the device may write
	unmapAll    = 2
	dmaMapSize  = 32
	dmaUnmapMin = 24
)

// memory is what the client lets the device reach, by I/O address.
type memory struct {
	pieces []piece
}

// piece is one DMA_MAP. Without a descriptor the range exists and cannot be
// reached from here.
type piece struct {
	address, size uint64
	data          []byte
	writable      bool
}

// add maps a piece, which stays when the descriptor is closed.
func (m *memory) add(address, size, offset uint64, flags uint32, fds []int) error {
	switch {
	case size == 0 || address+size < address:
		return fmt.Errorf("%w: memory of %#x bytes at %#x", unix.EINVAL, size, address)
	case len(m.pieces) == regionsMax:
		return fmt.Errorf("%w: more than %d pieces of memory", unix.ENOSPC, regionsMax)
	case len(fds) > 1:
		return fmt.Errorf("%w: %d descriptors for one piece of memory", unix.EINVAL, len(fds))
	}
	for _, p := range m.pieces {
		if address < p.address+p.size && p.address < address+size {
			return fmt.Errorf("%w: memory of %#x bytes at %#x overlaps what is mapped at %#x", unix.EEXIST, size, address, p.address)
		}
	}
	p := piece{address: address, size: size, writable: flags&dmaWrite != 0}
	if len(fds) == 1 && flags&(dmaRead|dmaWrite) != 0 {
		var err error
		if p.data, err = mapPiece(fds[0], offset, size, p.writable); err != nil {
			return err
		}
	}
	m.pieces = append(m.pieces, p)
	return nil
}

// mapPiece maps client memory. Pages beyond the end of a file would end this
// process at their first use.
func mapPiece(fd int, offset, size uint64, writable bool) ([]byte, error) {
	var status unix.Stat_t
	if err := unix.Fstat(fd, &status); err != nil {
		return nil, err
	}
	if end := uint64(status.Size); offset > end || size > end-offset {
		return nil, fmt.Errorf("%w: the memory's file has %#x bytes, not %#x at %#x", unix.EINVAL, status.Size, size, offset)
	}
	protection := unix.PROT_READ
	if writable {
		protection |= unix.PROT_WRITE
	}
	return unix.Mmap(fd, int64(offset), int(size), protection, unix.MAP_SHARED)
}

// remove unmaps what lies wholly inside a range. What was mapped there is out
// of reach when it returns.
func (m *memory) remove(address, size uint64) {
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

// clear unmaps everything.
func (m *memory) clear() {
	for _, p := range m.pieces {
		p.unmap()
	}
	m.pieces = nil
}

func (p *piece) unmap() {
	if p.data != nil {
		_ = unix.Munmap(p.data) // a mapping of ours
	}
}

// bytes is client memory at an I/O address, nil where not all of it may be
// read and written.
func (m *memory) bytes(address, size uint64) []byte {
	for i := range m.pieces {
		p := &m.pieces[i]
		if p.writable && p.data != nil && address >= p.address && size <= p.size && address-p.address <= p.size-size {
			return p.data[address-p.address:][:size]
		}
	}
	return nil
}
