package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/fbs/gen"
)

// chip is a device that `lm serve` shows, and what runs on it.
type chip struct {
	board, ids string
	captures   map[string][]string // arguments of lm import, by name
	slots      []string            // a window of each size
}

var chips = []chip{
	{"wormhole", "1e52:401e", map[string][]string{
		"twoop": twoop("wh", "1,1"),
		"mlp":   {"--from", "mmiotrace", "../../testdata/captures/wh.mlp.mmiotrace"},
	}, []string{"3", "157", "167"}},
	{"blackhole", "1e52:b140", map[string][]string{"twoop": twoop("bh", "1,2")}, []string{"3", "203"}},
}

func twoop(chip, tile string) []string {
	return []string{"--from", "mmiotrace", "--input", "a=" + tile + ",0x20000,int32,256", "--input", "b=" + tile + ",0x21000,int32,256",
		"--output", "d=" + tile + ",0x23000,int32,256", "../../testdata/captures/" + chip + ".twoop.mmiotrace"}
}

// onServed are the ways to a served device. An IOMMU in front of one takes a
// newer kernel.
var onServed = []struct {
	lane  string
	setUp func(*testing.T, *machine)
}{
	{"pci", func(*testing.T, *machine) {}},
	{"vfio", func(t *testing.T, m *machine) {
		m.kernel = tool(t, "LM_GUEST_NEW_KERNEL")
		m.virt = "virt,gic-version=3"
		m.extra = append(m.extra, "-device", "virtio-iommu-pci,addr=7")
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

// addWorkloads captures every workload on the host API, for a chip.
func (m *machine) addWorkloads(t *testing.T, c *chip) {
	t.Helper()
	list, err := exec.Command(tool(t, "LM_GUEST_LM"), "capture", "../../testdata/workloads/run", "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "workloads")
	if out, err := exec.Command("go", "build", "-o", program, "../../testdata/workloads/run").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
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
	for i := range chips {
		c := &chips[i]
		for _, way := range onServed {
			t.Run(c.board+" "+way.lane, func(t *testing.T) {
				m, console := inside(t, func(m *machine) {
					way.setUp(t, m)
					m.serveTo(t, "mock:"+c.board)
					for name, args := range c.captures {
						m.addGolden(t, name, append([]string{"import"}, args...)...)
					}
					m.addWorkloads(t, c)
				}, "served", way.lane, c.ids)
				if m.served != nil {
					t.Error(m.served)
				}
				t.Log(console)
			})
		}
	}
}
