//go:build linux && (amd64 || arm64)

package recorder

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

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

// TestProgramThatIsStoppedLeavesACompleteRecord sends SIGINT to the recorder and the program, as a
// terminal does, and SIGKILL to the program.
func TestProgramThatIsStoppedLeavesACompleteRecord(t *testing.T) {
	// A shell that starts the test with & lets it ignore SIGINT. The program does not inherit that
	// if the test handles SIGINT.
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, unix.SIGINT)
	defer signal.Stop(interrupts)
	for _, c := range []struct {
		source, scenario string
		signal           unix.Signal
		process          func(recorder int) int
	}{
		{patternsSource, "forever", unix.SIGINT, func(recorder int) int { return -recorder }},
		{edgesSource, "waits", unix.SIGKILL,
			func(recorder int) int { return childProcess(t, recorder) }},
	} {
		program := compileProgram(t, c.source, "-O2")
		command, out := recorderCommand(t, nil, Options{}, createCard(t), program, c.scenario)
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		pipe, err := command.StdoutPipe()
		if err == nil {
			err = command.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		text, printed := bufio.NewReader(pipe), ""
		for !strings.HasSuffix(printed, "ready\n") {
			line, err := text.ReadString('\n')
			if printed += line; err != nil {
				t.Fatalf("the program printed %q, want ready: %v", printed, err)
			}
		}
		if err := unix.Kill(c.process(command.Process.Pid), c.signal); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, pipe)
		_ = command.Wait()
		var r runResult
		r.readRecord(out)
		exit, listed := command.ProcessState.ExitCode(), printedAccesses(printed)
		if r.err != nil || exit != 128+int(c.signal) ||
			len(listed) > 0 && !slices.Equal(r.accesses(), listed) {
			t.Errorf("%s: exit status %d, record: %v; want status %d and accesses %v", c.scenario,
				exit, r.err, 128+int(c.signal), listed)
		}
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
	folder := createSysfsDirectory(t)
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
