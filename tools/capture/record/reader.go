// Package record reads and writes recordings of all traffic between a host program and a device,
// and has the known contents of host memory in a recording (Pages). FORMAT.md describes the text.
// shim/record.c records a device that a libttsim.so simulates, in version 1. lm record and lm serve
// write version 2 with a Writer.
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

// ServedDevice is the name of the device in a recording of lm serve
// (tools/devices/vfiouser/trace.go).
const ServedDevice = "served"

// Capture is a recording of one device. If a recording has several devices, it is the part of one
// of them.
type Capture struct {
	Vendor, Device uint16 // PCI ids
	Name           string // name of the device, in version 2
	Bars           [6]Bar
	Records        []Record
}

// Bar is a base address register. If Size is 0, the device does not have it.
type Bar struct {
	Base uint64 // physical address, in version 1 inside the simulator; 0 for a file
	Size uint64 // bytes
}

// Record is an access of the host program to a device, an access of a device to host memory, or
// another line of a recording. FORMAT.md says when accesses to host memory happened.
type Record struct {
	Line int // number of the line in the text, from 1
	Kind Kind
	Bar  uint8 // number of the BAR, for BarWrite and BarRead
	// For BarWrite and BarRead: Data has several accesses of Width bytes each, to consecutive
	// addresses. 0: Data has one access.
	Width uint8
	// Of ConfigWrite and ConfigRead: bus, device and function; in version 2 number of the device
	Bdf uint32
	// offset in the BAR or in configuration space; bus address of HostWrite, HostRead, HostBoth
	// and Memory
	Offset uint64
	Data   []byte // lowest address first; nil for Clock, Memory and Interrupt
	Clocks uint32 // for Clock: steps of the simulator's clock; in version 2 nanoseconds
	Size   uint64 // size in bytes, for Memory
}

func (r *Record) clone() Record {
	c := *r
	c.Data = bytes.Clone(r.Data)
	return c
}

// Kind is the kind of a record.
type Kind uint8

const (
	BarWrite    Kind = 1 + iota // the host wrote
	BarRead                     // the host read
	ConfigWrite                 // the host wrote PCI configuration space
	ConfigRead                  // the host read PCI configuration space
	HostWrite                   // the device wrote host memory
	HostRead                    // the device read host memory; after Memory: the program stored it
	Clock                       // time passed
	Mark                        // Data is a text that the program wrote to the recording
	Note                        // Data is a text of the recorder
	Gap                         // Data says what is missing
	Event                       // Data says what the program did that is not an access
	// the device reaches Size bytes of host memory at Offset from now on
	Memory
	Interrupt // the device raised an interrupt; Offset is its number
	// program and device wrote a page of host memory; who wrote Data is not known
	HostBoth
)

var kinds = map[string]Kind{
	"W": BarWrite, "R": BarRead, "WS": BarWrite, "RS": BarRead,
	"CW": ConfigWrite, "CR": ConfigRead, "HW": HostWrite, "HR": HostRead,
	"CLK": Clock, "MARK": Mark, "NOTE": Note, "GAP": Gap, "EVENT": Event, "MEM": Memory,
	"IRQ": Interrupt, "HB": HostBoth,
}

// Error is a defect of a recording, with its line and column, both from 1.
type Error struct {
	Line, Column int
	Err          error
}

func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %v", e.Line, e.Column, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Incomplete reports whether a recording with this error is valid as far as it goes: it has no END
// line, it has a gap, or compressed text is damaged after its first member.
func Incomplete(err error) bool {
	return errors.Is(err, ErrCut) || errors.Is(err, ErrGap) || errors.Is(err, errTorn)
}

// Read is ReadDevice for a recording that has only one device.
func Read(r io.Reader) (*Capture, error) { return ReadDevice(r, "") }

// ReadDevice reads the records of one device of a recording, named as for EachRecord. The error is
// an *Error, or the error of r. If Incomplete reports true for the error, the Capture has all
// records that were read, and may be used. With other errors it is nil.
func ReadDevice(r io.Reader, device string) (*Capture, error) {
	capture := &Capture{}
	var records []Record
	err := EachRecord(r, device, func(c *Capture) error {
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

// EachRecord passes the header of a recording, without records, to the function header, and then
// every record of a device to the function record. device is VVVV:DDDD or the name of the device;
// if it is "", the recording must have only one device. In version 2 the BARs are complete in the
// header only after EachRecord has returned. A record and its Data are valid until the function
// returns. The error is an *Error, the error of r, or the first error of a function, after which
// EachRecord returns.
func EachRecord(r io.Reader, device string, header func(*Capture) error,
	record func(*Record) error) error {
	p := parser{from: NewTextReader(r), onRecord: record,
		devices: deviceTable{wanted: device, header: header}}
	p.readHeader()
	if p.err == nil && p.version == 1 {
		p.err = header(&p.capture)
	}
	for p.err == nil && !p.hasEnd {
		p.readRecord()
	}
	if p.err == nil {
		p.expectEOF()
	}
	if p.version == 2 && (p.err == nil || Incomplete(p.err)) {
		p.checkComplete()
	}
	return p.err
}

// parser reads a recording. It keeps its first error, after which it reads nothing more. Recordings
// have millions of lines; therefore the parser reuses its buffers for each line.
type parser struct {
	from     *bufio.Reader
	version  uint64
	capture  Capture
	devices  deviceTable // devices of version 2
	onRecord func(*Record) error
	records  uint64
	hasEnd   bool
	err      error

	line       int
	text       []byte // text of the line without its end; if the line is long, the first part
	fieldStart int    // offset in text of the current field
	// offset in text of the next field; beyond the end of text: there is no next field
	nextField int
	isLong    bool // the line continues after text, whose last field is cut

	current Record
	data    []byte // buffer for Data
}

// fail sets the error, at the position of the current field.
func (p *parser) fail(format string, values ...any) {
	const shownMax = 60 // characters of a field, which may be as long as the file
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
	p.err = &Error{p.line, p.fieldStart + 1, fmt.Errorf(format, values...)}
}

// readLine reads the next line. A recording is cut if there is no next line, or if the line does
// not end with a newline.
func (p *parser) readLine() {
	if p.err != nil {
		return
	}
	line, err := p.from.ReadSlice('\n')
	p.line++
	p.text, p.fieldStart, p.nextField = bytes.TrimRight(line, "\r\n"), 0, 0
	if p.isLong = err == bufio.ErrBufferFull; p.isLong {
		err = nil
	}
	if err != nil {
		p.fieldStart = bytes.LastIndexByte(p.text, ' ') + 1
		p.setCutError(err)
	}
}

// readField reads the next field of the line, up to a blank or the end of the line. It returns an
// empty field if there is no other.
func (p *parser) readField() []byte {
	p.fieldStart = p.nextField
	field, _, _ := bytes.Cut(p.text[min(p.fieldStart, len(p.text)):], []byte(" "))
	p.nextField = p.fieldStart + len(field) + 1
	return field
}

// readRemaining reads all remaining fields, including the blanks between them.
func (p *parser) readRemaining() []byte {
	text := p.text[min(p.nextField, len(p.text)):]
	p.nextField = len(p.text) + 1
	return text
}

// readNumber reads the next field, which must be an unsigned number of at most `bits` bits. `what`
// names the field in errors.
func (p *parser) readNumber(what string, base, bits int) uint64 {
	f := p.readField()
	n, err := strconv.ParseUint(string(f), base, bits)
	if err != nil {
		p.fail("%s %q is not a number in base %d of at most %d bits", what, f, base, bits)
	}
	return n
}

// expectWord reads the next field, which must be w.
func (p *parser) expectWord(w string) {
	if f := p.readField(); string(f) != w {
		p.fail("found %q, expected %q", f, w)
	}
}

// expectLineEnd fails if the line has another field.
func (p *parser) expectLineEnd() {
	if p.nextField <= len(p.text) {
		p.fail("unexpected %q after the last field of the line", p.readField())
	}
}

func (p *parser) readHeader() {
	p.readLine()
	p.expectWord("LMRECORD")
	if p.version = p.readNumber("version", 10, 8); p.version != 1 && p.version != 2 {
		p.fail("the version of the recording must be 1 or 2, not %d", p.version)
	}
	p.expectLineEnd()
	if p.version == 2 {
		return // devices are declared by later lines
	}
	p.readLine()
	p.expectWord("DEVICE")
	p.capture.Vendor = uint16(p.readNumber("vendor", 16, 16))
	p.capture.Device = uint16(p.readNumber("device", 16, 16))
	p.expectLineEnd()
	for bar := 0; bar < len(p.capture.Bars); bar += 2 {
		p.readLine()
		p.expectWord("BAR")
		p.expectWord(strconv.Itoa(bar))
		p.capture.Bars[bar] = Bar{p.readNumber("base", 16, 64), p.readNumber("size", 16, 64)}
		p.expectLineEnd()
	}
	if errors.Is(p.err, ErrCut) {
		p.err = &Error{p.line, 1, errors.New("the recording ends in its header, " +
			"so there is nothing to import; record again")}
	}
}

// readRecord reads a line after the header: a record, a declaration, or the END line.
func (p *parser) readRecord() {
	p.readLine()
	if p.err != nil {
		return
	}
	name := p.readField()
	if string(name) == "END" {
		p.readEnd()
		return
	}
	p.records++
	if p.version == 2 && (string(name) == "DEVICE" || string(name) == "BAR") {
		p.readDeclaration(string(name))
		return
	}
	r := &p.current
	*r = Record{Line: p.line, Kind: kinds[string(name)]}
	several := string(name) == "WS" || string(name) == "RS"
	if p.version == 1 && (r.Kind >= Note || several) {
		r.Kind = 0
	}
	p.devices.isOther = false
	switch r.Kind {
	case BarWrite, BarRead:
		p.readBARAccess(r, several)
	case ConfigWrite, ConfigRead:
		p.readConfigAccess(r)
	case HostWrite, HostRead, HostBoth:
		p.readAccess(r)
	case Memory:
		r.Offset, r.Size = p.readNumber("address", 16, 64), p.readNumber("size", 16, 64)
		if r.Size == 0 || r.Offset+r.Size-1 < r.Offset {
			p.fail("host memory of %d bytes at %#x must not be empty and must end below 2^64",
				r.Size, r.Offset)
		}
	case Interrupt:
		p.readInterrupt(r)
	case Mark, Note, Gap, Event:
		r.Data = p.readRemaining()
	case Clock:
		r.Clocks = uint32(p.readNumber("count", 10, 32))
	default:
		p.fail("unknown kind of line %q", name)
	}
	p.expectLineEnd()
	p.noteGap(r)
	if p.err == nil && !p.devices.isOther {
		p.err = p.onRecord(r)
	}
}

// readBARAccess reads an access to a BAR, or several accesses of one width. In version 2 a BAR has
// a number that is unique in the recording.
func (p *parser) readBARAccess(r *Record, several bool) {
	device, number := &p.capture, p.readNumber("BAR", 10, 16)
	if bars := p.devices.bars; p.version == 1 {
		r.Bar = uint8(min(number, uint64(len(device.Bars))))
	} else if number < uint64(len(bars)) {
		device, r.Bar = bars[number].device, bars[number].index
		p.devices.isOther = device != p.devices.chosen
	} else {
		p.fail("BAR number %d is used before a line declares it", number)
		return
	}
	if int(r.Bar) == len(device.Bars) || device.Bars[r.Bar].Size == 0 {
		p.fail("the device has no BAR %d", number)
		return
	}
	if several {
		p.readWidth(r)
	}
	p.readAccess(r)
	if r.Width != 0 && len(r.Data)%int(r.Width) != 0 {
		p.fail("%d bytes of data must be a multiple of the width of %d bytes", len(r.Data), r.Width)
	}
	if size := device.Bars[r.Bar].Size; r.Offset > size || uint64(len(r.Data)) > size-r.Offset {
		p.fail("%d bytes at %#x are outside BAR %d, which has %#x bytes", len(r.Data), r.Offset,
			r.Bar, size)
	}
}

// readWidth reads the width of each of several accesses.
func (p *parser) readWidth(r *Record) {
	r.Width = uint8(p.readNumber("width", 10, 8))
	if w := r.Width; w != 1 && w != 2 && w != 4 && w != 8 {
		p.fail("the width must be 1, 2, 4 or 8 bytes, not %d", w)
		r.Width = 0
	}
}

// readConfigAccess reads an access to configuration space. It names the device by its bus, device
// and function, or in version 2 by its number.
func (p *parser) readConfigAccess(r *Record) {
	r.Bdf = uint32(p.readNumber("device", 16, 32))
	if s := &p.devices; p.version == 2 {
		if uint64(r.Bdf) >= uint64(len(s.devices)) {
			p.fail("device %d is used before a line declares it", r.Bdf)
			return
		}
		s.isOther = s.devices[r.Bdf] != s.chosen
	}
	p.readAccess(r)
	const most = 4096
	if n := len(r.Data); n != 4 && (p.version == 1 || n > most) {
		p.fail("a configuration access has %d bytes, but must have 4 (LMRECORD 1), "+
			"or at most %d (LMRECORD 2)", len(r.Data), most)
	}
}

// readInterrupt reads the number of a device, and that of its interrupt.
func (p *parser) readInterrupt(r *Record) {
	device := p.readNumber("device", 10, 16)
	if s := &p.devices; device >= uint64(len(s.devices)) {
		p.fail("device %d is used before a line declares it", device)
	} else {
		s.isOther = s.devices[device] != s.chosen
	}
	r.Offset = p.readNumber("interrupt", 10, 16)
}

func (p *parser) readAccess(r *Record) {
	r.Offset = p.readNumber("offset", 16, 64)
	size := p.readNumber("size", 10, 32)
	data, err := hex.AppendDecode(p.data[:0], p.readField())
	if p.isLong && errors.Is(err, hex.ErrLength) {
		err = nil // the rest of the line may have the missing digit
	}
	if p.isLong && err == nil {
		data, err = p.readRestOfData(data, size)
	}
	switch {
	case size == 0:
		p.fail("the size is 0, but a line must have at least 1 byte of data")
	case err != nil || uint64(len(data)) != size:
		p.fail("the data must be %d bytes in hexadecimal digits", size)
	}
	r.Data, p.data = data, data
}

// readRestOfData reads the rest of the data of a long line. It allocates memory only as data is
// read, because the size may be wrong.
func (p *parser) readRestOfData(data []byte, size uint64) ([]byte, error) {
	digits := p.text[p.fieldStart:]
	odd := string(digits[len(digits)&^1:]) // digit without its second half of a byte
	for p.isLong && uint64(len(data)) <= size {
		text, err := p.from.ReadSlice('\n')
		if p.isLong = err == bufio.ErrBufferFull; !p.isLong && err != nil {
			p.setCutError(err)
			return data, nil
		}
		text = bytes.TrimRight(text, "\r\n")
		if len(odd) > 0 && len(text) > 0 {
			text, odd = append([]byte(odd), text...), ""
		}
		if len(text)%2 != 0 && p.isLong {
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

// setCutError sets the error of a line that ends without a newline.
func (p *parser) setCutError(err error) {
	switch {
	case errors.Is(err, errTorn):
		p.fieldStart = 0
		p.fail("%w: %w", ErrCut, errTorn)
	// compressed text ends with ErrUnexpectedEOF
	case (err == io.EOF || err == io.ErrUnexpectedEOF) && p.version == 2:
		p.fail("%w: the recorder was killed, or the machine stopped", ErrCut)
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		p.fail("%w: the program ended, or the simulator stopped it, "+
			"during or after the last access", ErrCut)
	case p.err == nil:
		p.err = err
	}
}

func (p *parser) readEnd() {
	p.hasEnd = true
	if n := p.readNumber("count", 10, 64); n != p.records {
		p.fail("the END line announces %d lines, but the recording has %d", n, p.records)
	}
	p.expectLineEnd()
}

// expectEOF fails if text follows the END line.
func (p *parser) expectEOF() {
	p.line, p.fieldStart = p.line+1, 0
	_, err := p.from.ReadByte()
	switch {
	case errors.Is(err, errTorn), err == io.ErrUnexpectedEOF:
		p.fail("after the END line: %w", errTorn)
	case err != io.EOF:
		p.fail("text follows the END line, which must be the last line")
	}
}
