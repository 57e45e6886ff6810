package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// onServedByDriver is the way by the maker's own kernel driver, where there is
// one (LM_TTKMD=FILE.ko, built for the full kernel).
var onServedByDriver = way{"tt", func(t *testing.T, m *machine) {
	t.Helper()
	driver := os.Getenv("LM_TTKMD")
	if driver == "" {
		t.Skip("needs the vendor's kernel driver, built for Debian's arm64 kernel (LM_TTKMD is " +
			"not set)")
	}
	m.kernel = tool(t, "LM_GUEST_FULL_KERNEL")
	m.add(t, "/modules/tenstorrent.ko", driver)
}}

// onDriver carries out a scenario on that driver, which takes the mock of either
// chip for a card.
func onDriver(t *testing.T, setUp func(*testing.T, *machine, *card), steps func(*card) string,
	check func(*testing.T, *machine, *card, string)) {
	t.Helper()
	for i := range allChips {
		c := &allChips[i]
		t.Run(c.board, func(t *testing.T) {
			m, console := inside(t, func(m *machine) {
				onServedByDriver.setUp(t, m)
				m.serveTo(t, "mock:"+c.board)
				m.traceIt()
				setUp(t, m, c)
			}, "tt", steps(c))
			t.Log(console)
			if m.served != nil {
				t.Error(m.served)
			}
			check(t, m, c, console)
		})
	}
}

// warned is a line of the driver's that warns, or worse.
var warned = regexp.MustCompile(`the kernel says: <[0-4]>.*`)

// TestVendorsDriverOnAServedChip replays every capture and workload, a core that
// reaches pinned memory and stores to rectangles of tiles, and the driver has
// nothing to warn of.
func TestVendorsDriverOnAServedChip(t *testing.T) {
	t.Parallel()
	onDriver(t, func(t *testing.T, m *machine, c *card) { m.addAll(t, c) },
		func(c *card) string {
			return "ready\ngolden tt:/dev/tenstorrent/0 /images/" + c.board + "/*.lmb\n" +
				"show-log tenstorrent\n"
		},
		func(t *testing.T, m *machine, _ *card, console string) {
			for _, line := range warned.FindAllString(console, -1) {
				if !strings.Contains(line, "out-of-tree module") {
					t.Error(line)
				}
			}
		})
}

// TestVendorsDriverWindowsKillsAndResets: windows of each size, none left, two
// replays, the clock while one runs, kills and resets in the middle.
func TestVendorsDriverWindowsKillsAndResets(t *testing.T) {
	t.Parallel()
	onDriver(t, func(t *testing.T, m *machine, c *card) {
		m.addGolden(t, "twoop", append([]string{"import"}, c.captures["twoop"]...)...)
	}, driverSteps,
		coresInReset)
}

// driverSteps: windows of each size as smaller ones run out, all gone; a second replay, which is
// turned away and leaves the first unharmed; the clock, which is fast while a replay has the card;
// kills, after which the driver puts the cores back into reset; a reset in the middle.
func driverSteps(c *card) string {
	return strings.NewReplacer("CARD", "tt:/dev/tenstorrent/0", "AGAIN",
		"golden tt:/dev/tenstorrent/0 /images/twoop.lmb", "CHIP", c.board, "SIZES",
		strings.Join(c.sizes, " "), "IDLE", c.clocks[0], "FAST", c.clocks[1]).Replace(`ready
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

// coresInReset wants the driver to have put cores back into reset, through the
// window that it keeps for itself, at the end of each replay, of the three that
// were killed too.
func coresInReset(t *testing.T, m *machine, c *card, _ string) {
	t.Helper()
	log, err := os.ReadFile(m.trace)
	if err != nil {
		t.Fatal(err)
	}
	stores, err := parseServed(bytes.NewReader(log), servedRegion(m.sockets[0], c.ownBar))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, a := range stores {
		if a == (access{true, c.ownOffset + 0xfb121b0&(c.ownSize-1), 4, 0x47800}) {
			count++
		}
	}
	ends := len(c.sizes) + 10 // without the replay that a reset ended
	if count < ends {
		t.Errorf("cores were put into reset by the driver %d times, want %d", count, ends)
	}
}

// chipLadderListing is ladderListing for a chip. Its last command makes a frame fail that read its
// result from a chip that hangs.
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

// TestVendorsDriverResetsAChipThatHangs has lminit take the step `reset function` of tt: devices.
// Wormhole hangs until its bus is reset, which the driver does first. Blackhole hangs until the
// driver resets it by configuration space. `./build.sh soak` measures 300 recoveries.
func TestVendorsDriverResetsAChipThatHangs(t *testing.T) {
	t.Parallel()
	isSoak := os.Getenv("LM_SOAK_FRAMES") != ""
	onDriver(t, func(t *testing.T, m *machine, c *card) {
		if m.ports = true; isSoak {
			m.timeout = time.Hour
		}
		m.with[0] = append(m.with[0], "--fault", "wedged-until=flr@600")
		m.addImage(t, "ladder", strings.NewReplacer("BOARD", c.board, "IDS", c.ids, "TILE", c.tile).
			Replace(chipLadderListing))
	}, func(*card) string {
		count := "3"
		if isSoak {
			count = "300"
		}
		return strings.ReplaceAll(`ready
recovers tt:/dev/tenstorrent/0 COUNT "reset function" "reset function COUNT wait 1ms, halt"
show-log tenstorrent
`, "COUNT", count)
	}, func(*testing.T, *machine, *card, string) {})
}
