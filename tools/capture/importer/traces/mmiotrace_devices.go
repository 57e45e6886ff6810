package traces

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lightmetal/boards"
	"lightmetal/tools/image/english"
)

// pciDevice is one PCIDEV line.
type pciDevice struct {
	text           string
	slot           string // bus, device and function as lspci writes them
	vendor, device uint16
	ranges         [7]pciRange // BAR 0..5 and the expansion ROM
	order          int         // among the devices
	wanted         bool
	accesses       int
	unknown        error // an access that the kernel could not decode
	unknowns       int
}

// pciRange is where one BAR lies, or the expansion ROM.
type pciRange struct {
	of         *pciDevice
	bar        uint8 // 6: expansion ROM
	base, size uint64
	furthest   uint64 // end of this range and of those sorted before it
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

// add takes a device; trace_pipe repeats all of them each time it is opened.
// Lines do not tell the PCI domain: where a device was asked for, one with the
// slot of another is one of another domain.
func (m *mmiotrace) add(d *pciDevice) error {
	for _, old := range m.slots[d.slot] {
		if old.text == d.text {
			return nil
		}
		if m.o.Device == "" && !m.only {
			return Refuse(m.line, "PCIDEV %s has other ids or ranges than before", d.slot)
		}
	}
	d.order = len(m.devices)
	m.devices, m.slots[d.slot], m.ranges = append(m.devices, d), append(m.slots[d.slot], d), nil
	return nil
}

// wants tells whether a device can be the one to import.
func (o *Source) wants(d *pciDevice) bool {
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

// find gives the range that holds an address, of several that of the first device.
func (m *mmiotrace) find(address uint64) (found *pciRange) {
	if m.last != nil && address-m.last.base < m.last.size {
		return m.last
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
	for i := after - 1; i >= 0 && m.ranges[i].furthest > address; i-- {
		if r := m.ranges[i]; address-r.base < r.size &&
			(found == nil || r.of.order < found.of.order) {
			found = r
		}
	}
	if found != nil {
		m.last = found
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
		r.furthest = furthest
	}
}

// nowhere refuses an access that belongs to no device of the trace, unless the
// user has named the device that counts.
func (m *mmiotrace) nowhere(address uint64) error {
	if m.o.Device == "" && !m.only {
		return Refuse(m.line, "address 0x%x is not in a BAR of a PCIDEV line", address)
	}
	if m.outside == 0 {
		m.lost = m.line
	}
	m.outside++
	return nil
}

// choice takes the first device that was wanted and accessed. Another one that
// is makes the choice the user's.
func (m *mmiotrace) choice(d *pciDevice) {
	m.chosen, m.board = d, m.o.Board
	if m.board == nil {
		m.board = boards.FindByID(d.vendor, d.device)
	}
	if m.board != nil && !m.only {
		m.to.Start(m.board)
	}
}

func (m *mmiotrace) choose() (*pciDevice, error) {
	var chosen []*pciDevice
	for _, d := range m.devices {
		if d.wanted && d.accesses > 0 {
			chosen = append(chosen, d)
		}
	}
	switch {
	case len(chosen) == 1:
		return chosen[0], nil
	case len(chosen) > 1:
		return nil, Usage("accesses to several devices: %s; choose one by VVVV:DDDD or BB:DD.F",
			deviceList(chosen))
	case m.o.Device != "":
		return nil, Usage("the trace has no access to device %s; devices in the trace: %s",
			m.o.Device, deviceList(m.devices))
	case m.o.Board != nil:
		return nil, Usage("the trace has no access to board %s (%04x:%04x); devices in the "+
			"trace: %s",
			m.o.Board.Name, m.o.Board.Vendor, m.o.Board.Device, deviceList(m.devices))
	}
	return nil, Refuse(0, "the trace has no access to a device")
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
