package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// region is a memory region of QEMU's that is all of one BAR.
type region struct {
	name           string // in QEMU's trace
	vendor, device uint16
	bar            uint8
	size           uint64
}

var (
	edu     = region{"edu-mmio", 0x1234, 0x11e8, 0, 1 << 20}
	ivshmem = region{"", 0x1af4, 0x1110, 2, shmSize} // RAM, which QEMU cannot trace
)

// named tells whether a line is about the region, or about one of several that
// make up the BAR, whose names begin with what stands in front of a *.
func (of region) named(line string) bool {
	_, name, _ := strings.Cut(line, " name '")
	if start, several := strings.CutSuffix(of.name, "*"); several {
		return strings.HasPrefix(name, start)
	}
	return name == of.name+"'"
}

// access is one load or store that reached a region.
type access struct {
	store  bool
	offset uint64 // bytes into the BAR
	width  uint8  // bytes
	value  uint64
}

func (a access) String() string {
	verb := "load"
	if a.store {
		verb = "store"
	}
	return fmt.Sprintf("%s of %d bytes at %#x, value %#x", verb, a.width, a.offset, a.value)
}

// parseTrace reads the accesses to one region, in order, from QEMU's log of
// memory_region_ops_read and _write. Other lines are none of its business.
func parseTrace(log io.Reader, of region) ([]access, error) {
	var accesses []access
	lines := bufio.NewScanner(log)
	for number := 1; lines.Scan(); number++ {
		line := lines.Text()
		if !strings.HasPrefix(line, "memory_region_ops_") || !of.named(line) {
			continue
		}
		a, err := parseLine(line, of)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w: %s", number, err, line)
		}
		accesses = append(accesses, a)
	}
	return accesses, lines.Err()
}

// parseLine reads, for instance
//
//	memory_region_ops_read cpu 1 mr 0x560a addr 0x10000000 value 0x10000ed size 4 name 'edu-mmio'
func parseLine(line string, of region) (access, error) {
	var verb, owner string
	var cpu int
	var address, value, size uint64
	if _, err := fmt.Sscanf(line, "memory_region_ops_%s cpu %d mr %s addr 0x%x value 0x%x size %d",
		&verb, &cpu, &owner, &address, &value, &size); err != nil {
		return access{}, err
	}
	if verb != "read" && verb != "write" || size != 1 && size != 2 && size != 4 && size != 8 {
		return access{}, fmt.Errorf("neither a read nor a write of 1, 2, 4 or 8 bytes")
	}
	// A BAR lies at a multiple of its size. A load of all ones is logged with
	// 64 of them whatever its width.
	return access{verb == "write", address % of.size, uint8(size), value & bits(uint8(size))}, nil
}

// servedRegion is a BAR of the served device behind a socket.
func servedRegion(socket string, bar uint8) string {
	return fmt.Sprintf("vfio-user:%s:region%d+", socket, bar)
}

// parseServed reads the accesses to one BAR of a served device, in order, from
// QEMU's log of vfio_region_read and _write, for instance
//
//	vfio_region_write  (vfio-user:/tmp/s:region0+0x20, 0x80, 4)
//	vfio_region_read  (vfio-user:/tmp/s:region0+0x20, 4) = 0x80
func parseServed(log io.Reader, region string) ([]access, error) {
	var accesses []access
	lines := bufio.NewScanner(log)
	for number := 1; lines.Scan(); number++ {
		verb, rest, ok := strings.Cut(lines.Text(), "  ("+region)
		if !ok {
			continue
		}
		var a access
		var err error
		switch verb {
		case "vfio_region_write":
			a.store = true
			_, err = fmt.Sscanf(rest, "0x%x, 0x%x, %d)", &a.offset, &a.value, &a.width)
		case "vfio_region_read":
			_, err = fmt.Sscanf(rest, "0x%x, %d) = 0x%x", &a.offset, &a.width, &a.value)
		default:
			err = fmt.Errorf("neither a read nor a write")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w: %s", number, err, lines.Text())
		}
		a.value &= bits(a.width)
		accesses = append(accesses, a)
	}
	return accesses, lines.Err()
}

// bits is all the bits of a width in bytes.
func bits(width uint8) uint64 { return ^uint64(0) >> (64 - 8*uint(width)) }
