// Package hosts describes arm64 machines that accept a PCIe accelerator. The file hosts.yaml
// has the addresses and sizes of their PCIe windows, whether a device can share host memory,
// known defects, and how the machines boot. Only host tools import package hosts.
//
// Every known value has a source, for example a document. The source of a measured value
// begins with Measured. All other values are untested. A value without a source is unknown.
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

// Fact is a value and the source of the value. If Source is empty, the value is unknown, and
// Value is zero.
type Fact[T any] struct {
	Value  T
	Source string
}

// Measured is the beginning of the source of a value that was measured.
const Measured = "measured on "

// Known reports whether the value has a source.
func (f Fact[T]) Known() bool { return f.Source != "" }

// String returns the value as text, or "unknown" if the value is unknown.
func (f Fact[T]) String() string {
	if !f.Known() {
		return "unknown"
	}
	return fmt.Sprint(f.Value)
}

// UnmarshalYAML reads a fact from a YAML list of two elements, [value, source].
func (f *Fact[T]) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.SequenceNode || len(node.Content) != 2 {
		return fmt.Errorf("line %d: a fact must be a list [value, source]", node.Line)
	}
	return cmp.Or(node.Content[0].Decode(&f.Value), node.Content[1].Decode(&f.Source))
}

// Host is one kind of machine. Its data come from the maker's device tree or firmware.
type Host struct {
	Name  string // name in flags of commands
	Title string // name in reports

	// Compatible lists strings of property compatible in the root node of the device tree.
	// RootPorts lists the PCI ids of the PCIe root ports, for machines without a device tree.
	// One match in either list identifies the host.
	Compatible []string
	RootPorts  []ID `yaml:"root-ports"`

	Ports []Port

	// Inbound lists the memory that a device can access without an IOMMU. If the list is known
	// and empty, a device can access all memory at physical addresses.
	Inbound   Fact[[]Inbound]
	Coherence Fact[Coherence]
	IOMMU     Fact[IOMMU] // unit that translates addresses of devices at the PCIe ports
	// whether resourceN_wc mappings accept merged stores and unaligned stores
	WriteCombining Fact[Health]   `yaml:"write-combining"`
	Wide           Fact[Health]   // whether single accesses of 8 bytes work
	PageSize       Fact[uint64]   `yaml:"page-size"` // bytes of a page in the maker's kernel
	Faults         []Fact[string] // other defects that users must know
	Options        []Option       // kernel options that only this host needs
	Workaround     Fact[string]   // kernel option that avoids the write-combining defect

	Boot       Fact[Boot]
	Console    Fact[string] // value of the kernel parameter console=
	DeviceTree Fact[string] `yaml:"device-tree"` // file below arch/arm64/boot/dts of the kernel
	// address to which the boot loader must load a kernel
	LoadAddress Fact[uint64] `yaml:"load-address"`
}

// ID has the PCI vendor id and device id of a PCI function.
type ID struct{ Vendor, Device uint16 }

// Port is one PCIe root port to which an external device can be connected.
type Port struct {
	Name    string         // name of the PCIe controller in the device tree or manual
	Where   string         // connector or chip that the port leads to; "" if unknown
	Gen     Fact[uint8]    // PCIe generation, 1 to 4: 2.5, 5, 8 or 16 GT/s
	Lanes   Fact[uint8]    // number of PCIe lanes that the board connects
	Windows Fact[[]Window] // windows for memory requests
}

// Window maps a range of processor addresses to a range of PCI addresses of the same size.
type Window struct {
	CPU, PCI, Size uint64
	Prefetchable   bool
}

// Inbound maps Size bytes from address PCI on, as a device accesses them, to memory at CPU.
type Inbound struct{ PCI, CPU, Size uint64 }

// Coherence describes whether a device's accesses to memory are coherent with the processor's
// caches.
type Coherence string

const (
	Coherent Coherence = "coherent"
	// The kernel must flush memory that a device shares, or map the memory uncached.
	NotCoherent Coherence = "not coherent"
)

// IOMMU is the kind of unit that translates the addresses of memory requests of PCIe devices.
type IOMMU string

const (
	NoIOMMU IOMMU = "none"
	SMMUv2  IOMMU = "SMMUv2"
	SMMUv3  IOMMU = "SMMUv3"
)

// Health describes whether a feature that arm64 and PCIe allow works on the host.
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

// Option is an option of the kernel's configuration that a host needs.
type Option struct {
	Name   string // name of the option, CONFIG_ included
	Why    string
	Source string // source of Why, for example a kernel file
}

//go:embed hosts.yaml
var text []byte

// read returns the content of hosts.yaml.
var read = sync.OnceValue(func() (all struct {
	Every []Option
	Hosts []*Host
}) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true) // has no effect inside facts; a test checks their keys
	if err := d.Decode(&all); err != nil {
		panic(err) // cannot happen, because tests decode the same embedded file
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

// ByName returns the host with the given name, or nil if no host has the name.
func ByName(name string) *Host { return find(func(h *Host) bool { return h.Name == name }) }

// ByCompatible returns the host that matches one of a device tree's compatible strings, or nil
// if no host matches. The list must be in the order of the device tree, from board to chip.
// Therefore the first match is the most specific match.
func ByCompatible(list []string) *Host {
	for _, c := range list {
		if h := find(func(h *Host) bool { return slices.Contains(h.Compatible, c) }); h != nil {
			return h
		}
	}
	return nil
}

// ByRootPort returns the host that has a root port with the given PCI ids, or nil if no host
// does.
func ByRootPort(id ID) *Host {
	return find(func(h *Host) bool { return slices.Contains(h.RootPorts, id) })
}

func find(is func(*Host) bool) *Host {
	if i := slices.IndexFunc(All(), is); i >= 0 {
		return All()[i]
	}
	return nil
}
