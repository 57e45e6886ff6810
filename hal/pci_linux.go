//go:build backend_pci || !(backend_vfio || backend_tt)

package hal

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
)

const (
	pagemap = "/proc/self/pagemap"

	configBar0   = 0x10 // R/W u32 each
	configHeader = configBar0 + 4*configBars
	barIO        = 1 << 0 // an I/O port range
	barType      = 3 << 1
	barType64    = 2 << 1 // this register and the next are one address
	barAddress   = ^uint64(0xf)

	// An entry of pagemap (Linux, Documentation/admin-guide/mm/pagemap.rst).
	pagePresent = 1 << 63
	pageFrame   = 1<<55 - 1
)

// pci is a function that is driven through the files in its sysfs folder.
// Nothing stands between it and memory: this lane is for bring-up.
type pci struct {
	*function
	noIOMMU         bool               // no IOMMU stands between it and memory
	barBusAddresses [configBars]uint64 // addresses that other devices reach BARs at
}

func newPCI(d *function) backend { return &pci{function: d} }

func (d *pci) probe() error {
	if err := d.findInSysfs(); err != nil {
		return err
	}
	if err := d.checkUnbound(); err != nil {
		return err
	}
	if err := d.openConfig(); err != nil {
		return err
	}
	return d.readHeader()
}

// take implements lane. A user who may not enable a device can still use one
// that is enabled. The kernel counts who wants a device enabled and does nothing
// for the second, though somebody may have switched decoding off since.
//
// A device that masters the bus was left so by a program that was killed: it may
// write to memory that is no longer that program's. The reset makes it forget the
// addresses, where it can be reset. Who may not do this may not let the device
// master the bus either.
func (d *pci) acquire() error {
	refused := d.enableDecoding()
	command, _ := d.config.Load(configCommand, 2)
	if command&configCommandMemory == 0 {
		if refused == nil {
			refused = d.setCommandBit(configCommandMemory, true)
		}
		if refused != nil {
			return refused
		}
	}
	if command&configCommandMaster == 0 {
		return nil
	}
	if err := d.setCommandBit(configCommandMaster, false); CodeOf(err) == Denied {
		return nil
	} else if err != nil {
		return err
	}
	_ = writeFile(d.sysfsDir()+"/reset", "1\n")
	return d.setCommandBit(configCommandMemory, true)
}

// free refuses a function that a kernel driver owns and would be disturbed. The
// exception is pci-stub, which only keeps others away.
func (d *pci) checkUnbound() error {
	use := "; "
	switch d.boundDriver {
	case "", "pci-stub":
		return nil
	case "vfio-pci":
		use = "; open it as vfio:" + d.address + ", or "
	}
	return NewFault(NoDevice, d.identity.Name+": the kernel driver "+d.boundDriver+
		" owns the device"+use+"release it with "+d.unbindCommand())
}

func (d *pci) unbindCommand() string {
	return "`echo " + d.address + " > /sys/bus/pci/drivers/" + d.boundDriver + "/unbind`"
}

// enable has the kernel make the function answer to memory accesses. Where
// pci-stub has it, the kernel does so for nobody.
func (d *pci) enableDecoding() error {
	if d.boundDriver == "" {
		return writeFile(d.sysfsDir()+"/enable", "1\n")
	}
	return NewFault(NoDevice, d.identity.Name+
		": memory decoding is off and pci-stub keeps it off; release the device with "+
		d.unbindCommand())
}

// writeFile writes text to a file that exists.
func writeFile(path, text string) error {
	fd, err := syscalls.open(path, unix.O_WRONLY)
	if err != nil {
		return callFault("open", path, err)
	}
	defer syscalls.close(fd)
	_, err = syscalls.pwrite(fd, []byte(text), 0)
	return callFault("write", path, err)
}

// readHeader checks that the function answers, and takes the bus addresses of
// its BARs: `resource` has those of the processor, which a host bridge may
// translate (Linux, pci_resource_to_user).
func (d *pci) readHeader() error {
	var header [configHeader]byte
	n, err := syscalls.pread(d.config.fd, header[:], 0)
	switch {
	case err != nil:
		return callFault("read", d.sysfsDir()+"/config", err)
	case n < len(header):
		return NewFault(NoDevice, d.sysfsDir()+"/config: "+strconv.Itoa(n)+
			" bytes, a PCI header has more")
	case fbs.ReadStruct[uint16](header[:]) == 0xffff:
		return NewFault(DeviceGone, d.identity.Name+
			": configuration space reads all ones; reset the device or its slot, then `echo 1 > "+
			"/sys/bus/pci/rescan`")
	}
	d.barBusAddresses = d.barStarts
	for i := range d.barBusAddresses {
		register := header[configBar0+4*i:]
		address := uint64(fbs.ReadStruct[uint32](register))
		if address&(barIO|barType) == barType64 && i+1 < configBars {
			address = fbs.ReadStruct[uint64](register)
		}
		// Zero where the address is kept elsewhere (Enhanced Allocation).
		if address&barAddress != 0 {
			d.barBusAddresses[i] = address & barAddress
		}
	}
	return nil
}

// mapFile implements lane. Only prefetchable BARs have a file for
// write-combining. A file begins at the page that its BAR begins in.
func (d *pci) mapBarRange(bar uint8, wc bool, offset, size uint64) (a Aperture, err error) {
	path := d.sysfsDir() + "/resource" + strconv.Itoa(int(bar))
	fd := -1
	if err = unix.ENOENT; wc {
		fd, err = syscalls.open(path+"_wc", unix.O_RDWR)
	}
	if err == unix.ENOENT {
		fd, err = syscalls.open(path, unix.O_RDWR)
	} else {
		path += "_wc"
	}
	if err != nil {
		return a, callFault("open", path, err)
	}
	defer syscalls.close(fd)
	a, err = d.mapRange(fd, d.barStarts[bar]%uint64(unix.Getpagesize())+offset, size, path)
	if d.barBusAddresses[bar] != 0 {
		a.Bus = d.barBusAddresses[bar] + offset
	}
	return a, err
}

// host implements lane. Ordinary pages may be moved while the device still uses
// their address.
func (d *pci) mapForDevice(mem []byte, huge bool) (bus uint64, err error) {
	if err := d.checkNoIOMMU(); err != nil {
		return 0, err
	}
	if size := uint64(len(mem)); !huge {
		return 0, NewFault(NoDevice, d.identity.Name+
			fbs.Text(": %x bytes of host memory are ordinary pages, which the kernel may move "+
				"under the device", size)+
			hugePageAdvice(size))
	}
	table, err := syscalls.open(pagemap, unix.O_RDONLY)
	if err != nil {
		return 0, callFault("open", pagemap, err)
	}
	defer syscalls.close(table)
	bus, inOrder, err := physicalAddress(table, d.identity.Name, mem)
	if err == nil && !inOrder && orderPages(table, d.hostMemory[len(d.hostMemory)-1]) {
		bus, inOrder, err = physicalAddress(table, d.identity.Name, mem)
	}
	if err == nil && !inOrder {
		err = notContiguous(d.identity.Name, uint64(len(mem)), true)
	}
	return bus, err
}

// reach implements lane: what this lane opens has one address everywhere.
func (d *pci) assignBusAddress(*Aperture, *function) error { return d.checkNoIOMMU() }

// untranslated refuses a function whose addresses an IOMMU translates. The
// folder iommu_group is there once a driver was bound, on arm64, and before
// that the host bridge's node in the device tree tells.
func (d *pci) checkNoIOMMU() error {
	if d.noIOMMU {
		return nil
	}
	use := "; open it as vfio:" + d.address
	if linkTarget(d.sysfsDir()+"/iommu_group") != "" {
		kind, _ := ReadText(d.sysfsDir() + "/iommu_group/type")
		if d.noIOMMU = kind == "identity\n"; d.noIOMMU {
			return nil
		}
		return NewFault(NoDevice, d.identity.Name+": an IOMMU stands between the device and memory"+
			use)
	}
	path := d.sysfsDir()
	for range bridgesMax {
		path += "/.."
		if _, err := ReadText(path + "/of_node/iommu-map"); err == nil {
			return NewFault(NoDevice, d.identity.Name+
				": an IOMMU stands between the host bridge and memory"+use)
		}
	}
	d.noIOMMU = true
	return nil
}

// busesMax bounds the way up from a function to its host bridge: each bridge
// between them is a folder.
const bridgesMax = 8

// physical returns the address of mem on a bus that nothing translates, and reports whether
// its pages lie side by side there. table is the open pagemap.
func physicalAddress(table int, name string, mem []byte) (start uint64, inOrder bool, err error) {
	page := uint64(unix.Getpagesize())
	for offset := uint64(0); offset < uint64(len(mem)); offset += page {
		address, present := frameOf(table, mem[offset:])
		switch {
		case !present:
			return 0, false, NewFault(NoDevice, name+": "+pagemap+
				" does not say where host memory lies")
		case address == 0:
			return 0, false, NewFault(Denied,
				name+": the kernel does not tell this user where host memory"+
					" lies (CAP_SYS_ADMIN); run as root, or open the device as vfio:")
		case offset == 0:
			start = address
		case address != start+offset:
			return start, false, nil
		}
	}
	return start, true, nil
}

// frameOf returns the physical address of the page that mem begins in, 0 for a user who may not
// know it, and reports whether the page is there.
func frameOf(table int, mem []byte) (address uint64, present bool) {
	var entry [8]byte
	page := uint64(unix.Getpagesize())
	at := uint64(AddressOf(mem)) / page * uint64(len(entry))
	n, err := syscalls.pread(table, entry[:], int64(at))
	value := fbs.ReadStruct[uint64](entry[:])
	return value & pageFrame * page, err == nil && n == len(entry) && value&pagePresent != 0
}

// poolPage is a huge page of the kernel's pool, mapped at an offset of a file of such pages.
type poolPage struct {
	address uint64 // physical
	offset  int64
}

// poolTries is how many pages of the pool orderPages looks at beyond four times those it needs.
// The kernel clears each, which takes from 0.1 to 2 ms.
const poolTries = 1024

// orderPages puts other pages of the pool in place of the huge pages mem, which then lie side by
// side in physical memory, and reports whether it found such. The pool hands pages out in any
// order, after a boot from the last to the first. A file of huge pages maps them in the order
// that is wanted; the pages that are not go back to the pool.
func orderPages(table int, mem []byte) bool {
	count := len(mem) / hugePage
	fd, err := syscalls.memfd(unix.MFD_CLOEXEC | unix.MFD_HUGETLB | hugePageLog)
	if err != nil {
		return false
	}
	defer syscalls.close(fd)
	// The pages of mem itself go back first: they may be the ones that others lack.
	_ = mapOver(mem, -1, 0, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	var found []poolPage // by their addresses
	for tries := range 4*count + poolTries {
		offset := int64(tries) * hugePage
		err := mapPool(mem[:hugePage], fd, offset)
		address, present := frameOf(table, mem)
		if err != nil || !present {
			break // the pool is empty
		}
		found = insertPage(found, poolPage{address, offset})
		if run := consecutive(found, count); run >= 0 {
			// If one of these fails, that place has another page, or none, which physical sees.
			for i, page := range found[run:][:count] {
				_ = mapPool(mem[i*hugePage:][:hugePage], fd, page.offset)
			}
			giveBack(fd, found[:run])
			giveBack(fd, found[run+count:])
			return true
		}
	}
	return false
}

// giveBack returns pages of a file to the pool.
func giveBack(fd int, pages []poolPage) {
	for _, page := range pages {
		const mode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
		_ = unix.Fallocate(fd, mode, page.offset, hugePage)
	}
}

// mapOver maps a file, or memory if fd is -1, in place of what is mapped at mem.
func mapOver(mem []byte, fd int, offset int64, protection, flags int) error {
	at, size := toPointer(AddressOf(mem)), uintptr(len(mem))
	_, err := unix.MmapPtr(fd, offset, at, size, protection, flags|unix.MAP_FIXED)
	return err
}

// mapPool maps a page of a file of huge pages at mem, and takes it from the pool if it is new.
func mapPool(mem []byte, fd int, offset int64) error {
	const flags = unix.MAP_SHARED | unix.MAP_POPULATE
	return mapOver(mem, fd, offset, unix.PROT_READ|unix.PROT_WRITE, flags)
}

// insertPage inserts a page by its address.
func insertPage(pages []poolPage, page poolPage) []poolPage {
	pages = append(pages, page)
	for i := len(pages) - 1; i > 0 && pages[i-1].address > page.address; i-- {
		pages[i], pages[i-1] = pages[i-1], page
	}
	return pages
}

// consecutive returns the index of the first of count pages that lie side by side, -1 if there
// are none.
func consecutive(pages []poolPage, count int) int {
	length := 0
	for i := range pages {
		if i > 0 && pages[i].address != pages[i-1].address+hugePage {
			length = 0
		}
		if length++; length == count {
			return i - count + 1
		}
	}
	return -1
}
