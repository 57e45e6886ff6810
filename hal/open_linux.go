package hal

// Names of devices, and the numbers in them.

import "strconv"

// Open opens a device by name. "pci:VVVV:DDDD" is the only function with that vendor and device
// id, "pci:DDDD:BB:DD.F" the one at that address, all in hex, through sysfs; "vfio:" with one of
// these is the same function behind an IOMMU. A function that another kernel driver owns is an
// error. "tt:/dev/tenstorrent/N" is a device of Tenstorrent's driver. Open stores nothing to the
// device: the first Map acquires it. The error is a *Fault whose reason names the remedy.
func Open(name string) (Device, error) {
	d, err := parseDevice(name)
	if err != nil {
		return nil, err
	}
	if err := d.backend.probe(); err != nil {
		d.Close()
		return nil, err
	}
	d.findTileParts()
	return d, nil
}

// ParseName returns the device of a name without looking whether it exists.
func ParseName(name string) (Device, error) {
	d, err := parseDevice(name)
	if err != nil {
		return nil, err
	}
	return d, nil
}

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
		return nil, NewFault(Usage, "unknown device \""+name+"\"; devices: pci:VVVV:DDDD or "+
			"pci:DDDD:BB:DD.F (hex), vfio: with the same, tt:/dev/tenstorrent/N")
	}
	return d, nil
}

// parsePCIName returns PCI ids or the address of a function in small letters, as sysfs writes
// them. Intel VMD numbers its domains from 0x10000; no domain begins with a fifth 0.
func parsePCIName(s string) (small string, ids, ok bool) {
	// form is s with an h in place of each hex digit.
	form := ""
	for i := range len(s) {
		c := s[i : i+1]
		kind := c
		if digit, hex := ParseNumber(c, 16, 15); hex {
			c = strconv.FormatUint(digit, 16)
			kind = "h"
		}
		small += c
		form += kind
	}
	if form == "hhhh:hhhh" {
		return small, true, true
	}
	domain := min(max(len(form)-len(":hh:hh.h"), 4), 8)
	if form != "hhhhhhhh"[:domain]+":hh:hh.h" || domain > 4 && small[0] == '0' {
		return small, false, false
	}
	// There are 32 slots of 8 functions.
	last := len(form) - 1
	return small, false, small[last-3] < '2' && small[last] < '8'
}

// FormatPCIID returns a pair of PCI ids as text, "1e52:401e".
func FormatPCIID(vendor, device uint16) string {
	digits := strconv.FormatUint(1<<32|uint64(vendor)<<16|uint64(device), 16)
	return digits[1:5] + ":" + digits[5:]
}

// ParseNumber returns the number that digits of a base up to 16 mean. It must not be above most,
// which is at least the largest digit. Errors of strconv quote the text, which takes 8 KB of
// tables.
func ParseNumber(digits string, base, most uint64) (n uint64, ok bool) {
	for i := range len(digits) {
		digit := uint64(digits[i] - '0')
		if digit > 9 {
			digit = uint64(digits[i]|0x20-'a') + 10 // above 15 if it is no digit
		}
		if digit >= base || n > (most-digit)/base {
			return 0, false
		}
		n = n*base + digit
	}
	return n, digits != ""
}

// Cut splits s at the first separator; after is empty if none exists.
func Cut(s string, separator byte) (before, after string) {
	for i := range len(s) {
		if s[i] == separator {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}
