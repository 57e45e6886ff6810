package hal

// This file reads the ids, BARs and driver of a PCI function from sysfs, which has a directory for
// each PCI function (Linux, Documentation/PCI/sysfs-pci.rst).

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// sysfsDevices is the directory with the directories of all PCI functions. Tests change the path.
var sysfsDevices = "/sys/bus/pci/devices"

// resourceMemory is a flag in the third column of the file `resource`: the BAR is memory, not I/O
// ports (IORESOURCE_MEM).
const resourceMemory = 0x200

// function describes a PCI function by its attributes in sysfs.
type function struct {
	Identity
	boundDriver string             // name of the kernel driver that owns the function; "" if none
	barStarts   [configBars]uint64 // physical addresses of the BARs; 0 if a BAR is not memory
}

// dir returns the path of the function's directory in sysfs.
func (f *function) dir() string { return sysfsDevices + "/" + f.Address }

// findInSysfs searches sysfs for a PCI function, and reads the function's ids, BARs and driver. The
// locator is the address of the function, or its PCI ids if byIDs is true.
func (f *function) findInSysfs(locator string, byIDs bool) error {
	addresses, err := listDir(sysfsDevices)
	if err != nil {
		return err
	}
	count, found, names := 0, "", ""
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
			names += " pci:" + found
		}
	}
	f.Address = found
	switch count {
	case 0:
		return NewFault(NoDevice, f.Name+": no such device; `ls /sys/bus/pci/devices` lists "+
			"the devices, `echo 1 > /sys/bus/pci/rescan` searches for new ones")
	case 1:
		return f.readAttributes()
	}
	return NewFault(Usage, f.Name+": "+strconv.Itoa(count)+
		" devices have these ids; name one by its address:"+names)
}

// hasIDs reads the function's PCI ids, and reports whether they equal ids. If the function has been
// removed since sysfsDevices was listed, hasIDs returns false and no error.
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

// readAttributes reads the function's ids, BARs and driver from its directory.
func (f *function) readAttributes() error {
	f.boundDriver = linkBaseName(f.dir() + "/driver")
	if err := f.readIDs(); err != nil {
		return err
	}
	return f.readResources()
}

// readIDs reads the function's ids from the file `modalias`, which has this format: vendor, device,
// subsystem vendor and subsystem device, in hex (Linux, drivers/pci/pci-sysfs.c).
//
//	pci:v00001234d000011E8sv00001AF4sd00001100bc...
func (f *function) readIDs() error {
	path := f.dir() + "/modalias"
	text, err := ReadText(path)
	if err != nil {
		return err
	}
	ids, ok := hexColumns(text, 4, 9, 18, 28, 38)
	if !ok {
		return NewFault(NoDevice, path+" contains no PCI ids")
	}
	f.Vendor, f.Device = uint16(ids[0]), uint16(ids[1])
	f.Subsystem = uint32(ids[3]<<16 | ids[2])
	return nil
}

// readResources reads the address and size of each BAR from the file `resource`. For each BAR the
// file has a line with the first address, the last address and flags, each as 0x and 16 hex digits
// (Linux, drivers/pci/pci-sysfs.c).
func (f *function) readResources() error {
	path := f.dir() + "/resource"
	text, err := ReadText(path)
	for i := 0; i < configBars && err == nil; i++ {
		lineStart := 57 * i // offset in text: each line is 57 bytes long
		columns, ok := hexColumns(text, 16, lineStart+2, lineStart+21, lineStart+40)
		first, last, flags := columns[0], columns[1], columns[2]
		if !ok || last < first {
			return NewFault(NoDevice, path+": line "+strconv.Itoa(i+1)+
				" must consist of two addresses and flags")
		}
		if flags&resourceMemory != 0 && last != 0 {
			f.barStarts[i], f.Bars[i] = first, last-first+1
		}
	}
	return err
}

// hexColumns parses up to four hex numbers of the given number of digits, which begin at the given
// offsets in text. ok is false if text is too short or has other characters there.
func hexColumns(text string, digits int, offsets ...int) (numbers [4]uint64, ok bool) {
	for i, start := range offsets {
		end := start + digits
		if end > len(text) {
			return numbers, false
		}
		if numbers[i], ok = ParseNumber(text[start:end], 16, 1<<64-1); !ok {
			return numbers, false
		}
	}
	return numbers, true
}

// ReadText returns the contents of a small file, such as a file of sysfs or procfs.
func ReadText(path string) (string, error) {
	return readAll("read", path, unix.O_RDONLY, syscalls.read)
}

// readAll opens the file at path and calls read until it returns no more bytes. callName is the
// name of that system call for error messages.
func readAll(callName, path string, flags int, read func(fd int, data []byte) (int, error)) (
	text string, err error) {
	fd, err := syscalls.open(path, flags)
	if err != nil {
		return "", callFault("open", path, err)
	}
	page := make([]byte, 4096) // one read of a sysfs file returns at most a page
	n := 1
	for n > 0 && err == nil {
		n, err = read(fd, page)
		text += string(page[:max(n, 0)])
	}
	_ = syscalls.close(fd)
	return text, callFault(callName, path, err)
}

// linkBaseName returns the base name of the target of the symbolic link at path, "" if no such link
// exists.
func linkBaseName(path string) string {
	var target [256]byte
	n, _ := unix.Readlink(path, target[:])
	last, rest := "", string(target[:max(n, 0)]) // n is -1 if the link does not exist
	for rest != "" {
		last, rest = Cut(rest, '/')
	}
	return last
}

// listDir returns the names of the files in the directory at path, in any order.
func listDir(path string) (names []string, err error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY
	entries, err := readAll("getdents", path, flags, unix.Getdents)
	for len(entries) > 0 {
		// Bytes 16 and 17 of an entry are the size of the entry. The name begins at byte 19 and
		// ends before a zero byte (man 2 getdents, struct linux_dirent64).
		size := int(entries[16]) | int(entries[17])<<8
		name, _ := Cut(entries[19:size], 0)
		if name != "." && name != ".." {
			names = append(names, name)
		}
		entries = entries[size:]
	}
	return names, err
}
