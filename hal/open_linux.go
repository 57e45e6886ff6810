package hal

// This file opens devices by name, and parses the names and the numbers in them.

import "strconv"

// Open opens the device with the given name. These names are possible, with numbers in hex:
//
//	pci:VVVV:DDDD          the PCI function with that vendor id and device id, through sysfs
//	pci:DDDD:BB:DD.F       the PCI function with that domain, bus, slot and function number
//	vfio:VVVV:DDDD         the same as pci: through VFIO, behind an IOMMU
//	vfio:DDDD:BB:DD.F
//	tt:/dev/tenstorrent/N  device N of Tenstorrent's driver, N in decimal
//
// It is an error if several functions have the ids, or if another kernel driver owns the function.
// Open stores nothing to the device: the first Map acquires the device. The error is a *Fault whose
// reason names the remedy.
func Open(name string) (Device, error) {
	d, err := parseDevice(name)
	if err != nil {
		return nil, err
	}
	if err := d.backend.probe(); err != nil {
		d.Close()
		return nil, err
	}
	d.findBoard()
	return d, nil
}

// ParseName returns the device with the given name, but does not check that the device exists. The
// error is a usage error if the name is invalid.
func ParseName(name string) (Device, error) {
	d, err := parseDevice(name)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// parseDevice returns a device for name, whose backend has not probed it yet.
func parseDevice(name string) (*device, error) {
	scheme, rest := Cut(name, ':')
	d := &device{scheme: scheme}
	d.function.Name = name
	d.config.fd = -1
	ok := false
	d.locator, d.byIDs, ok = parsePCIName(rest)
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
		return nil, NewFault(Usage, "unknown device \""+name+"\"; use `pci:VVVV:DDDD` or "+
			"`pci:DDDD:BB:DD.F` (hex; `vfio:` likewise), or `tt:/dev/tenstorrent/N`")
	}
	return d, nil
}

// parsePCIName converts name, which must be a pair of PCI ids or the address of a PCI function, to
// lower case, as in sysfs. byIDs is true if name is a pair of ids. ok is false if name is invalid.
// Most domains have four digits. Domains of Intel VMD are numbered from 0x10000 on and have up to
// eight digits, the first of which is not 0.
func parsePCIName(name string) (locator string, byIDs, ok bool) {
	// form is name with each hex digit replaced by the letter h.
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
	// A bus has 32 slots, and a slot has 8 functions.
	last := len(form) - 1
	return locator, false, locator[last-3] < '2' && locator[last] < '8'
}

// FormatPCIID returns a pair of PCI ids as text in hex, such as "1e52:401e".
func FormatPCIID(vendor, device uint16) string {
	digits := strconv.FormatUint(1<<32|uint64(vendor)<<16|uint64(device), 16)
	return digits[1:5] + ":" + digits[5:]
}

// ParseNumber parses digits as a number in the given base, which is at most 16. ok is false if
// digits is empty, has other characters, or is a number above limit. limit must be at least base-1.
// strconv.ParseUint is not used, because its errors quote the text, which adds 8 KB of tables to a
// program.
func ParseNumber(digits string, base, limit uint64) (n uint64, ok bool) {
	for i := range len(digits) {
		digit := uint64(digits[i] - '0')
		if digit > 9 {
			digit = uint64(digits[i]|0x20-'a') + 10 // above 15 if this is not a hex digit
		}
		if digit >= base || n > (limit-digit)/base {
			return 0, false
		}
		n = n*base + digit
	}
	return n, digits != ""
}

// Cut splits s at the first separator into the text before it and the text after it. If s has no
// separator, before is s and after is empty.
func Cut(s string, separator byte) (before, after string) {
	for i := range len(s) {
		if s[i] == separator {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}
