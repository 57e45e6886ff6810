package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

const testDevice = "VERSION 20070824\n" +
	"PCIDEV 0100 abcd0555 b b0400000 0 0 0 0 0 0 400000 0 0 0 0 0 0 acc\n"

// TestImportWritesNoImageThatVerifyRejects: the deadlines of many polls, or of one long poll, add
// up to more than an hour. The message has a deadline with which verify accepts the image.
func TestImportWritesNoImageThatVerifyRejects(t *testing.T) {
	t.Chdir(t.TempDir())
	var many strings.Builder
	many.WriteString(testDevice)
	for i := range 4000 {
		fmt.Fprintf(&many, "W 4 %[1]d.0 1 0xb0400014 0x1 0x0 0\nR 4 %[1]d.1 1 0xb0400018 0x1 "+
			"0x0 0\n"+
			"R 4 %[1]d.2 1 0xb0400018 0x0 0x0 0\n", i)
	}
	const long = testDevice + "W 4 10.0 1 0xb0400010 0x1 0x0 0\nR 4 10.1 1 0xb0400014 0x0 0x0 0\n" +
		"R 4 810.1 1 0xb0400014 0x1 0x0 0\n"
	for name, text := range map[string]string{"many polls": many.String(), "a long poll": long} {
		_ = os.Remove("t.lmb")
		if err := os.WriteFile("t", []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		args := []string{"import", "--board", "generic", "t", "-o", "t.lmb"}
		exit, _, stderr := lm(t, args...)
		flag := regexp.MustCompile(`--deadline (\S+);`).FindStringSubmatch(stderr)
		if _, err := os.Stat("t.lmb"); exit != 65 || flag == nil || err == nil {
			t.Fatalf("%s: exit status %d, want 65; image %v; %s", name, exit, err, stderr)
		}
		mustRun(t, "", append(args, "--deadline", flag[1])...)
		mustRun(t, "", "verify", "t.lmb")
		mustRun(t, "", append(args, "--longest", "3h")...)
		if exit, _, _ := lm(t, "verify", "t.lmb"); exit != 65 {
			t.Errorf("%s: lm verify accepts an image that --longest allowed", name)
		}
	}
}

// TestOtherTracesAreNamed: files of Linux's tracers that lm cannot import get a cause and a remedy.
func TestOtherTracesAreNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	const access = "W 4 10.000200 1 0xb0400010 0x1 0x0 0\n"
	for name, c := range map[string]struct{ text, want string }{
		"trace": {"# tracer: mmiotrace\n#\n" + access,
			"record again with cat /sys/kernel/tracing/trace_pipe"},
		"no PCIDEV": {"VERSION 20070824\n" + access, "line 2: no PCIDEV line"},
		"empty":     {testDevice, "mmiotrace shows only BARs that a driver maps while it is on"},
	} {
		if err := os.WriteFile("t", []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		exit, _, stderr := lm(t, "import", "--board", "generic", "t", "-o", "t.lmb")
		if exit != 65 || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit status %d, want 65 and %q: %s", name, exit, c.want, stderr)
		}
	}
	commented := "# tracer: mmiotrace\n#\n" + testDevice + access
	if err := os.WriteFile("t", []byte(commented), 0o666); err != nil {
		t.Fatal(err)
	}
	mustRun(t, "", "import", "--board", "generic", "t", "-o", "t.lmb")
}

// TestTracesOfRwmmioAreRecognized: their flags are those of QEMU's traces, without --region.
func TestTracesOfRwmmioAreRecognized(t *testing.T) {
	t.Chdir(t.TempDir())
	const text = "# tracer: nop\n#\n          insmod-611     [002] .....    41.201001: " +
		"rwmmio_write: acc_probe+0x60/0x1e0 [acc] width=32 val=0x1 addr=0xffff800085a00010\n"
	if err := os.WriteFile("t", []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	const base = "0xffff800085a00000"
	for _, c := range []struct {
		args string
		exit int
		want string
	}{
		{"--board generic --device abcd:0555 --base " + base, 0, "coalesce  1 write\n"},
		{"--board generic --device abcd:0555 --base 2=" + base, 0, "coalesce  1 write\n"},
		{"--board edu --base " + base, 0, "coalesce  1 write\n"},
		{"--summary", 0, "0xffff800085a00010 to 0xffff800085a00013 (1 access of 4 bytes)"},
		{"--board edu", 64, "--base ADDRESS, the address at which the driver mapped its BAR"},
		{"--base " + base, 64, "does not name its device; use --board"},
		{"--board generic --base " + base, 64, "needs --device VVVV:DDDD"},
		{"--board edu --region x --base " + base, 64, "--region is for traces of QEMU"},
		{"--board edu --base 6=" + base, 64, "the BAR must be 0 to 5"},
		{"--board edu --base 2=" + base, 64, "board edu has no BAR 2"},
	} {
		args := append([]string{"import", "t", "-o", "t.lmb"}, strings.Fields(c.args)...)
		exit, stdout, stderr := lm(t, args...)
		if exit != c.exit || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("lm import %s: exit status %d, want %d and %q: %s%s", c.args, exit, c.exit,
				c.want, stdout, stderr)
		}
	}
	mustRun(t, "", "dump", "t.lmb")
}
