// Package fakekernel imitates the interfaces of Linux through which package hal accesses devices:
// PCI functions in sysfs, VFIO with an IOMMU, and Tenstorrent's driver (tt-kmd). The tests of
// package hal and the simulated worlds (tools/check/simulate) use it instead of the kernel. A table
// of failures makes any system call fail.
//
// The files of the fake machine are ordinary files in a directory. The numbers and layouts of
// ioctls are from linux/vfio.h and from ioctl.h of tt-kmd. This package imports no other package of
// this project: a mistake in package hal or boards then differs from this package and is detected.
package fakekernel

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Kernel executes system calls of one program on a fake machine. Its methods have the parameters of
// the functions by which package hal makes system calls. Threads may call them at the same time.
type Kernel struct {
	Dir       string // directory with the files of the machine; "/sys" is Dir + "/sys"
	Functions []*Function
	Failures  []Failure
	// Paths of open files by descriptor, without Dir. The file of a PCI function that was opened
	// through VFIO has the path "vfio:" and the PCI address, and an unnamed file has "memfd".
	OpenFiles map[int]string
	Mappings  []Mapping // memory that is mapped
	// Calls contains all system calls in order, such as:
	//
	//	open /dev/vfio/7 rdwr
	//	ioctl 3b66 /dev/vfio/vfio
	//	mmap huge
	//	pwrite vfio:0000:01:00.0 +0x4 06 00
	Calls []string
	VFIO  VFIO
	TT    TT

	// Complain is called if the program uses a driver wrongly.
	Complain func(format string, arguments ...any)
	// Pagemap returns the entry of the file /proc/self/pagemap for the page at an address.
	Pagemap func(address uint64) uint64
	// OnConfigStore, if it is set, is called before each store to configuration space.
	OnConfigStore func(f *Function, offset int, data []byte)

	mutex    sync.Mutex
	readOnly map[int]bool // files that were opened for reading only
}

// Failure makes system calls fail.
type Failure struct {
	Call   string     // beginning of the element of Kernel.Calls, in complete words
	Nth    int        // 0: each call; otherwise only this one of the calls that match, from 1
	Errno  unix.Errno // error of the call; 0: the call is executed
	Before func()     // if it is set, it is called when the call begins
	count  int        // number of calls that matched
}

// Mapping is memory that the program has mapped: a range of a BAR, or host memory, with bar -1.
type Mapping struct {
	Address, Size  uintptr
	Function       *Function
	Bar            int
	Offset         uint64
	WriteCombining bool
}

// PagemapPath is the file with the physical addresses of the program's memory.
const PagemapPath = "/proc/self/pagemap"

// New returns a kernel whose machine has no PCI function. The directory must be empty.
func New(dir string, complain func(format string, arguments ...any)) *Kernel {
	k := &Kernel{Dir: dir, OpenFiles: map[int]string{}, Complain: complain,
		readOnly: map[int]bool{}}
	k.VFIO.init()
	k.TT = TT{API: 2, Minor: 6, NextNoCAddress: 0x8_0000_0000}
	_ = os.MkdirAll(dir+SysfsDir, 0o755)
	k.WriteFile(PagemapPath, "")
	return k
}

// Fail adds a failure of all calls that match. It has priority over the failures that were added
// before.
func (k *Kernel) Fail(call string, errno unix.Errno) {
	k.Failures = slices.Insert(k.Failures, 0, Failure{Call: call, Errno: errno})
}

// Release unmaps the configuration spaces of all functions.
func (k *Kernel) Release() {
	for _, f := range k.Functions {
		_ = unix.Munmap(f.Config)
		f.Config = nil
	}
}

// WriteFile creates or replaces a file of the machine.
func (k *Kernel) WriteFile(path, text string) {
	_ = os.MkdirAll(filepath.Dir(k.Dir+path), 0o755)
	_ = os.WriteFile(k.Dir+path, []byte(text), 0o644)
}

// WriteLink creates or replaces a symbolic link of the machine.
func (k *Kernel) WriteLink(path, target string) {
	_ = os.MkdirAll(filepath.Dir(k.Dir+path), 0o755)
	_ = os.Remove(k.Dir + path)
	_ = os.Symlink(target, k.Dir+path)
}

// begin records a system call. It returns the error of the first failure that matches the call.
func (k *Kernel) begin(call string) error {
	k.Calls = append(k.Calls, call)
	for i := range k.Failures {
		f := &k.Failures[i]
		rest, matches := strings.CutPrefix(call, f.Call)
		if !matches || rest != "" && rest[0] != ' ' {
			continue
		}
		f.count++
		if f.Nth != 0 && f.Nth != f.count {
			continue
		}
		if f.Before != nil {
			f.Before()
		}
		if f.Errno != 0 {
			return f.Errno
		}
	}
	return nil
}

// Begin records a system call that the caller executes itself. It returns the error of the
// first failure that matches the call.
func (k *Kernel) Begin(call string) error {
	defer k.lock()()
	return k.begin(call)
}

// lock locks the kernel and returns the function that unlocks it.
func (k *Kernel) lock() func() {
	k.mutex.Lock()
	return k.mutex.Unlock
}

// Resolve returns the path of the file that replaces the file at a path, or the error of opening
// it. The parameter mode is added to the element of Calls.
func (k *Kernel) Resolve(path, mode string) (string, error) {
	defer k.lock()()
	path = strings.TrimPrefix(path, k.Dir)
	if err := k.begin(strings.TrimSpace("open " + path + " " + mode)); err != nil {
		return path, err
	}
	if isGroup(path) && slices.Contains(slices.Collect(maps.Values(k.OpenFiles)), path) {
		return path, unix.EBUSY // Linux allows only one open file for a group
	}
	for _, prefix := range []string{"/sys/", "/dev/", PagemapPath, "/proc/self/fd/"} {
		if strings.HasPrefix(path, prefix) {
			return k.Dir + path, nil
		}
	}
	return path, nil
}

// RecordOpen records that the program has opened the file that Resolve returned.
func (k *Kernel) RecordOpen(path string, fd int) {
	defer k.lock()()
	k.OpenFiles[fd] = strings.TrimPrefix(path, k.Dir)
}

// Open opens a file of the machine.
func (k *Kernel) Open(path string, flags int) (int, error) {
	mode := []string{"rdonly", "wronly", "rdwr"}[flags&unix.O_ACCMODE]
	if flags&unix.O_APPEND != 0 {
		mode += " append"
	}
	resolved, err := k.Resolve(path, mode)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Open(resolved, flags|unix.O_CLOEXEC, 0)
	if err == nil {
		k.RecordOpen(path, fd)
		k.mutex.Lock()
		k.readOnly[fd] = flags&unix.O_ACCMODE == unix.O_RDONLY
		k.mutex.Unlock()
	}
	return fd, err
}

// RecordClose records that the program closes a file.
func (k *Kernel) RecordClose(fd int) {
	defer k.lock()()
	_ = k.recordClose(fd)
}

func (k *Kernel) recordClose(fd int) error {
	path := k.OpenFiles[fd]
	err := k.begin("close " + path)
	if path == ContainerPath {
		k.closeContainer()
	}
	if f, name := k.Locate(path); name == ttFile {
		clear(f.ReservedWindows)
		f.LockAcquired = false
	}
	delete(k.VFIO.containerOfGroup, fd)
	delete(k.OpenFiles, fd)
	return err
}

// Close closes a file, also if a failure matches, as Linux does.
func (k *Kernel) Close(fd int) error {
	defer k.lock()()
	failure := k.recordClose(fd)
	if err := unix.Close(fd); err != nil {
		return err
	}
	return failure
}

// Read reads from a file at its current position.
func (k *Kernel) Read(fd int, data []byte) (int, error) {
	defer k.lock()()
	if err := k.begin("read " + k.OpenFiles[fd]); err != nil {
		return -1, err
	}
	return unix.Read(fd, data)
}

// Pread reads configuration space, the page map or another file.
func (k *Kernel) Pread(fd int, data []byte, offset int64) (int, error) {
	defer k.lock()()
	path := k.OpenFiles[fd]
	if err := k.begin("pread " + path); err != nil {
		return -1, err
	}
	f, name := k.Locate(path)
	switch {
	case path == PagemapPath && k.Pagemap != nil:
		page := uint64(offset) / 8 * uint64(os.Getpagesize())
		binary.LittleEndian.PutUint64(data, k.Pagemap(page))
		return 8, nil
	case f != nil && f.Gone:
		for i := range data {
			data[i] = 0xff
		}
		return len(data), nil
	case name == vfioFile:
		offset -= int64(regionOffset(configRegion))
	}
	return unix.Pread(fd, data, offset)
}

// Pwrite writes configuration space, the file enable, which switches memory decoding and INTx on
// (Linux, do_pci_enable_device), or another file.
func (k *Kernel) Pwrite(fd int, data []byte, offset int64) (int, error) {
	defer k.lock()()
	path := k.OpenFiles[fd]
	f, name := k.Locate(path)
	if name == vfioFile {
		offset -= int64(regionOffset(configRegion))
	}
	if err := k.begin(fmt.Sprintf("pwrite %s +%#x % x", path, offset, data)); err != nil {
		return -1, err
	}
	switch {
	case f == nil:
	case name == "config" && k.readOnly[fd]:
		return -1, unix.ESPIPE // the error of sysfs
	case name == "config" || name == vfioFile:
		k.storeConfig(f, int(offset), data)
		return len(data), nil
	case name == "enable":
		k.storeConfig(f, 4, []byte{byte(f.Command()) | CommandMemory, 0})
	}
	return unix.Pwrite(fd, data, offset)
}

// Flock locks a file, as the real kernel does: each open file is another owner.
func (k *Kernel) Flock(fd, how int) error {
	defer k.lock()()
	if err := k.begin("flock " + k.OpenFiles[fd]); err != nil {
		return err
	}
	return unix.Flock(fd, how)
}

// hugePageFlags are the flags of mmap that select a size of huge pages: the base-2
// logarithm of the size, shifted left by unix.MAP_HUGE_SHIFT.
const hugePageFlags = unix.MAP_HUGE_MASK << unix.MAP_HUGE_SHIFT

// Mmap maps a range of a BAR, or host memory if fd is negative. Host memory consists of ordinary
// pages, which are not locked.
func (k *Kernel) Mmap(fd int, offset int64, length, protection, flags int) ([]byte, error) {
	defer k.lock()()
	if fd < 0 {
		return k.mapHostMemory(length, protection, flags)
	}
	path := k.OpenFiles[fd]
	if err := k.begin("mmap " + path); err != nil {
		return nil, err
	}
	m := Mapping{Bar: -1, Offset: uint64(offset)}
	f, name := k.Locate(path)
	m.Function = f
	switch {
	case f == nil:
	case name == vfioFile:
		m.Bar, m.Offset = splitRegionOffset(m.Offset)
	case name == ttFile:
		m.Bar, m.Offset, m.WriteCombining = splitTTOffset(m.Offset)
	default:
		m.WriteCombining = strings.HasSuffix(path, "_wc")
		_, _ = fmt.Sscanf(name, "resource%d", &m.Bar)
	}
	pages := func(size uint64) uint64 { return (size + 4095) &^ 4095 }
	if m.Bar < 0 || m.Bar > 5 || m.Offset+uint64(length) > pages(f.Bars[m.Bar]) {
		k.Complain("invalid mapping of %#x bytes at %#x of BAR %d of %s", length, m.Offset, m.Bar,
			path)
		return nil, unix.EINVAL
	}
	file, err := os.OpenFile(f.BarFile(m.Bar), os.O_RDWR, 0)
	if err != nil {
		return nil, unix.ENOENT
	}
	defer file.Close()
	return k.mapFile(int(file.Fd()), length, protection, flags, m)
}

// mapFile maps memory and adds it to the list of mappings.
func (k *Kernel) mapFile(fd, length, protection, flags int, m Mapping) ([]byte, error) {
	address, err := unix.MmapPtr(fd, int64(m.Offset), nil, uintptr(length), protection, flags)
	if err != nil {
		return nil, err
	}
	m.Address, m.Size = uintptr(address), uintptr(length)
	k.Mappings = append(k.Mappings, m)
	return unsafe.Slice((*byte)(address), length), nil
}

func (k *Kernel) mapHostMemory(length, protection, flags int) ([]byte, error) {
	const hugePageSizeLog2 = 21 // 2 MiB
	call := "mmap locked"
	if flags&unix.MAP_HUGETLB != 0 {
		call = "mmap huge"
		sizeLog2 := (flags & hugePageFlags) >> unix.MAP_HUGE_SHIFT
		if sizeLog2 != hugePageSizeLog2 {
			k.Complain("mmap with huge pages of 1 << %d bytes; want 1 << %d (2 MiB)", sizeLog2,
				hugePageSizeLog2)
		}
		if length%(1<<hugePageSizeLog2) != 0 {
			k.Complain("mmap of %#x bytes with huge pages; want a multiple of 2 MiB", length)
		}
	}
	if err := k.begin(call); err != nil {
		return nil, err
	}
	flags &^= unix.MAP_HUGETLB | hugePageFlags | unix.MAP_LOCKED | unix.MAP_POPULATE
	return k.mapFile(-1, length, protection, flags, Mapping{Bar: -1})
}

// Munmap unmaps memory, also if a failure matches.
func (k *Kernel) Munmap(mem []byte) error {
	defer k.lock()()
	address := unsafe.Pointer(unsafe.SliceData(mem))
	isMem := func(m Mapping) bool { return m.Address == uintptr(address) }
	call := "munmap bar"
	if i := slices.IndexFunc(k.Mappings, isMem); i >= 0 && k.Mappings[i].Bar < 0 {
		call = "munmap host"
	}
	failure := k.begin(call)
	k.Mappings = slices.DeleteFunc(k.Mappings, isMem)
	if err := unix.MunmapPtr(address, uintptr(len(mem))); err != nil {
		return err
	}
	return failure
}

// Ioctl executes an ioctl of VFIO or of Tenstorrent's driver.
func (k *Kernel) Ioctl(fd int, request, value uintptr, argument unsafe.Pointer) (int, error) {
	defer k.lock()()
	path := k.OpenFiles[fd]
	if err := k.begin(fmt.Sprintf("ioctl %x %s", request, path)); err != nil {
		return -1, err
	}
	f, name := k.Locate(path)
	result, errno := 0, unix.ENOTTY
	switch {
	case f != nil && f.Gone:
		errno = unix.ENODEV
	case path == ContainerPath:
		errno = k.containerIoctl(request, value, argument)
	case isGroup(path):
		result, errno = k.groupIoctl(fd, path, request, argument)
	case name == vfioFile:
		if request == DeviceGetIRQ || request == DeviceSetIRQs {
			result, errno = vectorIoctl(f, request, argument)
		} else {
			errno = functionIoctl(f, request, argument)
		}
	case name == ttFile && argument != nil && value == 0:
		errno = k.ttIoctl(f, request, argument)
	default:
		k.Complain("ioctl %x with value %#x, argument %p on the file %q", request, value, argument,
			path)
	}
	if errno != 0 {
		return -1, errno
	}
	return result, nil
}

// structure is the argument of an ioctl.
type structure []byte

// structureAt returns the struct of a size at an address.
func structureAt(argument unsafe.Pointer, size int) structure {
	return unsafe.Slice((*byte)(argument), size)
}

func (s structure) uint16(at int) uint16 { return binary.LittleEndian.Uint16(s[at:]) }
func (s structure) uint32(at int) uint32 { return binary.LittleEndian.Uint32(s[at:]) }
func (s structure) uint64(at int) uint64 { return binary.LittleEndian.Uint64(s[at:]) }

func (s structure) setUint16(at int, v uint16) { binary.LittleEndian.PutUint16(s[at:], v) }
func (s structure) setUint32(at int, v uint32) { binary.LittleEndian.PutUint32(s[at:], v) }
func (s structure) setUint64(at int, v uint64) { binary.LittleEndian.PutUint64(s[at:], v) }
