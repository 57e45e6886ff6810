package traces

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lightmetal/boards"
	"lightmetal/tools/image/english"
)

// pciDevice is a device that a PCIDEV line describes.
type pciDevice struct {
	text           string
	slot           string // bus, device and function in the form of lspci
	vendor, device uint16
	ranges         [7]pciRange // BAR 0..5 and the expansion ROM
	index          int         // index in mmiotrace.devices
	isWanted       bool
	accesses       int // without those of romAccesses
	romAccesses    int // to the expansion ROM of a device that is wanted
	undecodedCount int
}

// pciRange is the address range of one BAR, or of the expansion ROM.
type pciRange struct {
	device     *pciDevice
	bar        uint8 // 0 to 5, or expansionROM
	base, size uint64
	endMax     uint64 // maximum end of this range and of all ranges sorted before it
	stats      RegionSummary
}

const expansionROM = 6

func (r *pciRange) name() string {
	if r.bar == expansionROM {
		return "the expansion ROM"
	}
	return fmt.Sprintf("BAR %d", r.bar)
}

func (d *pciDevice) String() string {
	return fmt.Sprintf("%s %04x:%04x", d.slot, d.vendor, d.device)
}

// addDevice adds a device. trace_pipe repeats all PCIDEV lines each time it is opened. The lines
// lack the PCI domain: if the user has named a device, another device with the same slot is one in
// another domain.
func (m *mmiotrace) addDevice(d *pciDevice) error {
	for _, old := range m.slots[d.slot] {
		if old.text == d.text {
			return nil
		}
		if m.source.Device == "" && !m.summaryOnly {
			return TraceError(m.line,
				"the PCIDEV line of %s has other ids or ranges than an earlier "+
					"line; choose a device with --device", d.slot)
		}
	}
	d.index = len(m.devices)
	m.devices, m.slots[d.slot], m.ranges = append(m.devices, d), append(m.slots[d.slot], d), nil
	return nil
}

// mayImport reports whether the user may want to import a device.
func (o *Source) mayImport(d *pciDevice) bool {
	id := fmt.Sprintf("%04x:%04x", d.vendor, d.device)
	switch {
	case o.Device != "":
		return strings.EqualFold(o.Device, id) || strings.EqualFold(o.Device, d.slot) ||
			strings.EqualFold(strings.TrimPrefix(o.Device, "0000:"), d.slot)
	case o.Board != nil && o.Board.Vendor != 0:
		return o.Board.Vendor == d.vendor && o.Board.Device == d.device
	}
	return true
}

// rangeAt returns the range that contains an address. If there are several, it is the range of the
// device that comes first in the trace.
func (m *mmiotrace) rangeAt(address uint64) (found *pciRange) {
	if m.lastRange != nil && address-m.lastRange.base < m.lastRange.size {
		return m.lastRange
	}
	if m.ranges == nil {
		m.sortRanges()
	}
	after, _ := slices.BinarySearchFunc(m.ranges, address, func(r *pciRange, address uint64) int {
		if r.base <= address {
			return -1
		}
		return 1
	})
	for i := after - 1; i >= 0 && m.ranges[i].endMax > address; i-- {
		if r := m.ranges[i]; address-r.base < r.size &&
			(found == nil || r.device.index < found.device.index) {
			found = r
		}
	}
	if found != nil {
		m.lastRange = found
	}
	return found
}

func (m *mmiotrace) sortRanges() {
	for _, d := range m.devices {
		for i := range d.ranges {
			if r := &d.ranges[i]; r.base != 0 && r.size != 0 {
				m.ranges = append(m.ranges, r)
			}
		}
	}
	slices.SortStableFunc(m.ranges, func(a, b *pciRange) int { return cmp.Compare(a.base, b.base) })
	furthest := uint64(0)
	for _, r := range m.ranges {
		furthest = max(furthest, r.base+r.size)
		r.endMax = furthest
	}
}

const noPCIDevText = "no PCIDEV line comes before this access: the PCIDEV lines at the start of " +
	"trace_pipe name the devices and their BARs, so record again and keep the whole output of cat"

// countOutside counts an access outside the BARs of all devices, or returns an error if the user
// has named no device.
func (m *mmiotrace) countOutside(address uint64) error {
	if len(m.devices) == 0 && !m.summaryOnly {
		return TraceError(m.line, "%s", noPCIDevText)
	}
	if m.source.Device == "" && !m.summaryOnly {
		return m.addUnusable(nil, OpRejected, "address 0x%x is outside the BARs of all PCIDEV "+
			"lines; choose a device with --device", address)
	}
	if m.outsideCount == 0 {
		m.outsideLine = m.line
	}
	m.outsideCount++
	return nil
}

// chooseFirst chooses the first wanted device that is accessed. If the trace has accesses to
// another wanted device, the user must choose.
func (m *mmiotrace) chooseFirst(d *pciDevice) {
	m.chosen, m.board = d, m.source.Board
	if m.board == nil {
		m.board = boards.FindByID(d.vendor, d.device)
	}
	if m.board != nil && !m.summaryOnly {
		m.sink.Start(m.board)
	}
}

func (m *mmiotrace) chosenDevice() (*pciDevice, error) {
	var chosen []*pciDevice
	for _, d := range m.devices {
		if d.isWanted && d.accesses > 0 {
			chosen = append(chosen, d)
		}
	}
	for _, e := range m.early {
		if len(chosen) == 0 && e.Op != OpMark && (e.device == nil || e.device.isWanted) {
			return nil, TraceError(e.Line, "%s", e.Name)
		}
	}
	switch {
	case len(chosen) == 1:
		return chosen[0], nil
	case len(m.devices) == 0:
		return nil, TraceError(0, "the trace has no PCIDEV lines, which name the devices and "+
			"their BARs: record again and keep the whole output of cat trace_pipe")
	case len(chosen) > 1:
		return nil, UsageError("the trace has accesses to several devices: %s; "+
			"choose one with --device VVVV:DDDD or --device BB:DD.F", deviceList(chosen))
	case m.source.Device != "":
		return nil, UsageError(
			"the trace contains no access to device %s; devices in the trace: %s",
			m.source.Device, deviceList(m.devices))
	case m.source.Board != nil && m.source.Board.Vendor != 0:
		return nil, UsageError("the trace contains no access to board %s (%04x:%04x); "+
			"devices in the trace: %s",
			m.source.Board.Name, m.source.Board.Vendor, m.source.Board.Device,
			deviceList(m.devices))
	}
	return nil, TraceError(0, "the trace contains no access to any device: mmiotrace shows only "+
		"BARs that a driver maps while it is on; unload the driver, enable mmiotrace, "+
		"start cat trace_pipe, then load the driver")
}

func deviceList(devices []*pciDevice) string {
	const shownMax = 8
	var list []string
	for i, d := range devices {
		if i == shownMax {
			list = append(list, fmt.Sprintf("and %d more", len(devices)-i))
			break
		}
		list = append(list, fmt.Sprintf("%s (%s)", d, english.Count(d.accesses, "access")))
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
