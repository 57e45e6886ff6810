package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/lmrun/args"

	"golang.org/x/sys/unix"
)

// framesVariable is the environment variable that makes the test program replay concatListing on a
// mock device. Its value is "end", or "rename" if the process renames its output afterwards.
const framesVariable = "LM_TEST_FRAMES"

// runFramesChild replays concatListing in the child process. It does not return.
func runFramesChild() {
	o, err := args.Parse(os.Args[1:])
	end := outcome{err: err}
	if err == nil {
		end = replayConcat(o)
	}
	if os.Getenv(framesVariable) == "rename" {
		_ = unix.Rename(o.Outputs[0].Path, o.Outputs[0].Path+".other")
	}
	unix.Exit(printOutcome(o, end))
}

// replayConcat replays concatListing on a mock device.
func replayConcat(o args.Options) outcome {
	view, err := verifyListing(concatListing)
	if err != nil {
		return outcome{err: err}
	}
	f, err := planRuns(view, o)
	if err != nil {
		return outcome{err: err}
	}
	return f.runOnDevices([]hal.Device{mock.New(&boards.Ivshmem)}, view, o)
}

// verifyListing assembles and verifies a listing in a child process, which has no testing.TB.
func verifyListing(source string) (*fbs.View, error) {
	image, err := listing.Parse("test.lms", []byte(source), nil)
	if err != nil {
		return nil, err
	}
	file, err := lmb.Encode(image)
	if err != nil {
		return nil, err
	}
	return fbs.Verify(file)
}

// framesCommand returns a command that replays concatListing. `then` is the value of
// framesVariable. The command is not started.
func framesCommand(t *testing.T, then string, args ...string) *exec.Cmd {
	t.Helper()
	return childCommand(t, framesVariable, then, args...)
}

// canLockMemory reports whether this user may lock all memory of a Go program, about 40 MiB.
func canLockMemory(t *testing.T) bool {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		t.Fatal(err)
	}
	return os.Geteuid() == 0 || limit.Cur >= 64<<20
}

// skipWithoutLockedMemory skips a test that locks all memory if this user may not do so.
func skipWithoutLockedMemory(t *testing.T) {
	t.Helper()
	if !canLockMemory(t) {
		t.Skip("needs root or `ulimit -l 65536`")
	}
}

// TestLockedRunsHaveAllMemoryLocked reads, during the runs, whether the program is locked, which
// only -lock does, also with -seal.
func TestLockedRunsHaveAllMemoryLocked(t *testing.T) {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil || !strings.Contains(string(maps), "VmFlags:") {
		t.Skipf("the kernel shows no flags of mappings in smaps: %v", err)
	}
	_, in, _ := makeFrameFiles(t)
	for _, test := range []struct {
		flags  string
		locked bool
	}{{"-seal", false}, {"-lock", true}, {"-lock -seal", true}} {
		t.Run(test.flags, func(t *testing.T) {
			if test.locked {
				skipWithoutLockedMemory(t)
			}
			c := framesCommand(t, "end", append(strings.Fields(test.flags), "-loop", "forever",
				"-input", "a="+in, "-output", "d=-", "x.lmb")...)
			out, err := c.StdoutPipe()
			if err == nil {
				err = c.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			// Read the first byte of the first frame. Later frames wait until the pipe is read.
			_, err = out.Read(make([]byte, 1))
			smaps, mapsErr := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", c.Process.Pid))
			_ = c.Process.Kill()
			_ = c.Wait()
			if err != nil || mapsErr != nil {
				t.Fatalf("reading the first byte: %v; reading smaps: %v", err, mapsErr)
			}
			_, program, _ := strings.Cut(string(smaps), " r-xp ")
			_, flags, _ := strings.Cut(program, "VmFlags:")
			flags, _, _ = strings.Cut(flags, "\n")
			if locked := slices.Contains(strings.Fields(flags), "lo"); locked != test.locked {
				t.Errorf("the program is locked: %v, want %v; flags of the mapping: %s", locked,
					test.locked, flags)
			}
			if unlocked := unlockedMemory(string(smaps)); test.locked && unlocked != "" {
				t.Errorf("writable memory in use that is not locked:\n%s", unlocked)
			}
		})
	}
}

// unlockedMemory returns the first lines of all writable mappings that have pages in memory and are
// not locked.
func unlockedMemory(smaps string) (lines string) {
	mapping, resident := "", ""
	for line := range strings.Lines(smaps) {
		words := strings.Fields(line)
		switch {
		case !strings.HasSuffix(words[0], ":"):
			mapping = line
		case words[0] == "Rss:":
			resident = words[1]
		case words[0] == "VmFlags:" && !slices.Contains(words, "lo") && resident != "0" &&
			strings.Contains(mapping, " rw"):
			lines += mapping
		}
	}
	return lines
}

// makeFrameFiles creates a directory with an input file and an output file that exists already.
func makeFrameFiles(t *testing.T) (dir, in, out string) {
	t.Helper()
	dir = t.TempDir()
	in, out = filepath.Join(dir, "a"), filepath.Join(dir, "d")
	for path, data := range map[string][]byte{in: bytes.Repeat([]byte{3}, frameBytes),
		out: []byte("old")} {
		// Chmod, because the umask changes the mode of WriteFile.
		if err := errors.Join(os.WriteFile(path, data, 0o640), os.Chmod(path, 0o640)); err != nil {
			t.Fatal(err)
		}
	}
	return dir, in, out
}

// newOutput is the result of a run with the input file of makeFrameFiles.
var newOutput = append(bytes.Repeat([]byte{3}, frameBytes), 7, 0, 0, 0)

func fileNames(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// TestSealedProcessCommitsItsOutput replaces a file through a symbolic link. The new file has the
// mode 0644 without the umask, and no temporary file is left, also not that of a killed lmrun.
func TestSealedProcessCommitsItsOutput(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	for _, seal := range [][]string{nil, {"-seal"}} {
		dir, in, out := makeFrameFiles(t)
		link := filepath.Join(dir, "link")
		if err := errors.Join(os.Symlink("d", link),
			os.WriteFile(filepath.Join(dir, ".d.0123456789abcdef.part"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		text, err := framesCommand(t, "end", append(seal, "-input", "a="+in, "-output", "d="+link,
			"x.lmb")...).CombinedOutput()
		if err != nil {
			t.Fatalf("flags %v: lmrun: %v, want success; output: %s", seal, err, text)
		}
		got, err := os.ReadFile(out)
		if err != nil || !bytes.Equal(got, newOutput) {
			t.Errorf("flags %v: output %x, %v; want %x", seal, got, err, newOutput)
		}
		if info, err := os.Stat(out); err != nil || info.Mode() != 0o600 {
			t.Errorf("flags %v: mode of the output %v, %v; want 0600", seal, info.Mode(), err)
		}
		if names := fileNames(t, dir); names != "a d link" {
			t.Errorf("flags %v: files %q, want %q", seal, names, "a d link")
		}
	}
}

func TestSealedProcessCanRenameOnlyItsOutputs(t *testing.T) {
	dir, in, out := makeFrameFiles(t)
	c := framesCommand(t, "rename", "-seal", "-input", "a="+in, "-output", "d="+out, "x.lmb")
	text, _ := c.CombinedOutput()
	if status := c.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() ||
		status.Signal() != syscall.SIGSYS {
		t.Errorf("ended with %v, %s; want it killed by SIGSYS", c.ProcessState, text)
	}
	if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, newOutput) ||
		fileNames(t, dir) != "a d" {
		t.Errorf("output %x, %v, files %q; want %x, files %q", got, err, fileNames(t, dir),
			newOutput, "a d")
	}
}

// TestGoEnvironmentDoesNotKillSealedProcess sets variables of Go's runtime. A memory limit, for
// example, would start the garbage collector and return memory to the kernel, which the seal
// forbids.
func TestGoEnvironmentDoesNotKillSealedProcess(t *testing.T) {
	_, in, _ := makeFrameFiles(t)
	for _, variable := range []string{
		"GOMEMLIMIT=1KiB", "GOMEMLIMIT=4MiB", "GOGC=1", "GOGC=off", "GOTRACEBACK=crash",
		"GODEBUG=gctrace=1,scavtrace=1",
	} {
		t.Run(variable, func(t *testing.T) {
			c := framesCommand(t, "end", "-seal", "-loop", "100000", "-input", "a="+in, "x.lmb")
			c.Env = append(c.Env, variable)
			if text, err := c.CombinedOutput(); err != nil {
				t.Errorf("sealed lmrun with %s: %v, want success; output: %s", variable, err, text)
			}
		})
	}
}

func TestFailedRunKeepsExistingOutputs(t *testing.T) {
	for _, args := range []string{"-sequence bad", "-seal -sequence bad", "-after bad",
		"-seal -after bad", "-watchdog /nonexistent"} {
		dir, in, out := makeFrameFiles(t)
		text, err := framesCommand(t, "end", append(strings.Fields(args), "-input", "a="+in,
			"-output", "d="+out, "x.lmb")...).CombinedOutput()
		if err == nil {
			t.Errorf("lmrun %s succeeds, want a failure: %s", args, text)
		}
		if got, _ := os.ReadFile(out); string(got) != "old" || fileNames(t, dir) != "a d" {
			t.Errorf("lmrun %s: output %q, files %q; want %q and %q; lmrun printed: %s", args, got,
				fileNames(t, dir), "old", "a d", text)
		}
	}
}

// TestOutputThatIsAnInputIsRejected names the file of an input and the image as outputs; tests of
// package files name files by other paths and links.
func TestOutputThatIsAnInputIsRejected(t *testing.T) {
	dir, in, _ := makeFrameFiles(t)
	image := filepath.Join(dir, "x.lmb")
	if err := os.WriteFile(image, []byte("image"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{in, image} {
		text, err := framesCommand(t, "end", "-input", "a="+in, "-output", "d="+out,
			image).CombinedOutput()
		if exit, _ := err.(*exec.ExitError); exit == nil || exit.ExitCode() != 64 ||
			!strings.Contains(string(text), "is the same file as input") {
			t.Errorf("output %s: %v, %s; want exit status 64 and %q", out, err, text,
				"is the same file as input")
		}
	}
	if got, err := os.ReadFile(in); err != nil || len(got) != frameBytes {
		t.Errorf("the input is now %x, %v; want %d bytes", got, err, frameBytes)
	}
}

func TestRunWithoutDataIsAFailure(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		if writer, err := os.OpenFile(pipe, os.O_WRONLY, 0); err == nil {
			writer.Close()
		}
	}()
	text, err := framesCommand(t, "end", "-loop", "forever", "-input", "a="+pipe,
		"x.lmb").CombinedOutput()
	if exit, _ := err.(*exec.ExitError); exit == nil || exit.ExitCode() != 65 ||
		!strings.Contains(string(text), "before they had data for one run") {
		t.Errorf("lmrun with an empty pipe: %v, %s; want exit status 65", err, text)
	}
}

// TestKillAtAnyTimeLeavesCompleteOutput kills a sealed process before and after each of its system
// calls on files.
func TestKillAtAnyTimeLeavesCompleteOutput(t *testing.T) {
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	old, complete, steps := 0, 0, 0
	for killed := true; killed; steps++ {
		dir, in, out := makeFrameFiles(t)
		c := framesCommand(t, "end", "-seal", "-input", "a="+in, "-output", "d="+out, "x.lmb")
		c.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		killed = killAtStep(t, c.Process.Pid, steps)
		_ = c.Process.Release()
		switch got, err := os.ReadFile(out); {
		case err == nil && string(got) == "old":
			old++
		case err == nil && bytes.Equal(got, newOutput):
			complete++
		default:
			t.Errorf("killed at step %d in %s: the output is %q, %v; want the old or the new one",
				steps, dir, got, err)
		}
	}
	synced, renamed := slices.Index(fileCalls, unix.SYS_FSYNC),
		slices.Index(fileCalls, unix.SYS_RENAMEAT2)
	if synced < 0 || renamed < synced || slices.Index(fileCalls[:synced], unix.SYS_WRITE) < 0 ||
		!slices.Contains(fileCalls[renamed:], unix.SYS_FSYNC) {
		t.Errorf("system calls %v: want write, then fsync (at %d), then renameat2 (at %d), then "+
			"fsync of the directory", fileCalls, synced, renamed)
	}
	if old < 8 || complete < 2 {
		t.Errorf("%d steps: %d with the old output, %d with the new one; want at least 8 and 2; "+
			"killAtStep may trace the wrong system calls", steps, old, complete)
	}
}

// fileCalls are the numbers of the system calls on files that killAtStep has seen begin.
var fileCalls []uint64

// killAtStep lets a traced process run until it has begun or ended a number of system calls on
// files, and kills it. Calls before the first temporary file do not count. It returns false if the
// process ended before.
func killAtStep(t *testing.T, pid, step int) bool {
	t.Helper()
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
		t.Fatal(err)
	}
	const getSyscallInfo = 0x420e // PTRACE_GET_SYSCALL_INFO, linux/ptrace.h
	if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|
		unix.PTRACE_O_EXITKILL); err != nil {
		t.Fatal(err)
	}
	isFileCall := map[uint64]bool{unix.SYS_OPENAT: true, unix.SYS_WRITE: true, unix.SYS_FSYNC: true,
		unix.SYS_RENAMEAT2: true, unix.SYS_FCHMOD: true, unix.SYS_UNLINKAT: true,
		unix.SYS_EXIT_GROUP: true}
	began, calls := false, map[int]uint64{} // by thread
	fileCalls = nil
	for at := pid; ; {
		signal := 0
		if status.Stopped() && status.StopSignal() != syscall.SIGTRAP|0x80 &&
			status.StopSignal() != syscall.SIGTRAP && status.StopSignal() != syscall.SIGSTOP {
			signal = int(status.StopSignal())
		}
		if status.Stopped() {
			_ = unix.PtraceSyscall(at, signal)
		}
		var err error
		if at, err = unix.Wait4(-1, &status, unix.WALL, nil); err == unix.ECHILD {
			return false
		} else if err != nil {
			t.Fatal(err)
		}
		if !status.Stopped() || status.StopSignal() != syscall.SIGTRAP|0x80 {
			if at == pid && !status.Stopped() {
				return false
			}
			continue
		}
		var info [11]uint64 // struct ptrace_syscall_info: op, ip, sp, number, arguments
		_, _, _ = unix.Syscall6(unix.SYS_PTRACE, getSyscallInfo, uintptr(at), unsafe.Sizeof(info),
			uintptr(unsafe.Pointer(&info)), 0, 0)
		if entry := info[0]&0xff == 1; entry {
			calls[at] = info[3]
			if isFileCall[info[3]] && began {
				fileCalls = append(fileCalls, info[3])
			}
			began = began || info[3] == unix.SYS_OPENAT && info[6]&unix.O_EXCL != 0
		}
		if began && isFileCall[calls[at]] {
			if step--; step < 0 {
				_ = unix.Kill(pid, unix.SIGKILL)
				for {
					if ended, err := unix.Wait4(-1, &status, unix.WALL, nil); ended == pid &&
						!status.Stopped() || err == unix.ECHILD {
						return true
					}
				}
			}
		}
	}
}

// TestUnwritableStandardOutputIsAnError expects exit status 74, unless the run failed: a supervisor
// decides by the status of the device's failure.
func TestUnwritableStandardOutputIsAnError(t *testing.T) {
	_, in, _ := makeFrameFiles(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, test := range []struct {
		exit int
		args []string
	}{
		{74, nil}, {74, []string{"-json"}}, {74, []string{"-output", "d=-"}},
		{74, []string{"-seal"}},
		{76, []string{"-json", "-sequence", "bad"}}, {76, []string{"-sequence", "bad"}},
		{75, []string{"-json", "-sequence", "slow", "-deadline", "1us"}},
	} {
		c := framesCommand(t, "end", append(test.args, "-input", "a="+in, "x.lmb")...)
		var errs bytes.Buffer
		c.Stdout, c.Stderr = full, &errs
		if _ = c.Run(); c.ProcessState.ExitCode() != test.exit {
			t.Errorf("lmrun %v: %v, %s; want exit status %d", test.args, c.ProcessState,
				errs.String(), test.exit)
		}
	}
}

// TestStandardOutputContainsOnlyTensorData checks that lmrun then prints its report to standard
// error.
func TestStandardOutputContainsOnlyTensorData(t *testing.T) {
	_, in, _ := makeFrameFiles(t)
	for _, flag := range []string{"-loop=1", "-json"} {
		c := framesCommand(t, "end", flag, "-input", "a="+in, "-output", "d=-", "x.lmb")
		var out, errs bytes.Buffer
		c.Stdout, c.Stderr = &out, &errs
		if err := c.Run(); err != nil || !bytes.Equal(out.Bytes(), newOutput) ||
			!strings.Contains(errs.String(), "done") {
			t.Errorf("lmrun %s: %v, stdout %x, stderr %q; want stdout %x and done on stderr", flag,
				err, out.Bytes(), errs.String(), newOutput)
		}
	}
}

// TestOutputOnClosedStandardOutputIsRejected closes standard output, which Go replaces by
// /dev/null for reading and writing. If the user names /dev/null, it is not rejected.
func TestOutputOnClosedStandardOutputIsRejected(t *testing.T) {
	_, in, _ := makeFrameFiles(t)
	for redirection, want := range map[string]int{">&-": 64, "1<>/dev/null": 64, ">/dev/null": 0} {
		t.Run(redirection, func(t *testing.T) {
			for _, out := range []string{"d=-", "d=/dev/stdout", "d=/proc/self/fd/1"} {
				c := exec.Command("sh", "-c", `exec "$0" "$@" `+redirection,
					framesCommand(t, "end").Path, "-input", "a="+in, "-output", out, "x.lmb")
				c.Env = append(os.Environ(), framesVariable+"=end")
				text, _ := c.CombinedOutput()
				exit := c.ProcessState.ExitCode()
				if exit != want || exit != 0 &&
					!strings.Contains(string(text), "standard output is closed") {
					t.Errorf("lmrun -output %s %s: exit %d, want %d; %s", out, redirection, exit,
						want, text)
				}
			}
		})
	}
}

// TestInputMayBeStandardInput reads an input from a file on standard input, once, and from a pipe
// on standard input, for each run.
func TestInputMayBeStandardInput(t *testing.T) {
	dir, in, _ := makeFrameFiles(t)
	file, err := os.Open(in)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	frames := bytes.Repeat([]byte{3}, 2*frameBytes)
	for what, stdin := range map[string]io.Reader{"a file": file, "a pipe": bytes.NewReader(frames),
		"a pipe whose writer has closed it": newClosedPipe(t, frames)} {
		t.Run(what, func(t *testing.T) {
			c := framesCommand(t, "end", "-json", "-loop", "2", "-input", "a=-", "-output",
				"d="+dir+"/new", "x.lmb")
			c.Stdin = stdin
			text, err := c.CombinedOutput()
			if got, _ := os.ReadFile(dir + "/new"); err != nil || !bytes.Equal(got, newOutput) ||
				!strings.Contains(string(text), `"runs":2`) {
				t.Errorf("%s: %v, %s, output %x; want 2 runs and output %x", what, err, text, got,
					newOutput)
			}
		})
	}
	c := framesCommand(t, "end", "-input", "a=-", "x.lmb")
	c.Stdin = strings.NewReader("short")
	if text, err := c.CombinedOutput(); err == nil ||
		!strings.Contains(string(text), "ended in the middle of a run's data") {
		t.Errorf("standard input of 5 bytes: %v, %s; want an error", err, text)
	}
}

// newClosedPipe returns the reading end of a pipe that contains data and has no writer.
func newClosedPipe(t *testing.T, data []byte) *os.File {
	t.Helper()
	path := makeFIFO(t)
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(path)
	if err == nil {
		_, err = writer.Write(data)
	}
	if err := errors.Join(err, writer.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close() })
	return reader
}

// TestMissingFileDescriptorsAreReported expects an error of lmrun, and not exit status 2 of Go's
// runtime.
func TestMissingFileDescriptorsAreReported(t *testing.T) {
	_, in, out := makeFrameFiles(t)
	// Children do not inherit the descriptors that this process has inherited.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	ended := false
	for limit := 3; limit < 20; limit++ {
		c := exec.Command("sh", "-c", "ulimit -n "+strconv.Itoa(limit)+` && exec "$0" "$@"`,
			framesCommand(t, "end").Path, "-input", "a="+in, "-output", "d="+out, "x.lmb")
		c.Env = append(os.Environ(), framesVariable+"=end")
		text, _ := c.CombinedOutput()
		exit := c.ProcessState.ExitCode()
		ended = ended || exit == 0
		if exit != 0 && (exit != 74 || !strings.Contains(string(text), "too many open files")) {
			t.Errorf("limit of %d files: exit %d, want 0 or 74 with the reason; %.300s", limit,
				exit, text)
		}
	}
	if !ended {
		t.Error("lmrun failed with each limit from 3 to 19 files, want success with one of them")
	}
}

// TestControlCharactersInPathsAreEscaped runs lmrun with control characters in the names of files,
// in flags, images and configurations.
func TestControlCharactersInPathsAreEscaped(t *testing.T) {
	const hostile = "x\x1b[2J\u009b31m\x07\u0085\x9b\u2028\u202ey\nforged: done"
	dir := t.TempDir()
	t.Chdir(dir)
	text := "image " + hostile + "\n" + hostile + " " + hostile + "\n"
	for name, data := range map[string]string{hostile: "junk", "conf": text,
		"conf2": "image " + hostile + "\n", "conf3": "module " + hostile + "\nimage y\n",
		"conf4": "on-failure " + hostile + "\n"} {
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{hostile}, {hostile + "none"}, {"-device", hostile, imagePath},
		{"-" + hostile + "=1", "x"}, {"-deadline", hostile, "x"}, {"-loop", hostile, "x"},
		{"-window", hostile, "x"},
		{"-watchdog", hostile, imagePath}, {"-sequence", hostile, imagePath},
		{"-input", hostile + "=x", imagePath}, {"-output", hostile, "x"}, {"-key", hostile, "x"},
		{"x", hostile},
		{"-config", hostile}, {"-config", "conf"}, {"-config", "conf2"}, {"-config", "conf3"},
		{"-config", "conf4"}, {"-config", hostile + "none"}, {"-json", hostile},
		{"-check", hostile}} {
		checkOutputIsSafe(t, false, args...)
	}
	data, err := os.ReadFile(imagePath)
	if err = errors.Join(err, os.WriteFile(hostile, data, 0o600)); err != nil {
		t.Fatal(err)
	}
	checkOutputIsSafe(t, true, "-check", hostile)
	checkOutputIsSafe(t, true, "-check", "-json", hostile)
}

// checkOutputIsSafe runs lmrun and checks that it prints valid UTF-8 without control characters,
// that no line begins with the forged text, and whether the exit status is 0.
func checkOutputIsSafe(t *testing.T, succeeds bool, args ...string) {
	t.Helper()
	stdout, stderr, exit := runLmrun(t, args...)
	text := stdout + stderr
	control := func(r rune) bool { return r != '\n' && r != '\t' && fbs.IsHidden(r) }
	safe := strings.IndexFunc(text, control) < 0 && strings.ToValidUTF8(text, "") == text
	if !safe || (exit == 0) != succeeds || text == "" || strings.Contains("\n"+text, "\nforged") {
		t.Errorf("lmrun %q: exit %d, success wanted: %v; output %q", args, exit, succeeds, text)
	}
}

// imagePath is the absolute path of eduImage, for tests that change the working directory.
var imagePath, _ = filepath.Abs(eduImage)
