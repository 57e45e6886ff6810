// Package hosts describes, as data (hosts.yaml), arm64 machines that an accelerator can be plugged
// into: the addresses and sizes of their PCIe windows, whether host memory can be shared with a
// device, known defects, and how they boot. Host tools read it; no target imports it.
//
// Every value has a source, which is the document that it was read from. The source of a value that
// was measured begins with Measured; all other values are untested. A value without a source is
// unknown.
package hosts

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"sync"

	"go.yaml.in/yaml/v3"
)

// Fact is a value and its source. If there is no source, the value is unknown and zero.
type Fact[T any] struct {
	Value  T
	Source string
}

// Measured is the beginning of the source of a value that was measured.
const Measured = "measured on "

// Known reports whether the value has a source.
func (f Fact[T]) Known() bool { return f.Source != "" }

// String returns the value as text, "unknown" if it is unknown.
func (f Fact[T]) String() string {
	if !f.Known() {
		return "unknown"
	}
	return fmt.Sprint(f.Value)
}

// UnmarshalYAML reads [value, source].
func (f *Fact[T]) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.SequenceNode || len(node.Content) != 2 {
		return fmt.Errorf("line %d: a fact is [value, source]", node.Line)
	}
	return cmp.Or(node.Content[0].Decode(&f.Value), node.Content[1].Decode(&f.Source))
}

// Host is one kind of machine, described as in its maker's device tree or firmware.
type Host struct {
	Name  string // for flags
	Title string // for people

	// Compatible lists strings in the root of its device tree, RootPorts the ids of its PCIe root
	// ports, for machines without a device tree. One match identifies the host.
	Compatible []string
	RootPorts  []ID `yaml:"root-ports"`

	Ports []Port

	// Inbound lists the memory that a device reaches without an IOMMU. A known empty list means all
	// memory, at its physical addresses.
	Inbound   Fact[[]Inbound]
	Coherence Fact[Coherence]
	IOMMU     Fact[IOMMU] // in front of the PCIe ports
	// of resourceN_wc: stores may be merged and may be unaligned
	WriteCombining Fact[Health]   `yaml:"write-combining"`
	Wide           Fact[Health]   // of single accesses of 8 bytes
	PageSize       Fact[uint64]   `yaml:"page-size"` // bytes, of the maker's kernel
	Faults         []Fact[string] // other defects that users must know
	Options        []Option       // kernel options, in addition to those of every host
	Workaround     Fact[string]   // the kernel option that makes write-combining harmless

	Boot       Fact[Boot]
	Console    Fact[string] // value of the kernel's console=
	DeviceTree Fact[string] `yaml:"device-tree"` // file below arch/arm64/boot/dts of the kernel
	// address to which the boot loader must load a kernel
	LoadAddress Fact[uint64] `yaml:"load-address"`
}

// ID is the vendor and device of a PCI function.
type ID struct{ Vendor, Device uint16 }

// Port is one PCIe root port that leads off the chip.
type Port struct {
	Name    string         // of its controller in the device tree or manual
	Where   string         // what it is connected to on this board; "" if unknown
	Gen     Fact[uint8]    // 1 is 2.5 GT/s, 2 is 5, 3 is 8, 4 is 16
	Lanes   Fact[uint8]    // PCIe lanes that this board connects
	Windows Fact[[]Window] // for memory
}

// Window is a range of processor addresses that reaches a range of PCI addresses.
type Window struct {
	CPU, PCI, Size uint64
	Prefetchable   bool
}

// Inbound is a range of memory as a device sees it.
type Inbound struct{ PCI, CPU, Size uint64 }

// Coherence says whether a device's accesses to memory see the processor's caches.
type Coherence string

const (
	Coherent Coherence = "coherent"
	// memory shared with a device has to be uncached, or flushed by the kernel
	NotCoherent Coherence = "not coherent"
)

// IOMMU is the unit that translates the addresses of PCIe devices.
type IOMMU string

const (
	NoIOMMU IOMMU = "none"
	SMMUv2  IOMMU = "SMMUv2"
	SMMUv3  IOMMU = "SMMUv3"
)

// Health says whether a feature that arm64 and PCIe allow works.
type Health string

const (
	Works  Health = "works"
	Faulty Health = "faulty"
)

// Boot is the form in which a kernel and its initramfs reach the machine.
type Boot string

const (
	Pair Boot = "kernel and initramfs" // two files
	FIT  Boot = "FIT"                  // one flattened image tree for U-Boot
	UEFI Boot = "UEFI"                 // the kernel as an EFI application, and an initramfs
)

// Option is a kernel option that a host needs.
type Option struct {
	Name   string // with CONFIG_
	Why    string
	Source string // where the kernel defines it
}

//go:embed hosts.yaml
var text []byte

// read returns the content of hosts.yaml.
var read = sync.OnceValue(func() (all struct {
	Every []Option
	Hosts []*Host
}) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true) // a test checks the keys inside of facts
	if err := d.Decode(&all); err != nil {
		panic(err) // the file is embedded in this program
	}
	return all
})

// All lists every host.
func All() []*Host { return read().Hosts }

// Options lists the kernel options that every host needs and, unless h is nil, those that h needs.
func Options(h *Host) []Option {
	if h == nil {
		return read().Every
	}
	return slices.Concat(read().Every, h.Options)
}

// ByName returns the host of that name, nil if there is none.
func ByName(name string) *Host { return find(func(h *Host) bool { return h.Name == name }) }

// ByCompatible returns the host that matches one of a device tree's compatible strings, nil if none
// does. The list has the tree's order, from the board to the chip, so that the first match is the
// most specific.
func ByCompatible(list []string) *Host {
	for _, c := range list {
		if h := find(func(h *Host) bool { return slices.Contains(h.Compatible, c) }); h != nil {
			return h
		}
	}
	return nil
}

// ByRootPort returns the host that has a root port with these ids, nil if there is none.
func ByRootPort(id ID) *Host {
	return find(func(h *Host) bool { return slices.Contains(h.RootPorts, id) })
}

func find(is func(*Host) bool) *Host {
	if i := slices.IndexFunc(All(), is); i >= 0 {
		return All()[i]
	}
	return nil
}
