package hal

// This file opens devices by name. It contains the parsers of device names and of numbers.

import "strconv"

// Open opens the device with the given name. A name has one of these forms, with numbers in hex:
//
//	pci:VVVV:DDDD          PCI function with this vendor id and device id, through sysfs
//	pci:DDDD:BB:DD.F       PCI function with this domain, bus, slot and function number
//	vfio:VVVV:DDDD         PCI function with these ids, through VFIO (behind an IOMMU)
//	vfio:DDDD:BB:DD.F      PCI function with this address, through VFIO
//	tt:/dev/tenstorrent/N  device N of Tenstorrent's driver; N is decimal
//
// Open returns an error if several functions have the given ids, or if the kernel driver of the
// function does not suit the backend. The error is a *Fault whose reason names the remedy. Open
// does not write to the device, and does not claim the device. The first call of Map claims the
// device.
func Open(name string) (Device, error) {
	d, err := parseDevice(name)
	if err != nil {
		return nil, err
	}
	if err := d.backend.identifyDevice(); err != nil {
		d.Close()
		return nil, err
	}
	d.initFromBoard()
	return d, nil
}

// ParseDeviceName checks a device name without opening the device, which need not exist. If the
// name is invalid, ParseDeviceName returns a Fault with the code Usage. The returned Device is not
// open: the caller may only call its method Identity.
func ParseDeviceName(name string) (Device, error) {
	d, err := parseDevice(name)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// parseDevice parses a device name, and returns a new device with the backend that the name
// selects. It makes no system call.
func parseDevice(name string) (*device, error) {
	scheme, rest := Cut(name, ':')
	d := &device{scheme: scheme}
	d.pciFunction.Name = name
	d.config.fd = -1
	ok := false
	d.locator, d.locatorIsIDs, ok = parsePCIName(rest)
	switch scheme {
	case "pci":
		d.backend = newPCI(d)
	case "vfio":
		d.backend = newVFIO(d)
	case "tt":
		d.backend = newTT(d)
		d.locator = rest
		ok = rest != "" && rest[0] == '/'
	}
	if d.backend == nil || !ok {
		return nil, NewFault(Usage, "unknown device \""+name+"\"; this program opens for example"+
			pciExample+vfioExample+ttExample)
	}
	return d, nil
}

// parsePCIName checks that `name` is a pair of PCI ids or a PCI address. The result `locator` is
// `name` in lower case, as in sysfs. byIDs is true for a pair of ids, and false for an address.
// `ok` is false if `name` is neither.
//
// The domain in an address usually has four digits. Domains of Intel's VMD (a controller for NVMe
// devices) begin at 0x10000: they have five to eight digits, without leading zeros.
func parsePCIName(name string) (locator string, byIDs, ok bool) {
	// `form` is a copy of `name` with the letter h in place of each hex digit, such as "hhhh:hhhh".
	form := ""
	for i := range len(name) {
		c := name[i : i+1]
		kind := c
		if digit, isHex := ParseNumber(c, 16, 15); isHex {
			c = strconv.FormatUint(digit, 16)
			kind = "h"
		}
		locator += c
		form += kind
	}
	if form == "hhhh:hhhh" {
		return locator, true, true
	}
	domainDigits := min(max(len(form)-len(":hh:hh.h"), 4), 8)
	if form != "hhhhhhhh"[:domainDigits]+":hh:hh.h" || domainDigits > 4 && locator[0] == '0' {
		return locator, false, false
	}
	// Check the slot number and the function number: a bus has 32 slots (0x00 to 0x1f), and a slot
	// has 8 functions (0 to 7).
	last := len(form) - 1
	return locator, false, locator[last-3] < '2' && locator[last] < '8'
}

// FormatPCIID returns a PCI vendor id and device id as hex text, such as "1e52:401e".
func FormatPCIID(vendor, device uint16) string {
	digits := strconv.FormatUint(1<<32|uint64(vendor)<<16|uint64(device), 16)
	return digits[1:5] + ":" + digits[5:]
}

// ParseNumber returns the number that the text `digits` represents in the given base, which must be
// at most 16. `ok` is false if the text is empty, contains a character that is not a digit of the
// base, or represents a number greater than `limit`. `limit` must be at least base-1.
//
// ParseNumber replaces strconv.ParseUint, which would add 8 KB to a program: its errors quote the
// text, and quoting needs large tables.
func ParseNumber(digits string, base, limit uint64) (n uint64, ok bool) {
	for i := range len(digits) {
		digit := uint64(digits[i] - '0')
		if digit > 9 {
			digit = uint64(digits[i]|0x20-'a') + 10 // 10 to 15 for a letter from a to f, else more
		}
		if digit >= base || n > (limit-digit)/base {
			return 0, false
		}
		n = n*base + digit
	}
	return n, digits != ""
}

// Cut splits the text `s` at the first separator. It returns the text before the separator and the
// text after the separator. If `s` contains no separator, `before` is `s` and `after` is "".
func Cut(s string, separator byte) (before, after string) {
	for i := range len(s) {
		if s[i] == separator {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}
