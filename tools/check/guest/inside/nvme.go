package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

func init() { scenarios["linux-nvme"] = linuxNvme }

// linuxNvme writes and reads blocks of the served NVMe device with Linux's own
// driver, and has the driver let go of it.
func linuxNvme([]string) int {
	const at, offset = "0000:00:08.0", 8192
	disk, err := appears("/sys/bus/pci/devices/" + at + "/nvme/nvme*/nvme*n1")
	if err == nil {
		err = blocks(filepath.Join("/dev", filepath.Base(disk)), offset)
	}
	if err == nil {
		err = os.WriteFile("/sys/bus/pci/drivers/nvme/unbind", []byte(at), 0)
	}
	if err != nil {
		fmt.Println("inside:", err)
		fmt.Print(kernelLog())
		return 1
	}
	return 0
}

// appears waits for a file.
func appears(pattern string) (path string, err error) {
	for end := time.Now().Add(runLimit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if found, _ := filepath.Glob(pattern); len(found) > 0 { // the pattern is right
			return found[0], nil
		}
	}
	return "", fmt.Errorf("%s does not appear", pattern)
}

// blocks writes 4 KiB to a disk, past the kernel's cache, and wants them back.
func blocks(path string, offset int64) error {
	if _, err := appears(path); err != nil {
		return err
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(fd)
	memory, err := unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	out, in := memory[:4096], memory[4096:]
	for i := range out {
		out[i] = byte(i*7 + i>>8)
	}
	if _, err := unix.Pwrite(fd, out, offset); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if _, err := unix.Pread(fd, in, offset); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if !bytes.Equal(in, out) {
		return fmt.Errorf("%s gives other data back", path)
	}
	return nil
}
