package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb/lmbtest"
)

// iommuMachine is the machine type of QEMU in which all devices are behind an SMMUv3.
const iommuMachine = "virt,iommu=smmuv3,gic-version=3"

// backends are lmrun's backends for QEMU's own devices, with the changes of the machine that each
// backend needs.
var backends = []struct {
	name  string
	setUp func(*testing.T, *machine)
}{
	{"pci", func(*testing.T, *machine) {}},
	{"vfio", func(t *testing.T, m *machine) {
		m.machineType = iommuMachine
		m.addModules(t, "LM_GUEST_MODULES")
	}},
}

// manyFrames is the text of a sequence that runs 100 frames.
var manyFrames = "\nframes:\n  call init\n" + strings.Repeat("  call frame\n", 100) +
	"  call stop\n"

// firstBlockOf has the first block on the disk to which each image writes.
var firstBlockOf = map[string]int{"nvme": 0, "nvme-p2p": 64, "nvme-killed": 128}

// addDMAImages adds a virtio-crypto device, images that use DMA (in /images), and new input data
// (in /input).
func (m *machine) addDMAImages(t *testing.T) {
	t.Helper()
	m.extraArgs = append(m.extraArgs, "-object", "cryptodev-backend-builtin,id=crypto", "-device",
		"virtio-crypto-pci,addr=6,cryptodev=crypto,iommu_platform=on")
	// edu raises INTA when it has computed a factorial, and goes on until it is acknowledged.
	m.addImage(t, "interrupts", `lightmetal 1
device edu 1234:11e8 bar0 1MiB
window r bar0 offset 0x0 size 1MiB
main:
  write.4 r+0x20 0x80
  write.4 r+0x8 0x5
  poll.4 r+0x20 & 0x1 == 0x0 within 600s every 1ms
  expect.4 r+0x8 == 0x78
  poll.4 r+0x24 == 0x1 within 600s every 1ms
acknowledged:
  call main
  delay 2s
  write.4 r+0x64 0x1
`)
	m.addListing(t, "edu-dma", "")
	m.addListing(t, "virtio-crypto", "")
	for name, first := range firstBlockOf {
		text := listingAtBlock(t, strings.TrimSuffix(name, "-killed"), first)
		m.addImage(t, name, text+manyFrames)
	}
	for name, change := range wrongListings {
		m.addImage(t, name, applyChange(t, change))
	}
	m.files["/input/data"] = xorshift32(77, 4096)[:4095]
	m.files["/input/blocks"] = xorshift32(78, 32<<10)
}

// listingAtBlock returns a listing of testdata for NVMe that uses other blocks of the disk, from
// the given one on. It changes dword 10 of read and write commands: the first of 32 blocks.
func listingAtBlock(t *testing.T, name string, first int) string {
	t.Helper()
	text, err := os.ReadFile("../../../testdata/listings/" + name + ".lms")
	if err != nil {
		t.Fatal(err)
	}
	moved := strings.NewReplacer(" 0 0 0x1f ", fmt.Sprintf(" %#x 0 0x1f ", first),
		" 0x20 0 0x1f ", fmt.Sprintf(" %#x 0 0x1f ", first+32)).Replace(string(text))
	if strings.Count(moved, " 0 0x1f ") != 4 {
		t.Fatalf("%s does not have 4 transfers of 32 blocks", name)
	}
	return moved
}

// addListing adds the image of a listing in testdata, with further text at its end, to /images.
func (m *machine) addListing(t *testing.T, name, more string) {
	t.Helper()
	text, err := os.ReadFile("../../../testdata/listings/" + name + ".lms")
	if err != nil {
		t.Fatal(err)
	}
	m.addImage(t, name, string(text)+more)
}

// addImage adds the image of a listing's text to /images.
func (m *machine) addImage(t *testing.T, name, text string) {
	t.Helper()
	m.files["/images/"+name+".lmb"] = lmbtest.File(t, text)
}

// checkDMA checks that the data of the scenarios in dma.txt are on the disk and in the memory of
// the ivshmem device.
func checkDMA(t *testing.T, r *scenarioRun) {
	if r.output["JudgesAMachineAsWhatItIs"] != "" {
		checkReports(t, r)
	}
	data := r.files["/input/blocks"]
	requireOnDisk(t, r.machine, data, slices.Sorted(maps.Values(firstBlockOf))...)
	shared, err := os.ReadFile(r.shmPath())
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0x10000, 0x20000} { // the windows "data" and "back" of nvme-p2p
		if !bytes.Equal(shared[at:at+len(data)], data) {
			t.Errorf("the memory of ivshmem at %#x differs from the input", at)
		}
	}
}

// requireOnDisk requires that the data are on the disk of the NVMe device, from each of the given
// blocks on, and that the rest of the disk is 0.
func requireOnDisk(t *testing.T, m *machine, data []byte, blocks ...int) {
	t.Helper()
	disk, err := os.ReadFile(filepath.Join(m.dir, "nvme.img"))
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, len(disk))
	for _, block := range blocks {
		copy(want[block*512:], data)
	}
	for i := range disk {
		if disk[i] != want[i] {
			t.Fatalf("the disk has %#x at %#x, want %#x", disk[i], i, want[i])
		}
	}
}

// nvmeRegion is the BAR with the registers of QEMU's NVMe controller.
var nvmeRegion = region{"nvme", 0x1b36, 0x0010, 0, 16 << 10}

// listingChange is a change that makes a listing of testdata fail.
type listingChange struct {
	name, old, new string // name of the listing, and the text that is replaced
	// The first completion never arrives: the controller sets CSTS.CFS, or loads return all ones.
	neverCompletes bool
}

// longTimeout is the text of a timeout that is sufficient even on a slow host.
const longTimeout = " within 120s"

// wrongListings are the changes, by the name of the resulting image.
var wrongListings = map[string]listingChange{
	"queues-out-of-reach": {"nvme", "bus(acq)", "0x2000000000", true},
	"data-out-of-reach":   {"nvme", "bus(data)+0x7000", "0x2000000000", false},
	"edu-out-of-reach":    {"edu-dma", "bus(to)", "0x2000000000", false},
	"too-small":           {"nvme", "bus(back)+0x7000", "bus(back)+0x8000", false},
	"nvme-no-master": {"nvme", "  # Identify controller",
		"  poll.2 pci+0x4 & 0x4 == 0x0" + longTimeout, true},
	"edu-no-master": {"edu-dma", "  begin     \"to the host\"",
		"  poll.2 pci+0x4 & 0x4 == 0x0" + longTimeout + "\n  begin     \"to the host\"", false},
	"decoding-off": {"nvme", "  # Identify controller",
		"  poll.2 pci+0x4 & 0x2 == 0x0" + longTimeout, true},
	"too-large": {"edu-dma", "window to ", "window huge host size 1GiB\nwindow to ", false},
}

// timeoutPattern matches the timeout of a poll in a listing.
var timeoutPattern = regexp.MustCompile(` within [0-9a-z]+`)

// applyChange returns the text of a listing after the change.
func applyChange(t *testing.T, change listingChange) string {
	t.Helper()
	text, err := os.ReadFile("../../../testdata/listings/" + change.name + ".lms")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), change.old) {
		t.Fatalf("%s has no %q", change.name, change.old)
	}
	wrong := strings.ReplaceAll(string(text), change.old, change.new)
	wrong = timeoutPattern.ReplaceAllString(wrong, longTimeout)
	if change.neverCompletes { // wait for the error status, then only shortly for the completion
		first := "  poll.4    acq+0xc & 0x10000 == 0x10000"
		wrong = strings.Replace(wrong, first+longTimeout,
			"  poll.4    regs+0x1c any-set 0x2"+longTimeout+"\n"+first+" within 10ms", 1)
	}
	return strings.Replace(wrong, "\nwindow", "\nwindow pci config size 256\nwindow", 1)
}

// TestOutputOfNVMeImageIsCopiedToTheHost runs an image that writes to the NVMe device and reads
// back. The output, which lmrun writes to a serial port, must be in a file on the host.
func TestOutputOfNVMeImageIsCopiedToTheHost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := &machine{kernel: fromEnv(t, "LM_GUEST_KERNEL"), lmrun: fromEnv(t, "LM_GUEST_LMRUN"),
		files: map[string][]byte{}, kernelArgs: " hugepagesz=2M hugepages=16",
		dir: dir, timeout: bootTimeout, stdout: io.Discard}
	source, err := os.ReadFile("../../../testdata/listings/nvme.lms")
	if err != nil {
		t.Fatal(err)
	}
	image, err := listing.Parse("nvme.lms", source, nil)
	if err != nil {
		t.Fatal(err)
	}
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	data := xorshift32(0x5eed, 64*512)
	if err := os.WriteFile(in, data, 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"-before", "init", "-sequence", "frame", "-after", "stop", "-input",
		"blocks=" + in, "-output", "result=" + out}
	if exit, err := m.replay(writeImage(t, image), flags); err != nil || exit != 0 {
		t.Fatalf("exit status %d, error %v, want 0, none", exit, err)
	}
	if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the output has %d bytes, or differs from the input; error %v", len(got), err)
	}
}
