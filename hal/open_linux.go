package hal

import (
	"strconv"

	"lightmetal/boards"
)

// Open opens a device by its name, in which numbers are hex, but N is decimal:
//
//	pci:VVVV:DDDD          function with this vendor and device id, through sysfs
//	pci:DDDD:BB:DD.F       function with this domain, bus, slot and function number
//	vfio:VVVV:DDDD         the same, through VFIO (behind an IOMMU)
//	vfio:DDDD:BB:DD.F      the same
//	tt:/dev/tenstorrent/N  device N of Tenstorrent's driver
//
// It fails if several functions have the ids, or if their kernel driver does not suit the backend.
// The error is a *Fault that names the remedy. Open neither writes to the device nor claims it: the
// first Map does.
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

// initFromBoard does nothing for unknown ids. A driver that programs TLB windows also programs the
// outbound translation.
func (d *device) initFromBoard() {
	board := boards.FindByID(d.pciFunction.Vendor, d.pciFunction.Device)
	if board == nil {
		return
	}
	d.tlb.layout = board.TLB
	if d.tlb.driver == nil {
		d.outbound.layout = board.Outbound
	}
}

// ParseDeviceName checks a name; the device need not exist. The caller may call only Identity of
// the result. The error is a Fault with the code Usage.
func ParseDeviceName(name string) (Device, error) {
	d, err := parseDevice(name)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// parseDevice makes no system call.
func parseDevice(name string) (*device, error) {
	scheme, rest := Cut(name, ':')
	d := &device{scheme: scheme}
	d.pciFunction.Name = name
	d.config.fd = -1
	ok := false
	d.locator, d.locatorIsIDs, ok = parsePCIName(rest)
	if d.backend = d.newBackend(scheme); scheme == "tt" {
		d.locator = rest
		ok = rest != "" && rest[0] == '/'
	}
	if d.backend == nil || !ok {
		return nil, NewFault(Usage, "unknown device \""+name+"\"; this program opens for example"+
			exampleNames())
	}
	return d, nil
}

// parsePCIName returns `name` in lower case, as in sysfs.
//
// Domains usually have four digits. Domains of Intel's VMD, for NVMe devices, begin at 0x10000, and
// have five to eight digits without leading zeros.
func parsePCIName(name string) (locator string, byIDs, ok bool) {
	// name with h for each hex digit
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
	// A bus has 32 slots (0x00 to 0x1f). A slot has 8 functions.
	last := len(form) - 1
	return locator, false, locator[last-3] < '2' && locator[last] < '8'
}
