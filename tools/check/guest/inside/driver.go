package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() {
	steps["tlb-windows"] = step{"IMAGE SIZE...", exhaustTLBWindows}
	steps["clock"] = step{"DEVICE MHZ", awaitClock}
	steps["reset-card"] = step{"FLAGS", resetCard}
	steps["clear-config"] = step{"ADDRESS", clearConfig}
}

// cardPath is the device file of Tenstorrent's driver.
const cardPath = "/dev/tenstorrent/0"

// Numbers of the driver's ioctls (tt-kmd, ioctl.h): _IO(0xfa, n).
const (
	requestReset       = 0xfa06
	requestAllocateTLB = 0xfa0b
)

// cardIoctl makes one ioctl on the card.
func cardIoctl(fd int, number uint, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(number),
		uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

// allocateAll allocates TLB windows of a size, in bytes, until none is left, and returns their
// number.
func allocateAll(fd int, size uint64) (count int) {
	for {
		window := struct {
			size, reserved      uint64 // input; all other fields are output
			id, _               uint32
			uncached, combining uint64
			_                   uint64
		}{size: size}
		if cardIoctl(fd, requestAllocateTLB, unsafe.Pointer(&window)) != nil {
			return count
		}
		count++
	}
}

// exhaustTLBWindows allocates all TLB windows of one size after another. After each size, an image
// must use the next larger size. When no window is left, it must be rejected. Sizes are in MiB.
func exhaustTLBWindows(g *guest, args []string) error {
	fd, err := unix.Open(cardPath, unix.O_RDWR|unix.O_APPEND|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, size := range args[1:] {
		if err := replayGolden(args[0], []string{"-device", "tt:" + cardPath}); err != nil {
			return fmt.Errorf("windows of less than %s MiB taken: %w", size, err)
		}
		var mib uint64
		if _, err := fmt.Sscan(size, &mib); err != nil {
			return err
		}
		fmt.Printf("inside: %d windows of %s MiB taken\n", allocateAll(fd, mib<<20), size)
	}
	return runLmrun(g, []string{"69", "window", "-device", "tt:" + cardPath, args[0]})
}

// awaitClock waits until the clock of the cores has a frequency, which the driver reads from the
// card's telemetry. The driver saves power only after a while.
func awaitClock(_ *guest, args []string) error {
	path := "/sys/class/tenstorrent/" + args[0] + "/tt_aiclk"
	var got []byte
	err := waitFor("the card has this clock", func() bool {
		got, _ = os.ReadFile(path)
		return strings.TrimSpace(string(got)) == args[1]
	})
	if err != nil {
		return fmt.Errorf("%w; got %q", err, got)
	}
	return nil
}

// clearConfig sets the command register to zero, as a reset does. The driver recognizes a reset by
// it.
func clearConfig(_ *guest, args []string) error {
	return os.WriteFile(filepath.Join(devicesDir, args[0], "config"), make([]byte, 6), 0)
}

// resetCard resets the card as tt-smi does: 3 is USER_RESET, 6 POST_RESET.
func resetCard(_ *guest, args []string) error {
	fd, err := unix.Open(cardPath, unix.O_RDWR|unix.O_APPEND|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	reset := struct{ outSize, flags, size, result uint32 }{outSize: 8}
	if _, err := fmt.Sscan(args[0], &reset.flags); err != nil {
		return err
	}
	err = cardIoctl(fd, requestReset, unsafe.Pointer(&reset))
	if err == nil && reset.result != 0 {
		err = fmt.Errorf("result %d", reset.result)
	}
	return err
}
