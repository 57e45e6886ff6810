package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rehearsed is an image with five checks before a poll that fails. On memory that is 0, two of the
// checks hold. The sequence safe stores 1 at 0.
const rehearsed = `lightmetal 1
device ivshmem 1af4:1110 bar2 1MiB
window m bar2 offset 0 size 1MiB
main:
  write.4 m+0x10 0x1
  expect.4 m+0x20 == 0x2
  expect.4 m+0x10 == 0x1
  call sub
  expect.4 m+0x24 == 0x0
  compare.4 m+0x40 uint32 == uint32 0 2
  poll.4 m+0x28 == 0x1 within 1ms
  expect.4 m+0x2c == 0x7
sub:
  write.4 m+0x30 0x5
  expect.4 m+0x30 == 0x6
safe:
  write.4 m+0x0 0x1
`

func TestRehearsalShowsAllChecksThatFailUpToTheFirstPollThatDoes(t *testing.T) {
	image := assemble(t, rehearsed)
	exit, out, errs := lm(t, "replay", "--rehearse", "--device", "mock:ivshmem", image)
	const want = `# 5 checks made, 3 did not hold
# 1 of 1 check; the first: main, command 1: expect.4 m+0x20 == 0x2: got 0x0 (bits that differ: 1)
--wait bar2+0x20
# or --ignore bar2+0x20
# 1 of 1 check; the first: sub, command 1: expect.4 m+0x30 == 0x6: got 0x5 (bits that differ: 0, 1)
--ignore bar2+0x30
# or --wait bar2+0x30
# 1 of 1 check; the first: main, command 5: compare.4 m+0x40: element 1: got 0x0, wanted 0x2 ` +
		`(bits that differ: 1)
--ignore bar2+0x40-0x47
# the run ended at main, command 6: poll.4 m+0x28 == 0x1: got 0x0 after 1 ms (bits that differ: 0)
# what follows it was not rehearsed
# or --ignore bar2+0x28
# or --reached bar2+0x28
`
	if exit != 75 || out != want {
		t.Errorf("exit status %d, output\n%swant 75,\n%s", exit, out, want)
	}
	if end := "main, command 6: poll.4 m+0x28 == 0x1: got 0x0 after 1 ms (bits that differ: 0); " +
		"then sequence safe ran: done\n"; !strings.HasSuffix(errs, end) {
		t.Errorf("the error is %q, want one that ends with %q", errs, end)
	}
}

func TestRehearsalFailsIfACheckDoes(t *testing.T) {
	fails := assemble(t, edu+"main:\n  expect.4 r+0x0 == 0x1\n")
	exit, _, errs := lm(t, "replay", "--rehearse", "--device", "mock:edu", fails)
	if exit != 76 || !strings.Contains(errs, "1 of 1 check did not hold, at 1 place") {
		t.Errorf("exit status %d, error %q; want 76", exit, errs)
	}
	holds := assemble(t, edu+"main:\n  expect.4 r+0x0 == 0x010000ed\n")
	exit, out, errs := lm(t, "replay", "--rehearse", "--json", "--device", "mock:edu", holds)
	if exit != 0 || errs != "" ||
		!strings.Contains(out, `"rehearsal":{"checks":1,"differ":0,"findings":[]}`) {
		t.Errorf("exit status %d, output %q, error %q; want 0", exit, out, errs)
	}
}

func TestRehearsalOnHardwareIsAskedFor(t *testing.T) {
	image := assemble(t, edu+"main:\n  expect.4 r+0x0 == 0x1\n")
	for _, device := range []string{"pci:1234:11e8", "vfio:1234:11e8", "tt:/dev/tenstorrent/0"} {
		exit, _, errs := lm(t, "replay", "--rehearse", "--device", device, image)
		if exit != 64 || !strings.Contains(errs, "--rehearse-on-hardware") {
			t.Errorf("%s: exit status %d, error %q; want 64", device, exit, errs)
		}
	}
	if exit, _, errs := lm(t, "replay", "--rehearse", "--loop", "2", "--device", "mock:edu",
		image); exit != 64 || !strings.Contains(errs, "--loop") {
		t.Errorf("--loop: exit status %d, error %q; want 64", exit, errs)
	}
}

// The device needs time after its doorbell, and has a counter that differs in each run.
func TestImportAppliesARehearsal(t *testing.T) {
	folder := t.TempDir()
	trace := filepath.Join(folder, "x.record")
	const records = "LMRECORD 1\nDEVICE 1af4 1110\nBAR 0 0 0\nBAR 2 10000000 100000\nBAR 4 0 0\n"
	text := records + "W 2 10 4 01000000\nR 2 20 4 00000000\n" +
		"W 2 10 4 02000000\nR 2 24 4 07000000\nEND 4\n"
	if err := os.WriteFile(trace, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	image, flags := filepath.Join(folder, "x.lmb"), filepath.Join(folder, "x.flags")
	if exit, _, errs := lm(t, "import", trace, "-o", image); exit != 0 {
		t.Fatal(errs)
	}
	exit, out, _ := lm(t, "replay", "--rehearse", "--device", "mock:ivshmem", image)
	if exit != 76 || !strings.Contains(out, "\n# or --ignore bar2+0x24\n") {
		t.Fatalf("exit status %d, output %s; want 76, and a flag for 0x24", exit, out)
	}
	out = strings.ReplaceAll(out, "# or --ignore", "--ignore")
	out = strings.ReplaceAll(out, "--wait", "# --wait")
	if err := os.WriteFile(flags, []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
	if exit, _, errs := lm(t, "import", "--rehearsal", flags, trace, "-o", image); exit != 0 {
		t.Fatal(errs)
	}
	if exit, out, errs := lm(t, "replay", "--device", "mock:ivshmem", image); exit != 0 {
		t.Errorf("after --rehearsal: exit status %d, %s%s", exit, out, errs)
	}
	if exit, _, errs := lm(t, "import", "--rehearsal", tempFile(t, "empty.flags", ""), trace, "-o",
		image); exit != 65 || !strings.Contains(errs, "the file is empty") {
		t.Errorf("an empty file: exit status %d, error %q; want 65", exit, errs)
	}
	place := tempFile(t, "place.flags", "\n--wait bar0+foo\n")
	if exit, _, errs := lm(t, "import", "--rehearsal", place, trace, "-o", image); exit != 65 ||
		!strings.Contains(errs, "place.flags: line 2: ") {
		t.Errorf("a wrong place: exit status %d, error %q; want 65 and line 2", exit, errs)
	}
	bad := tempFile(t, "bad.flags", "# a comment\n\n--board edu\n")
	exit, _, errs := lm(t, "import", "--rehearsal", bad, trace, "-o", image)
	if exit != 65 || !strings.Contains(errs, "bad.flags: line 3: ") {
		t.Errorf("a file with another flag: exit status %d, error %q; want 65 and line 3", exit,
			errs)
	}
}
