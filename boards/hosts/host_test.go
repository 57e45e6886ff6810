package hosts

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestHostIsFoundByNameAndByHardwareIDs(t *testing.T) {
	for _, h := range All() {
		if ByName(h.Name) != h {
			t.Errorf("%s: not found by name", h.Name)
		}
		for _, c := range h.Compatible {
			if got := ByCompatible([]string{"vendor,unknown", c}); got != h {
				t.Errorf("ByCompatible(%s) = %v, want %s", c, got, h.Name)
			}
		}
		for _, id := range h.RootPorts {
			if ByRootPort(id) != h {
				t.Errorf("%s: not found by root port %04x:%04x", h.Name, id.Vendor, id.Device)
			}
		}
		if len(h.Compatible)+len(h.RootPorts) == 0 || h.Title == "" {
			t.Errorf("%s: has no title, or neither a compatible string nor a root port", h.Name)
		}
	}
	if ByName("") != nil || ByName("rpi3") != nil || ByCompatible(nil) != nil ||
		ByCompatible([]string{"raspberrypi,3-model-b"}) != nil || ByRootPort(ID{}) != nil {
		t.Error("found a host for unknown names or ids")
	}
}

// TestEveryKnownValueHasASource visits all facts. A value without a source would be a guess,
// and a source without a value would be useless.
func TestEveryKnownValueHasASource(t *testing.T) {
	facts := 0
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			walk(path, v.Elem())
		case reflect.Slice:
			for i := range v.Len() {
				walk(path, v.Index(i))
			}
		case reflect.Struct:
			if strings.HasPrefix(v.Type().Name(), "Fact[") {
				facts++
				value, source := v.FieldByName("Value"), v.FieldByName("Source").String()
				if !value.IsZero() && source == "" {
					t.Errorf("%s: %v has no source", path, value)
				}
				if value.IsZero() && source != "" && value.Kind() != reflect.Slice {
					t.Errorf("%s: source %s has no value", path, source)
				}
				return
			}
			for i := range v.NumField() {
				walk(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
		}
	}
	for _, h := range All() {
		walk(h.Name, reflect.ValueOf(h))
		for _, o := range KernelOptions(h) {
			if !strings.HasPrefix(o.Name, "CONFIG_") || o.Reason == "" || o.Source == "" {
				t.Errorf("%s: option %+v is incomplete", h.Name, o)
			}
		}
	}
	if facts < 100 {
		t.Errorf("the test visited only %d facts, want at least 100", facts)
	}
}

// TestEnumeratedValuesAreKnown checks words in hosts.yaml. Programs compare these words with
// constants, and would treat a mistyped word like an unknown value.
func TestEnumeratedValuesAreKnown(t *testing.T) {
	for _, h := range All() {
		for what, ok := range map[string]bool{
			"coherence": slices.Contains([]Coherence{"", Coherent, NotCoherent},
				h.Coherence.Value),
			"IOMMU":           slices.Contains([]IOMMU{"", NoIOMMU, SMMUv2, SMMUv3}, h.IOMMU.Value),
			"write-combining": slices.Contains([]Health{"", Works, Faulty}, h.WriteCombining.Value),
			"wide":            slices.Contains([]Health{"", Works, Faulty}, h.WideAccess.Value),
			"boot": slices.Contains([]BootFormat{"", BootPair, BootFIT, BootUEFI},
				h.Boot.Value),
		} {
			if !ok {
				t.Errorf("%s: the value of %s is none of the constants", h.Name, what)
			}
		}
	}
}

// TestNoWindowHasAMistypedKey checks keys inside facts. The YAML decoder ignores an unknown
// key there, so a mistyped key would leave a field of a window zero.
func TestNoWindowHasAMistypedKey(t *testing.T) {
	keys := 0
	mistypedKeys := func(text string) (wrong []string) {
		var walk func(node *yaml.Node, fact bool)
		walk = func(node *yaml.Node, fact bool) {
			for i, n := range node.Content {
				if fact && node.Kind == yaml.MappingNode && i%2 == 0 {
					keys++
					if !slices.Contains([]string{"cpu", "pci", "size", "prefetchable"}, n.Value) {
						wrong = append(wrong, n.Value)
					}
				}
				walk(n, fact || node.Kind == yaml.SequenceNode && n.Kind == yaml.SequenceNode)
			}
		}
		var file yaml.Node
		if err := yaml.Unmarshal([]byte(text), &file); err != nil {
			t.Fatal(err)
		}
		walk(&file, false)
		return wrong
	}
	if wrong := mistypedKeys(string(hostsYAML)); len(wrong) > 0 || keys < 50 {
		t.Errorf("hosts.yaml has %d keys in facts, want at least 50; mistyped keys: %q", keys,
			wrong)
	}
	mistyped := strings.Replace(string(hostsYAML), "prefetchable: true", "prefetchabel: true", 1)
	if wrong := mistypedKeys(mistyped); !slices.Equal(wrong, []string{"prefetchabel"}) {
		t.Errorf("the test finds the mistyped keys %q, want \"prefetchabel\"", wrong)
	}
	var f Fact[string]
	if err := yaml.Unmarshal([]byte("{a: b}"), &f); err == nil {
		t.Error("a fact that is not a list is accepted")
	}
}

func TestWindowsOfAPortAreDisjoint(t *testing.T) {
	for _, h := range All() {
		if len(h.Ports) == 0 {
			t.Errorf("%s: has no port", h.Name)
		}
		for _, p := range h.Ports {
			for i, w := range p.Windows.Value {
				if w.Size == 0 || w.CPUAddress+w.Size < w.CPUAddress ||
					w.PCIAddress+w.Size < w.PCIAddress {
					t.Errorf("%s %s: window %d has no size, or exceeds 64 bits", h.Name, p.Name, i)
				}
				for _, o := range p.Windows.Value[:i] {
					if w.PCIAddress < o.PCIAddress+o.Size && o.PCIAddress < w.PCIAddress+w.Size ||
						w.CPUAddress < o.CPUAddress+o.Size && o.CPUAddress < w.CPUAddress+w.Size {
						t.Errorf("%s %s: windows %+v and %+v overlap", h.Name, p.Name, w, o)
					}
				}
			}
		}
	}
}

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

var (
	wormhole  = []BAR{{512 * mib, true}, {}, {1 * mib, false}, {}, {32 * mib, true}}
	blackhole = []BAR{{512 * mib, true}, {}, {1 * mib, false}, {}, {32 * gib, true}}
)

// The expected ports were computed by hand from the windows in hosts.yaml.
func TestBarsOfKnownAcceleratorsFitIfAWindowIsLargeEnough(t *testing.T) {
	fits := func(h *Host, bars []BAR) (names string) {
		for i := range h.Ports {
			if h.Ports[i].AssignAddresses(bars) != nil {
				names += " " + h.Ports[i].Name
			}
		}
		return strings.TrimSpace(names)
	}
	for _, c := range []struct {
		host                string
		wormhole, blackhole string
	}{
		{"qemu-virt", "pcie@10000000", "pcie@10000000"},
		{"rpi5", "pcie1", ""},        // window of 12 GiB
		{"cm4", "pcie0", ""},         // window of 1 GiB
		{"imx8mp", "", ""},           // window of 127 MiB
		{"s32g3", "pcie0 pcie1", ""}, // windows of 28 GiB, and of 32 GiB less 128 KiB
		{"orin-agx", "pcie@141a0000 pcie@14160000 pcie@14100000", ""},
		{"orin-nx", "pcie@14160000 pcie@141e0000 pcie@14100000", ""},
		{"j721e", "pcie1 pcie0", ""}, // windows of 4 GiB
		{"altra", "RCA2 RCA3 RCB0 RCB1 RCB2 RCB3", "RCA2 RCA3 RCB0 RCB1 RCB2 RCB3"},
	} {
		t.Run(c.host, func(t *testing.T) {
			if got := fits(ByName(c.host), wormhole); got != c.wormhole {
				t.Errorf("%s: the BARs of a Wormhole fit at the ports %q, want %q", c.host, got,
					c.wormhole)
			}
			if got := fits(ByName(c.host), blackhole); got != c.blackhole {
				t.Errorf("%s: the BARs of a Blackhole fit at the ports %q, want %q", c.host, got,
					c.blackhole)
			}
		})
	}
}

func TestPlacementMatchesManualResults(t *testing.T) {
	for _, c := range []struct {
		name    string
		windows []Window
		bars    []BAR
		want    []uint64
	}{
		{"prefetchable window first", []Window{{PCIAddress: 0, Size: 4 * gib},
			{PCIAddress: 4 * gib, Size: 4 * gib, Prefetchable: true}},
			[]BAR{{1 * mib, false}, {512 * mib, true}}, []uint64{0, 4 * gib}},
		{"one window for both", []Window{{PCIAddress: 0xc0000000, Size: gib}}, wormhole,
			[]uint64{0xc0000000, 0, 0xe2000000, 0, 0xe0000000}},
		{"a BAR that is not prefetchable stays below 4 GiB",
			[]Window{{PCIAddress: 4 * gib, Size: gib}},
			[]BAR{{mib, false}}, nil},
		{"a BAR that is not prefetchable does not fit a prefetchable window",
			[]Window{{PCIAddress: 0, Size: gib, Prefetchable: true}},
			[]BAR{{mib, false}}, nil},
		{"alignment, not size, decides", []Window{{PCIAddress: 256 * mib, Size: 512 * mib}},
			[]BAR{{512 * mib, true}}, nil},
		{"a window over the 4 GiB line", []Window{{PCIAddress: 3 * gib, Size: 2 * gib}},
			[]BAR{{gib, false}, {gib, false}}, nil},
		{"windows of a bridge are multiples of 1 MiB", []Window{{PCIAddress: 0, Size: mib}},
			[]BAR{{4 * kib, false}, {4 * kib, true}}, nil},
		{"nothing to place", nil, []BAR{{}}, []uint64{0}},
		{"no windows known", nil, wormhole, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Port{Windows: Fact[[]Window]{Value: c.windows}}
			if got := p.AssignAddresses(c.bars); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s: got %#x, want %#x", c.name, got, c.want)
			}
		})
	}
}

func TestPlacedBARsAreAlignedDisjointAndInsideAWindow(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	placements := 0
	for range 20000 {
		h := All()[random.IntN(len(All()))]
		p := &h.Ports[random.IntN(len(h.Ports))]
		bars := make([]BAR, 1+random.IntN(6))
		for i := range bars {
			bars[i] = BAR{1 << (12 + random.IntN(20)), random.IntN(2) == 0}
		}
		placed := p.AssignAddresses(bars)
		if placed == nil {
			continue
		}
		placements++
		for i, b := range bars {
			inside := false
			for _, w := range p.Windows.Value {
				inside = inside || placed[i] >= w.PCIAddress &&
					placed[i]+b.Size <= w.PCIAddress+w.Size &&
					(!w.Prefetchable || b.Prefetchable)
			}
			if !inside || placed[i]%b.Size != 0 || !b.Prefetchable && placed[i]+b.Size > 4*gib {
				t.Fatalf("%s %s: BAR %+v at %#x is misaligned, or outside a suitable window",
					h.Name, p.Name, b, placed[i])
			}
			for j := range i {
				if placed[i] < placed[j]+bars[j].Size && placed[j] < placed[i]+b.Size {
					t.Fatalf("%s %s: BARs %+v and %+v overlap", h.Name, p.Name, b, bars[j])
				}
			}
		}
	}
	if placements < 5000 {
		t.Errorf("only %d of 20000 random sets of BARs fit, want at least 5000", placements)
	}
}
