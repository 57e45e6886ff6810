package importer

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/check/effort"
	"lightmetal/tools/image/lmb"
)

// recordOf returns a recording in version 1 of the format: its header, which has 5 lines, the given
// lines and its END line.
func recordOf(device string, list ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "LMRECORD 1\nDEVICE %s\nBAR 0 100000000 20000000\nBAR 2 120000000 100000\n"+
		"BAR 4 800000000 2000000\n", device)
	for _, line := range list {
		b.WriteString(line + "\n")
	}
	fmt.Fprintf(&b, "END %d\n", len(list))
	return b.String()
}

// Values of the DEVICE line of a recording: PCI vendor and device.
const (
	whRecord = "1e52 401e"
	bhRecord = "1e52 b140"
)

// storeLine returns the line of a store in a recording.
func storeLine(bar int, offset uint64, data ...byte) string {
	return fmt.Sprintf("W %d %x %d %s", bar, offset, len(data), fmt.Sprintf("%x", data))
}

// loadLine returns the line of a load of 4 bytes in a recording.
func loadLine(bar int, offset uint64, value uint32) string {
	return fmt.Sprintf("R %d %x 4 %s", bar, offset, fmt.Sprintf("%x", word32(value)))
}

func word32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }

// pointLines returns the lines of a recording that point window 166 of Wormhole, or window 0 of
// Blackhole, to a tile.
func pointLines(board *boards.Board, x, y uint8, address uint64) (list []string) {
	slot := map[*boards.Board]int{&boards.Wormhole: 166, &boards.Blackhole: 0}[board]
	g := board.TLB.GroupOf(slot)
	route := fbs.TileRoute{X: x, Y: y, Ordering: boards.OrderingDefault}
	words, ok := board.TLB.EncodeWindow(g, route, address&^(g.Size-1))
	if !ok {
		panic("the window cannot encode this target")
	}
	width := board.TLB.ConfigWidth
	for register := uint64(0); register < board.TLB.ConfigStride; register += uint64(width) {
		data := binary.LittleEndian.AppendUint64(nil,
			chips.LoadRegister(&words, register, width))[:width]
		at := board.TLB.ConfigOffset + uint64(slot)*board.TLB.ConfigStride + register
		list = append(list, storeLine(0, at, data...))
	}
	return list
}

// regionLines returns the lines of a recording that program outbound region n of the iATU, so that
// it maps size bytes at base to target. first is the offset in BAR 2 of region 0.
func regionLines(first, n, base, size, target uint64) (list []string) {
	at := first + n*0x200
	for _, r := range [][2]uint64{{4, 0}, {0, 0}, {8, base}, {0xc, base >> 32},
		{0x10, base + size - 1}, {0x14, target}, {0x18, target >> 32}, {4, 1 << 31}} {
		list = append(list, storeLine(2, at+r[0], word32(uint32(r[1]))...))
	}
	return list
}

func importRecord(t *testing.T, text string, o Options) (*lmb.Image, *Report) {
	t.Helper()
	o.From = FromRecord
	return mustImport(t, text, o)
}

func concat(lists ...[]string) (all []string) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// TestRegionsOfTheIATUBecomeHostWindows imports what tt-umd does at start on either chip: it maps
// two channels of host memory, and the host reads and writes one of them through the PCIe tile.
func TestRegionsOfTheIATUBecomeHostWindows(t *testing.T) {
	for _, c := range []struct {
		board      *boards.Board
		device     string
		first, noc uint64
		x, y       uint8
		window     uint64
	}{
		{&boards.Wormhole, whRecord, 0x1200, 0x8_0000_0000, 0, 3, 0xb000000},
		{&boards.Blackhole, bhRecord, 0x1000, 4 << 58, 19, 24, 0},
	} {
		text := recordOf(c.device, concat(
			regionLines(c.first, 0, 0, 1<<30, 0), regionLines(c.first, 1, 1<<30, 1<<30, 1<<30),
			pointLines(c.board, c.x, c.y, c.noc),
			[]string{loadLine(0, c.window+0x20, 0xdeadbeef), "HR 20 4 efbeadde", "CLK 1",
				storeLine(0, c.window+0x24, 1, 2, 3, 4), "HW 24 4 01020304"},
			pointLines(c.board, c.x, c.y, c.noc),
			[]string{loadLine(0, c.window+0x20, 0xdeadbeef), "HR 20 4 efbeadde"})...)
		image, report := importRecord(t, text, Options{})
		want := "16 accesses to iATU registers left out: at replay, the backend programs the " +
			"iATU; iATU region 0 (0x0..0x3fffffff) is host window host0; " +
			"1 iATU region without an access dropped; 3 accesses through the PCIe tile became " +
			"accesses to host memory"
		wantSummary(t, report, "iATU", want)
		checkCommands(t, image, `
copyin bulk host0+0x20 w4 efbeadde
fence
expect host0+0x20 w4 0xdeadbeef mask 0xffffffff
write host0+0x24 w4 0x4030201
fence
expect host0+0x20 w4 0xdeadbeef mask 0xffffffff
`)
		if w := image.Windows[0]; len(image.Windows) != 1 || w.Kind != gen.WindowKindHost ||
			w.Size != 4096 {
			t.Errorf("windows %+v, want one host window of 4096 bytes", image.Windows)
		}
		replay, device := loadOnMock(t, image, runtime.AnyTLBWindow)
		mustRun(t, replay, device)
	}
}

// TestUnusedRegionsAreDropped: iATU regions without an access leave no command in the image, which
// could not be loaded with stores to the iATU. The import of a trace that does not show host memory
// says so.
func TestUnusedRegionsAreDropped(t *testing.T) {
	list := concat(regionLines(0x1200, 3, 3<<30, 0x30000000, 3<<30),
		pointLines(&boards.Wormhole, 1, 1, 0), []string{storeLine(0, 0xb000100, 1, 2, 3, 4)})
	image, report := importRecord(t, recordOf(whRecord, list...), Options{})
	const want = "8 accesses to iATU registers left out: at replay, the backend programs the " +
		"iATU; 1 iATU region without an access dropped"
	wantSummary(t, report, "iATU", want)
	checkCommands(t, image, "\npoint tlb0 (1,1) 0x0\nwrite tlb0+0x100 w4 0x4030201\n")
	_, report = mustImport(t, mmiotrace(whDevice, "W 4 1.000000 1 0xc0001204 0x80000000 0x0 0",
		whPoint(wh166Config, 1, 1, 0), access("W", 4, wh166, 1)), Options{})
	if !strings.Contains(report.String(), "warning   the trace does not show host memory") {
		t.Errorf("the report lacks the warning that host memory is not shown:\n%s", report)
	}
	wantError(t, recordOf(whRecord, "W 2 1304 4 00000000"), Options{From: FromRecord},
		"line 6: store to inbound region 0 of the iATU: images must not change what the BARs "+
			"map to")
}

// TestRegionInsideAPageIsRejected enables regions whose base or target is not the start of a page.
func TestRegionInsideAPageIsRejected(t *testing.T) {
	for _, c := range []struct {
		base, target uint64
		want         string
	}{
		{0x20, 1 << 30, "maps 0x20 to bus address 0x40000000"},
		{0x1000, 0x40000800, "maps 0x1000 to bus address 0x40000800"},
	} {
		text := recordOf(whRecord, regionLines(0x1200, 2, c.base, 1<<20, c.target)...)
		wantError(t, text, Options{From: FromRecord},
			"line 13: region 2 of the iATU "+c.want+"; both must be multiples of 4096")
	}
}

// TestHostMemoryOfARecordingIsImportedWithItsData: the device reads a descriptor that the program
// changes between two doorbells, and writes answers that the program may have waited for. Bus
// address 0 is valid.
func TestHostMemoryOfARecordingIsImportedWithItsData(t *testing.T) {
	doorbell := func(n byte) string { return storeLine(0, 0xb000100, n, 0, 0, 0) }
	text := recordOf(whRecord, concat(regionLines(0x1200, 0, 0, 1<<30, 0),
		pointLines(&boards.Wormhole, 1, 1, 0), []string{
			doorbell(1), "CLK 5", "HR 0 8 1100000000000000", "CLK 5", "HW 40 4 aa000000",
			"HW 44 8 0102030405060708",
			doorbell(2), "HR 0 8 1200000000000000", "CLK 5", "HW 40 4 ab000000",
		})...)
	image, report := importRecord(t, text, Options{})
	checkCommands(t, image, `
copyin bulk host0+0x0 w8 1100000000000000
fence
point tlb0 (1,1) 0x0
write tlb0+0x100 w4 0x1
poll host0+0x48 w4 0x8070605 mask 0xffffffff for 1000000 us
fence
expect host0+0x40 w8 0x4030201000000aa mask 0xffffffffffffffff
expect host0+0x48 w4 0x8070605 mask 0xffffffff
copyin bulk host0+0x0 w1 12
fence
write tlb0+0x100 w4 0x2
poll host0+0x40 w4 0xab mask 0xffffffff for 1000000 us
fence
expect host0+0x40 w4 0xab mask 0xffffffff
`)
	const want = "host memory host0: 8 bytes with 0 host memory addresses"
	wantSummary(t, report, "fill", want)
}

// TestAddressesThatTilesUseBecomeRelocations stores 8 bytes that are the address of recorded host
// memory as tiles see it, and two other values.
func TestAddressesThatTilesUseBecomeRelocations(t *testing.T) {
	text := recordOf(whRecord, concat(regionLines(0x1200, 0, 0, 1<<30, 0),
		pointLines(&boards.Wormhole, 1, 1, 0), []string{
			"W 0 b000200 24 0000000000000000" + "4000000008000000" + "ffffffffffffffff",
			storeLine(0, 0xb000100, 1, 0, 0, 0), "CLK 5", "HR 40 4 11000000",
		})...)
	image, report := importRecord(t, text, Options{})
	checkCommands(t, image, `
copyin bulk host0+0x40 w4 11000000
fence
point tlb0 (1,1) 0x0
write tlb0+0x200 w8 0x0
write tlb0+0x208 w8 0x40
write tlb0+0x210 w8 0xffffffffffffffff
write tlb0+0x100 w4 0x1
`)
	got := passSummary(report, "host")
	if got != "1 store of host memory addresses became relocations" || len(report.Warnings) != 0 {
		t.Errorf("want 1 relocation and no warning; report:\n%v", report)
	}
	replay, device := loadOnMock(t, image, runtime.AnyTLBWindow)
	mustRun(t, replay, device)
	var stored [8]byte
	if c := mock.CopyAt(replay.Aperture(0), gen.OpcodeCopyOut, 0x208, 8, gen.AccessExact,
		stored[:]); c != hal.OK {
		t.Fatalf("copying out of the tile: code %v, want OK", c)
	}
	if bus := replay.Aperture(1).BusAddress; binary.LittleEndian.Uint64(stored[:]) != bus+0x40 {
		t.Errorf("the tile has the address %#x, want %#x in the host memory",
			binary.LittleEndian.Uint64(stored[:]), bus+0x40)
	}
}

// TestHostMemoryKeepsAddressesCompiledIntoKernels imports accesses of kernels that have the
// addresses of two queues compiled in, 768 MiB apart. The first address of the PCIe tile is also in
// a table, as in each tile's table of tt-metal: there it is data.
func TestHostMemoryKeepsAddressesCompiledIntoKernels(t *testing.T) {
	const table = "W 0 b000200 16 0000000008000000" + "4000000008000000"
	body := func(more ...string) []string {
		return concat(pointLines(&boards.Wormhole, 1, 1, 0), []string{
			table, storeLine(0, 0xb000100, 1, 0, 0, 0), "CLK 5", "HR 40 4 11000000",
			"HR 180040 4 12000000"}, more)
	}
	queue := []string{"HW 2ffff000 8 2200000000000000",
		storeLine(0, 0xb000100, 2, 0, 0, 0), "CLK 5", "HR 40 4 13000000", "HW 30000000 4 23000000"}
	for name, lines := range map[string][]string{
		"regions":    append(regionLines(0x1200, 0, 0, 1<<30, 0), body(queue...)...),
		"no regions": body(queue...),
	} {
		image, report := importRecord(t, recordOf(whRecord, lines...), Options{})
		checkCommands(t, image, `
copyin bulk host0+0x40 w4 11000000
copyin bulk host1+0x40 w4 12000000
fence
point tlb0 (1,1) 0x0
copyin bulk tlb0+0x200 w8 00000000080000004000000008000000
fence
write tlb0+0x100 w4 0x1
poll host2+0x0 w4 0x22 mask 0xffffffff for 1000000 us
fence
expect host2+0x0 w8 0x22 mask 0xffffffffffffffff
copyin bulk host0+0x40 w1 13
fence
write tlb0+0x100 w4 0x2
poll host2+0x1000 w4 0x23 mask 0xffffffff for 1000000 us
fence
expect host2+0x1000 w4 0x23 mask 0xffffffff
`)
		const want = "3 host windows with the bus addresses of the recording, because the device " +
			"reaches 0x800180000, an address that the program never stores"
		if got := passSummary(report, "fix"); got != want {
			t.Errorf("%s: summary of the pass fix: %q, want %q", name, got, want)
		}
		replay, _ := loadOnMock(t, image, runtime.AnyTLBWindow)
		for i, bus := range []uint64{0x8_0000_0000, 0x8_0018_0000, 0x8_2fff_f000} {
			if got := replay.Aperture(i + 1).BusAddress; got != bus {
				t.Errorf("%s: host%d is at bus address 0x%x, want 0x%x", name, i, got, bus)
			}
		}
	}
	// If the tile reaches the stored address, it becomes a relocation, unless the user wants fixed
	// addresses.
	lines := append(regionLines(0x1200, 0, 0, 1<<30, 0), body()[:len(body())-1]...)
	_, report := importRecord(t, recordOf(whRecord, lines...), Options{})
	if passSummary(report, "fix") != "" ||
		passSummary(report, "host") != "2 stores of host memory addresses became relocations" {
		t.Errorf("want 2 relocations and no fixed window; report:\n%v", report)
	}
	_, report = importRecord(t, recordOf(whRecord, lines...), Options{FixedHost: true})
	if passSummary(report, "fix") != "1 host window with the bus addresses of the recording" ||
		passSummary(report, "host") != "0 stores of host memory addresses became relocations" {
		t.Errorf("FixedHost: want 1 fixed window and no relocation; report:\n%v", report)
	}
}

// TestHostMemoryInTooManyPlacesIsRejected: Wormhole's iATU has 16 regions.
func TestHostMemoryInTooManyPlacesIsRejected(t *testing.T) {
	lines := append(pointLines(&boards.Wormhole, 1, 1, 0), storeLine(0, 0xb000100, 1, 0, 0, 0))
	for n := range uint64(17) { // region 1 maps to another bus address each time
		lines = append(lines, regionLines(0x1200, 1, n<<27, 0x1000, (n+40)<<33)...)
		lines = append(lines, storeLine(0, 0xb000100, 1, 0, 0, 0), "CLK 5",
			fmt.Sprintf("HR %x 4 11000000", (n+40)<<33))
	}
	wantError(t, recordOf(whRecord, lines...), Options{From: FromRecord},
		"the device reaches host memory in 17 places that are far apart, "+
			"but board wormhole can map only 16 places")
}

// TestHostMemoryThatADriverPinnedKeepsItsAddress: a program pins 1 GiB for queues, whose addresses
// kernels have compiled in. The image has windows only for the parts with recorded accesses.
func TestHostMemoryThatADriverPinnedKeepsItsAddress(t *testing.T) {
	lines := []string{"DEVICE 0 1e52 401e 0000:01:00.0", "BAR 0 0 0 100000000 20000000",
		"MEM 800000000 40000000"}
	lines = append(lines, pointLines(&boards.Wormhole, 1, 1, 0)...)
	lines = append(lines, "HR 800000040 8 1100000000000000",
		"W 0 b000200 8 0000000008000000", "W 0 b000100 4 01000000",
		"HW 830000000 4 22000000", "W 0 b000100 4 02000000")
	text := recordText(lines)
	image, _ := importRecord(t, text, Options{})
	checkCommands(t, image, `
fill exact host0+0x0 w8 4096 bytes 0x0
fill exact host1+0x0 w8 4096 bytes 0x0
fence
copyin bulk host0+0x40 w8 1100000000000000
fence
point tlb0 (1,1) 0x0
write tlb0+0x200 w8 0x800000000
write tlb0+0x100 w4 0x1
poll host1+0x0 w4 0x22 mask 0xffffffff for 1000000 us
fence
expect host1+0x0 w4 0x22 mask 0xffffffff
write tlb0+0x100 w4 0x2
`)
	replay, _ := loadOnMock(t, image, runtime.AnyTLBWindow)
	for i, bus := range []uint64{0x8_0000_0000, 0x8_3000_0000} {
		if got := replay.Aperture(i + 1).BusAddress; got != bus {
			t.Errorf("host%d is at bus address 0x%x, want 0x%x", i, got, bus)
		}
	}
}

// TestClocksOfARecordingCountAsNanoseconds checks that the importer counts each clock of a
// simulator as 1 ns when it computes the deadline of a poll and when it warns of a pause.
func TestClocksOfARecordingCountAsNanoseconds(t *testing.T) {
	loop := func(clocks string) string {
		return recordOf(whRecord, concat(pointLines(&boards.Wormhole, 1, 1, 0), []string{
			storeLine(0, 0xb000100, 1, 0, 0, 0), loadLine(0, 0xb000104, 0),
			clocks, loadLine(0, 0xb000104, 0), clocks, loadLine(0, 0xb000104, 1)})...)
	}
	// The loop takes twice the given clocks: 2 ns or 600 ms. The deadline is ten times this
	// duration, but at least 1 s.
	for clocks, us := range map[string]int{"CLK 1": 1_000_000, "CLK 300000000": 6_000_000} {
		image, _ := importRecord(t, loop(clocks), Options{})
		checkCommands(t, image,
			fmt.Sprintf("\npoint tlb0 (1,1) 0x0\nwrite tlb0+0x100 w4 0x1\n"+
				"poll tlb0+0x104 w4 0x1 mask 0xffffffff for %d us\n", us))
	}
	for clocks, warned := range map[string]bool{"CLK 9999998": false, "CLK 10000000": true} {
		text := recordOf(whRecord, concat(pointLines(&boards.Wormhole, 1, 1, 0),
			[]string{storeLine(0, 0xb000100, 1, 0, 0, 0), clocks,
				storeLine(0, 0xb000200, 2, 0, 0, 0)})...)
		_, report := importRecord(t, text, Options{})
		if got := strings.Contains(report.String(),
			"warning   line 9: the program paused"); got != warned {
			t.Errorf("%s: warned of a pause: %v, want %v; report:\n%v", clocks, got, warned, report)
		}
	}
}

// TestPartOfARecordingIsImported selects one of three frames by its lines or by marks, because an
// input has only one value in a run. The part begins with the windows as they were configured.
func TestPartOfARecordingIsImported(t *testing.T) {
	list := concat(pointLines(&boards.Wormhole, 1, 1, 0),
		[]string{"MARK set up", storeLine(0, 0xb000100, 1, 0, 0, 0)})
	for frame := range byte(3) {
		list = append(list, fmt.Sprintf("MARK frame %d", frame),
			storeLine(0, 0xb000200, frame, 0, 0, 0), storeLine(0, 0xb000204, 0x10+frame, 0, 0, 0),
			loadLine(0, 0xb000300, uint32(frame)))
	}
	text := recordOf(whRecord, list...)
	want := "\npoint tlb0 (1,1) 0x0\ncopyin bulk tlb0+0x200 w4 0100000011000000\nfence\n" +
		"expect tlb0+0x300 w4 0x1 mask 0xffffffff\n"
	for _, part := range []string{"frame 1..frame 2", "13..16", "13..frame 2"} {
		p, err := ParsePart(part)
		if err != nil {
			t.Fatal(err)
		}
		image, report := importRecord(t, text,
			Options{Part: p, Without: []string{"mark"}, Inputs: []TensorSpec{}})
		checkCommands(t, image, want)
		if got := passSummary(report, "read"); !strings.Contains(got, "accesses outside the part") {
			t.Errorf("part %s: summary of the pass read: %q, want the number of accesses outside "+
				"the part", part, got)
		}
	}
	p, _ := ParsePart("..8")
	image, _ := importRecord(t, text, Options{Part: p})
	checkCommands(t, image, "\npoint tlb0 (1,1) 0x0\nmark set up\nwrite tlb0+0x100 w4 0x1\n")
	for part, want := range map[string]string{
		"frame 7..":        `the trace has no mark "frame 7", at which the part must begin`,
		"frame 1..frame 0": `the trace has no mark "frame 0" after the start of the part`,
		"100..":            "the part begins at line 100, but the trace has 20 lines",
	} {
		p, err := ParsePart(part)
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, text, Options{From: FromRecord, Part: p}, want)
	}
	for _, bad := range []string{"", "..", "7", "9..3", "0..4"} {
		if _, err := ParsePart(bad); hal.CodeOf(err) != hal.Usage {
			t.Errorf("ParsePart(%q): error %v, want a usage error", bad, err)
		}
	}
}

// TestFrameOfTheVendorsClientHasAnInput: the frames of the vendor's client differ in their input.
// The whole recording is rejected with this input, the first frame is imported.
func TestFrameOfTheVendorsClientHasAnInput(t *testing.T) {
	text := captureText(t, "wh.frames.record.gz")
	o := Options{From: FromRecord, Inputs: []TensorSpec{mustTensor(t, "a=18,18,0x20000,int32,128")}}
	_, _, err := Import(strings.NewReader(text), o)
	if err == nil || !strings.Contains(err.Error(), "an input has only one value in each run") {
		t.Fatalf("import of the whole recording: error %v, want one value in each run", err)
	}
	var line int
	fmt.Sscanf(err.Error(), "line %d:", &line)
	o.Part = Part{To: fmt.Sprint(line - 1)}
	image, _ := mustImport(t, text, o)
	if image.Tensors[0].Name != "a" || len(image.Tensors[0].Data) != 512 {
		t.Errorf("tensor %+v, want a of 512 bytes", image.Tensors[0])
	}
}

// TestSeveralRunningCoresGetASafeSequence starts cores in one tile and in two tiles. A driver's
// cleanup stops only one tile.
func TestSeveralRunningCoresGetASafeSequence(t *testing.T) {
	release := func(x uint8) []string {
		// 0x6f is an instruction that jumps to itself.
		return concat(pointLines(&boards.Wormhole, x, 1, 0),
			[]string{storeLine(0, 0xb000000, 0x6f, 0, 0, 0)},
			pointLines(&boards.Wormhole, x, 1, 0xff000000),
			[]string{storeLine(0, 0xbb121b0, 0, 0x70, 4, 0)})
	}
	one, _ := importRecord(t, recordOf(whRecord, release(1)...), Options{})
	if len(one.Sequences) != 1 {
		t.Errorf("%d sequences for one tile, want 1", len(one.Sequences))
	}
	image, report := importRecord(t, recordOf(whRecord,
		concat(release(1), release(2), release(1))...), Options{})
	if len(image.Sequences) != 2 || image.Sequences[1].Name != "safe" ||
		passSummary(report, "safe") != "the program started cores in 2 tiles or tile rectangles: "+
			"the sequence safe puts these cores in reset" {
		t.Fatalf("%d sequences for two tiles, want 2, the second named safe; report:\n%v",
			len(image.Sequences), report)
	}
	safe := *image
	safe.Sequences = image.Sequences[1:]
	checkCommands(t, &safe, "\npoint tlb0 (1,1) 0xffb00000\nwrite tlb0+0x121b0 w4 0x47800\n"+
		"point tlb0 (2,1) 0xffb00000\nwrite tlb0+0x121b0 w4 0x47800\n")
	replay, device := loadOnMock(t, image, runtime.AnyTLBWindow)
	mustRun(t, replay, device)
	if r := replay.Run(1); r.Code != hal.OK {
		t.Errorf("sequence safe ends with code %v, want OK; the mock rejected: %q", r.Code,
			device.Refusal())
	}
}

// TestCheckOfTheResetRegisterIsMasked: a load of the register that puts cores in reset expects only
// the bits of these cores, not the other bits of the register.
func TestCheckOfTheResetRegisterIsMasked(t *testing.T) {
	for _, b := range []struct {
		board  *boards.Board
		device string
		window uint64
	}{{&boards.Wormhole, whRecord, 0xbb121b0}, {&boards.Blackhole, bhRecord, 0x1121b0}} {
		text := recordOf(b.device,
			append(pointLines(b.board, 1, 2,
				0xffa00000&^uint64(map[bool]uint64{true: 1<<24 - 1}[b.board == &boards.Wormhole])),
				loadLine(0, b.window, 0x80047800|1<<3))...)
		image, _ := importRecord(t, text, Options{})
		if got := imageText(image); !strings.HasSuffix(got, "w4 0x47800 mask 0x47800\n") {
			t.Errorf("%s: want an expect of 0x47800 with mask 0x47800 as the last command; "+
				"commands:\n%s", b.board.Name, got)
		}
	}
}

func TestRecordingWithoutDeviceAccessIsRejected(t *testing.T) {
	o := Options{From: FromRecord}
	wantError(t, "", o, "the recording is empty: lm record was killed before it wrote, or the "+
		"program did not open the simulator (libttsim_init); record again")
	wantError(t, recordOf(whRecord, "CR 0 0 4 521e1e40", "CLK 7"), o,
		"the recording contains no access to a BAR: the program only opened the simulator "+
			"(1 load of configuration space, 1 clock "+
			"step)")
}

// TestBlockOfARecordingEqualsItsAccesses: a long line of a recording becomes few commands at any
// offset and length, and is read as aligned accesses with the same data.
func TestBlockOfARecordingEqualsItsAccesses(t *testing.T) {
	effort.SkipShort(t)
	data := make([]byte, 3<<20+13)
	for i := range data {
		data[i] = byte(i * 7 >> (i % 5))
	}
	blocks := recordOf(whRecord, append(pointLines(&boards.Wormhole, 1, 1, 0),
		storeLine(0, 0xb000003, data...), fmt.Sprintf("R 0 b000003 %d %s", len(data),
			fmt.Sprintf("%x", data)))...)
	image, _ := importRecord(t, strings.Replace(blocks, pointLines(&boards.Wormhole, 1, 1, 0)[0],
		pointLines(&boards.Wormhole, 0, 0, 0)[0], 1), Options{})
	if n := len(image.Sequences[0].Commands); n > 40 {
		t.Errorf("the image has %d commands, want at most 40", n)
	}
	replay, device := loadOnMock(t, image, runtime.AnyTLBWindow)
	mustRun(t, replay, device)
	_, list, err := traces.Read(strings.NewReader(blocks), traces.Source{From: FromRecord})
	if err != nil {
		t.Fatal(err)
	}
	at, got := uint64(0xb000003), []byte(nil)
	for _, a := range list {
		if a.Op == traces.OpStore && a.Offset < 0x1fc00000 {
			if a.Offset != at || a.Offset%uint64(a.Width) != 0 {
				t.Fatalf("access %+v, want an aligned one at %#x", a, at)
			}
			got = append(got, binary.LittleEndian.AppendUint64(nil, a.Value)[:a.Width]...)
			at += uint64(a.Width)
		}
	}
	if string(got) != string(data) {
		t.Errorf("the stores that Read returns have %d bytes that differ from the %d bytes of the "+
			"recording", len(got), len(data))
	}
}

// TestLongLinesAreReadCompletely: a long line, which is read in several parts, loses no digit. An
// incomplete long line is rejected.
func TestLongLinesAreReadCompletely(t *testing.T) {
	for _, size := range []int{32750, 32768, 65536, 100_001} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i ^ i>>8)
		}
		text := recordOf(whRecord, append(pointLines(&boards.Wormhole, 0, 0, 0),
			storeLine(0, 0xb000000, data...))...)
		image, _ := importRecord(t, text, Options{})
		var got []byte
		for _, c := range image.Sequences[0].Commands {
			if c.Opcode == gen.OpcodeWrite {
				c.Data = binary.LittleEndian.AppendUint64(nil, c.Value)[:c.Width]
			}
			if c.Opcode == gen.OpcodeWrite || c.Opcode == gen.OpcodeCopyIn {
				got = append(got, c.Data...)
			}
		}
		if string(got) != string(data) {
			t.Errorf("line of %d bytes: the image has %d bytes that differ from those of the line",
				size, len(got))
		}
		bad := strings.Replace(text, fmt.Sprintf("%x", data[:8]),
			"zz"+fmt.Sprintf("%x", data[:8])[2:], 1)
		for _, broken := range []string{bad, strings.Replace(text, fmt.Sprintf("%x", data[size-8:]),
			fmt.Sprintf("%x", data[size-8:])[1:], 1),
			strings.Replace(text, fmt.Sprintf(" %d ", size), fmt.Sprintf(" %d ", size-1), 1)} {
			if _, _, err := Import(strings.NewReader(broken),
				Options{From: FromRecord}); err == nil ||
				!strings.Contains(err.Error(), "bytes in hexadecimal digits") {
				t.Errorf("corrupted line of %d bytes: error %v, want one that names hexadecimal "+
					"digits", size, err)
			}
		}
		if _, _, err := Import(io.LimitReader(strings.NewReader(text), int64(len(text)-40)),
			Options{From: FromRecord}); err == nil {
			t.Errorf("the import accepts an incomplete line of %d bytes, want an error", size)
		}
	}
}
