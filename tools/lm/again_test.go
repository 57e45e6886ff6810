package main

import (
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

// Of a register that varies in one recording and is a wait in another one, the value is ignored;
// flags on the command line decide for their places.
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
