package main

import (
	"fmt"
	"strings"
)

// everyCommand returns the lines of a listing for the ivshmem device, up to the end of its
// sequence main. It has every kind of command with every width, with conditions that are met, and
// with conditions that are not met and ignored.
func everyCommand() string {
	var text strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }
	line(`target ivshmem 1af4:1110 bar2 1MiB
window ram bar2 offset 0x0 size 1MiB
window wc bar2 offset 0x0 size 1MiB wc
window cfg config size 256
tensor given input uint8[256] = pattern 0x77 size 256
tensor due input uint8[8]
tensor got output uint8[512]
init:
  delay 20us
main:
  begin "all of it"`)
	for _, width := range []int{1, 2, 4, 8} {
		ones := strings.Repeat("ff", width)
		line("  write.%d ram+0x40 0x11", width)
		line("  expect.%d ram+0x40 == 0x11", width)
		line("  expect.%d ram+0x40 & 0xf != 0x2", width)
		line("  expect.%d ram+0x40 any-set 0x10", width)
		line("  expect.%d ram+0x40 & 0xff reached 0x10", width)
		line("  expect.%d ram+0x40 & 0xff reached 0x12 else ignore", width)
		line("  expect.%d ram+0x40 == 0x12 else ignore", width)
		line("  write.%d ram+0x40 0x1 mask 0xff", width)
		line("  write.%d ram+0x48 0x%s", width, ones)
		line("  expect.%d ram+0x48 == 0x%s", width, ones)
		line("  expect.%d ram+0x48 != 0x1", width)
		line("  write.%d ram+0x48 0x1 mask 0xff", width)
		line("  read.%d ram+0x48", width)
		line("  poll.%d ram+0x40 == 0x1 within 1s", width)
		line("  poll.%d ram+0x40 == 0x1 within 1s every 10us", width)
		line("  poll.%d ram+0x40 == 0x2 within 50us else ignore", width)
		line("  poll.%d ram+0x40 != 0x1 within 200us every 20us else ignore", width)
		line("  write.%d ram+0x48 0x%s", width, ones)
		line("  poll.%d ram+0x48 == 0x2 within 50us else ignore", width)
		line("  copy.%d ram+0x100 <- given[0:64]", width)
		line("  copy.%d ram+0x200 <- given[0:64] fifo", width)
		line("  copy.%d got[0:64] <- ram+0x100", width)
		line("  copy.%d got[64:128] <- ram+0x100 fifo", width)
		line("  compare.%d ram+0x100 uint8 == pattern 0x77 size 64", width)
		line("  compare.%d ram+0x100 uint8 == pattern 0x78 size 64 else ignore", width)
		line("  fill.%d ram+0x300 <- 0x5a size 64", width)
		line("  fill.%d ram+0x300 <- 0x%s size 64 fifo", width, ones)
		line("  fill.%d ram+0x340 <- 0x%s size 64", width, ones)
		line("  copy.%d got[0:64] <- ram+0x340", width)
		line("  compare.%d ram+0x340 uint8 == pattern 0x78 size 64 else ignore", width)
		if width < 8 {
			line("  expect.%d cfg+0x0 & 0xff == 0xf4", width)
			line("  expect.%d cfg+0x0 & 0xff != 0xf5", width)
			line("  expect.%d cfg+0x0 & 0xff == 0xf5 else ignore", width)
			line("  poll.%d cfg+0x0 & 0xff == 0xf4 within 1s every 1us", width)
		}
	}
	for at := range 16 {
		for _, size := range []int{1, 2, 3, 5, 9, 17, 31, 40, 64, 127, 200} {
			line("  copy.8 wc+%#x <- given[0:%d] bulk", 0x1000+at, size)
			line("  copy.8 got[%d:%d] <- wc+%#x bulk", at, at+size, 0x1000+at)
		}
	}
	line(`  fence
  flush.4 ram+0x0
  delay 20us
  call init
  write.8 ram+0x60 bus(ram)
  write.4 ram+0x20 0x600d
  end "all of it"`)
	return text.String()
}
