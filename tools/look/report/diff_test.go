package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"lightmetal/fbs"
	"lightmetal/tools/image/lmb"
)

// decode returns the image of a file.
func decode(t *testing.T, file []byte) *lmb.Image {
	t.Helper()
	image, err := lmb.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// diff compares two files, and returns the difference and its text.
func diff(t *testing.T, a, b []byte) (*Difference, string) {
	t.Helper()
	longest := func(file []byte) []uint64 {
		view, err := fbs.Verify(file)
		if err != nil {
			t.Fatal(err)
		}
		return view.WorstCaseUs
	}
	imageA, imageB := decode(t, a), decode(t, b)
	imageB.Origin.Tool = "another"
	d := Diff(imageA, imageB, longest(a), longest(b))
	var out bytes.Buffer
	if err := d.Write(&out, imageA); err != nil {
		t.Fatal(err)
	}
	return d, out.String()
}

func TestDiffDescribesDifferences(t *testing.T) {
	base := edu +
		"tensor n input uint32[2] = uint32 1 2\nmain:\n  write.4 r+0x4 1\n  write.4 r+0x4 2\n" +
		"  copy.4 r+0x4 <- uint32 1 2 3 fifo\n" +
		"  mark \"m\"\n  copy.4 r+0x8 <- n[0:4]\nsafe:\n  write.4 r+0x20 0\n"
	for _, test := range []struct{ old, new, want string }{
		{"", "", "the images do the same"},
		{"bar0 1MiB", "bar0 2MiB", "device 0: A has edu 1234:11e8, BAR 0 1 MiB"},
		{"window r ", "window s ", "window 0: A has r: BAR 0"},
		{"uint32 1 2\nmain", "uint32 1 3\nmain",
			"the images make the same accesses with other data\n" +
				"tensor n: the data differ: byte 4 of 8: 0x02 in A, 0x03 in B\n"},
		{"uint32[2]", "int32[2]", "tensor 0: A has n input uint32[2], data; B has n input int32"},
		{"r+0x4 2\n", "r+0x4 3\n", "sequence main differs in 1 command\n" +
			"@@ main: command 1 of A, 1 of B @@\n  write.4 r+0x4 0x1\n- write.4 r+0x4 0x2\n" +
			"+ write.4 r+0x4 0x3\n  copy.4 r+0x4 <- "},
		{"1 2 3 fifo", "1 2 4 fifo",
			"the images make the same accesses with other data\nsequence main differs in " +
				"1 command; in 1 of them, only the payload differs\n"},
		{"1 2 3 fifo", "0x101 2 4 fifo", "~ copy.4 r+0x4 <- hex 01000000 02000000 03000000 fifo\n" +
			"~   2 of 12 bytes, from byte 1 to 8; the first is 0x00 in A, 0x01 in B\n"},
		{"mark \"m\"", "mark \"x\"", "- mark \"m\"\n+ mark \"x\"\n"},
		{"  write.4 r+0x4 2\n", "",
			"differs in 1 command; A has 4 commands, B has 3; a run takes at most "},
		{"  mark \"m\"\n", "", "sequence main: the commands are equal; the marks differ\n" +
			"@@ main: command 3 of A, 3 of B @@\n"},
		{"  mark \"m\"\n  copy.4 r+0x8 <- n[0:4]\n", "", "- copy.4 r+0x8 <- n[0:4]\n"},
		{"safe:", "unsafe:", "sequence unsafe is in B only: 1 command\n"},
		{"safe:\n  write.4 r+0x20 0\n", "", "sequence safe is in A only: 1 command\n"},
		{"window r bar0 offset 0 size 1MiB\n",
			"window r bar0 offset 0 size 1MiB\nwindow z bar0 offset 0 size 4\n",
			"window 1 is in B only: z: BAR 0"},
	} {
		text := strings.Replace(base, test.old, test.new, 1)
		text = strings.ReplaceAll(text, "r+",
			map[bool]string{true: "s+", false: "r+"}[test.new == "window s "])
		a, b := assemble(t, base), assemble(t, text)
		d, out := diff(t, a, b)
		if !strings.Contains(out, test.want) || d.Equal != (test.old == "") {
			t.Errorf("%q replaced by %q: equal %v\n%s\twant %s", test.old, test.new, d.Equal, out,
				test.want)
		}
		if back, _ := diff(t, b, a); back.Equal != d.Equal {
			t.Errorf("%q replaced by %q: the reverse Diff reports equal %v", test.old, test.new,
				back.Equal)
		}
	}
}

func TestDiffComparesEachDeclaration(t *testing.T) {
	const base = "lightmetal 1\ndevice x 1234:0001 bar0 4KiB msix 4\n" +
		"rule all bar0 widths 4\nwindow r bar0 offset 0 size 4KiB\nring q begin 0 end 4 first 1\n" +
		"tensor o output float32[1] = float32 1 absolute 0.5\nmain:\n  copy.4 o[:] <- r+0x0\n"
	for _, test := range []struct{ old, new, want string }{
		{"widths 4", "widths 2 4",
			"rule 0: A has all: BAR 0 of device 0, 0x0 to 0xfff, widths 4; " +
				"B has all: BAR 0 of device 0, 0x0 to 0xfff, widths 2 4"},
		{"first 1", "first 2",
			"ring 0: A has q: 0x0 to 0x4, first 0x1; B has q: 0x0 to 0x4, first 0x2"},
		{"ring q begin 0 end 4 first 1\n", "", "ring 0 is in A only: q: 0x0 to 0x4, first 0x1"},
		{"msix 4", "msi 2", "4 vectors of Msix; B has x 1234:0001, BAR 0 4 KiB, 2 vectors of Msi"},
		{"absolute 0.5", "absolute 0.25",
			"A has o output float32[1], data, absolute 0.5 relative 0"},
	} {
		changed := strings.Replace(base, test.old, test.new, 1)
		_, out := diff(t, assemble(t, base), assemble(t, changed))
		if !strings.Contains(out, test.want) {
			t.Errorf("%q replaced by %q:\n%s\twant %s", test.old, test.new, out, test.want)
		}
	}
}

// TestDiffRecognizesAddressesOfTheRecordedProgram: a program may store its own addresses as ids,
// which differ between two runs by whole pages.
func TestDiffRecognizesAddressesOfTheRecordedProgram(t *testing.T) {
	image := func(first, second string) []byte {
		return assemble(t, edu+"main:\n  write.4 r+0x4 1\n  copy.4 r+0x8 <- uint32 7 "+
			first+" 8 9 fifo\n  copy.4 r+0x8 <- uint32 "+second+" 8 fifo\n")
	}
	a := image("0x1a2b3c40 0x5601", "0x10002c40 0x7fff")
	for _, c := range []struct {
		b    []byte
		want int
	}{
		{image("0x99f2ec40 0x55ff", "0x10002c40 0x7fff"), 1},
		{image("0x99f2ec40 0x55ff", "0xff302c40 0x7ffe"), 2},
		// The difference is not a multiple of the page size.
		{image("0x99f2ec44 0x55ff", "0x10002c40 0x7fff"), 0},
		// The number is too small for an address.
		{image("0x1a2b3c40 0x5601", "0x10003c40 0"), 0},
	} {
		d, out := diff(t, a, c.b)
		named := strings.Contains(out, "probably addresses in the recorded program")
		if d.Sequences[0].Pointers != c.want || named != (c.want > 0) {
			t.Errorf("%d addresses were recognized, want %d: %s", d.Sequences[0].Pointers, c.want,
				out)
		}
	}
}

// A command is replaced, another one is inserted near it, and a third differs in payload only.
func TestDiffShowsEveryDifferenceOnce(t *testing.T) {
	write := func(numbers ...int) string {
		text := edu + "main:\n"
		for _, n := range numbers {
			text += fmt.Sprintf("  write.4 r+0x4 %d\n", n)
		}
		return text
	}
	const data = "  copy.4 r+0x8 <- uint32 7 %d fifo\n"
	a := write(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11) + fmt.Sprintf(data, 1)
	b := write(1, 2, 33, 4, 55, 5, 6, 7, 8, 9, 10, 11) + fmt.Sprintf(data, 2)
	d, out := diff(t, assemble(t, a), assemble(t, b))
	const want = `sequence main differs in 3 commands; in 1 of them, only the payload ` +
		`differs; A has 12 commands, B has 13; a run takes at most 26 us in A, 28 us in B
@@ main: command 2 of A, 2 of B @@
  write.4 r+0x4 0x1
  write.4 r+0x4 0x2
- write.4 r+0x4 0x3
+ write.4 r+0x4 0x21
  write.4 r+0x4 0x4
+ write.4 r+0x4 0x37
  write.4 r+0x4 0x5
  write.4 r+0x4 0x6
  write.4 r+0x4 0x7
@@ main: command 11 of A, 12 of B @@
  write.4 r+0x4 0x9
  write.4 r+0x4 0xa
  write.4 r+0x4 0xb
~ copy.4 r+0x8 <- hex 07000000 01000000 fifo
~   byte 4 of 8: 0x01 in A, 0x02 in B
`
	if out != want {
		t.Errorf("the difference is\n%swant\n%s", out, want)
	}
	s := d.Sequences[0]
	if len(s.Changes) != 3 || s.Changes[1].AtA != 4 || s.Changes[1].AtB != 4 ||
		s.Changed != 3 || s.DataOnly != 1 || d.DataOnly {
		t.Errorf("the changes are %+v", d)
	}
}
