package record

import (
	"errors"
	"fmt"
)

// ErrCut is in the error of a recording without an END line: the recorder was killed, the program
// crashed, or the simulator rejected the access that the last line announces.
var ErrCut = errors.New("the recording has no END line")

// ErrEmpty is in the error of a recording without a device.
var ErrEmpty = errors.New("the recording is empty: the program did not map a BAR of a device, " +
	"or --device names another device; `lm record --help` lists the mappings that lm can record")

// ErrGap is in the error of a recording that is incomplete.
var ErrGap = errors.New("the recording is incomplete")

// deviceTable has the devices and BARs of version 2. Both are numbered from 0, in the order of
// their declarations.
type deviceTable struct {
	wanted  string // VVVV:DDDD or name of the selected device; "": the only device
	header  func(*Capture) error
	devices []*Capture // declared devices, without records
	chosen  *Capture   // selected device; nil: not declared yet
	bars    []declaredBAR
	isOther bool // the current record belongs to another device
	// records without a device, such as those of host memory, before the selected device was
	// declared
	earlyRecords []Record
	firstGap     *Error // error of the first GAP line
}

type declaredBAR struct {
	device *Capture
	index  uint8
}

// readDeclaration reads a DEVICE or a BAR line.
func (p *parser) readDeclaration(name string) {
	s := &p.devices
	count := len(s.devices)
	if name == "BAR" {
		count = len(s.bars)
	}
	if n := p.readNumber("number", 10, 16); n != uint64(count) {
		p.fail("found %s %d, expected %s %d", name, n, name, count)
	}
	if name == "BAR" {
		p.readBARDeclaration()
		p.expectLineEnd()
		return
	}
	d := &Capture{Vendor: uint16(p.readNumber("vendor", 16, 16)),
		Device: uint16(p.readNumber("device", 16, 16)), Name: string(p.readField())}
	p.expectLineEnd()
	s.devices = append(s.devices, d)
	p.selectDevice(d)
}

// ids returns VVVV:DDDD.
func (c *Capture) ids() string { return fmt.Sprintf("%04x:%04x", c.Vendor, c.Device) }

// selectDevice checks whether a device is the one to read, and if so passes its header and the
// earlier records to the caller.
func (p *parser) selectDevice(d *Capture) {
	s := &p.devices
	if s.wanted != "" && s.wanted != d.Name && s.wanted != d.ids() {
		return
	}
	if s.chosen != nil {
		p.fail("the recording has several devices, such as %s (%s) and %s (%s): "+
			"choose one with --device",
			s.chosen.Name, s.chosen.ids(), d.Name, d.ids())
	}
	if p.err == nil {
		s.chosen = d
		p.err = s.header(d)
	}
	for i := 0; p.err == nil && s.chosen == d && i < len(s.earlyRecords); i++ {
		p.err = p.onRecord(&s.earlyRecords[i])
	}
}

func (p *parser) readBARDeclaration() {
	s := &p.devices
	device, index := p.readNumber("device", 10, 16), p.readNumber("BAR", 10, 8)
	bar := Bar{p.readNumber("base", 16, 64), p.readNumber("size", 16, 64)}
	switch {
	case device >= uint64(len(s.devices)):
		p.fail("device %d is used before a line declares it", device)
		return
	case index > 5:
		p.fail("device %d has a BAR with the number %d; BAR numbers are 0 to 5", device, index)
		return
	case s.devices[device].Bars[index].Size != 0:
		p.fail("BAR %d of device %d is declared twice", index, device)
		return
	case bar.Size == 0:
		p.fail("BAR %d of device %d must have at least 1 byte", index, device)
		return
	}
	s.devices[device].Bars[index] = bar
	s.bars = append(s.bars, declaredBAR{s.devices[device], uint8(index)})
}

// noteGap keeps the first gap. Before the selected device is declared, it also keeps records that
// belong to no single device: those of host memory, which all devices of a program may reach, and
// events.
func (p *parser) noteGap(r *Record) {
	if r.Kind == Gap && p.devices.firstGap == nil {
		p.devices.firstGap = &Error{p.line, 1, fmt.Errorf("%w: %s", ErrGap, r.Data)}
	}
	if p.version == 2 && p.devices.chosen == nil {
		p.devices.isOther = true
		switch r.Kind {
		case Memory, HostRead, HostWrite, HostBoth, Event:
			p.devices.earlyRecords = append(p.devices.earlyRecords, r.clone())
		}
	}
}

// checkComplete sets the error of a recording that was read to its end but is incomplete, or has no
// such device.
func (p *parser) checkComplete() {
	s := &p.devices
	switch {
	case s.chosen == nil && len(s.devices) == 0 && p.err == nil && s.firstGap == nil:
		p.err = &Error{1, 1, ErrEmpty}
	case s.chosen == nil && len(s.devices) > 0:
		list := ""
		for _, d := range s.devices {
			list += fmt.Sprintf(", %s (%s)", d.Name, d.ids())
		}
		p.err = &Error{1, 1, fmt.Errorf("the recording has no device %s; use one of:%s", s.wanted,
			list[1:])}
	case p.err == nil && s.firstGap != nil:
		p.err = s.firstGap
	}
}
