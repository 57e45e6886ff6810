//go:build backend_pci || !(backend_vfio || backend_tt)

package hal

// The backend pci: drives a PCI function through the files in the function's sysfs directory.
// Nothing restricts which memory the device reaches, so this backend is for bring-up.

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

// Registers in the header of PCI configuration space (PCI Local Bus 3.0, 6.2.5.1). The comments
// begin with the names of the constants in linux/pci_regs.h.
const (
	// PCI_BASE_ADDRESS_0: offset of the first of six BAR registers, R/W, 32 bits each.
	configBar0 = 0x10
	// Bytes of the header that this backend reads: up to the end of the last BAR register.
	configHeaderSize = configBar0 + 4*configBars

	barIO      = 1 << 0       // PCI_BASE_ADDRESS_SPACE_IO: the BAR is a range of I/O ports
	barType    = 3 << 1       // PCI_BASE_ADDRESS_MEM_TYPE_MASK: mask of the BAR's type
	barType64  = 2 << 1       // PCI_BASE_ADDRESS_MEM_TYPE_64: the next register has bits 32 to 63
	barAddress = ^uint64(0xf) // PCI_BASE_ADDRESS_MEM_MASK: mask of the BAR's address
)

// pci implements backend for a device whose name begins with pci:.
type pci struct {
	dev             *device
	noIOMMU         bool               // checkNoIOMMU has found that no IOMMU translates addresses
	barBusAddresses [configBars]uint64 // bus addresses of the BARs; 0 if a BAR has none
}

func newPCI(d *device) backend { return &pci{dev: d} }

// probe implements backend.
func (p *pci) probe() error {
	d := p.dev
	// Find the function in sysfs, and read its ids, BARs and driver.
	if err := d.function.findInSysfs(d.locator, d.byIDs); err != nil {
		return err
	}
	// Do not disturb a kernel driver that uses the function.
	if err := p.checkUnbound(); err != nil {
		return err
	}
	// Configuration space shows whether the function answers, and at which bus addresses its BARs
	// are.
	if err := d.openConfig(); err != nil {
		return err
	}
	return p.readHeader()
}

// acquire implements backend. If the device is already a bus master, a killed program has left it
// so, and the device may still write to memory that the program no longer owns. Therefore acquire
// switches bus mastering off, and resets the device if it supports a reset.
func (p *pci) acquire() error {
	d := p.dev
	// Enable the function, which also wakes it up from a sleep state. The error matters only if
	// memory decoding is off: without permission a program can still use an enabled function.
	err := p.enableDecoding()
	// The kernel counts how often the function is enabled, and sets the bit for memory decoding
	// only the first time. Set the bit here if a program has cleared it since.
	command, _ := d.config.Load(configCommand, 2)
	if command&configCommandMemory == 0 {
		if err == nil {
			err = d.setCommandBit(configCommandMemory, true)
		}
		if err != nil {
			return err
		}
	}
	if command&configCommandMaster == 0 {
		return nil
	}
	// Stop transfers that a killed program left running. A user without permission to clear the
	// bit has none to set it either: such a user can replay images without DMA.
	err = d.setCommandBit(configCommandMaster, false)
	if CodeOf(err) == Denied {
		return nil
	}
	if err != nil {
		return err
	}
	// Reset the function, so that it forgets the addresses of that program's memory. Not every
	// function supports a reset, so ignore the error. The reset may clear memory decoding.
	_ = writeFile(d.function.dir()+"/reset", "1\n")
	return d.setCommandBit(configCommandMemory, true)
}

// checkUnbound returns a fault if a kernel driver uses the function. The driver pci-stub is no
// obstacle: it only keeps other drivers from binding.
func (p *pci) checkUnbound() error {
	f, remedy := &p.dev.function, "; "
	switch f.boundDriver {
	case "", "pci-stub":
		return nil
	case "vfio-pci":
		remedy = p.vfioAdvice() + ", or "
	}
	return p.dev.fault(NoDevice, "the kernel driver "+f.boundDriver+" owns the device"+remedy+
		p.unbindAdvice())
}

// vfioAdvice returns the end of a message: how to open the device with the backend vfio:.
func (p *pci) vfioAdvice() string {
	return "; open the device as `vfio:" + p.dev.function.Address + "`"
}

// unbindAdvice returns the end of a message: how to unbind the kernel driver from the device.
func (p *pci) unbindAdvice() string {
	f := &p.dev.function
	return "unbind the driver with `echo " + f.Address + " > /sys/bus/pci/drivers/" +
		f.boundDriver + "/unbind`"
}

// enableDecoding makes the kernel enable the function, so that the function answers memory
// accesses. The kernel does not enable a function through sysfs while pci-stub is bound to it.
func (p *pci) enableDecoding() error {
	if p.dev.function.boundDriver == "" {
		return writeFile(p.dev.function.dir()+"/enable", "1\n")
	}
	return p.dev.fault(NoDevice, "memory decoding is off, and pci-stub keeps it off; "+
		p.unbindAdvice())
}

// writeFile writes text to an existing file.
func writeFile(path, text string) error {
	fd, err := syscalls.open(path, unix.O_WRONLY)
	if err != nil {
		return callFault("open", path, err)
	}
	_, err = syscalls.pwrite(fd, []byte(text), 0)
	_ = syscalls.close(fd)
	return callFault("write", path, err)
}

// readHeader checks that the function answers, and reads the bus addresses of the BARs. They may
// differ from the addresses in the sysfs file `resource`: the processor uses those, and a host
// bridge may translate them to bus addresses (Linux, pci_resource_to_user).
func (p *pci) readHeader() error {
	var header [configHeaderSize]byte
	n, err := syscalls.pread(p.dev.config.fd, header[:], 0)
	path := p.dev.function.dir() + "/config"
	switch {
	case err != nil:
		return callFault("read", path, err)
	case n < len(header):
		return NewFault(NoDevice, path+fbs.Text(": only %d bytes can be read, but %d are needed",
			uint64(n), configHeaderSize))
	case fbs.ReadStruct[uint16](header[:]) == 0xffff:
		return p.dev.fault(DeviceGone, "configuration space reads all ones; reset the device or "+
			"its slot, then `echo 1 > /sys/bus/pci/rescan`")
	}
	p.barBusAddresses = p.dev.function.barStarts
	for i := range p.barBusAddresses {
		register := header[configBar0+4*i:]
		address := uint64(fbs.ReadStruct[uint32](register))
		if address&(barIO|barType) == barType64 && i+1 < configBars {
			address = fbs.ReadStruct[uint64](register)
		}
		// With Enhanced Allocation the register is zero, because the address is in a capability:
		// keep the address of the file `resource` in that case.
		if address&barAddress != 0 {
			p.barBusAddresses[i] = address & barAddress
		}
	}
	return nil
}

// mapBarRange implements backend. sysfs has a file for each BAR, resource0 to resource5, and for
// a prefetchable BAR a second file, such as resource0_wc, which maps the BAR write-combining.
func (p *pci) mapBarRange(bar uint8, writeCombining bool, offset, size uint64) (*Aperture, error) {
	path := p.dev.function.dir() + "/resource" + strconv.Itoa(int(bar))
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
		return nil, callFault("open", path, err)
	}
	// The file begins with the page in which the BAR begins.
	offsetInPage := p.dev.function.barStarts[bar] % pageSize()
	a, err := p.dev.mapFile(fd, offsetInPage+offset, size, path)
	_ = syscalls.close(fd) // the mapping remains valid
	if bus := p.barBusAddresses[bar]; err == nil && bus != 0 {
		a.Bus = bus + offset
	}
	return a, err
}

// mapForDevice implements backend. Ordinary pages are an error: the kernel may move a page while
// the device still uses the old physical address of that page.
func (p *pci) mapForDevice(mem []byte, huge bool) (bus uint64, err error) {
	if err := p.checkNoIOMMU(); err != nil {
		return 0, err
	}
	size := uint64(len(mem))
	if !huge {
		return 0, p.dev.fault(NoDevice, fbs.Text("%x bytes of host memory are ordinary pages, "+
			"which the kernel may move", size)+hugePageAdvice(size))
	}
	// The file `pagemap` has the physical address of each page of this process.
	pagemapFD, err := syscalls.open(pagemap, unix.O_RDONLY)
	if err != nil {
		return 0, callFault("open", pagemap, err)
	}
	bus, contiguous, err := p.physicalAddress(pagemapFD, mem)
	// If the pages are not adjacent, replace them with pages that are.
	mappings := p.dev.memory.mappings
	if err == nil && !contiguous && replacePages(pagemapFD, mappings[len(mappings)-1]) {
		bus, contiguous, err = p.physicalAddress(pagemapFD, mem)
	}
	_ = syscalls.close(pagemapFD)
	if err == nil && !contiguous {
		err = p.dev.notContiguousFault(size, true)
	}
	return bus, err
}

// assignBusAddress implements backend. Without an IOMMU, every device uses the same bus address
// for a BAR or for host memory, and mapBarRange and mapForDevice have already set that address.
func (p *pci) assignBusAddress(*Aperture, *device) error { return p.checkNoIOMMU() }

// bridgesMax is the number of parent directories of a function that checkNoIOMMU searches. Each
// bridge between the function and its host bridge has one such directory.
const bridgesMax = 8

// checkNoIOMMU returns a fault if an IOMMU translates the function's addresses. In that case the
// function usually has an IOMMU group. On arm64 the kernel adds the function to a group only when
// a driver is bound. Until then, the iommu-map property of the host bridge's device tree node
// shows that an IOMMU exists.
func (p *pci) checkNoIOMMU() error {
	if p.noIOMMU {
		return nil
	}
	const translates = "an IOMMU translates the addresses of "
	dir := p.dev.function.dir()
	if linkBaseName(dir+"/iommu_group") != "" {
		kind, _ := ReadText(dir + "/iommu_group/type")
		p.noIOMMU = kind == "identity\n" // the IOMMU passes addresses on unchanged
		if p.noIOMMU {
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
	p.noIOMMU = true
	return nil
}
