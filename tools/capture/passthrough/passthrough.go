// Package passthrough checks the command line of a QEMU that passes a card through to a guest. It
// decides what lm record sees of the guest's driver.
package passthrough

import (
	"fmt"
	"path"
	"strings"
)

// Level says how much a finding matters.
type Level uint8

const (
	Hint    Level = iota // the recording could have more
	Warning              // a part of the recording may be wrong, or not of the guest's driver
	Error                // the recording would lack accesses or host memory
)

func (l Level) String() string { return [...]string{"hint", "warning", "error"}[l] }

// Finding is something in the command line that decides about the recording.
type Finding struct {
	Level          Level
	Reason, Remedy string
}

func (f Finding) String() string { return fmt.Sprintf("%s: %s; %s", f.Level, f.Reason, f.Remedy) }

// Report is the result of Check.
type Report struct {
	Findings []Finding
	Good     []string // what is as it should be
	Marks    string   // file to which a guest's port `lm` is written, or ""
}

// Errors returns the number of findings that are errors.
func (r *Report) Errors() (n int) {
	for _, f := range r.Findings {
		if f.Level == Error {
			n++
		}
	}
	return n
}

func (r *Report) add(level Level, reason, remedy string) {
	r.Findings = append(r.Findings, Finding{level, reason, remedy})
}

// check adds what is good, or a finding.
func (r *Report) check(ok bool, good string, level Level, reason, remedy string) {
	if ok {
		r.Good = append(r.Good, good)
	} else {
		r.add(level, reason, remedy)
	}
}

// IsQEMU reports whether a program is a QEMU that runs a machine.
func IsQEMU(program string) bool {
	name := path.Base(program)
	return strings.HasPrefix(name, "qemu-system-") || name == "qemu-kvm" || name == "kvm"
}

// Check checks a command line, without the program's name. With recordsMemory, host memory is to be
// recorded. readFile reads an ACPI table.
func Check(arguments []string, recordsMemory bool,
	readFile func(path string) ([]byte, error)) *Report {
	o, r := parse(arguments), &Report{}
	cards := o.devices("vfio-pci", "vfio-pci-nohotplug")
	for _, c := range cards {
		checkCard(r, c)
	}
	if len(cards) == 0 {
		r.add(Warning, "the command line has no vfio-pci device, so what device_add adds is not "+
			"checked", "add it with x-no-mmap=on,rombar=0")
	}
	if recordsMemory {
		checkIOMMU(r, o, len(cards) > 0)
		checkPort(r, o, cards, readFile)
		checkMemory(r, o)
	}
	if len(cards) > 0 {
		checkFirmware(r, o)
	}
	checkMarks(r, o)
	return r
}

func checkCard(r *Report, c option) {
	name := c.text("host", c.text("sysfsdev", "the card"))
	r.check(c.isOn("x-no-mmap"), "x-no-mmap=on of "+name, Error,
		fmt.Sprintf("%s: QEMU maps its BARs into the guest, and lm sees no access", name),
		"add x-no-mmap=on to this vfio-pci device")
	r.check(c.isOff("rombar"), "rombar=0 of "+name, Warning,
		fmt.Sprintf("%s: the firmware may run the card's ROM, whose accesses are then recorded",
			name), "add rombar=0 to this vfio-pci device")
	r.check(c.isOn("x-no-kvm-msix"), "x-no-kvm-msix=on of "+name, Hint,
		fmt.Sprintf("%s: KVM delivers its interrupts, and the recording has no IRQ lines", name),
		"add x-no-kvm-msix=on (for MSI and INTx x-no-kvm-msi=on and x-no-kvm-intx=on) to see "+
			"the waits for interrupts")
}

// checkIOMMU checks the virtual IOMMU. hasCard: the card is there when the machine starts.
func checkIOMMU(r *Report, o *options, hasCard bool) {
	const remedy = "add -device virtio-iommu-pci,boot-bypass=off"
	virtio := append(o.devices("virtio-iommu-pci"), o.devices("virtio-iommu-device")...)
	intel, machine := o.devices("intel-iommu"), o.machine()
	switch {
	case machine.isOn("default_bus_bypass_iommu"):
		r.add(Error, "default_bus_bypass_iommu=on: the card reaches all memory of the guest",
			"leave it out")
	case len(virtio) > 0:
		r.check(virtio[0].isOff("boot-bypass"), "virtio-iommu with boot-bypass=off", Error,
			"virtio-iommu: until the guest's driver is loaded, the card reaches all memory of "+
				"the guest", "add boot-bypass=off to it")
	case len(intel) > 0:
		r.check(!hasCard, "intel-iommu, and the card is added later", Error,
			"intel-iommu: until the guest enables it, the card reaches all memory of the guest",
			"use virtio-iommu-pci,boot-bypass=off instead, or add the card with device_add when "+
				"the guest runs")
	case len(o.devices("amd-iommu")) > 0 || machine.text("iommu", "none") != "none":
		r.add(Error, "this virtual IOMMU does not tell VFIO what the guest's driver maps", remedy)
	default:
		r.add(Error, "without a virtual IOMMU, the card reaches all memory of the guest, and lm "+
			"cannot know what it uses", remedy+", or record no memory with --host-memory 0")
	}
}

// checkPort checks what makes Linux in a guest use bounce buffers for parts of pages.
func checkPort(r *Report, o *options, cards []option, readFile func(string) ([]byte, error)) {
	const reason = "Linux in the guest maps whole pages, so the card's buffers share pages with " +
		"other data, and lm cannot tell who wrote them"
	port := ""
	for _, p := range o.devices("pcie-root-port", "ioh3420") {
		if a := p.text("addr", ""); a == "1" || a == "0x1" || a == "1.0" || a == "0x1.0" {
			port = p.text("id", "")
		}
	}
	table := false
	for _, t := range o.list("acpitable") {
		data, err := readFile(t.text("file", t.text("data", "")))
		table = table || err == nil && strings.Contains(string(data), externalPort)
	}
	switch {
	case !table:
		r.add(Warning, reason, "write an ACPI table with lm record --port-table FILE, and add "+
			"-acpitable file=FILE, a pcie-root-port with addr=1, and its bus to the card")
		return
	case port == "":
		r.add(Warning, "no root port has addr=1, so the table of --port-table names none",
			"add -device pcie-root-port,id=rp0,addr=1,chassis=1,slot=1, and bus=rp0 to the card")
		return
	}
	for _, c := range cards {
		if c.text("bus", "") != port {
			r.add(Warning, reason, "add bus="+port+" to the vfio-pci device")
			return
		}
	}
	r.Good = append(r.Good, "an external-facing port")
	if kernel := o.last("append"); kernel != "" {
		r.check(strings.Contains(kernel, "swiotlb="), "bounce buffers (swiotlb)", Warning,
			"a guest with little memory has no bounce buffers", "add swiotlb=2048,force to -append")
	}
}

func checkMemory(r *Report, o *options) {
	for _, b := range append(o.list("object"), o.list("mem-path")...) {
		if b.isOn("hugetlb") || strings.Contains(b.text("mem-path", b.name), "huge") {
			r.add(Warning, "the guest's memory is in huge pages, and lm knows who wrote only for "+
				"whole pages", "leave out the huge pages")
			return
		}
	}
}

func checkFirmware(r *Report, o *options) {
	bios := path.Base(o.last("bios"))
	r.check(bios == "qboot.rom", "firmware "+bios, Warning, "the firmware may have a driver of "+
		"its own for the card, whose accesses are then recorded", "add -bios qboot.rom and start "+
		"the guest's kernel with -kernel, or add the card with device_add when the guest runs")
}

// checkMarks finds the file to which a port `lm` is written.
func checkMarks(r *Report, o *options) {
	for _, p := range o.devices("virtserialport", "virtconsole") {
		if p.text("name", "") != "lm" {
			continue
		}
		for _, c := range o.list("chardev") {
			if c.text("id", "") == p.text("chardev", "") && c.name == "file" {
				r.Marks = c.text("path", "")
			}
		}
		r.check(r.Marks != "", "marks of the guest in "+r.Marks, Error,
			"lm does not see the marks that the guest writes to this virtserialport",
			"its chardev must be -chardev file,id=ID,path=PATH")
	}
}
