package npy

import (
	"bytes"
	"strings"
	"testing"
)

// numpyFile is the file that numpy.save of NumPy 1.24 writes for numpy.array([[1, 2, 3]],
// dtype="<i2").
var numpyFile = "\x93NUMPY\x01\x00\x76\x00" +
	"{'descr': '<i2', 'fortran_order': False, 'shape': (1, 3), }" +
	strings.Repeat(" ", 58) + "\n\x01\x00\x02\x00\x03\x00"

func TestFileThatNumPyWroteIsReadAndWrittenBack(t *testing.T) {
	a, err := Parse([]byte(numpyFile))
	if err != nil {
		t.Fatal(err)
	}
	if a.Type != "<i2" || len(a.Shape) != 2 || a.Shape[0] != 1 || a.Shape[1] != 3 ||
		string(a.Data) != "\x01\x00\x02\x00\x03\x00" {
		t.Errorf("Parse returns %+v, want int16[1x3] with 1, 2, 3", a)
	}
	if again := Format(a); len(again)%64 != 6 {
		t.Errorf("the data are not aligned to 64 bytes: the file has %d bytes", len(again))
	} else if b, err := Parse(again); err != nil || !bytes.Equal(b.Data, a.Data) ||
		b.Type != a.Type {
		t.Errorf("after Format and Parse: %+v, %v; want %+v", b, err, a)
	}
}

func TestInvalidFilesAreRejectedWithAReason(t *testing.T) {
	for _, test := range []struct{ file, want string }{
		{"", "so the file is not a .npy file"},
		{"\x93NUMPY\x01\x00", "file ends in the header"},
		{strings.Replace(numpyFile, "\x01\x00\x76", "\x09\x00\x76", 1), "version 9"},
		{strings.Replace(numpyFile, "\x76\x00{", "\xff\xff{", 1), "header of 65535 bytes"},
		{strings.Replace(numpyFile, "False", "True ", 1), "Fortran order"},
		{strings.Replace(numpyFile, "<i2", ">i2", 1), "must be a little-endian number type"},
		{strings.Replace(numpyFile, "(1, 3)", "(1, 4)", 1),
			"6 bytes of data, but shape [1 4] of type <i2 needs 8 bytes"},
		{strings.Replace(numpyFile, "(1, 3)", "(1, -)", 1), "the header must have the form"},
		{strings.Replace(numpyFile, "'shape'", "'shapf'", 1), "the header must have the form"},
		{numpyFile[:len(numpyFile)-1], "5 bytes of data"},
		{numpyFile + "x", "7 bytes of data"},
	} {
		if _, err := Parse([]byte(test.file)); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error %v, want %q", test.file, err, test.want)
		}
	}
}

// FuzzParse checks that Parse does not panic, and that Format and Parse keep the data of each file
// that Parse accepts.
func FuzzParse(f *testing.F) {
	f.Add([]byte(numpyFile))
	f.Fuzz(func(t *testing.T, file []byte) {
		a, err := Parse(file)
		if err != nil {
			return
		}
		if b, err := Parse(Format(a)); err != nil || !bytes.Equal(a.Data, b.Data) {
			t.Errorf("%q: the data have changed after Format and Parse (%v)", file, err)
		}
	})
}

// TestByteOrderMarks checks the marks of NumPy's array protocol (numpy.org, The array interface
// protocol): <, > and = if the type has a byte order, | if it has none.
func TestByteOrderMarks(t *testing.T) {
	for descr, right := range map[string]bool{"<i4": true, "=i4": true, ">i4": false, "|i4": false,
		"i4": false, "!i4": false, "<f8": true, ">f8": false, "=f8": true, "|f8": false,
		"|u1": true, "<u1": true, "=i1": true, "|b1": true, "<i": false, "<i0": false} {
		size := 8
		if len(descr) == 3 {
			size = int(descr[2] - '0')
		}
		file := Format(&Array{Type: descr, Shape: []uint32{1}, Data: make([]byte, size)})
		if array, err := Parse(file); (err == nil) != right || right && array.Type != descr {
			t.Errorf("type %s: accepted %v, want %v: %+v, %v", descr, err == nil, right, array, err)
		}
	}
	for _, test := range []struct {
		a, b string
		same bool
	}{{"<i4", "=i4", true}, {"|u1", "<u1", true}, {"<i4", "<u4", false}, {"<i4", "<i8", false},
		{"<f4", "<i4", false}, {"<u2", "<u2", true}} {
		if Same(test.a, test.b) != test.same {
			t.Errorf("Same(%s, %s) is %v, want %v", test.a, test.b, !test.same, test.same)
		}
	}
}
