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

const edgesSource = "testdata/edges.c"

// checkListedAccesses compares the accesses of the record with those that the program printed.
func checkListedAccesses(t *testing.T, r *runResult) {
	t.Helper()
	if r.err != nil {
		t.Fatalf("reading the record: %v; messages of the recorder: %s", r.err, r.messages)
	}
	if difference := firstDifference(r.accesses(), printedAccesses(r.output)); difference != "" ||
		len(printedAccesses(r.output)) == 0 {
		t.Errorf("accesses of the record: %s; exit status %d, output %q, messages %s", difference,
			r.exit, r.output, r.messages)
	}
}

func TestFileWithoutAPathIsRecordedAsABar(t *testing.T) {
	r := runRecorded(t, nil,
		Options{Files: []File{{Path: "memfd:card", Bar: 4, Vendor: 0x1af4, Device: 0x1110}}},
		compileProgram(t, edgesSource, "-O2"), "memfd")
	if checkListedAccesses(t, r); r.capture.Bars[4].Size != cardSize {
		t.Errorf("BARs %v, want BAR 4 of %d bytes", r.capture.Bars, cardSize)
	}
	if events := r.eventLines(); len(events) != 1 || !strings.Contains(events[0],
		" stores to /memfd:card (deleted) by a system call") {
		t.Errorf("events %q, want one of stores to /memfd:card", events)
	}
}

// TestFirstThreadMayEndBeforeTheOthers needs Linux 6.9, which can open a pidfd of any thread.
func TestFirstThreadMayEndBeforeTheOthers(t *testing.T) {
	if file, err := unix.PidfdOpen(os.Getpid(), unix.PIDFD_THREAD); err != nil {
		t.Skip("needs Linux 6.9")
	} else {
		unix.Close(file)
	}
	program := compileProgram(t, edgesSource, "-O2")
	checkListedAccesses(t, runRecorded(t, nil, Options{}, program, "leader"))
}

// TestCopyBetweenFilesByTheKernelIsAGap checks that each such system call is a gap in the record.
func TestCopyBetweenFilesByTheKernelIsAGap(t *testing.T) {
	r := runRecorded(t, nil, Options{}, compileProgram(t, edgesSource, "-O2"), "between")
	const message = "(sendfile, splice, copy_file_range): the copy is not recorded"
	if r.exit != 0 || !errors.Is(r.err, record.ErrGap) ||
		strings.Count(r.messages, message) < 3 {
		t.Errorf("exit status %d, record: %v, want a gap and 3 messages with %q: %s", r.exit, r.err,
			message, r.messages)
	}
}

// TestAccessesThatBypassTheRecorderAreReported checks that they are reported in the record and on
// the terminal.
func TestAccessesThatBypassTheRecorderAreReported(t *testing.T) {
	r := runRecorded(t, nil, Options{}, compileProgram(t, edgesSource, "-O2"), "past")
	checkListedAccesses(t, r)
	for _, want := range []string{"sends a descriptor of ", "io_uring",
		"/mem: accesses to a BAR through this file", "Linux's AIO"} {
		if !strings.Contains(r.messages, want) {
			t.Errorf("the recorder did not print %q: %s", want, r.messages)
		}
	}
	if want := 4; len(r.eventLines()) != want {
		t.Errorf("%d events in the record, want %d: %q", len(r.eventLines()), want, r.eventLines())
	}
}

// TestSystemCallsOnABarFileAreReported checks that loads and stores of a file that represents a BAR
// are each reported once.
func TestSystemCallsOnABarFileAreReported(t *testing.T) {
	r := runRecorded(t, nil, Options{}, compileProgram(t, edgesSource, "-O2"), "moves")
	checkListedAccesses(t, r)
	events := r.eventLines()
	if len(events) != 2 || !strings.Contains(events[0], " stores to ") ||
		!strings.Contains(events[1], " loads from ") ||
		!strings.Contains(events[0], "by a system call") {
		t.Errorf("events %q, want one of stores and one of loads", events)
	}
}

// TestSystemCallsOnADriverFileAreReported reads a file in /dev that has the name of a UIO device.
func TestSystemCallsOnADriverFileAreReported(t *testing.T) {
	driver, err := os.CreateTemp("/dev", "uio-lightmetal-")
	if err != nil {
		t.Skip(err)
	}
	defer os.Remove(driver.Name())
	defer driver.Close()
	r := runRecorded(t, nil, Options{}, "/bin/cat", driver.Name())
	if want := " loads from " + driver.Name() + " by a system call"; r.exit != 0 ||
		!strings.Contains(r.messages, want) {
		t.Errorf("exit status %d, want 0 and a message with %q: %s", r.exit, want, r.messages)
	}
}

func TestDescriptionOfAnAddressKeepsAPathWithABlank(t *testing.T) {
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

// TestProgramThatTracesGetsEPERM: a child of the program requests to be traced, which fails because
// the recorder traces the child already. The program is recorded nevertheless.
func TestProgramThatTracesGetsEPERM(t *testing.T) {
	program := compileProgram(t, edgesSource, "-O2")
	r := runRecorded(t, nil, Options{}, program, "debugger")
	checkListedAccesses(t, r)
	if want := fmt.Sprintf("traced: %d\n", unix.EPERM); !strings.Contains(r.output, want) {
		t.Errorf("output %q, want one with %q", r.output, want)
	}
}

// TestSetuidProgramGainsNoPrivileges: a setuid program runs with the rights of its caller, as it
// does under any tracer.
func TestSetuidProgramGainsNoPrivileges(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to run as another user")
	}
	path, program := createCard(t), compileProgram(t, edgesSource, "-O2", "-static")
	folder := filepath.Dir(path)
	own, set := filepath.Join(folder, "recorder"), filepath.Join(folder, "program")
	for to, from := range map[string]string{own: os.Args[0], set: program} {
		if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
			t.Fatalf("cp %s %s: %v; output: %s", from, to, err, out)
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
	c, _ := recorderCommand(t, nil, Options{}, path, set, "rights")
	out := filepath.Join(folder, "out.record")
	for i, v := range c.Env {
		if strings.HasPrefix(v, childVariable+"=") {
			c.Env[i] = strings.Replace(v, `"Path":"`+filepath.Dir(recordPath(v)),
				`"Path":"`+folder, 1)
		}
	}
	c.Path, c.SysProcAttr = own, nobody
	r := runCommand(t, c, path)
	r.readRecord(out)
	if checkListedAccesses(t, r); !strings.HasPrefix(r.output, "user 65534\n") {
		t.Errorf("output %q, want the rights of user 65534", r.output)
	}
}

// recordPath returns the path of the record in the environment variable of a recorderCommand.
func recordPath(v string) string {
	_, rest, _ := strings.Cut(v[strings.LastIndex(v, `"Path"`):], `:"`)
	path, _, _ := strings.Cut(rest, `"`)
	return path
}

func TestDeviceOfOnesAndAbortLeaveACompleteRecord(t *testing.T) {
	program := compileProgram(t, edgesSource, "-O2")
	ones := runRecorded(t, nil, Options{}, program, "ones")
	if list := ones.accesses(); ones.err != nil || ones.exit != 7 || len(list) < 3 ||
		list[len(list)-1] != "R 4 4 ffffffff" {
		t.Errorf("device of ones: exit status %d, record: %v, accesses %v; want 7 and a last load "+
			"of ffffffff", ones.exit, ones.err, list)
	}
	dies := runRecorded(t, nil, Options{}, program, "dies")
	if checkListedAccesses(t, dies); dies.exit != 128+int(unix.SIGABRT) {
		t.Errorf("abort: exit status %d, want %d", dies.exit, 128+int(unix.SIGABRT))
	}
}

func TestProgramKilledByAnotherProcessLeavesACompleteRecord(t *testing.T) {
	program := compileProgram(t, edgesSource, "-O2")
	c, out := recorderCommand(t, nil, Options{}, createCard(t), program, "waits")
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
		t.Fatalf("the program printed %q, want ready: %v", ready, err)
	}
	if err := unix.Kill(childProcess(t, c.Process.Pid), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, pipe)
	_ = c.Wait()
	var r runResult
	if r.readRecord(out); r.err != nil || c.ProcessState.ExitCode() != 128+int(unix.SIGKILL) ||
		!slices.Equal(r.accesses(), printedAccesses(first)) {
		t.Errorf("exit status %d, record: %v, accesses %v; want status %d and accesses %v",
			c.ProcessState.ExitCode(), r.err, r.accesses(), 128+int(unix.SIGKILL),
			printedAccesses(first))
	}
}

// childProcess returns the only child of a process, which any of its threads may have started.
func childProcess(t *testing.T, process int) int {
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

func TestForbiddenTracingIsReportedWithARemedy(t *testing.T) {
	launcher := compileProgram(t, edgesSource, "-O2")
	path := createCard(t)
	c, out := recorderCommand(t, nil, Options{}, path, launcher, "ones")
	c.Args = []string{launcher, path, "forbidden", c.Path}
	c.Path = launcher
	r := runCommand(t, c, path)
	if r.exit != 98 || !strings.Contains(r.messages, "--cap-add=SYS_PTRACE") ||
		!strings.Contains(r.messages, "ptrace_scope") {
		t.Errorf("exit status %d, want 98 and remedies in the message: %s", r.exit, r.messages)
	}
	if r.readRecord(out); !os.IsNotExist(r.err) {
		t.Errorf("reading the record: error %v, want that no record exists", r.err)
	}
}

// TestRegionsOfVFIOAreTheFirstSixBars finds the BAR of a VFIO region and of a physical address.
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
		t.Errorf("region 2: target %+v, error %v; want BAR 2 + 0x1230", m, err)
	}
	if m, err := r.vfioRegionTarget(folder, 7<<vfioShift); err != nil || m != nil {
		t.Errorf("configuration space: target %+v, error %v; want none", m, err)
	}
	if m, err := r.barContaining(folder, 0x10000ff0); err != nil || m == nil || m.bar.index != 0 ||
		m.offset != 0xff0 {
		t.Errorf("physical address 0x10000ff0: target %+v, error %v; want BAR 0 + 0xff0", m, err)
	}
	if m, err := r.barContaining(folder, 0x20000000); err != nil || m != nil {
		t.Errorf("address outside every BAR: target %+v, error %v; want none", m, err)
	}
}

// TestRemapFilePagesIsFollowed checks that accesses to a mapping are recorded at the right offsets
// after remap_file_pages has mapped another part of the file there. If the recorder has not seen an
// earlier mapping of this part, the record has a gap.
func TestRemapFilePagesIsFollowed(t *testing.T) {
	program := compileProgram(t, edgesSource, "-O2")
	r := runRecorded(t, nil, Options{}, program, "remaps")
	if checkListedAccesses(t, r); r.exit != 0 {
		t.Errorf("exit status %d, want 0: %s", r.exit, r.messages)
	}
	checkReplay(t, r)
	r = runRecorded(t, nil, Options{}, program, "remapsbeyond")
	if !errors.Is(r.err, record.ErrGap) || r.exit != 0 ||
		!strings.Contains(r.messages, "remap_file_pages") {
		t.Errorf("part without an earlier mapping: exit status %d, record: %v, want a gap: %s",
			r.exit, r.err, r.messages)
	}
}

// TestChildDoesNotInheritDontforkMappings checks that a child's store to a mapping that its parent
// has marked with MADV_DONTFORK kills the child, as it does without the recorder.
func TestChildDoesNotInheritDontforkMappings(t *testing.T) {
	program := compileProgram(t, edgesSource, "-O2")
	r := runRecorded(t, nil, Options{}, program, "dontfork")
	checkListedAccesses(t, r)
	compareRuns(t, r, runUnrecorded(t, nil, program, "dontfork"))
}

// TestStrictModeBehavesAsWithoutTheRecorder runs a program that enters the strict mode of seccomp.
func TestStrictModeBehavesAsWithoutTheRecorder(t *testing.T) {
	program := compileProgram(t, edgesSource, "-O2")
	r := runRecorded(t, nil, Options{}, program, "strict")
	checkListedAccesses(t, r)
	compareRuns(t, r, runUnrecorded(t, nil, program, "strict"))
}

// TestPointerToABarInASystemCallIsReportedWithARemedy checks that each system call is reported
// once, also in the record, and also if the pointer is in a list of buffers.
func TestPointerToABarInASystemCallIsReportedWithARemedy(t *testing.T) {
	r := runRecorded(t, nil, Options{}, compileProgram(t, edgesSource, "-O2"), "pointers")
	checkListedAccesses(t, r)
	events := strings.Join(r.eventLines(), "\n")
	for _, name := range []string{"write", "read", "writev", "sendmsg", "getrandom"} {
		if n := strings.Count("\n"+events, "\n"+name+" of process "); n != 1 {
			t.Errorf("%d events name the system call %s, want 1: %s", n, name, events)
		}
	}
	if !strings.Contains(r.messages, "EFAULT") || !strings.Contains(r.messages, "BAR 2 of file") ||
		!strings.Contains(r.messages, "pass a buffer with a copy of the data") {
		t.Errorf("messages %q, want the error EFAULT, \"BAR 2 of file\" and the remedy, a buffer "+
			"with a copy of the data", r.messages)
	}
}
