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
	return &Fault{NoDevice, d.identity.Name + ": the kernel driver " + d.owner + " owns the device" + use + "release it with " + d.unbind()}
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
	return &Fault{NoDevice, d.identity.Name + ": memory decoding is off and pci-stub keeps it off; release the device with " + d.unbind()}
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
		return &Fault{NoDevice, d.folder() + "/config: " + strconv.Itoa(n) + " bytes, a PCI header has more"}
	case fbs.As[uint16](header[:]) == 0xffff:
		return &Fault{DeviceGone, d.identity.Name + ": configuration space reads all ones; reset the device or its slot, then `echo 1 > /sys/bus/pci/rescan`"}
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
		return 0, &Fault{NoDevice, d.identity.Name + fbs.Text(": %x bytes of host memory are ordinary pages, which the kernel may move under the device", size) +
			reserveHuge(size)}
	}
	return physical(d.identity.Name, mem)
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
		return &Fault{NoDevice, d.identity.Name + ": an IOMMU stands between the device and memory" + use}
	}
	path := d.folder()
	for range busesMax {
		path += "/.."
		if _, err := ReadText(path + "/of_node/iommu-map"); err == nil {
			return &Fault{NoDevice, d.identity.Name + ": an IOMMU stands between the host bridge and memory" + use}
		}
	}
	d.direct = true
	return nil
}

// busesMax bounds the way up from a function to its host bridge: each bridge
// between them is a folder.
const busesMax = 8

// physical is the address of mem on a bus that nothing translates: its pages
// have to lie side by side.
func physical(name string, mem []byte) (uint64, error) {
	fd, err := system.open(pagemap, unix.O_RDONLY)
	if err != nil {
		return 0, failed("open", pagemap, err)
	}
	defer system.close(fd)
	page := uint64(unix.Getpagesize())
	start := uint64(0)
	for offset := uint64(0); offset < uint64(len(mem)); offset += page {
		var entry [8]byte
		at := int64((uint64(AddressOf(mem)) + offset) / page * 8)
		if n, err := system.pread(fd, entry[:], at); err != nil || n < len(entry) || fbs.As[uint64](entry[:])&pagePresent == 0 {
			return 0, &Fault{NoDevice, name + ": " + pagemap + " does not say where host memory lies"}
		}
		frame := fbs.As[uint64](entry[:]) & pageFrame * page
		switch {
		case frame == 0:
			return 0, &Fault{Denied, name + ": the kernel does not tell this user where host memory lies (CAP_SYS_ADMIN); run as root, or open the device as vfio:"}
		case offset == 0:
			start = frame
		case frame != start+offset:
			return 0, apartPages(name, uint64(len(mem)), true)
		}
	}
	return start, nil
}
