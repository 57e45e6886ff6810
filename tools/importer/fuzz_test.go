package importer

import (
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/hal"
	"lightmetal/tools/lmb"
)

// Any bytes give an image that is one, or an error that says why not.
func FuzzImport(f *testing.F) {
	for _, c := range captures {
		text := capture(f, c.name)
		f.Add(text[:strings.LastIndex(text[:min(len(text), 6000)], "\n")+1], c.options.From == FromQemu, uint8(0))
	}
	f.Add(l1(access("W", 4, wh166, 1), access("R", 4, wh166, 2), access("R", 4, wh166, 3)), false, uint8(1))
	f.Add(lines(whDevice, whMulticast(wh166Config, 1, 1, 4, 2, 0), access("W", 8, wh166+0x100, 5)), false, uint8(2))
	f.Add(lines(bhDevice, "W 4 0x1fc00984 0x0", "W 4 0x1fc00988 0x89", "W 4 0x1fc0098c 0x0", "W 4 4:0x180000040 0x5"), false, uint8(3))
	f.Add(twoDevices+"UNKNOWN 1.0 1 0x1 0f,1f,44 0x0 0\nMARK 0.000000 Lost 3 events.\n", false, uint8(4))
	f.Add("7@1.5:vfio_region_read  (0000:01:00.0:region0+0x4, 4) = 0x1\nvfio_region_write  (0000:01:00.0:region0+0x4, 0x1, 4)\n", true, uint8(5))
	f.Add(ops("w 08 4 0x5", "r 20 4 0x1", "r 20 4 0x0"), true, uint8(6))
	f.Fuzz(func(t *testing.T, text string, qemu bool, choice uint8) {
		o := Options{From: FromMmiotrace, Poll: []Range{{First: 0x20, Last: 0x23}}}
		if qemu {
			o.From, o.Board = FromQemu, boards.All[int(choice)%len(boards.All)]
			o.Region, o.Base = "edu-mmio", eduBase
			o.Also = []Region{{Name: "0000:01:00.0"}}
		} else if choice%2 == 1 {
			o.Inputs = []TensorSpec{mustTensor(t, "a=1,1,0x102,int8,3")}
		}
		if int(choice) < len(Passes) {
			o.Without = Passes[choice : choice+1]
		}
		image, _, err := Import(strings.NewReader(text), o)
		if err != nil {
			if c := hal.CodeOf(err); image != nil || c != hal.BadImage && c != hal.Usage {
				t.Errorf("code %v, image %v: %v", c, image, err)
			}
		} else if _, err := lmb.Encode(image); err != nil {
			t.Errorf("the image is none: %v", err)
		}
		if _, err := Summarize(strings.NewReader(text), o); err != nil && hal.CodeOf(err) != hal.BadImage && hal.CodeOf(err) != hal.Usage {
			t.Errorf("summary: %v", err)
		}
	})
}

func FuzzParseTensor(f *testing.F) {
	f.Add("a=1,1,0x20000,int32,256")
	f.Add("block=0X40,uint8,1x2x3")
	f.Fuzz(func(t *testing.T, spec string) {
		s, err := ParseTensor(spec)
		if err == nil && (s.Size() == 0 || s.Size() > tensorSizeMax) {
			t.Errorf("%q: %d bytes", spec, s.Size())
		}
	})
}
