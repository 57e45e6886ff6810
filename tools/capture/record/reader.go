// Package record reads what recorders write: all traffic between a host program
// and a device. FORMAT.md describes the text; shim/record.c records what a
// libttsim.so simulates, lm record the devices of a machine.
package record

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Capture is one recording, or what one of several devices has in it.
type Capture struct {
	Vendor, Device uint16 // PCI ids
	Name           string // of the device, where a recording may have several
	Bars           [6]Bar
	Records        []Record
}

// Bar is a base address register; size 0: the device does not have it.
type Bar struct {
	Base uint64 // physical address inside the simulator
	Size uint64 // bytes
}

// Record is one call of the host program, or one access of the device to host
// memory inside the call before it.
type Record struct {
	Line int // in the text
	Kind Kind
	Bar  uint8 // of BarWrite and BarRead
	// of BarWrite and BarRead: Data is that of accesses of so many bytes each, one after the other;
	// 0: of one
	Width uint8
	Bdf   uint32 // bus, device, function of ConfigWrite and ConfigRead
	// bytes into the BAR or configuration space; the address of HostWrite and HostRead
	Offset uint64
	Data   []byte // lowest address first; nil for Clock
	Clocks uint32 // of Clock
	Size   uint64 // of Memory
}

// clone copies a record and its data.
func (r *Record) clone() Record {
	c := *r
	c.Data = bytes.Clone(r.Data)
	return c
}

// Kind is what a record is about.
type Kind uint8

const (
	BarWrite    Kind = 1 + iota // the host wrote
	BarRead                     // the host read
	ConfigWrite                 // the host wrote PCI configuration space
	ConfigRead                  // the host read PCI configuration space
	HostWrite                   // the device wrote host memory
	HostRead                    // the device read host memory
	Clock                       // time passed in the device
	Mark                        // text that the program wrote into the recording, in Data
	Note                        // text of the recorder, in Data
	Gap                         // Data says what is missing
	Event                       // Data says what the program did that is no access
	// the device reaches Size bytes of host memory at Offset from here on
	Memory
)

var kinds = map[string]Kind{
	"W": BarWrite, "R": BarRead, "WS": BarWrite, "RS": BarRead,
	"CW": ConfigWrite, "CR": ConfigRead, "HW": HostWrite, "HR": HostRead,
	"CLK": Clock, "MARK": Mark, "NOTE": Note, "GAP": Gap, "EVENT": Event, "MEM": Memory,
}

// Error is a defect of a recording and where it lies, both counted from 1.
type Error struct {
	Line, Column int
	Err          error
}

func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %v", e.Line, e.Column, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Incomplete reports whether an error is ErrCut or ErrGap, or about what follows the END line:
// the recording is sound as far as it goes.
func Incomplete(err error) bool {
	return errors.Is(err, ErrCut) || errors.Is(err, ErrGap) || errors.Is(err, errTorn)
}

// Read reads a whole recording of one device. The error is that of ReadDevice.
func Read(r io.Reader) (*Capture, error) { return ReadDevice(r, "") }

// ReadDevice reads what a whole recording has of one device, named as for Each.
// The error is an *Error, or that of r. Where it is Incomplete the Capture holds
// every record that is there, and may be used; with every other error it is nil.
func ReadDevice(r io.Reader, device string) (*Capture, error) {
	capture := &Capture{}
	var records []Record
	err := Each(r, device, func(c *Capture) error {
		capture = c
		return nil
	}, func(r *Record) error {
		records = append(records, r.clone())
		return nil
	})
	if err != nil && !Incomplete(err) {
		return nil, err
	}
	capture.Records = records
	return capture, err
}

// Each returns the header of a recording, without records, and then every record
// of a device: VVVV:DDDD, or its name; empty: there is only one. Of version 2
// the header has the BARs when all is read. A record and its Data are valid until
// the function returns. The error is an *Error, that of r, or the first that a
// function returned, after which Each ends.
func Each(r io.Reader, device string, header func(*Capture) error,
	record func(*Record) error) error {
	p := parser{from: Plain(r), each: record, several: several{wanted: device, header: header}}
	p.header()
	if p.err == nil && p.version == 1 {
		p.err = header(&p.capture)
	}
	for p.err == nil && !p.ended {
		p.record()
	}
	if p.err == nil {
		p.nothingMore()
	}
	if p.version == 2 && (p.err == nil || Incomplete(p.err)) {
		p.whole()
	}
	return p.err
}

// parser keeps its first error; after it nothing else happens. Recordings have
// millions of lines: what it needs for one is kept for the next.
type parser struct {
	from    *bufio.Reader
	version uint64
	capture Capture
	several several // version 2
	each    func(*Record) error
	records uint64
	ended   bool
	err     error

	line  int
	text  []byte // of the line, without its end; where the line is long its first part
	start int    // in text: of the field that was taken last
	after int    // in text: of the field that comes next; beyond the end: there is none
	long  bool   // the line continues after the last field, which is cut

	current Record
	data    []byte // room for Data
}

// fail names the field that was taken last.
func (p *parser) fail(format string, values ...any) {
	const shownMax = 60 // of a field, which may be all of a file
	if p.err != nil {
		return
	}
	for i, v := range values {
		switch text := v.(type) {
		case string:
			values[i] = text[:min(len(text), shownMax)]
		case []byte:
			values[i] = string(text[:min(len(text), shownMax)])
		}
	}
	p.err = &Error{p.line, p.start + 1, fmt.Errorf(format, values...)}
}

// next goes to the next line. A line without a newline is cut, as is a file
// without a next line.
func (p *parser) next() {
	if p.err != nil {
		return
	}
	line, err := p.from.ReadSlice('\n')
	p.line++
	p.text, p.start, p.after = bytes.TrimRight(line, "\r\n"), 0, 0
	if p.long = err == bufio.ErrBufferFull; p.long {
		err = nil
	}
	if err != nil {
		p.start = bytes.LastIndexByte(p.text, ' ') + 1
		p.cutOr(err)
	}
}

// field takes the next field of the line: what lies before a blank, or the end. It is
// empty where there is none.
func (p *parser) field() []byte {
	p.start = p.after
	field, _, _ := bytes.Cut(p.text[min(p.start, len(p.text)):], []byte(" "))
	p.after = p.start + len(field) + 1
	return field
}

// remaining takes all fields that are left, with the blanks between them.
func (p *parser) remaining() []byte {
	text := p.text[min(p.after, len(p.text)):]
	p.after = len(p.text) + 1
	return text
}

// number takes the next field, an unsigned number of so many bits.
func (p *parser) number(what string, base, bits int) uint64 {
	f := p.field()
	n, err := strconv.ParseUint(string(f), base, bits)
	if err != nil {
		p.fail("%s %q is not a number in base %d of at most %d bits", what, f, base, bits)
	}
	return n
}

// word takes the next field, which must be w.
func (p *parser) word(w string) {
	if f := p.field(); string(f) != w {
		p.fail("found %q, expected %q", f, w)
	}
}

// end fails where the line goes on.
func (p *parser) end() {
	if p.after <= len(p.text) {
		p.fail("%q after the last field of the line", p.field())
	}
}

func (p *parser) header() {
	p.next()
	p.word("LMRECORD")
	if p.version = p.number("version", 10, 8); p.version != 1 && p.version != 2 {
		p.fail("version %d is not 1 or 2", p.version)
	}
	p.end()
	if p.version == 2 {
		return // devices come as they are met
	}
	p.next()
	p.word("DEVICE")
	p.capture.Vendor = uint16(p.number("vendor", 16, 16))
	p.capture.Device = uint16(p.number("device", 16, 16))
	p.end()
	for bar := 0; bar < len(p.capture.Bars); bar += 2 {
		p.next()
		p.word("BAR")
		p.word(strconv.Itoa(bar))
		p.capture.Bars[bar] = Bar{p.number("base", 16, 64), p.number("size", 16, 64)}
		p.end()
	}
	if errors.Is(p.err, ErrCut) {
		p.err = &Error{p.line, 1, errors.New("the recording ends in its header: nothing of it " +
			"can be imported")}
	}
}

// record takes one record, or the END line.
func (p *parser) record() {
	p.next()
	if p.err != nil {
		return
	}
	name := p.field()
	if string(name) == "END" {
		p.count()
		return
	}
	p.records++
	if p.version == 2 && (string(name) == "DEVICE" || string(name) == "BAR") {
		p.met(string(name))
		return
	}
	r := &p.current
	*r = Record{Line: p.line, Kind: kinds[string(name)]}
	several := string(name) == "WS" || string(name) == "RS"
	if p.version == 1 && (r.Kind >= Note || several) {
		r.Kind = 0
	}
	p.several.other = false
	switch r.Kind {
	case BarWrite, BarRead:
		p.barAccess(r, several)
	case ConfigWrite, ConfigRead:
		p.configAccess(r)
	case HostWrite, HostRead:
		p.access(r)
	case Memory:
		r.Offset, r.Size = p.number("address", 16, 64), p.number("size", 16, 64)
		if r.Size == 0 || r.Offset+r.Size-1 < r.Offset {
			p.fail("the size of host memory is wrong: %d bytes at %#x", r.Size, r.Offset)
		}
	case Mark, Note, Gap, Event:
		r.Data = p.remaining()
	case Clock:
		r.Clocks = uint32(p.number("count", 10, 32))
	default:
		p.fail("unknown kind of line %q", name)
	}
	p.end()
	p.noteGap(r)
	if p.err == nil && !p.several.other {
		p.err = p.each(r)
	}
}

// barAccess takes an access to a BAR of the device, which version 2 knows by a
// number of its own, or several accesses of one width.
func (p *parser) barAccess(r *Record, several bool) {
	device, number := &p.capture, p.number("BAR", 10, 16)
	if bars := p.several.bars; p.version == 1 {
		r.Bar = uint8(min(number, uint64(len(device.Bars))))
	} else if number < uint64(len(bars)) {
		device, r.Bar = bars[number].device, bars[number].index
		p.several.other = device != p.several.chosen
	} else {
		p.fail("no BAR has number %d", number)
		return
	}
	if int(r.Bar) == len(device.Bars) || device.Bars[r.Bar].Size == 0 {
		p.fail("the device has no BAR %d", number)
		return
	}
	if several {
		p.width(r)
	}
	p.access(r)
	if r.Width != 0 && len(r.Data)%int(r.Width) != 0 {
		p.fail("%d bytes are not a multiple of the width %d", len(r.Data), r.Width)
	}
	if size := device.Bars[r.Bar].Size; r.Offset > size || uint64(len(r.Data)) > size-r.Offset {
		p.fail("%d bytes at %#x are outside BAR %d, which has %#x bytes", len(r.Data), r.Offset,
			r.Bar, size)
	}
}

// width takes the width of each of several accesses.
func (p *parser) width(r *Record) {
	r.Width = uint8(p.number("width", 10, 8))
	if w := r.Width; w != 1 && w != 2 && w != 4 && w != 8 {
		p.fail("width %d is not 1, 2, 4 or 8", w)
		r.Width = 0
	}
}

// configAccess takes an access to configuration space: of a device that is
// known by its bus address, or in version 2 by its number.
func (p *parser) configAccess(r *Record) {
	r.Bdf = uint32(p.number("device", 16, 32))
	if s := &p.several; p.version == 2 {
		if uint64(r.Bdf) >= uint64(len(s.devices)) {
			p.fail("device %d is used before a line declares it", r.Bdf)
			return
		}
		s.other = s.devices[r.Bdf] != s.chosen
	}
	p.access(r)
	const most = 4096
	if n := len(r.Data); n != 4 && (p.version == 1 || n > most) {
		p.fail("a configuration access has %d bytes, but must have 4, or in a recording made by "+
			"lm record at most 4096", len(r.Data))
	}
}

// access takes offset, size and data.
func (p *parser) access(r *Record) {
	r.Offset = p.number("offset", 16, 64)
	size := p.number("size", 10, 32)
	data, err := hex.AppendDecode(p.data[:0], p.field())
	if p.long && errors.Is(err, hex.ErrLength) {
		err = nil // of the digits that are here
	}
	if p.long && err == nil {
		data, err = p.rest(data, size)
	}
	if err != nil || uint64(len(data)) != size || size == 0 {
		p.fail("the data must be %d bytes in hexadecimal digits", size)
	}
	r.Data, p.data = data, data
}

// rest takes the data of a line that is longer than what is read at once. Room
// is made as data comes: the size is not to be trusted.
func (p *parser) rest(data []byte, size uint64) ([]byte, error) {
	digits := p.text[p.start:]
	odd := string(digits[len(digits)&^1:]) // half a byte
	for p.long && uint64(len(data)) <= size {
		text, err := p.from.ReadSlice('\n')
		if p.long = err == bufio.ErrBufferFull; !p.long && err != nil {
			p.cutOr(err)
			return data, nil
		}
		text = bytes.TrimRight(text, "\r\n")
		if len(odd) > 0 && len(text) > 0 {
			text, odd = append([]byte(odd), text...), ""
		}
		if len(text)%2 != 0 && p.long {
			odd, text = string(text[len(text)-1:]), text[:len(text)-1]
		}
		var failed error
		if data, failed = hex.AppendDecode(data, text); failed != nil {
			return data, failed
		}
	}
	if len(odd) > 0 {
		return data, hex.ErrLength
	}
	return data, nil
}

// cutOr keeps the error of a line that ends without a newline.
func (p *parser) cutOr(err error) {
	switch {
	case errors.Is(err, errTorn):
		p.start = 0
		p.fail("%w: %w", ErrCut, errTorn)
	// the latter where it is compressed
	case (err == io.EOF || err == io.ErrUnexpectedEOF) && p.version == 2:
		p.fail("%w: the recorder was killed, or the machine stopped", ErrCut)
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		p.fail("%w: the program ended, or the simulator stopped it, at the last access", ErrCut)
	case p.err == nil:
		p.err = err
	}
}

// count takes the END line.
func (p *parser) count() {
	p.ended = true
	if n := p.number("count", 10, 64); n != p.records {
		p.fail("the END line has %d as the number of lines, but there are %d", n, p.records)
	}
	p.end()
}

// nothingMore fails where something follows the END line.
func (p *parser) nothingMore() {
	p.line, p.start = p.line+1, 0
	_, err := p.from.ReadByte()
	switch {
	case errors.Is(err, errTorn), err == io.ErrUnexpectedEOF:
		p.fail("after the END line: %w", errTorn)
	case err != io.EOF:
		p.fail("text after the END line")
	}
}
