package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// vendorDriverBackend is the backend that uses the vendor's kernel driver. LM_TTKMD names the
// driver, FILE.ko, which must be built for the full kernel.
var vendorDriverBackend = servedBackend{"tt", func(t *testing.T, m *machine) {
	t.Helper()
	driver := os.Getenv("LM_TTKMD")
	if driver == "" {
		t.Skip("needs the vendor's kernel driver, built for Debian's arm64 kernel (LM_TTKMD is " +
			"not set)")
	}
	m.kernel = fromEnv(t, "LM_GUEST_FULL_KERNEL")
	m.addFile(t, "/modules/tenstorrent.ko", driver)
}}

// runOnVendorDriver runs steps with the vendor's driver, once on the served mock of each chip. The
// function check gets the text of the console.
func runOnVendorDriver(t *testing.T, setUp func(*testing.T, *machine, *chip),
	steps func(*chip) string, check func(*testing.T, *machine, *chip, string)) {
	t.Helper()
	for i := range allChips {
		c := &allChips[i]
		t.Run(c.board, func(t *testing.T) {
			m, console := runInside(t, func(m *machine) {
				vendorDriverBackend.setUp(t, m)
				m.addServed(t, "mock:"+c.board)
				m.enableTrace()
				setUp(t, m, c)
			}, "tt", steps(c))
			t.Log(console)
			if m.serversErr != nil {
				t.Error(m.serversErr)
			}
			check(t, m, c, console)
		})
	}
}

// kernelWarning matches a line of the kernel's log that is a warning or an error.
var kernelWarning = regexp.MustCompile(`the kernel says: <[0-4]>.*`)

// TestVendorsDriverReplaysOnAServedChip replays every capture and workload, an image in which a
// core accesses pinned memory, and stores to rectangles of tiles. The driver must print no
// warnings.
func TestVendorsDriverReplaysOnAServedChip(t *testing.T) {
	t.Parallel()
	runOnVendorDriver(t, func(t *testing.T, m *machine, c *chip) { m.addAllImages(t, c) },
		func(c *chip) string {
			return "ready\ngolden tt:/dev/tenstorrent/0 /images/" + c.board + "/*.lmb\n" +
				"show-log tenstorrent\n"
		},
		func(t *testing.T, m *machine, _ *chip, console string) {
			for _, line := range kernelWarning.FindAllString(console, -1) {
				if !strings.Contains(line, "out-of-tree module") {
					t.Error(line)
				}
			}
		})
}

// TestVendorsDriverHandlesWindowsKillsAndResets runs driverSteps, and checks that the driver put
// the cores into reset after each replay.
func TestVendorsDriverHandlesWindowsKillsAndResets(t *testing.T) {
	t.Parallel()
	runOnVendorDriver(t, func(t *testing.T, m *machine, c *chip) {
		m.addGolden(t, "twoop", append([]string{"import"}, c.captures["twoop"]...)...)
	}, driverSteps, checkCoresInReset)
}

// driverSteps returns steps for these cases: the TLB windows of each size are in use, so that a
// larger one is used, or none is left; a second replay is rejected, and the first one continues;
// the clock is fast while a replay uses the card; the driver puts the cores back into reset after
// a replay was killed; the card is reset during a replay.
func driverSteps(c *chip) string {
	names := strings.NewReplacer("CARD", "tt:/dev/tenstorrent/0", "AGAIN",
		"golden tt:/dev/tenstorrent/0 /images/twoop.lmb", "CHIP", c.board, "SIZES",
		strings.Join(c.sizesMiB, " "), "IDLE", c.clocksMHz[0], "FAST", c.clocksMHz[1])
	return names.Replace(`ready
tlb-windows /images/twoop.lmb SIZES
AGAIN
start-sealed -device CARD -loop forever /images/twoop.lmb
lmrun 69 "another replay has locked the device" -device CARD /images/twoop.lmb
stop
ends 0 ""
clock tenstorrent!0 IDLE
start-sealed -device CARD -loop forever /images/twoop.lmb
clock tenstorrent!0 FAST
stop
ends 0 ""
clock tenstorrent!0 IDLE
repeat 3
  start-sealed -device CARD -loop forever /images/twoop.lmb
  kill
  AGAIN
end
start-sealed -device CARD -loop forever /images/twoop.lmb
reset-card 3
ends 71|75 ""
lmrun 69 "another program has begun to reset the device" -device CARD /images/twoop.lmb
clear-config @CHIP
reset-card 6
AGAIN
`)
}

// checkCoresInReset requires that the driver put the cores back into reset at the end of each
// replay, including the three that were killed. The driver uses the TLB window that it reserves.
func checkCoresInReset(t *testing.T, m *machine, c *chip, _ string) {
	t.Helper()
	log, err := os.ReadFile(m.traceFile)
	if err != nil {
		t.Fatal(err)
	}
	name := servedRegionName(m.socketPaths[0], c.driverBar)
	stores, err := parseServedTrace(bytes.NewReader(log), name)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, a := range stores {
		if a == (access{true, c.driverOffset + 0xfb121b0&(c.driverSize-1), 4, 0x47800}) {
			count++
		}
	}
	ends := len(c.sizesMiB) + 10 // number of replays, without the one that a reset ended
	if count < ends {
		t.Errorf("cores were put into reset by the driver %d times, want %d", count, ends)
	}
}

// chipLadderListing is like ladderListing, but for a chip. Its last command makes a frame fail if
// the chip hangs when the frame reads its result.
const chipLadderListing = `lightmetal 1
target BOARD IDS bar0 512MiB
window l1 tlb size 1MiB
tensor result output uint32[1] = uint32 479001600
init:
  fence
main:
  call init
frame:
  point     l1 tile TILE address 0x0
  write.4   l1+0x100 479001600
  expect.4  l1+0x100 == 479001600
  copy.4    result[:] <- l1+0x100
  expect.4  l1+0x100 == 479001600
`

// TestVendorsDriverResetsAChipThatHangs makes lminit execute the recovery step `reset function` for
// tt: devices. Wormhole hangs until its bus is reset, which is the first step of the driver.
// Blackhole hangs until the driver resets it through configuration space. `./build.sh soak`
// measures 300 recoveries.
func TestVendorsDriverResetsAChipThatHangs(t *testing.T) {
	t.Parallel()
	isSoak := os.Getenv("LM_SOAK_FRAMES") != ""
	runOnVendorDriver(t, func(t *testing.T, m *machine, c *chip) {
		if m.rootPorts = true; isSoak {
			m.timeout = time.Hour
		}
		m.servedDevices[0] = append(m.servedDevices[0], "--fault", "wedged-until=flr@600")
		m.addImage(t, "ladder", strings.NewReplacer("BOARD", c.board, "IDS", c.ids, "TILE", c.tile).
			Replace(chipLadderListing))
	}, func(*chip) string {
		count := "3"
		if isSoak {
			count = "300"
		}
		return strings.ReplaceAll(`ready
recovers tt:/dev/tenstorrent/0 COUNT "reset function" "reset function COUNT wait 1ms, halt"
show-log tenstorrent
`, "COUNT", count)
	}, func(*testing.T, *machine, *chip, string) {})
}
