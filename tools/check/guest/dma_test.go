package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
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

// onEachLane runs a scenario of inside/dma.go by each lane.
func onEachLane(t *testing.T, scenario string, check func(*testing.T, *machine), extra ...string) {
	t.Helper()
	for _, lane := range lanes {
		t.Run(lane.name, func(t *testing.T) {
			m, console := inside(t, func(m *machine) {
				lane.setUp(t, m)
				m.addDMA(t)
				m.extra = extra
			}, scenario, lane.name)
			t.Log("\n" + console)
			if check != nil {
				check(t, m)
			}
		})
	}
}

// frames is a sequence that runs many frames.
var frames = "\nframes:\n  call init\n" + strings.Repeat("  call frame\n", 100) + "  call stop\n"

// addDMA puts the listings of DMA into /images and new data into /input.
func (m *machine) addDMA(t *testing.T) {
	t.Helper()
	m.addListing(t, "edu-dma", "")
	m.addListing(t, "nvme", frames)
	m.addListing(t, "nvme-p2p", frames)
	m.addListing(t, "virtio-crypto", "")
	for name, change := range wrongListings {
		m.addImage(t, name, changed(t, change))
	}
	m.files["/input/data"] = xorshift32(77, 4096)[:4095]
	m.files["/input/blocks"] = xorshift32(78, 32<<10)
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

// onDisk wants data at the start of the NVMe namespace, as the host sees it.
func onDisk(t *testing.T, m *machine, want []byte) {
	t.Helper()
	disk, err := os.ReadFile(filepath.Join(m.dir, "nvme.img"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(disk[:len(want)], want) {
		t.Error("the host finds other data on the disk")
	}
	if rest := disk[len(want):]; !bytes.Equal(rest, make([]byte, len(rest))) {
		t.Error("the host finds data on the disk behind the 64 blocks")
	}
}

func TestGuestMovesDataThroughHostMemory(t *testing.T) {
	t.Parallel()
	onEachLane(t, "dma", func(t *testing.T, m *machine) { onDisk(t, m, m.files["/input/blocks"]) })
}

func TestGuestMovesDataFromDeviceToDevice(t *testing.T) {
	t.Parallel()
	onEachLane(t, "peers", func(t *testing.T, m *machine) {
		data := m.files["/input/blocks"]
		onDisk(t, m, data)
		shared, err := os.ReadFile(m.shm())
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int{0x10000, 0x20000} { // windows data and back
			if !bytes.Equal(shared[at:at+len(data)], data) {
				t.Errorf("the host finds other data at %#x of the shared memory", at)
			}
		}
	})
}

var nvme = region{"nvme", 0x1b36, 0x0010, 0, 16 << 10}

// QEMU's own trace says that the registers and doorbells saw what the listings
// say, and nothing else.
func TestGuestDrivesMastersOfTheBusAccessByAccess(t *testing.T) {
	t.Parallel()
	m, _ := inside(t, func(m *machine) {
		lanes[1].setUp(t, m)
		m.addDMA(t)
		m.trace = filepath.Join(m.dir, "trace")
	}, "once", lanes[1].name)
	for of, images := range map[region][]string{edu: {"edu-dma"}, nvme: {"nvme", "nvme-p2p"}} {
		var all plan
		for _, name := range images {
			image, err := lmb.Decode(m.files["/images/"+name+".lmb"])
			if err != nil {
				t.Fatal(err)
			}
			p, err := expand(image, "main", of, nil)
			if err != nil {
				t.Fatal(err)
			}
			all.steps = append(all.steps, p.steps...)
		}
		if failed, _, err := all.match(replayed{machine: m}.reached(t, of)); failed != "" ||
			err != nil {
			t.Errorf("%v: failed at %q, %v", images, failed, err)
		}
	}
}

func TestGuestRecoversDevicesFromAKilledRun(t *testing.T) {
	t.Parallel()
	onEachLane(t, "kill", func(t *testing.T, m *machine) { onDisk(t, m, m.files["/input/blocks"]) })
}

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

// TestGuestTellsMistakesOfDMAApart checks the exit status and text of each mistake.
func TestGuestTellsMistakesOfDMAApart(t *testing.T) {
	t.Parallel()
	onEachLane(t, "dma-errors", nil)
}

// ACCESS_PLATFORM makes the device use the addresses that the IOMMU knows.
func TestGuestHasADeviceEncryptWhatTheStandardLibraryDoes(t *testing.T) {
	t.Parallel()
	onEachLane(t, "crypto", nil, "-object", "cryptodev-backend-builtin,id=crypto", "-device",
		"virtio-crypto-pci,addr=6,cryptodev=crypto,iommu_platform=on")
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
