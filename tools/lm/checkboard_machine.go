package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"lightmetal/boards"
	"lightmetal/boards/hosts"
	"lightmetal/hal"
	"lightmetal/tools/image/fail"

	"golang.org/x/sys/unix"
)

// machine is what was read of a machine.
type machine struct {
	tree
	live      bool // this machine, not a copied tree
	arch      string
	release   string
	page      uint64 // bytes, 0: unknown
	title     string // what it calls itself
	host      *hosts.Host
	config    *kernelConfig
	functions []function
	devices   []pciDevice
	user      user
}

// function is a PCI function of any kind.
type function struct {
	address string
	id      hosts.ID
}

// pciDevice is a PCI function of a known accelerator.
type pciDevice struct {
	address string
	board   *boards.Board
	bars    [6]pciBar
	command uint64 // of configuration space, 0xffff: the device does not answer
	driver  string // bound to it, empty: none
	group   string // IOMMU group, empty: none
}

type pciBar struct {
	start, size  uint64
	assigned     bool
	prefetchable bool
	combines     bool // resourceN_wc is there
}

// user is who runs, and what the kernel lets them do.
type user struct {
	known   bool
	uid     string
	caps    uint64
	memlock uint64 // bytes that may be locked
}

// pciFolder is where the kernel shows PCI devices.
const pciFolder = "/sys/bus/pci/devices/"

// Flags in the third column of `resource` (Linux, include/linux/ioport.h).
const (
	resourceMemory   = 0x200
	resourcePrefetch = 0x2000
	resourceUnset    = 0x20000000
)

// Capabilities (Linux, include/uapi/linux/capability.h).
const (
	capIPCLock  = 1 << 14
	capSysAdmin = 1 << 21
)

// readMachine reads a machine, or a copied tree where root is not empty. A
// configuration and a host that the user named come before what is found.
func readMachine(root string, config *kernelConfig, host *hosts.Host) *machine {
	m := &machine{tree: tree(root), live: root == "", config: config, host: host}
	if m.live {
		m.tree = "/"
	} else {
		requireDirectory(root)
	}
	m.release = m.text("/proc/sys/kernel/osrelease")
	if !m.config.known() {
		m.config = m.findKernelConfig(m.release)
	}
	m.arch, m.page = m.readArch(), m.readPage()
	m.user = m.readUser()
	m.recognise(m.readFunctions())
	if !m.live && m.release == "" && len(m.functions) == 0 && m.title == "" {
		fail.With(hal.NoFile,
			"%s has no proc/sys/kernel/osrelease, sys/bus/pci/devices or proc/device-tree; "+
				"`lm check-board --collect` prints a script that copies them", root)
	}
	return m
}

// readArch is the kernel's architecture as uname has it.
func (m *machine) readArch() string {
	if arch := m.text("/proc/sys/kernel/arch"); arch != "" { // since Linux 6.1
		return arch
	}
	var name unix.Utsname
	switch {
	case m.live && unix.Uname(&name) == nil:
		return unix.ByteSliceToString(name.Machine[:])
	case m.config.on("CONFIG_ARM64"):
		return "aarch64"
	}
	return ""
}

func (m *machine) readPage() uint64 {
	if m.live {
		return uint64(os.Getpagesize())
	}
	if kb, err := strconv.ParseUint(field(m.text("/proc/self/smaps"), "KernelPageSize:"), 10,
		32); err == nil {
		return kb << 10
	}
	for option, page := range map[string]uint64{"CONFIG_ARM64_4K_PAGES": 4 << 10,
		"CONFIG_ARM64_16K_PAGES": 16 << 10,
		"CONFIG_ARM64_64K_PAGES": 64 << 10} {
		if m.config.on(option) {
			return page
		}
	}
	return 0
}

func (m *machine) readUser() user {
	status, limits := m.text("/proc/self/status"), m.text("/proc/self/limits")
	u := user{uid: field(status, "Uid:")}
	caps, err := strconv.ParseUint(field(status, "CapEff:"), 16, 64)
	u.caps, u.known = caps, err == nil && u.uid != ""
	if u.memlock, err = strconv.ParseUint(field(limits, "Max locked memory"), 10, 64); err != nil {
		u.memlock = ^uint64(0) // "unlimited"
		u.known = u.known && limits != ""
	}
	return u
}

func (u user) can(capability uint64) bool { return u.caps&capability != 0 }

// readFunctions walks the PCI functions, keeps those of a known kind, and
// gives the host that a root port among them means.
func (m *machine) readFunctions() (host *hosts.Host) {
	for _, address := range m.names(pciFolder) {
		vendor, _ := m.number(pciFolder + address + "/vendor")
		device, _ := m.number(pciFolder + address + "/device")
		id := hosts.ID{Vendor: uint16(vendor), Device: uint16(device)}
		m.functions = append(m.functions, function{address, id})
		if found := hosts.ByRootPort(id); found != nil {
			host = found
		}
		if board := boards.FindByID(id.Vendor, id.Device); board != nil {
			m.devices = append(m.devices, m.readDevice(address, board))
		}
	}
	return host
}

func (m *machine) readDevice(address string, board *boards.Board) pciDevice {
	folder := pciFolder + address
	d := pciDevice{address: address, board: board, driver: m.link(folder + "/driver"),
		group: m.link(folder + "/iommu_group")}
	if config := m.bytes(folder + "/config"); len(config) >= 6 {
		d.command = uint64(config[4]) | uint64(config[5])<<8
	}
	lines := strings.Split(m.text(folder+"/resource"), "\n")
	for i := range min(len(lines), len(d.bars)) {
		d.bars[i] = parseResource(lines[i])
		d.bars[i].combines = m.has(fmt.Sprintf("%s/resource%d_wc", folder, i))
	}
	return d
}

// parseResource parses a line of `resource`: first address, last, flags.
func parseResource(line string) (b pciBar) {
	var first, last, flags uint64
	if n, err := fmt.Sscanf(line, "0x%x 0x%x 0x%x", &first, &last, &flags); n != 3 || err != nil ||
		flags&resourceMemory == 0 || last < first {
		return pciBar{}
	}
	return pciBar{start: first, size: last - first + 1, assigned: flags&resourceUnset == 0 &&
		first != 0, prefetchable: flags&resourcePrefetch != 0}
}

// recognise finds out what the machine calls itself, and which host it is: the
// one that the user named, else that of its device tree, else that of a root
// port.
func (m *machine) recognise(byRootPort *hosts.Host) {
	if m.host == nil {
		m.host = hosts.ByCompatible(strings.Split(m.text("/proc/device-tree/compatible"), "\x00"))
	}
	if m.host == nil {
		m.host = byRootPort
	}
	if m.title = m.text("/proc/device-tree/model"); m.title == "" {
		m.title = strings.TrimSpace(m.text("/sys/class/dmi/id/sys_vendor") + " " +
			m.text("/sys/class/dmi/id/product_name"))
	}
}

// translated reports whether the device tree puts an IOMMU between PCIe and
// memory. The device's own group appears only once a driver was bound.
func (m *machine) translated() bool {
	for _, pattern := range [...]string{"pci*", "*/pci*", "*/*/pci*"} {
		if found, _ := filepath.Glob(filepath.Join(string(m.tree), "/proc/device-tree", pattern,
			"iommu-map")); len(found) > 0 {
			return true
		}
	}
	return false
}
