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
	steps["tlb-windows"] = step{"IMAGE SIZE...", tlbWindows}
	steps["clock"] = step{"DEVICE MHZ", clock}
	steps["reset-card"] = step{"FLAGS", resetCard}
	steps["clear-config"] = step{"ADDRESS", clearConfig}
}

// card is the device of Tenstorrent's driver.
const card = "/dev/tenstorrent/0"

// Requests of the driver and what they take (tt-kmd, ioctl.h): _IO(0xfa, n).
const (
	requestReset       = 0xfa06
	requestAllocateTLB = 0xfa0b
)

// request makes one ioctl on the card.
func request(fd int, number uint, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(number),
		uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

// allWindows takes windows of a size, in bytes, until there are none.
func allWindows(fd int, size uint64) (count int) {
	for {
		window := struct {
			size, reserved      uint64 // in; the rest is out
			id, _               uint32
			uncached, combining uint64
			_                   uint64
		}{size: size}
		if request(fd, requestAllocateTLB, unsafe.Pointer(&window)) != nil {
			return count
		}
		count++
	}
}

// tlbWindows takes all windows of one size after the other: an image takes the next size, and is
// rejected when none is left. Sizes are in MiB.
func tlbWindows(g *guest, args []string) error {
	fd, err := unix.Open(card, unix.O_RDWR|unix.O_APPEND|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, size := range args[1:] {
		if err := replayGolden(args[0], []string{"-device", "tt:" + card}); err != nil {
			return fmt.Errorf("windows of less than %s MiB taken: %w", size, err)
		}
		var mib uint64
		if _, err := fmt.Sscan(size, &mib); err != nil {
			return err
		}
		fmt.Printf("inside: %d windows of %s MiB taken\n", allWindows(fd, mib<<20), size)
	}
	return lmrun(g, []string{"69", "window", "-device", "tt:" + card, args[0]})
}

// clock waits until the cores have a frequency, as the driver reads the card's telemetry: it
// waits before it saves power.
func clock(_ *guest, args []string) error {
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

// clearConfig leaves a command register of zeros, as a reset does, by which the driver knows it.
func clearConfig(_ *guest, args []string) error {
	return os.WriteFile(filepath.Join(devices, args[0], "config"), make([]byte, 6), 0)
}

// resetCard resets the card as tt-smi does: 3 is USER_RESET, 6 POST_RESET.
func resetCard(_ *guest, args []string) error {
	fd, err := unix.Open(card, unix.O_RDWR|unix.O_APPEND|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	reset := struct{ outSize, flags, size, result uint32 }{outSize: 8}
	if _, err := fmt.Sscan(args[0], &reset.flags); err != nil {
		return err
	}
	err = request(fd, requestReset, unsafe.Pointer(&reset))
	if err == nil && reset.result != 0 {
		err = fmt.Errorf("result %d", reset.result)
	}
	return err
}
