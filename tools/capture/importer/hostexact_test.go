package importer

import (
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/image/listing"
)

// nvmeSession returns the recording that lm record writes of a driver that identifies an NVMe
// controller. vendor is the controller's answer. more is appended. The first MEM lines come before
// the device's line.
func nvmeSession(vendor string, more ...string) string {
	lines := []string{
		"MEM 43080000 1000", "EVENT a tale of memory", "DEVICE 0 1b36 0010 0000:00:04.0",
		"BAR 0 0 0 80000000 4000",
		"MEM 43081000 1000", "MEM 7ffffff000 1000",
		"W 0 24 4 01000100", "W 0 28 4 00000843", "W 0 2c 4 00000000", "W 0 30 8 0010084300000000",
		"W 0 14 4 01004600", "R 0 1c 4 01000000",
		"HR 43080000 8 0600010000000000", "HR 43080018 8 00f0ffff7f000000",
		"HR 43080028 8 0100000000000000", "W 0 1000 4 01000000",
		"HW 7ffffff000 4 " + vendor, "HW 43081008 8 0100000001000100", "W 0 1004 4 01000000",
	}
	lines = append(lines, more...)
	return recordText(lines)
}

// importedListing imports a recording and returns its commands in the syntax of listings.
func importedListing(t *testing.T, text string, o Options) string {
	t.Helper()
	image, _ := mustImport(t, text, o)
	var b strings.Builder
	for i := range image.Sequences[0].Commands {
		fmt.Fprintln(&b,
			strings.Join(strings.Fields(listing.CommandText(image,
				&image.Sequences[0].Commands[i])), " "))
	}
	return b.String()
}

// TestRecordedHostMemoryBecomesWindowsCopiesAndRelocations: they are where the program made its
// stores, and the image waits for the data that the device wrote.
func TestRecordedHostMemoryBecomesWindowsCopiesAndRelocations(t *testing.T) {
	o := Options{From: FromRecord}
	want := `fill.8 host0+0x0 <- 0x0 size 8KiB
fill.8 host1+0x0 <- 0x0 size 4KiB
fence
write.4 bar0+0x24 0x10001
write.8 bar0+0x28 bus(host0)
write.8 bar0+0x30 bus(host0)+0x1000
write.4 bar0+0x14 0x460001
poll.4 bar0+0x1c & 0xf == 0x1 within 1s
copy.8 host0+0x0 <- hex 06000100 00000000 bulk
copy.8 host0+0x18 <- hex 00f0ffff 7f000000 bulk
write.8 host0+0x18 bus(host1)
copy.8 host0+0x28 <- hex 01000000 00000000 bulk
fence
write.4 bar0+0x1000 0x1
poll.4 host1+0x0 == 0x1af41b36 within 1s
poll.4 host0+0x100c == 0x10001 within 1s
fence
expect.8 host0+0x1008 == 0x1000100000001
expect.4 host1+0x0 == 0x1af41b36
write.4 bar0+0x1004 0x1
`
	if got := importedListing(t, nvmeSession("361bf41a"), o); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	image, report := mustImport(t, nvmeSession("361bf41a"), o)
	if text := report.String(); !strings.Contains(text, "a tale of memory") {
		t.Errorf("the report lacks the recording's event:\n%s", text)
	}
	replay, device := loadOnMock(t, image, runtime.AnyTLBWindow)
	mustRun(t, replay, device)
}

func TestUnexpectedDataOfTheDeviceEndsTheReplayUnlessIgnored(t *testing.T) {
	image, _ := mustImport(t, nvmeSession("361bf41b"), Options{From: FromRecord})
	replay, _ := loadOnMock(t, image, runtime.AnyTLBWindow)
	if r := replay.Run(0); r.Code != hal.DeadlinePassed {
		t.Errorf("replay with another vendor: %+v, want DeadlinePassed", r)
	}
	image, _ = mustImport(t, nvmeSession("361bf41b"),
		Options{From: FromRecord, Ignore: []Range{{Place{Bus: true}, 0x7ffffff000, 0x7fffffffff}}})
	replay, device := loadOnMock(t, image, runtime.AnyTLBWindow)
	mustRun(t, replay, device)
	for i := range image.Sequences[0].Commands {
		if c := &image.Sequences[0].Commands[i]; c.Opcode == gen.OpcodeExpect &&
			image.Windows[c.Window].Name == "host1" {
			t.Error("a command waits for ignored data: ", listing.CommandText(image, c))
		}
	}
}

// TestPartOfARecordingStartsWithEarlierStoresToMemory: an image of a part writes the data to host
// memory that the program stored there before the part.
func TestPartOfARecordingStartsWithEarlierStoresToMemory(t *testing.T) {
	got := importedListing(t, nvmeSession("361bf41a"),
		Options{From: FromRecord, Part: Part{From: "16", To: "20"}})
	for _, line := range []string{"copy.8 host0+0x0 <- hex 06000100 00000000 bulk",
		"write.8 host0+0x18 bus(host1)", "write.4 bar0+0x1000 0x1"} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("the commands lack %q:\n%s", line, got)
		}
	}
	if strings.Contains(got, "bar0+0x14") {
		t.Errorf("the part has an access that was before it:\n%s", got)
	}
}

func TestHostMemoryOfOneMiBIsOneWindow(t *testing.T) {
	session := nvmeSession("361bf41a", "MEM 430fffff 1", "HR 430fffff 1 05", "W 0 1004 4 01000000")
	image, _ := mustImport(t, session, Options{From: FromRecord})
	if n, want := len(image.Windows), 3; n != want {
		t.Errorf("%d windows, want %d", n, want)
	}
}

func TestInvalidHostMemoryIsRejected(t *testing.T) {
	o := Options{From: FromRecord}
	wantError(t, nvmeSession("361bf41a", "MEM 10000000 100000", "MEM 10500000 1000",
		"MEM 10100000 800000"), o,
		"line 23: host memory at 0x10100000, 8388608 bytes, overlaps host memory "+
			"host3, but an image cannot join ranges that were separate before")
	wantError(t, nvmeSession("361bf41a", "MEM 8000000000 80000000"), o,
		"line 21: host memory at 0x8000000000, 2147483648 bytes, is too much: an image may "+
			"have at most 1024 MiB in one range and 4096 MiB in all")
	wantError(t, nvmeSession("361bf41a", "MEM 10000000 0"), o,
		"line 21: host memory of 0 bytes at 0x10000000 must not be empty and must end below 2^64")
	wantError(t, nvmeSession("361bf41a", "MEM ffffffffffffffff 2"), o,
		"line 21: host memory of 2 bytes at 0xffffffffffffffff must not be empty and must end "+
			"below 2^64")
}

func TestRecordingWithoutAccessesReportsItsContentsAndARemedy(t *testing.T) {
	o := Options{From: FromRecord}
	wantError(t, "LMRECORD 2\nDEVICE 0 1b36 0010 0000:00:04.0\nBAR 0 0 0 80000000 4000\n"+
		"CR 0 0 4 361b1000\nCW 0 4 2 0600\nEND 4\n", o,
		"the recording contains no access to 0000:00:04.0: the program mapped a BAR but did not "+
			"access the BAR (1 load and 1 store of configuration space); "+
			"`lm record --help` lists the mappings that lm can record")
	wantError(t, "LMRECORD 2\nEND 0\n", o,
		"line 1: the recording is empty: the program did not map a BAR of a device, or "+
			"--device names another device; `lm record --help` lists the mappings "+
			"that lm can record")
}

// allocatedBytes returns how many bytes the function do allocates on the heap.
func allocatedBytes(do func()) uint64 {
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	do()
	goruntime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestUnaccessedHostMemoryAllocatesLittle: the import allocates little for recorded host memory
// without accesses, even if it is large or recorded twice. Its size is limited.
func TestUnaccessedHostMemoryAllocatesLittle(t *testing.T) {
	o := Options{From: FromRecord}
	if n := allocatedBytes(func() {
		mustImport(t, nvmeSession("361bf41a", "MEM 10000000 4000000", "MEM 10000000 4000000"), o)
	}); n > 16<<20 {
		t.Errorf("importing 64 MiB of unaccessed host memory allocates %d bytes, "+
			"want at most 16 MiB", n)
	}
	wantError(t, nvmeSession("361bf41a", "MEM 1 ffffffffffffffff"), o,
		"line 21: host memory at 0x1, 18446744073709551615 bytes, is too much: an image may "+
			"have at most 1024 MiB in one range and 4096 MiB in all")
	var many []string
	for i := range 5 {
		many = append(many, fmt.Sprintf("MEM %x 40000000", (i+1)<<40))
	}
	wantError(t, nvmeSession("361bf41a", many...), o,
		"line 24: host memory at 0x40000000000, 1073741824 bytes, is too much: an image may "+
			"have at most 1024 MiB in one range and 4096 MiB in all")
}

func TestStoresBeforeAPartAreMergedAndTheLastWins(t *testing.T) {
	var many []string
	for i := range 4000 {
		many = append(many, fmt.Sprintf("HR %x 4 01000000", 0x43081010+i%500*8))
	}
	many = append(many, "HR 43081008 16 02000000020000000200000002000000",
		"HR 43081000 16 03000000030000000300000003000000", "W 0 1008 4 01000000")
	o := Options{From: FromRecord, Part: Part{From: fmt.Sprint(20 + len(many))}}
	var got string
	if n := allocatedBytes(func() {
		got = importedListing(t, nvmeSession("361bf41a", many...), o)
	}); n > 64<<20 {
		t.Errorf("importing %d stores allocates %d bytes, want at most 64 MiB", len(many), n)
	}
	if want := "copy.8 host0+0x1000 <- hex 03000000 03000000 03000000 03000000 ... (24 bytes) " +
		"bulk\n"; !strings.Contains(got, want) {
		t.Errorf("the commands lack %q:\n%.600s", want, got)
	}
}

// TestHalvesOfAnAddressBecomeOneRelocation: if no register accepts 8 bytes, the store of the lower
// half becomes a relocation, and the upper half is zero on the target.
func TestHalvesOfAnAddressBecomeOneRelocation(t *testing.T) {
	device := &boards.Board{Name: "generic", BarSizes: [6]uint64{1: 4096},
		Rules: []boards.AccessRule{{Bar: 1, Last: 4095, Widths: 4, Name: "registers"}}}
	o := Options{From: FromRecord, Board: device, BarSizesAreLimits: true}
	for _, c := range []struct{ list, want string }{
		{"W 0 20 4 00100843,W 0 24 4 01000000",
			"write.4 bar1+0x20 bus(host0)+0x1000,write.4 bar1+0x24 0x0"},
		{"W 0 18 4 01000000,W 0 10 4 00100843",
			"write.4 bar1+0x18 0x0,write.4 bar1+0x10 bus(host0)+0x1000"},
		{"W 0 20 4 00100843,W 0 2c 4 01000000",
			"write.4 bar1+0x20 0x43081000,write.4 bar1+0x2c 0x1"},
		{"W 0 20 4 00200843,W 0 24 4 01000000",
			"write.4 bar1+0x20 0x43082000,write.4 bar1+0x24 0x1"},
		{"W 0 20 4 00100843,R 0 28 4 00000000,W 0 24 4 01000000",
			"write.4 bar1+0x20 0x43081000,expect.4 bar1+0x28 == 0x0,write.4 bar1+0x24 0x1"},
	} {
		lines := append([]string{"LMRECORD 2", "DEVICE 0 15ad 07b0 0000:00:06.0",
			"BAR 0 0 1 10000000 1000", "MEM 143080000 2000"}, strings.Split(c.list, ",")...)
		text := strings.Join(lines, "\n") + fmt.Sprintf("\nEND %d\n", len(lines)-1)
		// The first two commands fill the memory with zeros, and are a fence.
		got := strings.Split(strings.TrimSpace(importedListing(t, text, o)), "\n")[2:]
		if strings.Join(got, ",") != c.want {
			t.Errorf("%s: commands %q, want %s", c.list, got, c.want)
		}
		_, report := mustImport(t, text, o)
		if reported := strings.Contains(report.String(),
			"stored in halves to offsets 0x"); reported != strings.Contains(c.want, "bus(") {
			t.Errorf("%s: halves of an address reported: %v, want %v; report:\n%v", c.list,
				reported, !reported, report)
		}
	}
}

// recordWithAnswers returns the recording of two requests to a device. kind is the line of the
// answers, 16 bytes at 10002000: written by the device (HW) or, wrongly, by the program (HR).
func recordWithAnswers(kind string) string {
	lines := []string{
		"MEM 10000000 4000", "DEVICE 0 1234 11e8 0000:00:04.0", "BAR 0 0 0 80000000 100000",
		"HR 10000000 8 0100000000000000", "W 0 4 4 01000000",
		kind + " 10002000 16 a0a1a2a3a4a5a6a7a8a9aaabacadaeaf", "HR 10000000 8 0200000000000000",
		"W 0 4 4 02000000", "R 0 20 4 80000000",
		kind + " 10002000 8 b0b1b2b3b4b5b6b7", "HW 10002008 8 b8b9babbbcbdbebf", "W 0 4 4 03000000",
	}
	if kind == "HR" {
		lines = slices.DeleteFunc(lines,
			func(line string) bool { return strings.HasPrefix(line, "HW") })
	}
	return recordText(lines)
}

// TestAnswersStoredByTheProgramCauseAWarning imports recordings in which only the program stored to
// some memory, or to an output.
func TestAnswersStoredByTheProgramCauseAWarning(t *testing.T) {
	o := Options{From: FromRecord}
	const never = "host0, bus address 0x10000000: the recording shows no write by the device"
	_, report := mustImport(t, recordWithAnswers("HR"), o)
	if !strings.Contains(report.String(), never) ||
		!strings.Contains(report.String(), "--protect all") {
		t.Errorf("answers of the program: the report lacks %q or --protect all:\n%v", never, report)
	}
	_, report = mustImport(t, recordWithAnswers("HW"), o)
	if strings.Contains(report.String(), never) {
		t.Errorf("answers of the device: the report has %q:\n%v", never, report)
	}
	output, err := ParseTensor("answer=bus:0x10002000,uint8,16")
	if err != nil {
		t.Fatal(err)
	}
	o.Outputs = []TensorSpec{output}
	wantError(t, recordWithAnswers("HR"), o,
		"output answer: the recording shows no write by the device to this output; the recording "+
			"shows that the program stored 16 bytes there; if the device wrote these bytes, "+
			"record again with lm record --protect all or --watch (private huge pages: only "+
			"--watch)")
	if _, report := mustImport(t, recordWithAnswers("HW"), o); strings.Contains(report.String(),
		"the recording shows that the program") {
		t.Errorf("answers of the device: the report names the program:\n%v", report)
	}
	mixed := strings.Replace(recordWithAnswers("HW"), "HW 10002000 8", "HR 10002000 8", 1)
	if _, report := mustImport(t, mixed, o); !strings.Contains(report.String(),
		"output answer: the program, not the device, stored 8 bytes of this output last") {
		t.Errorf("half of the answer by the program: the report lacks the warning:\n%v", report)
	}
}

// mixedRecording has a page that a program and a device wrote between two stores.
func mixedRecording(mixed ...string) string {
	return recordText(slices.Concat([]string{"DEVICE 0 1b36 0010 0000:00:08.0",
		"BAR 0 0 0 feb80000 4000", "MEM 10000 2000", "W 0 28 4 00000100", "W 0 2c 4 00000000",
		"W 0 1000 4 01000000"}, mixed, []string{"W 0 1004 4 01000000", "R 0 1c 4 01000000"}))
}

// TestImageNeverHasItsOwnAnswers: of a page that both wrote, the user names who stored what.
func TestImageNeverHasItsOwnAnswers(t *testing.T) {
	text := mixedRecording("HB 10000 16 41414141414141414242424242424242",
		"HB 10010 8 4343434343434343", "HB 11000 8 4444444444444444")
	o := Options{From: FromRecord}
	wantError(t, text, o, "line 8: host memory at bus addresses 0x10000 to 0x10017 (and 1 more "+
		"range): between two stores to the device, both the program and the device wrote this "+
		"page, and the recording does not show who wrote these bytes; --ignore "+
		"bus:0x10000-0x10017,bus:0x11000-0x11007 leaves them to the device, --as-data "+
		"bus:0x10000-0x10017,bus:0x11000-0x11007 or an --input stores them; or record again so "+
		"that buffers do not share pages: "+recordFlagsHint)
	bus := func(first, last uint64) []Range { return []Range{{Place{Bus: true}, first, last}} }
	o.Ignore, o.AsData = bus(0x10000, 0x10007), bus(0x10008, 0x1000f)
	o.Inputs = []TensorSpec{mustTensor(t, "x=bus:0x10010,uint8,8")}
	_, _, err := Import(strings.NewReader(text), o)
	if err == nil || !strings.HasPrefix(err.Error(),
		"line 10: host memory at bus addresses 0x11000 to 0x11007: ") {
		t.Errorf("got %v, want the range that no flag names", err)
	}
	o.Ignore = append(o.Ignore, bus(0x11000, 0x11fff)...)
	got := importedListing(t, text, o)
	if !strings.Contains(got, "copy.8 host0+0x8 <- hex 42424242 42424242 bulk\n") ||
		!strings.Contains(got, "copy.8 host0+0x10 <- x[0:8]\n") ||
		strings.Contains(got, "41414141") || strings.Contains(got, "44444444") ||
		strings.Contains(got, "poll.4 host") {
		t.Errorf("want the stores of the program, and nothing of the device:\n%s", got)
	}
	o = Options{From: FromRecord, Part: Part{To: "7"}}
	if got := importedListing(t, text, o); !strings.Contains(got, "bar0+0x1000") {
		t.Errorf("a part before this page:\n%s", got)
	}
}

// TestPartHasNoMemoryOfLaterLines: what is mapped and written after the part is not in its image.
func TestPartHasNoMemoryOfLaterLines(t *testing.T) {
	text := mixedRecording("MEM 900000 1000", "HR 900000 8 4141414141414141",
		"HR 10000 8 4242424242424242", "HW 11000 8 4343434343434343")
	got := importedListing(t, text, Options{From: FromRecord, Part: Part{To: "7"}})
	if strings.Contains(got, "host1") || strings.Contains(got, "4141") ||
		strings.Contains(got, "4242") || !strings.Contains(got, "write.4 bar0+0x1000 0x1\n") {
		t.Errorf("want only what the part has:\n%s", got)
	}
	image, _ := mustImport(t, text, Options{From: FromRecord})
	if n := len(image.Windows); n != 3 {
		t.Errorf("the image of all has %d windows, want 3", n)
	}
}

// TestDataOfTheDeviceBetweenFrameAndStopAreNotInTheImage: neither sequence has these lines.
func TestDataOfTheDeviceBetweenFrameAndStopAreNotInTheImage(t *testing.T) {
	text := mixedRecording("R 0 1c 4 01000000", "W 0 1008 4 01000000",
		"HW 10000 8 4343434343434343", "W 0 1008 4 02000000")
	image, _ := mustImport(t, text, Options{From: FromRecord,
		Frame: Part{From: "7", To: "8"}, Stop: Part{From: "11"}})
	if got := imageText(image); strings.Contains(got, "43434343") {
		t.Errorf("the image has data of line 10:\n%s", got)
	}
}

// TestAnyDeviceMayKeepItsBusAddresses has a device without tiles.
func TestAnyDeviceMayKeepItsBusAddresses(t *testing.T) {
	text := mixedRecording("HR 11000 8 0010010000000000", "HW 10000 8 4343434343434343")
	o := Options{From: FromRecord, FixedHost: true}
	image, _ := mustImport(t, text, o)
	if w := image.Windows[len(image.Windows)-1]; fbs.FixedBusAddress(&w.Window) != 0x10000 {
		t.Errorf("window %+v, want one at bus address 0x10000", w)
	}
	got := importedListing(t, text, o)
	for _, want := range []string{"write.8 bar0+0x28 0x10000\n",
		"copy.8 host0+0x1000 <- hex 00100100 00000000 bulk\n",
		"poll.4 host0+0x4 == 0x43434343"} {
		if !strings.Contains(got, want) {
			t.Errorf("the image lacks %q:\n%s", want, got)
		}
	}
}
