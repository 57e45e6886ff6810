package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

func init() { steps["blocks"] = step{"DISKS OFFSET [TIMES SIZE]", checkBlocks} }

// awaitFile waits until a file matches a pattern, and returns its path.
func awaitFile(pattern string) (path string, err error) {
	err = waitFor(pattern+" appears", func() bool {
		found, _ := filepath.Glob(pattern) // the pattern is valid
		if len(found) > 0 {
			path = found[0]
		}
		return path != ""
	})
	return path, err
}

// checkBlocks writes a block to a disk, bypassing the kernel's cache, and compares it with what it
// reads back. It repeats that with other data in the next block. DISKS is a pattern for the disk's
// directory in /sys, and SIZE the bytes of a block, or 4 KiB.
func checkBlocks(g *guest, args []string) error {
	offset, err := strconv.ParseInt(args[1], 0, 64)
	if err != nil {
		return err
	}
	times, size := 1, 4096
	if len(args) > 2 {
		if _, err := fmt.Sscan(args[2]+" "+args[3], &times, &size); err != nil {
			return err
		}
	}
	folder, err := awaitFile(args[0])
	if err != nil {
		return err
	}
	path, err := awaitFile(filepath.Join("/dev", filepath.Base(folder)))
	if err != nil {
		return err
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(fd)
	memory, err := unix.Mmap(-1, 0, 2*size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	out, in := memory[:size], memory[size:]
	for i := range out {
		out[i] = byte(i*7 + i>>8)
	}
	for range times {
		if _, err := unix.Pwrite(fd, out, offset); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		if _, err := unix.Pread(fd, in, offset); err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		if !bytes.Equal(in, out) {
			return fmt.Errorf("%s gives other data back", path)
		}
		offset += int64(len(out))
		for i := range out {
			out[i] = byte(g.random.Uint32())
		}
	}
	return nil
}
