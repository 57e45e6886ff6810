package runtime_test

import (
	"fmt"
	"os"
	"reflect"
	goruntime "runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"lightmetal/hal"
	"lightmetal/runtime"

	"golang.org/x/sys/unix"
)

// small uses every kind of command that plain memory can answer, waits
// included: "main" needs no system call, "wait" sleeps in the kernel.
const small = ivshmem + `
tensor a input uint8[256] = pattern 0x1 size 256
tensor d output uint8[256]
main:
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
sub:
  write.1 m+0x400 0x1
wait:
  delay 150us
  poll.4 m+0x800 == 0x1 within 300us every 150us else ignore
`

// heapCounters are the runtime's own, which count what nobody attributes to a
// function: every object, every byte, every collection, every mapped byte.
var heapCounters = [...]string{
	"/gc/heap/allocs:objects", "/gc/heap/allocs:bytes", "/gc/heap/tiny/allocs:objects",
	"/gc/cycles/total:gc-cycles", "/memory/classes/total:bytes",
}

func countFrozenRuns(args []string) error {
	r, _, err := loadPlain(args[0])
	if err != nil {
		return err
	}
	samples := make([]metrics.Sample, len(heapCounters))
	for i, name := range heapCounters {
		samples[i].Name = name
	}
	if err := r.Freeze(); err != nil {
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
	if err := repeat(r, "main", 10_000); err != nil {
		return err
	}
	if after := read(); after != before {
		return fmt.Errorf("%v: %v before, %v after", heapCounters, before, after)
	}
	if percent := debug.SetGCPercent(-1); percent != -1 {
		return fmt.Errorf("the collector is on, at %d percent: it also runs every two minutes",
			percent)
	}
	return nil
}

func TestTenThousandFrozenRunsChangeNoHeapCounter(t *testing.T) {
	if _, status := child(t, "count", written(t, encoded(t, small))); status != 0 {
		t.Errorf("status %v", status)
	}
}

// tellFrozen prints the signals that the frozen process ignores, the number of
// its threads, Go's processors, and whether Go waits for files already.
func tellFrozen(args []string) error {
	r, _, err := loadPlain(args[0])
	if err != nil {
		return err
	}
	if err := r.Freeze(); err != nil {
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
	polls := false
	for fd := range 32 {
		var target [64]byte
		n, _ := unix.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd), target[:])
		polls = polls || strings.Contains(string(target[:max(n, 0)]), "[eventpoll]")
	}
	fmt.Println(field("SigIgn"), field("Threads"), goruntime.GOMAXPROCS(0), polls)
	return nil
}

// TestFreezeLeavesNoReasonToMapMemoryOrStartThreads: a run that Go interrupts makes it map memory,
// a second processor makes it clone threads, and giving memory back takes a
// timer, the first of which opens an epoll file. All are rare, so that a million
// runs need not show them.
func TestFreezeLeavesNoReasonToMapMemoryOrStartThreads(t *testing.T) {
	out, status := child(t, "frozen", written(t, encoded(t, small)))
	var ignored uint64
	var threads, processors int
	var polls bool
	if _, err := fmt.Sscanf(out, "%x %d %d %t", &ignored, &threads, &processors,
		&polls); err != nil || status != 0 {
		t.Fatalf("%q, %v, status %v", out, err, status)
	}
	if ignored>>(unix.SIGURG-1)&1 == 0 {
		t.Errorf("the process ignores signals 0x%x, SIGURG is not among them", ignored)
	}
	if !polls {
		t.Error("no epoll file is open")
	}
	// The test program, with package os, has threads that a runner does without.
	const most = 8
	if threads > most || processors != 1 {
		t.Errorf("%d threads, more than %d, or %d processors, more than 1", threads, most,
			processors)
	}
}

// printLocked prints whether commands, arena, payload and program text are locked into memory
// once the process is frozen.
func printLocked(args []string) error {
	r, _, err := loadPlain(args[0])
	if err == nil {
		err = r.Freeze()
	}
	if err != nil {
		return err
	}
	return printLockedMappings(r)
}

// lockAllAndPrintLocked does the same after LockMemory.
func lockAllAndPrintLocked(args []string) error {
	r, _, err := loadPlain(args[0])
	if err == nil {
		err = r.Freeze()
	}
	if err == nil {
		err = runtime.LockMemory()
	}
	if err != nil {
		return err
	}
	return printLockedMappings(r)
}

// lockBeyondLimit calls LockMemory without the right to lock more than RLIMIT_MEMLOCK allows.
func lockBeyondLimit([]string) error {
	none := unix.Rlimit{}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &none); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&header, &make([]unix.CapUserData, 2)[0]); err != nil {
		return err
	}
	return runtime.LockMemory()
}

func printLockedMappings(r *runtime.Replay) error {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return err
	}
	text := uint64(reflect.ValueOf(printLocked).Pointer())
	for _, memory := range [][]byte{r.View().Envelope, r.Output(0), r.View().Payload} {
		fmt.Print(isLocked(string(maps), uint64(hal.AddressOf(memory))), " ")
	}
	fmt.Print(isLocked(string(maps), text), " ")
	return nil
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

// TestFreezeLocksCommandsAndArena, and neither payload nor program text, which the kernel may
// drop and read again: the safety manual says so.
func TestFreezeLocksCommandsAndArena(t *testing.T) {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil || !strings.Contains(string(maps), "VmFlags:") {
		t.Skipf("no flags of mappings here: %v", err)
	}
	const output = "tensor d output uint8[64]\nmain:\n  copy.8 d[:] <- m+0x0"
	source := strings.Replace(withPayload, "main:", output, 1)
	out, status := child(t, "locked", written(t, encoded(t, source)))
	if out != "true true false false " || status != 0 {
		t.Errorf("commands, arena, payload, text are locked: %q, status %v", out, status)
	}
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

// TestLockMemoryLocksPayloadAndProgramToo checks the flags of the mappings.
func TestLockMemoryLocksPayloadAndProgramToo(t *testing.T) {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil || !strings.Contains(string(maps), "VmFlags:") {
		t.Skipf("no flags of mappings here: %v", err)
	}
	if underRace {
		t.Skip("the race detector maps terabytes")
	}
	skipWithoutLockedMemory(t)
	const output = "tensor d output uint8[64]\nmain:\n  copy.8 d[:] <- m+0x0"
	source := strings.Replace(withPayload, "main:", output, 1)
	out, status := child(t, "allLocked", written(t, encoded(t, source)))
	if out != "true true true true " || status != 0 {
		t.Errorf("commands, arena, payload, text are locked: %q, status %v", out, status)
	}
}

// TestLockMemoryBeyondTheLimitIsAnError in a process without capabilities, and for a page that the
// kernel cannot read because its file has become shorter.
func TestLockMemoryBeyondTheLimitIsAnError(t *testing.T) {
	if underRace {
		t.Skip("the race detector maps terabytes")
	}
	if _, status := child(t, "lockLimit"); status.ExitStatus() != 1 {
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
		t.Error(err)
	}
	if err := runtime.LockMemory(); err != nil {
		t.Log(err) // without the right to lock memory
	}
	_ = unix.Munlockall()
}

// waitSealed is in a process that is not the replay's alone, and so has Freeze alone
// to end Go's look at the CPU limits, once a second.
func waitSealed(args []string) error {
	r, device, err := loadPlain(args[0])
	if err == nil {
		err = r.Freeze()
	}
	if err == nil {
		err = runtime.Seal()
	}
	for end := device.Now() + 2_500_000_000; err == nil && device.Now() < end; {
		hal.SleepRaw(100_000_000) // a signal of Go's cuts it short
	}
	if err == nil {
		unix.Exit(0) // os.Exit writes what go test -cover counts, to a new file
	}
	return err
}

// TestSealedSharedProcessDoesNotReadCPULimits of processors: that would be a system
// call which kills it.
func TestSealedSharedProcessDoesNotReadCPULimits(t *testing.T) {
	needSeccomp(t)
	if _, status := child(t, "shared", written(t, encoded(t, small))); status != 0 {
		t.Errorf("status %v", status)
	}
}

// needSeccomp skips where there is no seccomp to test with, as in QEMU's user
// mode. It asks the kernel and not Seal, so that a Seal that fails is no reason.
func needSeccomp(t *testing.T) {
	t.Helper()
	if underRace {
		t.Skip("the race detector cannot be sealed")
	}
	action := uint32(unix.SECCOMP_RET_KILL_PROCESS)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0,
		uintptr(unsafe.Pointer(&action)))
	if errno != 0 {
		t.Skipf("no seccomp here: %v", errno)
	}
}

// runSealed freezes and seals the process and runs an image in it.
func runSealed(args []string) error {
	if args[1] == "garbage" {
		makeGarbage()
	}
	r, _, err := loadPlain(args[0])
	if err != nil {
		return err
	}
	if err := r.Freeze(); err != nil {
		return err
	}
	if err := runtime.Seal(); err != nil {
		return err
	}
	// Aiming a window by a driver's ioctl survives; here nothing takes it.
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, ^uintptr(0), hal.ProgramWindowRequest,
		0); errno != unix.EBADF {
		return fmt.Errorf("the ioctl that aims a window: %v", errno)
	}
	for range 1000 {
		if err := repeat(r, "main", 1000); err != nil {
			return err
		}
		if err := repeat(r, "wait", 1); err != nil {
			return err
		}
	}
	unix.Exit(0) // os.Exit writes what go test -cover counts, to a new file
	return nil
}

// faultSealed has a bus error in a sealed process. It exits as a runner would.
func faultSealed(args []string) error {
	r, _, err := loadPlain(args[0])
	if err != nil {
		return err
	}
	if err := r.Freeze(); err != nil {
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
	needSeccomp(t)
	_, status := child(t, "fault", written(t, encoded(t, withPayload)))
	if status.ExitStatus() != 74 {
		t.Errorf("exit %d, signal %v, want 74", status.ExitStatus(), status.Signal())
	}
}

// makeGarbage leaves memory that the collector returns in the background.
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
	needSeccomp(t)
	path := written(t, encoded(t, small))
	for _, before := range []string{"nothing", "garbage"} {
		t.Run("after "+before, func(t *testing.T) {
			if _, status := child(t, "sealed", path, before); status != 0 {
				t.Errorf("exit %d, signal %v", status.ExitStatus(), status.Signal())
			}
		})
	}
}

// forbidden is what a sealed process dies of.
var forbidden = map[string]func(){
	"grow the heap": func() { kept = make([]byte, 1<<30) },
	"open a file":   func() { unix.Open("/dev/null", unix.O_RDONLY, 0) },
	"make an ioctl that aims no window": func() {
		unix.Syscall(unix.SYS_IOCTL, 0,
			hal.ProgramWindowRequest+1, 0)
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

// refused are system calls that make, map or open something, each by itself: what Go
// does makes several, of which the first kills. The arguments make no sense, so that
// one that is let pass does nothing.
var refused = [...]uintptr{
	unix.SYS_CLONE, unix.SYS_CLONE3, unix.SYS_EXECVE, unix.SYS_MMAP, unix.SYS_MREMAP,
	unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_BRK, unix.SYS_MEMFD_CREATE,
	unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_SOCKET, unix.SYS_DUP, unix.SYS_PIPE2,
	unix.SYS_RENAMEAT2, unix.SYS_UNLINKAT, unix.SYS_FTRUNCATE,
	unix.SYS_EPOLL_CREATE1, unix.SYS_IO_URING_SETUP, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_PRCTL, unix.SYS_SECCOMP, unix.SYS_KILL,
}

func init() {
	for _, number := range refused {
		forbidden[fmt.Sprintf("make system call %d", number)] = func() {
			const no = ^uintptr(0)
			unix.RawSyscall6(number, no, no, no, no, no, no)
		}
	}
}

var kept []byte

const sealedNow = "sealed\n"

func breakTheSeal(args []string) error {
	r, _, err := loadPlain(args[0])
	if err != nil {
		return err
	}
	if err := r.Freeze(); err != nil {
		return err
	}
	if err := runtime.Seal(); err != nil {
		return err
	}
	unix.Write(1, []byte(sealedNow))
	forbidden[args[1]]()
	return nil
}

func TestSealedProcessIsKilledByForbiddenSystemCalls(t *testing.T) {
	needSeccomp(t)
	path := written(t, encoded(t, small))
	for what := range forbidden {
		out, status := child(t, "forbid", path, what)
		if !status.Signaled() || status.Signal() != syscall.SIGSYS || out != sealedNow {
			t.Errorf("%s: printed %q, exit %d, signal %v; want it sealed and killed by SIGSYS",
				what, out, status.ExitStatus(), status.Signal())
		}
	}
}

// TestSealThatMissesAThreadIsAnError holds Seal to all threads or none: the
// kernel cannot seal a thread that already has another filter.
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
		t.Logf("without seccomp (%v) Seal has to fail as well", errno)
	}
	if err := runtime.Seal(); hal.CodeOf(err) != hal.Denied ||
		!strings.Contains(err.Error(), "seccomp") {
		t.Errorf("%v, want that it is not permitted", err)
	}
}

// TestSealThatTheKernelRefusesIsAnError has a thread that may not call seccomp.
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
		t.Errorf("%v, want the kernel's reason", err)
	}
}

// tellAnonymousMemory prints what an image costs in memory of the process's
// own once it has run.
func tellAnonymousMemory(args []string) error {
	r, _, err := loadPlain(args[0])
	if err != nil {
		return err
	}
	if err := r.Freeze(); err != nil {
		return err
	}
	if err := repeat(r, "main", 1); err != nil {
		return err
	}
	anonymous, err := processStatus("RssAnon")
	fmt.Println(anonymous)
	return err
}

func TestAnonymousMemoryDoesNotGrowWithThePayload(t *testing.T) {
	// Go's own varies by some tens, by more under the race detector and an emulator; the payload
	// has 16,000
	const pagesMax = 256
	measure := func(payload string) (anonymous int) {
		out, status := child(t, "memory", written(t,
			encoded(t, strings.Replace(ivshmem, "0x100000", "64MiB", 2)+`
tensor a input uint8[4096] = pattern 0x1 size 4096
main:
  copy.8 m+0x0 <- pattern 0x1 size `+payload+` bulk
  copy.8 m+0x0 <- a[0:4096] bulk
  compare.8 m+0x1000 uint8 == pattern 0x2 size 4096 else ignore
`)))
		if status != 0 {
			t.Fatalf("%s: status %v", payload, status)
		}
		fmt.Sscan(out, &anonymous)
		return anonymous
	}
	few, many := measure("1MiB"), measure("63MiB")
	for range 2 {
		few, many = min(few, measure("1MiB")), min(many, measure("63MiB"))
	}
	if difference := max(few-many, many-few); few == 0 || difference > pagesMax*os.Getpagesize() {
		t.Errorf("%d bytes with 1 MiB of payload, %d with 64 MiB", few, many)
	}
	t.Logf("%d bytes with 1 MiB of payload, %d with 64 MiB", few, many)
}
