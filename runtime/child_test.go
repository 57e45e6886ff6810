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
	"lightmetal/hal/mock"
	"lightmetal/runtime"

	"golang.org/x/sys/unix"
)

// childTask is the environment variable that names the task which a child process of the test
// program runs instead of tests.
const childTask = "LM_TEST_CHILD"

// childTasks run in a separate process, because they freeze or seal their process, or measure its
// memory. An error ends the child with status 1.
var childTasks = map[string]func(args []string) error{
	"count":     countFrozenRuns,
	"sealed":    runSealed,
	"fault":     faultSealed,
	"forbid":    runForbiddenAction,
	"fullSpan":  faultWithFullSpan,
	"memory":    printAnonymousMemory,
	"rewritten": rewriteSealed,
	"frozen":    printFrozenState,
	"locked":    printLocked,
	"lockLimit": lockBeyondLimit,
	"lockExact": lockExactly,
	"steady":    runSteady,
	"shared":    waitSealed,
}

func TestMain(m *testing.M) {
	task, isChild := childTasks[os.Getenv(childTask)]
	if !isChild {
		os.Exit(m.Run())
	}
	// Without a memory profiler, as in programs that do not link one. The first allocation that a
	// profiler samples maps memory, which kills a sealed child.
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

// runChild runs a task in a child process and returns the output and the wait status of the child.
func runChild(t *testing.T, task string, args ...string) (stdout string,
	status syscall.WaitStatus) {
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
		// This program runs in QEMU's user mode, which lets the host's kernel execute the child.
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

// plainDevice is a device that consists only of mapped memory. Its apertures access this memory as
// they access a mapped BAR on Linux.
type plainDevice struct {
	mock.BaseDevice
	memory []byte
}

var processStart = time.Now()

// newPlainDevice maps shared memory, because the kernel does not count it as anonymous memory of
// the process.
func newPlainDevice(size int) (*plainDevice, error) {
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_ANON)
	return &plainDevice{memory: memory}, err
}

func (d *plainDevice) Identity() hal.Identity {
	return hal.Identity{Name: "plain", Vendor: boards.Ivshmem.Vendor, Device: boards.Ivshmem.Device,
		BarSizes: [6]uint64{2: uint64(len(d.memory))}}
}

func (d *plainDevice) Map(w fbs.Window) (hal.Aperture, error) {
	return hal.MappedAperture(d.memory, w.Offset, w.Size, -1), nil
}

func (d *plainDevice) Now() int64   { return int64(time.Since(processStart)) }
func (d *plainDevice) Close() error { return unix.Munmap(d.memory) }

func (d *plainDevice) Sleep(nanoseconds int64) { hal.SleepRaw(nanoseconds) }

// loadOnPlainDevice opens, verifies and loads an image of ivshmem on plain memory.
func loadOnPlainDevice(path string) (*runtime.Replay, *plainDevice, error) {
	file, err := runtime.Open(path)
	if err != nil {
		return nil, nil, err
	}
	view, err := file.Verify()
	if err != nil {
		return nil, nil, err
	}
	device, err := newPlainDevice(int(view.Devices[0].MinBarSizes()[2]))
	if err != nil {
		return nil, nil, err
	}
	replay, err := runtime.Load(view, runtime.AnyTLBWindow, device)
	return replay, device, err
}

// loadFrozen loads an image on plain memory, and freezes the process.
func loadFrozen(path string) (*runtime.Replay, *plainDevice, error) {
	r, device, err := loadOnPlainDevice(path)
	if err == nil {
		err = r.Freeze()
	}
	return r, device, err
}

// loadSealed loads an image on plain memory, and freezes and seals the process.
func loadSealed(path string) (*runtime.Replay, *plainDevice, error) {
	r, device, err := loadFrozen(path)
	if err == nil {
		err = runtime.Seal()
	}
	return r, device, err
}

// runRepeatedly runs a sequence several times, and returns an error if a run fails.
func runRepeatedly(r *runtime.Replay, name string, times int) error {
	sequence := runtime.ViewOf(r).SequenceByName(name)
	for i := range times {
		if result := r.Run(sequence); result.Code != hal.OK {
			return fmt.Errorf("run %d of %s: %+v", i, name, result)
		}
	}
	return nil
}

func writeImage(t *testing.T, file []byte) string {
	t.Helper()
	path := t.TempDir() + "/image.lmb"
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// processStatus returns the value of a line of /proc/self/status in bytes.
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
