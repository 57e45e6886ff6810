package together_test

import (
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/together"
)

// parseImage returns a verified image of a listing.
func parseImage(t *testing.T, name, text string) together.Image {
	t.Helper()
	parsed, err := listing.Parse(name, []byte(text), nil)
	if err != nil {
		t.Fatalf("the listing of the test does not parse: %v\n%s", err, text)
	}
	file, err := lmb.Encode(parsed)
	if err != nil {
		t.Fatal(err)
	}
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	return together.Image{Name: name, View: view}
}

const (
	ivshmem = "lightmetal 1\ntarget ivshmem 1af4:1110 bar2 1MiB\n" +
		"window m bar2 offset 0 size 64KiB\nwindow n bar2 offset 0x1000 size 4KiB\n" +
		"window h host size 4KiB\n"
	wormhole = "lightmetal 1\ntarget wormhole 1e52:401e bar0 512MiB bar4 32MiB\n" +
		"window t tlb size 1MiB\nwindow u tlb size 1MiB\n" +
		"window csm bar0 offset 0x1fe80000 size 4KiB\n" +
		"window csm4 bar4 offset 0x1e80000 size 4KiB\nwindow raw bar0 offset 0 size 1MiB\n" +
		"window config bar0 offset 0x1fc00000 size 1KiB\n"
	tile  = "  point t tile 1,1 address 0x0\n"
	reset = "  point t tile 1,1 address 0xffb00000\n"
)

// TestStoresToDataOfALaterSequenceCollide has two images for each rule. want is a part of the
// collision that Check reports; if it is empty, there must be no collision. If b is empty, the
// second image is for another device.
func TestStoresToDataOfALaterSequenceCollide(t *testing.T) {
	for _, test := range []struct{ what, head, a, b, want string }{
		{"a region that init stored and frame does not", ivshmem,
			"init:\n  write.4 m+0x100 1\nframe:\n  write.4 m+0x200 1\n",
			"main:\n  write.4 m+0x100 2\n",
			"sequence frame relies on data that command 0 of init stored; command 0 of main in " +
				"b stores " +
				"to the same place: ivshmem 1af4:1110, BAR 2 0x100 to 0x103"},
		{"another region", ivshmem, "init:\n  write.4 m+0x100 1\nframe:\n  write.4 m+0x200 1\n",
			"main:\n  write.4 m+0x104 2\n", ""},
		{"a byte of it", ivshmem,
			"init:\n  fill.8 m+0x100 <- 1 size 64\nframe:\n  write.4 m+0x200 1\n",
			"main:\n  write.1 m+0x11f 2\n", "BAR 2 0x11f to 0x11f"},
		{"through another window", ivshmem,
			"init:\n  write.4 m+0x1010 1\nframe:\n  write.4 m+0x200 1\n",
			"main:\n  write.4 n+0x10 2\n", "BAR 2 0x1010 to 0x1013"},
		{"what frame stores again", ivshmem,
			"init:\n  write.4 m+0x100 1\nframe:\n  write.4 m+0x100 1\n" +
				"  poll.4 m+0x200 == 1 within 1ms\n", "main:\n  write.4 m+0x100 2\n", ""},
		{"what frame stores again after its first wait", ivshmem,
			"init:\n  write.4 m+0x100 1\nframe:\n  poll.4 m+0x200 == 1 within 1ms\n" +
				"  write.4 m+0x100 1\n", "main:\n  write.4 m+0x100 2\n",
			"sequence frame relies on data that command 0 of init"},
		{"what frame stores again after a delay", ivshmem,
			"init:\n  write.4 m+0x100 1\nframe:\n  delay 1us\n  write.4 m+0x100 1\n",
			"main:\n  write.4 m+0x100 2\n", "sequence frame relies on"},
		{"a flush is not a wait", ivshmem,
			"init:\n  write.4 m+0x100 1\nframe:\n  flush.4 m+0x100\n  write.4 m+0x100 1\n",
			"main:\n  write.4 m+0x100 2\n", ""},
		{"what frame stores again in part", ivshmem,
			"init:\n  write.8 m+0x100 1\nframe:\n  write.4 m+0x104 1\n",
			"main:\n  write.8 m+0x100 2\n", "BAR 2 0x100 to 0x103"},
		{"a register that is a queue", ivshmem,
			"init:\n  write.4 m+0x100 1\nframe:\n  fill.4 m+0x100 <- 0x1 size 64 fifo\n",
			"main:\n  write.4 m+0x100 2\n", "sequence frame relies on"},
		{"what the previous frame left for the next", ivshmem,
			"init:\n  write.4 m+0x200 1\nframe:\n  poll.4 m+0x300 == 1 within 1ms\n" +
				"  write.4 m+0x100 1\n", "main:\n  write.4 m+0x100 2\n",
			"sequence frame relies on data that command 1 of frame"},
		{"what frame loads", ivshmem,
			"init:\n  write.4 m+0x200 1\nframe:\n  expect.4 m+0x100 == 1\n",
			"main:\n  write.4 m+0x100 2\n",
			"command 0 of frame loads data that the sequence did not store; command 0 of main in " +
				"b stores to the same place"},
		{"what frame modifies", ivshmem,
			"init:\n  write.4 m+0x200 1\nframe:\n  write.4 m+0x100 1 mask 0xf\n",
			"main:\n  write.4 m+0x100 2\n",
			"command 0 of frame loads data that the sequence did not store"},
		{"what frame compares", ivshmem,
			"init:\n  write.4 m+0x200 1\nframe:\n  compare.4 m+0x100 uint32 == uint32 1\n",
			"main:\n  write.4 m+0x100 2\n",
			"command 0 of frame loads data that the sequence did not store"},
		{"what frame loads after it has stored it", ivshmem,
			"init:\n  write.4 m+0x200 1\nframe:\n  write.4 m+0x100 1\n  expect.4 m+0x100 == 1\n",
			"main:\n  write.4 m+0x100 2\n", ""},
		{"what frame loads before it stores it", ivshmem,
			"init:\n  write.4 m+0x200 1\nframe:\n  expect.4 m+0x100 == 1\n  write.4 m+0x100 1\n",
			"main:\n  write.4 m+0x100 2\n", "command 0 of frame loads"},
		{"an image with a single sequence", ivshmem,
			"main:\n  write.4 m+0x100 1\n  poll.4 m+0x300 == 1 within 1ms\n" +
				"  expect.4 m+0x104 == 1\n", "main:\n  fill.8 m+0x100 <- 1 size 64\n", ""},
		{"init starts again, although it is not the first sequence", ivshmem,
			"main:\n  write.4 m+0x100 1\ninit:\n  write.4 m+0x200 1\n",
			"main:\n  write.4 m+0x100 2\n", ""},
		{"safe runs within the run that failed", ivshmem,
			"main:\n  write.4 m+0x100 1\nsafe:\n  expect.4 m+0x100 == 1\n",
			"main:\n  write.4 m+0x100 2\n", ""},
		{"the other's safe stores too", ivshmem,
			"init:\n  write.4 m+0x100 1\nframe:\n  write.4 m+0x200 1\n",
			"main:\n  write.4 m+0x300 2\nsafe:\n  write.4 m+0x100 0\n", "command 0 of safe in b"},
		{"what is called", ivshmem,
			"init:\n  call load\nframe:\n  write.4 m+0x200 1\nload:\n  write.4 m+0x100 1\n",
			"main:\n  write.4 m+0x100 2\n", "sequence frame relies on data that command 0 of load"},
		{"what is stored next to it after a call", ivshmem,
			"load:\n  write.4 m+0x100 1\ninit:\n  call load\n  write.4 m+0x104 1\n" +
				"frame:\n  write.4 m+0x200 1\n", "main:\n  write.4 m+0x104 2\n",
			"sequence frame relies on data that command 1 of init stored"},
		{"host memory", ivshmem, "init:\n  write.4 h+0x100 1\nframe:\n  expect.4 h+0x100 == 1\n",
			"main:\n  write.4 h+0x100 2\n", ""},
		{"other devices", ivshmem, "init:\n  write.4 m+0x100 1\nframe:\n  write.4 m+0x200 1\n", "",
			""},

		{"a tile", wormhole, "init:\n" + tile + "  write.4 t+0x100 1\nframe:\n" + tile +
			"  write.4 t+0x200 1\n", "main:\n  point u tile 1,1 address 0x0\n  write.4 u+0x100 1\n",
			"Tensix tile 1,1 0x100 to 0x103"},
		{"by its translated coordinates", wormhole,
			"init:\n" + tile + "  write.4 t+0x100 1\nframe:\n" + tile + "  write.4 t+0x200 1\n",
			"main:\n  point t tile 18,18 address 0x0\n  write.4 t+0x100 1\n",
			"Tensix tile 1,1 0x100 to 0x103"},
		{"another tile", wormhole, "init:\n" + tile + "  write.4 t+0x100 1\nframe:\n" + tile +
			"  write.4 t+0x200 1\n", "main:\n  point t tile 2,2 address 0x0\n  write.4 t+0x100 1\n",
			""},
		{"another address", wormhole, "init:\n" + tile + "  write.4 t+0x100 1\nframe:\n" + tile +
			"  write.4 t+0x200 1\n",
			"main:\n  point t tile 1,1 address 0x100000\n  write.4 t+0x100 1\n", ""},
		{"one tile of a multicast", wormhole, "init:\n" + tile + "  write.4 t+0x100 1\nframe:\n" +
			tile +
			"  write.4 t+0x200 1\n",
			"main:\n  point t tiles 1,1 to 2,2 address 0x0\n  write.4 t+0x100 1\n",
			"Tensix tile 1,1 0x100"},
		{"no tile of a multicast", wormhole, "init:\n" + tile + "  write.4 t+0x100 1\nframe:\n" +
			tile + "  write.4 t+0x200 1\n",
			"main:\n  point t tiles 2,1 to 4,2 address 0x0\n  write.4 t+0x100 1\n", ""},
		{"DRAM by another of its tiles", wormhole,
			"init:\n  point t tile 0,0 address 0x0\n  write.4 t+0x100 1\nframe:\n" + tile +
				"  write.4 t+0x200 1\n",
			"main:\n  point t tile 0,1 address 0x0\n  write.4 t+0x100 1\n", "DRAM tile 0,0 0x100"},
		{"what a network without coordinates reaches", wormhole,
			"init:\n" + tile + "  write.4 t+0x100 1\nframe:\n" + tile + "  write.4 t+0x200 1\n",
			"main:\n  point t tile 3,3 address 0x0 noc 1\n  write.4 t+0x900 1\n",
			"command 1 of main in b stores to the same place"},
		{"what an image loads through windows that it does not point", wormhole,
			"init:\n  write.4 csm+0x100 1\nframe:\n  expect.4 raw+0x900 == 1\n",
			"main:\n" + tile + "  write.4 t+0x100 2\n",
			"loads data that the sequence did not store"},
		{"configuration of windows", wormhole,
			"init:\n" + tile + "  write.4 t+0x100 1\nframe:\n  expect.8 config+0x0 == 1\n",
			"main:\n  point u tile 1,1 address 0x0\n  write.4 u+0x900 2\n", ""},
		{"a tile that is only held in reset", wormhole,
			"init:\n  point t tile 1,1 address 0xffb00000\n  write.4 t+0x121b0 0x47800\nframe:\n" +
				tile + "  write.4 t+0x200 1\n",
			"main:\n  point t tile 1,1 address 0xffb00000\n  write.4 t+0x121b0 0x47000\n", ""},
		{"the reset of a tile that runs", wormhole,
			"init:\n" + tile +
				"  write.4 t+0x100 1\n  point t tile 1,1 address 0xffb00000\n" +
				"  write.4 t+0x121b0 0x47000\nframe:\n" + tile + "  write.4 t+0x200 1\n",
			"main:\n  point t tile 1,1 address 0xffb00000\n  write.4 t+0x121b0 0x47800\n",
			"Tensix tile 1,1 0xffb121b0 to 0xffb121b3"},
		{"a sequence that only puts cores in reset", wormhole,
			"init:\n" + tile + "  write.4 t+0x100 1\nstop:\n" + reset + "  expect.4 t+0x121b0 & " +
				"0x47800 == 0x0\n  write.4 t+0x121b0 0x47800\n" +
				"  point t tile 1,0 address 0xffb00000\n  write.4 t+0x121b0 0x47800\n",
			"main:\n" + tile + "  write.4 t+0x100 2\n", ""},
		{"one that loads the reset of cores that the other puts in reset", wormhole,
			"init:\n" + tile + "  write.4 t+0x100 1\nstop:\n" + reset + "  expect.4 t+0x121b0 & " +
				"0x47800 == 0x0\n  write.4 t+0x121b0 0x47800\n",
			"main:\n" + reset + "  write.4 t+0x121b0 0x47800\n",
			"command 1 of stop loads data that the sequence did not store"},
		{"one that starts a core", wormhole,
			"init:\n" + tile + "  write.4 t+0x100 1\nstop:\n" + reset +
				"  write.4 t+0x121b0 0x47000\n", "main:\n" + tile + "  write.4 t+0x100 2\n",
			"sequence stop relies on data that command 1 of init stored"},
		{"one that stores to a register next to it", wormhole,
			"init:\n" + tile + "  write.4 t+0x100 1\nstop:\n" + reset +
				"  write.8 t+0x121b0 0x47800\n", "main:\n" + tile + "  write.4 t+0x100 2\n",
			"sequence stop relies on data that command 1 of init stored"},
		{"one that waits for a program, and then puts cores in reset", wormhole,
			"init:\n" + tile + "  write.4 t+0x100 1\nstop:\n" + tile +
				"  poll.4 t+0x200 == 1 within 1ms\n" + reset + "  write.4 t+0x121b0 0x47800\n",
			"main:\n" + tile + "  write.4 t+0x100 2\n",
			"sequence stop relies on data that command 1 of init stored"},
		{"one that lets a program run before that", wormhole,
			"init:\n" + tile + "  write.4 t+0x100 1\nstop:\n  delay 1us\n" + reset +
				"  write.4 t+0x121b0 0x47800\n", "main:\n" + tile + "  write.4 t+0x100 2\n",
			"sequence stop relies on data that command 1 of init stored"},
		{"one that changes bits of the register", wormhole,
			"init:\n" + tile + "  write.4 t+0x100 1\nstop:\n" + reset +
				"  write.4 t+0x121b0 0x800 mask 0x800\n",
			"main:\n" + tile + "  write.4 t+0x100 2\n",
			"sequence stop relies on data that command 1 of init stored"},
		{"the ARC's memory by another BAR", wormhole,
			"init:\n  write.4 csm+0x100 1\nframe:\n" + tile + "  write.4 t+0x200 1\n",
			"main:\n  write.4 csm4+0x100 1\n", "the ARC tile"},
		{"the ARC's memory by its tile", wormhole,
			"init:\n  write.4 csm+0x100 1\nframe:\n  write.4 csm+0x100 1\n",
			"main:\n  point t tile 0,10 address 0x0\n  write.4 t+0x100 1\n", "the ARC tile"},
	} {
		other := test.head + test.b
		if test.b == "" {
			other = strings.Replace(ivshmem, "ivshmem 1af4:1110 bar2 1MiB",
				"stranger 1af4:1111 bar2 1MiB\nrule memory bar2 widths 4 memory", 1) +
				"main:\n  write.4 m+0x100 2\n"
		}
		list := together.Check([]together.Image{parseImage(t, "a", test.head+test.a),
			parseImage(t, "b", other)})
		if len(list) > 1 || test.want == "" && len(list) > 0 ||
			test.want != "" && (len(list) == 0 || !strings.Contains(list[0].String(), test.want)) {
			t.Errorf("%s: %d collisions, want one with %q (none if empty)", test.what, len(list),
				test.want)
			for i := range list {
				t.Error(&list[i])
			}
		}
	}
}

// TestOverlapOfDataIsNotHiddenByWhatEveryProgramSetsUp has two programs that both set up reset
// registers and an Ethernet tile. One of them stores to the other's weights, too.
func TestOverlapOfDataIsNotHiddenByWhatEveryProgramSetsUp(t *testing.T) {
	const ethernet = "  point t tile 1,0 address 0x0\n  write.4 t+0x9000 1\n"
	setup := ""
	for _, tile := range []string{"1,0", "1,1", "2,1"} { // 1,0: Ethernet
		setup += "  point t tile " + tile + " address 0xffb00000\n" +
			"  expect.4 t+0x121b0 == 0x47800\n  write.4 t+0x121b0 0x47800\n"
	}
	weights := "  point t tile 3,3 address 0x100000\n  write.4 t+0x40 %\n"
	a := parseImage(t, "a", wormhole+"init:\n"+ethernet+strings.Replace(weights, "%", "1", 1)+setup+
		"frame:\n"+setup+tile+"  write.4 t+0x0 1\n"+"stop:\n"+setup)
	b := parseImage(t, "b", wormhole+"main:\n"+ethernet+strings.Replace(weights, "%", "2", 1)+setup)
	list := together.Check([]together.Image{a, b})
	if len(list) != 2 {
		t.Fatalf("%d collisions, want the weights and one sum: %v", len(list), list)
	}
	if !strings.Contains(list[0].Place, "Tensix tile 3,3") || list[0].Sequence != "frame" {
		t.Errorf("first collision: %s", &list[0])
	}
	if text := list[1].String(); !strings.HasSuffix(text,
		"; and 2 more reset registers or Ethernet tiles") {
		t.Errorf("sum: %s", text)
	}
}

// TestTensorsThatOverlapAreNamed has an interleaved tensor with pages in two DRAM banks, and
// another tensor directly after them. The other image stores to a page in the second bank through
// another tile of that bank.
func TestTensorsThatOverlapAreNamed(t *testing.T) {
	a := parseImage(t, "a", strings.Replace(wormhole, "window t",
		"tensor weights input uint8[128]\ntensor bias input uint8[64]\nwindow t", 1)+
		"init:\n  point t tile 0,11 address 0x0\n  copy.8 t+0x1000 <- weights[0:64] bulk\n"+
		"  point u tile 0,5 address 0x0\n  copy.8 u+0x1000 <- weights[64:128] bulk\n"+
		"  copy.8 u+0x1040 <- bias[:] bulk\nframe:\n  point t tile 1,1 address 0x0\n"+
		"  write.4 t+0x100 1\n")
	other := func(address string) together.Image {
		return parseImage(t, "b", strings.Replace(wormhole, "window t",
			"tensor x input uint8[32]\nwindow t", 1)+
			"main:\n  point t tile 0,7 address 0x0\n  copy.8 t+"+address+" <- x[:] bulk\n")
	}
	for address, want := range map[string][2]string{
		"0x1020": {"weights", "0x1020 to 0x103f; tensor weights of a overlaps tensor x of b"},
		"0x1030": {"weights bias", "0x1030 to 0x103f; tensors weights, bias of a overlap tensor " +
			"x of b"},
		"0x1040": {"bias", "0x1040 to 0x105f; tensor bias of a overlaps tensor x of b"},
		"0x1080": {},
	} {
		t.Run(address, func(t *testing.T) {
			list := together.Check([]together.Image{a, other(address)})
			if want[1] == "" {
				if len(list) != 0 {
					t.Errorf("collision %v, want none", &list[0])
				}
				return
			}
			if len(list) != 1 || !strings.HasSuffix(list[0].String(), want[1]) ||
				strings.Join(list[0].Tensors, " ") != want[0] ||
				strings.Join(list[0].OtherTensors, " ") != "x" {
				t.Errorf("collisions %+v, want one of the tensors %s: %s", list, want[0], want[1])
			}
		})
	}
}
