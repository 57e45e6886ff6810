package importer

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
)

// tensorOptions returns options with the inputs and outputs of specs: "in a=..." or "out d=...".
func tensorOptions(t *testing.T, specs ...string) (o Options) {
	t.Helper()
	for _, s := range specs {
		side, spec, _ := strings.Cut(s, " ")
		if side == "in" {
			o.Inputs = append(o.Inputs, mustTensor(t, spec))
		} else {
			o.Outputs = append(o.Outputs, mustTensor(t, spec))
		}
	}
	return o
}

func TestStoresToAnInputAndLoadsFromAnOutputBecomeCopies(t *testing.T) {
	text := l1Trace(
		access("W", 8, wh166+0x100, 0x0807060504030201), access("W", 4, wh166+0x108, 0x0c0b0a09),
		access("W", 4, wh166+0x10c, 0x55), // after the input
		access("R", 4, wh166+0x200, 0x11), access("R", 4, wh166+0x204, 0x22),
		access("R", 4, wh166+0x208, 0x33), // after the output
	)
	image, report := mustImport(t, text, tensorOptions(t, "in a=1,1,0x100,int32,3",
		"out d=1,1,0x200,int16,2x2"))
	checkCommands(t, image, `
point tlb0 (1,1) 0x0
copyin bulk tlb0+0x100 w8 a[0:12]
fence
write tlb0+0x10c w4 0x55
copyout bulk tlb0+0x200 w4 d[0:8]
expect tlb0+0x208 w4 0x33 mask 0xffffffff
`)
	a, d := image.Tensors[0], image.Tensors[1]
	if a.Name != "a" || a.Role != gen.RoleInput || a.DType != gen.DTypeInt32 ||
		fmt.Sprint(a.Shape) != "[3]" ||
		!bytes.Equal(a.Data, []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}) {
		t.Errorf("tensor %+v, want input a, int32[3], with the bytes 1 to 12", a)
	}
	if d.Name != "d" || d.Role != gen.RoleOutput || fmt.Sprint(d.Shape) != "[2 2]" ||
		!bytes.Equal(d.Data, []byte{0x11, 0, 0, 0, 0x22, 0, 0, 0}) {
		t.Errorf("tensor %+v, want output d, int16[2,2], with the loaded bytes", d)
	}
	const want = "input a of 12 bytes from 2 stores; output d of 8 bytes from 2 loads"
	wantSummary(t, report, "tensors", want)
}

func TestTensorMayBeStoredInPartsAndInAnyOrder(t *testing.T) {
	text := l1Trace(
		access("W", 4, wh166+0x104, 2), access("W", 4, wh166+0x100, 1),
		access("W", 2, wh166+0x108, 3), "MARK 1.5 x", access("W", 2, wh166+0x10a, 4))
	image, _ := mustImport(t, text, tensorOptions(t, "in a=1,1,0x100,uint8,12"))
	checkCommands(t, image, `
point tlb0 (1,1) 0x0
copyin exact tlb0+0x104 w4 a[4:8]
copyin exact tlb0+0x100 w4 a[0:4]
copyin exact tlb0+0x108 w2 a[8:10]
mark x
copyin exact tlb0+0x10a w2 a[10:12]
`)
}

// TestInputMayBeStoredAgainWithTheSameData: a workload that runs twice stores its input twice. The
// replay writes its input both times.
func TestInputMayBeStoredAgainWithTheSameData(t *testing.T) {
	pass := []string{access("W", 4, wh166+0x100, 1), access("W", 4, wh166+0x104, 2),
		access("W", 4, wh166+0x300, 9), access("R", 4, wh166+0x200, 3)}
	image, _ := mustImport(t, l1Trace(append(pass, pass...)...),
		tensorOptions(t, "in a=1,1,0x100,int32,2", "out d=1,1,0x200,int32,1"))
	one := `copyin bulk tlb0+0x100 w4 a[0:8]
fence
write tlb0+0x300 w4 0x9
copyout exact tlb0+0x200 w4 d[0:4]
`
	checkCommands(t, image, "point tlb0 (1,1) 0x0\n"+one+one)
}

func TestLastLoadOfAnOutputIsItsGoldenData(t *testing.T) {
	text := l1Trace(access("R", 4, wh166+0x200, 0), access("W", 4, wh166+0x100, 1),
		access("R", 4, wh166+0x200, 7))
	image, report := mustImport(t, text, tensorOptions(t, "out d=1,1,0x200,int32,1"))
	if !bytes.Equal(image.Tensors[0].Data, []byte{7, 0, 0, 0}) {
		t.Errorf("golden data %v, want 7", image.Tensors[0].Data)
	}
	if len(report.Warnings) != 1 ||
		report.Warnings[0].String() != "line 6: output d is loaded again with other data than "+
			"in line 4; "+
			"the last data are used" {
		t.Errorf("warnings %v, want one about line 6", report.Warnings)
	}
}

func TestLoadsFromAnInputIgnoreTheirValue(t *testing.T) {
	text := l1Trace(access("W", 4, wh166+0x100, 1), access("R", 4, wh166+0x100, 1))
	image, _ := mustImport(t, text, tensorOptions(t, "in a=1,1,0x100,int32,1"))
	checkCommands(t, image, `
point tlb0 (1,1) 0x0
copyin exact tlb0+0x100 w4 a[0:4]
expect tlb0+0x100 w4 0x0 mask 0x0
`)
}

// TestLoadsOfOtherStoresKeepTheirValue imports three stores to one address, each followed by a
// load. The input is the second store, which its line number selects. The load of the input accepts
// any value. The loads of the first and the third store require the recorded values.
func TestLoadsOfOtherStoresKeepTheirValue(t *testing.T) {
	at := func(op string, v uint64) string { return access(op, 4, wh166+0x100, v) }
	text := l1Trace(at("W", 9), at("R", 9), at("W", 7), at("R", 7), at("W", 8), at("R", 8))
	image, _ := mustImport(t, text, tensorOptions(t, "in a=1,1,0x100@6,int32,1"))
	checkCommands(t, image, `
point tlb0 (1,1) 0x0
write tlb0+0x100 w4 0x9
expect tlb0+0x100 w4 0x9 mask 0xffffffff
copyin exact tlb0+0x100 w4 a[0:4]
expect tlb0+0x100 w4 0x0 mask 0x0
write tlb0+0x100 w4 0x8
expect tlb0+0x100 w4 0x8 mask 0xffffffff
`)
}

// TestStorePartlyInAnInputIsSplit: the first store provides the first half of the input. The second
// store is split, because only its second half belongs to the input.
func TestStorePartlyInAnInputIsSplit(t *testing.T) {
	text := l1Trace(access("W", 4, wh166+0x100, 1), access("W", 8, wh166+0x100, 0x300000002))
	image, _ := mustImport(t, text, tensorOptions(t, "in a=1,1,0x100@4,int32,2"))
	if data := image.Tensors[0].Data; !bytes.Equal(data, []byte{1, 0, 0, 0, 3, 0, 0, 0}) {
		t.Errorf("input data %v, want 1 0 0 0 3 0 0 0", data)
	}
}

// TestInputAndOutputMayShareAnAddress: a program that computes y = alpha x + y reads its result
// from the address to which it stored y.
func TestInputAndOutputMayShareAnAddress(t *testing.T) {
	text := l1Trace(access("W", 4, wh166+0x100, 1), access("W", 4, wh166+0x104, 2),
		access("W", 4, wh166+0x300, 9),
		access("R", 4, wh166+0x100, 3), access("R", 4, wh166+0x104, 4))
	image, _ := mustImport(t, text, tensorOptions(t, "in y=1,1,0x100,int32,2",
		"out result=1,1,0x104,int32,1"))
	checkCommands(t, image, `
point tlb0 (1,1) 0x0
copyin bulk tlb0+0x100 w4 y[0:8]
fence
write tlb0+0x300 w4 0x9
expect tlb0+0x100 w4 0x0 mask 0x0
copyout exact tlb0+0x104 w4 result[0:4]
`)
}

func TestAccessAcrossTwoTensorsIsSplit(t *testing.T) {
	text := l1Trace(access("W", 8, wh166+0x100, 0x0807060504030201))
	image, _ := mustImport(t, text,
		tensorOptions(t, "in a=1,1,0x100,int32,1", "in b=1,1,0x104,int32,1"))
	checkCommands(t, image, "\npoint tlb0 (1,1) 0x0\ncopyin exact tlb0+0x100 w4 a[0:4]\n"+
		"copyin exact tlb0+0x104 w4 b[0:4]\n")
}

func TestStoresToAnOutputStayAsTheyAre(t *testing.T) {
	text := l1Trace(access("W", 4, wh166+0x200, 0xdeadbeef), access("R", 4, wh166+0x200, 1))
	image, _ := mustImport(t, text, tensorOptions(t, "out d=1,1,0x200,int32,1"))
	checkCommands(t, image, `
point tlb0 (1,1) 0x0
write tlb0+0x200 w4 0xdeadbeef
copyout exact tlb0+0x200 w4 d[0:4]
`)
}

func TestTensorCoversOnlyItsTile(t *testing.T) {
	text := l1Trace(access("W", 4, wh166+0x100, 1), whPoint(wh166Config, 2, 1, 0),
		access("W", 4, wh166+0x100, 2))
	image, _ := mustImport(t, text, tensorOptions(t, "in a=2,1,0x100,int32,1"))
	checkCommands(t, image, `
point tlb0 (1,1) 0x0
write tlb0+0x100 w4 0x1
point tlb0 (2,1) 0x0
copyin exact tlb0+0x100 w4 a[0:4]
`)
}

func TestMulticastInputIsNamedByAnyTileOfTheRectangle(t *testing.T) {
	text := mmiotrace(whDevice, whMulticast(wh166Config, 1, 1, 4, 2, 0),
		access("W", 4, wh166+0x100, 5))
	for _, tile := range []string{"1,1", "4,2", "3,1"} {
		image, _ := mustImport(t, text, tensorOptions(t, "in a="+tile+",0x100,int32,1"))
		checkCommands(t, image, "\npoint tlb0 (4,2) 0x0 from (1,1)\n"+
			"copyin exact tlb0+0x100 w4 a[0:4]\n")
	}
	wantError(t, text, tensorOptions(t, "in a=5,1,0x100,int32,1"),
		"input a: no byte at (5,1) 0x100..0x103 is stored in this trace; the trace "+
			"stores to tiles (1,1)-(4,2)")
	wantError(t, text, tensorOptions(t, "in a=1,1,0x100,int32,1", "in b=2,2,0x100,int32,1"),
		"line 4: this store to several tiles writes both input a and input b; name only one "+
			"of these inputs")
}

// TestTensorIsFoundThroughTheOtherNoC stores through NoC 1, which counts tiles from the opposite
// corner.
func TestTensorIsFoundThroughTheOtherNoC(t *testing.T) {
	text := mmiotrace(whDevice, access("W", 8, wh166Config, 8<<12|10<<18|1<<36),
		access("W", 4, wh166+0x100, 5))
	image, _ := mustImport(t, text, tensorOptions(t, "in a=1,1,0x100,int32,1"))
	if !strings.Contains(imageText(image), "a[0:4]") {
		t.Errorf("the image lacks a command that copies a[0:4]; commands:\n%s", imageText(image))
	}
}

func TestTensorMayBeInABar(t *testing.T) {
	text := mmiotrace(shmDevice, "W 8 2:0x100 0x1", "W 8 2:0x108 0x2", "W 4 0x8 0x100",
		"R 8 2:0x200 0x3")
	o := tensorOptions(t, "in a=0x100,int64,2", "out d=0x200,int64,1")
	o.Bar = 2
	image, _ := mustImport(t, text, o)
	checkCommands(t, image, `
copyin bulk bar2+0x100 w8 a[0:16]
fence
write bar0+0x8 w4 0x100
copyout exact bar2+0x200 w8 d[0:8]
`)
}

func TestAccessAcrossTheEdgeOfATensorIsSplitInMemory(t *testing.T) {
	text := l1Trace(access("W", 8, wh166+0x100, 0x0807060504030201),
		access("W", 8, wh166+0x108, 0x100f0e0d0c0b0a09),
		access("R", 8, wh166+0x200, 0x1122334455667788))
	image, report := mustImport(t, text, tensorOptions(t, "in a=1,1,0x102,uint8,9",
		"out d=1,1,0x204,uint8,4"))
	checkCommands(t, image, `
point tlb0 (1,1) 0x0
write tlb0+0x100 w2 0x201
copyin bulk tlb0+0x102 w4 a[0:9]
copyin bulk tlb0+0x10b w4 0c0d0e0f10
fence
expect tlb0+0x200 w4 0x55667788 mask 0xffffffff
copyout exact tlb0+0x204 w4 d[0:4]
`)
	if !bytes.Equal(image.Tensors[0].Data, []byte{3, 4, 5, 6, 7, 8, 9, 10, 11}) ||
		!bytes.Equal(image.Tensors[1].Data, []byte{0x44, 0x33, 0x22, 0x11}) {
		t.Errorf("tensors %v, want data 3 to 11 and 0x44 0x33 0x22 0x11", image.Tensors)
	}
	if got := passSummary(report, "tensors"); !strings.HasSuffix(got, "; 3 accesses split at the "+
		"edge of a tensor") {
		t.Errorf("summary of tensors: %s; want 3 accesses split", got)
	}
}

func TestInvalidTensorsAreRejected(t *testing.T) {
	half := l1Trace(access("W", 8, wh166+0x100, 1), access("W", 8, wh166+0x118, 2),
		access("R", 4, wh166+0x200, 3))
	for _, c := range []struct {
		name, text string
		specs      []string
		want       string
	}{
		{"bytes never stored", half, []string{"in a=1,1,0x100,int32,9"},
			"input a: bytes 8..23, 32..35 are never stored in this trace"},
		{"bytes never read", half, []string{"out d=1,1,0x200,int32,256"},
			"output d: bytes 4..1023 are never read in this trace"},
		{"bytes never read, here and there", l1Trace(access("R", 1, wh166+0x201, 0),
			access("R", 1, wh166+0x203, 0), access("R", 1, wh166+0x205, 0),
			access("R", 1, wh166+0x207, 0), access("R", 1, wh166+0x209, 0)),
			[]string{"out d=1,1,0x200,int8,16"},
			"output d: bytes 0..0, 2..2, 4..4, 6..6 and more are never read in this trace"},
		{"nothing stored", half, []string{"in a=2,1,0x100,int32,1"},
			"input a: no byte at (2,1) 0x100..0x103 is stored in this trace; the trace " +
				"stores to tiles (1,1)"},
		{"nothing read", half, []string{"out d=1,1,0x100,int32,1"},
			"output d: no byte at (1,1) 0x100..0x103 is read in this trace; the trace " +
				"loads from tiles (1,1)"},
		{"other data", l1Trace(access("W", 4, wh166+0x100, 1), access("W", 4, wh166+0x104, 2),
			access("W", 4, wh166+0x100, 1), access("W", 4, wh166+0x104, 3)),
			[]string{"in w=1,1,0x100,int32,2"},
			"line 7: this line and line 5 store different values to byte 4 of input w, but an " +
				"input has only one value in each run; choose one of the stores with " +
				"--input w=ADDRESS@LINE"},
		{"an output with a line", half, []string{"out d=1,1,0x200@4,int32,1"},
			"output d always has the data of the last load; remove @4"},
		{"larger than the trace", half, []string{"in a=1,1,0x100,int8,1073741824"},
			"input a has 1073741824 bytes, more than all accesses of the trace transfer"},
		{"overlap", half, []string{"in a=1,1,0x100,int32,2", "in b=1,1,0x104,int32,1"},
			"input a at (1,1) 0x100..0x107 and input b at (1,1) 0x104..0x107 overlap"},
		{"overlap of outputs", half, []string{"out a=1,1,0x100,int32,2", "out b=1,1,0x107,int32,1"},
			"output a at (1,1) 0x100..0x107 and output b at (1,1) 0x107..0x10a overlap"},
		{"one name", half, []string{"in a=1,1,0x100,int32,1", "out a=1,1,0x200,int32,1"},
			"two tensors have the name a"},
		{"tile on a board without", mmiotrace(eduDevice, "W 4 0x4 0x1"),
			[]string{"in a=1,1,0x4,int32,1"},
			"input a has tile (1,1), but board edu has no tiles; leave X,Y out"},
		{"edge in a register", mmiotrace(eduDevice, "W 8 0xa0 0x1"), []string{"in a=0xa4,int32,1"},
			"line 3: an access of 8 bytes is only partly in input a (0xa4..0xa7), and the " +
				"device accepts no narrower access there"},
		{"edge in a register of a tile", mmiotrace(whDevice, whPoint(wh166Config, 1, 1, 0xff000000),
			access("R", 4, wh166+0xb121b0, 1)),
			[]string{"out d=1,1,0xffb121b2,int16,1"},
			"line 4: an access of 4 bytes is only partly in output d ((1,1) " +
				"0xffb121b2..0xffb121b3), and the device accepts no narrower access there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantError(t, c.text, tensorOptions(t, c.specs...), c.want)
		})
	}
	o := tensorOptions(t, "in a=1,1,0x100,int32,1")
	o.Without = []string{"lift"}
	loads := mmiotrace(whDevice, access("R", 4, wh166, 1))
	wantError(t, loads, o,
		"input a has tile (1,1), which needs the pass lift; remove --without lift")
	wantError(t, loads, Options{Without: []string{"lift"}, Poll: []Range{mustRange(t, "1,1,0x40")}},
		"range 0x40-0x40 has tile (1,1), which needs the pass lift; remove --without lift")
	wantError(t, mmiotrace(eduDevice, "W 4 0x4 0x1"),
		Options{Ignore: []Range{mustRange(t, "1,1,0x40-0x43")}},
		"range 0x40-0x43 has tile (1,1), but board edu has no tiles; leave X,Y out")
}

func TestComparedResultAfterAnInputCausesAWarning(t *testing.T) {
	text := l1Trace(access("W", 4, wh166+0x100, 1), access("R", 4, wh166+0x200, 3),
		access("R", 4, wh166+0x204, 3))
	_, report := mustImport(t, text, tensorOptions(t, "in a=1,1,0x100,int32,1"))
	want := "line 5: 1 compare command expects recorded data, and will fail " +
		"if an input changes the results of the device; declare these results with --output"
	if len(report.Warnings) != 1 || report.Warnings[0].String() != want {
		t.Errorf("warnings %v, want %s", report.Warnings, want)
	}
	_, report = mustImport(t, text,
		tensorOptions(t, "in a=1,1,0x100,int32,1", "out d=1,1,0x200,int32,2"))
	if len(report.Warnings) != 0 {
		t.Errorf("with the result as an output: warnings %v, want none", report.Warnings)
	}
}

func TestMoreTensorsThanAnImageMayHaveAreRejected(t *testing.T) {
	spec := TensorSpec{Name: "a", Place: Place{Tile: true, X: 1, Y: 1}, Address: 0x100,
		DType: gen.DTypeInt8, Shape: []uint32{4}}
	wantError(t, l1Trace(access("W", 4, wh166+0x100, 1)),
		Options{From: FromMmiotrace, Board: &boards.Wormhole,
			Inputs: slices.Repeat([]TensorSpec{spec}, fbs.TensorsMax+1)},
		"4097 tensors are named, but an image may have at most 4096")
}

func TestTensorSpecBuiltInCodeIsChecked(t *testing.T) {
	good := TensorSpec{Name: "a", Place: Place{Tile: true, X: 1, Y: 1}, Address: 0x100,
		DType: gen.DTypeInt8, Shape: []uint32{4}}
	for name, corrupt := range map[string]func(*TensorSpec){
		"no name":    func(s *TensorSpec) { s.Name = "" },
		"no type":    func(s *TensorSpec) { s.DType = 0 },
		"no shape":   func(s *TensorSpec) { s.Shape = nil },
		"empty":      func(s *TensorSpec) { s.Shape = []uint32{0} },
		"too large":  func(s *TensorSpec) { s.Shape = []uint32{1 << 31, 1 << 31} },
		"overflow":   func(s *TensorSpec) { s.Shape = []uint32{1 << 31, 1 << 31, 1 << 31} },
		"beyond all": func(s *TensorSpec) { s.Address = ^uint64(0) },
	} {
		spec := good
		corrupt(&spec)
		_, _, err := Import(strings.NewReader(l1Trace(access("W", 4, wh166+0x100, 1))),
			Options{From: FromMmiotrace, Board: &boards.Wormhole, Inputs: []TensorSpec{spec}})
		if err == nil {
			t.Errorf("%s: the import accepts the invalid tensor, want an error", name)
		}
	}
}
