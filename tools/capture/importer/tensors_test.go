package importer

import (
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

func TestShardedTensorsOnOverlappingCoresAreRejected(t *testing.T) {
	const across, down = "sharded:1,1,2,1,0x100,int32,2", "sharded:1,1,1,2,0x100,int32,2"
	for _, c := range []struct{ op, side, kind string }{
		{"W", "in", "input"}, {"R", "out", "output"},
	} {
		wantError(t, l1Trace(access(c.op, 4, wh166+0x100, 1)),
			tensorOptions(t, c.side+" a="+across, c.side+" b="+down),
			"line 4: this access is of both "+c.kind+" a and "+c.kind+" b, whose cores overlap; "+
				"name only one of them")
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
			"output d: no byte at (1,1) 0x100..0x103 is read in this trace; near it, " +
				"the trace loads from 0x200..0x203; lm import --summary lists all"},
		{"impossible tile", half, []string{"in a=99,99,0x100,int32,1"},
			"input a has tile (99,99), which is impossible: board wormhole has no such tile"},
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
