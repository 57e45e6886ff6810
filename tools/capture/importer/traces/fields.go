package traces

import (
	"bytes"
	"strconv"
)

// fields takes a line apart at its blanks.
type fields struct{ rest []byte }

// next gives the next field, empty where there is none.
func (f *fields) next() (field []byte) {
	field, f.rest, _ = bytes.Cut(bytes.TrimLeft(f.rest, " "), []byte(" "))
	return field
}

// hexDigits parses 1 to 16 hexadecimal digits.
func hexDigits(b []byte) (v uint64, ok bool) {
	v, err := strconv.ParseUint(string(b), 16, 64)
	return v, err == nil && len(b) <= 16
}

// hex parses 0x and 1 to 16 digits.
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

// signed takes a decimal number, perhaps below zero, for what it is.
func signed(b []byte) (_ uint64, ok bool) { return decimal(bytes.TrimPrefix(b, []byte("-"))) }

// seconds parses SECONDS.FRACTION, with up to nine digits behind the point, to nanoseconds.
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

// opcodes takes the three bytes of an instruction, as in 0f,1f,44, for what they are.
func opcodes(b []byte) (_ uint64, ok bool) {
	for part := range bytes.SplitSeq(b, []byte(",")) {
		if _, ok := hexDigits(part); !ok {
			return 0, false
		}
	}
	return 0, bytes.Count(b, []byte(",")) == 2
}

// column is one field of a record, and where its value goes; nil: it is only held
// against its form.
type column struct {
	name  string
	parse func(text []byte) (v uint64, ok bool)
	to    *uint64
}

// parse reads fields one after the other, and gives the number of the first that
// is not of its form, and its text.
func (f *fields) parse(list []column) (bad int, text []byte) {
	for i := range list {
		text := f.next()
		v, ok := list[i].parse(text)
		if !ok {
			return i, text
		}
		if list[i].to != nil {
			*list[i].to = v
		}
	}
	return len(list), nil
}
