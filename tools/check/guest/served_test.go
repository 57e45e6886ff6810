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

// chip describes a chip whose mock `lm serve` serves, and what tests need to know about it.
type chip struct {
	board, ids  string
	filePrefix  string              // start of the names of its files in testdata
	tile        string              // a Tensix tile
	rectangle   [3]string           // first and last tile of a rectangle, and a tile outside it
	pcieTile    int                 // tile through which cores access host memory, x | y << 6
	captures    map[string][]string // arguments of lm import, by name of the image
	windowSlots []string            // number of one TLB window of each size
	sizesMiB    []string            // sizes of TLB windows in MiB
	clocksMHz   [2]string           // clocks of the cores: idle, and while a replay runs (UMD)

	// The TLB window that the vendor's driver reserves: the last one of a size (tt-kmd,
	// KERNEL_TLB_INDEX of wormhole.c and blackhole.c).
	driverBar                uint8
	driverOffset, driverSize uint64
}

// allChips are the chips that have a mock.
var allChips = []chip{
	{"wormhole", "1e52:401e", "wh", "1,1", [3]string{"1,1", "3,4", "4,4"}, 0 | 3<<6,
		map[string][]string{
			"twoop": twoopImport("wh", "1,1"),
			"mlp":   {"--from", "mmiotrace", "../../../testdata/captures/wh.mlp.mmiotrace"},
		}, []string{"3", "157", "167"}, []string{"1", "2", "16"}, [2]string{"500", "1000"},
		4, 0, 16 << 20},
	{"blackhole", "1e52:b140", "bh", "1,2", [3]string{"1,2", "3,5", "4,5"}, 19 | 24<<6,
		map[string][]string{"twoop": twoopImport("bh", "1,2")}, []string{"3", "203"},
		[]string{"2", "4096"}, [2]string{"800", "1350"},
		0, 201 * 2 << 20, 2 << 20},
}

// twoopImport returns the arguments of lm import for the capture of the program twoop.
func twoopImport(chip, tile string) []string {
	return []string{"--from", "mmiotrace", "--input", "a=" + tile + ",0x20000,int32,256", "--input",
		"b=" + tile + ",0x21000,int32,256",
		"--output", "d=" + tile + ",0x23000,int32,256",
		"../../../testdata/captures/" + chip + ".twoop.mmiotrace"}
}

// servedBackend is a backend of lmrun for a served device, with the changes of the machine that it
// needs.
type servedBackend struct {
	name  string
	setUp func(*testing.T, *machine)
}

// servedBackends are the backends without a driver of the vendor. A served device behind an IOMMU
// needs a newer kernel than Debian 12 has.
var servedBackends = []servedBackend{
	{"pci", func(*testing.T, *machine) {}},
	{"vfio", func(t *testing.T, m *machine) {
		m.kernel = fromEnv(t, "LM_GUEST_NEW_KERNEL")
		m.addIOMMU()
		m.addModules(t, "LM_GUEST_NEW_MODULES")
	}},
}

// addServed adds devices that `lm serve` serves.
func (m *machine) addServed(t *testing.T, devices ...string) {
	t.Helper()
	m.qemu, m.lmProgram = fromEnv(t, "LM_GUEST_QEMU"), fromEnv(t, "LM_GUEST_LM")
	for _, device := range devices {
		m.servedDevices = append(m.servedDevices, []string{device})
	}
}

// enableTrace makes QEMU trace the accesses to devices.
func (m *machine) enableTrace() { m.traceFile = filepath.Join(m.dir, "trace") }

// setUpChips adds the mocks of both chips, and all images for them.
func setUpChips(t *testing.T, m *machine) {
	m.addServed(t, "mock:wormhole", "mock:blackhole")
	for i := range allChips {
		m.addAllImages(t, &allChips[i])
	}
}

// setUpPlayback also adds a playback device of an image of each chip.
func setUpPlayback(t *testing.T, m *machine) {
	setUpChips(t, m)
	for i := range allChips {
		path, _ := makeImage(t, append([]string{"import"}, allChips[i].captures["twoop"]...)...)
		m.addServed(t, "playback:"+path)
	}
}

// setUpChipsBehindIOMMU adds the mocks of both chips, behind an IOMMU.
func setUpChipsBehindIOMMU(t *testing.T, m *machine) {
	servedBackends[1].setUp(t, m)
	setUpChips(t, m)
}

// setUpTracedChips adds the mocks of both chips and images whose accesses checkChipTraces checks.
func setUpTracedChips(t *testing.T, m *machine) {
	m.addServed(t, "mock:wormhole", "mock:blackhole")
	m.enableTrace()
	for i := range allChips {
		c := &allChips[i]
		m.addGolden(t, c.board+"/twoop", append([]string{"import"}, c.captures["twoop"]...)...)
		m.addWriteCombiningImage(t, c)
	}
}

// checkChipTraces compares QEMU's trace with the images, for the BARs of each chip that have TLB
// windows.
func checkChipTraces(t *testing.T, r *scenarioRun) {
	for i := range allChips {
		b := chips.BoardByName(allChips[i].board)
		for _, bar := range []uint8{0, 4} {
			r.requireTrace(t, region{vendor: b.Vendor, device: b.Device, bar: bar},
				r.servedTrace(t, i, bar))
		}
	}
}

// servedTrace returns the accesses to a BAR of a served device, from QEMU's trace. The parameter
// device is its index in servedDevices.
func (m *machine) servedTrace(t *testing.T, device int, bar uint8) []access {
	t.Helper()
	log, err := os.Open(m.traceFile)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	trace, err := parseServedTrace(log, servedRegionName(m.socketPaths[device], bar))
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// setUpMocks adds the mocks of devices that QEMU also has, and devices with faults.
func setUpMocks(t *testing.T, m *machine) {
	m.enableTrace()
	m.addServed(t, "mock:edu", "mock:nvme")
	for _, fault := range [][2]string{{"mock:wormhole", "gone@40"},
		{"mock:edu", "late:0+0x20=1/1/1000"}, {"mock:edu", "stuck:0+0x20=1/1"},
		{"mock:edu", "stuck:0+0=0/0xff"}, {"mock:nvme", "no-dma"}} {
		m.servedDevices = append(m.servedDevices, []string{fault[0], "--fault", fault[1]})
	}
	m.addGolden(t, "edu/capture", "import", "--from", "qemu", "--region", "edu-mmio", "--base",
		"0x10000000", "--board", "edu", "../../../testdata/captures/edu.qemutrace")
	m.addGolden(t, "edu/edu-factorial", "asm", "../../../testdata/listings/edu-factorial.lms")
	m.addTransfer(t, "edu-dma", "data", "result", 4095)
	m.addTransfer(t, "nvme", "blocks", "result", 32<<10)
	m.addGolden(t, "wormhole/twoop",
		append([]string{"import"}, allChips[0].captures["twoop"]...)...)
}

// checkMocks compares the accesses to QEMU's own devices with the accesses to the mocks of these
// devices.
func checkMocks(t *testing.T, r *scenarioRun) {
	for i, traced := range []region{edu, nvmeRegion} {
		// The bits that may differ, by offset: addresses of memory, and bits in which versions of
		// QEMU differ. QEMU 7.2 and the mock set bit 7 of CAP.CSS (no I/O command set), QEMU 11.1
		// does not.
		freeBits := map[region]map[uint64]uint64{edu: {0x80: ^uint64(0), 0x88: ^uint64(0)},
			nvmeRegion: {0: 1 << 44, 0x28: ^uint64(0), 0x30: ^uint64(0)}}[traced]
		qemuAccesses := dropRepeatedLoads(r.qemuTrace(t, traced), freeBits)
		mockAccesses := dropRepeatedLoads(r.servedTrace(t, i, traced.bar), freeBits)
		if len(qemuAccesses) == 0 || !slices.Equal(qemuAccesses, mockAccesses) {
			t.Errorf("%s: QEMU's device had %d accesses, the mock %d", traced.name,
				len(qemuAccesses), len(mockAccesses))
			for i := range min(len(qemuAccesses), len(mockAccesses)) {
				if qemuAccesses[i] != mockAccesses[i] {
					t.Errorf("access %d: QEMU's device %v, the mock %v", i, qemuAccesses[i],
						mockAccesses[i])
					break
				}
			}
		}
	}
}

// addAllImages adds all images for a chip: those of its captures, those of all workloads captured
// on the host API, and those of addTileImages.
func (m *machine) addAllImages(t *testing.T, c *chip) {
	t.Helper()
	m.addTileImages(t, c)
	for name, args := range c.captures {
		m.addGolden(t, c.board+"/"+name, append([]string{"import"}, args...)...)
	}
	list, err := exec.Command(fromEnv(t, "LM_GUEST_LM"), "capture",
		"../../../testdata/workloads/run", "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	program := goBuild(t, runtime.GOARCH, "lightmetal/testdata/workloads/run")
	for line := range strings.Lines(string(list)) {
		name := strings.Fields(line)[0]
		m.addGolden(t, c.board+"/"+name, "capture", program, name, "--device", "mock:"+c.board)
	}
}

// addGolden runs lm, which writes an image. It adds the image to /images, and the golden data of
// its outputs to /golden.
func (m *machine) addGolden(t *testing.T, name string, args ...string) {
	t.Helper()
	path, image := makeImage(t, args...)
	m.addFile(t, "/images/"+name+".lmb", path)
	for i := range image.Tensors {
		if o := &image.Tensors[i]; o.Role == gen.RoleOutput && o.Data != nil {
			m.files["/golden/"+name+"/"+o.Name] = o.Data
		}
	}
}

// addTransfer adds the image of a listing that copies an input to an output. It also adds new data
// for the input, and the same data as golden data of the output.
func (m *machine) addTransfer(t *testing.T, name, input, output string, size int) {
	t.Helper()
	m.addListing(t, name, "")
	data := xorshift32(79, (size+3)/4*4)[:size]
	m.files["/input/"+input], m.files["/golden/"+name+"/"+output] = data, data
}

// dropRepeatedLoads returns the trace with only the last load of each series of equal loads, and
// without the free bits of values.
func dropRepeatedLoads(trace []access, freeBits map[uint64]uint64) (out []access) {
	for _, a := range trace {
		a.value &^= freeBits[a.offset]
		if n := len(out); n > 0 && !a.store && !out[n-1].store && a.offset == out[n-1].offset &&
			a.width == out[n-1].width {
			out = out[:n-1]
		}
		out = append(out, a)
	}
	return out
}
