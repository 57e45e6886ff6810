package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeRecord writes a recording of an ivshmem with these records.
func writeRecord(t *testing.T, folder, name string, records ...string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	text := "LMRECORD 1\nDEVICE 1af4 1110\nBAR 0 0 0\nBAR 2 10000000 100000\nBAR 4 0 0\n" +
		strings.Join(records, "\n") + "\nEND " + string('0'+rune(len(records))) + "\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestImportComparesTwoRecordings(t *testing.T) {
	folder := t.TempDir()
	a := writeRecord(t, folder, "a.record", "W 2 10 4 01000000", "R 2 20 4 05000000",
		"W 2 14 4 01000000", "R 2 30 4 01000000", "W 2 10 4 02000000", "R 2 40 4 00000000")
	b := writeRecord(t, folder, "b.record", "W 2 10 4 01000000", "R 2 20 4 06000000",
		"W 2 14 4 01000000", "R 2 30 4 00000000", "R 2 30 4 01000000", "W 2 10 4 02000000",
		"R 2 40 4 00000000")
	image, listing := filepath.Join(folder, "x.lmb"), filepath.Join(folder, "x.lms")
	exit, out, errs := lm(t, "import", "--again", b, a, "-o", image)
	const want = `again     3 stores and 3 loads in both recordings; 2 of the loads ` +
		`returned the same
again     bar2+0x20, line 7, and 7 of the other: 0x5 and 0x6 (1 place): the value varies
again     bar2+0x30, line 9, and 9 of the other: loaded 1 time and 2 (1 place): a wait
`
	if exit != 0 || !strings.HasPrefix(out, want) {
		t.Fatalf("exit status %d, output\n%s%swant 0,\n%s", exit, out, errs, want)
	}
	if exit, _, errs := lm(t, "dump", image, "-o", listing); exit != 0 {
		t.Fatal(errs)
	}
	text := string(mustRead(t, listing))
	for _, line := range []string{"read.4    bar2+0x20", "poll.4    bar2+0x30 == 0x1",
		"expect.4  bar2+0x40 == 0x0"} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is missing in\n%s", line, text)
		}
	}
}

// A register that varies in one place is still waited for in other places.
func TestOnlyTheLoadThatVariesIsNotCompared(t *testing.T) {
	folder := t.TempDir()
	rest := []string{"W 2 10 4 01000000", "R 2 20 4 00000000", "R 2 20 4 00000000",
		"R 2 20 4 02000000", "W 2 14 4 01000000"}
	a := writeRecord(t, folder, "a.record", append([]string{"R 2 20 4 00000000"}, rest...)...)
	b := writeRecord(t, folder, "b.record", append([]string{"R 2 20 4 02000000"}, rest...)...)
	image := filepath.Join(folder, "x.lmb")
	if exit, _, errs := lm(t, "import", "--again", b, a, "-o", image); exit != 0 {
		t.Fatal(errs)
	}
	_, listing, _ := lm(t, "dump", image)
	text := strings.Join(strings.Fields(listing), " ")
	const want = "main: read.4 bar2+0x20 write.4 bar2+0x10 0x1 poll.4 bar2+0x20 == 0x2 within 1s " +
		"write.4 bar2+0x14 0x1"
	if !strings.HasSuffix(text, want) {
		t.Errorf("got\n%s\nwant it to end with\n%s", text, want)
	}
}

// The value of a register is ignored if it varies in one recording and is a wait in another. Flags
// on the command line decide for their places.
func TestValuesThatVaryAreNotWaitedFor(t *testing.T) {
	folder := t.TempDir()
	a := writeRecord(t, folder, "a.record", "W 2 10 4 01000000", "R 2 20 4 05000000")
	varies := writeRecord(t, folder, "b.record", "W 2 10 4 01000000", "R 2 20 4 06000000")
	waits := writeRecord(t, folder, "c.record", "W 2 10 4 01000000", "R 2 20 4 00000000",
		"R 2 20 4 05000000")
	image := filepath.Join(folder, "x.lmb")
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--again", varies, "--again", waits}, "read.4 bar2+0x20"},
		{[]string{"--again", waits, "--again", varies}, "read.4 bar2+0x20"},
		{[]string{"--again", waits}, "poll.4 bar2+0x20 == 0x5"},
		{[]string{"--again", varies, "--wait", "bar2+0x20"}, "poll.4 bar2+0x20 == 0x5"},
		{[]string{"--again", waits, "--ignore", "bar2+0x20"}, "read.4 bar2+0x20"},
	} {
		args := append(append([]string{"import"}, c.flags...), a, "-o", image)
		if exit, _, errs := lm(t, args...); exit != 0 {
			t.Errorf("%q: %s", c.flags, errs)
			continue
		}
		_, out, _ := lm(t, "dump", image)
		if out = strings.Join(strings.Fields(out), " "); !strings.Contains(out, c.want) {
			t.Errorf("%q: %q is missing in %s", c.flags, c.want, out)
		}
	}
	other := writeRecord(t, folder, "d.record", "W 2 10 4 01000000", "R 2 20 4 05000000")
	text := strings.Replace(string(mustRead(t, other)), "DEVICE 1af4", "DEVICE 1af5", 1)
	if err := os.WriteFile(other, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	exit, _, errs := lm(t, "import", "--board", "ivshmem", "--again", other, a, "-o", image)
	if exit == 0 {
		t.Errorf("a recording of another device: %s", errs)
	}
	exit, _, errs = lm(t, "import", "--wait", "0x20", "--ignore", "0x20", a, "-o", image)
	if exit != 64 || !strings.Contains(errs, "--ignore names the place 0x20") {
		t.Errorf("a place that is ignored and waited for: exit status %d, %s", exit, errs)
	}
}

func TestImportRefusesAStoreThatDiffersForNoKnownReason(t *testing.T) {
	folder := t.TempDir()
	a := writeRecord(t, folder, "a.record", "W 2 10 4 01000000", "W 2 20 4 05000000")
	b := writeRecord(t, folder, "b.record", "W 2 10 4 01000000", "W 2 20 4 06000000")
	image := filepath.Join(folder, "x.lmb")
	exit, _, errs := lm(t, "import", "--again", b, a, "-o", image)
	if exit != 65 || !strings.Contains(errs, "a.record: --again "+b+": line 7: line 7 of "+
		"the other recording stores 0x6 to bar2+0x20, but this one 0x5: "+
		"if it is data, name it with --input") {
		t.Errorf("exit status %d, error %q; want 65 and both lines", exit, errs)
	}
	exit, _, errs = lm(t, "import", "--again", b, "--input", "a=bar2+0x20,uint32,1", a, "-o", image)
	if exit != 0 {
		t.Errorf("with --input: exit status %d, error %q; want 0", exit, errs)
	}
}

// TestEachPlantedDifferenceIsExplainedAsWhatItIs has two recordings of an edu each, with one
// difference, and what the image makes of it, or the error. The host memory of each recording is
// elsewhere.
func TestEachPlantedDifferenceIsExplainedAsWhatItIs(t *testing.T) {
	folder := t.TempDir()
	write := func(name, memory string, records ...string) string {
		path := filepath.Join(folder, name)
		list := append([]string{memory, "DEVICE 0 1234 11e8 edu", "BAR 0 0 0 0 100000",
			"W 0 8 4 01000000"}, records...)
		list = append(list, "W 0 8 4 02000000", "R 0 4 4 00000000")
		text := fmt.Sprintf("LMRECORD 2\n%s\nEND %d\n", strings.Join(list, "\n"), len(list))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name  string
		a, b  []string
		flags string
		want  string // a line of --again
		image string // the line of the listing, or of the error
	}{
		{"nothing", []string{"R 0 40 4 05000000"}, []string{"R 0 40 4 05000000"}, "",
			"2 of the loads returned the same", "expect.4 bar0+0x40 == 0x5"},
		{"a value that nothing uses", []string{"R 0 40 4 05000000"}, []string{"R 0 40 4 06000000"},
			"", "0x5 and 0x6 (1 place): the value varies", "read.4 bar0+0x40"},
		{"loads that differ in number", []string{"R 0 40 4 05000000"},
			[]string{"R 0 40 4 00000000", "R 0 40 4 05000000"}, "",
			"loaded 1 time and 2 (1 place): a wait", "poll.4 bar0+0x40 == 0x5"},
		{"a carried load", []string{"R 0 40 4 05000000", "W 0 24 4 05000000"},
			[]string{"R 0 40 4 06000000", "W 0 24 4 06000000"}, "",
			"0x5 and 0x6 (1 place): what bar0+0x40 returned", "copy.4 bar0+0x24 <- carried[0:4]"},
		{"a carried load of a queue",
			[]string{"R 0 40 4 05000000", "R 0 40 4 07000000", "W 0 24 4 05000000"},
			[]string{"R 0 40 4 06000000", "R 0 40 4 09000000", "W 0 24 4 06000000"}, "",
			"0x5 and 0x6 (1 place): what bar0+0x40 returned", "copy.4 bar0+0x24 <- carried[0:4]"},
		{"a bus address", []string{"W 0 80 8 4000000100000000"},
			[]string{"W 0 80 8 4000000200000000"}, "",
			"0x1000040 and 0x2000040 (1 place): a bus address of each",
			"write.8 bar0+0x80 bus(host0)+0x40"},
		{"an input", []string{"W 0 40 4 05000000"}, []string{"W 0 40 4 06000000"},
			"--input=x=bar0+0x40,uint32,1", "0x5 and 0x6 (1 place): data of an input",
			"copy.4 bar0+0x40 <- x[0:4]"},
		{"an interrupt address", []string{"W 0 40 4 7803e0fe"}, []string{"W 0 40 4 9802e0fe"}, "",
			"0xfee00378 and 0xfee00298 (1 place): interrupt addresses",
			"line 6: line 6 of the other recording stores 0xfee00298 to bar0+0x40, but this one"},
		{"an index of a ring", []string{"R 0 40 4 05000000", "W 0 24 4 06000000"},
			[]string{"R 0 40 4 07000000", "W 0 24 4 00000000"}, "",
			"0x6 and 0x0 (1 place): the value of bar0+0x40 +1 & 0x7, as an index of a ring",
			"line 7: line 7 of the other recording stores 0x0 to bar0+0x24, but this one 0x6"},
		{"none of these", []string{"W 0 40 4 05000000"}, []string{"W 0 40 4 06000000"}, "",
			"0x5 and 0x6 (1 place): no reason is known",
			"line 6: line 6 of the other recording stores 0x6 to bar0+0x40, but this one 0x5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := write("a.record", "MEM 1000000 1000", c.a...)
			b := write("b.record", "MEM 2000000 1000", c.b...)
			image := filepath.Join(folder, "x.lmb")
			args := []string{"import", "--again", b, a, "-o", image}
			if c.flags != "" {
				args = append(args, c.flags)
			}
			exit, out, errs := lm(t, args...)
			if !strings.Contains(out, c.want) {
				t.Errorf("%q is missing in\n%s%s", c.want, out, errs)
			}
			if strings.HasPrefix(c.image, "line") {
				if exit != 65 || !strings.Contains(errs, c.image) {
					t.Errorf("exit status %d, want 65 and %q in %s", exit, c.image, errs)
				}
				return
			}
			_, listing, _ := lm(t, "dump", image)
			if listing = strings.Join(strings.Fields(listing), " "); !strings.Contains(listing,
				c.image) {
				t.Errorf("%q is missing in %s%s", c.image, listing, errs)
			}
		})
	}
}
