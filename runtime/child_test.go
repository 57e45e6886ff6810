package runtime_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"

	"golang.org/x/sys/unix"
)

// childTask names what a copy of the test program does instead of testing.
const childTask = "LM_TEST_CHILD"

// childTasks run in a process of their own, because they freeze or seal it, or
// measure the whole of it. An error ends the child with status 1.
var childTasks = map[string]func(args []string) error{
	"count":     countFrozenRuns,
	"sealed":    runSealed,
	"fault":     faultSealed,
	"forbid":    breakTheSeal,
	"memory":    tellAnonymousMemory,
	"rewritten": rewriteSealed,
	"frozen":    tellFrozen,
	"locked":    printLocked,
	"allLocked": lockAllAndPrintLocked,
	"lockLimit": lockBeyondLimit,
	"steady":    runSteady,
	"shared":    waitSealed,
}

func TestMain(m *testing.M) {
	task, isChild := childTasks[os.Getenv(childTask)]
	if !isChild {
		os.Exit(m.Run())
	}
	// As in programs that link no profiler: the first allocation that one samples maps
	// memory, and a sealed child that prints would be killed.
	goruntime.MemProfileRate = 0
	if os.Getenv(childTask) != "shared" {
		runtime.DedicateProcess()
	}
	if err := task(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child runs a task and returns its output and how it ended.
func child(t *testing.T, task string, args ...string) (stdout string, status syscall.WaitStatus) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(self, args...)
	var out, errs bytes.Buffer
	start := func() error {
		command.Env = append(os.Environ(), childTask+"="+task)
		command.Stdout, command.Stderr = &out, &errs
		return command.Run()
	}
	err = start()
	if errors.Is(err, syscall.ENOEXEC) {
		// This program runs in QEMU's user mode, which hands exec to the host.
		command = exec.Command("qemu-"+map[string]string{"arm64": "aarch64",
			"amd64": "x86_64"}[goruntime.GOARCH]+"-static",
			append([]string{self}, args...)...)
		err = start()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if text := errs.String(); text != "" {
		t.Logf("child %s: %s", task, text)
	}
	return out.String(), command.ProcessState.Sys().(syscall.WaitStatus)
}

// plain is a device that is mapped memory and nothing else: an aperture onto
// it is memory like a BAR on Linux, without a device.
type plain struct {
	hal.BaseDevice
	memory []byte
}

var started = time.Now()

// newPlain maps memory that no process's anonymous memory counts.
func newPlain(size int) (*plain, error) {
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_ANON)
	return &plain{memory: memory}, err
}

func (d *plain) Identity() hal.Identity {
	return hal.Identity{Name: "plain", Vendor: boards.Ivshmem.Vendor, Device: boards.Ivshmem.Device,
		BarSizes: [6]uint64{2: uint64(len(d.memory))}}
}

func (d *plain) Map(w fbs.Window) (hal.Aperture, error) {
	return hal.MappedAperture(d.memory, w.Offset, w.Size, -1), nil
}

func (d *plain) Now() int64   { return int64(time.Since(started)) }
func (d *plain) Close() error { return unix.Munmap(d.memory) }

func (d *plain) Sleep(nanoseconds int64) { hal.SleepRaw(nanoseconds) }

// loadPlain opens, verifies and loads an image of ivshmem on plain memory.
func loadPlain(path string) (*runtime.Replay, *plain, error) {
	file, err := runtime.Open(path)
	if err != nil {
		return nil, nil, err
	}
	view, err := file.Verify()
	if err != nil {
		return nil, nil, err
	}
	device, err := newPlain(int(view.Devices[0].MinBarSizes()[2]))
	if err != nil {
		return nil, nil, err
	}
	replay, err := runtime.Load(view, runtime.AnyTLBWindow, device)
	return replay, device, err
}

// repeat runs a sequence so many times.
func repeat(r *runtime.Replay, name string, times int) error {
	sequence := r.View().SequenceByName(name)
	for i := range times {
		if result := r.Run(sequence); result.Code != hal.OK {
			return fmt.Errorf("run %d of %s: %+v", i, name, result)
		}
	}
	return nil
}

// written writes an image file and returns its path.
func written(t *testing.T, file []byte) string {
	t.Helper()
	path := t.TempDir() + "/image.lmb"
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// processStatus is a line of /proc/self/status in bytes.
func processStatus(name string) (bytes uint64, err error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(text), name+":")
	if !found {
		return 0, errors.New("no " + name + " in /proc/self/status")
	}
	_, err = fmt.Sscan(rest, &bytes)
	return bytes * 1024, err
}
