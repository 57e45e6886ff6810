// Package npy reads and writes NumPy's .npy files, format 1.0 to 3.0, as raw little-endian bytes
// with a type and a shape.
//
// Source: NumPy, doc/neps/nep-0001-npy-format.rst. The available Go libraries panic on invalid
// headers or lack 16-bit floats, and tensor files are untrusted input.
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
	Type  string // NumPy's name of the type: "<i4", "|u1"
	Shape []uint32
	Data  []byte
}

const magic = "\x93NUMPY"

// headerPattern matches a header with its three keys in any order.
var headerPattern = regexp.MustCompile(`^\{(?:\s*'(?:descr'\s*:\s*'([^']*)'|` +
	`fortran_order'\s*:\s*(True|False)|` +
	`shape'\s*:\s*\(([0-9, ]*)\))\s*,?){3}\s*\}\s*$`)

// Parse parses a complete file. The data must be little endian and in C order.
func Parse(file []byte) (*Array, error) {
	if !bytes.HasPrefix(file, []byte(magic)) {
		return nil, fmt.Errorf("byte 0: the file does not begin with %q, so the file is not a "+
			".npy file",
			magic)
	}
	header, data, err := splitHeader(file)
	if err != nil {
		return nil, err
	}
	keys := headerPattern.FindSubmatch(header)
	if keys == nil {
		return nil,
			fmt.Errorf("byte 10: the header must have the form {'descr': " +
				"..., 'fortran_order': ..., 'shape': (...)}")
	}
	a := &Array{Type: string(keys[1]), Data: data}
	if string(keys[2]) != "False" {
		return nil, fmt.Errorf("byte 10: the data are in Fortran order; save " +
			"numpy.ascontiguousarray(x) instead")
	}
	if a.Shape, err = parseShape(string(keys[3])); err != nil {
		return nil, err
	}
	return a, a.checkSize()
}

// splitHeader returns the text of the header and the data after it.
func splitHeader(file []byte) (header, data []byte, err error) {
	if len(file) < 12 {
		return nil, nil, fmt.Errorf("byte %d: the file ends in the header", len(file))
	}
	start, size := uint64(10), uint64(binary.LittleEndian.Uint16(file[8:]))
	switch file[6] {
	case 1:
	case 2, 3:
		start, size = 12, uint64(binary.LittleEndian.Uint32(file[8:]))
	default:
		return nil, nil, fmt.Errorf("byte 6: version %d is unknown; the version must be 1 to 3",
			file[6])
	}
	if size > uint64(len(file))-start {
		return nil, nil, fmt.Errorf("byte 8: the header of %d bytes is longer than the file, "+
			"which has %d bytes", size, len(file))
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
			return nil, fmt.Errorf("byte 10: shape (%s): dimension %q must be a decimal number "+
				"below 2^32", text, part)
		}
		shape = append(shape, uint32(n))
	}
	if len(shape) > fbs.DimsMax {
		return nil, fmt.Errorf("byte 10: the shape has %d dimensions, but at most %d are possible",
			len(shape),
			fbs.DimsMax)
	}
	return shape, nil
}

func (a *Array) checkSize() error {
	// The first character is the byte order: | for types of one byte, = for the machine's order.
	if len(a.Type) < 3 || !strings.ContainsRune("<|=", rune(a.Type[0])) ||
		a.Type[0] == '|' && a.Type[2:] != "1" {
		return fmt.Errorf("byte 10: type %q must be a little-endian number type such as <f4",
			a.Type)
	}
	size, err := strconv.ParseUint(a.Type[2:], 10, 8)
	if err != nil || size == 0 {
		return fmt.Errorf("byte 10: type %q must end with its size in bytes", a.Type)
	}
	for _, n := range a.Shape {
		if n != 0 && size > fbs.DataSizeMax/uint64(n) {
			return fmt.Errorf("byte 10: the data of shape %v are larger than 64 TiB", a.Shape)
		}
		size *= uint64(n)
	}
	if uint64(len(a.Data)) != size {
		return fmt.Errorf("the file has %d bytes of data, but shape %v of type %s needs %d bytes",
			len(a.Data), a.Shape,
			a.Type, size)
	}
	return nil
}

// Format returns the file of an array, in format 1.0.
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

// typeNames maps element types to NumPy's names. NumPy has no bfloat16; its bits are stored as u2.
var typeNames = map[gen.DType]string{
	gen.DTypeInt8: "|i1", gen.DTypeUint8: "|u1", gen.DTypeInt16: "<i2", gen.DTypeUint16: "<u2",
	gen.DTypeInt32: "<i4", gen.DTypeUint32: "<u4", gen.DTypeInt64: "<i8", gen.DTypeUint64: "<u8",
	gen.DTypeFloat16: "<f2", gen.DTypeBfloat16: "<u2", gen.DTypeFloat32: "<f4",
	gen.DTypeFloat64: "<f8",
}

// TypeOf returns NumPy's name of an element type, or "".
func TypeOf(dtype gen.DType) string { return typeNames[dtype] }

// Same reports whether two of NumPy's type names describe the same bytes. The byte order does not
// matter: Parse rejects big-endian types.
func Same(a, b string) bool { return a[1:] == b[1:] }
