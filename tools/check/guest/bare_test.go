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

// bareTimeout is the time limit of a boot. On an idle host, a boot takes a second or two.
const bareTimeout = 5 * time.Minute

// bareRun is a finished run of a machine without an operating system.
type bareRun struct {
	bareMachine
	exit    int    // exit status of the firmware
	console string // text that the firmware printed
}

// firmwareFromEnv returns the path of a firmware in an environment variable that build.sh sets. If
// the variable is not set, the test is skipped, or fails if LM_GUEST_REQUIRED is 1.
func firmwareFromEnv(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" && os.Getenv("LM_GUEST_REQUIRED") == "1" {
		t.Fatalf("%s is not set, but LM_GUEST_REQUIRED=1 requires it", variable)
	} else if path == "" {
		t.Skipf("needs QEMU and a firmware without an operating system (%s is not set); run "+
			"`./build.sh test guest`", variable)
	}
	return path
}

// runFirmware boots the firmware with the given entries of flash 1, and requires the exit status of
// the code `want`. The function setUp, if it is not nil, changes the machine before the boot.
func runFirmware(t *testing.T, want hal.Code, entries []flashEntry,
	setUp func(*bareMachine)) bareRun {
	t.Helper()
	var console bytes.Buffer
	dir := t.TempDir()
	b := bareMachine{
		machine: &machine{dir: dir, traceFile: filepath.Join(dir, "trace"), timeout: bareTimeout,
			stdout: &console},
		firmwarePath: firmwareFromEnv(t, "LM_GUEST_BARE"),
		entries:      entries,
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

// requireOnConsole requires that the console has all given texts.
func (r bareRun) requireOnConsole(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.console, text) {
			t.Errorf("the console does not have %q:\n%s", text, r.console)
		}
	}
}

// dumpedOutput returns the bytes of an output that the firmware has printed. It requires that the
// printed checksum fits the bytes.
func (r bareRun) dumpedOutput(t *testing.T, name string) []byte {
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

// consoleNumber returns the number in the first match of a pattern on the console.
func (r bareRun) consoleNumber(t *testing.T, pattern string) int {
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

// tracedAccesses returns the accesses to a region in QEMU's trace.
func (r bareRun) tracedAccesses(t *testing.T, traced region) []access {
	t.Helper()
	return r.qemuTrace(t, traced)
}

// encodeListing returns the image file of a listing in testdata.
func encodeListing(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("../../../testdata/listings/" + name + ".lms")
	if err != nil {
		t.Fatal(err)
	}
	return lmbtest.File(t, string(text))
}

// sliceBudgets are the budgets with which tests run the firmware. With 0, a sequence runs at once.
// Otherwise it runs in slices of that many units, as in a cyclic task.
var sliceBudgets = []uint32{0, 1, 64}

// withBudget returns the entries with one more entry for a budget.
func withBudget(entries []flashEntry, budget uint32) []flashEntry {
	if budget == 0 {
		return entries
	}
	data := littleEndianBytes(uint64(budget))[:4]
	return append(slices.Clip(entries), flashEntry{kind: flashKindBudget, data: data})
}

// TestBareFirmwareReplaysOnEdu compares the accesses of a run with those that the image requires,
// and the output with the value that edu returned. Then it runs the image with another input.
func TestBareFirmwareReplaysOnEdu(t *testing.T) {
	t.Parallel()
	file := encodeListing(t, "edu-factorial")
	for _, budget := range sliceBudgets {
		t.Run(fmt.Sprint("budget ", budget), func(t *testing.T) {
			entries := []flashEntry{{kind: flashKindImage, data: file}, {kind: flashKindDump}}
			r := runFirmware(t, hal.OK, withBudget(entries, budget), nil)
			r.requireOnConsole(t, "device edu 1234:11e8 at 00:02.0\n", "  BAR 0: 1 MiB at 0x1",
				"result: uint32[1], CRC-32C ", ": 479001600\n")
			f := mustLoad(t, file, edu)
			f.requireRun(t, "main", r.tracedAccesses(t, edu))
			if got := r.dumpedOutput(t, "result"); !bytes.Equal(got, f.output("result")) {
				t.Errorf("output %x, the device returned %x", got, f.output("result"))
			}
			t.Logf("evidence: %d accesses without an operating system equal to QEMU's own trace",
				len(r.tracedAccesses(t, edu)))
		})
	}
	t.Run("another input", func(t *testing.T) {
		r := runFirmware(t, hal.OK, []flashEntry{{kind: flashKindImage, data: file},
			{flashKindInput, "n", []byte{5, 0, 0, 0}}, {kind: flashKindRun, name: "compute"}}, nil)
		r.requireOnConsole(t, "compute: done", "result: uint32[1], CRC-32C ", ": 120\n")
	})
}

// dmaListings are listings in testdata that copy an input to an output through DMA.
var dmaListings = []struct {
	name, input string
	size        int
	traced      region
}{
	{"edu-dma", "data", 4095, edu},
	{"nvme", "blocks", 32 << 10, nvmeRegion},
}

// TestBareFirmwareTransfersDataByDMA copies new data through a device's DMA, and compares QEMU's
// trace with the image's accesses to registers.
func TestBareFirmwareTransfersDataByDMA(t *testing.T) {
	t.Parallel()
	for i, c := range dmaListings {
		file := encodeListing(t, c.name)
		data := xorshift32(90+uint32(i), (c.size+3)/4*4)[:c.size]
		for _, budget := range sliceBudgets {
			t.Run(fmt.Sprint(c.name, " budget ", budget), func(t *testing.T) {
				entries := []flashEntry{{kind: flashKindImage, data: file},
					{flashKindInput, c.input, data}, {kind: flashKindRun, name: "transfer"},
					{kind: flashKindDump}}
				r := runFirmware(t, hal.OK, withBudget(entries, budget), nil)
				if got := r.dumpedOutput(t, "result"); !bytes.Equal(got, data) {
					t.Error("the output differs from the input")
				}
				f := mustLoad(t, file, c.traced)
				f.setInput(c.input, data)
				f.requireRun(t, "transfer", r.tracedAccesses(t, c.traced))
				if c.name == "nvme" {
					requireOnDisk(t, r.machine, data, 0)
				}
			})
		}
	}
}

// TestBareFirmwareReplaysOnAServedWormhole runs twoop with its default inputs and with other inputs
// on a Wormhole. Its BAR of 512 MiB fits only into the machine's high address window.
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
	for i := 3; i < len(a); i += 4 { // make the numbers small: sums of two must fit into int32
		a[i], b[i] = a[i]&0x3f, b[i]&0x3f
	}
	tests := []struct {
		name   string
		inputs []flashEntry
		want   []byte
	}{
		{"its own inputs", nil, golden},
		{"other inputs", []flashEntry{{flashKindInput, "a", a}, {flashKindInput, "b", b}},
			outputOfMock(t, path, a, b)},
	}
	for _, test := range tests {
		for _, budget := range sliceBudgets {
			t.Run(fmt.Sprint(test.name, " budget ", budget), func(t *testing.T) {
				entries := append([]flashEntry{{kind: flashKindImage, data: file},
					{kind: flashKindDump}}, test.inputs...)
				r := runFirmware(t, hal.OK, withBudget(entries, budget), func(b *bareMachine) {
					b.addServed(t, "mock:wormhole")
				})
				if r.serversErr != nil {
					t.Error(r.serversErr)
				}
				r.requireOnConsole(t, "device wormhole 1e52:401e at 00:08.0\n",
					"  BAR 0: 512 MiB at 0x8000000000\n")
				if got := r.dumpedOutput(t, "d"); !bytes.Equal(got, test.want) {
					t.Errorf("d is %x, want %x", got, test.want)
				}
				if test.inputs == nil {
					r.requireWormholeTrace(t, file)
				}
			})
		}
	}
}

// requireWormholeTrace requires that QEMU's trace of the served Wormhole has the accesses of a run
// of main, with the image's window in its preferred TLB window.
func (r bareRun) requireWormholeTrace(t *testing.T, file []byte) {
	t.Helper()
	board := chips.BoardByName("wormhole")
	for _, bar := range []uint8{0, 4} {
		traced := region{vendor: board.Vendor, device: board.Device, bar: bar}
		mustLoad(t, file, traced).requireRun(t, "main", r.servedTrace(t, 0, bar))
	}
}

// outputOfMock returns the output d of twoop for the inputs a and b: it runs `lm replay` on the
// mock.
func outputOfMock(t *testing.T, image string, a, b []byte) []byte {
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
	if out, err := exec.Command(fromEnv(t, "LM_GUEST_LM"), args...).CombinedOutput(); err != nil {
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
	factorial := encodeListing(t, "edu-factorial")
	crypto := encodeListing(t, "virtio-crypto") // a device that the machine does not have
	encode := func(image *lmb.Image) []byte {
		file, err := lmb.Encode(image)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	safe := lmb.Sequence{Name: "safe", Commands: []lmb.Command{writeCommand(0x64, 0xffffffff)}}
	late := encode(eduImage(mainSequence(writeCommand(8, 12),
		pollCommand(0x20, 0x80, 0x80, 1000)), safe))
	wrong := encode(eduImage(mainSequence(writeCommand(4, 1), expectCommand(0, 0x010000ee)), safe))
	tests := []struct {
		name    string
		want    hal.Code
		entries []flashEntry
		prints  string
	}{
		{"no image", hal.Usage, []flashEntry{{kind: flashKindDump}}, "flash 1 has no image"},
		{"damaged image", hal.BadImage, []flashEntry{{kind: flashKindImage, data: flipped}},
			"bad image: "},
		{"no such sequence", hal.Usage, []flashEntry{{kind: flashKindImage, data: factorial},
			{kind: flashKindRun, name: "frame"}}, "frame: usage: the image has no such sequence"},
		{"no such input", hal.Usage, []flashEntry{{kind: flashKindImage, data: factorial},
			{flashKindInput, "m", []byte{1, 2, 3, 4}}}, "usage: the image has no input of a name"},
		{"input of another size", hal.Usage, []flashEntry{{kind: flashKindImage, data: factorial},
			{flashKindInput, "n", []byte{1, 2}}}, "usage: the data of an input have another size"},
		{"no such device", hal.NoDevice, []flashEntry{{kind: flashKindImage, data: crypto}},
			"device unavailable: no function on bus 0 has these PCI ids"},
		{"failed poll", hal.DeadlinePassed, []flashEntry{{kind: flashKindImage, data: late}},
			"poll deadline passed: command 1 of the image, got 0x"},
		{"failed expect", hal.ExpectFailed,
			[]flashEntry{{kind: flashKindImage, data: wrong}},
			"expect failed: command 1 of the image, got 0x10000ed, want 0x10000ee, " +
				"mask 0xffffffff; safe: done"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := runFirmware(t, test.want, test.entries, nil)
			r.requireOnConsole(t, test.prints)
		})
	}
}

// TestBareFirmwareReportsAnErrorOnTheBus loads 1 byte from a register of QEMU's USB controller that
// accepts only 4 bytes. The access causes an external abort, and the sequence safe runs.
func TestBareFirmwareReportsAnErrorOnTheBus(t *testing.T) {
	t.Parallel()
	// The device is qemu-xhci (hw/usb/hcd-xhci.c, xhci_oper_ops), whose operational registers start
	// at 0x40. The register DNCTRL, at 0x54, returns the value that was stored.
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
	traced := region{"operational", 0x1b36, 0x000d, 0, 16 << 10}
	want := []access{{true, 0x54, 4, 5}, {false, 0x54, 4, 5}, {true, 0x54, 4, 1}}
	for _, budget := range sliceBudgets[:2] {
		t.Run(fmt.Sprint("budget ", budget), func(t *testing.T) {
			entries := []flashEntry{{kind: flashKindImage, data: file}}
			r := runFirmware(t, hal.BusFault, withBudget(entries, budget), func(b *bareMachine) {
				b.extraArgs = []string{"-device", "qemu-xhci,addr=6"}
			})
			r.requireOnConsole(t, "bus fault: command 2 of the image", "; safe: done")
			if got := r.tracedAccesses(t, traced); !slices.Equal(got, want) {
				t.Errorf("QEMU traced %v, want %v", got, want)
			}
		})
	}
}

// TestBareFirmwareEnablesBusMasteringOnlyForDMA checks the stores to edu's command register.
func TestBareFirmwareEnablesBusMasteringOnlyForDMA(t *testing.T) {
	t.Parallel()
	const (
		command   = 2<<15 | 4 // offset in ECAM of the command register of 00:02.0
		busMaster = 1 << 2
		memory    = 1 << 1
	)
	ecam := region{name: "pcie-mmcfg-mmio", size: 256 << 20}
	for name, want := range map[string][]uint64{
		"edu-factorial": {0, memory, 0},
		"edu-dma":       {0, memory, memory | busMaster, memory, 0},
	} {
		t.Run(name, func(t *testing.T) {
			file := encodeListing(t, name)
			r := runFirmware(t, hal.OK, []flashEntry{{kind: flashKindImage, data: file}}, nil)
			var got []uint64
			for _, a := range r.tracedAccesses(t, ecam) {
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

// TestBareFirmwareExecutesTheSameInstructionsEachTime compares the number of instructions of two
// runs. With QEMU's -icount, the time is the number of instructions.
func TestBareFirmwareExecutesTheSameInstructionsEachTime(t *testing.T) {
	t.Parallel()
	file := encodeListing(t, "edu-factorial")
	entries := []flashEntry{{kind: flashKindImage, data: file}}
	const pattern = `first store into a BAR: (\d+) ns after reset`
	first := runFirmware(t, hal.OK, entries, nil)
	second := runFirmware(t, hal.OK, entries, nil)
	count := first.consoleNumber(t, pattern)
	if secondCount := second.consoleNumber(t, pattern); count != secondCount || count == 0 {
		t.Errorf("%d instructions in the first run, %d in the second", count, secondCount)
	}
	stack := first.consoleNumber(t, `stack: (\d+) of 16384 bytes used`)
	if stack == 0 || stack > 4096 {
		t.Errorf("%d bytes of stack used, want 1 to 4096", stack)
	}
	t.Logf("evidence: %d instructions from reset to the first store (no operating system)", count)
}

// TestGuestBareCommandHasExpectedExitStatus runs the command `guest bare`, as build.sh does.
func TestGuestBareCommandHasExpectedExitStatus(t *testing.T) {
	t.Parallel()
	path := firmwareFromEnv(t, "LM_GUEST_BARE")
	dir := t.TempDir()
	n := filepath.Join(dir, "n")
	if err := os.WriteFile(n, []byte{6, 0, 0, 0}, 0o644); err != nil {
		t.Fatal(err)
	}
	common := []string{"bare", "-firmware", path, "-dir", dir, "-timeout", bareTimeout.String()}
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
			if exit, err := runGuest(args); exit != test.exit {
				t.Errorf("exit status %d, want %d: %v", exit, test.exit, err)
			}
		})
	}
}

// TestZephyrSampleRunsOnStubbedCalls runs the sample for Zephyr, compiled against a stub of the
// calls that it uses, on the machine without an operating system.
func TestZephyrSampleRunsOnStubbedCalls(t *testing.T) {
	t.Parallel()
	dir := firmwareFromEnv(t, "LM_GUEST_ZEPHYR")
	for name, want := range map[string]string{
		"edu-factorial": "output result, 4 bytes: 00 fc 8c 1c\n",
		"edu-dma":       "output result, 4095 bytes: ",
		"nvme":          "output result, 32768 bytes: ",
	} {
		t.Run(name, func(t *testing.T) {
			file := encodeListing(t, name)
			r := runFirmware(t, hal.OK, nil, func(b *bareMachine) {
				b.firmwarePath = filepath.Join(dir, name+".bin")
			})
			r.requireOnConsole(t, "main: code 0, command 0\n", want)
			traced := edu
			if name == "nvme" {
				traced = nvmeRegion
			}
			mustLoad(t, file, traced).requireRun(t, "main", r.tracedAccesses(t, traced))
		})
	}
}

// TestFlashHeaderHasOffsetsOfEntries checks encodeFlash, without a machine.
func TestFlashHeaderHasOffsetsOfEntries(t *testing.T) {
	entries := []flashEntry{{flashKindImage, "", []byte("image")},
		{kind: flashKindRun, name: "frame"},
		{flashKindInput, "a", bytes.Repeat([]byte{7}, 5000)}}
	flash, err := encodeFlash(entries)
	if err != nil {
		t.Fatal(err)
	}
	number32 := func(entry int) int { return int(littleEndianValue(flash[entry : entry+4])) }
	if string(flash[:8]) != "LMFLASH1" || number32(8) != len(entries) || number32(12) != 0 {
		t.Fatalf("wrong header %x", flash[:16])
	}
	for i, e := range entries {
		entry := 16 + 24*i
		name, data := number32(entry+4), number32(entry+12)
		gotName := string(flash[name : name+number32(entry+8)])
		gotData := flash[data : data+number32(entry+16)]
		if flashKind(number32(entry)) != e.kind || gotName != e.name ||
			!bytes.Equal(gotData, e.data) || number32(entry+20) != 0 {
			t.Errorf("entry %d: %x, name %q, %d bytes; want kind %d, name %q, %d bytes", i,
				flash[entry:entry+24], gotName, len(gotData), e.kind, e.name, len(e.data))
		}
		if len(e.data) > 0 && data%flashDataAlignment != 0 {
			t.Errorf("entry %d: data at %#x, want a multiple of %#x", i, data, flashDataAlignment)
		}
	}
	large := []flashEntry{{flashKindImage, "", make([]byte, flashSize)}}
	if _, err := encodeFlash(large); err == nil {
		t.Error("encodeFlash accepted data that are as large as the flash")
	}
}

// TestPackWritesFlashWithoutBooting checks the flag -pack, which writes flash 1 to a file for use
// on other machines.
func TestPackWritesFlashWithoutBooting(t *testing.T) {
	const image = "../../../testdata/images/edu-factorial.lmb"
	path := filepath.Join(t.TempDir(), "flash1.img")
	exit, err := runBare([]string{"-pack", path, "-sequence", "compute", image})
	if exit != 0 || err != nil {
		t.Fatalf("exit status %d: %v", exit, err)
	}
	got, err := os.ReadFile(path)
	if err != nil || len(got) != flashSize {
		t.Fatalf("%d bytes, want %d: %v", len(got), flashSize, err)
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
		t.Errorf("exit status %d without an image, want %d: %v", exit, exitNoFile, err)
	}
}
