// Package npy reads and writes NumPy's .npy files, format 1.0 to 3.0, as raw
// little-endian bytes with a type and a shape.
//
// Source: NumPy, doc/neps/nep-0001-npy-format.rst. The Go libraries at hand
// panic on bad headers or have no 16-bit floats, and tensor files are
// untrusted input.
package npy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// Array is the content of a file. Data is in C order, little endian.
type Array struct {
	Type  string // NumPy's: "<i4", "|u1"
	Shape []uint32
	Data  []byte
}

const magic = "\x93NUMPY"

// headerPattern has its three keys in any order.
var headerPattern = regexp.MustCompile(`^\{(?:\s*'(?:descr'\s*:\s*'([^']*)'|` +
	`fortran_order'\s*:\s*(True|False)|` +
	`shape'\s*:\s*\(([0-9, ]*)\))\s*,?){3}\s*\}\s*$`)

// Parse reads a whole file.
func Parse(file []byte) (*Array, error) {
	if !bytes.HasPrefix(file, []byte(magic)) {
		return nil, fmt.Errorf("byte 0: not a .npy file (no %q)", magic)
	}
	header, data, err := split(file)
	if err != nil {
		return nil, err
	}
	keys := headerPattern.FindSubmatch(header)
	if keys == nil {
		return nil,
			fmt.Errorf("byte 10: header is not {'descr': ..., 'fortran_order': ..., 'shape': " +
				"(...)}")
	}
	a := &Array{Type: string(keys[1]), Data: data}
	if string(keys[2]) != "False" {
		return nil, fmt.Errorf("byte 10: data in Fortran order; save numpy.ascontiguousarray(x)")
	}
	if a.Shape, err = parseShape(string(keys[3])); err != nil {
		return nil, err
	}
	return a, a.checkSize()
}

// split gives the header's text and the data behind it.
func split(file []byte) (header, data []byte, err error) {
	if len(file) < 12 {
		return nil, nil, fmt.Errorf("byte %d: file ends in the header", len(file))
	}
	start, size := uint64(10), uint64(binary.LittleEndian.Uint16(file[8:]))
	switch file[6] {
	case 1:
	case 2, 3:
		start, size = 12, uint64(binary.LittleEndian.Uint32(file[8:]))
	default:
		return nil, nil, fmt.Errorf("byte 6: version %d, known are 1 to 3", file[6])
	}
	if size > uint64(len(file))-start {
		return nil, nil, fmt.Errorf("byte 8: the header of %d bytes is longer than the file, "+
			"which has %d", size, len(file))
	}
	return file[start : start+size], file[start+size:], nil
}

func parseShape(text string) ([]uint32, error) {
	shape := []uint32{}
	text = strings.TrimSuffix(strings.TrimSpace(text), ",")
	if text == "" {
		return shape, nil
	}
	for _, part := range strings.Split(text, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(part), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("byte 10: shape (%s): %q is not a dimension", text, part)
		}
		shape = append(shape, uint32(n))
	}
	if len(shape) > fbs.DimsMax {
		return nil, fmt.Errorf("byte 10: %d dimensions, at most %d", len(shape), fbs.DimsMax)
	}
	return shape, nil
}

func (a *Array) checkSize() error {
	// | is for types of one byte, which have no order; = is the machine's.
	if len(a.Type) < 3 || !strings.ContainsRune("<|=", rune(a.Type[0])) ||
		a.Type[0] == '|' && a.Type[2:] != "1" {
		return fmt.Errorf("byte 10: type %q is not a little-endian number type", a.Type)
	}
	size, err := strconv.ParseUint(a.Type[2:], 10, 8)
	if err != nil || size == 0 {
		return fmt.Errorf("byte 10: type %q must end with its size in bytes", a.Type)
	}
	for _, n := range a.Shape {
		if n != 0 && size > fbs.DataSizeMax/uint64(n) {
			return fmt.Errorf("byte 10: shape %v is larger than 64 TiB", a.Shape)
		}
		size *= uint64(n)
	}
	if uint64(len(a.Data)) != size {
		return fmt.Errorf("%d bytes of data, shape %v of %s needs %d", len(a.Data), a.Shape, a.Type,
			size)
	}
	return nil
}

// Format gives the file of an array.
func Format(a *Array) []byte {
	shape := ""
	for _, n := range a.Shape {
		shape += fmt.Sprintf("%d, ", n)
	}
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", a.Type,
		strings.TrimSuffix(shape, " "))
	// NumPy aligns the data to 64 bytes and ends the header with a newline.
	header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n"
	file := binary.LittleEndian.AppendUint16([]byte(magic+"\x01\x00"), uint16(len(header)))
	return append(append(file, header...), a.Data...)
}

// types gives NumPy's name of each element type. NumPy has no bfloat16; its
// bits travel as u2.
var types = map[gen.DType]string{
	gen.DTypeInt8: "|i1", gen.DTypeUint8: "|u1", gen.DTypeInt16: "<i2", gen.DTypeUint16: "<u2",
	gen.DTypeInt32: "<i4", gen.DTypeUint32: "<u4", gen.DTypeInt64: "<i8", gen.DTypeUint64: "<u8",
	gen.DTypeFloat16: "<f2", gen.DTypeBfloat16: "<u2", gen.DTypeFloat32: "<f4",
	gen.DTypeFloat64: "<f8",
}

// TypeOf is NumPy's name of an element type, "" for none.
func TypeOf(dtype gen.DType) string { return types[dtype] }

// Same tells whether two of NumPy's type names mean the same bytes: the byte
// order of one byte does not matter, and = is the order of the machine.
func Same(a, b string) bool { return a[1:] == b[1:] }
