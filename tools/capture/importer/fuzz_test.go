package importer

import (
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/image/lmb"
)

// FuzzImport imports any bytes: the result is a valid image, or an error with a code of a bad file
// or of wrong options.
func FuzzImport(f *testing.F) {
	for _, c := range captures {
		text := captureText(f, c.name)
		f.Add(text[:strings.LastIndex(text[:min(len(text), 6000)], "\n")+1],
			c.options.From == FromQemu, uint8(0))
	}
	f.Add(l1Trace(access("W", 4, wh166, 1), access("R", 4, wh166, 2), access("R", 4, wh166, 3)),
		false, uint8(1))
	f.Add(mmiotrace(whDevice, whMulticast(wh166Config, 1, 1, 4, 2, 0),
		access("W", 8, wh166+0x100, 5)), false, uint8(2))
	f.Add(mmiotrace(bhDevice, "W 4 0x1fc00984 0x0", "W 4 0x1fc00988 0x89", "W 4 0x1fc0098c 0x0",
		"W 4 4:0x180000040 0x5"), false, uint8(3))
	f.Add(twoDevices+"UNKNOWN 1.0 1 0x1 0f,1f,44 0x0 0\nMARK 0.000000 Lost 3 events.\n", false,
		uint8(4))
	f.Add("7@1.5:vfio_region_read  (0000:01:00.0:region0+0x4, 4) = 0x1\n"+
		"vfio_region_write  (0000:01:00.0:region0+0x4, 0x1, 4)\n", true, uint8(5))
	f.Add(eduTrace("w 08 4 0x5", "r 20 4 0x1", "r 20 4 0x0"), true, uint8(6))
	f.Fuzz(func(t *testing.T, text string, qemu bool, choice uint8) {
		o := Options{From: FromMmiotrace, Poll: []Range{{First: 0x20, Last: 0x23}}}
		if qemu {
			o.From, o.Board = FromQemu, boards.All[int(choice)%len(boards.All)]
			o.Regions = []traces.Region{{Name: "edu-mmio", Base: eduBase}, {Name: "0000:01:00.0"}}
		} else if choice%2 == 1 {
			o.Inputs = []TensorSpec{mustTensor(t, "a=1,1,0x102,int8,3")}
		}
		if int(choice) < len(Passes) {
			o.Without = Passes[choice : choice+1]
		}
		image, _, err := Import(strings.NewReader(text), o)
		if err != nil {
			if c := hal.CodeOf(err); image != nil || c != hal.BadImage && c != hal.Usage {
				t.Errorf("code %v, want BadImage or Usage; image %v, want nil; error %v", c, image,
					err)
			}
		} else if _, err := lmb.Encode(image); err != nil {
			t.Errorf("the imported image cannot be encoded: %v", err)
		}
		if _, err := Summarize(strings.NewReader(text), o); err != nil &&
			hal.CodeOf(err) != hal.BadImage && hal.CodeOf(err) != hal.Usage {
			t.Errorf("Summarize: code %v, want BadImage or Usage: %v", hal.CodeOf(err), err)
		}
	})
}

func FuzzParseTensor(f *testing.F) {
	f.Add("a=1,1,0x20000,int32,256")
	f.Add("block=0X40,uint8,1x2x3")
	f.Fuzz(func(t *testing.T, spec string) {
		s, err := ParseTensor(spec)
		if err == nil && (s.Size() == 0 || s.Size() > tensorSizeMax) {
			t.Errorf("%q is accepted with %d bytes, want 1 to %d", spec, s.Size(), tensorSizeMax)
		}
	})
}

// FuzzImportRecord does the same with any lines after the header of a recording.
func FuzzImportRecord(f *testing.F) {
	for _, board := range []*boards.Board{&boards.Wormhole, &boards.Blackhole} {
		o := board.Outbound
		f.Add(strings.Join(concat(regionLines(o.Offset, 0, 0, 1<<30, 0), pointLines(board, 1, 2, 0),
			[]string{"W 0 100 20 0102030405060708010203040506070801020304", "CLK 5",
				"HR 0 8 1100000000000000", "HW 40 4 aa000000", "MARK here", "R 0 100 4 01020304"}),
			"\n"), board == &boards.Wormhole, "here..", uint64(0x40))
		f.Add(strings.Join(concat(pointLines(board, 0, 3, o.NoCBase),
			pointLines(board, 19, 24, o.NoCBase),
			[]string{"R 0 b000000 4 01020304", "W 0 0 8 0000000008000000"}), "\n"),
			board == &boards.Wormhole, "6..9", uint64(0))
	}
	f.Fuzz(func(t *testing.T, text string, wormhole bool, part string, host uint64) {
		device := bhRecord
		if wormhole {
			device = whRecord
		}
		o := Options{From: FromRecord,
			Inputs: []TensorSpec{{Name: "a", Place: Place{Tile: true, X: 1, Y: 2}, Address: 0x108,
				DType: gen.DTypeInt32, Shape: []uint32{2}}}}
		if p, err := ParsePart(part); err == nil {
			o.Part = p
		}
		if host%8 == 0 && host > 0 && host < 1<<40 {
			o.Host = []HostSpec{{"given", host, make([]byte, 64)}}
		}
		if len(text)%2 == 0 {
			o.Inputs = nil
		}
		image, _, err := Import(strings.NewReader(recordOf(device, strings.Split(text, "\n")...)),
			o)
		if err != nil {
			if c := hal.CodeOf(err); c != hal.BadImage && c != hal.Usage {
				t.Fatalf("code %v, want BadImage or Usage: %v", c, err)
			}
			return
		}
		if _, err := lmb.Encode(image); err != nil {
			t.Fatalf("the imported image cannot be encoded: %v", err)
		}
	})
}
