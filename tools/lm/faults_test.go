package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/image/fail"
	"lightmetal/tools/lmrun/faultlog"
)

// faultEntry returns the bytes of a fault entry with a valid checksum. If change is not nil,
// faultEntry calls it on the entry.
func faultEntry(number uint64, change func(e *faultlog.Entry)) []byte {
	e := faultlog.Entry{Magic: faultlog.EntryMagic, EntryNumber: number,
		TimeNs: 1_700_000_000_123_000_000,
		Runs:   12, Result: runtime.Result{Code: hal.NoDevice, Command: -1}}
	copy(e.Reason[:], "pci:1: no such device")
	if change != nil {
		change(&e)
	}
	e.Checksum = e.ComputeChecksum()
	return bytes.Clone(e.Bytes())
}

// withFailedExpect returns a function that changes an entry into one of a failed expect command of
// an image.
func withFailedExpect(image []byte) func(e *faultlog.Entry) {
	return func(e *faultlog.Entry) {
		e.Result = runtime.Result{Code: hal.ExpectFailed, Command: 0, Got: 1, Want: 5, Mask: 0xff,
			SafeRan: true, SafeSequenceCode: hal.DeviceGone}
		e.ImageChecksum, e.ImageVersion = fbs.ReadStruct[fbs.Preamble](image).Checksum, 7
		e.ConfigRegisters = [2]uint32{0x11e81234, 0x20100406}
		e.AERRegisters = [11]uint32{0x20001, 1 << 14, 0, 0, 1 << 6, 0, 0, 1, 2, 3, 4}
		copy(e.DeviceAddress[:], "0000:01:00.0")
		e.Reason = [len(e.Reason)]byte{}
		copy(e.Reason[:], "main, command 0: expect.4 w0+0x8")
	}
}

func TestRecordedFailuresArePrintedOldestFirst(t *testing.T) {
	image := assemble(t, edu+"main:\n  expect.4 r+0x8 & 0xff == 0x5\n")
	path, command := filepath.Join(t.TempDir(), "faults"), withFailedExpect(mustRead(t, image))
	torn := faultEntry(4, nil)[:300]
	// The ring has wrapped around: entry 5 is in the first slot.
	data := append(faultEntry(5, nil), faultEntry(3, command)...)
	data = append(append(data, torn...), make([]byte, 724)...)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	const printed = `3  2023-11-14T22:13:20.123Z  expect failed (exit status 76)
    main, command 0: expect.4 r+0x8 & 0xff == 0x5: got 0x1 (bits that differ: 2)
`
	exit, stdout, stderr := lm(t, "faults", path, image)
	if exit != 0 || !strings.HasPrefix(stdout, printed) {
		t.Errorf("exit status %d, want 0; stderr: %s\nstdout %s\nwant it to begin with %s", exit,
			stderr, stdout, printed)
	}
	for _, line := range []string{"after 12 runs of the image with checksum 0x", ", version 7",
		"got 0x1, wanted 0x5, mask 0xff", "then sequence safe ran: device gone",
		"device 0000:01:00.0: PCI command 0x0406, status 0x2010 (received master abort)",
		"AER uncorrectable 0x00004000 (completion timeout)",
		"AER correctable 0x00000040 (bad TLP)", "AER header log [00000001 00000002 ",
		"5  2023-11-14T22:13:20.123Z  device unavailable (exit status 69)\n    pci:1: no such",
		" bytes at offset 1024: not a complete entry"} {
		if !strings.Contains(stdout, line) {
			t.Errorf("lm faults: stdout lacks %q:\n%s", line, stdout)
		}
	}
	// Without the image of the entry, lm prints the text that lmrun recorded.
	const recorded = "expect.4 w0+0x8\n"
	if _, stdout, stderr := lm(t, "faults", path); !strings.Contains(stdout, recorded) {
		t.Errorf("lm faults: stdout lacks the recorded text %q: %s; stderr: %s", recorded, stdout,
			stderr)
	}
	// Another image is named as such.
	other := assemble(t, edu+"main:\n  expect.4 r+0x8 == 0x6\n")
	_, view := openVerified(image)
	_, otherView := openVerified(other)
	defer closeImages()
	want := fmt.Sprintf("%s has the checksum %s, but the entries are of the image 0x00000000, %s",
		other, otherView.ID(), view.ID())
	if exit, stdout, stderr := lm(t, "faults", path, other); exit != 65 || stdout != "" ||
		!strings.Contains(stderr, want) {
		t.Errorf("lm faults with another image: exit status %d, stdout %s, stderr %s; want 65 "+
			"and %q", exit, stdout, stderr, want)
	}
	// Of two images, it is the one that failed.
	which := ", version 7: " + image + "\n"
	if exit, stdout, stderr := lm(t, "faults", path, other, image); exit != 0 ||
		!strings.HasPrefix(stdout, printed) || !strings.Contains(stdout, which) ||
		strings.Contains(stdout, other) {
		t.Errorf("lm faults with both images: exit status %d, stdout %s, stderr %s; want the "+
			"entry of %s", exit, stdout, stderr, image)
	}
}

func TestRecordedFailuresAsJSON(t *testing.T) {
	image := assemble(t, edu+"main:\n  expect.4 r+0x8 & 0xff == 0x5\n")
	path := filepath.Join(t.TempDir(), "faults")
	data := append(faultEntry(1, withFailedExpect(mustRead(t, image))), []byte("damaged")...)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	_, stdout, stderr := lm(t, "faults", "--json", path)
	var list faultList
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || len(list.Faults) != 1 ||
		len(list.Skipped) != 1 || list.Skipped[0] != (byteRange{512, 7}) {
		t.Fatalf("lm faults --json: JSON with 1 fault and 7 skipped bytes at offset 512 wanted "+
			"(error of Unmarshal: %v), stdout: %s; stderr: %s", err, stdout, stderr)
	}
	f := list.Faults[0]
	if f.Number != 1 || f.Exit != 76 || f.Command != 0 || f.Got != 1 || f.Want != 5 ||
		f.Safe != "device gone" || f.PCI.Status != 0x2010 || f.AER.HeaderLog[3] != 4 {
		t.Errorf("lm faults --json: entry %+v; want number 1, exit 76, command 0, got 1, "+
			"want 5, safe \"device gone\", PCI status 0x2010, word 3 of the AER header log 4; "+
			"stdout: %s", f, stdout)
	}
}

// TestKernelMemoryMayBeginWithinAnEntry reads the memory of /dev/pmsg0 after it has wrapped around:
// it begins within an entry, and ends with a text of the kernel. The two complete entries must be
// read.
func TestKernelMemoryMayBeginWithinAnEntry(t *testing.T) {
	data := faultEntry(0, nil)[100:]
	data = append(append(data, faultEntry(0, nil)...), faultEntry(0, nil)...)
	list := readFaults(append(data, "\nNo errors detected\n"...))
	if len(list.Faults) != 2 || len(list.Skipped) != 2 || list.Skipped[0].Offset > 412 ||
		!strings.HasPrefix(list.String(), "-  2023-") {
		t.Errorf("readFaults returns %+v, want 2 entries without numbers and 2 skipped ranges, "+
			"the first at offset 412 or below", list)
	}
}

// TestEntriesOfALargeDeviceArePrinted reads a sparse file of 1 TiB, as lmrun takes.
func TestEntriesOfALargeDeviceArePrinted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pmem")
	if err := errors.Join(os.WriteFile(path, faultEntry(1, nil), 0o600),
		os.Truncate(path, 1<<40)); err != nil {
		t.Skipf("no sparse files: %v", err)
	}
	if exit, stdout, stderr := lm(t, "faults", path); exit != 0 ||
		!strings.Contains(stdout, "device unavailable") || strings.Contains(stdout, "skipped") {
		t.Errorf("exit status %d, stdout %s, stderr %s; want one entry", exit, stdout, stderr)
	}
}

func TestFileWithoutFailures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "faults")
	for text, want := range map[string]int{"": 0, strings.Repeat("\x00", 32768): 0,
		"some text": 65, strings.Repeat("LMFAULT1", 200): 65} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		exit, stdout, stderr := lm(t, "faults", path)
		if exit != want || exit == 0 && stdout != "no failure is recorded\n" ||
			exit != 0 && !strings.Contains(stderr, "is not a file of lmrun -faults") {
			t.Errorf("lm faults on file %.20q: exit status %d, want %d; stdout %q, stderr %q; "+
				"want that no failure is recorded (exit 0), or that the file is invalid (exit 65)",
				text, exit, want, stdout, stderr)
		}
	}
}

// TestAnyBytesOfAnEntryArePrinted prints entries of random bytes with a valid checksum, which have
// texts, commands and codes that lmrun never writes. No entry may be skipped, and no control
// character may reach the terminal.
func TestAnyBytesOfAnEntryArePrinted(t *testing.T) {
	image := assemble(t, edu+"main:\n  expect.4 r+0x8 & 0xff == 0x5\n")
	_, view := openVerified(image)
	defer closeImages()
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var data []byte
		for i := range uint64(1 + random.IntN(3)) {
			data = append(data, faultEntry(i, func(e *faultlog.Entry) {
				for at := 8; at < faultlog.EntryBytes; at += 8 {
					binary.LittleEndian.PutUint64(e.Bytes()[at:], random.Uint64())
				}
				if random.IntN(2) == 0 {
					e.ImageChecksum = fbs.ReadStruct[fbs.Preamble](view.Envelope).Checksum
					e.Result.Command = int32(random.IntN(4)) - 1
				}
			})...)
		}
		list := readFaults(data)
		_ = fail.Try(func() { list.addImage(image, view) }) // no entry may be of the image
		if text := list.String(); len(list.Skipped) > 0 || strings.ContainsAny(text, "\x1b\r\x07") {
			t.Fatalf("%d skipped ranges, want 0; printed as %q, want no control character; "+
				"entries %+v", len(list.Skipped), text, list)
		}
	}
}
