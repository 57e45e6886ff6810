package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/check/golden"
	"lightmetal/tools/image/lmb"
)

// countTraffic returns the traffic of an image by window. It adds up the commands in another way
// than Analyze does.
func countTraffic(image *lmb.Image) map[int]Traffic {
	windows := map[int]Traffic{}
	for _, s := range image.Sequences {
		for _, c := range s.Commands {
			t := windows[int(c.Window)]
			width := uint64(c.Width)
			switch c.Opcode {
			case gen.OpcodeWrite, gen.OpcodeRelocate:
				t.Written += width
			case gen.OpcodeModify:
				t.Written += width
				t.Read += width
			case gen.OpcodeCopyIn, gen.OpcodeFill:
				t.Written += max(uint64(len(c.Data)), uint64(c.Amount))
			case gen.OpcodeCopyOut:
				t.Read += uint64(c.Amount)
			case gen.OpcodeExpect:
				t.Read += width
			case gen.OpcodeCompare:
				t.Compared += uint64(len(c.Data))
			}
			windows[int(c.Window)] = t
		}
	}
	return windows
}

// allImages returns all images in testdata and two more, by name.
func allImages(t *testing.T) map[string][]byte {
	files := map[string][]byte{}
	paths, err := filepath.Glob(filepath.Join(testdata, "images", "*.lmb"))
	if err != nil || len(paths) == 0 {
		t.Fatal(err)
	}
	for _, path := range paths {
		files[filepath.Base(path)] = readImage(t, filepath.Base(path))
	}
	all, err := os.ReadFile(filepath.Join(testdata, "listings", "all-opcodes.lms"))
	if err != nil {
		t.Fatal(err)
	}
	files["all-opcodes"] = assemble(t, string(all))
	files["large"] = largeImage(t, 20_000)
	return files
}

func TestBytesByWindowMatchTheCommands(t *testing.T) {
	for name, file := range allImages(t) {
		image, err := lmb.Decode(file)
		if err != nil {
			t.Fatal(err)
		}
		want := countTraffic(image)
		r := Analyze(verify(t, file), WholeFile, nil)
		var windows, opcodes, spaces Traffic
		for i, w := range r.Windows {
			if w.Traffic != want[i] {
				t.Errorf("%s: window %d: Analyze has %+v, the commands have %+v", name, i,
					w.Traffic, want[i])
			}
			windows.add(w.Traffic, 1)
		}
		for _, o := range r.Opcodes {
			opcodes.add(o.Traffic, 1)
		}
		for _, s := range r.Spaces {
			spaces.add(s.Traffic, 1)
			var ranges Traffic
			for _, x := range s.Ranges {
				ranges.add(x.Traffic, 1)
			}
			if ranges != s.Traffic {
				t.Errorf("%s: the ranges of %s have %+v in all, the space has %+v", name, s.Name,
					ranges, s.Traffic)
			}
		}
		if windows != opcodes || windows != spaces || windows == (Traffic{}) {
			t.Errorf("%s: the sums by window %+v, by opcode %+v and by space %+v differ", name,
				windows, opcodes, spaces)
		}
	}
}

// sumJournal returns the traffic that a mock saw, by tile or BAR, and the number of loads by
// address.
func sumJournal(d *mock.Device) (places map[string]Traffic, loads map[mock.Place]uint64) {
	places, loads = map[string]Traffic{}, map[mock.Place]uint64{}
	for _, a := range d.Journal() {
		key := fmt.Sprintf("bar %d", a.Place.Bar)
		if a.Place.Tile {
			key = fmt.Sprintf("tile %d,%d", a.Place.X, a.Place.Y)
		}
		t := places[key]
		if a.Op == mock.Store {
			t.Written += uint64(a.Width)
		} else {
			t.Read += uint64(a.Width)
			loads[a.Place]++
		}
		places[key] = t
	}
	return places, loads
}

// multicastListing stores to many tiles at once, and calls a sequence twice.
const multicastListing = `lightmetal 1
target wormhole 1e52:401e bar0 512MiB
window w tlb size 1MiB
main:
  point w tiles 1,1 to 6,4 address 0x0
  write.4 w+0x100 7
  fill.4 w+0x200 <- 0x5 size 64 bulk
  point w tile 6,4 address 0x0
  compare.4 w+0x200 uint32 == uint32 5 5 5 5
  write.4 w+0x100 0x1 mask 0xff
  expect.4 w+0x100 == 0x1
  call more
  call more
more:
  point w tile 2,2 address 0x0
  copy.4 w+0x300 <- uint32 1 2 3
  flush.4 w+0x300
`

func TestBytesByTileAreThoseTheMockSaw(t *testing.T) {
	files := map[string][]byte{"multicast": assemble(t, multicastListing)}
	for _, name := range replayableImages {
		files[name] = readImage(t, name)
	}
	for name, file := range files {
		view := verify(t, file)
		d := recordingMock(view)
		if result := runSequence(t, view, d, "main"); result.Code != hal.OK {
			t.Fatalf("%s: replay ends with %v", name, result)
		}
		want, loads := sumJournal(d)
		r := Analyze(view, view.SequenceByName("main"), nil)
		got := map[string]Traffic{}
		for _, x := range r.Tiles {
			got[fmt.Sprintf("tile %d,%d", x.X, x.Y)] = Traffic{Written: x.Written,
				Read: x.Read + x.Compared}
		}
		for _, s := range r.Spaces {
			if s.Kind == "bar" {
				got["bar "+s.Name[len("BAR "):]] = Traffic{Written: s.Written,
					Read: s.Read + s.Compared}
			}
		}
		// A poll loads until its condition is met; the report counts one load.
		polls := pollLoads(view)
		for key, traffic := range want {
			x := got[key]
			for at, times := range polls {
				if place := placeKey(at.Place); place == key {
					x.Read += (loads[at.Place] - times) * uint64(at.Width)
				}
			}
			if x != traffic {
				t.Errorf("%s: %s: the report has %+v, the mock saw %+v", name, key, x, traffic)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: the report has %d tiles and BARs, the mock saw %d", name, len(got),
				len(want))
		}
	}
}

// placeKey returns the key of a tile or BAR in the results of sumJournal.
func placeKey(p mock.Place) string {
	if p.Tile {
		return fmt.Sprintf("tile %d,%d", p.X, p.Y)
	}
	return fmt.Sprintf("bar %d", p.Bar)
}

// pollLoads returns, for each place that main polls, how many commands of main load from it.
func pollLoads(view *fbs.View) map[mock.Access]uint64 {
	polls := map[mock.Access]uint64{}
	loads := map[mock.Place]uint64{}
	at := map[uint16]mock.Place{}
	s := view.Sequences[view.SequenceByName("main")]
	for _, c := range view.Commands[s.First : s.First+s.Count] {
		w := view.Windows[c.Window]
		place := mock.Place{Bar: w.Bar, Address: w.Offset}
		if w.Kind == gen.WindowKindTlb {
			place = at[c.Window]
		}
		switch c.Opcode {
		case gen.OpcodePoint:
			target, _ := boards.UnpackTileRoute(c.Mask)
			at[c.Window] = mock.Place{Tile: true, X: target.X, Y: target.Y, Address: c.Value}
		case gen.OpcodeExpect, gen.OpcodeCopyOut:
			place.Address += uint64(c.Offset)
			loads[place]++
			if c.Opcode == gen.OpcodeExpect && c.Amount != 0 {
				polls[mock.Access{Place: place, Width: c.Width}] = 0
			}
		}
	}
	for a := range polls {
		polls[a] = loads[a.Place]
	}
	return polls
}

func TestEachCallOfASequenceCounts(t *testing.T) {
	view := verify(t, assemble(t, multicastListing))
	file, main := Analyze(view, WholeFile, nil), Analyze(view, 0, nil)
	if file.Opcodes[0].Count != 1 || main.Windows[0].Written-file.Windows[0].Written != 12 {
		t.Errorf("traffic of the file %+v, of main %+v; want 12 more bytes in main",
			file.Windows[0], main.Windows[0])
	}
	s := file.Sequences[0]
	if s.Commands != 9 || s.Executed != 9+2*4 || s.Stores != 1+8+1+2*3 || s.Loads != 4+1+1+2*1 {
		t.Errorf("the sequence main has the wrong counts: %+v", s)
	}
	if more := Analyze(view, 1, nil); len(more.Tiles) != 1 || more.Tiles[0].Written != 12 {
		t.Errorf("tiles of the sequence more: %+v, want 1 tile with 12 bytes written", more.Tiles)
	}
}

func TestSumsAndProductsDoNotOverflow(t *testing.T) {
	const big = math.MaxUint64
	if cappedSum(big, 1) != big || cappedSum(1, 2) != 3 ||
		cappedProduct(big, 2) != big || cappedProduct(3, 4) != 12 ||
		cappedProduct(1<<33, 1<<33) != big {
		t.Error("cappedSum or cappedProduct returns a wrong result")
	}
}

func TestReportAsTextAndJSON(t *testing.T) {
	for _, name := range []string{"wh.twoop.lmb", "edu-factorial.lmb"} {
		file := readImage(t, name)
		view := verify(t, file)
		r := Analyze(view, WholeFile, nil)
		r.Image, r.Bytes = name, uint64(len(file))
		r.Checksum, r.SHA256 = view.ID(), fmt.Sprintf("%x", sha256.Sum256(file))
		var text bytes.Buffer
		if err := r.Write(&text); err != nil {
			t.Fatal(err)
		}
		golden.File(t, "testdata/"+name+".txt", text.String())
		if name != "wh.twoop.lmb" {
			continue // it has every field of the JSON
		}
		data, err := json.MarshalIndent(r, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		golden.File(t, "testdata/"+name+".json", string(data)+"\n")
	}
}

func TestAnalyzeReportsProgress(t *testing.T) {
	calls, last := 0, -1
	Analyze(verify(t, largeImage(t, 3*progressInterval)), WholeFile, func(done int) {
		calls++
		if done <= last {
			t.Errorf("progress %d is reported after %d", done, last)
		}
		last = done
	})
	if calls < 3 {
		t.Errorf("progress was reported %d times, want at least 3", calls)
	}
}

// TestRangesCoverEveryByte adds random ranges to a set and looks for each of their bytes in the
// merged ranges.
func TestRangesCoverEveryByte(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for round := range 50 {
		var s rangeSet
		touched := map[uint64]bool{}
		written := uint64(0)
		for range 300 {
			first, size := uint64(random.Intn(4000)), uint64(1+random.Intn(12))
			s.add(first, first+size-1, Traffic{Written: size})
			written += size
			for i := range size {
				touched[first+i] = true
			}
		}
		count := 1 + random.Intn(400)
		s.compact(count)
		covered, bytes := uint64(0), uint64(0)
		for i := range s.list {
			bytes += s.list[i].Written
			covered += s.list[i].Bytes()
			if i > 0 && s.list[i].First <= s.list[i-1].Last+1 {
				t.Fatalf("round %d: range %d touches the previous range", round, i)
			}
			for at := s.list[i].First; at <= s.list[i].Last; at++ {
				delete(touched, at)
			}
		}
		if len(s.list) > count || bytes != written || len(touched) != 0 {
			t.Fatalf("round %d: %d ranges, want at most %d; %d bytes, want %d; %d addresses are "+
				"in no range", round, len(s.list), count, bytes, written, len(touched))
		}
		if s.mergedGaps == 0 && len(s.list) == count+1 {
			t.Fatalf("round %d: mergedGaps does not count the gaps that were merged", round)
		}
	}
}

func TestNumberOfRangesIsLimited(t *testing.T) {
	var s rangeSet
	for i := range uint64(10 * rangesKeptMax) {
		s.add(i*2654435761%(1<<32)*16, i*2654435761%(1<<32)*16+3, Traffic{Read: 4})
		if len(s.list) > rangesKeptMax {
			t.Fatalf("%d ranges, want at most %d", len(s.list), rangesKeptMax)
		}
	}
	s.compact(rangesReportedMax)
	total := uint64(0)
	for i := range s.list {
		total += s.list[i].Read
	}
	if total != 40*rangesKeptMax || s.mergedGaps == 0 || len(s.list) > rangesReportedMax {
		t.Errorf("%d bytes in %d ranges, %d merged gaps; want %d bytes in at most %d ranges, and "+
			"some merged gaps", total, len(s.list), s.mergedGaps, 40*rangesKeptMax,
			rangesReportedMax)
	}
}

func TestSpacesHaveTheNamesOfTheBoard(t *testing.T) {
	r := Analyze(verify(t, assemble(t, `lightmetal 1
target wormhole 1e52:401e bar0 512MiB
window w tlb size 1MiB
window a tlb size 64
window c bar0 offset 0x1fe80000 size 4KiB
main:
  point w tile 18,18 address 0xffb00000
  write.4 w+0x121b0 0x47800
  point w tile 0,0 address 0x0
  write.4 w+0x0 1
  point a tile 0,10 address 0x880030100
  read.4 a+0x0
  write.4 c+0x0 1
  write.4 c+0x4 1
  copy.4 c+0x8 <- uint32 1 2 3 fifo
`)), WholeFile, nil)
	want := []struct{ name, area string }{
		{"BAR 0", "ARC CSM"}, {"DRAM tile 0,0", "DRAM"}, {"Tensix tile 1,1", "soft reset"},
		{"ARC tile 0,10", "RESET_UNIT_ARC_MISC_CNTL"},
	}
	for i, w := range want {
		if i >= len(r.Spaces) || r.Spaces[i].Name != w.name ||
			r.Spaces[i].Ranges[0].Area != w.area {
			t.Fatalf("space %d: want %+v, got %+v", i, w, r.Spaces)
		}
	}
	// A FIFO is one register.
	if x := r.Spaces[0].Ranges; len(x) != 1 || x[0].Last != 0x1fe8000b || x[0].Written != 20 {
		t.Errorf("ranges of BAR 0: %+v, want one with 20 bytes up to 0x1fe8000b", x)
	}
	if len(r.Tiles) != 3 || r.Tiles[1].X != 1 || r.Tiles[1].Kind != chips.Tensix.String() {
		t.Errorf("tiles %+v, want 3, the second a Tensix tile with x 1", r.Tiles)
	}
}

func TestNumbersAsText(t *testing.T) {
	for got, want := range map[string]string{
		lmb.SizeText(0): "0 bytes", lmb.SizeText(1023): "1,023 bytes", lmb.SizeText(1024): "1 KiB",
		lmb.SizeText(1): "1 byte", lmb.SizeText(1536): "1,536 " +
			"bytes", lmb.SizeText(512 << 20): "512 MiB",
		lmb.SizeText(math.MaxUint64): "18,446,744,073,709,551,615 bytes", lmb.TimeText(0): "0 " +
			"ns", lmb.TimeText(999): "999 ns",
		lmb.TimeText(1000): "1 us", lmb.TimeText(43_700): "43.7 us",
		lmb.TimeText(1_000_000_000): "1 s", lmb.TimeText(90_000_000_000): "90 s",
		lmb.WaitText(1_000_000): "1 s", countText(0): "0", countText(1234567): "1,234,567",
		countText(999): "999", shareText(1, 3): "33.3 %", shareText(1, 0): "",
		sanitize("a\x1b[2J\n\u202e"): "a\ufffd[2J\ufffd\ufffd",
		lmb.WaitText(math.MaxUint64): "longer than 9223372037 s", shortBytes(3290): "3.21K",
		shortBytes(256): "256", shortBytes(math.MaxUint64): "16E",
		lmb.ShapeText([]uint32{16, 8}): "16x8", lmb.ShapeText(nil): "scalar",
		lmb.TypeText(gen.DTypeInt32, []uint32{16, 8}): "int32[16x8]",
		lmb.OpcodeName(gen.OpcodeCopyOut): "copy " +
			"out", lmb.RoleName(gen.RoleInput): "input",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if long := sanitize(string(bytes.Repeat([]byte("ä"), 200))); len(long) != 254 {
		t.Errorf("sanitize returns %d bytes for a long name, want 254", len(long))
	}
}

// TestCountsMatchTheVerifier: the verifier's longest time of a sequence is a constant for each
// opcode, a microsecond for each access, and the waits.
func TestCountsMatchTheVerifier(t *testing.T) {
	for name, file := range allImages(t) {
		view := verify(t, file)
		constants := make([]uint64, len(view.Sequences))
		for i := range view.Sequences {
			constants[i] = constantUs(view, i)
		}
		for i, s := range SequenceCounts(view) {
			if got := s.Loads + s.Stores + s.WaitUs + constants[i]; got != view.WorstCaseUs[i] {
				t.Errorf("%s: %s makes %d loads and %d stores and waits %d us: %d us in all, the "+
					"verifier has %d",
					name, s.Name, s.Loads, s.Stores, s.WaitUs, got, view.WorstCaseUs[i])
			}
		}
	}
}

// constantUs returns the constant part of the longest time of a sequence in microseconds (FORMAT.md
// section 6.3): all but accesses and waits. Called sequences are included.
func constantUs(view *fbs.View, sequence int) (us uint64) {
	s := &view.Sequences[sequence]
	for _, c := range view.Commands[s.First : s.First+s.Count] {
		us++
		if gen.Policy(c.Option) == gen.PolicyIgnore {
			us += 10 * uint64(len(view.Devices))
		}
		switch c.Opcode {
		case gen.OpcodeModify, gen.OpcodeExpect, gen.OpcodeCopyOut:
			us += 10
		case gen.OpcodePoint:
			us += 4
		case gen.OpcodeCall:
			us += constantUs(view, int(c.Index))
		}
	}
	return us
}

// TestHostMemoryIsNotCountedAsDeviceTraffic, whichever command accesses it.
func TestHostMemoryIsNotCountedAsDeviceTraffic(t *testing.T) {
	head := "lightmetal 1\ntarget edu 1234:11e8 bar0 1MiB\nwindow r bar0 offset 0 size 1MiB\n" +
		"window h host size 4KiB\n"
	body := "main:\n  call fill\n  call fill\n  write.4 r+0x4 1\n  expect.4 r+0x4 == 0xfffffffe\n" +
		"fill:\n  fill.8 h+0x0 <- 0x1 size 64\n  expect.4 h+0x0 == 0x1\n  write.4 r+0x8 5\n"
	s := SequenceCounts(verify(t, assemble(t, head+body)))[0]
	if s.HostBytes != 2*(64+4) || s.Traffic != (Traffic{Written: 12, Read: 4}) || s.Commands != 4 ||
		s.Executed != 10 || s.Loads != 3 || s.Stores != 19 {
		t.Errorf("the counts of main are wrong: %+v", s)
	}
}

// TestRectanglesBeyondTheLimitCountOnTheirTiles: rectangles beyond the limit of spaces are counted
// in one space, but still count on each tile that they reach. The test stores one word to every
// rectangle of a chip's cores and computes independently how many rectangles have a tile in them.
func TestRectanglesBeyondTheLimitCountOnTheirTiles(t *testing.T) {
	columns, rows := []int{1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16},
		[]int{2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	text, count, want := strings.Builder{}, 0, map[[2]int]uint64{}
	text.WriteString("lightmetal 1\ntarget blackhole 1e52:b140 bar0 512MiB\n" +
		"window w tlb size 2MiB\nmain:\n")
	for i, x0 := range columns {
		for _, x1 := range columns[i:] {
			for j, y0 := range rows {
				for _, y1 := range rows[j:] {
					if x0 == x1 && y0 == y1 {
						continue // a single tile, not a rectangle
					}
					fmt.Fprintf(&text,
						"  point w tiles %d,%d to %d,%d address 0x0\n  write.4 w+0x100 7\n", x0, y0,
						x1, y1)
					count++
				}
			}
		}
	}
	for i, x := range columns {
		for j, y := range rows {
			rectangles := (i + 1) * (len(columns) - i) * (j + 1) * (len(rows) - j)
			want[[2]int{x, y}] = 4 * uint64(rectangles-1)
		}
	}
	r := Analyze(verify(t, assemble(t, text.String())), WholeFile, nil)
	if count <= spacesMax || len(r.Spaces) != spacesMax+1 || len(r.Tiles) != len(want) {
		t.Fatalf("%d rectangles, %d spaces, %d tiles; want %d spaces and %d tiles", count,
			len(r.Spaces), len(r.Tiles), spacesMax+1, len(want))
	}
	for _, tile := range r.Tiles {
		if tile.Written != want[[2]int{int(tile.X), int(tile.Y)}] {
			t.Errorf("tile %d,%d: %d bytes written, want %d", tile.X, tile.Y, tile.Written,
				want[[2]int{int(tile.X), int(tile.Y)}])
		}
	}
}
