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

	runtimesigned "lightmetal/runtime/signed"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/lmb/lmbtest"

	"golang.org/x/sys/unix"
)

// This file tests -version-counter.

// failing is an image whose sequence main fails, and whose sequence good succeeds.
const failing = `lightmetal 1
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

// counted is a directory with an lmrun that checks signatures and has mock devices, a file of keys,
// and images v3.lmb and v7.lmb of two versions, whose sequence main fails.
type counted struct{ dir, runner string }

func newCounted(t *testing.T) *counted {
	t.Helper()
	c := &counted{t.TempDir(), buildRunner(t, "signed,backend_pci")}
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	public := key.Public().(ed25519.PublicKey)
	c.write(t, "keys", fmt.Sprintf("%x\n", []byte(public)))
	plain := lmbtest.File(t, failing)
	for _, version := range []uint32{3, 7} {
		value := ed25519.Sign(key, runtimesigned.SignedBytes(plain, version))
		block := lmb.SignatureBlock(version, public, value)
		c.write(t, fmt.Sprintf("v%d.lmb", version), string(plain)+string(block))
	}
	return c
}

func (c *counted) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// counter returns the text in the file of the counter, "none" if it does not exist.
func (c *counted) counter() string {
	text, err := os.ReadFile(filepath.Join(c.dir, "counter"))
	if err != nil {
		return "none"
	}
	return string(text)
}

// command is lmrun in the directory, not started yet.
func (c *counted) command(line string) *exec.Cmd {
	args := strings.Fields("-device mock:edu -key keys -version-counter counter " + line)
	run := exec.Command(c.runner, args...)
	run.Dir = c.dir
	return run
}

// run runs lmrun, and checks its status and the counter afterwards.
func (c *counted) run(t *testing.T, line string, exit int, want string) {
	t.Helper()
	run := c.command(line)
	out, _ := run.CombinedOutput()
	if got := c.counter(); run.ProcessState.ExitCode() != exit || got != want {
		t.Errorf("%s: %v, %s; the counter is %q, want %d and %q", line, run.ProcessState, out, got,
			exit, want)
	}
}

// TestVersionCounterRisesWithTheFirstCompleteRun, and not before: an image that fails leaves the
// previous version usable.
func TestVersionCounterRisesWithTheFirstCompleteRun(t *testing.T) {
	c := newCounted(t)
	c.run(t, "-check v3.lmb", 0, "none")
	c.run(t, "v3.lmb", 76, "none") // its run fails
	c.run(t, "-sequence good v3.lmb", 0, "3\n")
	c.run(t, "v7.lmb", 76, "3\n")
	c.run(t, "-before main -sequence good v7.lmb", 76, "3\n")
	c.run(t, "-sequence good v3.lmb", 0, "3\n") // the way back is open
	c.run(t, "-seal -sequence good -loop 5 -after main v7.lmb", 76, "7\n")
	c.run(t, "-sequence good v3.lmb", 77, "7\n")
	c.run(t, "-check v3.lmb", 77, "7\n")
	c.run(t, "-sequence good v7.lmb", 0, "7\n")
	c.run(t, "-at-least 8 -sequence good v7.lmb", 77, "7\n")
	for _, text := range []string{"", "x", "-1", "4294967296", "7 7", strings.Repeat("1", 40)} {
		c.write(t, "counter", text)
		c.run(t, "-sequence good v7.lmb", 77, text)
	}
	run := exec.Command(c.runner, "-version-counter", "counter", "v7.lmb")
	run.Dir = c.dir
	if out, _ := run.CombinedOutput(); run.ProcessState.ExitCode() != 64 ||
		!strings.Contains(string(out), "need -key") {
		t.Errorf("%v, %s", run.ProcessState, out)
	}
	if files, _ := filepath.Glob(filepath.Join(c.dir, ".*")); len(files) != 0 {
		t.Errorf("files are left: %v", files)
	}
}

// TestPowerCutLeavesACompleteVersionCounter kills a sealed lmrun before and after each of its
// system calls on files. The counter is the old or the new one, the image that was just tried is
// accepted, and the next run raises the counter.
func TestPowerCutLeavesACompleteVersionCounter(t *testing.T) {
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	c, seen := newCounted(t), map[string]int{}
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
		older := map[string]int{"3\n": 0, "7\n": 77}[c.counter()]
		c.run(t, "-check v3.lmb", older, c.counter())
		c.run(t, "-sequence good v7.lmb", 0, "7\n")
	}
	synced := slices.Index(fileCalls, unix.SYS_FSYNC)
	renamed := slices.Index(fileCalls, unix.SYS_RENAMEAT2)
	if len(seen) != 2 || seen["3\n"] < 6 || seen["7\n"] < 2 || synced < 0 || renamed < synced {
		t.Errorf("counters %v, calls %v", seen, fileCalls)
	}
}
