package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() { scenarios["driver"] = vendorsDriver }

// card is the device of Tenstorrent's driver.
const card = "/dev/tenstorrent/0"

// Requests of the driver and what they take (tt-kmd, ioctl.h): _IO(0xfa, n).
const (
	resetDevice = 0xfa06
	allocateTLB = 0xfa0b

	userReset = 3
	postReset = 6
)

// vendorsDriver does on the maker's own driver what a replay has to bear:
// windows of each size as smaller ones run out, all gone, a second replay, a
// kill in the middle, a reset in the middle: driver IDS SIZE... in MiB.
func vendorsDriver(args []string) int {
	devices, err := ready("tt", "")
	if err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	b := &bench{lane: "tt", edu: devices[0]}
	b.windows(args[1:])
	b.twoReplays()
	b.clock(args[0])
	b.killedUnderTheDriver()
	b.resetUnderTheDriver(args[0])
	if b.failed {
		fmt.Print(kernelLog())
		return 1
	}
	return 0
}

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
		if request(fd, allocateTLB, unsafe.Pointer(&window)) != nil {
			return count
		}
		count++
	}
}

// windows holds those of one size after the other: an image takes the next
// size, and is refused when none is left.
func (b *bench) windows(sizes []string) {
	fd, err := unix.Open(card, unix.O_RDWR|unix.O_APPEND|unix.O_CLOEXEC, 0)
	if err != nil {
		b.fail("%v", err)
		return
	}
	for _, size := range sizes {
		if !golden("/images/twoop.lmb", []string{"-device", b.edu}) {
			b.fail("windows of less than %s MiB taken", size)
		}
		var mib uint64
		_, _ = fmt.Sscan(size, &mib)
		fmt.Printf("inside: %d windows of %s MiB taken\n", allWindows(fd, mib<<20), size)
	}
	b.lmrun(69, "window", "twoop.lmb", []string{b.edu})
	unix.Close(fd)
	b.again("all windows given back")
}

// again wants the card to be as usable as ever.
func (b *bench) again(after string) {
	if !golden("/images/twoop.lmb", []string{"-device", b.edu}) {
		b.fail("after: %s", after)
	}
}

// twoReplays wants the second turned away and the first unharmed.
func (b *bench) twoReplays() {
	c := b.sealed("twoop.lmb", b.edu, "-loop", "forever")
	if c == nil {
		return
	}
	b.lmrun(69, "another replay has locked the device", "twoop.lmb", []string{b.edu})
	_ = c.Process.Signal(unix.SIGTERM)
	if exit := finish(c); exit != 0 {
		b.fail("the first of two replays ended with %d", exit)
	}
}

// clocks are those of the cores in MHz, of a card that idles and of one whose
// user has asked for speed (UMD).
var clocks = map[string][2]string{"1e52:401e": {"500", "1000"}, "1e52:b140": {"800", "1350"}}

// clock wants the card fast while a replay has it, and slow before and after,
// as the driver reads the card's telemetry.
func (b *bench) clock(ids string) {
	b.settles("before", clocks[ids][0])
	c := b.sealed("twoop.lmb", b.edu, "-loop", "forever")
	if c == nil {
		return
	}
	b.settles("while it replays", clocks[ids][1])
	_ = c.Process.Signal(unix.SIGTERM)
	finish(c)
	b.settles("after", clocks[ids][0])
}

// settles waits for a clock: the driver waits before it takes power away.
func (b *bench) settles(when, want string) {
	var got []byte
	for end := time.Now().Add(runLimit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		got, _ = os.ReadFile("/sys/class/tenstorrent/tenstorrent!0/tt_aiclk")
		if strings.TrimSpace(string(got)) == want {
			return
		}
	}
	b.fail("%s: the card's clock is %q, want %s MHz", when, got, want)
}

// killedUnderTheDriver ends replays in the middle of their runs. The driver
// then puts the cores back into reset, which the host finds in the trace.
func (b *bench) killedUnderTheDriver() {
	for range 3 {
		b.kill("twoop.lmb", b.edu, 0, "-loop", "forever")
		b.again("a replay was killed")
	}
}

// resetUnderTheDriver resets the card under a replay, as tt-smi does.
func (b *bench) resetUnderTheDriver(ids string) {
	c := b.sealed("twoop.lmb", b.edu, "-loop", "forever")
	if c == nil {
		return
	}
	if err := resetCard(userReset); err != nil {
		b.fail("USER_RESET: %v", err)
	}
	got := finish(c)
	if got != 71 && got != 75 {
		b.fail("reset in the middle: lmrun ended with %d", got)
	}
	fmt.Println("inside: reset in the middle:", got)
	b.lmrun(69, "POST_RESET", "twoop.lmb", []string{b.edu})
	// A reset leaves a command register of zeros, by which the driver knows it.
	if at, err := address(ids); err != nil ||
		os.WriteFile(filepath.Join("/sys/bus/pci/devices", at, "config"), make([]byte, 6),
			0) != nil {
		b.fail("the command register: %v", err)
	}
	if err := resetCard(postReset); err != nil {
		b.fail("POST_RESET: %v", err)
	}
	b.again("a reset")
}

func resetCard(flags uint32) error {
	fd, err := unix.Open(card, unix.O_RDWR|unix.O_APPEND|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	reset := struct{ outSize, flags, size, result uint32 }{outSize: 8, flags: flags}
	err = request(fd, resetDevice, unsafe.Pointer(&reset))
	if err == nil && reset.result != 0 {
		err = fmt.Errorf("result %d", reset.result)
	}
	return err
}
