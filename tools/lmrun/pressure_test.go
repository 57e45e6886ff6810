package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"lightmetal/tools/image/lmb/lmbtest"

	"golang.org/x/sys/unix"
)

// makeMemoryGroup creates a control group whose processes may use `limit` bytes of memory and no
// swap, with either version of control groups, and returns its directory. If this is impossible, it
// skips the test.
func makeMemoryGroup(t *testing.T, limit int) string {
	t.Helper()
	bytes := strconv.Itoa(limit)
	for _, version := range []struct{ root, limit, swap, swapLimit string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", bytes},
		{"/sys/fs/cgroup", "memory.max", "memory.swap.max", "0"},
	} {
		if _, err := os.Stat(filepath.Join(version.root, "cgroup.procs")); err != nil {
			continue
		}
		dir := filepath.Join(version.root, fmt.Sprintf("lightmetal-test-%d", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		err := os.WriteFile(filepath.Join(dir, version.limit), []byte(bytes), 0)
		swap := filepath.Join(dir, version.swap) // exists only if the kernel counts swap
		if _, missing := os.Stat(swap); missing == nil && err == nil {
			err = os.WriteFile(swap, []byte(version.swapLimit), 0)
		}
		if err == nil {
			return dir
		}
	}
	t.Skip("needs root and control groups with a limit of memory")
	return ""
}

// groupCommand returns a command that runs a program in a control group. The command is not
// started. If isKept is true, the kernel does not kill the program for lack of memory.
func groupCommand(group string, isKept bool, program string, args ...string) *exec.Cmd {
	prepare := "echo $$ >" + group + "/cgroup.procs; "
	if isKept {
		prepare += "echo -1000 >/proc/$$/oom_score_adj; "
	}
	words := []string{"-c", prepare + `exec "$0" "$@"`, program}
	return exec.Command("sh", append(words, args...)...)
}

// majorFaults returns how often a process has waited for a page that was not in memory.
func majorFaults(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// Field 12 of proc_pid_stat(5). The second field, the name, ends with the last parenthesis.
	_, fields, _ := strings.Cut(string(text), ") ")
	count, err := strconv.Atoi(strings.Fields(fields)[9])
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// TestLockedFramesHaveNoMajorFaults runs lmrun while another program allocates all memory of their
// control group, until the kernel kills that program. Without -lock there are major faults, because
// the kernel evicts payload and program and reads them again.
func TestLockedFramesHaveNoMajorFaults(t *testing.T) {
	const limit, payload, hogs = 64 << 20, 1 << 20, 10
	runner, dir := buildRunner(t, "backend_pci"), t.TempDir()
	var system unix.Statfs_t
	if err := unix.Statfs(dir, &system); err != nil || system.Type == unix.TMPFS_MAGIC {
		t.Skipf("%s is in memory: %v", dir, err)
	}
	source := `lightmetal 1
device ivshmem 1af4:1110 bar2 1MiB
window ram bar2 offset 0x0 size 1MiB
tensor y output uint8[8]
main:
`
	for at := range payload >> 20 {
		source += fmt.Sprintf("  copy.8 ram+0x0 <- pattern %d size 1MiB\n", at+1)
	}
	image := filepath.Join(dir, "image.lmb")
	file := lmbtest.File(t, source+"  copy.8 y[:] <- ram+0x0\n")
	if err := os.WriteFile(image, file, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, isLocked := range []bool{false, true} {
		t.Run(fmt.Sprint(isLocked), func(t *testing.T) {
			dropCachedPages(t, image, runner)
			args := []string{"-device", "mock:ivshmem", "-loop", "forever", "-output", "y=-", image}
			if isLocked {
				args = append(args, "-lock")
			}
			group := makeMemoryGroup(t, limit)
			run := groupCommand(group, true, runner, args...)
			out, err := run.StdoutPipe()
			if err == nil {
				err = run.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _, _ = run.Process.Kill(), run.Wait() }()
			pid := run.Process.Pid
			exhaust := func() { exhaustMemory(t, group, hogs) }
			frames, before := countFramesDuring(t, out, exhaust, pid)
			got := majorFaults(t, pid) - before
			t.Logf("%d frames of %d bytes of payload: %d major faults", frames, payload, got)
			if (got == 0) != isLocked {
				t.Errorf("locked: %v, %d major faults in %d frames; want none only if locked",
					isLocked, got, frames)
			}
		})
	}
}

// dropCachedPages drops the pages of files from memory, so that they count for the control group
// that reads them next.
func dropCachedPages(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		file, err := os.Open(path)
		if err == nil {
			err = file.Sync()
		}
		if err == nil {
			err = unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
		}
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// countFramesDuring reads frames of 8 bytes while `disturb` runs, and one more. It returns the
// number of frames, and the number of major faults of the process before `disturb` began.
func countFramesDuring(t *testing.T, out io.Reader, disturb func(), pid int) (frames, before int) {
	t.Helper()
	var frame [8]byte
	ended := make(chan bool)
	for isLast := false; ; frames++ {
		if _, err := io.ReadFull(out, frame[:]); err != nil {
			t.Fatalf("reading a frame after %d frames: %v", frames, err)
		}
		if isLast {
			return frames, before
		}
		if frames == 0 {
			before = majorFaults(t, pid)
			go func() {
				defer close(ended)
				disturb()
			}()
		}
		select {
		case <-ended:
			isLast = true
		default:
		}
	}
}

// exhaustMemory runs a program that allocates memory until the kernel kills it, several times.
func exhaustMemory(t *testing.T, group string, times int) {
	for range times {
		hog := groupCommand(group, false, "tail", "/dev/zero")
		out, err := hog.CombinedOutput()
		status, ok := hog.ProcessState.Sys().(interface{ Signaled() bool })
		if !ok || !status.Signaled() {
			t.Errorf("tail /dev/zero: %v, %s; want it killed", err, out)
		}
	}
}
