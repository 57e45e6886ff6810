package hal

// Each PCI function has a directory in sysfs (Linux, Documentation/PCI/sysfs-pci.rst).

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// sysfsDevicesDir has the directories of all PCI functions. Tests set another path.
var sysfsDevicesDir = "/sys/bus/pci/devices"

// resourceMemoryFlag is a bit of the flags in `resource`: the BAR is memory, not I/O ports (Linux,
// IORESOURCE_MEM).
const resourceMemoryFlag = 0x200

// resourceUnsetFlag is set if the kernel has assigned no address (Linux, IORESOURCE_UNSET).
const resourceUnsetFlag = 0x2000_0000

// pciFunction has values from sysfs. With the backend tt, the PCI address and the sizes of the BARs
// come from Tenstorrent's driver, and the fields below stay empty.
type pciFunction struct {
	Identity
	boundDriver          string                 // kernel driver; "" if none
	isVirtual            bool                   // a virtual function (SR-IOV)
	barPhysicalAddresses [configBarCount]uint64 // 0 for a BAR that is missing or not memory
}

// Inlined copies would enlarge programs.
//
//go:noinline
func (f *pciFunction) sysfsDir() string { return sysfsDevicesDir + "/" + f.Address }

// findInSysfs fails unless exactly one function matches. `locator`, the end of f.Name, is a pair of
// PCI ids if byIDs is true, else a PCI address.
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

// readAndMatchIDs compares the function's PCI ids with text such as "1e52:401e". It returns false
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

// readIDs reads `modalias`, which begins with vendor (v), device (d), subsystem vendor (sv) and
// subsystem device (sd). The last four of each eight hex digits are the id (Linux,
// drivers/pci/pci-sysfs.c).
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

// readBARRanges reads `resource`, which begins with one line for each BAR: the first address, the
// last address, and flags, each as 0x and 16 hex digits (Linux, drivers/pci/pci-sysfs.c).
func (f *pciFunction) readBARRanges() error {
	path := f.sysfsDir() + "/resource"
	text, err := ReadText(path)
	for i := 0; i < configBarCount && err == nil; i++ {
		lineStart := 57 * i // each line has 57 bytes
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

// parseHexNumbers parses at most four hex numbers. One number of `digits` digits begins at each
// offset. `ok` is false if `text` is too short or has another character there.
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

// ReadText reads a small file of sysfs or procfs. The error is a Fault that names the file.
func ReadText(path string) (string, error) {
	return readAll("read", path, unix.O_RDONLY, syscalls.read)
}

// readAll opens a file, and calls `read` until it returns 0 bytes or an error. callName is for
// messages: the system call that `read` makes.
func readAll(callName, path string, flags int, read func(fd int, data []byte) (int, error)) (
	text string, err error) {
	fd, err := syscalls.open(path, flags)
	if err != nil {
		return "", syscallFault("open", path, err)
	}
	page := make([]byte, 4096) // sysfs returns at most a page at once
	n := 1
	for n > 0 && err == nil {
		n, err = read(fd, page)
		text += string(page[:max(n, 0)])
	}
	_ = syscalls.close(fd)
	return text, syscallFault(callName, path, err)
}

// LinkBaseName returns the last component of a symbolic link's target, or "" if there is no link.
func LinkBaseName(path string) string {
	var target [256]byte
	n, _ := unix.Readlink(path, target[:])
	last, rest := "", string(target[:max(n, 0)]) // n is -1 after an error
	for rest != "" {
		last, rest = Cut(rest, '/')
	}
	return last
}

// ListDir returns the names in a directory, without "." and "..", in undefined order. The error is
// a Fault that names the directory.
func ListDir(path string) (names []string, err error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY
	entries, err := readAll("getdents", path, flags, unix.Getdents)
	for len(entries) > 0 {
		// The size of an entry is in bytes 16 and 17. The name begins at byte 19 and ends with a
		// NUL byte (man 2 getdents, struct linux_dirent64).
		size := int(entries[16]) | int(entries[17])<<8
		name, _ := Cut(entries[19:size], 0)
		if name != "." && name != ".." {
			names = append(names, name)
		}
		entries = entries[size:]
	}
	return names, err
}
