//go:build backend_pci || !(backend_vfio || backend_tt)

package hal

// This file implements the backend pci. It accesses a PCI function through the files in the
// function's sysfs directory. DMA to host memory works only if no IOMMU translates the addresses
// that the device uses. The device can then read and write all memory of the machine. Therefore
// this backend is for bring-up only.

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

// Parts of configuration space (PCI Local Bus 3.0, 6.2.5.1, 6.7 and 6.8). The comments name the
// constants of linux/pci_regs.h.
const (
	configStatusINTx    = 1 << 3 // PCI_STATUS_INTERRUPT: INTx is pending, even if disabled
	configStatusList    = 1 << 4 // PCI_STATUS_CAP_LIST: there is a list of capabilities
	configBridgeWindow  = 0x20   // PCI_MEMORY_BASE of a bridge, 2 bytes
	configCapabilities  = 0x34   // PCI_CAPABILITY_LIST: offset of the first capability, 1 byte
	configCapabilityMin = 0x40   // PCI_STD_HEADER_SIZEOF: lowest offset of a capability
	capabilitiesMax     = 48     // so many capabilities of 4 bytes fill the space up to 0xff

	capabilityMSI     = 0x05    // PCI_CAP_ID_MSI
	capabilityMSIX    = 0x11    // PCI_CAP_ID_MSIX
	capabilityEA      = 0x14    // PCI_CAP_ID_EA (Enhanced Allocation): has the addresses of BARs
	capabilityControl = 2       // PCI_MSI_FLAGS, PCI_MSIX_FLAGS: 2 bytes
	msiEnable         = 1 << 0  // PCI_MSI_FLAGS_ENABLE
	msixEnable        = 1 << 15 // PCI_MSIX_FLAGS_ENABLE

	barIOBit       = 1 << 0       // PCI_BASE_ADDRESS_SPACE_IO: 1 if the BAR has I/O ports
	barTypeMask    = 3 << 1       // PCI_BASE_ADDRESS_MEM_TYPE_MASK: mask of the BAR's type bits
	barType64Bit   = 2 << 1       // PCI_BASE_ADDRESS_MEM_TYPE_64: type of a BAR of two registers
	barAddressMask = ^uint64(0xf) // PCI_BASE_ADDRESS_MEM_MASK: mask of the address bits
)

// pciBackend implements the interface backend for a device with a name such as pci:0000:01:00.0.
type pciBackend struct {
	dev             *device
	checkedNoIOMMU  bool                   // checkNoIOMMU has succeeded before
	barBusAddresses [configBarCount]uint64 // bus address of each BAR; 0 if the BAR has none
}

const pciExample = " `pci:1234:11e8`" // a name that this backend opens

// newPCI returns the backend pci for the device d.
func newPCI(d *device) backend { return &pciBackend{dev: d} }

// identifyDevice implements backend: it finds the function, checks that no kernel driver uses the
// function, and reads the function's BARs.
func (p *pciBackend) identifyDevice() error {
	d := p.dev
	// Find the function in sysfs. Read its ids, its BARs and the name of its kernel driver.
	if err := d.pciFunction.findInSysfs(d.locator, d.locatorIsIDs); err != nil {
		return err
	}
	// Return an error if a kernel driver uses the function: this program and the driver would
	// disturb each other.
	if err := p.checkUnbound(); err != nil {
		return err
	}
	if err := d.openConfig(); err != nil {
		return err
	}
	return p.readBARs()
}

// acquireDevice implements backend: it enables memory decoding, disables interrupts, and stops DMA.
// If bus mastering is on, a killed program has left it on, and the device may write to memory that
// now belongs to other programs: acquireDevice switches it off and resets the device.
func (p *pciBackend) acquireDevice() error {
	d := p.dev
	found, _ := d.config.Load(configCommandOffset, 2)
	// Enable the function through sysfs, because the kernel then also wakes the function from a
	// sleep state. Ignore an error if memory decoding is on: a user who may not write the sysfs
	// file can still use such a function.
	err := p.enableMemoryDecoding()
	// If memory decoding is still off, set the bit here. The kernel sets the bit only the first
	// time that the function is enabled, and a program may have cleared the bit since then.
	command, code := d.config.Load(configCommandOffset, 2)
	if code != OK {
		command = configCommandMasterBit // assume that bus mastering is on
	}
	if command&configCommandMemoryBit == 0 {
		if err == nil {
			err = d.setCommandRegisterBit(configCommandMemoryBit, true)
		}
		if err != nil {
			return err
		}
	}
	p.silenceInterrupts(found)
	if command&configCommandMasterBit == 0 {
		return nil
	}
	// Ignore the error if this user may not write configuration space: such a user can only replay
	// images without DMA, because switching bus mastering on will fail.
	err = d.setCommandRegisterBit(configCommandMasterBit, false)
	if CodeOf(err) == Denied {
		return nil
	}
	if err != nil {
		return err
	}
	// Reset the function, so that it discards the memory addresses that the killed program has
	// stored in its registers. Ignore an error, because not every function supports a reset. Then
	// set the memory decoding bit again, because a reset may clear the bit.
	_ = writeFile(d.pciFunction.sysfsDir()+"/reset", "1\n")
	return d.setCommandRegisterBit(configCommandMemoryBit, true)
}

// checkUnbound returns an error if a kernel driver is bound to the function. The driver pci-stub is
// allowed: it does not use the function, and only prevents other drivers from binding to the
// function.
func (p *pciBackend) checkUnbound() error {
	f, remedy := &p.dev.pciFunction, "; "
	switch f.boundDriver {
	case "", "pci-stub":
		return nil
	case "vfio-pci":
		remedy = p.vfioAdvice() + ", or "
	}
	return p.dev.fault(NoDevice, "the kernel driver "+f.boundDriver+" owns the device"+remedy+
		p.unbindAdvice())
}

// vfioAdvice returns the end of an error message. It advises the user to open the device with the
// backend vfio instead.
func (p *pciBackend) vfioAdvice() string {
	return "; open the device as `vfio:" + p.dev.pciFunction.Address + "`"
}

// unbindAdvice returns the end of an error message. It contains the shell command that unbinds the
// kernel driver from the function.
func (p *pciBackend) unbindAdvice() string {
	f := &p.dev.pciFunction
	return "unbind the driver with `echo " + f.Address + " > /sys/bus/pci/drivers/" +
		f.boundDriver + "/unbind`"
}

// enableMemoryDecoding writes 1 to the function's sysfs file `enable`. The kernel then enables
// memory decoding, so that the function responds to accesses to its BARs. The kernel rejects this
// write while a driver is bound to the function. The only driver that checkUnbound allows is
// pci-stub. If pci-stub is bound, enableMemoryDecoding returns an error and writes nothing.
func (p *pciBackend) enableMemoryDecoding() error {
	if p.dev.pciFunction.boundDriver == "" {
		return writeFile(p.dev.pciFunction.sysfsDir()+"/enable", "1\n")
	}
	return p.dev.fault(NoDevice, "pci-stub keeps memory decoding off; "+p.unbindAdvice())
}

// writeFile writes text to the existing file at path.
func writeFile(path, text string) error {
	fd, err := syscalls.open(path, unix.O_WRONLY)
	if err != nil {
		return syscallFault("open", path, err)
	}
	_, err = syscalls.pwrite(fd, []byte(text), 0)
	_ = syscalls.close(fd)
	return syscallFault("write", path, err)
}

// readBARs checks that the device answers and that its BARs have the addresses that the kernel has
// assigned, and reads their bus addresses. The sysfs file `resource` has the addresses that the
// processor uses, which differ if the host bridge translates them (Linux, pci_resource_to_user).
func (p *pciBackend) readBARs() error {
	d := p.dev
	var header [configBarsEnd]byte
	n, err := syscalls.pread(d.config.fd, header[:], 0)
	path := d.configPath()
	switch {
	case err != nil:
		return syscallFault("read", path, err)
	case n < len(header):
		return NewFault(NoDevice, path+fbs.Text(": only %d bytes can be read, but %d are needed",
			uint64(n), configBarsEnd))
	case fbs.ReadStruct[uint16](header[configCommandOffset:]) == 0xffff:
		return d.allOnesFault()
	}
	p.barBusAddresses = d.pciFunction.barPhysicalAddresses
	for i := 0; i < configBarCount; i++ {
		bar, address := i, fbs.ReadStruct[uint64](header[configBar0Offset+4*i:])
		if address&(barIOBit|barTypeMask) == barType64Bit {
			i++ // the next register is the upper half
		} else {
			address &= 1<<32 - 1
		}
		switch {
		case d.pciFunction.BarSizes[bar] == 0:
			if address != 0 && address&barIOBit == 0 {
				d.pciFunction.Unassigned |= 1 << bar // the type bits show that there is a BAR
			}
		case address&barAddressMask != 0:
			p.barBusAddresses[bar] = address & barAddressMask
		case !p.mayReadZero():
			return d.goneFault("BAR " + strconv.Itoa(bar) + " has lost its address;")
		}
	}
	return nil
}

// mayReadZero reports whether the register of a BAR with an address may be 0: in a virtual function
// (SR-IOV 1.1, 3.4.1), with Enhanced Allocation, and behind a bridge whose memory window begins at
// bus address 0, as in some versions of the Raspberry Pi 5's device tree.
func (p *pciBackend) mayReadZero() bool {
	f := &p.dev.pciFunction
	if f.isVirtual || p.findCapability(capabilityEA) != 0 {
		return true
	}
	fd, err := syscalls.open(f.sysfsDir()+"/../config", unix.O_RDONLY)
	if err != nil {
		return false // no bridge
	}
	bridge := configSpace{fd: fd}
	base, code := bridge.Load(configBridgeWindow, 2)
	_ = syscalls.close(fd)
	return code == OK && base>>4 == 0
}

// findCapability returns the offset of the first capability with this id, or 0. If this user may
// not read the list to its end, the capability may be at the offset that is returned.
func (p *pciBackend) findCapability(id uint64) (offset uint64) {
	s := &p.dev.config
	status, _ := s.Load(configStatusOffset, 2)
	next, _ := s.Load(configCapabilities, 1)
	for range capabilitiesMax {
		offset = next &^ 3
		if status&configStatusList == 0 || offset < configCapabilityMin {
			break
		}
		header, code := s.Load(offset, 2)
		if code != OK || header&0xff == id {
			return offset
		}
		next = header >> 8
	}
	return 0
}

// silenceInterrupts disables the device's interrupts until Close: no handler expects them, and the
// kernel would disable the line of an INTx without a handler, which other devices may share.
// commandFound is the command register before the kernel enabled the function, which enables INTx.
func (p *pciBackend) silenceInterrupts(commandFound uint64) {
	p.replaceBit(configCommandOffset, configCommandINTxOff, configCommandINTxOff, commandFound)
	p.disableVectors(capabilityMSI, msiEnable)
	p.disableVectors(capabilityMSIX, msixEnable)
}

func (p *pciBackend) disableVectors(capability, enable uint64) {
	if offset := p.findCapability(capability); offset != 0 {
		found, _ := p.dev.config.Load(offset+capabilityControl, 2)
		p.replaceBit(offset+capabilityControl, enable, 0, found)
	}
}

// replaceBit replaces a bit of a register of 2 bytes. Close restores the bit of `found`, except
// while INTx is pending.
func (p *pciBackend) replaceBit(offset, bit, value, found uint64) {
	s := &p.dev.config
	s.storeBit(offset, bit, value)
	p.dev.cleanups.addCleanup(func() error {
		status, _ := s.Load(configStatusOffset, 2)
		if status&configStatusINTx == 0 {
			s.storeBit(offset, bit, found&bit)
		}
		return nil
	})
}

// mapBarRange implements backend: it maps a range of a BAR from the BAR's file in sysfs. The files
// of the six BARs are resource0 to resource5. A mapping of such a file is uncached. A prefetchable
// BAR has a second file, such as resource0_wc; a mapping of the second file is write-combining.
// mapBarRange maps the second file if writeCombining is true and the second file exists, and
// otherwise the first.
func (p *pciBackend) mapBarRange(bar uint8, writeCombining bool, offset, size uint64) (
	*Aperture, error) {
	path := p.dev.pciFunction.sysfsDir() + "/resource" + strconv.Itoa(int(bar))
	fd, err := -1, error(unix.ENOENT)
	if writeCombining {
		fd, err = syscalls.open(path+"_wc", unix.O_RDWR)
	}
	if err == unix.ENOENT {
		fd, err = syscalls.open(path, unix.O_RDWR)
	} else {
		path += "_wc"
	}
	if err != nil {
		return nil, syscallFault("open", path, err)
	}
	// Offset 0 of the file is the beginning of the page that contains the first byte of the BAR. A
	// BAR that is smaller than a page may begin inside the page.
	offsetInPage := p.dev.pciFunction.barPhysicalAddresses[bar] % pageSize()
	a, err := p.dev.mapFile(fd, offsetInPage+offset, size, path)
	_ = syscalls.close(fd) // the mapping stays valid after its file is closed
	if bus := p.barBusAddresses[bar]; err == nil && bus != 0 {
		a.BusAddress = bus + offset
	}
	return a, err
}

// mapForDMA implements backend: it returns the physical address of mem, which is also the bus
// address. It returns an error if an IOMMU translates addresses. It also returns an error if mem
// consists of ordinary pages, because the kernel may move an ordinary page to another physical
// address while the device still uses the old address.
func (p *pciBackend) mapForDMA(mem []byte, huge bool, fixedBus uint64) (bus uint64, err error) {
	if fixedBus != 0 {
		const text = "cannot place host memory at bus address %x: " +
			"without an IOMMU, its bus address is its physical address; use `vfio:`"
		return 0, p.dev.fault(NoDevice, fbs.Text(text, fixedBus))
	}
	if err := p.checkNoIOMMU(); err != nil {
		return 0, err
	}
	size := uint64(len(mem))
	if !huge {
		const text = "%x bytes of host memory are ordinary pages, which the kernel may move"
		return 0, p.dev.fault(NoDevice, fbs.Text(text, size)+hugePageAdvice(size))
	}
	// Read the physical addresses of the pages of mem from the file `pagemap`.
	pagemapFD, err := syscalls.open(pagemapPath, unix.O_RDONLY)
	if err != nil {
		return 0, syscallFault("open", pagemapPath, err)
	}
	bus, contiguous, err := p.physicalAddress(pagemapFD, mem)
	_ = syscalls.close(pagemapFD)
	if err == nil && !contiguous {
		err = p.dev.notContiguousFault(size, true)
	}
	return bus, err
}

// mapForPeer implements backend. mapBarRange or mapHostMem has already set the bus address, which
// is the same for every device if no IOMMU translates addresses.
func (p *pciBackend) mapForPeer(*Aperture, *device) error { return p.checkNoIOMMU() }

// bridgesMax is the number of parent directories in sysfs that checkNoIOMMU searches. The directory
// of a function has one parent for each bridge between the function and the processor, including
// the host bridge.
const bridgesMax = 8

// checkNoIOMMU returns an error if an IOMMU translates the DMA addresses of the device. Such a
// device normally has an IOMMU group. On arm64, however, the kernel adds the device to a group only
// when a driver is bound to the device. Until then, the only sign of an IOMMU is the property
// `iommu-map` in the device tree node of the host bridge.
func (p *pciBackend) checkNoIOMMU() error {
	if p.checkedNoIOMMU {
		return nil
	}
	const translates = "an IOMMU translates the addresses of "
	dir := p.dev.pciFunction.sysfsDir()
	if LinkBaseName(dir+"/iommu_group") != "" {
		kind, _ := ReadText(dir + "/iommu_group/type")
		p.checkedNoIOMMU = kind == "identity\n" // identity: the IOMMU does not translate addresses
		if p.checkedNoIOMMU {
			return nil
		}
		return p.dev.fault(NoDevice, translates+"the device"+p.vfioAdvice())
	}
	for range bridgesMax {
		dir += "/.."
		if _, err := ReadText(dir + "/of_node/iommu-map"); err == nil {
			return p.dev.fault(NoDevice, translates+"the host bridge"+p.vfioAdvice())
		}
	}
	p.checkedNoIOMMU = true
	return nil
}
