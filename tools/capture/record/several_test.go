package record

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
)

// twoDevices is the start of a recording of two devices: each has one BAR so far.
const twoDevices = "LMRECORD 2\nDEVICE 0 8086 100e 0000:00:02.0\nBAR 0 0 0 10000 1000\n" +
	"DEVICE 1 1b36 0010 0000:00:03.0\nBAR 1 1 0 20000 4000\n"

// twoDeviceRecords continues twoDevices: the first device gets another BAR.
const twoDeviceRecords = "W 0 10 4 01020304\nNOTE a b  c\nCLK 5\nR 1 3ff8 8 0011223344556677\n" +
	"BAR 2 0 5 0 10\nR 2 f 1 ff\nEND 10\n"

func TestEachDeviceOfARecordingHasItsOwnRecords(t *testing.T) {
	text := twoDevices + twoDeviceRecords
	first, err := ReadDevice(strings.NewReader(text), "0000:00:02.0")
	if err != nil {
		t.Fatal(err)
	}
	const want = `8086:100e "0000:00:02.0", BAR 0 10000 1000, BAR 5 0 10
6: W 0+10 width 0 01020304
7: kind 9 a b  c
8: CLK 5
11: R 5+f width 0 ff`
	if got := describe(first); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	second, err := ReadDevice(strings.NewReader(text), "1b36:0010")
	if err != nil || second.Vendor != 0x1b36 || len(second.Records) != 3 ||
		second.Records[2].Offset != 0x3ff8 {
		t.Errorf("second device: %+v, error %v; want 3 records, the last at 0x3ff8", second, err)
	}
	for name, want := range map[string]string{
		"": "4:20: the recording has several devices, such as 0000:00:02.0 (8086:100e) " +
			"and 0000:00:03.0 (1b36:0010): choose one with --device",
		"0000:00:04.0": "1:1: the recording has no device 0000:00:04.0; use one of: " +
			"0000:00:02.0 (8086:100e), 0000:00:03.0 (1b36:0010)",
	} {
		if c, err := ReadDevice(strings.NewReader(text), name); c != nil || err == nil ||
			err.Error() != want {
			t.Errorf("device %q: error %v, want %s", name, err, want)
		}
	}
}

func TestLineOfSeveralAccessesHasTheirWidth(t *testing.T) {
	c, err := ReadDevice(strings.NewReader(twoDevices+"WS 0 2 10 6 010203040506\nRS 1 1 20 1 ff\n"+
		"END 6\n"), "8086:100e")
	const want = "\n6: W 0+10 width 2 010203040506"
	if err != nil || !strings.HasSuffix(describe(c), want) || len(c.Records) != 1 {
		t.Errorf("recording %+v, error %v; want one record %s", c, err, want)
	}
}

func TestInterruptBelongsToItsDevice(t *testing.T) {
	c, err := ReadDevice(strings.NewReader(twoDevices+"IRQ 1 2\nIRQ 0 3\nEND 6\n"), "8086:100e")
	if err != nil || len(c.Records) != 1 || c.Records[0].Kind != Interrupt ||
		c.Records[0].Offset != 3 {
		t.Errorf("recording %+v, error %v; want interrupt 3", c, err)
	}
	const first = "LMRECORD 1\nDEVICE 1 1\nBAR 0 0 1000\nBAR 2 0 0\nBAR 4 0 0\nIRQ 0 0\nEND 1\n"
	if _, err := Read(strings.NewReader(first)); err == nil ||
		!strings.Contains(err.Error(), `unknown kind of line "IRQ"`) {
		t.Errorf("version 1: error %v, want an unknown kind of line", err)
	}
}

func TestErrorsInVersion2NameThePlace(t *testing.T) {
	for text, want := range map[string]string{
		"WS 0 3 0 3 000000\n": "6:6: the width must be 1, 2, 4 or 8 bytes, not 3",
		"WS 0 2 0 3 000000\n": "6:12: 3 bytes of data must be a multiple of the width of 2 bytes",
		"RS 0 4 fff 4 00000000\n": "6:14: 4 bytes at 0xfff are outside BAR 0, which has " +
			"0x1000 bytes",
		"DEVICE 1 1 1 a\n":   "6:8: found DEVICE 1, expected DEVICE 2",
		"BAR 2 2 0 0 10\n":   "6:13: device 2 is used before a line declares it",
		"BAR 2 0 0 0 10\n":   "6:13: BAR 0 of device 0 is declared twice",
		"BAR 2 0 6 0 10\n":   "6:13: device 0 has a BAR with the number 6; BAR numbers are 0 to 5",
		"BAR 2 0 1 0 0\n":    "6:13: BAR 1 of device 0 must have at least 1 byte",
		"W 2 0 4 00000000\n": "6:3: BAR number 2 is used before a line declares it",
		"W 0 ffd 4 00000000\n": "6:11: 4 bytes at 0xffd are outside BAR 0, which has 0x1000 " +
			"bytes",
		"IRQ 2 0\n":      "6:5: device 2 is used before a line declares it",
		"CLK 1\nEND 4\n": "7:5: the END line announces 4 lines, but the recording has 5",
	} {
		c, err := ReadDevice(strings.NewReader(twoDevices+text), "8086:100e")
		if c != nil || err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestRecordingWithAGapIsReturnedWithErrGap(t *testing.T) {
	text := twoDevices + "W 0 0 1 00\nGAP a locked instruction\nEND 6\n"
	c, err := ReadDevice(strings.NewReader(text), "8086:100e")
	if !errors.Is(err, ErrGap) || !strings.Contains(err.Error(), "7:1: ") ||
		!strings.Contains(err.Error(), "a locked instruction") || c == nil || len(c.Records) != 2 {
		t.Errorf("error %v, recording %+v; want ErrGap of line 7 and 2 records", err, c)
	}
}

func TestCompressedRecordingIsReadUpToTheCut(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(w, twoDevices+"W 0 0 1 00\nW 0 1 1 00\n"); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	cut := zipped.Len()
	if _, err := io.WriteString(w, "END 6\n"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if c, err := ReadDevice(bytes.NewReader(zipped.Bytes()), "8086:100e"); err != nil ||
		len(c.Records) != 2 {
		t.Errorf("complete: error %v, recording %+v; want 2 records", err, c)
	}
	if c, err := ReadDevice(bytes.NewReader(zipped.Bytes()[:cut]), "8086:100e"); !errors.Is(err,
		ErrCut) || c == nil || len(c.Records) != 2 {
		t.Errorf("cut: error %v, recording %+v; want ErrCut and 2 records", err, c)
	}
	damaged := bytes.Clone(zipped.Bytes())
	damaged[len(damaged)-6] ^= 1
	if c, err := ReadDevice(bytes.NewReader(damaged), "8086:100e"); err == nil ||
		errors.Is(err, ErrCut) || c != nil {
		t.Errorf("damaged: error %v, recording %+v; want another error than ErrCut", err, c)
	}
}

// TestErrorQuotesOnlyPartOfALongField: a file that is not a recording may be one long field.
func TestErrorQuotesOnlyPartOfALongField(t *testing.T) {
	for _, text := range []string{strings.Repeat("\x00", 1<<20),
		"LMRECORD 2\n" + strings.Repeat("W", 1<<20) + "\n",
		twoDevices + "W 0 " + strings.Repeat("f", 1<<20) + " 1 00\n"} {
		if _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%.20q: Read accepts the text, want an error", text)
		} else if size := len(err.Error()); size > 400 {
			t.Errorf("%.20q: error of %d bytes, want at most 400", text, size)
		}
	}
}

func TestRecordingWithoutABarIsRejected(t *testing.T) {
	if _, err := Read(strings.NewReader("LMRECORD 2\nEND 0\n")); err == nil ||
		!strings.Contains(err.Error(), "did not map a BAR") {
		t.Errorf("error %v, want one that the program did not map a BAR", err)
	}
}

// TestConfigurationAccessesBelongToTheChosenDevice: memory and events belong to all devices, also
// those before the line of a device.
func TestConfigurationAccessesBelongToTheChosenDevice(t *testing.T) {
	text := "LMRECORD 2\nMEM 10000 2000\nHR 10008 8 0102030405060708\nEVENT a reset\n" +
		strings.TrimPrefix(twoDevices, "LMRECORD 2\n") +
		"CW 0 4 2 0600\nCR 1 0 64 " + strings.Repeat("ab", 64) + "\nHW 11000 1 07\nEND 10\n"
	for device, access := range map[string]string{"8086:100e": "9: CW 0+4 0600",
		"1b36:0010": "10: CR 1+0 " + strings.Repeat("ab", 64)} {
		c, err := ReadDevice(strings.NewReader(text), device)
		if err != nil {
			t.Fatal(err)
		}
		want := "\n2: MEM 10000 2000\n3: HR 10008 0102030405060708\n4: kind 11 a reset\n" + access +
			"\n11: HW 11000 07"
		if got := describe(c); !strings.HasSuffix(got, want) || len(c.Records) != 5 {
			t.Errorf("device %s: records %s, want %s", device, got, want)
		}
	}
	if _, err := ReadDevice(strings.NewReader(strings.Replace(text, "CR 1 ", "CR 2 ", 1)),
		"8086:100e"); err == nil ||
		!strings.Contains(err.Error(), "device 2 is used before a line declares it") {
		t.Errorf("load of device 2: error %v, want one that no line declares it", err)
	}
}
