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

const iommu = "virt,iommu=smmuv3,gic-version=3"

// lanes are the ways to a device, and the machine each needs.
var lanes = []struct {
	name  string
	setUp func(*testing.T, *machine)
}{
	{"pci", func(*testing.T, *machine) {}},
	{"vfio", func(t *testing.T, m *machine) {
		m.virt = iommu
		m.addModules(t,
			"LM_GUEST_MODULES")
	}},
}

// frames is a sequence that runs many frames.
var frames = "\nframes:\n  call init\n" + strings.Repeat("  call frame\n", 100) + "  call stop\n"

// firstBlocks are the first blocks on the disk of the images that write there.
var firstBlocks = map[string]int{"nvme": 0, "nvme-p2p": 64, "nvme-killed": 128}

// addDMA plugs a device that encrypts, and puts the listings of DMA into /images and new data
// into /input.
func (m *machine) addDMA(t *testing.T) {
	t.Helper()
	m.extra = append(m.extra, "-object", "cryptodev-backend-builtin,id=crypto", "-device",
		"virtio-crypto-pci,addr=6,cryptodev=crypto,iommu_platform=on")
	m.addListing(t, "edu-dma", "")
	m.addListing(t, "virtio-crypto", "")
	for name, first := range firstBlocks {
		m.addImage(t, name, atBlocks(t, strings.TrimSuffix(name, "-killed"), first)+frames)
	}
	for name, change := range wrongListings {
		m.addImage(t, name, changed(t, change))
	}
	m.files["/input/data"] = xorshift32(77, 4096)[:4095]
	m.files["/input/blocks"] = xorshift32(78, 32<<10)
}

// atBlocks is a listing of testdata for NVMe with other blocks of the disk: dword 10 of a read or
// a write is the first of 32.
func atBlocks(t *testing.T, name string, first int) string {
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

// addListing puts the image of a listing in testdata, with more at its end,
// into /images.
func (m *machine) addListing(t *testing.T, name, more string) {
	t.Helper()
	text, err := os.ReadFile("../../../testdata/listings/" + name + ".lms")
	if err != nil {
		t.Fatal(err)
	}
	m.addImage(t, name, string(text)+more)
}

func (m *machine) addImage(t *testing.T, name, text string) {
	t.Helper()
	m.files["/images/"+name+".lmb"] = lmbtest.File(t, text)
}

// checkDMA looks for the data of dma.txt on the disk and in the shared memory.
func checkDMA(t *testing.T, r *scenarioRun) {
	if r.said["JudgesAMachineAsWhatItIs"] != "" {
		checkReports(t, r)
	}
	data := r.files["/input/blocks"]
	onDisk(t, r.machine, data, slices.Sorted(maps.Values(firstBlocks))...)
	shared, err := os.ReadFile(r.shm())
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0x10000, 0x20000} { // windows data and back of nvme-p2p
		if !bytes.Equal(shared[at:at+len(data)], data) {
			t.Errorf("the host finds other data at %#x of the shared memory", at)
		}
	}
}

// onDisk checks that data are on the disk from some of its blocks on, as the host sees it, and
// nothing else.
func onDisk(t *testing.T, m *machine, data []byte, blocks ...int) {
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
			t.Fatalf("the host finds %#x on the disk at %#x, want %#x", disk[i], i, want[i])
		}
	}
}

var nvme = region{"nvme", 0x1b36, 0x0010, 0, 16 << 10}

// mistake is a listing of testdata with something changed.
type mistake struct {
	name, old, new string
	// the first completion does not come: the controller says CSTS.CFS, or all ones
	fatal bool
}

// comes is the wait for what is to come, however slow the host is.
const comes = " within 120s"

var wrongListings = map[string]mistake{
	"queues-out-of-reach": {"nvme", "bus(acq)", "0x2000000000", true},
	"data-out-of-reach":   {"nvme", "bus(data)+0x7000", "0x2000000000", false},
	"edu-out-of-reach":    {"edu-dma", "bus(to)", "0x2000000000", false},
	"too-small":           {"nvme", "bus(back)+0x7000", "bus(back)+0x8000", false},
	"nvme-no-master": {"nvme", "  # Identify controller",
		"  poll.2 pci+0x4 & 0x4 == 0x0" + comes, true},
	"edu-no-master": {"edu-dma", "  begin     \"to the host\"",
		"  poll.2 pci+0x4 & 0x4 == 0x0" + comes + "\n  begin     \"to the host\"", false},
	"decoding-off": {"nvme", "  # Identify controller", "  poll.2 pci+0x4 & 0x2 == 0x0" + comes,
		true},
	"too-large": {"edu-dma", "window to ", "window huge host size 1GiB\nwindow to ", false},
}

var within = regexp.MustCompile(` within [0-9a-z]+`)

func changed(t *testing.T, change mistake) string {
	t.Helper()
	text, err := os.ReadFile("../../../testdata/listings/" + change.name + ".lms")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), change.old) {
		t.Fatalf("%s has no %q", change.name, change.old)
	}
	wrong := within.ReplaceAllString(strings.ReplaceAll(string(text), change.old, change.new),
		comes)
	if change.fatal { // once that is said, what never comes is waited for a little
		first := "  poll.4    acq+0xc & 0x10000 == 0x10000"
		wrong = strings.Replace(wrong, first+comes,
			"  poll.4    regs+0x1c any-set 0x2"+comes+"\n"+first+" within 10ms", 1)
	}
	return strings.Replace(wrong, "\nwindow", "\nwindow pci config size 256\nwindow", 1)
}

// TestGuestNVMeImageGivesItsOutput: what goes to the namespace comes back to a
// file of the host, byte by byte.
func TestGuestNVMeImageGivesItsOutput(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	m := &machine{kernel: tool(t, "LM_GUEST_KERNEL"), lmrun: tool(t, "LM_GUEST_LMRUN"),
		files: map[string][]byte{}, kernelArgs: " hugepages=16",
		dir: folder, timeout: bootLimit, stdout: io.Discard}
	source, err := os.ReadFile("../../../testdata/listings/nvme.lms")
	if err != nil {
		t.Fatal(err)
	}
	image, err := listing.Parse("nvme.lms", source, nil)
	if err != nil {
		t.Fatal(err)
	}
	in, out := filepath.Join(folder, "in"), filepath.Join(folder, "out")
	data := xorshift32(0x5eed, 64*512)
	if err := os.WriteFile(in, data, 0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"-before", "init", "-sequence", "frame", "-after", "stop", "-input",
		"blocks=" + in, "-output", "result=" + out}
	if exit, err := m.replay(written(t, image), flags); err != nil || exit != 0 {
		t.Fatalf("exit %d, %v", exit, err)
	}
	if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
}
