// Package hosts describes arm64 machines (hosts) into which a PCIe accelerator can be plugged. The
// file hosts.yaml has the data about each host: its PCIe windows, how devices access its memory,
// its known defects, and how it boots. Only host tools import package hosts.
//
// Every known value has a source, for example a document. Only if the value was measured, the text
// of its source begins with the constant Measured. A value without a source is unknown.
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

// Fact is a value with its source. If Source is empty, the value is unknown, and Value is zero.
type Fact[T any] struct {
	Value  T
	Source string
}

// Measured is the beginning of Fact.Source if the value was measured.
const Measured = "measured on "

// IsKnown reports whether the value is known: whether it has a source.
func (f Fact[T]) IsKnown() bool { return f.Source != "" }

// String returns the value as text, or "unknown".
func (f Fact[T]) String() string {
	if !f.IsKnown() {
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

// Host describes one kind of machine. Most values come from the maker's device tree or firmware.
type Host struct {
	Name  string // in flags of commands
	Title string // in reports

	// Compatible lists values of the property `compatible` in the root node of the device tree.
	// RootPorts lists the PCI ids of the PCIe root ports, for machines without a device tree. A
	// machine that matches an entry of either list is this host.
	Compatible []string
	RootPorts  []ID `yaml:"root-ports"`

	Ports []Port // PCIe ports for external devices

	// Inbound lists the ranges of memory that a device can access without an IOMMU. If the list is
	// known and empty, a device can access all memory, and bus addresses equal physical addresses.
	Inbound   Fact[[]InboundRange]
	Coherence Fact[Coherence]
	IOMMU     Fact[IOMMU] // unit that translates addresses of devices at the PCIe ports
	// WriteCombining is Works if a write-combining mapping of a BAR (the file resourceN_wc in
	// sysfs) accepts all stores, also unaligned stores and stores that the processor merges.
	WriteCombining Fact[Health] `yaml:"write-combining"`
	// WideAccess is Works if 8-byte loads and stores of a BAR work.
	WideAccess Fact[Health] `yaml:"wide"`
	// Workaround is the kernel option that avoids the defect if WriteCombining is Faulty.
	Workaround Fact[string]
	// OtherDefects describes the defects for which Host has no other field.
	OtherDefects []Fact[string] `yaml:"other-defects"`

	// KernelOptions lists the kernel options that this host needs in addition to the options that
	// every host needs.
	KernelOptions []KernelOption `yaml:"options"`
	PageSize      Fact[uint64]   `yaml:"page-size"` // page size of the maker's kernel, in bytes

	Boot       Fact[BootFormat]
	Console    Fact[string] // value of the kernel parameter console=
	DeviceTree Fact[string] `yaml:"device-tree"` // file in arch/arm64/boot/dts of the kernel
	// LoadAddress is the physical address to which the boot loader must load a kernel.
	LoadAddress Fact[uint64] `yaml:"load-address"`
}

// ID has the PCI vendor id and device id of a PCI function.
type ID struct{ Vendor, Device uint16 }

// Port describes a PCIe root port to which an external device can be connected.
type Port struct {
	Name string // name of the PCIe controller in the device tree or manual
	// ConnectedTo is the connector or chip at the other end of the port, or "" if it is unknown.
	ConnectedTo string `yaml:"where"`
	// Generation is the PCIe generation, 1 to 4: 2.5, 5, 8 or 16 GT/s.
	Generation Fact[uint8] `yaml:"gen"`
	// LaneCount is the number of PCIe lanes that the host's board connects.
	LaneCount Fact[uint8] `yaml:"lanes"`
	// Windows lists the ranges of addresses through which the processor accesses devices.
	Windows Fact[[]Window]
}

// Window maps a range of processor addresses to a range of PCI addresses. The processor uses the
// addresses from CPUAddress on, and PCIe uses the addresses from PCIAddress on.
type Window struct {
	CPUAddress   uint64 `yaml:"cpu"`
	PCIAddress   uint64 `yaml:"pci"`
	Size         uint64 // in bytes
	Prefetchable bool
}

// InboundRange maps a range of bus addresses, which devices use, to a range of memory. The bus
// addresses start at PCIAddress. The physical addresses of the memory start at CPUAddress.
type InboundRange struct {
	PCIAddress uint64 `yaml:"pci"`
	CPUAddress uint64 `yaml:"cpu"`
	Size       uint64 // in bytes
}

// Coherence describes whether a device's accesses to memory are coherent with the processor's
// caches.
type Coherence string

// Values of Coherence.
const (
	Coherent Coherence = "coherent"
	// The kernel must flush the caches for memory that is shared with a device, or map such memory
	// uncached.
	NotCoherent Coherence = "not coherent"
)

// IOMMU is the kind of unit that translates the memory addresses in requests of PCIe devices.
type IOMMU string

// Values of IOMMU.
const (
	NoIOMMU IOMMU = "none"
	SMMUv2  IOMMU = "SMMUv2"
	SMMUv3  IOMMU = "SMMUv3"
)

// Health describes whether a feature of arm64 or PCIe works on a host.
type Health string

// Values of Health.
const (
	Works  Health = "works"
	Faulty Health = "faulty"
)

// BootFormat is the form in which the boot loader of a host expects a kernel and an initramfs.
type BootFormat string

// Values of BootFormat.
const (
	BootPair BootFormat = "kernel and initramfs" // two files
	BootFIT  BootFormat = "FIT"                  // one file for U-Boot: a flattened image tree
	BootUEFI BootFormat = "UEFI"                 // kernel as EFI application, and an initramfs
)

// KernelOption is an option of the kernel's configuration that a host needs.
type KernelOption struct {
	Name   string // including CONFIG_
	Reason string `yaml:"why"`
	Source string // source of Reason, for example a kernel file
}

//go:embed hosts.yaml
var hostsYAML []byte

// readHosts returns the content of hosts.yaml. It decodes the file only in the first call.
var readHosts = sync.OnceValue(func() (all struct {
	Every []KernelOption // kernel options that every host needs
	Hosts []*Host
}) {
	d := yaml.NewDecoder(bytes.NewReader(hostsYAML))
	// Reject unknown keys. The decoder does not check keys inside facts; a test checks them.
	d.KnownFields(true)
	if err := d.Decode(&all); err != nil {
		panic(err) // does not happen: the file is embedded, and tests decode it
	}
	return all
})

// All returns every host of hosts.yaml.
func All() []*Host { return readHosts().Hosts }

// KernelOptions returns the kernel options that the host `h` needs. If `h` is nil, it returns the
// options that every host needs.
func KernelOptions(h *Host) []KernelOption {
	if h == nil {
		return readHosts().Every
	}
	return slices.Concat(readHosts().Every, h.KernelOptions)
}

// ByName returns the host with this name, or nil.
func ByName(name string) *Host { return findHost(func(h *Host) bool { return h.Name == name }) }

// ByCompatible returns the host that matches one of the `compatible` strings of a device tree, or
// nil if no host matches. The list must be in the order of the device tree: first the string of the
// board, last the string of the chip. ByCompatible returns the first match, because it is the most
// specific one.
func ByCompatible(compatible []string) *Host {
	for _, c := range compatible {
		if h := findHost(func(h *Host) bool { return slices.Contains(h.Compatible, c) }); h != nil {
			return h
		}
	}
	return nil
}

// ByRootPort returns the host that has a root port with these PCI ids, or nil.
func ByRootPort(id ID) *Host {
	return findHost(func(h *Host) bool { return slices.Contains(h.RootPorts, id) })
}

func findHost(matches func(*Host) bool) *Host {
	if i := slices.IndexFunc(All(), matches); i >= 0 {
		return All()[i]
	}
	return nil
}
