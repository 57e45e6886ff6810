package hal

// The backend pci uses the function's directory in sysfs. DMA works only without an IOMMU. The
// device then reaches all memory, so that this backend is for bring-up.

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

// PCI Local Bus 3.0, 6.2.5.1, 6.7 and 6.8; names of linux/pci_regs.h
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
	msixMaskAll       = 1 << 14 // PCI_MSIX_FLAGS_MASKALL

	barIOBit       = 1 << 0       // PCI_BASE_ADDRESS_SPACE_IO: 1 if the BAR has I/O ports
	barTypeMask    = 3 << 1       // PCI_BASE_ADDRESS_MEM_TYPE_MASK
	barType64Bit   = 2 << 1       // PCI_BASE_ADDRESS_MEM_TYPE_64: the BAR has two registers
	barAddressMask = ^uint64(0xf) // PCI_BASE_ADDRESS_MEM_MASK
)

type pciBackend struct {
	dev             *device
	checkedNoIOMMU  bool                   // checkNoIOMMU has succeeded before
	barBusAddresses [configBarCount]uint64 // 0: none
}

func (p *pciBackend) identifyDevice() error {
	d := p.dev
	if err := d.pciFunction.findInSysfs(d.locator, d.locatorIsIDs); err != nil {
		return err
	}
	// A driver and this program would disturb each other.
	if err := p.checkUnbound(); err != nil {
		return err
	}
	if err := d.openConfig(); err != nil {
		return err
	}
	return p.readBARs()
}

// acquireDevice also stops what a killed program left: if bus mastering is on, the device may write
// to memory that now belongs to others.
func (p *pciBackend) acquireDevice() error {
	d := p.dev
	found, _ := d.config.Load(configCommandOffset, 2)
	// This also wakes the function. An error need not matter: memory decoding may be on already.
	err := p.enableMemoryDecoding()
	// The kernel sets the bit only the first time. A program may have cleared it since.
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
	// A user who may not write configuration space can only replay images without DMA: switching
	// bus mastering on will fail.
	err = d.setCommandRegisterBit(configCommandMasterBit, false)
	if CodeOf(err) == Denied {
		return nil
	}
	if err != nil {
		return err
	}
	// A reset makes the device discard the addresses that the killed program stored. Not every
	// function supports a reset. A reset may clear the memory decoding bit.
	_ = writeFile(d.pciFunction.sysfsDir()+"/reset", "1\n")
	return d.setCommandRegisterBit(configCommandMemoryBit, true)
}

// checkUnbound allows pci-stub, which only keeps other drivers away.
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

func (p *pciBackend) vfioAdvice() string {
	return "; open the device as `vfio:" + p.dev.pciFunction.Address + "`"
}

func (p *pciBackend) unbindAdvice() string {
	f := &p.dev.pciFunction
	return "unbind the driver with `echo " + f.Address + " > /sys/bus/pci/drivers/" +
		f.boundDriver + "/unbind`"
}

// The kernel rejects a write to `enable` while a driver, here pci-stub, is bound.
func (p *pciBackend) enableMemoryDecoding() error {
	if p.dev.pciFunction.boundDriver == "" {
		return writeFile(p.dev.pciFunction.sysfsDir()+"/enable", "1\n")
	}
	return p.dev.fault(NoDevice, "pci-stub keeps memory decoding off; "+p.unbindAdvice())
}

func writeFile(path, text string) error {
	fd, err := syscalls.open(path, unix.O_WRONLY)
	if err != nil {
		return syscallFault("open", path, err)
	}
	_, err = syscalls.pwrite(fd, []byte(text), 0)
	_ = syscalls.close(fd)
	return syscallFault("write", path, err)
}

// readBARs checks that the BARs of the device still have addresses. The sysfs file `resource` has
// the processor's addresses, which differ from bus addresses if the host bridge translates (Linux,
// pci_resource_to_user).
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

// mayReadZero reports whether a BAR with an address may read as 0: in a virtual function (SR-IOV
// 1.1, 3.4.1), with Enhanced Allocation, and behind a bridge whose memory window begins at bus
// address 0, as in some device trees of the Raspberry Pi 5.
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

// findCapability returns 0 if the function does not have the capability. If this user may not read
// the list to its end, it returns the offset of the first capability that is unreadable.
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

// silenceInterrupts lasts until Close. Nothing handles interrupts, so that the kernel would disable
// the INTx line, which others may share. `commandFound` was read before the kernel enabled the
// function, and thereby INTx.
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

// Close restores the bit from `found`, unless INTx is pending then.
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

// mapBarRange maps resource0 to resource5, uncached. A prefetchable BAR also has, for example,
// resource0_wc, which is write-combining.
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
	// The file begins with the page of the BAR's first byte. A small BAR may begin inside a page.
	offsetInPage := p.dev.pciFunction.barPhysicalAddresses[bar] % pageSize()
	a, err := p.dev.mapFile(fd, offsetInPage+offset, size, path)
	_ = syscalls.close(fd) // the mapping stays valid after its file is closed
	if bus := p.barBusAddresses[bar]; err == nil && bus != 0 {
		a.BusAddress = bus + offset
	}
	return a, err
}

// The bus address is the physical address. The kernel may move ordinary pages during DMA.
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

// Without an IOMMU, bus addresses are the same for all devices.
func (p *pciBackend) mapForPeer(*Aperture, *device) error { return p.checkNoIOMMU() }

// The function's directory has one parent directory for each bridge, including the host bridge.
const bridgesMax = 8

// A function behind an IOMMU has a group. On arm64 the group exists only while a driver is bound;
// before that, the only sign is `iommu-map` in the device tree node of the host bridge.
func (p *pciBackend) checkNoIOMMU() error {
	if p.checkedNoIOMMU {
		return nil
	}
	const translates = "an IOMMU translates the addresses of "
	dir := p.dev.pciFunction.sysfsDir()
	if LinkBaseName(dir+"/iommu_group") != "" {
		kind, _ := ReadText(dir + "/iommu_group/type")
		p.checkedNoIOMMU = kind == "identity\n" // the IOMMU does not translate
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
