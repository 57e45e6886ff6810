package report

import (
	"bytes"
	"strings"
	"testing"

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

func TestDiffDescribesDifferences(t *testing.T) {
	base := edu +
		"tensor n input uint32[2] = uint32 1 2\nmain:\n  write.4 r+0x4 1\n  write.4 r+0x4 2\n" +
		"  copy.4 r+0x4 <- uint32 1 2 3 fifo\n" +
		"  mark \"m\"\n  copy.4 r+0x8 <- n[0:4]\nsafe:\n  write.4 r+0x20 0\n"
	for _, test := range []struct{ old, new, want string }{
		{"", "", "the images do the same"},
		{"bar0 1MiB", "bar0 2MiB", "device 0: A has edu 1234:11e8, BAR 0 1 MiB"},
		{"window r ", "window s ", "window 0: A has r: BAR 0"},
		{"uint32 1 2\nmain", "uint32 1 3\nmain", "tensor n: the data differ from byte 4 on"},
		{"uint32[2]", "int32[2]", "tensor 0: A has n input uint32[2], data; B has n input int32"},
		{"r+0x4 2\n", "r+0x4 3\n",
			"sequence main differs in 1 command, of which the first is command 1\n"},
		{"1 2 3 fifo", "1 2 4 fifo",
			"sequence main differs in 1 command, of which the first is command 2; in 1 of them, " +
				"only the payload differs\n"},
		{"mark \"m\"", "mark \"x\"", "- mark \"m\"\n"},
		{"  write.4 r+0x4 2\n", "",
			"differs in 1 command, of which the first is command 1; " +
				"A has 4 commands, B has 3"},
		{"  mark \"m\"\n", "", "sequence main: the commands are equal, but the marks differ\n\n" +
			"first difference: main, command 3\n"},
		{"  mark \"m\"\n  copy.4 r+0x8 <- n[0:4]\n", "", "+ (the sequence ends)"},
		{"safe:", "unsafe:", "sequence unsafe is in B only: 1 command\n"},
		{"safe:\n  write.4 r+0x20 0\n", "", "sequence safe is in A only: 1 command\n"},
		{"window r bar0 offset 0 size 1MiB\n",
			"window r bar0 offset 0 size 1MiB\nwindow z bar0 offset 0 size 4\n",
			"window 1 is in B only: z: BAR 0"},
	} {
		text := strings.Replace(base, test.old, test.new, 1)
		text = strings.ReplaceAll(text, "r+",
			map[bool]string{true: "s+", false: "r+"}[test.new == "window s "])
		a, b := decode(t, assemble(t, base)), decode(t, assemble(t, text))
		b.Origin.Tool = "another"
		var out bytes.Buffer
		d := Diff(a, b)
		if err := d.Write(&out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), test.want) || d.Equal != (test.old == "") {
			t.Errorf("%q replaced by %q: equal %v\n%s\twant %s", test.old, test.new, d.Equal,
				out.String(), test.want)
		}
		if back := Diff(b, a); back.Equal != d.Equal {
			t.Errorf("%q replaced by %q: the reverse Diff reports equal %v", test.old, test.new,
				back.Equal)
		}
	}
}

// TestDiffRecognizesAddressesOfTheRecordedProgram: a program may store its own addresses as ids,
// which differ between two runs by whole pages.
func TestDiffRecognizesAddressesOfTheRecordedProgram(t *testing.T) {
	image := func(first, second string) *lmb.Image {
		return decode(t, assemble(t, edu+"main:\n  write.4 r+0x4 1\n  copy.4 r+0x8 <- uint32 7 "+
			first+" 8 9 fifo\n  copy.4 r+0x8 <- uint32 "+second+" 8 fifo\n"))
	}
	a := image("0x1a2b3c40 0x5601", "0x10002c40 0x7fff")
	for _, c := range []struct {
		b    *lmb.Image
		want int
	}{
		{image("0x99f2ec40 0x55ff", "0x10002c40 0x7fff"), 1},
		{image("0x99f2ec40 0x55ff", "0xff302c40 0x7ffe"), 2},
		// The difference is not a multiple of the page size.
		{image("0x99f2ec44 0x55ff", "0x10002c40 0x7fff"), 0},
		// The number is too small for an address.
		{image("0x1a2b3c40 0x5601", "0x10003c40 0"), 0},
	} {
		var out bytes.Buffer
		d := Diff(a, c.b)
		if err := d.Write(&out); err != nil {
			t.Fatal(err)
		}
		named := strings.Contains(out.String(), "probably addresses in the recorded program")
		if d.Sequences[0].Pointers != c.want || named != (c.want > 0) {
			t.Errorf("%d addresses were recognized, want %d: %s", d.Sequences[0].Pointers, c.want,
				out.String())
		}
	}
}

func TestDiffShowsTheContextOfTheFirstDifference(t *testing.T) {
	line := "  write.4 r+0x4 1\n"
	a := decode(t, assemble(t, edu+"main:\n"+strings.Repeat(line, 10)))
	b := decode(t, assemble(t, edu+"main:\n"+strings.Repeat(line, 7)+"  write.4 r+0x4 0x9\n"+
		strings.Repeat(line, 3)))
	d := Diff(a, b)
	f := d.First
	if f == nil || f.Command != 7 || len(f.Before) != contextLines || len(f.A) != 3 ||
		f.B[0] != "write.4 r+0x4 0x9" || d.Sequences[0].Changed != 1 ||
		len(d.Sequences[0].Windows) != 0 {
		t.Errorf("the first difference is %+v in %+v, want command 7 with its context", f,
			d.Sequences)
	}
}
