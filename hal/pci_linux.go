//go:build backend_pci || !(backend_vfio || backend_tt)

package hal

// The backend pci: drives a function through the files in its directory in sysfs. Nothing keeps
// the device from any memory: it is for bring-up.

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

// Registers of the header of configuration space (PCI Local Bus 3.0, 6.2.5.1), with the names of
// linux/pci_regs.h.
const (
	configBar0   = 0x10 // PCI_BASE_ADDRESS_0, R/W u32 each
	configHeader = configBar0 + 4*configBars
	barIO        = 1 << 0 // PCI_BASE_ADDRESS_SPACE_IO: a range of I/O ports
	barType      = 3 << 1 // PCI_BASE_ADDRESS_MEM_TYPE_MASK
	barType64    = 2 << 1 // PCI_BASE_ADDRESS_MEM_TYPE_64: this register and the next are one
	barAddress   = ^uint64(0xf)
)

// pci is the backend pci: of a device.
type pci struct {
	dev             *device
	noIOMMU         bool               // checkNoIOMMU found none
	barBusAddresses [configBars]uint64 // addresses at which other devices reach the BARs
}

func newPCI(d *device) backend { return &pci{dev: d} }

// probe implements backend.
func (p *pci) probe() error {
	d := p.dev
	// Find the function's directory in sysfs, with its ids, BARs and driver.
	if err := d.function.find(d.locator, d.byIDs); err != nil {
		return err
	}
	// Leave a function alone that a kernel driver uses.
	if err := p.checkUnbound(); err != nil {
		return err
	}
	// Configuration space shows whether the function answers, and where its BARs are.
	if err := d.openConfig(); err != nil {
		return err
	}
	return p.readHeader()
}

// acquire implements backend. A device that masters the bus was left so by a program that was
// killed: it may write to memory that is no longer that program's. The reset makes it forget the
// addresses, if it can be reset. A user who may not clear the bit may not set it either.
func (p *pci) acquire() error {
	d := p.dev
	// Enable the function: this also wakes it up from a sleep state. A user who may not do this
	// can use a function that is enabled.
	err := p.enableDecoding()
	// The kernel counts enables and does nothing for the second, even if somebody cleared the bit
	// since: set it in that case.
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
	// Stop transfers that a killed program left running.
	err = d.setCommandBit(configCommandMaster, false)
	if CodeOf(err) == Denied {
		return nil
	}
	if err != nil {
		return err
	}
	// Reset the function, which not every one can. The reset may clear memory decoding.
	_ = writeFile(d.function.dir()+"/reset", "1\n")
	return d.setCommandBit(configCommandMemory, true)
}

// checkUnbound returns a fault if a kernel driver owns the function and would be disturbed.
// pci-stub only keeps other drivers away.
func (p *pci) checkUnbound() error {
	f, remedy := &p.dev.function, "; "
	switch f.boundDriver {
	case "", "pci-stub":
		return nil
	case "vfio-pci":
		remedy = p.useVFIO() + ", or "
	}
	return p.dev.fault(NoDevice, "the kernel driver "+f.boundDriver+" owns the device"+remedy+
		p.unbindAdvice())
}

// useVFIO returns the end of a message: the name of the device with the backend vfio.
func (p *pci) useVFIO() string { return "; open it as vfio:" + p.dev.function.Address }

// unbindAdvice returns the end of a message: how to release the device from its driver.
func (p *pci) unbindAdvice() string {
	f := &p.dev.function
	return "release it with `echo " + f.Address + " > /sys/bus/pci/drivers/" + f.boundDriver +
		"/unbind`"
}

// enableDecoding makes the kernel enable the function, so that it answers to memory accesses.
// Enabling through sysfs fails while pci-stub is bound.
func (p *pci) enableDecoding() error {
	if p.dev.function.boundDriver == "" {
		return writeFile(p.dev.function.dir()+"/enable", "1\n")
	}
	return p.dev.fault(NoDevice, "memory decoding is off and pci-stub keeps it off; "+
		p.unbindAdvice())
}

// writeFile writes text to a file that exists.
func writeFile(path, text string) error {
	fd, err := syscalls.open(path, unix.O_WRONLY)
	if err != nil {
		return callFault("open", path, err)
	}
	_, err = syscalls.pwrite(fd, []byte(text), 0)
	_ = syscalls.close(fd)
	return callFault("write", path, err)
}

// readHeader checks that the function answers, and reads the bus addresses of its BARs.
// `resource` has the processor's addresses, which a host bridge may translate (Linux,
// pci_resource_to_user).
func (p *pci) readHeader() error {
	var header [configHeader]byte
	n, err := syscalls.pread(p.dev.config.fd, header[:], 0)
	path := p.dev.function.dir() + "/config"
	switch {
	case err != nil:
		return callFault("read", path, err)
	case n < len(header):
		return NewFault(NoDevice, path+": "+strconv.Itoa(n)+" bytes, a PCI header has more")
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
		// The register is zero if the address is kept elsewhere (Enhanced Allocation).
		if address&barAddress != 0 {
			p.barBusAddresses[i] = address & barAddress
		}
	}
	return nil
}

// mapBarRange implements backend. Only prefetchable BARs have a file for write-combining. A file
// begins at the page that its BAR begins in.
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
	inside := p.dev.function.barStarts[bar] % pageSize()
	a, err := p.dev.mapFile(fd, inside+offset, size, path)
	_ = syscalls.close(fd) // the mapping stays
	if bus := p.barBusAddresses[bar]; err == nil && bus != 0 {
		a.Bus = bus + offset
	}
	return a, err
}

// mapForDevice implements backend. Ordinary pages are no use: the kernel may move them while the
// device still uses their address.
func (p *pci) mapForDevice(mem []byte, huge bool) (bus uint64, err error) {
	if err := p.checkNoIOMMU(); err != nil {
		return 0, err
	}
	size := uint64(len(mem))
	if !huge {
		return 0, p.dev.fault(NoDevice, fbs.Text("%x bytes of host memory are ordinary pages, "+
			"which the kernel may move", size)+hugePageAdvice(size))
	}
	// The kernel reports the physical address of each page of this process.
	table, err := syscalls.open(pagemap, unix.O_RDONLY)
	if err != nil {
		return 0, callFault("open", pagemap, err)
	}
	bus, contiguous, err := p.physicalAddress(table, mem)
	// If the pages are not adjacent, look for others that are.
	mappings := p.dev.memory.mappings
	if err == nil && !contiguous && replacePages(table, mappings[len(mappings)-1]) {
		bus, contiguous, err = p.physicalAddress(table, mem)
	}
	_ = syscalls.close(table)
	if err == nil && !contiguous {
		err = p.dev.notContiguous(size, true)
	}
	return bus, err
}

// assignBusAddress implements backend. BARs and host memory of this backend have the same bus
// address for every device.
func (p *pci) assignBusAddress(*Aperture, *device) error { return p.checkNoIOMMU() }

// bridgesMax bounds the number of bridges between a function and its host bridge, each of which
// is a directory.
const bridgesMax = 8

// checkNoIOMMU returns a fault if an IOMMU translates the function's addresses. On arm64 the
// directory iommu_group exists after a driver was bound; before, the host bridge's node in the
// device tree names the IOMMU.
func (p *pci) checkNoIOMMU() error {
	if p.noIOMMU {
		return nil
	}
	const between = "an IOMMU stands between "
	dir := p.dev.function.dir()
	if linkTarget(dir+"/iommu_group") != "" {
		kind, _ := ReadText(dir + "/iommu_group/type")
		p.noIOMMU = kind == "identity\n" // it translates nothing
		if p.noIOMMU {
			return nil
		}
		return p.dev.fault(NoDevice, between+"the device and memory"+p.useVFIO())
	}
	for range bridgesMax {
		dir += "/.."
		if _, err := ReadText(dir + "/of_node/iommu-map"); err == nil {
			return p.dev.fault(NoDevice, between+"the host bridge and memory"+p.useVFIO())
		}
	}
	p.noIOMMU = true
	return nil
}
