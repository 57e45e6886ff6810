package main

import (
	"encoding/binary"
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

// machine is the information that was read from a machine.
type machine struct {
	tree
	isThisMachine bool // true: this machine; false: a copied tree
	arch          string
	release       string
	pageSize      uint64 // bytes, 0: unknown
	title         string // name that the machine reports
	host          *hosts.Host
	config        *kernelConfig
	functions     []pciFunction
	devices       []pciDevice
	user          user
}

// pciFunction is a PCI function of any kind.
type pciFunction struct {
	address string
	id      hosts.ID
}

// pciDevice is a PCI function of a known board, or of a device of the image.
type pciDevice struct {
	address string
	board   *boards.Board
	bars    [6]pciBar
	// The configuration space could be read. Without it, the next two fields and the registers of
	// the BARs are unknown.
	configKnown    bool
	command        uint16 // 0xffff: the device does not answer
	hidesAddresses bool   // its BAR registers are 0 although it has addresses
	// Physical function, if this is a virtual function; otherwise empty.
	physicalFunction string
	driver           string // kernel driver that is bound to the device; empty: none
	group            string // IOMMU group, empty: none
}

type pciBar struct {
	address, size uint64
	register      uint64 // address and barTypeBits
	assigned      bool
	prefetchable  bool
	hasWCFile     bool // the file resourceN_wc exists
}

// Header of PCI configuration space (Linux, include/uapi/linux/pci_regs.h).
const (
	configHeaderSize    = 0x40 // what a user without CAP_SYS_ADMIN can read
	configBar0          = 0x10
	configCapabilities  = 0x34
	enhancedAllocation  = 0x14 // PCI_CAP_ID_EA
	barTypeBits         = 0xf
	barTypeMask, bar64  = 7, 4
	capabilitiesInSpace = (256 - configHeaderSize) / 4
)

// user is the user who runs the process, with the capabilities and limits of the process.
type user struct {
	known   bool
	uid     string
	caps    uint64
	memlock uint64 // bytes that may be locked
}

// pciFolder is the directory with the PCI functions.
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

// readMachine reads this machine, or the copied tree root if root is not empty. A configuration and
// a host that the user has named take precedence over those that are found.
func readMachine(root string, config *kernelConfig, host *hosts.Host) *machine {
	m := &machine{tree: tree(root), isThisMachine: root == "", config: config, host: host}
	if m.isThisMachine {
		m.tree = "/"
	} else {
		requireDirectory(root)
	}
	m.release = m.readText("/proc/sys/kernel/osrelease")
	if !m.config.known() {
		m.config = m.findKernelConfig(m.release)
	}
	m.arch, m.pageSize = m.readArch(), m.readPageSize()
	m.user = m.readUser()
	m.recognise(m.readFunctions())
	if !m.isThisMachine && m.release == "" && len(m.functions) == 0 && m.title == "" {
		fail.With(hal.NoFile,
			"%s has no proc/sys/kernel/osrelease, sys/bus/pci/devices or proc/device-tree; "+
				"`lm check-board --collect` prints a script that copies them", root)
	}
	return m
}

// readArch returns the kernel's architecture as `uname -m` prints it, empty if it is unknown.
func (m *machine) readArch() string {
	if arch := m.readText("/proc/sys/kernel/arch"); arch != "" { // since Linux 6.1
		return arch
	}
	var name unix.Utsname
	switch {
	case m.isThisMachine && unix.Uname(&name) == nil:
		return unix.ByteSliceToString(name.Machine[:])
	case m.config.isEnabled("CONFIG_ARM64"):
		return "aarch64"
	}
	return ""
}

func (m *machine) readPageSize() uint64 {
	if m.isThisMachine {
		return uint64(os.Getpagesize())
	}
	kernelPage := procField(m.readText("/proc/self/smaps"), "KernelPageSize:")
	if kb, err := strconv.ParseUint(kernelPage, 10, 32); err == nil {
		return kb << 10
	}
	for option, page := range map[string]uint64{"CONFIG_ARM64_4K_PAGES": 4 << 10,
		"CONFIG_ARM64_16K_PAGES": 16 << 10,
		"CONFIG_ARM64_64K_PAGES": 64 << 10} {
		if m.config.isEnabled(option) {
			return page
		}
	}
	return 0
}

func (m *machine) readUser() user {
	status, limits := m.readText("/proc/self/status"), m.readText("/proc/self/limits")
	u := user{uid: procField(status, "Uid:")}
	caps, err := strconv.ParseUint(procField(status, "CapEff:"), 16, 64)
	u.caps, u.known = caps, err == nil && u.uid != ""
	memlock := procField(limits, "Max locked memory")
	if u.memlock, err = strconv.ParseUint(memlock, 10, 64); err != nil {
		u.memlock = ^uint64(0) // "unlimited"
		u.known = u.known && limits != ""
	}
	return u
}

func (u user) hasCapability(capability uint64) bool { return u.caps&capability != 0 }

// readFunctions reads all PCI functions, and adds those of known boards to the devices. It returns
// the host that a root port identifies, nil if there is none.
func (m *machine) readFunctions() (host *hosts.Host) {
	for _, address := range m.listDirectory(pciFolder) {
		vendor, _ := m.readNumber(pciFolder + address + "/vendor")
		device, _ := m.readNumber(pciFolder + address + "/device")
		id := hosts.ID{Vendor: uint16(vendor), Device: uint16(device)}
		m.functions = append(m.functions, pciFunction{address, id})
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
	d := pciDevice{address: address, board: board, driver: m.linkBase(folder + "/driver"),
		group:            m.linkBase(folder + "/iommu_group"),
		physicalFunction: m.linkBase(folder + "/physfn")}
	lines := strings.Split(m.readText(folder+"/resource"), "\n")
	for i := range min(len(lines), len(d.bars)) {
		d.bars[i] = parseResource(lines[i])
		d.bars[i].hasWCFile = m.exists(fmt.Sprintf("%s/resource%d_wc", folder, i))
	}
	d.readConfig(m.readBytes(folder + "/config"))
	return d
}

func (d *pciDevice) readConfig(config []byte) {
	if d.configKnown = len(config) >= configHeaderSize; !d.configKnown {
		return
	}
	d.command = binary.LittleEndian.Uint16(config[4:])
	d.hidesAddresses = d.physicalFunction != "" || hasCapability(config, enhancedAllocation)
	for i := range d.bars {
		register := config[configBar0+4*i:]
		d.bars[i].register = uint64(binary.LittleEndian.Uint32(register))
		if d.bars[i].register&barTypeMask == bar64 && i+1 < len(d.bars) {
			d.bars[i].register = binary.LittleEndian.Uint64(register)
		}
	}
}

// hasCapability searches the list of capabilities, as far as the user could read it.
func hasCapability(config []byte, id byte) bool {
	at := int(config[configCapabilities])
	for range capabilitiesInSpace {
		if at < configHeaderSize || at+1 >= len(config) {
			return false
		}
		if config[at] == id {
			return true
		}
		at = int(config[at+1])
	}
	return false
}

// parseResource parses a line of `resource`: first address, last, flags.
func parseResource(line string) (b pciBar) {
	var first, last, flags uint64
	if n, err := fmt.Sscanf(line, "0x%x 0x%x 0x%x", &first, &last, &flags); n != 3 || err != nil ||
		flags&resourceMemory == 0 || last < first {
		return pciBar{}
	}
	return pciBar{address: first, size: last - first + 1, assigned: flags&resourceUnset == 0 &&
		first != 0, prefetchable: flags&resourcePrefetch != 0}
}

// recognise sets the name that the machine reports, and its host: the host that the user has named,
// otherwise that of the device tree, otherwise that of a root port.
func (m *machine) recognise(byRootPort *hosts.Host) {
	if m.host == nil {
		m.host = hosts.ByCompatible(
			strings.Split(m.readText("/proc/device-tree/compatible"), "\x00"))
	}
	if m.host == nil {
		m.host = byRootPort
	}
	if m.title = m.readText("/proc/device-tree/model"); m.title == "" {
		m.title = strings.TrimSpace(m.readText("/sys/class/dmi/id/sys_vendor") + " " +
			m.readText("/sys/class/dmi/id/product_name"))
	}
}

// hasIOMMUMap reports whether there is an IOMMU between PCIe and memory according to the device
// tree. The IOMMU group of a device exists only after a driver was bound to the device.
func (m *machine) hasIOMMUMap() bool {
	for _, pattern := range [...]string{"pci*", "*/pci*", "*/*/pci*"} {
		if found, _ := filepath.Glob(filepath.Join(string(m.tree), "/proc/device-tree", pattern,
			"iommu-map")); len(found) > 0 {
			return true
		}
	}
	return false
}
