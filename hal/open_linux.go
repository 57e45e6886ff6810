package hal

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// sysfs has one folder a PCI function (Linux, Documentation/PCI/sysfs-pci.rst).
var sysfs = "/sys/bus/pci/devices"

const resourceMemory = 0x200 // IORESOURCE_MEM in the third column of `resource`

// Open opens a device by name. "pci:VVVV:DDDD" is the only function with that
// vendor and device id, "pci:DDDD:BB:DD.F" the one at that address, all in hex,
// through sysfs; "vfio:" with one of these is the same function behind an IOMMU.
// It refuses a function that a kernel driver owns. "tt:/dev/tenstorrent/N" is a
// device of Tenstorrent's driver. Open only looks: the first Map takes the
// device. The error is a *Fault whose reason says what to do next.
func Open(name string) (Device, error) {
	d, err := Named(name)
	if err == nil {
		if err = d.(*device).lane.open(); err == nil {
			return d, nil
		}
		d.Close()
	}
	return nil, err
}

// Named is the device that a name means, be there one or not: Open has yet to look.
func Named(name string) (Device, error) {
	kind, rest := Cut(name, ':')
	d := &device{&function{kind: kind, rest: rest, identity: Identity{Name: name}, config: configSpace{fd: -1}}}
	_, _, ok := parsePCI(rest)
	switch kind {
	case "pci":
		d.lane = newPCI(d.function)
	case "vfio":
		d.lane = newVFIO(d.function)
	case "tt":
		d.lane, ok = newTT(d.function), rest != "" && rest[0] == '/'
	}
	if d.lane == nil || !ok {
		return nil, &Fault{Usage, name + ": names no device that this program was built for; write pci:VVVV:DDDD or pci:DDDD:BB:DD.F, in hex, vfio: and one of these, or tt:/dev/tenstorrent/N"}
	}
	return d, nil
}

// look finds a function that the kernel has in sysfs, and reads what it tells of it.
func (d *function) look() (err error) {
	wanted, ids, _ := parsePCI(d.rest)
	if d.address, err = findPCI(d.identity.Name, wanted, ids); err != nil {
		return err
	}
	vendor, device, err := readIDs(d.folder() + "/")
	if err != nil {
		return err
	}
	d.identify(vendor, device)
	d.owner = linkBase(d.folder() + "/driver")
	return d.readResources()
}

// readResources takes the size and address of each BAR from `resource`: a line
// each of first address, last address and flags.
func (d *function) readResources() error {
	path := d.folder() + "/resource"
	text, err := ReadText(path)
	if err != nil {
		return err
	}
	for i := range d.starts {
		var line string
		line, text = Cut(text, '\n')
		first, line := Cut(line, ' ')
		last, flags := Cut(line, ' ')
		start, ok1 := parse0x(first)
		end, ok2 := parse0x(last)
		kind, ok3 := parse0x(flags)
		if !ok1 || !ok2 || !ok3 || end < start {
			return &Fault{NoDevice, path + ": line " + strconv.Itoa(i+1) + " is not two addresses and flags"}
		}
		if kind&resourceMemory != 0 && end != 0 {
			d.starts[i], d.identity.Bars[i] = start, end-start+1
		}
	}
	return nil
}

// parsePCI gives what follows "pci:" as sysfs writes it, in small letters: ids, or
// an address. Intel VMD numbers its domains from 0x10000; no domain begins with a fifth 0.
func parsePCI(s string) (small string, ids, ok bool) {
	form := ""
	for i := range len(s) {
		c, kind := s[i:i+1], s[i:i+1]
		if digit, hex := Number(c, 16, 15); hex {
			c, kind = strconv.FormatUint(digit, 16), "h"
		}
		small, form = small+c, form+kind
	}
	domain, last := min(max(len(form)-len(":hh:hh.h"), 4), 8), len(form)-1
	ids = form == "hhhh:hhhh"
	return small, ids, ids || form == "hhhhhhhh"[:domain]+":hh:hh.h" && (domain == 4 || small[0] != '0') && small[last-3] < '2' && small[last] < '8' // 32 slots of 8 functions
}

// findPCI gives the address of the function that has these ids, or this address.
func findPCI(name, wanted string, ids bool) (found string, err error) {
	all, err := listFolder(sysfs)
	if err != nil {
		return "", err
	}
	count, list := 0, ""
	for _, a := range all {
		is := a == wanted
		if ids {
			vendor, device, err := readIDs(sysfs + "/" + a + "/")
			if err != nil {
				return "", err
			}
			is = PCIID(vendor, device) == wanted
		}
		if is {
			found, count, list = a, count+1, list+" pci:"+a
		}
	}
	switch count {
	case 0:
		return "", &Fault{NoDevice, name + ": no such device; `ls /sys/bus/pci/devices` lists what is there, `echo 1 > /sys/bus/pci/rescan` looks again"}
	case 1:
		return found, nil
	}
	return "", &Fault{Usage, name + ": " + strconv.Itoa(count) + " devices have these ids; name one by its address:" + list}
}

// PCIID is "1e52:401e".
func PCIID(vendor, device uint16) string {
	digits := strconv.FormatUint(1<<32|uint64(vendor)<<16|uint64(device), 16)
	return digits[1:5] + ":" + digits[5:]
}

// readIDs reads two files that hold a number and a newline.
func readIDs(start string) (vendor, device uint16, err error) {
	var ids [2]uint16
	for i, path := range [...]string{start + "vendor", start + "device"} {
		text, err := ReadText(path)
		if err != nil {
			return 0, 0, err
		}
		digits, _ := Cut(text, '\n')
		v, ok := parse0x(digits)
		if !ok {
			return 0, 0, &Fault{NoDevice, path + ": not a number"}
		}
		ids[i] = uint16(v)
	}
	return ids[0], ids[1], nil
}

// Number is what digits of a base up to 16 alone mean, if that is not above most,
// which is that of one digit at least. Errors of strconv quote the text, which
// takes 8 KB of tables.
func Number(digits string, base, most uint64) (n uint64, ok bool) {
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

// parse0x parses a number as sysfs writes it: 0x and up to 16 hex digits.
func parse0x(s string) (uint64, bool) {
	if len(s) < 2 || s[:2] != "0x" {
		return 0, false
	}
	return Number(s[2:], 16, 1<<64-1)
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
func failed(call, path string, err error) error {
	if err == nil {
		return nil
	}
	reason := call + " " + path + ": " + err.Error()
	if err == unix.EACCES || err == unix.EPERM {
		return &Fault{Denied, reason + "; run as root, or give this user access to the file (kernel lockdown forbids it to everyone)"}
	}
	return &Fault{NoDevice, reason}
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
	case unix.ENOENT, unix.ENOTDIR:
		code = NoFile
	case unix.EACCES, unix.EPERM, unix.EROFS:
		code = Denied
	}
	return &Fault{code, path + ": " + err.Error() + remedy}
}

// ReadText reads a small file of the kernel whole.
func ReadText(path string) (string, error) {
	fd, err := system.open(path, unix.O_RDONLY)
	if err != nil {
		return "", failed("open", path, err)
	}
	defer system.close(fd)
	buffer, length := make([]byte, 64<<10), 0 // some 600 mounts; the kernel gives a page at a time
	for n := 1; n > 0; length += n {
		if n, err = system.read(fd, buffer[length:]); err != nil {
			return "", failed("read", path, err)
		}
	}
	return string(buffer[:length]), nil
}

// linkBase gives the last part of what a symbolic link points at, empty where
// there is no such link.
func linkBase(path string) string {
	var target [256]byte
	n, _ := unix.Readlink(path, target[:])
	n = max(n, 0) // -1: there is none
	start := n
	for start > 0 && target[start-1] != '/' {
		start--
	}
	return string(target[start:n])
}

// listFolder gives the names in a folder, in any order.
func listFolder(path string) (names []string, err error) {
	fd, err := system.open(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, failed("open", path, err)
	}
	defer system.close(fd)
	buffer := make([]byte, 8192)
	for n := 1; n > 0; {
		if n, err = unix.Getdents(fd, buffer); err != nil {
			return nil, failed("getdents", path, err)
		}
		_, _, names = unix.ParseDirent(buffer[:n], -1, names)
	}
	return names, nil
}
