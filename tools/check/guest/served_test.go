package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/image/lmb"
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
		}, []string{"3", "157", "167"}, []string{"1", "2", "16"}, 4, 0, 16 << 20},
	{"blackhole", "1e52:b140", "bh", "1,2", [3]string{"1,2", "3,5", "4,5"}, 19 | 24<<6,
		map[string][]string{"twoop": twoop("bh", "1,2")}, []string{"3", "203"},
		[]string{"2", "4096"}, 0, 201 * 2 << 20, 2 << 20},
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

// serveTo makes a stand-in a device of the machine.
func (m *machine) serveTo(t *testing.T, device string) {
	t.Helper()
	m.qemu, m.lm = tool(t, "LM_GUEST_QEMU"), tool(t, "LM_GUEST_LM")
	m.with = []string{device}
	m.trace = filepath.Join(m.dir, "trace")
}

// addAll imports every capture of a chip, captures every workload on the host
// API for it, and adds what those do not show.
func (m *machine) addAll(t *testing.T, c *card) {
	t.Helper()
	m.addTiles(t, c)
	for name, args := range c.captures {
		m.addGolden(t, name, append([]string{"import"}, args...)...)
	}
	list, err := exec.Command(tool(t, "LM_GUEST_LM"), "capture", "../../../testdata/workloads/run",
		"--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	program := goBuild(t, runtime.GOARCH, "lightmetal/testdata/workloads/run")
	for line := range strings.Lines(string(list)) {
		name := strings.Fields(line)[0]
		m.addGolden(t, name, "capture", program, name, "--device", "mock:"+c.board)
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

// TestGuestReplaysOnAServedChip: every capture and workload, through a real
// kernel and a real mapping, without and behind an IOMMU.
func TestGuestReplaysOnAServedChip(t *testing.T) {
	t.Parallel()
	for i := range allChips {
		c := &allChips[i]
		for _, way := range onServed {
			t.Run(c.board+" "+way.lane, func(t *testing.T) {
				m, console := inside(t, func(m *machine) {
					way.setUp(t, m)
					m.serveTo(t, "mock:"+c.board)
					m.addAll(t, c)
				}, "served", way.lane, c.ids)
				if m.served != nil {
					t.Error(m.served)
				}
				t.Log(console)
			})
		}
	}
}

// TestMocksDoAsQEMUsOwnDevices: the same images, on QEMU's edu and NVMe and on
// our mocks of them beside those, in one machine. QEMU's trace has the same
// accesses and the same values on both sides.
func TestMocksDoAsQEMUsOwnDevices(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		board string
		of    region
		// by offset: bits in which versions of QEMU differ, and addresses of memory
		free  map[uint64]uint64
		setUp func(*testing.T, *machine)
		flags []string
	}{
		{"edu", edu, nil, func(t *testing.T, m *machine) {
			m.addGolden(t, "capture", "import", "--from", "qemu", "--region", "edu-mmio", "--base",
				"0x10000000", "--board", "edu",
				"../../../testdata/captures/edu.qemutrace")
			m.addGolden(t, "factorial", "asm", "../../../testdata/listings/edu-factorial.lms")
		}, nil},
		{"edu", edu, map[uint64]uint64{0x80: ^uint64(0), 0x88: ^uint64(0)},
			func(t *testing.T, m *machine) { m.addTransfer(t, "edu-dma", "data", "result", 4095) },
			[]string{"-sequence", "transfer", "-input", "data=/input/data"}},
		// CAP.CSS bit 7, no I/O command set: 7.2 has it, as the mock, 11.1 has not.
		{"nvme", nvme, map[uint64]uint64{0: 1 << 44, 0x28: ^uint64(0), 0x30: ^uint64(0)},
			func(t *testing.T, m *machine) { m.addTransfer(t, "nvme", "blocks", "result", 32<<10) },
			[]string{"-sequence", "transfer", "-input", "blocks=/input/blocks"}},
	} {
		t.Run(fmt.Sprintf("%s %v", c.board, c.flags), func(t *testing.T) {
			m, _ := inside(t, func(m *machine) {
				m.serveTo(t, "mock:"+c.board)
				c.setUp(t, m)
			}, "served", append([]string{"pci", fmt.Sprintf("%04x:%04x", c.of.vendor, c.of.device)},
				c.flags...)...)
			if m.served != nil {
				t.Error(m.served)
			}
			theirs, ours := m.bothTraces(t, c.of, c.free)
			if len(theirs) == 0 || !slices.Equal(theirs, ours) {
				t.Errorf("QEMU's device: %d accesses, ours %d", len(theirs), len(ours))
				for i := range min(len(theirs), len(ours)) {
					if theirs[i] != ours[i] {
						t.Fatalf("access %d: QEMU's %v, ours %v", i, theirs[i], ours[i])
					}
				}
			}
		})
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

// bothTraces gives the accesses to QEMU's own device and to the served one.
// Loads that are made again until they give something else count as the last.
func (m *machine) bothTraces(t *testing.T, of region, free map[uint64]uint64) (theirs,
	ours []access) {
	t.Helper()
	log, err := os.ReadFile(m.trace)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err = parseTrace(bytes.NewReader(log), of)
	if err != nil {
		t.Fatal(err)
	}
	ours, err = parseServed(bytes.NewReader(log), servedRegion(m.sockets[0], of.bar))
	if err != nil {
		t.Fatal(err)
	}
	return once(theirs, free), once(ours, free)
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

// TestServedChipsTakeEveryWindow: a window of each size, sealed. What QEMU saw
// of each run is what the image says: order, width, address and value.
func TestServedChipsTakeEveryWindow(t *testing.T) {
	t.Parallel()
	const runs = 3
	for i := range allChips {
		c := &allChips[i]
		for _, slot := range c.slots {
			t.Run(c.board+" window "+slot, func(t *testing.T) {
				path, image := made(t, append([]string{"import"}, c.captures["twoop"]...)...)
				m, _ := inside(t, func(m *machine) {
					m.serveTo(t, "mock:"+c.board)
					m.add(t, "/images/twoop.lmb", path)
				}, "served", "pci", c.ids, "-window", slot, "-seal", "-loop", strconv.Itoa(runs))
				if m.served != nil {
					t.Error(m.served)
				}
				first, _ := strconv.Atoi(slot)
				for _, bar := range []uint8{0, 4} {
					m.sawRuns(t, image, first, chips.BoardByName(c.board), bar, runs)
				}
			})
		}
	}
}

// TestGuestPlaysARecordingBack: the device expects, access by access, what a run
// in this process did, and that is what comes.
func TestGuestPlaysARecordingBack(t *testing.T) {
	t.Parallel()
	for i := range allChips {
		c := &allChips[i]
		t.Run(c.board, func(t *testing.T) {
			path, _ := made(t, append([]string{"import"}, c.captures["twoop"]...)...)
			m, _ := inside(t, func(m *machine) {
				m.serveTo(t, "playback:"+path)
				m.add(t, "/images/twoop.lmb", path)
			}, "served", "pci", c.ids)
			if m.served != nil {
				t.Error(m.served)
			}
		})
	}
}

// TestServedChipsTakeWriteCombining: blocks of odd sizes and places through a
// write-combining mapping arrive as the image has them, whatever their widths.
func TestServedChipsTakeWriteCombining(t *testing.T) {
	t.Parallel()
	for i := range allChips {
		c := &allChips[i]
		t.Run(c.board, func(t *testing.T) {
			m, _ := inside(t, func(m *machine) {
				m.serveTo(t, "mock:"+c.board)
				m.addCombined(t, c)
			}, "served", "pci", c.ids, "-window", c.slots[0])
			if m.served != nil {
				t.Error(m.served)
			}
			image, err := lmb.Decode(m.files["/images/combined.lmb"])
			if err != nil {
				t.Fatal(err)
			}
			first, _ := strconv.Atoi(c.slots[0])
			m.sawRuns(t, image, first, chips.BoardByName(c.board), 0, 1)
		})
	}
}

// sawRuns wants QEMU's trace of a BAR of the served device to be that of runs of
// an image's main, with its windows in hardware windows from slot on.
func (m *machine) sawRuns(t *testing.T, image *lmb.Image, slot int, b *boards.Board, bar uint8,
	runs int) {
	t.Helper()
	log, err := os.Open(m.trace)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	trace, err := parseServed(log, servedRegion(m.sockets[0], bar))
	if err != nil {
		t.Fatal(err)
	}
	of := region{vendor: b.Vendor, device: b.Device, bar: bar}
	one, err := expandIn(image, "main", of, from(slot, image, of), nil)
	if err != nil {
		t.Fatal(err)
	}
	all := &plan{steps: slices.Repeat(one.steps, runs), outputs: one.outputs}
	if failed, _, err := all.match(trace); failed != "" || err != nil {
		t.Errorf("BAR %d: %q, %v", bar, failed, err)
	}
	t.Logf("BAR %d: %d accesses", bar, len(trace))
}

// TestFaultsOfAServedDeviceHaveTheirStatus: what lm serve makes go wrong shows
// in the machine as what it is.
func TestFaultsOfAServedDeviceHaveTheirStatus(t *testing.T) {
	t.Parallel()
	twoopOf := func(t *testing.T, m *machine) {
		m.addGolden(t, "twoop", append([]string{"import"}, allChips[0].captures["twoop"]...)...)
	}
	eduOf := func(t *testing.T, m *machine) {
		m.addGolden(t, "factorial", "asm", "../../../testdata/listings/edu-factorial.lms")
	}
	for _, c := range []struct {
		name, board, fault string
		want               hal.Code
		setUp              func(*testing.T, *machine)
		flags              []string
		refused            bool
	}{
		{"gone", "wormhole", "gone@40", hal.DeviceGone, twoopOf, nil, false},
		{"late bit", "edu", "late:0+0x20=1/1/1000", hal.OK, eduOf, nil, false},
		{"stuck bit", "edu", "stuck:0+0x20=1/1", hal.DeadlinePassed, eduOf, nil, false},
		{"wrong answer", "edu", "stuck:0+0=0/0xff", hal.ExpectFailed, eduOf, nil, false},
		{"no memory", "nvme", "no-dma", hal.ExpectFailed,
			func(t *testing.T, m *machine) { m.addTransfer(t, "nvme", "blocks", "result", 32<<10) },
			[]string{"-sequence", "transfer", "-input", "blocks=/input/blocks"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := chips.BoardByName(c.board)
			m, console := inside(t, func(m *machine) {
				m.serveTo(t, "mock:"+c.board)
				m.serveArgs = []string{"--fault", c.fault}
				c.setUp(t, m)
			}, "faulty",
				append([]string{strconv.Itoa(c.want.ExitStatus()),
					fmt.Sprintf("%04x:%04x", b.Vendor, b.Device)}, c.flags...)...)
			if (m.served != nil) != c.refused {
				t.Errorf("the server's end: %v; %s", m.served, console)
			}
		})
	}
}
