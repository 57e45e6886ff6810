package importer

import (
	"strings"
	"testing"

	"lightmetal/boards"
)

// storedThreeTimes returns the recording of a driver that uses one buffer for three requests.
func storedThreeTimes() string {
	return recordText([]string{"DEVICE 0 1b36 0010 0000:00:08.0", "BAR 0 0 0 feb80000 4000",
		"MEM 10000 1000", "HR 10000 8 0100000000000000", "W 0 28 4 00000100", "W 0 2c 4 00000000",
		"W 0 1000 4 01000000", "HR 10000 16 41414141414141414141414141414141",
		"W 0 1008 4 02000000", "HR 10000 8 5a5a5a5a5a5a5a5a", "W 0 1008 4 03000000"})
}

func TestInputThatIsStoredSeveralTimesNeedsALine(t *testing.T) {
	o := Options{From: FromRecord, Inputs: []TensorSpec{mustTensor(t, "x=bus:0x10000,uint8,8")}}
	wantError(t, storedThreeTimes(), o, "the program stores different values to input x "+
		"(lines 5, 9, 11), but an input has only one value in each run; choose one of the stores "+
		"with --input x=bus:0x10000@LINE")
	o.Inputs[0] = mustTensor(t, "x=bus:0x10000@12,uint8,8")
	wantError(t, storedThreeTimes(), o,
		"line 12: the program does not store to input x in or after this line")
	const first, second, third = "copy.8 host0+0x0 <- hex 01000000 00000000 bulk\nfence\n",
		"copy.8 host0+0x0 <- hex 41414141 41414141 41414141 41414141 bulk\nfence\n",
		"copy.8 host0+0x0 <- hex 5a5a5a5a 5a5a5a5a bulk\nfence\n"
	const input, rest = "copy.8 host0+0x0 <- x[0:8]\nfence\n",
		"copy.8 host0+0x8 <- hex 41414141 41414141 bulk\n"
	for line, want := range map[string][]string{
		"5": {"\x01\x00", input, second, third}, "9": {"AA", first, rest + input, third},
		"10": {"ZZ", first, second, input}, "11": {"ZZ", first, second, input},
	} {
		o.Inputs[0] = mustTensor(t, "x=bus:0x10000@"+line+",uint8,8")
		commands := want[1] + "write.8 bar0+0x28 bus(host0)\n" +
			"write.4 bar0+0x1000 0x1\n" + want[2] + "write.4 bar0+0x1008 0x2\n" + want[3] +
			"write.4 bar0+0x1008 0x3\n"
		got := importedListing(t, storedThreeTimes(), o)
		image, _ := mustImport(t, storedThreeTimes(), o)
		if !strings.HasSuffix(got, commands) ||
			!strings.HasPrefix(string(image.Tensors[0].Data), want[0]) {
			t.Errorf("line %s: data %q, want %q; commands\n%s\nwant at the end\n%s", line,
				image.Tensors[0].Data, want[0], got, commands)
		}
	}
	// Without line 9 in between, the last value is the one that the device reads.
	text := strings.Replace(storedThreeTimes(), "W 0 1008 4 02000000\n", "", 1)
	text = strings.Replace(text, "END 11", "END 10", 1)
	o.Inputs[0] = mustTensor(t, "x=bus:0x10000@9,uint8,8")
	if image, _ := mustImport(t, text, o); string(image.Tensors[0].Data) != "ZZZZZZZZ" {
		t.Errorf("got %q, want the last value before the store", image.Tensors[0].Data)
	}
}

// writtenTwice returns the recording of a driver that has a device write the same memory twice.
// between is what the program does between the two.
func writtenTwice(between ...string) string {
	list := []string{"DEVICE 0 1b36 0010 0000:00:08.0", "BAR 0 0 0 feb80000 4000",
		"MEM 10000 1000", "W 0 28 4 00000100", "W 0 2c 4 00000000", "W 0 1000 4 01000000",
		"HW 10000 8 4141414141414141", "W 0 1004 4 01000000"}
	return recordText(append(append(list, between...), "W 0 1000 4 02000000",
		"HW 10000 8 4242424242424242", "W 0 1004 4 02000000"))
}

func TestOutputThatNothingElseShowsIsWaitedFor(t *testing.T) {
	o := Options{From: FromRecord, Outputs: []TensorSpec{mustTensor(t, "y=bus:0x10000,uint8,8")}}
	text := writtenTwice("HR 10000 8 0000000000000700")
	got := importedListing(t, text, o)
	const want = `write.4 bar0+0x1000 0x1
poll.4 host0+0x4 != 0x0 within 1s
fence
write.4 bar0+0x1004 0x1
copy.8 host0+0x0 <- hex 00000000 00000700 bulk
fence
write.4 bar0+0x1000 0x2
poll.4 host0+0x4 != 0x70000 within 1s
fence
copy.8 y[0:8] <- host0+0x0
write.4 bar0+0x1004 0x2
`
	if !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant at the end\n%s", got, want)
	}
	_, report := mustImport(t, text, o)
	if !strings.Contains(report.String(), "until the word at bus address 0x10004 is not 0x0") ||
		strings.Contains(report.String(), "the program, not the device") {
		t.Errorf("want a warning of the wait, and none of a program that stored last:\n%s", report)
	}
	// The first result, which the image does not know, is there before the second.
	wantError(t, writtenTwice(), o, "line 11: output y: only the output shows that the device has "+
		"written it, and the image does not know its bytes before; record again so that the "+
		"program clears it first, or waits for a register, an interrupt or other memory")
	o.Frame = Part{From: "7", To: "9"}
	wantError(t, writtenTwice(), o, "line 8: output y: only the output shows that the device has "+
		"written it, and the image does not know its bytes before; record again so that the "+
		"program clears it first, or waits for a register, an interrupt or other memory")
}

// TestAllOnesIsNoAddress has host memory up to the end of 4 GiB, as Linux maps it.
func TestAllOnesIsNoAddress(t *testing.T) {
	text := recordText([]string{"MEM fffff000 1000", "DEVICE 0 8086 10d3 0000:00:08.0",
		"BAR 0 0 0 feb80000 20000", "HR fffff000 16 ffffffff00000000f0ffffff00000000",
		"W 0 d8 4 ffffffff", "W 0 100 4 f0ffffff", "W 0 108 4 ffffffff", "W 0 10c 4 00000000"})
	device := &boards.Board{Name: "generic", BarSizes: [6]uint64{0x20000},
		Rules: []boards.AccessRule{{Last: 0x1ffff, Widths: 4, Name: "registers"}}}
	got := importedListing(t, text, Options{From: FromRecord, Board: device,
		BarSizesAreLimits: true})
	for _, want := range []string{"write.4 bar0+0xd8 0xffffffff\n",
		"write.4 bar0+0x100 bus(host0)+0xff0\n", "write.4 bar0+0x108 0xffffffff\n",
		"write.8 host0+0x8 bus(host0)+0xff0\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the commands lack %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "+0xfff") {
		t.Errorf("all ones became an address:\n%s", got)
	}
}
