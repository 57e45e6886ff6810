package boardfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
)

// rulesText returns the rules of a board as a listing writes them, without the word rule.
func rulesText(t *testing.T, b *boards.Board, bars [6]uint64) string {
	t.Helper()
	image := &lmb.Image{Devices: []lmb.Device{{Board: "x", Vendor: 1, Device: 2, Bars: bars}},
		Rules: lmb.RulesOf(b, 0, bars)}
	var out bytes.Buffer
	if err := listing.Print(&out, image); err != nil {
		t.Fatal(err)
	}
	_, rules, _ := strings.Cut(out.String(), "\nrule ")
	return strings.ReplaceAll("rule "+rules, "rule ", "")
}

func TestGenericDeviceAccepts32BitsUnlessARuleSaysOtherwise(t *testing.T) {
	bars := [6]uint64{0: 4096, 2: 1 << 20}
	for _, test := range []struct {
		rules []string
		want  string
	}{
		{nil, "registers bar0 offset 0x0 size 4KiB widths 4\n" +
			"registers bar2 offset 0x0 size 1MiB widths 4\n"},
		{[]string{"0+0x80..0x100=4,8", "bar2=1,2,4,8,memory"},
			"registers bar0 offset 0x0 size 128 widths 4\n" +
				"\"at 0x80\" bar0 offset 0x80 size 128 widths 4 8\n" +
				"registers bar0 offset 0x100 size 3840 widths 4\n" +
				"memory bar2 offset 0x0 size 1MiB widths 1 2 4 8 memory\n"},
		// The ranges next to a rule begin and end at multiples of the access width.
		{[]string{"0+5..6=1"},
			"registers bar0 offset 0x0 size 4 widths 4\n" +
				"\"at 0x5\" bar0 offset 0x5 size 1 widths 1\n" +
				"registers bar0 offset 0x8 size 4088 widths 4\n" +
				"registers bar2 offset 0x0 size 1MiB widths 4\n"},
		{[]string{"0+1..3=1"},
			"\"at 0x1\" bar0 offset 0x1 size 2 widths 1\n" +
				"registers bar0 offset 0x4 size 4092 widths 4\n" +
				"registers bar2 offset 0x0 size 1MiB widths 4\n"},
	} {
		b, err := Generic(test.rules)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := rulesText(t, b, bars); got != test.want {
			t.Errorf("%v: got\n%swant\n%s", test.rules, got, test.want)
		}
	}
}

func TestInvalidRulesAreRejected(t *testing.T) {
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf("0+%d..%d=8", 64*i, 64*i+8))
	}
	for _, test := range []struct {
		want  string
		rules []string
	}{
		{"=WIDTHS is missing", []string{"0+0..4"}},
		{"BAR must be 0 to 5", []string{"6=4"}},
		{"BAR must be 0 to 5", []string{"x=4"}},
		{"must be numbers, OFFSET < END <= 2^40", []string{"0+8..8=4"}},
		{"must be numbers, OFFSET < END <= 2^40", []string{"0+8=4"}},
		{"must be numbers, OFFSET < END <= 2^40", []string{"0+0..0xffffffffffffffff=4"}},
		{"each width must be 1, 2, 4 or 8", []string{"0=3"}},
		{"each width must be 1, 2, 4 or 8", []string{"0=16"}},
		{"each width must be 1, 2, 4 or 8", []string{"0="}},
		{"a width is missing", []string{"0=memory"}},
		{"must be multiples of the smallest width", []string{"0+2..8=4"}},
		{"must be multiples of the smallest width", []string{"0+0..6=4,8"}},
		{"two rules contain byte 0x4 of BAR 0", []string{"0+0..8=4", "0+4..16=4"}},
		{"405 access rules, but an image may have at most 256", many},
	} {
		if _, err := Generic(test.rules); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error %v, want one with %q", test.rules[0], err, test.want)
		}
	}
	if _, err := With(&boards.Board{Name: "b", BarSizes: [6]uint64{0: 64}},
		[]string{"0+64..68=4"}); err == nil ||
		!strings.Contains(err.Error(), "but BAR 0 of board b has only 0x40 bytes") {
		t.Errorf("rule after the end of BAR 0: error %v, want one that names the size", err)
	}
}

func TestInvalidBoardFilesAreRejectedWithPlaceAndReason(t *testing.T) {
	const head = "lightmetal 1\ntarget x ab1e:0001 bar0 4KiB\n"
	for _, test := range []struct{ text, want string }{
		{"", "x.board:1:1: the listing is empty"},
		{"lightmetal 1\n", "a board file must have exactly one `device` line"},
		{head, "the board file has no rules"},
		{head + "rule r bar0\nwindow w bar0 size 4\n", "and otherwise only `rule` lines"},
		{head + "rule r bar0\nmain:\n", "and otherwise only `rule` lines"},
		{head + "target y ab1e:0002 bar0 4KiB\nrule r bar0\n",
			"a board file must have exactly one `device` line"},
		{head + "rule r bar0\nrule s bar0 offset 4\n",
			"x.board:4:6: the rule overlaps another rule of bar0"},
		{head + "rule r bar1\n", "x.board:3:6: the rule covers no bytes of bar1 of x"},
		{head + "tensor a input int8[4] = file \"/etc/passwd\"\n",
			"x.board:3:31: a board file cannot contain data: remove this line"},
		{"lightmetal 1\ntarget edu ab1e:0001 bar0 4KiB\nrule r bar0\n",
			`lm has a board with the name "edu" and other PCI ids`},
		{"lightmetal 1\ntarget edu 1234:11e8 bar0 4KiB\nrule r bar0\n",
			"1234:11e8 is the board edu, which has its own rules"},
	} {
		if _, err := Parse("x.board", []byte(test.text)); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error %v, want one with %q", test.text, err, test.want)
		}
	}
	if !IsText([]byte("# a comment\n\nlightmetal 1\n")) || IsText([]byte("LMB1")) || IsText(nil) {
		t.Error("IsText does not distinguish the start of a board file from other files")
	}
}

func TestDeviceIsDescribedByItsSysfsDirectory(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("vendor", "0xab1e\n")
	write("device", "0x0001\n")
	// The lines that Linux 6.1 writes: registers, an I/O range, 64-bit prefetchable memory, three
	// unused ranges, a ROM.
	write("resource", "0x0000000010000000 0x0000000010000fff 0x0000000000040200\n"+
		"0x0000000000001000 0x000000000000101f 0x0000000000040101\n"+
		"0x0000008000000000 0x00000080000fffff 0x000000000014220c\n"+
		strings.Repeat("0x0000000000000000 0x0000000000000000 0x0000000000000000\n", 3)+
		"0x0000000010040000 0x000000001007ffff 0x0000000000046200\n")
	const want = "lightmetal 1\ndevice pci-ab1e-0001 ab1e:0001%s bar0 4KiB bar2 1MiB\n" +
		"rule registers bar0 offset 0x0 size 4KiB widths 4\n" +
		"rule memory bar2 offset 0x0 size 1MiB widths 1 2 4 8 memory\n"
	for _, subsystem := range []string{"", " subsystem ab1e:0002"} {
		image, err := FromDevice(folder)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := listing.Print(&out, image); err != nil ||
			out.String() != fmt.Sprintf(want, subsystem) {
			t.Errorf("error %v, listing\n%swant\n%s", err, out.String(),
				fmt.Sprintf(want, subsystem))
		}
		write("subsystem_vendor", "0xab1e\n")
		write("subsystem_device", "0x0002\n")
	}
	write("device", "nonsense\n")
	if _, err := FromDevice(folder); err == nil ||
		!strings.Contains(err.Error(), "is not a PCI device under /sys") {
		t.Errorf("invalid device id: error %v, want one that says this is not a PCI device", err)
	}
	write("vendor", "0x1234\n")
	write("device", "0x11e8\n")
	if _, err := FromDevice(folder); err == nil ||
		!strings.Contains(err.Error(), "1234:11e8 is board edu, which has its own rules") {
		t.Errorf("device of a known board: error %v, want one that names board edu", err)
	}
}

// TestRecordingWithoutADeviceIsRejected reads recordings that are cut or have a gap before the
// device's line.
func TestRecordingWithoutADeviceIsRejected(t *testing.T) {
	for text, want := range map[string]string{
		"LMRECORD 2\n":                "2:1: the recording has no END line",
		"LMRECORD 2\nGAP x\nEND 1\n":  "2:1: the recording is incomplete: x",
		"LMRECORD 2\nMEM 1000 1000\n": "3:1: the recording has no END line",
	} {
		if _, err := FromRecord(strings.NewReader(text), ""); err == nil ||
			!strings.Contains(err.Error(), "the recording has no device: "+want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

func TestRulesFollowTheRecordedWidths(t *testing.T) {
	seen := map[uint64]uint8{0: 4, 2: 8, 3: 8, 4: 1 | 2, 511: 2}
	got := rulesOfWidths(1, seen, 4096)
	want := "[{1 16 31 8 false false at 0x10} {1 32 39 3 false false at 0x20} {1 4088 4095 2 " +
		"false false at 0xff8}]"
	if fmt.Sprint(got) != want {
		t.Errorf("rules %v, want %s", got, want)
	}
	// Scattered accesses of all widths make a few rules, not one for each access.
	clear(seen)
	for i := range uint64(4000) {
		seen[i*3] = uint8(1 << (i % 4))
	}
	if got := rulesOfWidths(1, seen, 1<<20); len(got) > rulesPerBarMax {
		t.Errorf("%d rules, want at most %d", len(got), rulesPerBarMax)
	}
	// The last rule ends with the BAR.
	if got := rulesOfWidths(1, map[uint64]uint8{2: 1 | 2}, 21); len(got) != 1 || got[0].Last != 20 {
		t.Errorf("rules %v, want one that ends at offset 20", got)
	}
}
