package traces

import "bytes"

// fields takes a line apart at its blanks.
type fields struct{ rest []byte }

// next gives the next field, empty where there is none.
func (f *fields) next() []byte {
	i := 0
	for i < len(f.rest) && f.rest[i] == ' ' {
		i++
	}
	start := i
	for i < len(f.rest) && f.rest[i] != ' ' {
		i++
	}
	field := f.rest[start:i]
	f.rest = f.rest[i:]
	return field
}

// hexDigits parses 1 to 16 hexadecimal digits.
func hexDigits(b []byte) (v uint64, ok bool) {
	if len(b) == 0 || len(b) > 16 {
		return 0, false
	}
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		v = v<<4 | uint64(c)
	}
	return v, true
}

// hex parses 0x and 1 to 16 digits.
func hex(b []byte) (v uint64, ok bool) {
	if len(b) < 3 || b[0] != '0' || b[1] != 'x' {
		return 0, false
	}
	return hexDigits(b[2:])
}

// decimal parses 1 to 18 digits.
func decimal(b []byte) (v uint64, ok bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = 10*v + uint64(c-'0')
	}
	return v, true
}

// signed tells whether b is a decimal number, perhaps below zero.
func signed(b []byte) bool {
	if len(b) > 0 && b[0] == '-' {
		b = b[1:]
	}
	_, ok := decimal(b)
	return ok
}

// seconds parses SECONDS.FRACTION, with up to nine digits behind the point, to
// nanoseconds.
func seconds(b []byte) (ns int64, ok bool) {
	dot := 0
	for dot < len(b) && b[dot] != '.' {
		dot++
	}
	if dot > 10 || len(b)-dot < 2 || len(b)-dot > 10 {
		return 0, false
	}
	whole, ok1 := decimal(b[:dot])
	part, ok2 := decimal(b[dot+1:])
	if !ok1 || !ok2 || whole > 9e9 {
		return 0, false
	}
	for i := len(b) - dot - 1; i < 9; i++ {
		part *= 10
	}
	return int64(whole*1e9 + part), true
}

// form is how a field is written.
type form uint8

const (
	formDecimal form = iota
	formSigned
	formHex    // 0x...
	formDigits // hexadecimal without 0x
	formSeconds
	formOpcodes // 0f,1f,44
)

func (f form) parse(b []byte) (v uint64, ok bool) {
	switch f {
	case formDecimal:
		return decimal(b)
	case formSigned:
		return 0, signed(b)
	case formHex:
		return hex(b)
	case formDigits:
		return hexDigits(b)
	case formSeconds:
		ns, ok := seconds(b)
		return uint64(ns), ok
	}
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
	name string
	form form
	to   *uint64
}

// parse reads fields one after the other, and gives the number of the first that
// is not of its form, and its text.
func (f *fields) parse(list []column) (bad int, text []byte) {
	for i := range list {
		text := f.next()
		v, ok := list[i].form.parse(text)
		if !ok {
			return i, text
		}
		if list[i].to != nil {
			*list[i].to = v
		}
	}
	return len(list), nil
}
