package traces

import (
	"bytes"
	"strconv"
)

// fields splits a line at its blanks.
type fields struct{ rest []byte }

// nextField returns the next field, or an empty one at the end of the line.
func (f *fields) nextField() (field []byte) {
	field, f.rest, _ = bytes.Cut(bytes.TrimLeft(f.rest, " "), []byte(" "))
	return field
}

// hexDigits parses 1 to 16 hexadecimal digits.
func hexDigits(b []byte) (v uint64, ok bool) {
	v, err := strconv.ParseUint(string(b), 16, 64)
	return v, err == nil && len(b) <= 16
}

// hex parses 0x and 1 to 16 hexadecimal digits.
func hex(b []byte) (v uint64, ok bool) {
	digits, ok := bytes.CutPrefix(b, []byte("0x"))
	v, number := hexDigits(digits)
	return v, ok && number
}

// decimal parses 1 to 18 digits.
func decimal(b []byte) (v uint64, ok bool) {
	v, err := strconv.ParseUint(string(b), 10, 64)
	return v, err == nil && len(b) <= 18
}

// signed checks the form of a decimal number that may be negative. The returned number has no sign.
func signed(b []byte) (_ uint64, ok bool) { return decimal(bytes.TrimPrefix(b, []byte("-"))) }

// seconds parses SECONDS.FRACTION, with up to nine digits in FRACTION, and returns nanoseconds.
func seconds(b []byte) (ns uint64, ok bool) {
	front, back, ok := bytes.Cut(b, []byte("."))
	whole, ok1 := decimal(front)
	part, ok2 := decimal(back)
	if !ok || !ok1 || !ok2 || whole > 9e9 || len(back) > 9 {
		return 0, false
	}
	for range 9 - len(back) {
		part *= 10
	}
	return whole*1e9 + part, true
}

// opcodes checks the form of three bytes of an instruction, such as 0f,1f,44. The returned number
// is 0.
func opcodes(b []byte) (_ uint64, ok bool) {
	for part := range bytes.SplitSeq(b, []byte(",")) {
		if _, ok := hexDigits(part); !ok {
			return 0, false
		}
	}
	return 0, bytes.Count(b, []byte(",")) == 2
}

// column describes one field of a record. If result is nil, only the form of the field is checked.
type column struct {
	name   string
	parse  func(text []byte) (v uint64, ok bool)
	result *uint64
}

// parseColumns parses fields in order. It returns the index of the first field with a wrong form,
// and its text; without such a field, it returns len(list).
func (f *fields) parseColumns(list []column) (bad int, text []byte) {
	for i := range list {
		text := f.nextField()
		v, ok := list[i].parse(text)
		if !ok {
			return i, text
		}
		if list[i].result != nil {
			*list[i].result = v
		}
	}
	return len(list), nil
}
