// Package hosts describes, as data (hosts.yaml), arm64 machines that can carry an accelerator:
// where their PCIe windows lie and how large they are, whether host memory can be shared with a
// device, what is known to be broken, and how they boot. Host tools read it; nothing on a target
// imports it.
//
// Every value stands beside the document it was read from; what was tried says so (Measured), and
// all else never was. What no document confirmed has no source and is unknown.
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

// Fact is a value and where it comes from. Without a source the value is unknown, and the zero
// value.
type Fact[T any] struct {
	Value  T
	Source string
}

// Measured begins the source of what was tried, and not only read.
const Measured = "measured on "

// Known tells whether a source stands behind the value.
func (f Fact[T]) Known() bool { return f.Source != "" }

// String is the value for people.
func (f Fact[T]) String() string {
	if !f.Known() {
		return "unknown"
	}
	return fmt.Sprint(f.Value)
}

// UnmarshalYAML takes [value, source].
func (f *Fact[T]) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.SequenceNode || len(node.Content) != 2 {
		return fmt.Errorf("line %d: a fact is [value, source]", node.Line)
	}
	return cmp.Or(node.Content[0].Decode(&f.Value), node.Content[1].Decode(&f.Source))
}

// Host is one kind of machine, as its maker's device tree or firmware has it.
type Host struct {
	Name  string // as it is typed
	Title string // for people

	// Compatible has strings of the root of its device tree; RootPorts the ids of its PCIe root
	// ports, for machines that have no device tree. Any one that is found means this host.
	Compatible []string
	RootPorts  []ID `yaml:"root-ports"`

	Ports []Port

	// Inbound is what a device reaches without an IOMMU. A known empty list
	// means that all of memory is there at its physical address.
	Inbound   Fact[[]Inbound]
	Coherence Fact[Coherence]
	IOMMU     Fact[IOMMU] // in front of the PCIe ports
	// of resourceN_wc: stores may be merged and may be unaligned
	WriteCombining Fact[Health]   `yaml:"write-combining"`
	Wide           Fact[Health]   // of single accesses of 8 bytes
	PageSize       Fact[uint64]   `yaml:"page-size"` // bytes, of the kernel its maker ships
	Faults         []Fact[string] // whatever else a user has to know
	Options        []Option       // of the kernel, beside those every host needs
	Workaround     Fact[string]   // the kernel option that makes write-combining harmless

	Boot       Fact[Boot]
	Console    Fact[string] // value of the kernel's console=
	DeviceTree Fact[string] `yaml:"device-tree"` // file below arch/arm64/boot/dts of the kernel
	// where the boot loader wants a kernel before it starts it
	LoadAddress Fact[uint64] `yaml:"load-address"`
}

// ID is the vendor and device of a PCI function.
type ID struct{ Vendor, Device uint16 }

// Port is one PCIe root port that leads off the chip.
type Port struct {
	Name    string         // of its controller in the device tree or manual
	Where   string         // what it leads to on this board, empty: not told
	Gen     Fact[uint8]    // 1 is 2.5 GT/s, 2 is 5, 3 is 8, 4 is 16
	Lanes   Fact[uint8]    // wired on this board
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

// IOMMU is what translates the addresses of PCIe devices.
type IOMMU string

const (
	NoIOMMU IOMMU = "none"
	SMMUv2  IOMMU = "SMMUv2"
	SMMUv3  IOMMU = "SMMUv3"
)

// Health says whether something that arm64 and PCIe allow works.
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

// Option is a kernel option a host needs.
type Option struct {
	Name   string // with CONFIG_
	Why    string
	Source string // where the kernel defines it
}

//go:embed hosts.yaml
var text []byte

// read is what hosts.yaml has.
var read = sync.OnceValue(func() (all struct {
	Every []Option
	Hosts []*Host
}) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true) // but for what is inside of facts, which a test holds
	if err := d.Decode(&all); err != nil {
		panic(err) // data of our own
	}
	return all
})

// All lists every host.
func All() []*Host { return read().Hosts }

// Options lists what the kernel of every host needs, and of this one, nil: no more.
func Options(h *Host) []Option {
	if h == nil {
		return read().Every
	}
	return slices.Concat(read().Every, h.Options)
}

// ByName finds a host, nil if there is none of that name.
func ByName(name string) *Host { return find(func(h *Host) bool { return h.Name == name }) }

// ByCompatible finds the host that one of a device tree's compatible strings means. The list is in
// the tree's order, from the board to the chip, so that the first match is the closest.
func ByCompatible(list []string) *Host {
	for _, c := range list {
		if h := find(func(h *Host) bool { return slices.Contains(h.Compatible, c) }); h != nil {
			return h
		}
	}
	return nil
}

// ByRootPort finds the host that has a root port with these ids.
func ByRootPort(id ID) *Host {
	return find(func(h *Host) bool { return slices.Contains(h.RootPorts, id) })
}

func find(is func(*Host) bool) *Host {
	if i := slices.IndexFunc(All(), is); i >= 0 {
		return All()[i]
	}
	return nil
}
