//go:build lane_pci || !(lane_vfio || lane_tt)

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
	direct bool               // no IOMMU stands between it and memory
	buses  [configBars]uint64 // addresses that other devices reach BARs at
}

func newPCI(d *function) lane { return &pci{function: d} }

func (d *pci) open() error {
	if err := d.look(); err != nil {
		return err
	}
	if err := d.free(); err != nil {
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
func (d *pci) take() error {
	refused := d.enable()
	command, _ := d.config.Load(configCommand, 2)
	if command&configCommandMemory == 0 {
		if refused == nil {
			refused = d.command(configCommandMemory, true)
		}
		if refused != nil {
			return refused
		}
	}
	if command&configCommandMaster == 0 {
		return nil
	}
	if err := d.command(configCommandMaster, false); CodeOf(err) == Denied {
		return nil
	} else if err != nil {
		return err
	}
	_ = writeFile(d.folder()+"/reset", "1\n")
	return d.command(configCommandMemory, true)
}

// free refuses a function that a kernel driver owns and would be disturbed. The
// exception is pci-stub, which only keeps others away.
func (d *pci) free() error {
	use := "; "
	switch d.owner {
	case "", "pci-stub":
		return nil
	case "vfio-pci":
		use = "; open it as vfio:" + d.address + ", or "
	}
	return NewFault(NoDevice, d.identity.Name+": the kernel driver "+d.owner+" owns the device"+use+"release it with "+d.unbind())
}

func (d *pci) unbind() string {
	return "`echo " + d.address + " > /sys/bus/pci/drivers/" + d.owner + "/unbind`"
}

// enable has the kernel make the function answer to memory accesses. Where
// pci-stub has it, the kernel does so for nobody.
func (d *pci) enable() error {
	if d.owner == "" {
		return writeFile(d.folder()+"/enable", "1\n")
	}
	return NewFault(NoDevice, d.identity.Name+": memory decoding is off and pci-stub keeps it off; release the device with "+d.unbind())
}

// writeFile writes text to a file that exists.
func writeFile(path, text string) error {
	fd, err := system.open(path, unix.O_WRONLY)
	if err != nil {
		return failed("open", path, err)
	}
	defer system.close(fd)
	_, err = system.pwrite(fd, []byte(text), 0)
	return failed("write", path, err)
}

// readHeader checks that the function answers, and takes the bus addresses of
// its BARs: `resource` has those of the processor, which a host bridge may
// translate (Linux, pci_resource_to_user).
func (d *pci) readHeader() error {
	var header [configHeader]byte
	n, err := system.pread(d.config.fd, header[:], 0)
	switch {
	case err != nil:
		return failed("read", d.folder()+"/config", err)
	case n < len(header):
		return NewFault(NoDevice, d.folder()+"/config: "+strconv.Itoa(n)+" bytes, a PCI header has more")
	case fbs.As[uint16](header[:]) == 0xffff:
		return NewFault(DeviceGone, d.identity.Name+": configuration space reads all ones; reset the device or its slot, then `echo 1 > /sys/bus/pci/rescan`")
	}
	d.buses = d.starts
	for i := range d.buses {
		register := header[configBar0+4*i:]
		address := uint64(fbs.As[uint32](register))
		if address&(barIO|barType) == barType64 && i+1 < configBars {
			address = fbs.As[uint64](register)
		}
		// Zero where the address is kept elsewhere (Enhanced Allocation).
		if address&barAddress != 0 {
			d.buses[i] = address & barAddress
		}
	}
	return nil
}

// mapFile implements lane. Only prefetchable BARs have a file for
// write-combining. A file begins at the page that its BAR begins in.
func (d *pci) mapFile(bar uint8, wc bool, offset, size uint64) (a Aperture, err error) {
	path := d.folder() + "/resource" + strconv.Itoa(int(bar))
	fd := -1
	if err = unix.ENOENT; wc {
		fd, err = system.open(path+"_wc", unix.O_RDWR)
	}
	if err == unix.ENOENT {
		fd, err = system.open(path, unix.O_RDWR)
	} else {
		path += "_wc"
	}
	if err != nil {
		return a, failed("open", path, err)
	}
	defer system.close(fd)
	a, err = d.mapRange(fd, d.starts[bar]%uint64(unix.Getpagesize())+offset, size, path)
	if d.buses[bar] != 0 {
		a.Bus = d.buses[bar] + offset
	}
	return a, err
}

// host implements lane. Ordinary pages may be moved while the device still uses
// their address.
func (d *pci) host(mem []byte, huge bool) (bus uint64, err error) {
	if err := d.untranslated(); err != nil {
		return 0, err
	}
	if size := uint64(len(mem)); !huge {
		return 0, NewFault(NoDevice, d.identity.Name+fbs.Text(": %x bytes of host memory are ordinary pages, which the kernel may move under the device", size)+
			reserveHuge(size))
	}
	table, err := system.open(pagemap, unix.O_RDONLY)
	if err != nil {
		return 0, failed("open", pagemap, err)
	}
	defer system.close(table)
	bus, inOrder, err := physical(table, d.identity.Name, mem)
	if err == nil && !inOrder && orderPages(table, d.memory[len(d.memory)-1]) {
		bus, inOrder, err = physical(table, d.identity.Name, mem)
	}
	if err == nil && !inOrder {
		err = apartPages(d.identity.Name, uint64(len(mem)), true)
	}
	return bus, err
}

// reach implements lane: what this lane opens has one address everywhere.
func (d *pci) reach(*Aperture, *function) error { return d.untranslated() }

// untranslated refuses a function whose addresses an IOMMU translates. The
// folder iommu_group is there once a driver was bound, on arm64, and before
// that the host bridge's node in the device tree tells.
func (d *pci) untranslated() error {
	if d.direct {
		return nil
	}
	use := "; open it as vfio:" + d.address
	if linkBase(d.folder()+"/iommu_group") != "" {
		kind, _ := ReadText(d.folder() + "/iommu_group/type")
		if d.direct = kind == "identity\n"; d.direct {
			return nil
		}
		return NewFault(NoDevice, d.identity.Name+": an IOMMU stands between the device and memory"+use)
	}
	path := d.folder()
	for range busesMax {
		path += "/.."
		if _, err := ReadText(path + "/of_node/iommu-map"); err == nil {
			return NewFault(NoDevice, d.identity.Name+": an IOMMU stands between the host bridge and memory"+use)
		}
	}
	d.direct = true
	return nil
}

// busesMax bounds the way up from a function to its host bridge: each bridge
// between them is a folder.
const busesMax = 8

// physical returns the address of mem on a bus that nothing translates, and reports whether
// its pages lie side by side there. table is the open pagemap.
func physical(table int, name string, mem []byte) (start uint64, inOrder bool, err error) {
	page := uint64(unix.Getpagesize())
	for offset := uint64(0); offset < uint64(len(mem)); offset += page {
		address, present := frameOf(table, mem[offset:])
		switch {
		case !present:
			return 0, false, NewFault(NoDevice, name+": "+pagemap+
				" does not say where host memory lies")
		case address == 0:
			return 0, false, NewFault(Denied, name+": the kernel does not tell this user where host memory"+
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
	n, err := system.pread(table, entry[:], int64(at))
	value := fbs.As[uint64](entry[:])
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
	fd, err := system.memfd(unix.MFD_CLOEXEC | unix.MFD_HUGETLB | hugePageLog)
	if err != nil {
		return false
	}
	defer system.close(fd)
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
	at, size := pointer(AddressOf(mem)), uintptr(len(mem))
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
