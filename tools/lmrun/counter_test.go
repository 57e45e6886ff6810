package main

import (
	"crypto/ed25519"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	runtimesigned "lightmetal/runtime/signed"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/lmb/lmbtest"

	"golang.org/x/sys/unix"
)

// failingListing describes an image whose sequence main fails and whose sequence good succeeds.
const failingListing = `lightmetal 1
device edu 1234:11e8 bar0 1MiB
window regs bar0 offset 0x0 size 1MiB
main:
  write.4 regs+0x4 0x1
  expect.4 regs+0x0 == 0x010000ee
safe:
  write.4 regs+0x4 0x2
good:
  write.4 regs+0x4 0x3
`

// inputListing describes an image whose run waits for its input.
const inputListing = `lightmetal 1
device edu 1234:11e8 bar0 1MiB
window regs bar0 offset 0x0 size 1MiB
tensor a input uint32[1]
main:
  copy.4 regs+0x4 <- a[0:4]
`

// versionedImages is a directory with an lmrun that checks signatures and has mock devices, a file
// of keys, images v3.lmb and v7.lmb of two versions, whose sequence main fails, and images
// in3.lmb and in7.lmb, which have an input.
type versionedImages struct{ dir, runner, keys string }

// newVersionedImages builds lmrun, and writes the keys and the signed images.
func newVersionedImages(t *testing.T) *versionedImages {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	public := key.Public().(ed25519.PublicKey)
	c := &versionedImages{t.TempDir(), buildRunner(t, "signed,backend_pci"),
		fmt.Sprintf("%x\n", []byte(public))}
	c.write(t, "keys", c.keys)
	for prefix, listing := range map[string]string{"v": failingListing, "in": inputListing} {
		plain := lmbtest.File(t, listing)
		for _, version := range []uint32{3, 7} {
			value := ed25519.Sign(key, runtimesigned.SignedBytes(plain, version))
			block := lmb.SignatureBlock(version, public, value)
			c.write(t, fmt.Sprintf("%s%d.lmb", prefix, version), string(plain)+string(block))
		}
	}
	return c
}

func (c *versionedImages) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// counter returns the text in the file of the counter, "none" if it does not exist.
func (c *versionedImages) counter() string {
	text, err := os.ReadFile(filepath.Join(c.dir, "counter"))
	if err != nil {
		return "none"
	}
	return string(text)
}

// command returns a command that runs lmrun in the directory. The command is not started.
func (c *versionedImages) command(line string) *exec.Cmd {
	args := strings.Fields("-device mock:edu -key keys -version-counter counter " + line)
	run := exec.Command(c.runner, args...)
	run.Dir = c.dir
	return run
}

// run runs lmrun, and checks its exit status and the counter afterwards.
func (c *versionedImages) run(t *testing.T, line string, exit int, want string) {
	t.Helper()
	run := c.command(line)
	out, _ := run.CombinedOutput()
	if got := c.counter(); run.ProcessState.ExitCode() != exit || got != want {
		t.Errorf("lmrun %s: %v, the counter is %q; want exit status %d and %q; output: %s", line,
			run.ProcessState, got, exit, want, out)
	}
}

// TestSignedBuildReplaysOnlySignedFiles checks that a build with the tag signed passes the file,
// the keys and the least version to runtime/signed, whose tests check what it rejects.
func TestSignedBuildReplaysOnlySignedFiles(t *testing.T) {
	c := newVersionedImages(t)
	signed, err := os.ReadFile(filepath.Join(c.dir, "v3.lmb"))
	if err != nil {
		t.Fatal(err)
	}
	c.write(t, "plain.lmb", string(lmbtest.File(t, failingListing)))
	c.write(t, "changed.lmb", strings.Replace(string(signed), "safe", "sage", 1))
	c.write(t, "empty", "")
	c.write(t, "from4", strings.Replace(c.keys, "\n", " versions 4-\n", 1))
	for _, test := range []struct {
		line, want string
		exit       int
	}{
		{"-key keys v3.lmb", "done", 0},
		{"-key keys -at-least 3 v3.lmb", "done", 0},
		{"-key keys -at-least 4 v3.lmb", "has version 3, but must have at least version 4", 77},
		{"-key from4 v3.lmb", "its key may sign only versions 4 to 4294967295", 77},
		{"-key keys changed.lmb", "invalid signature", 77},
		{"-key keys plain.lmb", "not signed", 77},
		{"-key empty v3.lmb", "no public key", 77},
		{"-key none v3.lmb", "no such file", 66},
		{"-at-least 3 v3.lmb", "need -key", 64},
		{"-version-counter counter v3.lmb", "need -key", 64},
	} {
		t.Run(test.line, func(t *testing.T) {
			line := "-device mock:edu -sequence good " + test.line
			run := exec.Command(c.runner, strings.Fields(line)...)
			run.Dir = c.dir
			out, _ := run.CombinedOutput()
			if exit := run.ProcessState.ExitCode(); exit != test.exit ||
				!strings.Contains(string(out), test.want) {
				t.Errorf("exit %d, output %q; want exit %d and %q", exit, out, test.exit, test.want)
			}
		})
	}
	help, _ := exec.Command(c.runner, "-help").Output()
	for _, flag := range []string{"-key FILE", "-at-least N", "-version-counter FILE"} {
		if !strings.Contains(string(help), flag) || strings.Contains(usage, flag) {
			t.Errorf("%s must be in the help of a program with the tag signed, and in no other",
				flag)
		}
	}
}

// TestVersionCounterRisesWithTheFirstCompleteRun: after an image that fails, the previous version
// must still be usable.
func TestVersionCounterRisesWithTheFirstCompleteRun(t *testing.T) {
	c := newVersionedImages(t)
	c.run(t, "-check v3.lmb", 0, "none")
	c.run(t, "v3.lmb", 76, "none") // its run fails
	c.run(t, "-sequence good v3.lmb", 0, "3\n")
	c.run(t, "v7.lmb", 76, "3\n")
	c.run(t, "-before main -sequence good v7.lmb", 76, "3\n")
	c.run(t, "-sequence good v3.lmb", 0, "3\n") // the old version is still accepted
	c.run(t, "-seal -sequence good -loop 5 -after main v7.lmb", 76, "7\n")
	c.run(t, "-sequence good v3.lmb", 77, "7\n")
	c.run(t, "-check v3.lmb", 77, "7\n")
	c.run(t, "-sequence good v7.lmb", 0, "7\n")
	c.run(t, "-at-least 8 -sequence good v7.lmb", 77, "7\n")
	for _, text := range []string{"", "x", "-1", "4294967296", "7 7", strings.Repeat("1", 40)} {
		c.write(t, "counter", text)
		c.run(t, "-sequence good v7.lmb", 77, text)
	}
	checkNoHiddenFiles(t, c.dir)
}

// TestVersionCounterNeverFalls runs two images at once: the first reads the counter, and then waits
// for its input until the second has raised the counter.
func TestVersionCounterNeverFalls(t *testing.T) {
	c := newVersionedImages(t)
	pipe := filepath.Join(c.dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ before, first, second, between string }{
		{"1\n", "in3.lmb", "v7.lmb", "7\n"}, {"", "in3.lmb", "v7.lmb", "7\n"},
		{"1\n", "in7.lmb", "v3.lmb", "3\n"}, {"1\n", "in7.lmb", "v7.lmb", "7\n"},
	} {
		for _, flags := range []string{"", "-seal "} {
			_ = os.Remove(filepath.Join(c.dir, "counter"))
			if test.before != "" {
				c.write(t, "counter", test.before)
			}
			first := c.command(flags + "-input a=pipe " + test.first)
			if err := first.Start(); err != nil {
				t.Fatal(err)
			}
			in, err := os.OpenFile(pipe, os.O_WRONLY, 0) // waits until lmrun opens its inputs
			if err != nil {
				t.Fatal(err)
			}
			c.run(t, flags+"-sequence good "+test.second, 0, test.between)
			_, err = in.Write(make([]byte, 4))
			in.Close()
			if waitErr := first.Wait(); err != nil || waitErr != nil || c.counter() != "7\n" {
				t.Errorf("%s%+v: %v, %v, the counter is %q; want success and 7", flags, test, err,
					waitErr, c.counter())
			}
			c.run(t, "-check v3.lmb", 77, "7\n")
		}
	}
	checkNoHiddenFiles(t, c.dir)
}

// checkNoHiddenFiles checks that no temporary files are left in a directory.
func checkNoHiddenFiles(t *testing.T, dir string) {
	t.Helper()
	if files, _ := filepath.Glob(filepath.Join(dir, ".*")); len(files) != 0 {
		t.Errorf("temporary files are left: %v", files)
	}
}

// TestVersionCounterInALockedDirectoryIsNotRaised holds the lock longer than lmrun waits for it.
func TestVersionCounterInALockedDirectoryIsNotRaised(t *testing.T) {
	c := newVersionedImages(t)
	dir, err := os.Open(c.dir)
	if err == nil {
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.run(t, "-seal -sequence good v3.lmb", 74, "none")
	dir.Close()
	c.run(t, "-seal -sequence good v3.lmb", 0, "3\n")
	checkNoHiddenFiles(t, c.dir)
}

// TestSignalDoesNotShortenTheWaitForTheCounter: after a signal, too, lmrun waits a second for
// another lmrun that has locked the directory.
func TestSignalDoesNotShortenTheWaitForTheCounter(t *testing.T) {
	c := newVersionedImages(t)
	dir, err := os.Open(c.dir)
	if err == nil {
		defer dir.Close()
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	run := c.command("-seal -loop forever -input a=- in3.lmb")
	run.Stdin = reader
	start := time.Now()
	if err = run.Start(); err != nil {
		t.Fatal(err)
	}
	// When lmrun has read the data of the first run, it completes this run in spite of a signal.
	_, _ = writer.Write(make([]byte, 4))
	for unread := 4; unread != 0 && err == nil; {
		unread, err = unix.IoctlGetInt(int(reader.Fd()), unix.TIOCINQ)
		goruntime.Gosched()
	}
	_ = run.Process.Signal(unix.SIGTERM)
	_ = run.Wait()
	if waited := time.Since(start); run.ProcessState.ExitCode() != 74 || waited < time.Second/2 {
		t.Errorf("lmrun: %v after %v; want exit status 74 after a second", run.ProcessState, waited)
	}
}

// TestPowerCutLeavesACompleteVersionCounter kills a sealed lmrun before and after each of its
// system calls on files. Afterwards, the counter must have the old or the new value, the image must
// still be accepted, and the next run must raise the counter.
func TestPowerCutLeavesACompleteVersionCounter(t *testing.T) {
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	c, seen := newVersionedImages(t), map[string]int{}
	for killed, step := true, 0; killed; step++ {
		c.write(t, "counter", "3\n")
		run := c.command("-seal -sequence good -loop 2 v7.lmb")
		run.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		killed = killAtStep(t, run.Process.Pid, step)
		_ = run.Process.Release()
		seen[c.counter()]++
		exitOfOlder := map[string]int{"3\n": 0, "7\n": 77}[c.counter()]
		c.run(t, "-check v3.lmb", exitOfOlder, c.counter())
		c.run(t, "-sequence good v7.lmb", 0, "7\n")
		checkNoHiddenFiles(t, c.dir)
	}
	synced := slices.Index(fileCalls, unix.SYS_FSYNC)
	renamed := slices.Index(fileCalls, unix.SYS_RENAMEAT2)
	if len(seen) != 2 || seen["3\n"] < 6 || seen["7\n"] < 2 || synced < 0 || renamed < synced ||
		!slices.Contains(fileCalls[renamed:], unix.SYS_FSYNC) {
		t.Errorf("counters after kills: %v, want 3 at least 6 times and 7 at least twice; system "+
			"calls %v, want fsync before and after renameat2", seen, fileCalls)
	}
}
