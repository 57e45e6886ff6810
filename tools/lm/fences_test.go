package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// fencedHeader is the header of a listing with windows of device memory (m), of device memory with
// write-combining (w) and of host memory (h).
const fencedHeader = `lightmetal 1
target ivshmem 1af4:1110 bar2 1MiB
window m bar2 offset 0x0 size 1MiB
window w bar2 offset 0x1000 size 4KiB wc
window h host size 4KiB
tensor d output uint8[64]
`

// assembleToFile assembles a listing and returns the path of the image.
func assembleToFile(t *testing.T, source string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.lms")
	if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	out := strings.TrimSuffix(path, ".lms") + ".lmb"
	if exit, _, stderr := lm(t, "asm", path, "-o", out); exit != 0 {
		t.Fatalf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
	return out
}

// TestVerifyWarnsOfFencesThatAreMissing around accesses to host memory, and after bulk copies
// through a write-combining window.
func TestVerifyWarnsOfFencesThatAreMissing(t *testing.T) {
	const missing = "a fence is missing between command 0 of main, which "
	storeWarning := func(at string) string {
		return missing + "stores to host memory, and " + at + ", which stores to the device"
	}
	bulkWarning := func(at string) string {
		return missing + "copies in bulk through a write-combining window, and " + at +
			", which accesses the device"
	}
	waitWarning := func(at string) string {
		return missing + "waits for the device, and " + at + ", which loads from host memory"
	}
	for _, test := range []struct {
		body string
		want []string
	}{
		{"  write.4 h+0x0 0x1\n  write.4 m+0x0 0x1\n", []string{storeWarning("command 1 of main")}},
		{"  write.4 h+0x0 0x1\n  fence\n  write.4 m+0x0 0x1\n", nil},
		{"  write.4 h+0x0 0x1\n  flush.4 m+0x0\n  write.4 m+0x0 0x1\n", nil},
		{"  copy.4 h+0x0 <- hex 01020304\n  delay 1us\n  fill.4 m+0x0 <- 0x1 size 8\n" +
			"  write.4 m+0x0 0x1\n", []string{storeWarning("command 2 of main")}},
		{"  write.4 m+0x0 0x1\n  write.4 h+0x0 0x1\n", nil},
		{"  poll.4 m+0x0 == 0x1 within 1ms\n  copy.4 d[0:64] <- h+0x0\n",
			[]string{waitWarning("command 1 of main")}},
		{"  poll.4 h+0x0 == 0x1 within 1ms\n  compare.4 h+0x0 uint32 == uint32 1\n",
			[]string{waitWarning("command 1 of main")}},
		{"  poll.4 m+0x0 == 0x1 within 1ms\n  fence\n  copy.4 d[0:64] <- h+0x0\n", nil},
		{"  poll.4 m+0x0 == 0x1 within 1ms\n  copy.4 d[0:64] <- m+0x0\n", nil},
		{"  write.4 h+0x0 0x1\n  call ring\n  call ring\nring:\n  write.4 m+0x0 0x1\n",
			[]string{storeWarning("command 0 of ring")}},
		{"  write.4 h+0x0 0x1\n  call order\n  write.4 m+0x0 0x1\norder:\n  fence\n", nil},
		{"  copy.8 w+0x0 <- hex 0102030405060708 bulk\n  write.4 m+0x0 0x1\n",
			[]string{bulkWarning("command 1 of main")}},
		{"  copy.8 w+0x0 <- hex 0102030405060708 bulk\n" +
			"  copy.8 w+0x0 <- hex 0102030405060708 bulk\n  fence\n  write.4 m+0x0 0x1\n", nil},
		{"  copy.8 w+0x0 <- hex 0102030405060708 bulk\n  expect.4 m+0x0 == 0x1\n",
			[]string{bulkWarning("command 1 of main")}},
		{"  copy.8 w+0x0 <- hex 0102030405060708\n  write.4 m+0x0 0x1\n", nil},
		{"  copy.8 m+0x0 <- hex 0102030405060708 bulk\n  write.4 m+0x0 0x1\n", nil},
		{"  copy.8 w+0x0 <- hex 0102030405060708 bulk\n",
			[]string{missing + "copies in bulk through a write-combining window, " +
				"and the end of the sequence at command 1 of main"}},
		{"  call move\n  fence\n  write.4 m+0x0 0x1\nmove:\n" +
			"  copy.8 w+0x0 <- hex 0102030405060708 bulk\n", nil},
	} {
		if !strings.Contains(test.body, "d[") {
			test.body = strings.Replace(test.body+"fill:\n  copy.4 d[0:64] <- m+0x0\n", "\n\n",
				"\n", 1)
		}
		exit, stdout, stderr := lm(t, "verify", assembleToFile(t, fencedHeader+"main:\n"+test.body+
			safeSequence))
		var got []string
		for line := range strings.Lines(stderr) {
			text := strings.TrimPrefix(line, "lm: warning: ")
			got = append(got, strings.TrimSuffix(text, "\n"))
		}
		if exit != 0 || !strings.Contains(stdout, ": valid, ") ||
			!reflect.DeepEqual(got, test.want) {
			t.Errorf("lm verify of\n%sexit status %d, want 0; warnings %q, want %q", test.body,
				exit, got, test.want)
		}
	}
}

// safeSequence keeps lm verify from warning that it is missing.
const safeSequence = "safe:\n  delay 1us\n"

func TestVerifyReportsWhichRulesItUsed(t *testing.T) {
	unknown := strings.Replace(fencedHeader, "ivshmem 1af4:1110 bar2 1MiB\n",
		"ivshmem 1af4:1111 bar2 1MiB\nrule memory bar2 widths 4 memory\n", 1) +
		"main:\n  copy.4 d[0:64] <- m+0x0\n"
	exit, _, stderr := lm(t, "verify", assembleToFile(t, unknown))
	if exit != 0 || !strings.Contains(stderr,
		"device 0: no board has the PCI ids 1af4:1111, "+
			"so the access rules are those of the image (1 rule)") {
		t.Errorf("exit status %d, want 0 and a warning; stderr: %s", exit, stderr)
	}
	if _, _, stderr := lm(t, "verify", "../../testdata/images/edu-factorial.lmb"); stderr != "" {
		t.Errorf("warning about the image of a known board: %s", stderr)
	}
	if _, stdout, _ := lm(t, "verify", "--json",
		assembleToFile(t, unknown)); !strings.Contains(stdout,
		`"warnings":["device 0: no board has`) {
		t.Errorf("the JSON has no warning: %s", stdout)
	}
}

func TestVerifyWarnsOfInterruptAddresses(t *testing.T) {
	const device = "lightmetal 1\ndevice edu 1234:11e8 bar0 1MiB\n" +
		"window r bar0 offset 0x0 size 1MiB\nmain:\n"
	const warning = "lm: warning: command %s, which is in the range of x86's interrupt " +
		"addresses: if it is one, the device stores to the interrupt controller of the target\n"
	const none = "  write.4 r+0x4 0xfedfffff\n  write.4 r+0x4 0xfef00000\n" +
		"  expect.4 r+0x4 == 0xfee00378\n"
	for body, want := range map[string]string{
		"  write.4 r+0x4 0xfee00378\n": fmt.Sprintf(warning, "0 of main stores 0xfee00378"),
		"  write.4 r+0x4 0x1\n  write.4 r+0x4 0xfeefffff\n  write.4 r+0x4 0xfee00000\n": fmt.
			Sprintf(warning, "1 of main stores 0xfeefffff (the first of 2 such stores)"),
		none: "",
	} {
		exit, _, stderr := lm(t, "verify", assembleToFile(t, device+body+safeSequence))
		if exit != 0 || stderr != want {
			t.Errorf("lm verify of\n%sexit status %d, want 0; got %s\nwant %s", body, exit, stderr,
				want)
		}
	}
}

// TestWorstCaseIsMultipliedOutAndRefusedBeyondAnHour has repeated calls: of long waits, and of 43
// TB of stores without a wait.
func TestWorstCaseIsMultipliedOutAndRefusedBeyondAnHour(t *testing.T) {
	fill := "tensor e input uint8[64]\nwindow big bar2 offset 0x0 size 512KiB\nmain:\n" +
		strings.Repeat("  call stores\n", 300) + "stores:\n" +
		strings.Repeat("  fill.1 big+0x0 <- 0x1 size 512KiB\n", 100) + "  copy.4 d[0:64] <- m+0x0\n"
	wait := "main:\n" + strings.Repeat("  call waits\n", 401) +
		"waits:\n  delay 9s\n  copy.4 d[0:64] <- m+0x0\n"
	for what, test := range map[string]struct {
		source, want string
	}{"stores": {fill, "may take 15728 s"}, "waits": {wait, "may take 3609 s"}} {
		image := assembleToFile(t, fencedHeader+test.source)
		if exit, _, stderr := lm(t, "verify", image); exit != 65 ||
			!strings.Contains(stderr, `sequence "main" `+test.want) {
			t.Errorf("%s: exit status %d, want 65; %s", what, exit, stderr)
		}
		if exit, _, stderr := lm(t, "verify", "--longest", "5h", image); exit != 0 {
			t.Errorf("%s: exit status %d, want 0; %s", what, exit, stderr)
		}
		if exit, _, stderr := lm(t, "replay", "--device", "mock:ivshmem", image); exit != 65 ||
			!strings.Contains(stderr, test.want) {
			t.Errorf("%s: exit status %d, want 65; %s", what, exit, stderr)
		}
	}
	_, stdout, _ := lm(t, "info", assembleToFile(t, fencedHeader+wait))
	if !strings.Contains(stdout, "waits at most 3609 s, takes at most 3609 s") {
		t.Errorf("lm info does not print the longest wait of 3609 s: %s", stdout)
	}
	_, stdout, _ = lm(t, "info", assembleToFile(t, fencedHeader+fill))
	if !strings.Contains(stdout, "in 15000 MiB") {
		t.Errorf("lm info does not print 15000 MiB: %s", stdout)
	}
}

// hostRecord is a recording of a device. The device reads host memory, the program makes a bulk
// copy to the device's memory, and the device stores its answer to host memory.
const hostRecord = "LMRECORD 2\nDEVICE 0 ab1e 0003 card\nBAR 0 0 2 0 1000\nMEM 100000 1000\n" +
	"HR 100000 8 0102030405060708\n" +
	"W 0 0 4 01000000\nW 0 4 4 01000000\nW 0 8 4 01000000\nHW 100080 4 09000000\n" +
	"R 0 800 4 01000000\nEND 9\n"

// importHostRecord writes hostRecord to a file and imports it. It returns the paths of the
// recording and of the image.
func importHostRecord(t *testing.T) (record, image string) {
	t.Helper()
	record = filepath.Join(t.TempDir(), "host.record")
	image = record + ".lmb"
	if err := os.WriteFile(record, []byte(hostRecord), 0o644); err != nil {
		t.Fatal(err)
	}
	if exit, _, stderr := lm(t, "import", "--from", "record", "--board", "generic", "--rule",
		"2=1,2,4,8,memory", record, "-o", image); exit != 0 {
		t.Fatalf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
	return record, image
}

// TestImportAddsTheFencesThatVerifyRequires between accesses to host memory and a bulk copy to the
// device.
func TestImportAddsTheFencesThatVerifyRequires(t *testing.T) {
	_, image := importHostRecord(t)
	if _, stdout, _ := lm(t, "dump", image); !strings.Contains(stdout,
		"copy.4    bar2+0x0 <- hex 01000000 01000000 01000000 bulk\n") {
		t.Errorf("the image has no bulk copy to the device: %s", stdout)
	}
	if exit, _, stderr := lm(t, "verify", image); exit != 0 || strings.Contains(stderr, "fence") {
		t.Errorf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
}

// TestPlaybackOfHostMemoryIsRejected before the replay: the addresses of host memory differ from
// the recorded ones, so a store of such an address would look like a wrong store.
func TestPlaybackOfHostMemoryIsRejected(t *testing.T) {
	record, image := importHostRecord(t)
	exit, _, stderr := lm(t, "replay", "--device", "playback:"+record, image)
	if exit != 65 || !strings.Contains(stderr, "host memory, which a playback does not have") {
		t.Errorf("exit status %d, want 65; stderr: %s", exit, stderr)
	}
}
