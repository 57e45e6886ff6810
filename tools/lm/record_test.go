package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// recordProgram reaches a file of 1 MiB, its argument, as a driver reaches a BAR.
const recordProgram = `
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
int main(int count, char **arguments) {
	int fd = open(arguments[1], O_RDWR);
	volatile uint32_t *p = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	p[0] = 12;
	p[1] = p[0] * 3;
	memset((void *)(p + 64), 7, 100);
	if (count > 2) // what the recorder does not know: of x87, or exclusive
#ifdef __x86_64__
		__asm__ volatile("fildl %0; fistpl %0" : "+m"(*p));
#else
		__atomic_fetch_add(p, 1, __ATOMIC_SEQ_CST);
#endif
	return 3;
}
`

func TestRecordedProgramBecomesAnImageThatReplays(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		if os.Getenv("LM_TEST_REQUIRED") == "1" {
			t.Fatal(err)
		}
		t.Skip("needs gcc")
	}
	// a process of its own: what traces waits for all its children
	folder, program := t.TempDir(), built(t, ".")
	path := func(name string) string { return filepath.Join(folder, name) }
	source := write(t, "program.c", recordProgram)
	if out, err := exec.Command("gcc", "-O2", "-o", path("program"),
		source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.WriteFile(path("card"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	record := func(want int, args ...string) string {
		t.Helper()
		c := exec.Command(program,
			append([]string{"record", "-o", path("out.record"), "--file",
				path("card") + "=2,1af4:1110"}, args...)...)
		var said bytes.Buffer
		c.Stderr = &said
		var exit *exec.ExitError
		if err := c.Run(); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got := c.ProcessState.ExitCode(); got != want {
			t.Fatalf("exit %d, want %d: %s", got, want, said.String())
		}
		return said.String()
	}
	record(3, "--", path("program"), path("card"))
	if exit, _, stderr := lm(t, "import", "--from", "record", path("out.record"), "-o",
		path("out.lmb")); exit != 0 {
		t.Fatal(stderr)
	}
	if exit, stdout, stderr := lm(t, "dump", path("out.lmb")); exit != 0 ||
		!strings.Contains(stdout, "write.4   bar2+0x4 0x24\n") ||
		!strings.Contains(stdout, "expect.4  bar2+0x0 == 0xc\n") {
		t.Error(stdout, stderr)
	}
	if exit, _, stderr := lm(t, "replay", "--device", "mock:ivshmem", path("out.lmb")); exit != 0 {
		t.Error(stderr)
	}
	said := record(70, "--", path("program"), path("card"), "unknown")
	if !strings.Contains(said, "is not recorded") || !strings.Contains(said, "(main+") {
		t.Error(said)
	}
	exit, _, stderr := lm(t, "import", "--from", "record", path("out.record"), "-o",
		path("out.lmb"))
	if exit != 65 || !strings.Contains(stderr, "is incomplete") ||
		!strings.Contains(stderr, "--incomplete") {
		t.Error(exit, stderr)
	}
	if exit, stdout, stderr := lm(t, "import", "--incomplete", "--from", "record",
		path("out.record"), "-o", path("out.lmb")); exit != 0 ||
		!strings.Contains(stdout, "is incomplete") {
		t.Error(exit, stdout, stderr)
	}
	record(66, "--", path("nothing"))
	// What is traced already cannot be traced by another.
	if said := record(77, "--", program, "record", "-o", path("inner.record"), "--",
		path("program"), path("card")); !strings.Contains(said, "SYS_PTRACE") {
		t.Error(said)
	}
	record(64, "--on-unknown", "stop", "--", path("program"))
	record(64, "--file", "card", "--", path("program"))
}

func TestGenericBoardOfAKnownDeviceSaysWhoseRulesHold(t *testing.T) {
	record := write(t, "known.record",
		"LMRECORD 2\nDEVICE 0 1af4 1110 file\nBAR 0 0 0 0 1000\nW 0 100 4 00000000\nEND 3\n")
	exit, _, stderr := lm(t, "import", "--from", "record", "--board", "generic", record, "-o",
		filepath.Join(t.TempDir(), "known.lmb"))
	if exit != 65 || !strings.Contains(stderr,
		"use --board ivshmem to see which line of the trace causes the error") {
		t.Error(exit, stderr)
	}
}

// TestRecordTakesNoFileThatTheProgramNeedsForItsOutput: nor a device or a program that there cannot
// be.
func TestRecordTakesNoFileThatTheProgramNeedsForItsOutput(t *testing.T) {
	program := write(t, "program", "#!/bin/sh\n")
	card := write(t, "card", "words")
	for _, c := range []struct {
		exit int
		want string
		args []string
	}{
		{64, "the same file as input", []string{"-o", program, "--", program}},
		{64, "the same file as input", []string{"-o", card, "--", program, card}},
		{64, "the same file as input", []string{"-o", card, "--file", card + "=0", "--", program}},
		{64, "this file is named twice", []string{"-o", "x.record", "--file", card + "=0",
			"--file", card + "=bus:0x1000", "--", program}},
		{64, "pci:DDDD:BB:DD.F", []string{"-o", "x.record", "--device", "card", "--", program}},
		{74, "lm: input/output error: /dev/full: no space left",
			[]string{"-o", "/dev/full", "--file", card + "=0", "--", "true"}},
		// not executable
		{77, "permission denied", []string{"-o", filepath.Join(t.TempDir(), "x.record"), "--",
			program}},
	} {
		exit, _, stderr := lm(t, append([]string{"record"}, c.args...)...)
		if exit != c.exit || !strings.Contains(stderr, c.want) {
			t.Errorf("%q: exit %d, %s", c.args, exit, stderr)
		}
	}
	if text, err := os.ReadFile(card); err != nil || string(text) != "words" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestProtectIsOneOfThreeWords(t *testing.T) {
	exit, _, stderr := lm(t, "record", "--protect", "some", "-o",
		filepath.Join(t.TempDir(), "out.record"), "--", "/bin/true")
	if exit != 64 || !strings.Contains(stderr,
		`--protect must be "huge", "all" or "none", not "some"`) {
		t.Errorf("%d: %s", exit, stderr)
	}
}
