package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lightmetal/tools/capture/recorder"

	"golang.org/x/sys/unix"
)

// recordProgram accesses a file of 1 MiB, its first argument, as a driver accesses a BAR. With a
// second argument, it also executes an instruction that the recorder does not know.
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
	if (count > 2) // the recorder does not know x87 and exclusive accesses
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
	// lm record runs as a process of its own, because a tracer waits for all its children.
	folder, program := t.TempDir(), buildMain(t, ".")
	path := func(name string) string { return filepath.Join(folder, name) }
	source := tempFile(t, "program.c", recordProgram)
	if out, err := exec.Command("gcc", "-O2", "-o", path("program"),
		source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v: %s", err, out)
	}
	if err := os.WriteFile(path("card"), make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	record := func(want int, args ...string) string {
		t.Helper()
		c := exec.Command(program,
			append([]string{"record", "-o", path("out.record"), "--file",
				path("card") + "=2,1af4:1110"}, args...)...)
		var stderr bytes.Buffer
		c.Stderr = &stderr
		var exit *exec.ExitError
		if err := c.Run(); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got := c.ProcessState.ExitCode(); got != want {
			t.Fatalf("lm record %v: exit status %d, want %d; stderr: %s", args, got, want,
				stderr.String())
		}
		return stderr.String()
	}
	record(3, "--", path("program"), path("card"))
	if exit, _, stderr := lm(t, "import", "--from", "record", path("out.record"), "-o",
		path("out.lmb")); exit != 0 {
		t.Fatalf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
	if exit, stdout, stderr := lm(t, "dump", path("out.lmb")); exit != 0 ||
		!strings.Contains(stdout, "write.4   bar2+0x4 0x24\n") ||
		!strings.Contains(stdout, "expect.4  bar2+0x0 == 0xc\n") {
		t.Errorf("exit status %d, want 0; stdout: %s\nstderr: %s", exit, stdout, stderr)
	}
	if exit, _, stderr := lm(t, "replay", "--device", "mock:ivshmem", path("out.lmb")); exit != 0 {
		t.Errorf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
	text := record(70, "--", path("program"), path("card"), "unknown")
	if !strings.Contains(text, "is not recorded") || !strings.Contains(text, "(main+") {
		t.Errorf("lm record does not name the access that it did not record: %s", text)
	}
	exit, _, stderr := lm(t, "import", "--from", "record", path("out.record"), "-o",
		path("out.lmb"))
	if exit != 65 || !strings.Contains(stderr, "is incomplete") ||
		!strings.Contains(stderr, "--incomplete") {
		t.Errorf("exit status %d, want 65; stderr: %s", exit, stderr)
	}
	if exit, stdout, stderr := lm(t, "import", "--incomplete", "--from", "record",
		path("out.record"), "-o", path("out.lmb")); exit != 0 ||
		!strings.Contains(stdout, "is incomplete") {
		t.Errorf("exit status %d, want 0; stdout: %s\nstderr: %s", exit, stdout, stderr)
	}
	record(66, "--", path("nothing"))
	// A process that is traced already cannot be traced a second time.
	if text := record(77, "--", program, "record", "-o", path("inner.record"), "--",
		path("program"), path("card")); !strings.Contains(text, "SYS_PTRACE") {
		t.Errorf("the error does not name SYS_PTRACE: %s", text)
	}
	record(64, "--on-unknown", "stop", "--", path("program"))
	record(64, "--file", "card", "--", path("program"))
}

func TestFileOfRecordNamesItsPlaceInABAR(t *testing.T) {
	for text, want := range map[string]recorder.File{
		"2":           {Bar: 2},
		"2,1ac1:089a": {Bar: 2, Vendor: 0x1ac1, Device: 0x89a},
		"0+0x40000":   {Offset: 0x40000},
		"5:1048576":   {Bar: 5, Size: 1 << 20},
		"2+0x1000:0x2000,1ac1:089a": {Bar: 2, Vendor: 0x1ac1, Device: 0x89a, Offset: 0x1000,
			Size: 0x2000},
		"bus:0x1000": {Memory: true, Bus: 0x1000},
	} {
		var got recorder.File
		if ok := parseFileMeaning(text, &got); !ok || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "6", "x", "0+", "0+1", "0+0x1000:0x1000", "0:", "0:0", "0,1",
		"0,x:1", "0:1x,1:2", "0:0x1000+0x1000", "bus:1"} {
		if parseFileMeaning(text, &recorder.File{}) {
			t.Errorf("%q is accepted", text)
		}
	}
}

// waitProgram starts a job in a card, its first argument, and sleeps in a read of a character
// device, the second argument, until the job is done.
const waitProgram = `
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int count, char **arguments) {
	int fd = open(arguments[1], O_RDWR), driver = open(arguments[2], O_RDWR | O_NOCTTY);
	volatile uint32_t *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char line[8];
	p[0] = 1;
	return read(driver, line, sizeof line) != 1 || p[1] != 2;
}
`

// childIsAsleep reports whether the program that a recorder has started sleeps in a call.
func childIsAsleep(process int) bool {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", process))
	for _, path := range lists {
		child, _ := os.ReadFile(path)
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%s/stat", bytes.TrimSpace(child)))
		if bytes.Contains(stat, []byte("(program) S ")) {
			return true
		}
	}
	return false
}

// TestSleepUntilAnInterruptBecomesAPoll has a terminal in place of the driver's file.
func TestSleepUntilAnInterruptBecomesAPoll(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs gcc")
	}
	device, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer device.Close()
	number, err := unix.IoctlGetInt(int(device.Fd()), unix.TIOCGPTN)
	if err != nil || unix.IoctlSetPointerInt(int(device.Fd()), unix.TIOCSPTLCK, 0) != nil {
		t.Fatal(err)
	}
	folder, driver := t.TempDir(), fmt.Sprintf("/dev/pts/%d", number)
	path := func(name string) string { return filepath.Join(folder, name) }
	if out, err := exec.Command("gcc", "-o", path("program"),
		tempFile(t, "program.c", waitProgram)).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v: %s", err, out)
	}
	if err := os.WriteFile(path("card"), make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	card, err := os.OpenFile(path("card"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer card.Close()
	c := exec.Command(buildMain(t, "."), "record", "-o", path("out.record"), "--file",
		path("card")+"=2,1af4:1110", "--file", driver+"=0,1af4:1110", "--", path("program"),
		path("card"), driver)
	var text bytes.Buffer
	c.Stdout, c.Stderr = &text, &text
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- c.Wait() }()
	for isReady := false; !isReady; {
		select {
		case err := <-ended:
			t.Fatalf("lm record: %v: %s", err, text.String())
		case <-time.After(time.Millisecond):
			isReady = childIsAsleep(c.Process.Pid)
		}
	}
	_, _ = card.WriteAt([]byte{2}, 4)
	_, _ = device.WriteString("\n")
	if err := <-ended; err != nil {
		t.Fatalf("lm record: %v: %s", err, text.String())
	}
	if exit, _, stderr := lm(t, "import", path("out.record"), "-o", path("out.lmb")); exit != 0 {
		t.Fatalf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
	if exit, stdout, stderr := lm(t, "dump", path("out.lmb")); exit != 0 ||
		!strings.Contains(stdout, "poll.4    bar2+0x4 == 0x2") {
		t.Errorf("exit status %d; want a poll in %s\nstderr: %s", exit, stdout, stderr)
	}
}
