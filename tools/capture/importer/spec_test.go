package importer

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/image/lmb"
)

func TestTensorSpecIsParsed(t *testing.T) {
	for _, c := range []struct {
		spec  string
		want  TensorSpec
		bytes uint64
	}{
		{"a=1,1,0x20000,int32,256",
			TensorSpec{Name: "a", Place: Place{Tile: true, X: 1, Y: 1}, Address: 0x20000,
				DType: gen.DTypeInt32, Shape: []uint32{256}}, 1024},
		{"w.1=18,0x12,135168,bfloat16,32x64",
			TensorSpec{Name: "w.1", Place: Place{Tile: true, X: 18, Y: 18}, Address: 135168,
				DType: gen.DTypeBfloat16, Shape: []uint32{32, 64}}, 4096},
		{"block=0X40,uint8,1", TensorSpec{Name: "block", Address: 0x40, DType: gen.DTypeUint8,
			Shape: []uint32{1}}, 1},
		{"é=0,float64,2x2x2x2x2x2x2x2", TensorSpec{Name: "é", DType: gen.DTypeFloat64,
			Shape: []uint32{2, 2, 2, 2, 2, 2, 2, 2}}, 2048},
	} {
		got, err := ParseTensor(c.spec)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) || got.Size() != c.bytes {
			t.Errorf("%s: got %+v of %d bytes, error %v; want %+v of %d bytes", c.spec, got,
				got.Size(), err, c.want, c.bytes)
		}
	}
}

func TestEveryElementTypeHasItsLowerCaseName(t *testing.T) {
	const want = "int8, uint8, int16, uint16, int32, uint32, int64, uint64, float16, bfloat16, " +
		"float32, float64"
	if got := strings.Join(lmb.DTypes[1:], ", "); got != want {
		t.Errorf("element types %s, want %s", got, want)
	}
	for name := range strings.SplitSeq(want, ", ") {
		if s := mustTensor(t, "a=0,"+name+",1"); strings.ToLower(s.DType.String()) != name {
			t.Errorf("element type %s is parsed as %v", name, s.DType)
		}
	}
}

func TestTensorSpecErrorsNameFaultAndForm(t *testing.T) {
	for _, c := range []struct{ spec, want string }{
		{"a", "the = after the name is missing"},
		{"", "the = after the name is missing"},
		{"=1,1,0,int8,1", "the name is empty"},
		{strings.Repeat("a", 256) + "=0,int8,1", "the name is longer than 255 bytes"},
		{"a b=0,int8,1", "the name has blanks, commas, or invisible or control characters"},
		{"a\u115fb=0,int8,1", "the name has blanks, commas, or invisible or control characters"},
		{"\xff=0,int8,1", "the name has blanks, commas, or invisible or control characters"},
		{"a=1,1,0x20000,int32", "there are 4 parts after the =, but there must be 5 or 3"},
		{"a=", "there are 1 parts after the =, but there must be 5 or 3"},
		{"a=1,y,0x20000,int32,256", `tile "1","y" must be two numbers, each at most 255`},
		{"a=1,256,0x20000,int32,256", `tile "1","256" must be two numbers, each at most 255`},
		{"a=1,1,20k,int32,256", `address "20k" is not a number`},
		{"a=1,1,0x20@+4,int32,256",
			`@LINE must be a line number of at least 1, not "+4"`},
		{"a=1,1,0x20@4294967296,int32,256",
			`@LINE must be a line number of at least 1, not "4294967296"`},
		{"a=1,1,-1,int32,256", `address "-1" is not a number`},
		{"a=1,1,0x20000,int,256",
			`element type "int" is unknown; element types: int8, uint8, int16, uint16, int32, ` +
				`uint32, int64, uint64, float16, bfloat16, float32, float64`},
		{"a=1,1,0x20000,Int32,256", `element type "Int32" is unknown; element types: ` +
			strings.Join(lmb.DTypes[1:], ", ")},
		{"a=1,1,0x20000,invalid,256", `element type "invalid" is unknown; element types: ` +
			strings.Join(lmb.DTypes[1:], ", ")},
		{"a=1,1,0x20000,int32,0",
			`shape "0" must be numbers above 0 joined by x, such as 32x64`},
		{"a=1,1,0x20000,int32,", `shape "" must be numbers above 0 joined by x, such as 32x64`},
		{"a=1,1,0x20000,int32,16x",
			`shape "16x" must be numbers above 0 joined by x, such as 32x64`},
		{"a=1,1,0x20000,int32,1x1x1x1x1x1x1x1x1",
			`shape "1x1x1x1x1x1x1x1x1" has more than 8 dimensions`},
		{"a=0,int32,4294967295x4294967295x4294967295x4294967295", "the tensor has more than 4 GiB"},
		{"a=0xffffffffffffffff,int32,1",
			"4 bytes at 0xffffffffffffffff go beyond the last 64-bit address"},
	} {
		_, err := ParseTensor(c.spec)
		want := fmt.Sprintf("tensor %q: %s (the form is %s)", c.spec, c.want, tensorForm)
		if err == nil || err.Error() != want || hal.CodeOf(err) != hal.Usage {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestRangeSpecIsParsed(t *testing.T) {
	for spec, want := range map[string]Range{
		"1,2,0x10000-0x10003": {Place{Tile: true, X: 1, Y: 2}, 0x10000, 0x10003},
		"0x20":                {Place{}, 0x20, 0x20},
		"32-35":               {Place{}, 32, 35},
	} {
		if got, err := ParseRange(spec); err != nil || got != want {
			t.Errorf("%s: got %+v, error %v; want %+v", spec, got, err, want)
		}
	}
	for spec, want := range map[string]string{
		"": `range "" must have the form X,Y,FIRST-LAST, such as 1,1,0x10000-0x10003, or ` +
			`FIRST-LAST if the device has no tiles`,
		"1,2": `range "1,2" must have the form X,Y,FIRST-LAST, such as 1,1,0x10000-0x10003, or ` +
			`FIRST-LAST if the device has no tiles`,
		"x,2,0": `range "x,2,0": tile "x","2" must be two numbers, each at most 255`,
		"0x20-": `range "0x20-": the last address "" must be a number, and not less than ` +
			`the first address`,
		"0x20-0x1": `range "0x20-0x1": the last address "0x1" must be a number, and not less ` +
			`than the first address`,
	} {
		if _, err := ParseRange(spec); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// TestTileIsNamedInEitherSystemOfCoordinates: the program of the capture used translated
// coordinates; reports print NoC 0 coordinates.
func TestTileIsNamedInEitherSystemOfCoordinates(t *testing.T) {
	text := unzippedCapture(t, "wh.nocdram.record.gz")
	var first []byte
	for _, at := range []string{"18,18", "1,1"} {
		spec, err := ParseTensor("a=" + at + ",0x10010,uint32,4")
		if err != nil {
			t.Fatal(err)
		}
		image, _ := mustImport(t, text, Options{From: FromRecord, Inputs: []TensorSpec{spec}})
		data := image.Tensors[0].Data
		if first == nil {
			first = data
		}
		if len(data) != 16 || !bytes.Equal(data, first) {
			t.Errorf("input at %s has the data % x, want % x", at, data, first)
		}
	}
}
