package record

import (
	"errors"
	"fmt"
)

// ErrCut is in the error of a recording without an end: the recorder was killed, the program
// crashed, or the simulator rejected the access that the last line announces.
var ErrCut = errors.New("the recording has no END line")

// ErrGap is in the error of a recording in which something is missing.
var ErrGap = errors.New("the recording is incomplete")

// several has the devices and BARs of version 2, each numbered from 0 in
// the order they are met.
type several struct {
	wanted  string // device, empty: the only one
	header  func(*Capture) error
	devices []*Capture // without records
	chosen  *Capture   // nil: not met yet
	bars    []numbered
	other   bool     // the record that is being read is of another device
	early   []Record // of the machine's memory, from before the device was met
	gap     *Error   // the first one
}

type numbered struct {
	device *Capture
	index  uint8
}

// met takes a DEVICE or a BAR line.
func (p *parser) met(name string) {
	s := &p.several
	count := len(s.devices)
	if name == "BAR" {
		count = len(s.bars)
	}
	if n := p.number("number", 10, 16); n != uint64(count) {
		p.fail("found %s %d, expected %d", name, n, count)
	}
	if name == "BAR" {
		p.metBar()
		p.end()
		return
	}
	d := &Capture{Vendor: uint16(p.number("vendor", 16, 16)),
		Device: uint16(p.number("device", 16, 16)), Name: string(p.field())}
	p.end()
	s.devices = append(s.devices, d)
	p.choose(d)
}

// ids are VVVV:DDDD.
func (c *Capture) ids() string { return fmt.Sprintf("%04x:%04x", c.Vendor, c.Device) }

// choose looks whether a device is the one that is wanted.
func (p *parser) choose(d *Capture) {
	s := &p.several
	if s.wanted != "" && s.wanted != d.Name && s.wanted != d.ids() {
		return
	}
	if s.chosen != nil {
		p.fail("the recording has several such devices, %s (%s) and %s (%s) among them: "+
			"choose one with --device",
			s.chosen.Name, s.chosen.ids(), d.Name, d.ids())
	}
	if p.err == nil {
		s.chosen = d
		p.err = s.header(d)
	}
	for i := 0; p.err == nil && s.chosen == d && i < len(s.early); i++ {
		p.err = p.each(&s.early[i])
	}
}

func (p *parser) metBar() {
	s := &p.several
	device, index := p.number("device", 10, 16), p.number("BAR", 10, 8)
	bar := Bar{p.number("base", 16, 64), p.number("size", 16, 64)}
	if device >= uint64(len(s.devices)) || index > 5 || s.devices[device].Bars[index].Size != 0 ||
		bar.Size == 0 {
		p.fail("BAR %d of device %d must be 0 to 5, not declared before, and not of size 0", index,
			device)
		return
	}
	s.devices[device].Bars[index] = bar
	s.bars = append(s.bars, numbered{s.devices[device], uint8(index)})
}

// noteGap keeps the first. What comes before the device is met is nobody's, but
// for memory that all devices of a program may reach, and what it did.
func (p *parser) noteGap(r *Record) {
	if r.Kind == Gap && p.several.gap == nil {
		p.several.gap = &Error{p.line, 1, fmt.Errorf("%w: %s", ErrGap, r.Data)}
	}
	if p.version == 2 && p.several.chosen == nil {
		p.several.other = true
		if r.Kind == Memory || r.Kind == HostRead || r.Kind == HostWrite || r.Kind == Event {
			p.several.early = append(p.several.early, r.clone())
		}
	}
}

// whole looks, when all is read, whether it was.
func (p *parser) whole() {
	s := &p.several
	switch {
	case s.chosen == nil && len(s.devices) == 0 && p.err == nil && s.gap == nil:
		p.err = &Error{1, 1,
			errors.New("the recording is empty: the program mapped no BAR of a device, or of a " +
				"device that --device names; `lm record --help` lists the mappings that it sees")}
	case s.chosen == nil && len(s.devices) > 0:
		list := ""
		for _, d := range s.devices {
			list += fmt.Sprintf(", %s (%s)", d.Name, d.ids())
		}
		p.err = &Error{1, 1, fmt.Errorf("the recording has no device %s; it has%s", s.wanted,
			list[1:])}
	case p.err == nil && s.gap != nil:
		p.err = s.gap
	}
}
