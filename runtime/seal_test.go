package runtime_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	goruntime "runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/check/effort"
	"lightmetal/tools/image/lmb/lmbtest"

	"golang.org/x/sys/unix"
)

// everyKind has every kind of command that works on plain memory and needs no system call. It uses
// the tensors in plainTensors. There is no relocation, because Load replaces it by a write.
const everyKind = `
  begin "run"
  write.4 m+0x0 0x600df00d
  write.2 m+0x4 0x1 mask 0x3
  copy.8 m+0x100 <- a[0:256] bulk
  copy.4 m+0x200 <- pattern 0x2 size 64
  fill.4 m+0x300 <- 0x1 size 64
  fence
  flush.4 m+0x0
  poll.4 m+0x0 == 0x600df00d within 1ms
  expect.4 m+0x0 == 0x600df00d
  compare.4 m+0x200 uint32 == pattern 0x2 size 64
  copy.8 d[0:256] <- m+0x100 bulk
  call sub
  end "run"
`

const plainTensors = `
tensor a input uint8[256] = pattern 0x1 size 256
tensor d output uint8[256]
`

// smallListing runs every kind of command. "main" needs no system call, "wait" sleeps in the
// kernel.
const smallListing = ivshmemHead + plainTensors + "main:" + everyKind + `
sub:
  write.1 m+0x400 0x1
wait:
  delay 150us
  poll.4 m+0x800 == 0x1 within 300us every 150us else ignore
`

// heapCounters are metrics of Go's runtime. They count all allocated objects and bytes,
// collections, and mapped bytes of the process.
var heapCounters = [...]string{
	"/gc/heap/allocs:objects", "/gc/heap/allocs:bytes", "/gc/heap/tiny/allocs:objects",
	"/gc/cycles/total:gc-cycles", "/memory/classes/total:bytes",
}

// countFrozenRuns runs an image 10,000 times in a frozen process, and returns an error if a heap
// counter changes or if the garbage collector is on.
func countFrozenRuns(args []string) error {
	samples := make([]metrics.Sample, len(heapCounters))
	for i, name := range heapCounters {
		samples[i].Name = name
	}
	r, _, err := loadFrozen(args[0])
	if err != nil {
		return err
	}
	read := func() (values [len(heapCounters)]uint64) {
		metrics.Read(samples)
		for i := range samples {
			values[i] = samples[i].Value.Uint64()
		}
		return values
	}
	read() // its first call allocates
	before := read()
	if err := runRepeatedly(r, "main", 10_000); err != nil {
		return err
	}
	if after := read(); after != before {
		return fmt.Errorf("heap counters %v: %v before the runs, %v after", heapCounters, before,
			after)
	}
	if percent := debug.SetGCPercent(-1); percent != -1 {
		return fmt.Errorf("the garbage collector is on, at %d percent, and would run at least "+
			"every two minutes", percent)
	}
	return nil
}

func TestTenThousandFrozenRunsChangeNoHeapCounter(t *testing.T) {
	_, status := runChild(t, "count", writeImage(t, assembleImage(t, smallListing)))
	if status != 0 {
		t.Errorf("child that counts: exit %d, signal %v, want exit 0", status.ExitStatus(),
			status.Signal())
	}
}

// printFrozenState prints the signals that the frozen process ignores, the number of its threads,
// GOMAXPROCS, and whether Go has opened its epoll file.
func printFrozenState(args []string) error {
	if _, _, err := loadFrozen(args[0]); err != nil {
		return err
	}
	fd, err := unix.Open("/proc/self/status", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	text := make([]byte, 4096)
	n, err := hal.Read(fd, text)
	if err != nil {
		return err
	}
	field := func(name string) string {
		_, rest, _ := strings.Cut(string(text[:n]), name+":")
		return strings.Fields(rest)[0]
	}
	hasEpoll := false
	for fd := range 32 {
		var target [64]byte
		n, _ := unix.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd), target[:])
		hasEpoll = hasEpoll || strings.Contains(string(target[:max(n, 0)]), "[eventpoll]")
	}
	fmt.Println(field("SigIgn"), field("Threads"), goruntime.GOMAXPROCS(0), hasEpoll)
	return nil
}

// TestFreezeLeavesNoReasonToMapMemoryOrStartThreads checks what makes Go call the kernel so rarely
// that a million runs may not show it. Go maps memory if a signal interrupts a run, starts threads
// for a second processor, and opens an epoll file for its first timer, which it needs to return
// memory.
func TestFreezeLeavesNoReasonToMapMemoryOrStartThreads(t *testing.T) {
	out, status := runChild(t, "frozen", writeImage(t, assembleImage(t, smallListing)))
	var ignored uint64
	var threads, processors int
	var hasEpoll bool
	if _, err := fmt.Sscanf(out, "%x %d %d %t", &ignored, &threads, &processors,
		&hasEpoll); err != nil || status != 0 {
		t.Fatalf("child printed %q (%v) and ended with status %v", out, err, status)
	}
	if ignored>>(unix.SIGURG-1)&1 == 0 {
		t.Errorf("the process ignores signals 0x%x, SIGURG is not among them", ignored)
	}
	if !hasEpoll {
		t.Error("Freeze did not open the epoll file")
	}
	// The test program uses package os, and so has threads that lmrun does not have.
	const threadsMax = 8
	if threads > threadsMax || processors != 1 {
		t.Errorf("%d threads and %d processors, want at most %d and 1", threads, processors,
			threadsMax)
	}
}

// printLocked freezes the process, calls LockMemory if args[1] is "all", and prints whether
// commands, arena, payload and program text are locked into memory.
func printLocked(args []string) error {
	r, _, err := loadFrozen(args[0])
	if err == nil && args[1] == "all" {
		err = runtime.LockMemory()
	}
	if err != nil {
		return err
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return err
	}
	text := uint64(reflect.ValueOf(printLocked).Pointer())
	view := runtime.ViewOf(r)
	for _, memory := range [][]byte{view.Envelope, r.Output(0), view.Payload} {
		fmt.Print(isLocked(string(maps), uint64(hal.AddressOf(memory))), " ")
	}
	fmt.Print(isLocked(string(maps), text))
	return nil
}

// lockBeyondLimit calls LockMemory without the right to lock more than RLIMIT_MEMLOCK allows.
func lockBeyondLimit([]string) error {
	if err := limitLockedMemory(0); err != nil {
		return err
	}
	return runtime.LockMemory()
}

// limitLockedMemory sets the limit of locked memory, and locks the goroutine to this thread, the
// only one that loses its capabilities.
func limitLockedMemory(limit uint64) error {
	goruntime.LockOSThread()
	rlimit := unix.Rlimit{Cur: limit, Max: limit}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &rlimit); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return unix.Capset(&header, &make([]unix.CapUserData, 2)[0])
}

// relocatingDevice is plain memory that a device can reach.
type relocatingDevice struct{ *plainDevice }

func (relocatingDevice) AssignBusAddress(a *hal.Aperture, _ hal.Device) error {
	a.BusAddress = 0x1000
	return nil
}

func (relocatingDevice) SetBusMaster(bool) error { return nil }

// lockExactly freezes an image with the limit of LockedBytes, minus args[1] bytes.
func lockExactly(args []string) error {
	file, err := runtime.Open(args[0])
	if err != nil {
		return err
	}
	view, err := file.Verify()
	if err != nil {
		return err
	}
	device, err := newPlainDevice(int(view.Devices[0].MinBarSizes()[2]))
	if err != nil {
		return err
	}
	r, err := runtime.Load(view, runtime.AnyTLBWindow, relocatingDevice{device})
	if err != nil {
		return err
	}
	missing, _ := strconv.ParseUint(args[1], 10, 64)
	limit := runtime.LockedBytes(view, uint64(os.Getpagesize()), false) - missing
	if err := limitLockedMemory(limit); err != nil {
		return err
	}
	err = r.Freeze()
	fmt.Print(hal.CodeOf(err))
	return nil
}

// TestFreezeNeedsExactlyTheLimitOfLockedBytes has images with and without a copy of commands.
func TestFreezeNeedsExactlyTheLimitOfLockedBytes(t *testing.T) {
	relocated := strings.Replace(smallListing, "main:", "main:\n  write.8 m+0x900 bus(m)+0x0", 1)
	for _, listing := range []string{smallListing, relocated} {
		path := writeImage(t, assembleImage(t, listing))
		for missing, want := range map[string]hal.Code{"0": hal.OK, "1": hal.Denied} {
			out, status := runChild(t, "lockExact", path, missing)
			if out != want.Error() || status != 0 {
				t.Errorf("%s byte(s) below the limit: %q, status %v; want %v", missing, out, status,
					want)
			}
		}
	}
}

// isLocked reports whether the mapping of an address has the flag lo (Linux,
// Documentation/filesystems/proc.rst, VmFlags).
func isLocked(smaps string, address uint64) bool {
	inside := false
	for line := range strings.Lines(smaps) {
		var first, end uint64
		if n, _ := fmt.Sscanf(line, "%x-%x ", &first, &end); n == 2 {
			inside = first <= address && address < end
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && inside {
			return slices.Contains(strings.Fields(flags), "lo")
		}
	}
	return false
}

// checkLocked checks what the child task "locked" prints.
func checkLocked(t *testing.T, how, want string) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil || !strings.Contains(string(maps), "VmFlags:") {
		t.Skipf("the kernel shows no flags of mappings in smaps: %v", err)
	}
	const output = "tensor d output uint8[64]\nmain:\n  copy.8 d[:] <- m+0x0"
	source := strings.Replace(payloadListing, "main:", output, 1)
	out, status := runChild(t, "locked", writeImage(t, assembleImage(t, source)), how)
	if out != want || status != 0 {
		t.Errorf("commands, arena, payload, text are locked: %q, status %v; want %q, status 0", out,
			status, want)
	}
}

// TestFreezeLocksCommandsAndArena: as SAFETY.md says, Freeze does not lock payload and program
// text, which the kernel may drop and read again.
func TestFreezeLocksCommandsAndArena(t *testing.T) {
	checkLocked(t, "frozen", "true true false false")
}

// skipWithoutLockedMemory skips a test that locks all memory of a Go program, about 40 MiB, if this
// user may not lock as much, or if the kernel has no mlock2, which QEMU's user mode does not have.
func skipWithoutLockedMemory(t *testing.T) {
	t.Helper()
	if _, _, errno := unix.Syscall(unix.SYS_MLOCK2, 0, 0, 0); errno == unix.ENOSYS {
		t.Skip("the kernel, or QEMU's user mode, does not implement mlock2")
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 && limit.Cur < 64<<20 {
		t.Skipf("needs root or `ulimit -l 65536`; the limit is %d bytes", limit.Cur)
	}
}

func TestLockMemoryLocksPayloadAndProgramToo(t *testing.T) {
	if underRace {
		t.Skip("the race detector maps terabytes, which cannot be locked")
	}
	skipWithoutLockedMemory(t)
	checkLocked(t, "all", "true true true true")
}

// TestLockMemoryBeyondTheLimitIsAnError calls LockMemory in a process without capabilities, and
// with a mapped page that the kernel cannot read because its file was truncated.
func TestLockMemoryBeyondTheLimitIsAnError(t *testing.T) {
	if underRace {
		t.Skip("the race detector maps terabytes, which cannot be locked")
	}
	if _, status := runChild(t, "lockLimit"); status.ExitStatus() != 1 {
		t.Errorf("without the right to lock memory: status %v, want 1", status)
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err == nil {
		err = file.Truncate(4096)
	}
	if err != nil {
		t.Fatal(err)
	}
	page, err := unix.Mmap(int(file.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	if err == nil {
		err = file.Truncate(0)
	}
	if err != nil {
		t.Fatal(err)
	}
	err = runtime.LockMemory()
	_ = unix.Munlockall()
	_ = unix.Munmap(page)
	if hal.CodeOf(err) != hal.Denied || !strings.Contains(err.Error(), "RLIMIT_MEMLOCK") {
		t.Errorf("LockMemory with a page that cannot be read: %v, want an error with "+
			"RLIMIT_MEMLOCK", err)
	}
	if err := runtime.LockMemory(); err != nil {
		t.Log(err) // this user may not lock as much memory
	}
	_ = unix.Munlockall()
}

func TestLockedBytesCountHostMemoryTwiceOnVFIO(t *testing.T) {
	const listing = ivshmemHead + "window h host size 0x1004\nwindow g host size 0x10\n" +
		"tensor a input uint8[65536]\nmain:\n  write.8 m+0x0 bus(h)\n  copy.8 m+0x0 <- a[:]\n"
	view := lmbtest.View(t, lmbtest.File(t, listing))
	for _, test := range []struct {
		page, host uint64
	}{{4 << 10, 12 << 10}, {16 << 10, 32 << 10}, {64 << 10, 128 << 10}} {
		envelope := fbs.RoundUp(uint64(len(view.Envelope)), test.page)
		arena := 64<<10 + test.page // the tensor, and a copy of three commands
		for isVFIO, times := range map[bool]uint64{false: 1, true: 2} {
			got := runtime.LockedBytes(view, test.page, isVFIO)
			if want := envelope + arena + times*test.host; got != want {
				t.Errorf("pages of %d bytes, VFIO %v: %d bytes, want %d", test.page, isVFIO, got,
					want)
			}
		}
	}
}

// waitSealed freezes and seals a process without DedicateProcess, and waits for 2.5 s. Go reads the
// CPU limits every second, unless Freeze prevents this.
func waitSealed(args []string) error {
	_, device, err := loadSealed(args[0])
	if err != nil {
		return err
	}
	for end := device.Now() + 2_500_000_000; device.Now() < end; {
		hal.SleepRaw(100_000_000) // a signal of Go may end it early
	}
	unix.Exit(0) // with go test -cover, os.Exit would write the coverage to a new file
	return nil
}

// TestSealedSharedProcessDoesNotReadCPULimits: the system calls that read the limits would kill the
// process.
func TestSealedSharedProcessDoesNotReadCPULimits(t *testing.T) {
	effort.SkipShort(t)
	skipWithoutSeccomp(t)
	_, status := runChild(t, "shared", writeImage(t, assembleImage(t, smallListing)))
	if status != 0 {
		t.Errorf("sealed child: exit %d, signal %v, want exit 0", status.ExitStatus(),
			status.Signal())
	}
}

// skipWithoutSeccomp skips a test if the kernel has no seccomp, as in QEMU's user mode. It queries
// the kernel and does not call Seal, so that tests are not skipped if Seal has a defect.
func skipWithoutSeccomp(t *testing.T) {
	t.Helper()
	if underRace {
		t.Skip("the race detector cannot be sealed")
	}
	action := uint32(unix.SECCOMP_RET_KILL_PROCESS)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0,
		uintptr(unsafe.Pointer(&action)))
	if errno != 0 {
		t.Skipf("the kernel has no seccomp: %v", errno)
	}
}

// runSealed freezes and seals the process and runs an image in it.
func runSealed(args []string) error {
	if args[1] == "garbage" {
		makeGarbage()
	}
	r, _, err := loadSealed(args[0])
	if err != nil {
		return err
	}
	// The seal allows the ioctl by which a driver programs a window. It fails here, because the
	// descriptor is invalid.
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, ^uintptr(0), hal.ProgramWindowRequest,
		0); errno != unix.EBADF {
		return fmt.Errorf("the ioctl that programs a window: %v, want %v", errno, unix.EBADF)
	}
	for range 1000 {
		if err := runRepeatedly(r, "main", 1000); err != nil {
			return err
		}
		if err := runRepeatedly(r, "wait", 1); err != nil {
			return err
		}
	}
	unix.Exit(0) // with go test -cover, os.Exit would write the coverage to a new file
	return nil
}

// faultSealed causes a bus error in a sealed process, and exits with the status of the run, as
// lmrun does.
func faultSealed(args []string) error {
	r, _, err := loadFrozen(args[0])
	if err != nil {
		return err
	}
	if err := os.Truncate(args[0], 4096); err != nil {
		return err
	}
	if err := runtime.Seal(); err != nil {
		return err
	}
	result := r.Run(0)
	if !result.SafeRan || result.SafeSequenceCode != hal.OK {
		unix.Exit(1)
	}
	unix.Exit(result.Code.ExitStatus())
	return nil
}

func TestBusErrorInASealedProcessIsReported(t *testing.T) {
	skipWithoutSeccomp(t)
	_, status := runChild(t, "fault", writeImage(t, assembleImage(t, payloadListing)))
	if status.ExitStatus() != 74 {
		t.Errorf("exit %d, signal %v, want exit 74", status.ExitStatus(), status.Signal())
	}
}

// makeGarbage leaves memory that Go returns to the kernel in the background.
func makeGarbage() {
	var list [][]byte
	for range 64 {
		chunk := make([]byte, 1<<20)
		for i := 0; i < len(chunk); i += 4096 {
			chunk[i] = 1
		}
		list = append(list, chunk)
	}
	goruntime.KeepAlive(list)
	list = nil
	goruntime.GC()
}

func TestMillionSealedRunsSurvive(t *testing.T) {
	effort.SkipShort(t)
	skipWithoutSeccomp(t)
	path := writeImage(t, assembleImage(t, smallListing))
	for _, before := range []string{"nothing", "garbage"} {
		t.Run("after "+before, func(t *testing.T) {
			if _, status := runChild(t, "sealed", path, before); status != 0 {
				t.Errorf("exit %d, signal %v, want exit 0", status.ExitStatus(), status.Signal())
			}
		})
	}
}

// faultWithFullSpan fills the span of the heap in which Go allocates the values of its panics,
// seals the process and causes a memory fault. For another span, Go may map memory.
func faultWithFullSpan(args []string) error {
	const spanBytes = 8 << 10
	r, _, err := loadFrozen(args[0])
	if err == nil {
		err = os.Truncate(args[0], 4096)
	}
	if err != nil {
		return err
	}
	offsetOfNext := func() uintptr {
		valueSink = new(struct {
			text    string
			address uintptr
		})
		return uintptr(unsafe.Pointer(valueSink)) % spanBytes
	}
	lastOffset, offset := uintptr(0), uintptr(0)
	for i := 0; i < 1000 || offset != lastOffset; i++ { // 1000 values show the last offset
		offset = offsetOfNext()
		lastOffset = max(lastOffset, offset)
	}
	if err := runtime.Seal(); err != nil {
		return err
	}
	if offsetOfNext() == 0 {
		return errors.New("a panic after Seal needs another span")
	}
	unix.Exit(r.Run(0).Code.ExitStatus())
	return nil
}

var valueSink *struct {
	text    string
	address uintptr
}

func TestBusErrorInASealedProcessNeedsNoMemory(t *testing.T) {
	skipWithoutSeccomp(t)
	_, status := runChild(t, "fullSpan", writeImage(t, assembleImage(t, payloadListing)))
	if status.ExitStatus() != 74 {
		t.Errorf("exit %d, signal %v, want exit 74", status.ExitStatus(), status.Signal())
	}
}

// forbiddenActions are functions whose system calls kill a sealed process.
var forbiddenActions = map[string]func(){
	"grow the heap": func() { heapSink = make([]byte, 1<<30) },
	"open a file":   func() { unix.Open("/dev/null", unix.O_RDONLY, 0) },
	"make an ioctl that programs no window": func() {
		unix.Syscall(unix.SYS_IOCTL, 0, hal.ProgramWindowRequest+1, 0)
	},
	"map memory": func() { unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON) },
	"clone a thread": func() {
		running := make(chan bool)
		for range 100 {
			go func() {
				goruntime.LockOSThread()
				running <- true
				select {}
			}()
		}
		for range 100 {
			<-running
		}
	},
}

// forbiddenSystemCalls are system calls that create, map or open something. A child makes each of
// them separately, because the first forbidden one kills it. The arguments are invalid, so that a
// system call which the seal allows has no effect.
var forbiddenSystemCalls = [...]uintptr{
	unix.SYS_CLONE, unix.SYS_CLONE3, unix.SYS_EXECVE, unix.SYS_MMAP, unix.SYS_MREMAP,
	unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_BRK, unix.SYS_MEMFD_CREATE,
	unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_SOCKET, unix.SYS_DUP, unix.SYS_PIPE2,
	unix.SYS_RENAMEAT2, unix.SYS_UNLINKAT, unix.SYS_FTRUNCATE,
	unix.SYS_EPOLL_CREATE1, unix.SYS_IO_URING_SETUP, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_PRCTL, unix.SYS_SECCOMP, unix.SYS_KILL,
}

// init adds each of forbiddenSystemCalls to forbiddenActions.
func init() {
	for _, number := range forbiddenSystemCalls {
		forbiddenActions[fmt.Sprintf("make system call %d", number)] = func() {
			const x = ^uintptr(0) // an invalid argument
			unix.RawSyscall6(number, x, x, x, x, x, x)
		}
	}
}

// heapSink keeps an allocation reachable, so that the compiler does not remove it.
var heapSink []byte

const sealedMessage = "sealed\n"

// runForbiddenAction seals the process, prints sealedMessage and runs one of forbiddenActions.
func runForbiddenAction(args []string) error {
	if _, _, err := loadSealed(args[0]); err != nil {
		return err
	}
	unix.Write(1, []byte(sealedMessage))
	forbiddenActions[args[1]]()
	return nil
}

func TestSealedProcessIsKilledByForbiddenSystemCalls(t *testing.T) {
	skipWithoutSeccomp(t)
	path := writeImage(t, assembleImage(t, smallListing))
	for what := range forbiddenActions {
		out, status := runChild(t, "forbid", path, what)
		if !status.Signaled() || status.Signal() != syscall.SIGSYS || out != sealedMessage {
			t.Errorf("%s: printed %q, exit %d, signal %v; want it sealed and killed by SIGSYS",
				what, out, status.ExitStatus(), status.Signal())
		}
	}
}

// TestSealThatMissesAThreadIsAnError has a thread with another filter, which the kernel cannot
// seal. Seal must then fail.
func TestSealThatMissesAThreadIsAnError(t *testing.T) {
	ready, finish := make(chan unix.Errno), make(chan struct{})
	defer close(finish)
	go func() {
		goruntime.LockOSThread() // the thread ends with the goroutine
		allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
		program := unix.SockFprog{Len: 1, Filter: &allow}
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		_, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER,
			uintptr(unsafe.Pointer(&program)))
		ready <- errno
		<-finish
	}()
	if errno := <-ready; errno != 0 {
		t.Logf("the kernel has no seccomp (%v); Seal must also fail", errno)
	}
	if err := runtime.Seal(); hal.CodeOf(err) != hal.Denied ||
		!strings.Contains(err.Error(), "seccomp") {
		t.Errorf("Seal: %v, want that it is not permitted", err)
	}
}

// TestSealThatTheKernelRefusesIsAnError calls Seal in a thread that may not call seccomp.
func TestSealThatTheKernelRefusesIsAnError(t *testing.T) {
	sealed := make(chan error)
	go func() {
		goruntime.LockOSThread()
		filter := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SECCOMP, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		unix.Syscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER,
			uintptr(unsafe.Pointer(&program)))
		sealed <- runtime.Seal()
	}()
	if err := <-sealed; hal.CodeOf(err) != hal.Denied || strings.Contains(err.Error(), "thread") {
		t.Errorf("Seal: %v, want the error of the kernel and no word of threads", err)
	}
}

// printAnonymousMemory runs an image in a frozen process and prints the anonymous memory of the
// process in bytes.
func printAnonymousMemory(args []string) error {
	r, _, err := loadFrozen(args[0])
	if err != nil {
		return err
	}
	if err := runRepeatedly(r, "main", 1); err != nil {
		return err
	}
	anonymous, err := processStatus("RssAnon")
	fmt.Println(anonymous)
	return err
}

func TestAnonymousMemoryDoesNotGrowWithThePayload(t *testing.T) {
	effort.SkipShort(t)
	// The anonymous memory of Go varies by some tens of pages, and by more under the race detector
	// and an emulator. The larger payload has 16,000 pages.
	const pagesMax = 256
	measure := func(payload string) (anonymous int) {
		out, status := runChild(t, "memory", writeImage(t,
			assembleImage(t, strings.Replace(ivshmemHead, "0x100000", "64MiB", 2)+`
tensor a input uint8[4096] = pattern 0x1 size 4096
main:
  copy.8 m+0x0 <- pattern 0x1 size `+payload+` bulk
  copy.8 m+0x0 <- a[0:4096] bulk
  compare.8 m+0x1000 uint8 == pattern 0x2 size 4096 else ignore
`)))
		if status != 0 {
			t.Fatalf("child with a payload of %s: status %v", payload, status)
		}
		fmt.Sscan(out, &anonymous)
		return anonymous
	}
	few, many := measure("1MiB"), measure("63MiB")
	for range 2 {
		few, many = min(few, measure("1MiB")), min(many, measure("63MiB"))
	}
	if difference := max(few-many, many-few); few == 0 || difference > pagesMax*os.Getpagesize() {
		t.Errorf("anonymous memory differs by more than %d pages", pagesMax)
	}
	t.Logf("anonymous memory: %d bytes with 1 MiB of payload, %d with 63 MiB", few, many)
}
