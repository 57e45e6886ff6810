package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lightmetal/boards/chips"
	"lightmetal/hal"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/lmb/lmbtest"
)

// bareLimit ends a firmware that hangs. One takes a second or two on an idle host.
const bareLimit = 5 * time.Minute

// bareRun is a finished run of a machine without an operating system.
type bareRun struct {
	bareMachine
	exit    int
	console string
}

// firmware returns the path of a firmware that build.sh has built.
func firmware(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" && os.Getenv("LM_GUEST_REQUIRED") == "1" {
		t.Fatalf("%s is not set, and LM_GUEST_REQUIRED=1 asks for it", variable)
	} else if path == "" {
		t.Skipf("needs QEMU and a firmware without an operating system (%s is not set); run "+
			"`./build.sh test guest`", variable)
	}
	return path
}

// runFirmware boots the firmware with entries of flash 1, and requires the exit status of a code.
func runFirmware(t *testing.T, want hal.Code, entries []flashEntry,
	setUp func(*bareMachine)) bareRun {
	t.Helper()
	var console bytes.Buffer
	dir := t.TempDir()
	b := bareMachine{
		machine: &machine{dir: dir, trace: filepath.Join(dir, "trace"), timeout: bareLimit,
			stdout: &console},
		firmware: firmware(t, "LM_GUEST_BARE"),
		entries:  entries,
	}
	if setUp != nil {
		setUp(&b)
	}
	exit, err := b.boot()
	if err != nil {
		t.Fatal(err)
	}
	if exit != want.ExitStatus() {
		t.Fatalf("exit status %d, want %d (%v); the console:\n%s", exit, want.ExitStatus(), want,
			&console)
	}
	return bareRun{b, exit, console.String()}
}

// prints requires texts on the console.
func (r bareRun) prints(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.console, text) {
			t.Errorf("the console does not have %q:\n%s", text, r.console)
		}
	}
}

// output returns the bytes of an output that the firmware has dumped, after it has compared the
// printed checksum with them.
func (r bareRun) output(t *testing.T, name string) []byte {
	t.Helper()
	_, rest, found := strings.Cut(r.console, "\noutput "+name+": ")
	line, rest, _ := strings.Cut(rest, "\n")
	var data []byte
	for text := range strings.Lines(rest) {
		if !strings.HasPrefix(text, "  ") {
			break
		}
		part, err := hex.DecodeString(strings.TrimSpace(text))
		if err != nil {
			t.Fatal(err)
		}
		data = append(data, part...)
	}
	sum := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	if !found || !strings.Contains(line, fmt.Sprintf("CRC-32C %08x:", sum)) {
		t.Errorf("output %s: no line with CRC-32C %08x, have %q", name, sum, line)
	}
	return data
}

// number returns the number in the console's only text that matches a pattern.
func (r bareRun) number(t *testing.T, pattern string) int {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(r.console)
	if found == nil {
		t.Fatalf("the console does not match %q:\n%s", pattern, r.console)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// reached returns the accesses to a region that QEMU saw.
func (r bareRun) reached(t *testing.T, of region) []access {
	t.Helper()
	return r.qemuTrace(t, of)
}

// listingImage returns the image of a listing in testdata, decoded and as a file.
func listingImage(t *testing.T, name string) (*lmb.Image, []byte) {
	t.Helper()
	text, err := os.ReadFile("../../../testdata/listings/" + name + ".lms")
	if err != nil {
		t.Fatal(err)
	}
	file := lmbtest.File(t, string(text))
	image, err := lmb.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	return image, file
}

// budgets are those that runs are compared with: 0 runs at once, others in slices of a cyclic task.
var budgets = []uint32{0, 1, 64}

// withBudget appends the entry for a budget.
func withBudget(entries []flashEntry, budget uint32) []flashEntry {
	if budget == 0 {
		return entries
	}
	data := littleEndian(uint64(budget))[:4]
	return append(entries[:len(entries):len(entries)], flashEntry{kind: flashBudget, data: data})
}

// TestBareFirmwareReplaysOnEdu compares the accesses of a run with what the image says, and its
// output with the golden data; then with another input.
func TestBareFirmwareReplaysOnEdu(t *testing.T) {
	t.Parallel()
	image, file := listingImage(t, "edu-factorial")
	for _, budget := range budgets {
		t.Run(fmt.Sprint("budget ", budget), func(t *testing.T) {
			entries := []flashEntry{{kind: flashImage, data: file}, {kind: flashDump}}
			r := runFirmware(t, hal.OK, withBudget(entries, budget), nil)
			r.prints(t, "device edu 1234:11e8 at 00:02.0\n", "  BAR 0: 1 MiB at 0x1",
				"result: uint32[1], CRC-32C ", ": 479001600\n")
			plan := expanded(t, image, "main")
			failed, rest, err := plan.match(r.reached(t, edu))
			if failed != "" || len(rest) != 0 || err != nil {
				t.Errorf("failed at %q, %d accesses left over, %v", failed, len(rest), err)
			}
			if got := r.output(t, "result"); !bytes.Equal(got, plan.outputs["result"]) {
				t.Errorf("output %x, the device returned %x", got, plan.outputs["result"])
			}
			t.Logf("evidence: %d accesses without an operating system equal to QEMU's own trace",
				len(r.reached(t, edu)))
		})
	}
	t.Run("another input", func(t *testing.T) {
		r := runFirmware(t, hal.OK, []flashEntry{{kind: flashImage, data: file},
			{flashInput, "n", []byte{5, 0, 0, 0}}, {kind: flashRun, name: "compute"}}, nil)
		r.prints(t, "compute: done", "result: uint32[1], CRC-32C ", ": 120\n")
	})
}

// transfers are listings that copy an input to an output by DMA.
var transfers = []struct {
	name, input string
	size        int
	of          region
}{
	{"edu-dma", "data", 4095, edu},
	{"nvme", "blocks", 32 << 10, nvme},
}

// TestBareFirmwareMovesDataByDMA sends new data through a device's DMA. QEMU's trace has the
// image's accesses to registers.
func TestBareFirmwareMovesDataByDMA(t *testing.T) {
	t.Parallel()
	for i, c := range transfers {
		image, file := listingImage(t, c.name)
		data := xorshift32(90+uint32(i), (c.size+3)/4*4)[:c.size]
		for _, budget := range budgets {
			t.Run(fmt.Sprint(c.name, " budget ", budget), func(t *testing.T) {
				entries := []flashEntry{{kind: flashImage, data: file},
					{flashInput, c.input, data}, {kind: flashRun, name: "transfer"},
					{kind: flashDump}}
				r := runFirmware(t, hal.OK, withBudget(entries, budget), nil)
				if got := r.output(t, "result"); !bytes.Equal(got, data) {
					t.Error("the output is not the input")
				}
				plan, err := expand(image, "transfer", c.of, map[string][]byte{c.input: data})
				if err != nil {
					t.Fatal(err)
				}
				trace := r.reached(t, c.of)
				failed, rest, err := plan.match(trace)
				if failed != "" || len(rest) != 0 || err != nil {
					t.Errorf("failed at %q, %d accesses left over, %v", failed, len(rest), err)
				}
				if c.name == "nvme" {
					onDisk(t, r.machine, data, 0)
				}
			})
		}
	}
}

// TestBareFirmwareReplaysOnAServedWormhole runs twoop with its own and with other inputs on a
// Wormhole with BARs of 512 MiB, which only the machine's high window has room for.
func TestBareFirmwareReplaysOnAServedWormhole(t *testing.T) {
	t.Parallel()
	const path = "../../../testdata/images/wh.twoop.lmb"
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	image, err := lmb.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	golden := image.Tensors[len(image.Tensors)-1].Data
	a, b := xorshift32(95, 1024), xorshift32(96, 1024)
	for i := 3; i < len(a); i += 4 { // sums of two stay within int32
		a[i], b[i] = a[i]&0x3f, b[i]&0x3f
	}
	tests := []struct {
		name   string
		inputs []flashEntry
		want   []byte
	}{
		{"its own inputs", nil, golden},
		{"other inputs", []flashEntry{{flashInput, "a", a}, {flashInput, "b", b}},
			replayedOnMock(t, path, a, b)},
	}
	for _, test := range tests {
		for _, budget := range budgets {
			t.Run(fmt.Sprint(test.name, " budget ", budget), func(t *testing.T) {
				entries := append([]flashEntry{{kind: flashImage, data: file}, {kind: flashDump}},
					test.inputs...)
				r := runFirmware(t, hal.OK, withBudget(entries, budget), func(b *bareMachine) {
					b.serveTo(t, "mock:wormhole")
				})
				if r.served != nil {
					t.Error(r.served)
				}
				r.prints(t, "device wormhole 1e52:401e at 00:08.0\n",
					"  BAR 0: 512 MiB at 0x8000000000\n")
				if got := r.output(t, "d"); !bytes.Equal(got, test.want) {
					t.Errorf("d is %x, want %x", got, test.want)
				}
				if test.inputs == nil {
					r.sawWormholeRun(t, image)
				}
			})
		}
	}
}

// sawWormholeRun requires QEMU's trace of the served Wormhole to be that of a run of main, with the
// image's window in the TLB window that it prefers.
func (r bareRun) sawWormholeRun(t *testing.T, image *lmb.Image) {
	t.Helper()
	board := chips.BoardByName("wormhole")
	for _, bar := range []uint8{0, 4} {
		of := region{vendor: board.Vendor, device: board.Device, bar: bar}
		in := from(int(image.Windows[0].Slot), image, of)
		plan, err := expandIn(image, "main", of, in, nil)
		if err != nil {
			t.Fatal(err)
		}
		failed, rest, err := plan.match(r.servedTrace(t, 0, bar))
		if failed != "" || len(rest) != 0 || err != nil {
			t.Errorf("BAR %d: failed at %q, %d accesses left over, %v", bar, failed, len(rest), err)
		}
	}
}

// replayedOnMock returns the output d of twoop with inputs, as the Go runtime computes it on the
// mock in another process.
func replayedOnMock(t *testing.T, image string, a, b []byte) []byte {
	t.Helper()
	dir := t.TempDir()
	args := []string{"replay", "--device", "mock:wormhole"}
	for name, data := range map[string][]byte{"a": a, "b": b} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--input", name+"="+path)
	}
	result := filepath.Join(dir, "d")
	args = append(args, "--output", "d="+result, image)
	if out, err := exec.Command(tool(t, "LM_GUEST_LM"), args...).CombinedOutput(); err != nil {
		t.Fatalf("lm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	data, err := os.ReadFile(result)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestBareFirmwareEndsWithTheStatusOfItsFailure has one case for each exit status that the
// firmware can have.
func TestBareFirmwareEndsWithTheStatusOfItsFailure(t *testing.T) {
	t.Parallel()
	flipped, err := os.ReadFile("../../../testdata/bad/flipped-bit.lmb")
	if err != nil {
		t.Fatal(err)
	}
	_, factorial := listingImage(t, "edu-factorial")
	_, crypto := listingImage(t, "virtio-crypto") // a device that the machine does not have
	encoded := func(image *lmb.Image) []byte {
		file, err := lmb.Encode(image)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	safe := lmb.Sequence{Name: "safe", Commands: []lmb.Command{write(0x64, 0xffffffff)}}
	late := encoded(eduImage(mainOf(write(8, 12), poll(0x20, 0x80, 0x80, 1000)), safe))
	wrong := encoded(eduImage(mainOf(write(4, 1), expect(0, 0x010000ee)), safe))
	tests := []struct {
		name    string
		want    hal.Code
		entries []flashEntry
		prints  string
	}{
		{"no image", hal.Usage, []flashEntry{{kind: flashDump}}, "flash 1 has no image"},
		{"damaged image", hal.BadImage, []flashEntry{{kind: flashImage, data: flipped}},
			"bad image: "},
		{"no such sequence", hal.Usage, []flashEntry{{kind: flashImage, data: factorial},
			{kind: flashRun, name: "frame"}}, "frame: usage: the image has no such sequence"},
		{"no such input", hal.Usage, []flashEntry{{kind: flashImage, data: factorial},
			{flashInput, "m", []byte{1, 2, 3, 4}}}, "usage: the image has no input of a name"},
		{"input of another size", hal.Usage, []flashEntry{{kind: flashImage, data: factorial},
			{flashInput, "n", []byte{1, 2}}}, "usage: the data of an input have another size"},
		{"no such device", hal.NoDevice, []flashEntry{{kind: flashImage, data: crypto}},
			"device unavailable: no function on bus 0 has these PCI ids"},
		{"poll that never holds", hal.DeadlinePassed, []flashEntry{{kind: flashImage, data: late}},
			"poll deadline passed: command 1 of the image, got 0x"},
		{"expect that does not hold", hal.ExpectFailed,
			[]flashEntry{{kind: flashImage, data: wrong}},
			"expect failed: command 1 of the image, got 0x10000ed, want 0x10000ee, " +
				"mask 0xffffffff; safe: done"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := runFirmware(t, test.want, test.entries, nil)
			r.prints(t, test.prints)
		})
	}
}

// TestBareFirmwareReportsAnErrorOnTheBus loads 1 byte where QEMU's USB controller accepts 4: the
// access ends with an external abort, and the sequence safe runs.
func TestBareFirmwareReportsAnErrorOnTheBus(t *testing.T) {
	t.Parallel()
	// Device qemu-xhci: hw/usb/hcd-xhci.c, xhci_oper_ops, whose registers start at 0x40. DNCTRL, at
	// 0x54, keeps what is stored.
	file := lmbtest.File(t, `lightmetal 1
device xhci 1b36:000d bar0 16KiB
rule registers bar0 widths 1 4
window regs bar0 offset 0x0 size 16KiB
main:
  write.4  regs+0x54 0x5
  expect.4 regs+0x54 == 0x5
  read.1   regs+0x54
  write.4  regs+0x54 0x7
safe:
  write.4  regs+0x54 0x1
`)
	of := region{"operational", 0x1b36, 0x000d, 0, 16 << 10}
	want := []access{{true, 0x54, 4, 5}, {false, 0x54, 4, 5}, {true, 0x54, 4, 1}}
	for _, budget := range budgets[:2] {
		t.Run(fmt.Sprint("budget ", budget), func(t *testing.T) {
			entries := []flashEntry{{kind: flashImage, data: file}}
			r := runFirmware(t, hal.BusFault, withBudget(entries, budget), func(b *bareMachine) {
				b.extra = []string{"-device", "qemu-xhci,addr=6"}
			})
			r.prints(t, "bus fault: command 2 of the image", "; safe: done")
			if got := r.reached(t, of); !slices.Equal(got, want) {
				t.Errorf("QEMU saw %v, want %v", got, want)
			}
		})
	}
}

// TestBareFirmwareEnablesBusMasteringOnlyForDMA looks at the stores to the command register of edu
// in configuration space.
func TestBareFirmwareEnablesBusMasteringOnlyForDMA(t *testing.T) {
	t.Parallel()
	const (
		command   = 2<<15 | 4 // of 00:02.0 in ECAM
		busMaster = 1 << 2
		memory    = 1 << 1
	)
	ecam := region{name: "pcie-mmcfg-mmio", size: 256 << 20}
	for name, want := range map[string][]uint64{
		"edu-factorial": {0, memory, 0},
		"edu-dma":       {0, memory, memory | busMaster, memory, 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, file := listingImage(t, name)
			r := runFirmware(t, hal.OK, []flashEntry{{kind: flashImage, data: file}}, nil)
			var got []uint64
			for _, a := range r.reached(t, ecam) {
				if a.store && a.offset == command {
					got = append(got, a.value)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("the command register was set to %x, want %x", got, want)
			}
		})
	}
}

// TestBareFirmwareTakesTheSameInstructionsEachTime: -icount makes time a count of instructions.
func TestBareFirmwareTakesTheSameInstructionsEachTime(t *testing.T) {
	t.Parallel()
	_, file := listingImage(t, "edu-factorial")
	entries := []flashEntry{{kind: flashImage, data: file}}
	const pattern = `first store into a BAR: (\d+) ns after reset`
	first := runFirmware(t, hal.OK, entries, nil)
	second := runFirmware(t, hal.OK, entries, nil)
	count := first.number(t, pattern)
	if again := second.number(t, pattern); count != again || count == 0 {
		t.Errorf("%d instructions, then %d", count, again)
	}
	stack := first.number(t, `stack: (\d+) of 16384 bytes used`)
	if stack == 0 || stack > 4096 {
		t.Errorf("%d bytes of stack used, want some and at most 4096", stack)
	}
	t.Logf("evidence: %d instructions from reset to the first store (no operating system)", count)
}

// TestGuestBareIsAProgram runs the command `guest bare`, as build.sh does.
func TestGuestBareIsAProgram(t *testing.T) {
	t.Parallel()
	path := firmware(t, "LM_GUEST_BARE")
	dir := t.TempDir()
	n := filepath.Join(dir, "n")
	if err := os.WriteFile(n, []byte{6, 0, 0, 0}, 0o644); err != nil {
		t.Fatal(err)
	}
	common := []string{"bare", "-firmware", path, "-dir", dir, "-timeout", bareLimit.String()}
	const image = "../../../testdata/images/edu-factorial.lmb"
	tests := []struct {
		name string
		args []string
		exit int
	}{
		{"all flags", []string{"-input", "n=" + n, "-sequence", "compute", "-budget", "3", "-dump",
			image}, 0},
		{"no image", nil, exitUsage},
		{"no such image", []string{filepath.Join(dir, "none.lmb")}, exitNoFile},
		{"no such input file", []string{"-input", "n=" + n + "x", image}, exitNoFile},
		{"input without a file", []string{"-input", "n", image}, exitUsage},
		{"no such sequence", []string{"-sequence", "other", image}, exitUsage},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			args := append(common[:len(common):len(common)], test.args...)
			if exit, err := run(args); exit != test.exit {
				t.Errorf("exit status %d, want %d: %v", exit, test.exit, err)
			}
		})
	}
}

// TestZephyrSampleRunsOnStubbedCalls runs the sample for Zephyr, compiled against a stub of the
// calls that it uses, on the machine without an operating system.
func TestZephyrSampleRunsOnStubbedCalls(t *testing.T) {
	t.Parallel()
	folder := firmware(t, "LM_GUEST_ZEPHYR")
	for name, want := range map[string]string{
		"edu-factorial": "output result, 4 bytes: 00 fc 8c 1c\n",
		"edu-dma":       "output result, 4095 bytes: ",
		"nvme":          "output result, 32768 bytes: ",
	} {
		t.Run(name, func(t *testing.T) {
			image, _ := listingImage(t, name)
			r := runFirmware(t, hal.OK, nil, func(b *bareMachine) {
				b.firmware = filepath.Join(folder, name+".bin")
			})
			r.prints(t, "main: code 0, command 0\n", want)
			of := edu
			if name == "nvme" {
				of = nvme
			}
			plan, err := expand(image, "main", of, nil)
			if err != nil {
				t.Fatal(err)
			}
			failed, rest, err := plan.match(r.reached(t, of))
			if failed != "" || len(rest) != 0 || err != nil {
				t.Errorf("failed at %q, %d accesses left over, %v", failed, len(rest), err)
			}
		})
	}
}

// TestFlashHasEachEntryWhereItsHeaderSays needs no machine.
func TestFlashHasEachEntryWhereItsHeaderSays(t *testing.T) {
	entries := []flashEntry{{flashImage, "", []byte("image")}, {kind: flashRun, name: "frame"},
		{flashInput, "a", bytes.Repeat([]byte{7}, 5000)}}
	flash, err := encodeFlash(entries)
	if err != nil {
		t.Fatal(err)
	}
	number32 := func(at int) int { return int(number(flash[at : at+4])) }
	if string(flash[:8]) != "LMFLASH1" || number32(8) != len(entries) || number32(12) != 0 {
		t.Fatalf("header %x", flash[:16])
	}
	for i, e := range entries {
		at := 16 + 24*i
		name, data := number32(at+4), number32(at+12)
		gotName := string(flash[name : name+number32(at+8)])
		gotData := flash[data : data+number32(at+16)]
		if flashKind(number32(at)) != e.kind || gotName != e.name ||
			!bytes.Equal(gotData, e.data) || number32(at+20) != 0 {
			t.Errorf("entry %d: %x, name %q, %d bytes", i, flash[at:at+24], gotName, len(gotData))
		}
		if len(e.data) > 0 && data%flashPage != 0 {
			t.Errorf("entry %d: data at %#x", i, data)
		}
	}
	large := []flashEntry{{flashImage, "", make([]byte, flashSize)}}
	if _, err := encodeFlash(large); err == nil {
		t.Error("accepted: data as large as the flash")
	}
}

// TestFlashIsPackedWithoutAMachine writes flash 1 to a file, for a machine of somebody else.
func TestFlashIsPackedWithoutAMachine(t *testing.T) {
	const image = "../../../testdata/images/edu-factorial.lmb"
	path := filepath.Join(t.TempDir(), "flash1.img")
	exit, err := runBare([]string{"-pack", path, "-sequence", "compute", image})
	if exit != 0 || err != nil {
		t.Fatalf("exit status %d: %v", exit, err)
	}
	got, err := os.ReadFile(path)
	if err != nil || len(got) != flashSize {
		t.Fatalf("%d bytes, not %d: %v", len(got), flashSize, err)
	}
	entries, err := flashEntries(image, nil, []string{"compute"}, false)
	if err != nil {
		t.Fatal(err)
	}
	want, err := encodeFlash(entries)
	if err != nil || !bytes.Equal(got[:len(want)], want) {
		t.Errorf("flash 1 does not have the image and the sequence's name: %v", err)
	}
	if exit, err := runBare([]string{"-pack", path, "/nonexistent"}); exit != exitNoFile {
		t.Errorf("exit status %d without an image, not %d: %v", exit, exitNoFile, err)
	}
}
