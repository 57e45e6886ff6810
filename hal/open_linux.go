package hal

import (
	"strconv"

	"golang.org/x/sys/unix"

	"lightmetal/boards"
)

// sysfs has one folder a PCI function (Linux, Documentation/PCI/sysfs-pci.rst).
var sysfsDevices = "/sys/bus/pci/devices"

const resourceMemory = 0x200 // IORESOURCE_MEM in the third column of `resource`

// Open opens a device by name. "pci:VVVV:DDDD" is the only function with that
// vendor and device id, "pci:DDDD:BB:DD.F" the one at that address, all in hex,
// through sysfs; "vfio:" with one of these is the same function behind an IOMMU.
// It refuses a function that a kernel driver owns. "tt:/dev/tenstorrent/N" is a
// device of Tenstorrent's driver. Open only looks: the first Map takes the
// device. The error is a *Fault whose reason says what to do next.
func Open(name string) (Device, error) {
	d, err := ParseName(name)
	if err == nil {
		if err = d.(*device).backend.probe(); err == nil {
			return d, nil
		}
		d.Close()
	}
	return nil, err
}

// Named is the device that a name means, be there one or not: Open has yet to look.
func ParseName(name string) (Device, error) {
	kind, rest := Cut(name, ':')
	d := &device{&function{scheme: kind, identity: Identity{Name: name},
		config: configSpace{fd: -1}}}
	ok := false
	d.locator, d.byIDs, ok = parsePCIName(rest)
	switch kind {
	case "pci":
		d.backend = newPCI(d.function)
	case "vfio":
		d.backend = newVFIO(d.function)
	case "tt":
		d.backend, d.locator, ok = newTT(d.function), rest, rest != "" && rest[0] == '/'
	}
	if d.backend == nil || !ok {
		return nil,
			NewFault(Usage,
				name+": names no device that this program was built for; write pci:VVVV:DDDD or "+
					"pci:DDDD:BB:DD.F, in hex, vfio: and one of these, or tt:/dev/tenstorrent/N")
	}
	return d, nil
}

// look finds a function that the kernel has in sysfs, and reads what it tells of it.
func (d *function) findInSysfs() error {
	all, err := listDir(sysfsDevices)
	if err != nil {
		return err
	}
	count, found, list := 0, "", ""
	for _, d.address = range all {
		is := d.address == d.locator
		if d.byIDs {
			err := d.readIDs()
			if err != nil {
				if _, removed := listDir(d.sysfsDir()); removed == nil {
					return err
				}
				continue // this function was removed since the list was read
			}
			is = FormatPCIID(d.identity.Vendor, d.identity.Device) == d.locator
		}
		if is {
			count, found, list = count+1, d.address, list+" pci:"+d.address
		}
	}
	switch d.address = found; count {
	case 0:
		return NewFault(NoDevice, d.identity.Name+
			": no such device; `ls /sys/bus/pci/devices` lists what is there, `echo 1 > "+
			"/sys/bus/pci/rescan` looks again")
	case 1:
		d.boundDriver = linkTarget(d.sysfsDir() + "/driver")
		if err := d.readIDs(); err != nil {
			return err
		}
		return d.readResources()
	}
	return NewFault(Usage, d.identity.Name+": "+strconv.Itoa(count)+
		" devices have these ids; name one by its address:"+list)
}

// identify takes the ids from `modalias`, "pci:v00001234d000011E8sv00001AF4sd00001100bc..."
// (Linux, drivers/pci/pci-sysfs.c), and finds what is known of such devices.
func (d *function) readIDs() error {
	path := d.sysfsDir() + "/modalias"
	text, err := ReadText(path)
	if err != nil {
		return err
	}
	ids, ok := hexColumns(text, 4, 9, 18, 28, 38)
	if !ok {
		return NewFault(NoDevice, path+": holds no PCI ids")
	}
	d.identity.Vendor, d.identity.Device, d.identity.Subsystem = uint16(ids[0]), uint16(ids[1]),
		uint32(ids[3]<<16|ids[2])
	d.tlb, d.outbound = nil, nil
	if board := boards.FindByID(d.identity.Vendor, d.identity.Device); board != nil {
		d.tlb, d.outbound = board.TLB, board.Outbound
	}
	return nil
}

// readResources takes the size and address of each BAR from `resource`: a line each
// of first address, last address and flags, as 0x and 16 digits (pci-sysfs.c, too).
func (d *function) readResources() error {
	path := d.sysfsDir() + "/resource"
	text, err := ReadText(path)
	for i := 0; i < configBars && err == nil; i++ {
		n, ok := hexColumns(text, 16, 57*i+2, 57*i+21, 57*i+40)
		if !ok || n[1] < n[0] {
			return NewFault(NoDevice, path+": line "+strconv.Itoa(i+1)+
				" is not two addresses and flags")
		}
		if n[2]&resourceMemory != 0 && n[1] != 0 {
			d.barStarts[i], d.identity.Bars[i] = n[0], n[1]-n[0]+1
		}
	}
	return err
}

// columns gives the numbers that hex digits in places of a text mean.
func hexColumns(text string, digits int, places ...int) (n [4]uint64, ok bool) {
	ok = true
	for i, at := range places {
		if ok = ok && at+digits <= len(text); ok {
			n[i], ok = ParseNumber(text[at:at+digits], 16, 1<<64-1)
		}
	}
	return n, ok
}

// parsePCI gives what follows "pci:" as sysfs writes it, in small letters: ids, or
// an address. Intel VMD numbers its domains from 0x10000; no domain begins with a fifth 0.
func parsePCIName(s string) (small string, ids, ok bool) {
	form := ""
	for i := range len(s) {
		c, kind := s[i:i+1], s[i:i+1]
		if digit, hex := ParseNumber(c, 16, 15); hex {
			c, kind = strconv.FormatUint(digit, 16), "h"
		}
		small, form = small+c, form+kind
	}
	domain, last := min(max(len(form)-len(":hh:hh.h"), 4), 8), len(form)-1
	ids = form == "hhhh:hhhh"
	// 32 slots of 8 functions
	return small, ids, ids || form == "hhhhhhhh"[:domain]+":hh:hh.h" &&
		(domain == 4 || small[0] != '0') && small[last-3] < '2' && small[last] < '8'
}

// PCIID is "1e52:401e".
func FormatPCIID(vendor, device uint16) string {
	digits := strconv.FormatUint(1<<32|uint64(vendor)<<16|uint64(device), 16)
	return digits[1:5] + ":" + digits[5:]
}

// Number is what digits of a base up to 16 alone mean, if that is not above most,
// which is that of one digit at least. Errors of strconv quote the text, which
// takes 8 KB of tables.
func ParseNumber(digits string, base, most uint64) (n uint64, ok bool) {
	for i := range len(digits) {
		digit := uint64(digits[i] - '0')
		if digit > 9 {
			digit = uint64(digits[i]|0x20-'a') + 10 // above 15 where it is none
		}
		if digit >= base || n > (most-digit)/base {
			return 0, false
		}
		n = n*base + digit
	}
	return n, digits != ""
}

// Cut splits s at the first separator; after is empty where there is none.
func Cut(s string, separator byte) (before, after string) {
	for i := range len(s) {
		if s[i] == separator {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// failed turns a failed system call on a path into a fault, and no error into none.
func callFault(call, path string, err error) error {
	if err == nil {
		return nil
	}
	reason := call + " " + path + ": " + err.Error()
	if err == unix.EACCES || err == unix.EPERM {
		return NewFault(Denied,
			reason+"; run as root, or give this user access to the file (kernel lockdown forbids "+
				"it to everyone)")
	}
	return NewFault(NoDevice, reason)
}

// FileFault gives an error of the kernel about a file, which is not a device's,
// its code and the path.
func FileFault(path string, err error) error {
	if _, ok := err.(*Fault); ok || err == nil {
		return err
	}
	code, remedy := IO, ""
	switch err {
	case unix.EMFILE, unix.ENFILE:
		remedy = "; ulimit -n raises the number that is possible"
	case unix.ENOENT:
		return NewFault(NoFile, path) // the code's text says the rest
	case unix.ENOTDIR:
		code = NoFile
	case unix.EACCES, unix.EPERM, unix.EROFS:
		code = Denied
	}
	return NewFault(code, path+": "+err.Error()+remedy)
}

// ReadText reads a small file of the kernel whole.
func ReadText(path string) (string, error) {
	return readAll("read", path, unix.O_RDONLY, syscalls.read)
}

// readAll opens a file, and asks a call for its bytes until there are no more.
func readAll(call, path string, flags int, read func(fd int, data []byte) (int,
	error)) (text string, err error) {
	fd, err := syscalls.open(path, flags)
	if err != nil {
		return "", callFault("open", path, err)
	}
	defer syscalls.close(fd)
	page := make([]byte, 4096) // as much as the kernel gives at a time
	for n := 1; n > 0; text += string(page[:n]) {
		if n, err = read(fd, page); err != nil {
			return "", callFault(call, path, err)
		}
	}
	return text, nil
}

// linkBase gives the last part of what a symbolic link points at, empty where
// there is no such link.
func linkTarget(path string) string {
	var target [256]byte
	n, _ := unix.Readlink(path, target[:])
	last, rest := "", string(target[:max(n, 0)]) // -1: there is none
	for rest != "" {
		last, rest = Cut(rest, '/')
	}
	return last
}

// listFolder gives the names in a folder, in any order.
func listDir(path string) (names []string, err error) {
	entries, err := readAll("getdents", path, unix.O_RDONLY|unix.O_DIRECTORY, unix.Getdents)
	_, _, names = unix.ParseDirent([]byte(entries), -1, nil)
	return names, err
}
