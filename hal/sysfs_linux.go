package hal

// sysfs has a directory for each PCI function (Linux, Documentation/PCI/sysfs-pci.rst), with its
// ids, BARs and driver.

import (
	"strconv"

	"golang.org/x/sys/unix"
)

var sysfsDevices = "/sys/bus/pci/devices"

const resourceMemory = 0x200 // IORESOURCE_MEM in the third column of `resource`

// function is a PCI function as sysfs describes it.
type function struct {
	Identity
	boundDriver string             // kernel driver that owns the function, "" for none
	barStarts   [configBars]uint64 // addresses of the BARs for the processor
}

// dir returns the function's directory in sysfs.
func (f *function) dir() string { return sysfsDevices + "/" + f.Address }

// find searches for the function with an address or a pair of PCI ids, and reads its identity,
// driver and BARs.
func (f *function) find(locator string, byIDs bool) error {
	addresses, err := listDir(sysfsDevices)
	if err != nil {
		return err
	}
	count, found, list := 0, "", ""
	for _, f.Address = range addresses {
		matches := f.Address == locator
		if byIDs {
			if matches, err = f.hasIDs(locator); err != nil {
				return err
			}
		}
		if matches {
			count++
			found = f.Address
			list += " pci:" + found
		}
	}
	f.Address = found
	switch count {
	case 0:
		return NewFault(NoDevice, f.Name+": no such device; `ls /sys/bus/pci/devices` lists what "+
			"is there, `echo 1 > /sys/bus/pci/rescan` looks again")
	case 1:
		return f.read()
	}
	return NewFault(Usage, f.Name+": "+strconv.Itoa(count)+
		" devices have these ids; name one by its address:"+list)
}

// hasIDs reads the ids and reports whether they are these. A function that was removed since the
// directory was listed does not have them.
func (f *function) hasIDs(ids string) (bool, error) {
	err := f.readIDs()
	if err == nil {
		return FormatPCIID(f.Vendor, f.Device) == ids, nil
	}
	if _, removed := listDir(f.dir()); removed != nil {
		return false, nil
	}
	return false, err
}

// read reads identity, driver and BARs.
func (f *function) read() error {
	f.boundDriver = linkTarget(f.dir() + "/driver")
	if err := f.readIDs(); err != nil {
		return err
	}
	return f.readResources()
}

// readIDs reads the ids from `modalias`, "pci:v00001234d000011E8sv00001AF4sd00001100bc..."
// (Linux, drivers/pci/pci-sysfs.c).
func (f *function) readIDs() error {
	path := f.dir() + "/modalias"
	text, err := ReadText(path)
	if err != nil {
		return err
	}
	ids, ok := hexColumns(text, 4, 9, 18, 28, 38)
	if !ok {
		return NewFault(NoDevice, path+": holds no PCI ids")
	}
	f.Vendor, f.Device = uint16(ids[0]), uint16(ids[1])
	f.Subsystem = uint32(ids[3]<<16 | ids[2])
	return nil
}

// readResources reads size and address of each BAR from `resource`: a line each of first address,
// last address and flags, as 0x and 16 digits (pci-sysfs.c, too).
func (f *function) readResources() error {
	path := f.dir() + "/resource"
	text, err := ReadText(path)
	for i := 0; i < configBars && err == nil; i++ {
		line := 57 * i
		n, ok := hexColumns(text, 16, line+2, line+21, line+40)
		first, last, flags := n[0], n[1], n[2]
		if !ok || last < first {
			return NewFault(NoDevice, path+": line "+strconv.Itoa(i+1)+
				" is not two addresses and flags")
		}
		if flags&resourceMemory != 0 && last != 0 {
			f.barStarts[i], f.Bars[i] = first, last-first+1
		}
	}
	return err
}

// hexColumns returns the numbers of so many hex digits at these offsets of a text.
func hexColumns(text string, digits int, offsets ...int) (n [4]uint64, ok bool) {
	for i, at := range offsets {
		if at+digits > len(text) {
			return n, false
		}
		if n[i], ok = ParseNumber(text[at:at+digits], 16, 1<<64-1); !ok {
			return n, false
		}
	}
	return n, true
}

// ReadText reads a small file of the kernel to its end.
func ReadText(path string) (string, error) {
	return readAll("read", path, unix.O_RDONLY, syscalls.read)
}

// readAll opens a file and repeats a call until it returns no more bytes.
func readAll(call, path string, flags int, read func(fd int, data []byte) (int, error)) (
	text string, err error) {
	fd, err := syscalls.open(path, flags)
	if err != nil {
		return "", callFault("open", path, err)
	}
	page := make([]byte, 4096) // the most that sysfs returns at a time
	n := 1
	for n > 0 && err == nil {
		n, err = read(fd, page)
		text += string(page[:max(n, 0)])
	}
	_ = syscalls.close(fd)
	return text, callFault(call, path, err)
}

// linkTarget returns the last part of the path that a symbolic link contains, "" if there is no
// such link.
func linkTarget(path string) string {
	var target [256]byte
	n, _ := unix.Readlink(path, target[:])
	last, rest := "", string(target[:max(n, 0)]) // n is -1 if none exists
	for rest != "" {
		last, rest = Cut(rest, '/')
	}
	return last
}

// listDir returns the names in a directory, in any order.
func listDir(path string) (names []string, err error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY
	entries, err := readAll("getdents", path, flags, unix.Getdents)
	for len(entries) > 0 {
		// An entry has its size in bytes 16 and 17, and its name, which a zero ends, from byte 19
		// on (man 2 getdents, struct linux_dirent64).
		size := int(entries[16]) | int(entries[17])<<8
		name, _ := Cut(entries[19:size], 0)
		if name != "." && name != ".." {
			names = append(names, name)
		}
		entries = entries[size:]
	}
	return names, err
}
