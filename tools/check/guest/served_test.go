package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards/chips"
	"lightmetal/fbs/gen"
)

// card is a device that `lm serve` shows, and what runs on it.
type card struct {
	board, ids string
	short      string              // in names of files
	tile       string              // a Tensix tile
	rectangle  [3]string           // first and last of several, and one beside them
	pcie       int                 // the tile that host memory is behind, x | y << 6
	captures   map[string][]string // arguments of lm import, by name
	slots      []string            // a window of each size
	sizes      []string            // in MiB
	clocks     [2]string           // of cores in MHz: idle, and of a user who asks for speed (UMD)

	// The window that the vendor's driver keeps for itself, its last of a size
	// (tt-kmd, KERNEL_TLB_INDEX of wormhole.c and blackhole.c).
	ownBar             uint8
	ownOffset, ownSize uint64
}

var allChips = []card{
	{"wormhole", "1e52:401e", "wh", "1,1", [3]string{"1,1", "3,4", "4,4"}, 0 | 3<<6,
		map[string][]string{
			"twoop": twoop("wh", "1,1"),
			"mlp":   {"--from", "mmiotrace", "../../../testdata/captures/wh.mlp.mmiotrace"},
		}, []string{"3", "157", "167"}, []string{"1", "2", "16"}, [2]string{"500", "1000"},
		4, 0, 16 << 20},
	{"blackhole", "1e52:b140", "bh", "1,2", [3]string{"1,2", "3,5", "4,5"}, 19 | 24<<6,
		map[string][]string{"twoop": twoop("bh", "1,2")}, []string{"3", "203"},
		[]string{"2", "4096"}, [2]string{"800", "1350"},
		0, 201 * 2 << 20, 2 << 20},
}

func twoop(chip, tile string) []string {
	return []string{"--from", "mmiotrace", "--input", "a=" + tile + ",0x20000,int32,256", "--input",
		"b=" + tile + ",0x21000,int32,256",
		"--output", "d=" + tile + ",0x23000,int32,256",
		"../../../testdata/captures/" + chip + ".twoop.mmiotrace"}
}

// way is one to a served device.
type way struct {
	lane  string
	setUp func(*testing.T, *machine)
}

// onServed are those without a driver. An IOMMU in front of one takes a newer
// kernel.
var onServed = []way{
	{"pci", func(*testing.T, *machine) {}},
	{"vfio", func(t *testing.T, m *machine) {
		m.kernel = tool(t, "LM_GUEST_NEW_KERNEL")
		m.behindIOMMU()
		m.addModules(t, "LM_GUEST_NEW_MODULES")
	}},
}

// serveTo makes the devices of servers those of the machine.
func (m *machine) serveTo(t *testing.T, devices ...string) {
	t.Helper()
	m.qemu, m.lm = tool(t, "LM_GUEST_QEMU"), tool(t, "LM_GUEST_LM")
	for _, device := range devices {
		m.with = append(m.with, []string{device})
	}
}

// traceIt has QEMU trace accesses.
func (m *machine) traceIt() { m.trace = filepath.Join(m.dir, "trace") }

// setUpChips serves both chips, and what runs on them.
func setUpChips(t *testing.T, m *machine) {
	m.serveTo(t, "mock:wormhole", "mock:blackhole")
	for i := range allChips {
		m.addAll(t, &allChips[i])
	}
}

// setUpPlayback also serves a recording of each chip.
func setUpPlayback(t *testing.T, m *machine) {
	setUpChips(t, m)
	for i := range allChips {
		path, _ := made(t, append([]string{"import"}, allChips[i].captures["twoop"]...)...)
		m.serveTo(t, "playback:"+path)
	}
}

func setUpChipsBehindIOMMU(t *testing.T, m *machine) {
	onServed[1].setUp(t, m)
	setUpChips(t, m)
}

// setUpTracedChips adds what access by access follows.
func setUpTracedChips(t *testing.T, m *machine) {
	m.serveTo(t, "mock:wormhole", "mock:blackhole")
	m.traceIt()
	for i := range allChips {
		c := &allChips[i]
		m.addGolden(t, c.board+"/twoop", append([]string{"import"}, c.captures["twoop"]...)...)
		m.addCombined(t, c)
	}
}

// followChips compares the trace of each BAR of a chip that has TLB windows with the images.
func followChips(t *testing.T, r *scenarioRun) {
	for i := range allChips {
		b := chips.BoardByName(allChips[i].board)
		for _, bar := range []uint8{0, 4} {
			r.follow(t, region{vendor: b.Vendor, device: b.Device, bar: bar},
				r.servedTrace(t, i, bar))
		}
	}
}

// servedTrace is what QEMU saw of a BAR of a served device.
func (m *machine) servedTrace(t *testing.T, device int, bar uint8) []access {
	t.Helper()
	log, err := os.Open(m.trace)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	trace, err := parseServed(log, servedRegion(m.sockets[device], bar))
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// setUpMocks serves mocks of devices that QEMU has, and devices with faults.
func setUpMocks(t *testing.T, m *machine) {
	m.traceIt()
	m.serveTo(t, "mock:edu", "mock:nvme")
	for _, fault := range [][2]string{{"mock:wormhole", "gone@40"},
		{"mock:edu", "late:0+0x20=1/1/1000"}, {"mock:edu", "stuck:0+0x20=1/1"},
		{"mock:edu", "stuck:0+0=0/0xff"}, {"mock:nvme", "no-dma"}} {
		m.with = append(m.with, []string{fault[0], "--fault", fault[1]})
	}
	m.addGolden(t, "edu/capture", "import", "--from", "qemu", "--region", "edu-mmio", "--base",
		"0x10000000", "--board", "edu", "../../../testdata/captures/edu.qemutrace")
	m.addGolden(t, "edu/edu-factorial", "asm", "../../../testdata/listings/edu-factorial.lms")
	m.addTransfer(t, "edu-dma", "data", "result", 4095)
	m.addTransfer(t, "nvme", "blocks", "result", 32<<10)
	m.addGolden(t, "wormhole/twoop",
		append([]string{"import"}, allChips[0].captures["twoop"]...)...)
}

// checkMocks compares what QEMU's own devices saw with what our mocks of them saw.
func checkMocks(t *testing.T, r *scenarioRun) {
	for i, of := range []region{edu, nvme} {
		// Bits in which versions of QEMU differ, and addresses of memory, by offset. CAP.CSS
		// bit 7, no I/O command set: 7.2 has it, as the mock, 11.1 has not.
		free := map[region]map[uint64]uint64{edu: {0x80: ^uint64(0), 0x88: ^uint64(0)},
			nvme: {0: 1 << 44, 0x28: ^uint64(0), 0x30: ^uint64(0)}}[of]
		theirs := once(r.qemuTrace(t, of), free)
		ours := once(r.servedTrace(t, i, of.bar), free)
		if len(theirs) == 0 || !slices.Equal(theirs, ours) {
			t.Errorf("%s: QEMU's device saw %d accesses, ours %d", of.name, len(theirs), len(ours))
			for i := range min(len(theirs), len(ours)) {
				if theirs[i] != ours[i] {
					t.Errorf("access %d: QEMU's %v, ours %v", i, theirs[i], ours[i])
					break
				}
			}
		}
	}
}

// addAll imports every capture of a chip, captures every workload on the host
// API for it, and adds what those do not show.
func (m *machine) addAll(t *testing.T, c *card) {
	t.Helper()
	m.addTiles(t, c)
	for name, args := range c.captures {
		m.addGolden(t, c.board+"/"+name, append([]string{"import"}, args...)...)
	}
	list, err := exec.Command(tool(t, "LM_GUEST_LM"), "capture", "../../../testdata/workloads/run",
		"--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	program := goBuild(t, runtime.GOARCH, "lightmetal/testdata/workloads/run")
	for line := range strings.Lines(string(list)) {
		name := strings.Fields(line)[0]
		m.addGolden(t, c.board+"/"+name, "capture", program, name, "--device", "mock:"+c.board)
	}
}

// addGolden has lm make an image, and puts it into /images and the outputs that
// are recorded in it into /golden.
func (m *machine) addGolden(t *testing.T, name string, args ...string) {
	t.Helper()
	path, image := made(t, args...)
	m.add(t, "/images/"+name+".lmb", path)
	for i := range image.Tensors {
		if o := &image.Tensors[i]; o.Role == gen.RoleOutput && o.Data != nil {
			m.files["/golden/"+name+"/"+o.Name] = o.Data
		}
	}
}

// addTransfer puts a listing that moves data into /images, with new data for
// its input, which are to come back as its output.
func (m *machine) addTransfer(t *testing.T, name, input, output string, size int) {
	t.Helper()
	m.addListing(t, name, "")
	data := xorshift32(79, (size+3)/4*4)[:size]
	m.files["/input/"+input], m.files["/golden/"+name+"/"+output] = data, data
}

// once leaves of repeated loads of one place the last, without the bits that
// are free.
func once(trace []access, free map[uint64]uint64) (out []access) {
	for _, a := range trace {
		a.value &^= free[a.offset]
		if n := len(out); n > 0 && !a.store && !out[n-1].store && a.offset == out[n-1].offset &&
			a.width == out[n-1].width {
			out = out[:n-1]
		}
		out = append(out, a)
	}
	return out
}
