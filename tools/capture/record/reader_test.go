package record

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
)

// header is the header of a recording in version 1 of the format; BAR 4 does not exist.
const header = "LMRECORD 1\nDEVICE 1e52 401e\nBAR 0 100000000 20000000\nBAR 2 120000000 100000\n" +
	"BAR 4 0 0\n"

// describe returns the header and the records of a recording, with their lines.
func describe(c *Capture) string {
	text := fmt.Sprintf("%s %q", c.ids(), c.Name)
	for i, b := range c.Bars {
		if b != (Bar{}) {
			text += fmt.Sprintf(", BAR %d %x %x", i, b.Base, b.Size)
		}
	}
	for _, r := range c.Records {
		text += fmt.Sprintf("\n%d: ", r.Line)
		switch r.Kind {
		case BarWrite, BarRead:
			text += fmt.Sprintf("%c %d+%x width %d %x", "?WR"[r.Kind], r.Bar, r.Offset, r.Width,
				r.Data)
		case ConfigWrite, ConfigRead:
			text += fmt.Sprintf("C%c %x+%x %x", "WR"[r.Kind-ConfigWrite], r.Bdf, r.Offset, r.Data)
		case HostWrite, HostRead:
			text += fmt.Sprintf("H%c %x %x", "WR"[r.Kind-HostWrite], r.Offset, r.Data)
		case Clock:
			text += fmt.Sprintf("CLK %d", r.Clocks)
		case Memory:
			text += fmt.Sprintf("MEM %x %x", r.Offset, r.Size)
		default:
			text += fmt.Sprintf("kind %d %s", r.Kind, r.Data)
		}
	}
	return text
}

func TestReadReturnsEveryKindOfRecord(t *testing.T) {
	c, err := Read(strings.NewReader(header +
		"W 0 1fc00530 8 0010040000000000\nR 2 fffff 1 ff\nCW 0 4 4 06000000\nCR 8 0 4 ffffffff\n" +
		"HW fffffffff0 2 0102\nHR 10 3 aabbCC\nCLK 4294967295\nEND 7\n"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `1e52:401e "", BAR 0 100000000 20000000, BAR 2 120000000 100000
6: W 0+1fc00530 width 0 0010040000000000
7: R 2+fffff width 0 ff
8: CW 0+4 06000000
9: CR 8+0 ffffffff
10: HW fffffffff0 0102
11: HR 10 aabbcc
12: CLK 4294967295`
	if got := describe(c); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestReadErrorsNameThePlace(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "1:1: the recording ends in its header, so there is nothing to import; record again"},
		{"hello\n", `1:1: found "hello", expected "LMRECORD"`},
		{"LMRECORD 3\n", `1:10: the version of the recording must be 1 or 2, not 3`},
		{"LMRECORD 1 \n", `1:12: unexpected "" after the last field of the line`},
		{"LMRECORD 1\nDEVICE 1e52 1401e\n",
			`2:13: device "1401e" is not a number in base 16 of at most 16 bits`},
		{"LMRECORD 1\nDEVICE 1e52\n", `2:13: device "" is not a number in base 16 of at most 16 ` +
			`bits`},
		{"LMRECORD 1\nDEVICE 1e52 401e\nBAR 2 0 0\n", `3:5: found "2", expected "0"`},
		{header[:60],
			"4:1: the recording ends in its header, so there is nothing to import; record again"},
		{header + "X 0\n", `6:1: unknown kind of line "X"`},
		{header + "\n", `6:1: unknown kind of line ""`},
		{header + "W 1 0 4 00000000\n", "6:3: the device has no BAR 1"},
		{header + "W 4 0 4 00000000\n", "6:3: the device has no BAR 4"},
		{header + "W 6 0 4 00000000\n", "6:3: the device has no BAR 6"},
		{header + "W -1 0 4 00000000\n", `6:3: BAR "-1" is not a number in base 10 of at most ` +
			`16 bits`},
		{header + "W 0 0x0 4 00000000\n", `6:5: offset "0x0" is not a number in base 16 of at ` +
			`most 64 bits`},
		{header + "W 0 0 4 000000\n", "6:9: the data must be 4 bytes in hexadecimal digits"},
		{header + "W 0 0 4 0000000g\n", "6:9: the data must be 4 bytes in hexadecimal digits"},
		{header + "W 0 0 0 \n", "6:9: the size is 0, but a line must have at least 1 byte of data"},
		{header + "W 0 0 4294967296 00\n",
			`6:7: size "4294967296" is not a number in base 10 of at most 32 bits`},
		{header + "W 0 0 1 00 00\n", `6:12: unexpected "00" after the last field of the line`},
		{header + "W 0 20000000 1 00\n",
			"6:16: 1 bytes at 0x20000000 are outside BAR 0, which has 0x20000000 bytes"},
		{header + "W 0 1fffffff 2 0000\n",
			"6:16: 2 bytes at 0x1fffffff are outside BAR 0, which has 0x20000000 bytes"},
		{header + "W 0 ffffffffffffffff 2 0000\n",
			"6:24: 2 bytes at 0xffffffffffffffff are outside BAR 0, which has 0x20000000 bytes"},
		{header + "R 0 0 4\n", "6:9: the data must be 4 bytes in hexadecimal digits"},
		{header + "CR 0 0 2 0000\n", "6:10: a configuration access has 2 bytes, but must have " +
			"4 (LMRECORD 1), or at most 4096 (LMRECORD 2)"},
		{header + "WS 0 1 0 4 00000000\n", `6:1: unknown kind of line "WS"`},
		{header + "CLK 4294967296\n", `6:5: count "4294967296" is not a number in base 10 of at ` +
			`most 32 bits`},
		{header + "CLK 1\nEND 2\n", "7:5: the END line announces 2 lines, but the recording " +
			"has 1"},
		{header + "END 0\nCLK 1\n", "7:1: text follows the END line, which must be the last line"},
	} {
		capture, err := Read(strings.NewReader(c.text))
		var where *Error
		if err == nil || err.Error() != c.want || !errors.As(err, &where) || capture != nil {
			t.Errorf("%q:\n got %v\nwant %v, and no recording", c.text, err, c.want)
		}
	}
}

// TestLinesMayEndWithCRLF: a file may have been on a system that ends lines with CRLF.
func TestLinesMayEndWithCRLF(t *testing.T) {
	for _, data := range []string{"0102", strings.Repeat("01", 100_000)} {
		text := fmt.Sprintf("%sW 0 0 %d %s\nMARK a b\nCLK 1\nEND 3\n", header, len(data)/2, data)
		want, err := Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read(strings.NewReader(strings.ReplaceAll(text, "\n", "\r\n")))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("line of %d bytes: the recording with CRLF differs, error %v", len(data)/2,
				err)
		}
	}
	for at := range 40 { // the end of the line on either side of the end of the read buffer
		data := strings.Repeat("01", 32<<10-at/2)
		if _, err := Read(strings.NewReader(fmt.Sprintf("%sW 0 %0*d %d %s\r\nEND 1\r\n", header,
			1+at%2, 0, len(data)/2, data))); err != nil {
			t.Errorf("line of %d bytes with CRLF: %v", len(data)/2, err)
		}
	}
}

func TestCutRecordingReturnsTheLinesBefore(t *testing.T) {
	for _, tail := range []string{"", "R 0 0 4", "R 0 0 4 0000", "W 0 0 4 00000000", "END 1"} {
		c, err := Read(strings.NewReader(header + "CLK 5\n" + tail))
		if !errors.Is(err, ErrCut) || len(c.Records) != 1 || c.Records[0].Clocks != 5 {
			t.Errorf("cut line %q: error %v, recording %+v; want ErrCut and CLK 5", tail, err, c)
		}
	}
}

func TestReadReturnsTheErrorOfItsReader(t *testing.T) {
	broken := errors.New("broken")
	c, err := Read(io.MultiReader(strings.NewReader(header), iotest.ErrReader(broken)))
	if c != nil || !errors.Is(err, broken) {
		t.Errorf("error %v, recording %+v; want the error of the reader", err, c)
	}
}

// FuzzRead reads any text: Read returns a recording, an error, or both if the recording is cut or
// has a gap.
func FuzzRead(f *testing.F) {
	f.Add(header + "W 0 1fc00530 8 0010040000000000\nCLK 1\nEND 2\n")
	f.Add(twoDevices + "CLK 1\nW 1 4 1 00\nGAP x\nEND 8\n")
	f.Add(header + "R 2 fffff 1 ff\nHW 0 2 0102\nCR 8 0 4 ffffffff\nR 0 0 4")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Read(strings.NewReader(text))
		if (c == nil) != (err != nil && !errors.Is(err, ErrCut) && !errors.Is(err, ErrGap)) {
			t.Errorf("error %v with recording %+v; want both only for ErrCut and ErrGap", err, c)
		}
	})
}
