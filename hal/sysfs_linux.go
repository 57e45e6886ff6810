package hal

// This file reads the ids, the BARs and the name of the kernel driver of a PCI function from sysfs.
// Each PCI function has a directory in sysfs (Linux, Documentation/PCI/sysfs-pci.rst). This file
// also contains the functions that read small files, links and directories.

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// sysfsDevicesDir is the path of the directory that contains the directories of all PCI functions.
// Tests set another path.
var sysfsDevicesDir = "/sys/bus/pci/devices"

// resourceMemoryFlag is a flag in the third number of a BAR's line in the file `resource`. The flag
// is set if the BAR is memory, not I/O ports (Linux, IORESOURCE_MEM).
const resourceMemoryFlag = 0x200

// resourceUnsetFlag is set if the kernel has assigned no address (Linux, IORESOURCE_UNSET).
const resourceUnsetFlag = 0x2000_0000

// pciFunction describes a PCI function by its PCI address, ids, BARs and kernel driver. These
// values come from sysfs. With the backend tt, however, the PCI address and the sizes of the BARs
// come from Tenstorrent's driver, and boundDriver and barPhysicalAddresses stay empty.
type pciFunction struct {
	Identity
	boundDriver          string                 // name of the bound kernel driver; "" if none
	isVirtual            bool                   // a virtual function (SR-IOV)
	barPhysicalAddresses [configBarCount]uint64 // 0 for a BAR that is missing or not memory
}

// sysfsDir returns the path of the function's directory in sysfs. The compiler must not inline
// sysfsDir, because the inlined copies would make the program larger.
//
//go:noinline
func (f *pciFunction) sysfsDir() string { return sysfsDevicesDir + "/" + f.Address }

// findInSysfs searches sysfs for the PCI function that `locator` names, and reads the function's
// ids, BARs and driver name. `locator` is a pair of PCI ids if byIDs is true, and otherwise a PCI
// address, and f.Name ends with it. findInSysfs returns an error if no function matches or if
// several functions match.
func (f *pciFunction) findInSysfs(locator string, byIDs bool) error {
	addresses, err := ListDir(sysfsDevicesDir)
	if err != nil {
		return err
	}
	count, found, names := 0, "", ""
	for _, f.Address = range addresses {
		matches := f.Address == locator
		if byIDs {
			if matches, err = f.readAndMatchIDs(locator); err != nil {
				return err
			}
		}
		if matches {
			count++
			found = f.Address
			names += " " + f.Name[:len(f.Name)-len(locator)] + found
		}
	}
	f.Address = found
	switch count {
	case 0:
		return NewFault(NoDevice, f.Name+": no such device; "+
			"`ls /sys/bus/pci/devices` lists the devices, "+
			"`echo 1 > /sys/bus/pci/rescan` finds new ones")
	case 1:
		return f.readAttributes()
	}
	return NewFault(Usage, f.Name+": "+strconv.Itoa(count)+
		" devices have these ids; name one by its address:"+names)
}

// readAndMatchIDs reports whether the PCI ids equal `ids`, such as "1e52:401e". It returns false
// without an error if the function was removed after findInSysfs listed all functions.
func (f *pciFunction) readAndMatchIDs(ids string) (bool, error) {
	err := f.readIDs()
	if err == nil {
		return FormatPCIID(f.Vendor, f.Device) == ids, nil
	}
	if _, removed := ListDir(f.sysfsDir()); removed != nil {
		return false, nil
	}
	return false, err
}

func (f *pciFunction) readAttributes() error {
	f.boundDriver = LinkBaseName(f.sysfsDir() + "/driver")
	f.isVirtual = LinkBaseName(f.sysfsDir()+"/physfn") != ""
	if err := f.readIDs(); err != nil {
		return err
	}
	return f.readBARRanges()
}

// readIDs reads the function's ids from the file `modalias`. The file begins as in the example
// below: vendor (v), device (d), subsystem vendor (sv) and subsystem device (sd), with eight hex
// digits each. The last four of the eight digits are the id (Linux, drivers/pci/pci-sysfs.c).
//
//	pci:v00001234d000011E8sv00001AF4sd00001100bc...
func (f *pciFunction) readIDs() error {
	path := f.sysfsDir() + "/modalias"
	text, err := ReadText(path)
	if err != nil {
		return err
	}
	ids, ok := parseHexNumbers(text, 4, 9, 18, 28, 38)
	if !ok {
		return NewFault(NoDevice, path+" contains no PCI ids")
	}
	f.Vendor, f.Device = uint16(ids[0]), uint16(ids[1])
	f.Subsystem = uint32(ids[3]<<16 | ids[2])
	return nil
}

// readBARRanges reads the address and size of each BAR from the file `resource`. The file begins
// with one line for each BAR. Each line has three numbers: the first address, the last address, and
// flags. Each number consists of 0x and 16 hex digits (Linux, drivers/pci/pci-sysfs.c).
func (f *pciFunction) readBARRanges() error {
	path := f.sysfsDir() + "/resource"
	text, err := ReadText(path)
	for i := 0; i < configBarCount && err == nil; i++ {
		lineStart := 57 * i // offset of line i in text: each line has 57 bytes
		columns, ok := parseHexNumbers(text, 16, lineStart+2, lineStart+21, lineStart+40)
		first, last, flags := columns[0], columns[1], columns[2]
		if !ok || last < first {
			return NewFault(NoDevice, path+": line "+strconv.Itoa(i+1)+
				" must be two addresses and flags")
		}
		switch {
		case flags&resourceMemoryFlag == 0 || last == 0:
		case flags&resourceUnsetFlag != 0:
			f.Unassigned |= 1 << i
		default:
			f.barPhysicalAddresses[i], f.BarSizes[i] = first, last-first+1
		}
	}
	return err
}

// parseHexNumbers parses hex numbers in `text`, at most four. One number begins at each of the
// given offsets, and has `digits` digits. `ok` is false if `text` is too short, or if a character
// of a number is not a hex digit.
func parseHexNumbers(text string, digits int, offsets ...int) (numbers [4]uint64, ok bool) {
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

// ReadText returns the contents of a small file, such as a file in sysfs or procfs.
func ReadText(path string) (string, error) {
	return readAll("read", path, unix.O_RDONLY, syscalls.read)
}

// readAll opens the file at `path` with the given flags, and calls the function `read` until `read`
// returns 0 bytes or an error. readAll returns the bytes of all calls. callName is the name of the
// system call that `read` makes, for error messages.
func readAll(callName, path string, flags int, read func(fd int, data []byte) (int, error)) (
	text string, err error) {
	fd, err := syscalls.open(path, flags)
	if err != nil {
		return "", syscallFault("open", path, err)
	}
	page := make([]byte, 4096) // one read of a sysfs file returns at most one page of 4096 bytes
	n := 1
	for n > 0 && err == nil {
		n, err = read(fd, page)
		text += string(page[:max(n, 0)])
	}
	_ = syscalls.close(fd)
	return text, syscallFault(callName, path, err)
}

// LinkBaseName returns the last component of the target of the symbolic link at `path`. It returns
// "" if no such link exists.
func LinkBaseName(path string) string {
	var target [256]byte
	n, _ := unix.Readlink(path, target[:])
	last, rest := "", string(target[:max(n, 0)]) // after an error, n is -1
	for rest != "" {
		last, rest = Cut(rest, '/')
	}
	return last
}

// ListDir returns the names of all entries of the directory at path except "." and "..". The order
// of the names is undefined.
func ListDir(path string) (names []string, err error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY
	entries, err := readAll("getdents", path, flags, unix.Getdents)
	for len(entries) > 0 {
		// Bytes 16 and 17 of an entry are the size of the entry in bytes. The name begins at byte
		// 19 and ends with a NUL byte (man 2 getdents, struct linux_dirent64).
		size := int(entries[16]) | int(entries[17])<<8
		name, _ := Cut(entries[19:size], 0)
		if name != "." && name != ".." {
			names = append(names, name)
		}
		entries = entries[size:]
	}
	return names, err
}
