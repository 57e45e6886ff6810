package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"lightmetal/hal"
	"lightmetal/tools/image/lmb/lmbtest"
	"lightmetal/tools/lmrun/faultlog"
)

// everyCommandListing returns a listing for the ivshmem device. Its sequence main has every kind of
// command with every width, with conditions that are met, and with conditions that are not met and
// ignored. It also has the sequences of failureSequences.
func everyCommandListing() string {
	var text strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }
	line(`lightmetal 1
target ivshmem 1af4:1110 bar2 1MiB
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
	// Each of these sequences ends with another command, because the walk ends after a sequence's
	// last command.
	line("lasts:\n  copy.8 ram+0x100 <- given[0:64]")
	lasts := []string{"write.1 ram+0x40 0x1", "write.2 ram+0x40 0x1", "write.8 ram+0x40 0x1"}
	for _, width := range []int{1, 2, 4, 8} {
		same := fmt.Sprintf("compare.%d ram+0x100 uint8 == pattern 0x77 size 64", width)
		lasts = append(lasts, same, same+"\n  write.4 ram+0x80 0x1")
	}
	for i := range lasts {
		line("  call last%d", i)
	}
	for i := range lasts {
		line("last%d:\n  %s", i, lasts[i])
	}
	line("many:")
	for range 3000 {
		line("  write.4 ram+0x80 0x1")
	}
	for _, name := range slices.Sorted(maps.Keys(failureSequences)) {
		line("%s:\n  %s", name, failureSequences[name].command)
	}
	line("wants:\n  copy.8 ram+0x0 <- due[:]\nsafe:\n  write.4 ram+0x24 0x5afe")
	return text.String()
}

// failureSequences are sequences whose only command fails, by name.
var failureSequences = map[string]struct {
	command string
	code    hal.Code // code of the failure
	flags   string   // flags of lmrun
}{
	"unequal":     {"expect.4 ram+0x40 == 0x77", hal.ExpectFailed, ""},
	"equal":       {"expect.2 ram+0x300 != 0xffff", hal.ExpectFailed, ""},
	"never":       {"poll.1 ram+0x40 == 0x77 within 200us", hal.DeadlinePassed, ""},
	"never-every": {"poll.4 ram+0x40 == 0x77 within 200us every 20us", hal.DeadlinePassed, ""},
	"differs":     {"compare.4 ram+0x100 uint8 == pattern 0x79 size 64", hal.CompareFailed, ""},
	"config":      {"expect.2 cfg+0x0 == 0x77", hal.ExpectFailed, ""},
	"late-poll":   {"poll.4 ram+0x40 == 0x77 within 10s", hal.FrameLate, "-deadline 5ms"},
	"late-sleep": {"poll.4 ram+0x40 == 0x77 within 10s every 60ms", hal.FrameLate,
		"-deadline 5ms"},
	"late-delay": {"delay 3s", hal.FrameLate, "-deadline 5ms"},
}

// TestShippedProgramGoesThroughEveryCommand makes lmrun execute everyCommandListing, sealed and not
// sealed, and each of its failing sequences.
func TestShippedProgramGoesThroughEveryCommand(t *testing.T) {
	t.Parallel()
	_, console := runInside(t, func(m *machine) {
		m.processors = 2 // PID 1 and lmrun run in parallel
		m.files["/i.lmb"] = lmbtest.File(t, everyCommandListing())
		var r runSteps
		for _, flags := range []string{"", "-seal",
			"-seal -json -loop 2 -deadline 60s -before many -after many"} {
			r.addRun(hal.OK, "", append(strings.Fields(flags), "-device", "pci:1af4:1110", "-input",
				"due=/eight", "-output", "got=/tmp/got", "/i.lmb")...)
		}
		r.addRun(hal.OK, "", "-device", "pci:1af4:1110", "-sequence", "lasts", "-input",
			"due=/eight", "/i.lmb")
		for _, name := range slices.Sorted(maps.Keys(failureSequences)) {
			f := failureSequences[name]
			r.addRun(f.code, f.code.Error(), append(strings.Fields(f.flags), "-device",
				"pci:1af4:1110", "-input", "due=/eight", "-sequence", name, "/i.lmb")...)
		}
		r.addRun(hal.InputMissing, hal.InputMissing.Error(), "-sequence", "wants", "/i.lmb")
		m.files["/faults"] = make([]byte, 4*faultlog.EntryBytes)
		for range 2 { // the second run reads the entry of the first
			r.addRun(hal.ExpectFailed, "", "-faults", "/faults", "-device", "pci:1af4:1110",
				"-input", "due=/eight", "-sequence", "unequal", "/i.lmb")
		}
		m.files["/eight"] = []byte("12345678")
		m.addRejectedRuns(t, &r)
		m.addSteps(r.steps.String())
	}, "pci", "ready\n")
	t.Log(console)
}

// addRejectedRuns adds runs that lmrun rejects before it executes a command, and a check of an
// image whose envelope is large enough for huge pages.
func (m *machine) addRejectedRuns(t *testing.T, r *runSteps) {
	t.Helper()
	const window = "\nwindow ram bar2 offset 0x0 size 64KiB\n"
	for path, text := range map[string]string{
		"/larger": "target ivshmem 1af4:1110 bar2 2MiB" + window + "main:\n  fence",
		"/subsystem": "target ivshmem 1af4:1110 subsystem 1234:5678 bar2 1MiB" + window +
			"main:\n  fence",
		"/arena": "target ivshmem 1af4:1110 bar2 1MiB" + window +
			"tensor t output uint64[65536x65536]\nmain:\n  copy.4 t[0:4] <- ram+0x0",
		"/many": "target ivshmem 1af4:1110 bar2 1MiB" + window + "main:\n" +
			strings.Repeat("  write.4 ram+0x0 0x1\n", 66000),
	} {
		m.files[path] = lmbtest.File(t, "lightmetal 1\n"+text+"\n")
	}
	r.addRun(hal.WrongDevice, "bytes of BAR 2", "/larger")
	r.addRun(hal.WrongDevice, "subsystem", "/subsystem")
	r.addRun(hal.BadImage, "bytes for tensors", "/arena")
	r.addRun(hal.OK, "", "-check", "/many")
	r.addRun(hal.BadImage, "but the limit is", "-longest", "1us", "/i.lmb")
	r.addRun(hal.WrongDevice, "it is for ivshmem", "-device", "pci:1234:11e8", "/i.lmb")
	r.addRun(hal.Usage, "but 2 were named", "-device", "pci:1af4:1110", "-device", "pci:1234:11e8",
		"/i.lmb")
	r.addRun(hal.Usage, "but -device names 2", "-check", "-device", "pci:1af4:1110", "-device",
		"pci:1234:11e8",
		"/i.lmb")
	for _, name := range []string{"usb:1", "pci:12:34", "vfio:", "tt:", "tt:0"} {
		r.addRun(hal.Usage, "unknown device", "-device", name, "/i.lmb")
	}
	r.addRun(hal.Usage, "the image has no TLB window", "-window", "3", "/i.lmb")
	r.addRun(hal.NoFile, "", "/none")
	r.addRun(hal.BadImage, "is not a regular file", "/tmp")
	r.addRun(hal.NoDevice, "", "-device", "pci:1e52:401e", "/i.lmb")
}

// TestShippedProgramGoesThroughTLBWindowsOfAChip makes lmrun program TLB windows of each chip, with
// each backend and with targets of every kind. Some runs fail, and some name a device that lmrun
// cannot use.
func TestShippedProgramGoesThroughTLBWindowsOfAChip(t *testing.T) {
	t.Parallel()
	for _, backend := range append(slices.Clone(servedBackends), vendorDriverBackend) {
		for i := range allChips {
			c := &allChips[i]
			t.Run(c.board+" "+backend.name, func(t *testing.T) {
				m, console := runInside(t, func(m *machine) {
					backend.setUp(t, m)
					m.addServed(t, "mock:"+c.board)
					m.addChipRuns(t, c, backend.name)
				}, backend.name, "ready "+c.board+" ivshmem\n")
				if m.serversErr != nil {
					t.Error(m.serversErr)
				}
				t.Log(console)
			})
		}
	}
}

// addChipRuns adds runs of images on a chip. The images check their own results.
func (m *machine) addChipRuns(t *testing.T, c *chip, backend string) {
	t.Helper()
	m.addTileImages(t, c)
	path, _ := makeImage(t, append([]string{"import"}, c.captures["twoop"]...)...)
	m.addFile(t, "/images/"+c.board+"/twoop.lmb", path)
	device := backend + ":" + c.ids
	var r runSteps
	m.files["/i.lmb"] = lmbtest.File(t, everyCommandListing())
	if backend == "tt" {
		device = "tt:/dev/tenstorrent/0"
	} else {
		r.addRun(hal.OK, "", "-seal", "-device", backend+":1af4:1110", "-input", "due=/eight",
			"/i.lmb")
		m.files["/eight"] = []byte("12345678")
	}
	for _, name := range []string{"twoop", "hosted", "rectangle", "combined"} {
		r.addRun(hal.OK, "done", "-device", device, "/images/"+c.board+"/"+name+".lmb")
		r.addRun(hal.OK, "done", "-device", device, "-seal", "-loop", "2", "-deadline", "60s",
			"/images/"+c.board+"/"+name+".lmb")
	}
	// The mock has no virtual channels. The image has a Point command with a virtual channel, but
	// never executes it.
	m.addImage(t, "channel",
		fmt.Sprintf("lightmetal 1\ntarget %s %s bar0 512MiB\nwindow l1 tlb size 1MiB\nmain:\n"+
			"  point l1 tile %s address 0x0\n  write.4 l1+0x0 0x1\n  call aimed\naimed:\n"+
			"  point l1 tile %[3]s address 0x0\nnever:\n  point l1 tile %[3]s address 0x0 vc 0\n",
			c.board, c.ids, c.tile))
	if backend == "tt" && c.board == "wormhole" { // the driver of Wormhole sets no channel
		r.addRun(hal.Refused, "TLB windows cannot point to these tiles", "-device", device,
			"/images/channel.lmb")
	} else {
		r.addRun(hal.OK, "done", "-device", device, "/images/channel.lmb")
	}
	for _, slot := range c.windowSlots {
		want := hal.OK
		if backend == "tt" {
			want = hal.NoDevice // the driver chooses the TLB window
		}
		r.addRun(want, "", "-device", device, "-window", slot, "/images/"+c.board+"/twoop.lmb")
	}
	r.addRun(hal.NoDevice, "", "-device", device, "-window", "9999",
		"/images/"+c.board+"/twoop.lmb")
	r.addRun(hal.WrongDevice, "", "-device", device, "/i.lmb")
	m.addSteps(r.steps.String())
}
