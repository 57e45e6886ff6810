//go:build linux && (amd64 || arm64)

package recorder

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"lightmetal/tools/capture/record"

	"golang.org/x/sys/unix"
)

const edges = "testdata/edges.c"

// lists wants the record to have what the program says that it did.
func lists(t *testing.T, r *run) {
	t.Helper()
	if r.err != nil {
		t.Fatalf("the record: %v; the recorder said %s", r.err, r.said)
	}
	if difference := differ(r.accesses(), expected(r.output)); difference != "" ||
		len(expected(r.output)) == 0 {
		t.Errorf("%s; exit %d with %q; it said %s", difference, r.exit, r.output, r.said)
	}
}

func TestFileWithoutAPathIsABar(t *testing.T) {
	r := recorded(t, nil,
		Options{Files: []File{{Path: "memfd:card", Bar: 4, Vendor: 0x1af4, Device: 0x1110}}},
		compiled(t, edges, "-O2"), "memfd")
	if lists(t, r); r.capture.Bars[4].Size != cardSize {
		t.Errorf("BARs %v", r.capture.Bars)
	}
	if told := r.told(); len(told) != 1 || !strings.Contains(told[0],
		" stores to /memfd:card (deleted) by a system call") {
		t.Errorf("%q", told)
	}
}

// TestFirstThreadMayEndBeforeTheOthers: Linux 6.9 lets a descriptor be taken of any thread.
func TestFirstThreadMayEndBeforeTheOthers(t *testing.T) {
	if file, err := unix.PidfdOpen(os.Getpid(), unix.PIDFD_THREAD); err != nil {
		t.Skip("needs Linux 6.9")
	} else {
		unix.Close(file)
	}
	lists(t, recorded(t, nil, Options{}, compiled(t, edges, "-O2"), "leader"))
}

// TestWhatTheKernelMovesBetweenFilesIsAGap, once for each call.
func TestWhatTheKernelMovesBetweenFilesIsAGap(t *testing.T) {
	r := recorded(t, nil, Options{}, compiled(t, edges, "-O2"), "between")
	if r.exit != 0 || !errors.Is(r.err, record.ErrGap) ||
		strings.Count(r.said, "(sendfile, splice, copy_file_range): the copy is not recorded") < 3 {
		t.Errorf("exit %d, %v: %s", r.exit, r.err, r.said)
	}
}

// TestWaysPastTheRecorderAreNamed, in the record and on the terminal.
func TestWaysPastTheRecorderAreNamed(t *testing.T) {
	r := recorded(t, nil, Options{}, compiled(t, edges, "-O2"), "past")
	lists(t, r)
	for _, want := range []string{"sends a descriptor of ", "io_uring",
		"/mem: accesses to a BAR through this file", "Linux's AIO"} {
		if !strings.Contains(r.said, want) {
			t.Errorf("%q is not said: %s", want, r.said)
		}
	}
	if want := 4; len(r.told()) != want {
		t.Errorf("%d events in the record, want %d: %q", len(r.told()), want, r.told())
	}
}

// TestSystemCallsOnAFileThatStandsForABarAreNamed, once for stores and once for loads.
func TestSystemCallsOnAFileThatStandsForABarAreNamed(t *testing.T) {
	r := recorded(t, nil, Options{}, compiled(t, edges, "-O2"), "moves")
	lists(t, r)
	told := r.told()
	if len(told) != 2 || !strings.Contains(told[0], " stores to ") ||
		!strings.Contains(told[1], " loads from ") ||
		!strings.Contains(told[0], "by a system call") {
		t.Errorf("%q", told)
	}
}

// TestSystemCallsOnAFileOfADriverAreNamed as on one that stands for a BAR.
func TestSystemCallsOnAFileOfADriverAreNamed(t *testing.T) {
	driver, err := os.CreateTemp("/dev", "uio-lightmetal-")
	if err != nil {
		t.Skip(err)
	}
	defer os.Remove(driver.Name())
	defer driver.Close()
	r := recorded(t, nil, Options{}, "/bin/cat", driver.Name())
	if want := " loads from " + driver.Name() + " by a system call"; r.exit != 0 ||
		!strings.Contains(r.said, want) {
		t.Errorf("exit %d; %q is not said: %s", r.exit, want, r.said)
	}
}

// TestPlaceOfAnInstructionIsWholeWhereItsPathHasABlank.
func TestPlaceOfAnInstructionIsWholeWhereItsPathHasABlank(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a program")
	if err := os.WriteFile(path, make([]byte, 2*pageSize), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	at, err := unix.MmapPtr(int(file.Fd()), pageSize, nil, pageSize, unix.PROT_READ,
		unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.MunmapPtr(at, pageSize) }()
	if got, want := describeAddress(os.Getpid(), uint64(uintptr(at))+8),
		path+"+0x1008"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestProgramThatTracesIsToldThatItCannot, and is recorded all the same.
func TestProgramThatTracesIsToldThatItCannot(t *testing.T) {
	program := compiled(t, edges, "-O2")
	r := recorded(t, nil, Options{}, program, "debugger")
	if lists(t, r); !strings.Contains(r.output, fmt.Sprintf("traced: %d\n", unix.EPERM)) {
		t.Error(r.output)
	}
}

// TestProgramGainsNoRights by being run, as under any tracer.
func TestProgramGainsNoRights(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to be somebody else")
	}
	path, program := card(t), compiled(t, edges, "-O2", "-static")
	folder := filepath.Dir(path)
	own, set := filepath.Join(folder, "recorder"), filepath.Join(folder, "program")
	for to, from := range map[string]string{own: os.Args[0], set: program} {
		if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	for name, mode := range map[string]uint32{own: 0o755, set: 0o4755, path: 0o666, folder: 0o777} {
		if err := unix.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	without := exec.Command(set, path, "rights")
	without.SysProcAttr = nobody
	if out, err := without.Output(); err != nil || !strings.HasPrefix(string(out), "user 0\n") {
		t.Skipf("no program gains rights here: %s, %v", out, err)
	}
	c, _ := prepared(t, nil, Options{}, path, set, "rights")
	out := filepath.Join(folder, "out.record")
	for i, v := range c.Env {
		if strings.HasPrefix(v, child+"=") {
			c.Env[i] = strings.Replace(v, `"Path":"`+filepath.Dir(outOf(v)), `"Path":"`+folder, 1)
		}
	}
	c.Path, c.SysProcAttr = own, nobody
	r := finished(t, c, path)
	r.read(out)
	if lists(t, r); !strings.HasPrefix(r.output, "user 65534\n") {
		t.Error(r.output)
	}
}

// outOf is the last path in an environment variable of prepared: the record's.
func outOf(v string) string {
	_, rest, _ := strings.Cut(v[strings.LastIndex(v, `"Path"`):], `:"`)
	path, _, _ := strings.Cut(rest, `"`)
	return path
}

func TestDeviceOfOnesAndProgramThatDiesLeaveAWholeRecord(t *testing.T) {
	program := compiled(t, edges, "-O2")
	ones := recorded(t, nil, Options{}, program, "ones")
	if list := ones.accesses(); ones.err != nil || ones.exit != 7 || len(list) < 3 ||
		list[len(list)-1] != "R 4 4 ffffffff" {
		t.Errorf("exit %d, %v, %v", ones.exit, ones.err, list)
	}
	dies := recorded(t, nil, Options{}, program, "dies")
	if lists(t, dies); dies.exit != 128+int(unix.SIGABRT) {
		t.Errorf("exit %d", dies.exit)
	}
}

// TestProgramThatIsKilledLeavesAWholeRecord, where somebody else kills it.
func TestProgramThatIsKilledLeavesAWholeRecord(t *testing.T) {
	program := compiled(t, edges, "-O2")
	c, out := prepared(t, nil, Options{}, card(t), program, "waits")
	pipe, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	text := bufio.NewReader(pipe)
	first, _ := text.ReadString('\n')
	if ready, err := text.ReadString('\n'); ready != "ready\n" {
		t.Fatal(ready, err)
	}
	if err := unix.Kill(childOf(t, c.Process.Pid), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, pipe)
	_ = c.Wait()
	var r run
	if r.read(out); r.err != nil || c.ProcessState.ExitCode() != 128+int(unix.SIGKILL) ||
		!slices.Equal(r.accesses(), expected(first)) {
		t.Errorf("exit %d, record %v: %v", c.ProcessState.ExitCode(), r.err, r.accesses())
	}
}

// childOf is the only child of a process, started by whichever thread.
func childOf(t *testing.T, process int) int {
	t.Helper()
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", process))
	for _, file := range files {
		var pid int
		text, _ := os.ReadFile(file)
		if n, _ := fmt.Sscan(string(text), &pid); n == 1 {
			return pid
		}
	}
	t.Fatal("the recorder has no child")
	return 0
}

func TestTracingThatIsForbiddenIsSaidWithWhatToDo(t *testing.T) {
	launcher := compiled(t, edges, "-O2")
	path := card(t)
	c, out := prepared(t, nil, Options{}, path, launcher, "ones")
	c.Args = []string{launcher, path, "forbidden", c.Path}
	c.Path = launcher
	r := finished(t, c, path)
	if r.exit != 98 || !strings.Contains(r.said, "--cap-add=SYS_PTRACE") ||
		!strings.Contains(r.said, "ptrace_scope") {
		t.Errorf("exit %d: %s", r.exit, r.said)
	}
	if r.read(out); !os.IsNotExist(r.err) {
		t.Errorf("a record is left: %v", r.err)
	}
}

// TestRegionsOfVFIOAreTheFirstSixBars, in whatever way its file was opened.
func TestRegionsOfVFIOAreTheFirstSixBars(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "0000:03:00.0")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"vendor": "0x1234\n", "device": "0x11e8\n",
		"resource": "0x10000000 0x100fffff 0x40200\n0 0 0\n0x8000000000 0x80000fffff 0x14220c\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &recording{options: &Options{}, out: newWriter(io.Discard, 0)}
	if m, err := r.vfioRegionTarget(folder, 2<<vfioShift|0x1230); err != nil || m.bar.index != 2 ||
		m.offset != 0x1230 || m.bar.size != 1<<20 || m.bar.device.name != "0000:03:00.0" {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err := r.vfioRegionTarget(folder, 7<<vfioShift); err != nil || m != nil {
		t.Errorf("configuration space: %+v, %v", m, err)
	}
	if m, err := r.barContaining(folder, 0x10000ff0); err != nil || m == nil || m.bar.index != 0 ||
		m.offset != 0xff0 {
		t.Errorf("a physical address: %+v, %v", m, err)
	}
	if m, err := r.barContaining(folder, 0x20000000); err != nil || m != nil {
		t.Errorf("memory that is no BAR: %+v, %v", m, err)
	}
}

// TestPartOfAFileThatIsMappedByRemapFilePagesIsFollowed, and is a gap where
// nothing of it was mapped before.
func TestPartOfAFileThatIsMappedByRemapFilePagesIsFollowed(t *testing.T) {
	program := compiled(t, edges, "-O2")
	r := recorded(t, nil, Options{}, program, "remaps")
	if lists(t, r); r.exit != 0 {
		t.Errorf("exit %d: %s", r.exit, r.said)
	}
	carriedOut(t, r)
	r = recorded(t, nil, Options{}, program, "remapsbeyond")
	if !errors.Is(r.err, record.ErrGap) || r.exit != 0 ||
		!strings.Contains(r.said, "remap_file_pages") {
		t.Errorf("exit %d, %v: %s", r.exit, r.err, r.said)
	}
}

// TestChildHasNotGotWhatItsParentKeepsFromIt: it dies of a store there, as without the recorder.
func TestChildHasNotGotWhatItsParentKeepsFromIt(t *testing.T) {
	program := compiled(t, edges, "-O2")
	r := recorded(t, nil, Options{}, program, "dontfork")
	lists(t, r)
	same(t, r, alone(t, nil, program, "dontfork"))
}

// TestStrictModeIsWhatItIsWithoutTheRecorder.
func TestStrictModeIsWhatItIsWithoutTheRecorder(t *testing.T) {
	program := compiled(t, edges, "-O2")
	r := recorded(t, nil, Options{}, program, "strict")
	lists(t, r)
	same(t, r, alone(t, nil, program, "strict"))
}

// TestPointerToABarInASystemCallIsNamedWithARemedy, once for each call, in the
// record too; also where a list of buffers has it.
func TestPointerToABarInASystemCallIsNamedWithARemedy(t *testing.T) {
	r := recorded(t, nil, Options{}, compiled(t, edges, "-O2"), "pointers")
	lists(t, r)
	told := strings.Join(r.told(), "\n")
	for _, name := range []string{"write", "read", "writev", "sendmsg", "getrandom"} {
		if strings.Count("\n"+told, "\n"+name+" of process ") != 1 {
			t.Errorf("%s is not named once: %s", name, told)
		}
	}
	if !strings.Contains(r.said, "EFAULT") || !strings.Contains(r.said, "BAR 2 of file") ||
		!strings.Contains(r.said, "pass a buffer with a copy of the data") {
		t.Error(r.said)
	}
}
