package hal

// Each system call of each backend fails with each error.

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/effort"
	"lightmetal/tools/check/fakekernel"
)

// deviceUse is a use of one device, from Open to Close.
type deviceUse struct {
	name    string // backend and board
	device  string
	install func(t *testing.T) (*fakeKernel, *fakeFunction)
	windows []fbs.Window
}

var deviceUses = []deviceUse{
	{"pci edu", "pci:1234:11e8",
		func(t *testing.T) (*fakeKernel, *fakeFunction) {
			k := installFakePagemap(t, 0x4000_0000)
			f := addEdu(t)
			f.write("reset", "")
			f.SetCommand(configCommandMasterBit) // as a killed program has left it
			return k.fakeKernel, f
		},
		[]fbs.Window{{Kind: gen.WindowKindConfig, Size: 256},
			{Kind: gen.WindowKindBar, Size: 4096}, hostWindow(0x3000)}},
	{"pci wormhole", "pci:0000:01:00.0",
		func(t *testing.T) (*fakeKernel, *fakeFunction) {
			return installFakePagemap(t, 0x12_4000_0000).fakeKernel, addWormhole(t)
		},
		[]fbs.Window{{Kind: gen.WindowKindBar, Size: 4096, Flags: fbs.FlagWriteCombining},
			tlbWindow(mib, 0), hostWindow(0x3000)}},
	{"vfio wormhole", "vfio:0000:01:00.0",
		func(t *testing.T) (*fakeKernel, *fakeFunction) {
			k := installFakeKernel(t)
			f := addWormhole(t)
			f.bindToVFIO("7")
			f.SetCommand(configCommandMasterBit)
			return k, f
		},
		[]fbs.Window{{Kind: gen.WindowKindBar, Size: 4096}, tlbWindow(mib, 0),
			hostWindow(0x3000)}},
	{"tt wormhole, ordinary pages", "tt:" + ttNode,
		func(t *testing.T) (*fakeKernel, *fakeFunction) {
			k := installFakeTT(t, &boards.Wormhole)
			k.Fail("mmap huge", unix.ENOMEM)
			return k.fakeKernel, k.f
		},
		[]fbs.Window{{Kind: gen.WindowKindBar, Size: 4096}, tlbWindow(mib, 0),
			hostWindow(0x3000)}},
}

// run opens the device, maps the windows, registers the cleanup at exit, and switches bus mastering
// on and off, until the first error, which it returns. Then it closes the device, twice if there
// was no error. isMapped reports whether all windows were mapped.
func (u *deviceUse) run() (isMapped bool, err error) {
	d, err := Open(u.device)
	if err != nil {
		return false, err
	}
	defer func() {
		if e := d.Close(); err == nil {
			err = e
		}
		if err == nil {
			err = d.Close()
		}
	}()
	for _, w := range u.windows {
		if _, err := d.Map(w); err != nil {
			return false, err
		}
	}
	image := wormholeImage(pointCommand(1, 0xffb00000, tile), resetStoreCommand(1, 0))
	_, err = d.(ExitCleaner).RegisterExitCleanup(image, 0)
	for _, on := range []bool{true, false} {
		if err == nil {
			err = d.SetBusMaster(on)
		}
	}
	return true, err
}

// failureResult is the documented result of a use of a device in which a system call fails. The
// first result whose fields match is the documented one.
type failureResult struct {
	use string // beginning of deviceUse.name
	// Beginning of the element of Kernel.Calls; SYSFS/ is the function's directory.
	call   string
	nth    int          // which call fails: the nth one, or one of the constants below
	errnos []unix.Errno // nil: all
	code   Code
	words  []string // the error must contain them
}

const (
	// Values of failureResult.nth.
	anyCall   = 0  // the row applies in every case
	everyCall = -1 // all of them fail

	// Values of failureResult.code that are not a Code: documentedResult computes the code from the
	// errno, as syscallFault or configAccessCode does.
	bySyscall = codeCount + 1
	byConfig  = codeCount + 2
)

var (
	missing = []unix.Errno{unix.ENOENT, unix.ENODEV}
	refused = []unix.Errno{unix.EINVAL, unix.EEXIST}

	inUse    = []string{"a replay already uses the device; `fuser -v ", "/config` names"}
	staysOff = []string{"bus mastering stays off: the device cannot reach memory"}
	staysOn  = []string{"bus mastering stays on: the device may still write to memory"}
	decoding = []string{"memory decoding stays off"}
	pinning  = []string{"0x3000 bytes of host memory", "ulimit -l"}
)

// configReadResults returns the results of the reads of configuration space by one use, in their
// order.
func configReadResults(use, file string, codes ...Code) (list []failureResult) {
	for i, code := range codes {
		words := map[Code][]string{MasterOff: staysOff, Internal: staysOn, NoDevice: decoding}[code]
		list = append(list, failureResult{use, "pread " + file, i + 1, nil, code, words})
	}
	return list
}

// hugePagePool is the pool of the pages that mmap returns for MAP_HUGE_2MB, on a kernel whose pages
// have any size.
const hugePagePool = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"

var failureResults = slices.Concat(
	// Without write access, a device that a killed program has left as bus master is not stopped.
	[]failureResult{
		{"pci edu", "pread SYSFS/config", 9, []unix.Errno{unix.EPERM}, OK, nil},
		{"pci edu", "pwrite SYSFS/config +0x4 02 04", 1, []unix.Errno{unix.EPERM}, OK, nil},
		// Without write access, interrupts stay as they are.
		{"pci edu", "pwrite SYSFS/config +0x4 06 04", 1, nil, OK, nil},
		{"pci wormhole", "pwrite SYSFS/config +0x4 02 04", 1, nil, OK, nil},
		{"pci", "pwrite SYSFS/config +0x4 02 00", anyCall, nil, OK, nil},
		{"vfio", "pwrite vfio:0000:01:00.0 +0x4 02 04", 1, nil, OK, nil},
	},
	configReadResults("pci edu", "SYSFS/config", bySyscall, OK, OK, OK, OK, OK, OK, OK, byConfig,
		Internal, byConfig, NoDevice, OK, OK, byConfig, MasterOff, byConfig, Internal, OK, OK),
	configReadResults("pci wormhole", "SYSFS/config", bySyscall, OK, OK, OK, OK, OK, OK, OK, OK,
		OK, byConfig, MasterOff, byConfig, Internal, OK, OK),
	configReadResults("vfio", "vfio:", byConfig, Internal, byConfig, NoDevice, OK, OK, OK, byConfig,
		MasterOff, byConfig, Internal),
	[]failureResult{
		{"", "close", anyCall, nil, OK, nil},
		{"", "flock", anyCall, []unix.Errno{unix.EAGAIN}, NoDevice, inUse},
		{"", "open SYSFS/config rdonly", anyCall, []unix.Errno{unix.EAGAIN}, NoDevice, inUse},
		{"vfio", "open SYSFS/config", anyCall, []unix.Errno{unix.EAGAIN}, NoDevice, inUse},
		{"", "munmap host", anyCall, nil, OK, nil},
		{"", "mmap locked", anyCall, nil, Denied, pinning},
		{"pci", "mmap huge", anyCall, nil, NoDevice, []string{"0x3000 bytes of host memory",
			"ordinary pages, which the kernel may move", "echo 2 > " + hugePagePool,
			"vfio:"}},
		{"", "mmap huge", anyCall, nil, OK, nil},
		{"", "mmap", anyCall, []unix.Errno{unix.EINVAL}, NoDevice, []string{"another memory type"}},

		{"pci", "open SYSFS/config rdwr", anyCall, nil, Denied, []string{"the command register",
			"run as root"}},
		{"tt", "open SYSFS/config rdwr", anyCall, nil, OK, nil},
		{"pci wormhole", "open SYSFS/enable", anyCall, nil, OK, nil}, // memory decoding is on
		{"pci wormhole", "pwrite SYSFS/enable", anyCall, nil, OK, nil},
		{"", "open SYSFS/reset", anyCall, nil, OK, nil},
		{"", "pwrite SYSFS/reset", anyCall, nil, OK, nil},
		{"", "open SYSFS/..", anyCall, nil, OK, nil},
		{"", "open SYSFS/resource0_wc", anyCall, []unix.Errno{unix.ENOENT}, OK, nil},
		{"", "pread /proc/self/pagemap", anyCall, nil, NoDevice, []string{
			"cannot find host memory in /proc/self/pagemap", "vfio:"}},
		{"pci", "pread SYSFS/config", everyCall, nil, bySyscall, nil},
		{"vfio", "pread vfio:", everyCall, nil, byConfig, nil},
		{"pci", "pwrite SYSFS/config +0x6", anyCall, nil, OK, nil},
		{"pci", "pwrite SYSFS/config", anyCall, nil, byConfig, nil},
		{"vfio", "pwrite vfio:0000:01:00.0 +0x6", anyCall, nil, OK, nil},
		{"vfio", "pwrite", anyCall, nil, byConfig, nil},

		{"vfio", "open /dev/vfio/7", anyCall, missing, NoDevice, []string{
			"/dev/vfio/7 does not exist", "devtmpfs", "VFIO's no-IOMMU mode " +
				"(/dev/vfio/noiommu-*) is not supported: switch an IOMMU on, or use `pci:`"}},
		{"vfio", "open /dev/vfio/vfio", anyCall, missing, NoDevice, []string{
			"/dev/vfio/vfio does not exist", "modprobe vfio_iommu_type1"}},
		{"vfio", "open /dev/vfio/7", anyCall, []unix.Errno{unix.EBUSY}, NoDevice, []string{
			"another program", "fuser -v /dev/vfio/7"}},
		{"vfio", "open /dev/vfio/vfio", anyCall, []unix.Errno{unix.EBUSY}, NoDevice, []string{
			"another program"}},
		{"vfio", "ioctl 3b66", anyCall, []unix.Errno{unix.ENODEV}, NoDevice, []string{
			"no driver for this IOMMU", "modprobe vfio_iommu_type1"}},
		{"vfio", "ioctl 3b66", anyCall, []unix.Errno{unix.EPERM}, Denied, []string{
			"GICv3", "gic-version=3", "allow_unsafe_interrupts"}},
		{"vfio", "ioctl 3b71", everyCall, refused, NoDevice, []string{
			"no free addresses for 0x3000 bytes"}},
		{"vfio", "ioctl 3b71", anyCall, refused, OK, nil}, // the next address is free
		{"vfio", "ioctl 3b71", anyCall, []unix.Errno{unix.ENOMEM}, Denied, pinning},

		{"tt", "open " + ttNode, anyCall, []unix.Errno{unix.EAGAIN}, NoDevice, []string{
			"owns the device (O_EXCL)"}},
		{"tt", "open " + ttNode, anyCall, []unix.Errno{unix.ENOENT}, NoDevice, []string{
			"tt:/dev/tenstorrent/0: no such device", "ls /dev/tenstorrent",
			"modprobe tenstorrent"}},
		{"tt", "ioctl fa02", anyCall, []unix.Errno{unix.ENODEV}, NoDevice, []string{
			"has begun to reset the device", "tt-smi -r"}},
		{"tt", "pread SYSFS/config", 2, nil, OK, nil}, // acquire saves the BARs
		{"tt", "pread SYSFS/config", 3, nil, OK, nil}, // SetBusMaster saves the status register
		{"tt", "pread SYSFS/config", anyCall, nil, DeviceGone, []string{"tt-smi -r"}},
		{"tt", "ioctl fa08", anyCall, []unix.Errno{unix.ENODEV}, DeviceGone, []string{
			"another program has reset the device since it was opened"}},
		// An older driver, or firmware without power states.
		{"tt", "ioctl fa0f", anyCall, nil, OK, nil},
		{"tt", "ioctl fa0b", everyCall, []unix.Errno{unix.ENOMEM}, NoDevice, []string{
			"no TLB window of 0x100000 bytes is free"}},
		{"tt", "ioctl fa0b", anyCall, []unix.Errno{unix.ENOMEM}, OK, nil}, // a larger window
		{"tt", "ioctl fa07", anyCall, []unix.Errno{unix.EINVAL}, NoDevice, []string{
			"0x3000 bytes of host memory are not physically contiguous;",
			"echo 2 > " + hugePagePool}},
		{"", "", anyCall, nil, bySyscall, nil},
	})

// ioctlNames are the names of requests in messages.
var ioctlNames = map[string]string{"3b66": "VFIO_SET_IOMMU", "3b67": "VFIO_GROUP_GET_STATUS",
	"3b68": "VFIO_GROUP_SET_CONTAINER", "3b6a": "VFIO_GROUP_GET_DEVICE_FD",
	"3b6c": "VFIO_DEVICE_GET_REGION_INFO", "3b71": "VFIO_IOMMU_MAP_DMA",
	"3b72": "VFIO_IOMMU_UNMAP_DMA", "fa00": "GET_DEVICE_INFO", "fa02": "QUERY_MAPPINGS",
	"fa05": "GET_DRIVER_INFO", "fa07": "PIN_PAGES", "fa08": "LOCK_CTL", "fa0b": "ALLOCATE_TLB",
	"fa0e": "SET_NOC_CLEANUP"}

// documentedResult returns the code and the words that the error must contain if a system call of
// a use fails.
func documentedResult(use, call string, nth int, errno unix.Errno) (Code, []string) {
	i := slices.IndexFunc(failureResults, func(r failureResult) bool {
		return strings.HasPrefix(use, r.use) && strings.HasPrefix(call, r.call) &&
			(r.nth == nth || r.nth == anyCall) &&
			(r.errnos == nil || slices.Contains(r.errnos, errno))
	})
	r := failureResults[i]
	switch r.code {
	case byConfig:
		code := map[unix.Errno]Code{unix.ENODEV: DeviceGone, unix.EPERM: Denied}[errno]
		if code == OK {
			code = IO
		}
		return code, []string{"cannot access the command register"}
	case bySyscall:
		parts := strings.Fields(call)
		// The message names the file, and the system call without the p of pread.
		words := []string{strings.TrimPrefix(parts[0], "p"), errno.Error()}
		switch parts[0] {
		case "ioctl":
			words[0] = ioctlNames[parts[1]]
		case "munmap":
		default:
			file := strings.TrimPrefix(strings.TrimPrefix(parts[1], "SYSFS/"), "vfio:")
			words = append(words, file)
			if file == "config" && (parts[len(parts)-1] == "rdonly" || use[:4] == "vfio") {
				words[0] = "flock" // the file is opened for its lock
			}
		}
		if errno == unix.EACCES || errno == unix.EPERM {
			return Denied, append(words, "run as root")
		}
		if errno == unix.EROFS {
			words = append(words, "mount -o remount,rw /sys")
		}
		return NoDevice, words
	}
	return r.code, r.words
}

// failureErrnos are the errors with which calls fail.
var failureErrnos = []unix.Errno{unix.EIO, unix.EACCES, unix.EPERM, unix.ENOENT, unix.ENODEV,
	unix.EINVAL, unix.EBUSY, unix.ENOMEM, unix.EAGAIN, unix.EEXIST, unix.ENOSPC, unix.ENOTTY,
	unix.EROFS}

// TestEachFailedSystemCallHasItsDocumentedResult makes each system call of each use fail with each
// error: once only that call, and once all calls with the same name and file. The use must return
// the documented error, release everything, and store nothing to a BAR before all windows are
// mapped. If the device masters the bus after Close, Close must have returned an error.
func TestEachFailedSystemCallHasItsDocumentedResult(t *testing.T) {
	count := 0
	errnos := failureErrnos[:effort.Cases(1, len(failureErrnos), len(failureErrnos))]
	for _, u := range deviceUses {
		t.Run(u.name, func(t *testing.T) {
			k, f := u.install(t)
			command, failures, pagemap := f.Command(), k.Failures, k.Pagemap
			if _, err := u.run(); err != nil {
				t.Fatal(err)
			}
			f.clearBars()
			clean, seen, isDone := k.Calls, map[string]int{}, map[string]bool{}
			check := func(call string, nth int) {
				shown := strings.ReplaceAll(call, f.Path(""), "SYSFS/")
				for _, errno := range errnos {
					failure := fakekernel.Failure{Call: call, Nth: max(nth, 0), Errno: errno}
					k.Failures = append([]fakekernel.Failure{failure}, failures...)
					k.Calls, k.Pagemap = nil, pagemap
					f.SetCommand(command)
					isMapped, err := u.run()
					code, words := documentedResult(u.name, shown, nth, errno)
					what := fmt.Sprintf("%s, call %d: %v", shown, nth, errno)
					switch {
					case code != OK:
						wantFault(t, what, err, code, words...)
					case err != nil:
						t.Errorf("%s: error %v, want none", what, err)
					}
					k.checkReleased(t)
					if f.clearBars() && !isMapped {
						t.Errorf("%s: a BAR was stored to before all windows were mapped", what)
					}
					if err == nil && u.name[:2] != "tt" && f.Command()&configCommandMasterBit != 0 {
						t.Errorf("%s: no error, but the device masters the bus", what)
					}
					count++
				}
			}
			for _, call := range clean {
				seen[call]++
				check(call, seen[call])
			}
			for _, call := range clean {
				words := strings.Fields(call)
				all := strings.Join(words[:min(len(words), 2)], " ")
				if !isDone[all] {
					isDone[all] = true
					check(all, everyCall)
				}
			}
			k.Failures = failures
		})
	}
	t.Logf("evidence: %d failures of system calls of the backends injected", count)
}

// clearBars clears all BARs. It reports whether the program has stored to a BAR since the last
// call.
func (f *fakeFunction) clearBars() (isStoredTo bool) {
	for bar, size := range f.Bars {
		if size == 0 {
			continue
		}
		file, err := os.OpenFile(f.BarFile(bar), os.O_RDWR, 0)
		f.check(err)
		_, err = unix.Seek(int(file.Fd()), 0, unix.SEEK_DATA)
		isStoredTo = isStoredTo || err == nil
		f.check(file.Truncate(0))
		f.check(file.Truncate(int64(size)))
		file.Close()
	}
	return isStoredTo
}
