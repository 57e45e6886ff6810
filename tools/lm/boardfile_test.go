package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// adderRecord is a recording of a device with unknown PCI ids. The device has registers of 32 bits,
// a doorbell of 64 bits and memory.
const adderRecord = `LMRECORD 1
DEVICE ab1e 0001
BAR 0 10000000 1000
BAR 2 20000000 1000
BAR 4 0 0
R 0 0 4 0140dead
W 2 0 4 01000000
W 2 40 4 0a000000
W 0 18 8 0100000000000000
R 0 10 4 00000000
R 0 10 4 00000000
R 0 10 4 01000000
R 2 80 4 0b000000
END 8
`

// writeAdderFiles writes adderRecord and its board file to a new directory, and returns the
// directory and the paths of both files.
func writeAdderFiles(t *testing.T) (folder, rec, board string) {
	t.Helper()
	folder = t.TempDir()
	rec, board = filepath.Join(folder, "adder.record"), filepath.Join(folder, "adder.board")
	if err := os.WriteFile(rec, []byte(adderRecord), 0o644); err != nil {
		t.Fatal(err)
	}
	if exit, _, stderr := lm(t, "board-file", "--name", "adder", "--rule", "2=1,2,4,8,memory", rec,
		"-o", board); exit != 0 {
		t.Fatalf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
	return folder, rec, board
}

func TestBoardFileOfARecordingHasTheWidthsThatWereUsed(t *testing.T) {
	_, _, board := writeAdderFiles(t)
	text, err := os.ReadFile(board)
	if err != nil {
		t.Fatal(err)
	}
	const want = `device adder ab1e:0001 bar0 4KiB bar2 4KiB
rule registers bar0 offset 0x0 size 24 widths 4
rule "at 0x18" bar0 offset 0x18 size 8 widths 8
rule registers bar0 offset 0x20 size 4064 widths 4
rule memory bar2 offset 0x0 size 4KiB widths 1 2 4 8 memory
`
	if _, rest, _ := strings.Cut(string(text), "lightmetal 1\n"); rest != want {
		t.Errorf("the board file is\n%s\nwant\n%s", text, want)
	}
}

// TestRecordingOfAnUnknownDeviceReplays: the recording becomes an image with the board file's
// rules, and a replay makes the recorded accesses.
func TestRecordingOfAnUnknownDeviceReplays(t *testing.T) {
	folder, rec, board := writeAdderFiles(t)
	image := filepath.Join(folder, "adder.lmb")
	for _, c := range []struct {
		exit int
		want string // part of the standard output or the standard error
		args []string
	}{
		{0, "3 loads in 1 loop became 1 poll",
			[]string{"import", "--from", "record", "--board", board, "--input",
				"a=bar2+0x0,uint32,1", "--output", "sum=bar2+0x80,uint32,1", rec, "-o", image}},
		{0, "no board has the PCI ids ab1e:0001, so the access rules are " +
			"those of the image (4 rules)",
			[]string{"verify", image}},
		{0, "rule         memory: BAR 2 0x0 to 0xfff, accesses of 1, 2, 4, 8 bytes, memory",
			[]string{"info", image}},
		{0, "valid, 6 commands\n  main                            6 commands,",
			[]string{"verify", image}},
		{0, `"commands":6,`, []string{"verify", "--json", image}},
		{0, `"first":0,"last":4095,"widths":[1,2,4,8],"memory":true}`,
			[]string{"info", "--json", image}},
		{0, "rule \"at 0x18\" bar0 offset 0x18 size 8 widths 8\n", []string{"dump", image}},
		{0, "done: main", []string{"replay", "--device", "playback:" + rec + "," + board,
			"--check-golden", image}},
		{0, "done: main", []string{"replay", "--device", "playback:" + rec, image}},
		{76, "bar0+0x0 == 0xadde4001: got 0x0 (13 bits differ)",
			[]string{"replay", "--device", "mock:" + board, image}},
		{76, "bar0+0x0 == 0xadde4001: got 0x0 (13 bits differ)",
			[]string{"replay", "--device", "mock:" + image, image}},
		{64, "mock:" + image, []string{"replay", image}},
		{65, "store of 8 bytes at BAR 0 + 0x18: board generic does not accept this width there " +
			"(registers); --rule 0+0x18..0x20=8 allows it",
			[]string{"import", "--from", "record", "--board", "generic", rec, "-o", image + "2"}},
		{0, "1 poll", []string{"import", "--from", "record", "--board", "generic", "--rule",
			"0+0x18..0x20=8", rec, "-o", image + "2"}},
		{0, "device       generic, PCI ab1e:0001, BAR 0 of at least 32 bytes, BAR 2 of at least " +
			"256 bytes", []string{"info", image + "2"}},
		{64, "no board \"nowhere\"; use edu",
			[]string{"import", "--from", "record", "--board", "nowhere", rec, "-o", image + "3"}},
		{66, "nowhere.board", []string{"import", "--from", "record", "--board", "nowhere.board",
			rec, "-o", image + "3"}},
		{65, "is neither a board file nor an image",
			[]string{"import", "--from", "record", "--board", rec, rec, "-o", image + "3"}},
		{64, "edu has its own rules", []string{"import", "--from", "record", "--board", "edu",
			"--rule", "0=4", rec, "-o", image + "3"}},
		{64, "--rule needs --board", []string{"import", "--from", "record", "--rule", "0=4",
			rec, "-o", image + "3"}},
		{0, `"loads":425`, []string{"import", "--summary", "--json", "--from", "qemu", "--board",
			"generic", testdataPath(t, "captures", "edu.qemutrace")}},
		{64, "needs --device VVVV:DDDD, the PCI ids",
			[]string{"import", "--from", "qemu", "--board", "generic", rec, "-o", image + "3"}},
		{64, "--board for a similar board; boards: edu (1234:11e8)",
			[]string{"import", "--from", "record", rec, "-o", image + "3"}},
		{64, "mock:FILE with a board file", []string{"replay", "--device", "mock:generic", image}},
		{69, "is not a PCI device under /sys", []string{"board-file", "pci:ffff:00:00.0"}},
		{66, "nowhere.record", []string{"board-file", "nowhere.record"}},
		{65, "adder.board:", []string{"board-file", board}},
		{64, "each width must be 1, 2, 4 or 8", []string{"board-file", "--rule", "0=3", rec}},
		{64, `lm has a board with the name "edu" and other PCI ids`,
			[]string{"board-file", "--name", "edu", rec}},
	} {
		exit, stdout, stderr := lm(t, c.args...)
		if exit != c.exit || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("lm %v: exit status %d\n%s%s\twant %d, %q", c.args, exit, stdout, stderr,
				c.exit, c.want)
		}
	}
}

// TestReplayThatDiffersFromTheRecordingFails if it makes fewer, more or other accesses than the
// recording.
func TestReplayThatDiffersFromTheRecordingFails(t *testing.T) {
	folder, rec, board := writeAdderFiles(t)
	for _, c := range []struct {
		body, want string
		exit       int
	}{
		{"  expect.4 r+0x0 == 0xadde4001\n", "the run ended, but ", 70},
		{"  expect.4 r+0x4 == 0x0\n", "expected access 1 of ", 70},
		{"  expect.4 r+0x0 == 0xadde4001\n  write.4 m+0x0 2\n", "expected access 2 of ", 70},
	} {
		source, image := filepath.Join(folder, "x.lms"), filepath.Join(folder, "x.lmb")
		if err := os.WriteFile(source,
			[]byte("lightmetal 1\ntarget adder ab1e:0001 bar0 4KiB bar2 4KiB\n"+
				"window r bar0 size 4KiB\nwindow m bar2 size 4KiB\nmain:\n"+c.body),
			0o644); err != nil {
			t.Fatal(err)
		}
		// lm asm rejects the listing, which has no rules, unless a board file has rules for it.
		if exit, _, stderr := lm(t, "asm", source, "-o", image); exit != 65 ||
			!strings.Contains(stderr,
				" of BAR 0: lm has no board with the device's PCI ids, and the listing has no "+
					"rules; use --board generic") {
			t.Errorf("exit status %d, want 65; stderr: %s", exit, stderr)
		}
		if exit, _, stderr := lm(t, "asm", "--board", board, source, "-o", image); exit != 0 {
			t.Fatalf("exit status %d, want 0; stderr: %s", exit, stderr)
		}
		exit, _, stderr := lm(t, "replay", "--device", "playback:"+rec+","+board, image)
		if exit != c.exit || !strings.Contains(stderr, c.want) {
			t.Errorf("%sexit status %d, want %d and %q; stderr: %s", c.body, exit, c.exit, c.want,
				stderr)
		}
		if exit, _, stderr := lm(t, "asm", "--board", "generic", source, "-o", image); exit != 0 {
			t.Errorf("exit status %d, want 0; stderr: %s", exit, stderr)
		}
	}
}
