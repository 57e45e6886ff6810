package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// region is a memory region of QEMU that makes up one whole BAR.
type region struct {
	name           string // name in QEMU's trace; see isNamedIn
	vendor, device uint16 // ids of the PCI function that has the BAR
	bar            uint8  // number of the BAR
	size           uint64 // size of the BAR in bytes
}

var (
	edu     = region{"edu-mmio", 0x1234, 0x11e8, 0, 1 << 20}
	ivshmem = region{"", 0x1af4, 0x1110, 2, shmSize} // memory, whose accesses QEMU cannot trace
)

// isNamedIn reports whether a line of the trace is about the region. If the name of the region
// ends in *, several memory regions make up the BAR, and the rest of the name is their common
// prefix.
func (r region) isNamedIn(line string) bool {
	_, name, _ := strings.Cut(line, " name '")
	if prefix, isPrefix := strings.CutSuffix(r.name, "*"); isPrefix {
		return strings.HasPrefix(name, prefix)
	}
	return name == r.name+"'"
}

// access is one load or store that reached a region.
type access struct {
	store  bool   // false: a load
	offset uint64 // offset in the BAR in bytes
	width  uint8  // width in bytes
	value  uint64 // value that was loaded or stored
}

// String implements fmt.Stringer.
func (a access) String() string {
	verb := "load"
	if a.store {
		verb = "store"
	}
	return fmt.Sprintf("%s of %d bytes at %#x, value %#x", verb, a.width, a.offset, a.value)
}

// parseTrace returns the accesses to one region, in order, from QEMU's log of the events
// memory_region_ops_read and memory_region_ops_write. It ignores all other lines.
func parseTrace(log io.Reader, traced region) ([]access, error) {
	var accesses []access
	lines := bufio.NewScanner(log)
	for number := 1; lines.Scan(); number++ {
		line := lines.Text()
		if !strings.HasPrefix(line, "memory_region_ops_") || !traced.isNamedIn(line) {
			continue
		}
		a, err := parseTraceLine(line, traced)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w: %s", number, err, line)
		}
		accesses = append(accesses, a)
	}
	return accesses, lines.Err()
}

// parseTraceLine parses one line of the trace, such as:
//
//	memory_region_ops_read cpu 1 mr 0x560a addr 0x10000000 value 0x10000ed size 4 name 'edu-mmio'
func parseTraceLine(line string, traced region) (access, error) {
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
	// The address of a BAR is a multiple of its size. If a load returns all ones, QEMU logs 64
	// ones, even if the load is narrower: keep only the bits of the width.
	width := uint8(size)
	return access{verb == "write", address % traced.size, width, value & widthMask(width)}, nil
}

// servedRegionName returns the name, in QEMU's trace, of a BAR of the device served on a socket.
func servedRegionName(socket string, bar uint8) string {
	return fmt.Sprintf("vfio-user:%s:region%d+", socket, bar)
}

// parseServedTrace returns the accesses to one BAR of a served device, in order, from QEMU's log
// of the events vfio_region_read and vfio_region_write, such as:
//
//	vfio_region_write  (vfio-user:/tmp/s:region0+0x20, 0x80, 4)
//	vfio_region_read  (vfio-user:/tmp/s:region0+0x20, 4) = 0x80
func parseServedTrace(log io.Reader, regionName string) ([]access, error) {
	var accesses []access
	lines := bufio.NewScanner(log)
	for number := 1; lines.Scan(); number++ {
		verb, rest, ok := strings.Cut(lines.Text(), "  ("+regionName)
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
		a.value &= widthMask(a.width)
		accesses = append(accesses, a)
	}
	return accesses, lines.Err()
}

// widthMask returns a mask with all bits of a value that is `width` bytes wide.
func widthMask(width uint8) uint64 { return ^uint64(0) >> (64 - 8*uint(width)) }
