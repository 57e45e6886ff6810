//go:build !(backend_pci || backend_vfio || backend_tt)

package hal

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lightmetal/tools/check/effort"
	"lightmetal/tools/check/fakekernel"
)

// installFakePool installs a fake kernel with a pool of huge pages, for anonymous mappings and for
// files of huge pages. The list contains the physical addresses of the pages, divided by the size
// of a page, in the order in which the kernel allocates the pages.
func installFakePool(t *testing.T, order []uint64) *fakeKernel {
	k := installFakeKernel(t)
	pageSize := uint64(unix.Getpagesize())
	k.Pagemap = func(address uint64) uint64 {
		inPool := offsetInPool(t, k, address)
		page := inPool / hugePageSize
		if page >= uint64(len(order)) {
			return 0
		}
		return (order[page]*hugePageSize+inPool%hugePageSize)/pageSize | pagePresentBit
	}
	return k
}

// offsetInPool returns the offset of an address in the last mapping, or in the file of huge pages
// that /proc/self/maps shows at the address.
func offsetInPool(t *testing.T, k *fakeKernel, address uint64) (inPool uint64) {
	if n := len(k.Mappings); n > 0 {
		inPool = address - uint64(k.Mappings[n-1].Address)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.Contains(line, "/memfd:") {
			continue
		}
		var first, end, at uint64
		var rights string
		fmt.Sscanf(line, "%x-%x %s %x", &first, &end, &rights, &at)
		if first <= address && address < end {
			inPool = at + address - first
		}
	}
	return inPool
}

func TestHugePagesAreAllocatedUntilEnoughAreContiguous(t *testing.T) {
	effort.SkipShort(t)
	for name, c := range map[string]struct {
		order []uint64
		first uint64 // physical address of the window, in huge pages; 0: Map fails
	}{
		"ascending":                {[]uint64{5, 6, 7}, 5},
		"descending":               {[]uint64{7, 6, 5}, 5},
		"mixed":                    {[]uint64{6, 2, 9, 5, 12, 4}, 4},
		"a later range":            {[]uint64{1, 3, 5, 7, 11, 13, 12, 8}, 11},
		"a later page fills a gap": {[]uint64{20, 9, 18, 3, 19, 21}, 18},
		"two ranges of two pages":  {[]uint64{4, 3, 8, 9}, 0},
		"no contiguous pages":      {[]uint64{2, 4, 6, 8, 10}, 0},
		"fewer than are needed":    {[]uint64{8, 7}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			before := openMemfdCount(t)
			checkMapFromPool(t, c.order, c.first)
			if after := openMemfdCount(t); after != before {
				t.Errorf("%d files of huge pages are open after the test, %d before", after, before)
			}
		})
	}
}

// checkMapFromPool maps a window of two huge pages and one byte from a pool that allocates pages in
// the given order. It checks that the window begins at the page `first`. If first is 0, it checks
// that Map fails.
func checkMapFromPool(t *testing.T, order []uint64, first uint64) {
	t.Helper()
	const size = 2*hugePageSize + 1
	installFakePool(t, order)
	d := addEdu(t).open()
	defer d.Close()
	a, err := d.Map(hostWindow(size))
	if first == 0 {
		wantFault(t, "Map", err, NoDevice, "host memory")
		return
	}
	if err != nil || a.BusAddress != first*hugePageSize {
		t.Errorf("bus address %#x, want %#x; %v", a.BusAddress, first*hugePageSize, err)
		return
	}
	for offset := uint64(0); offset < size; offset += hugePageSize {
		a.Store(uint32(offset), 1, 7)
	}
	next := mustMap(t, d, hostWindow(16)) // the rest of the last huge page
	if next.BusAddress != a.BusAddress+2*hugePageSize+4096 {
		t.Errorf("the next window is at bus address %#x, want %#x", next.BusAddress,
			a.BusAddress+2*hugePageSize+4096)
	}
}

// openMemfdCount returns the number of memfd files that this process has open.
func openMemfdCount(t *testing.T) (count int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if to, _ := os.Readlink("/proc/self/fd/" + entry.Name()); strings.HasPrefix(to, "/memfd:") {
			count++
		}
	}
	return count
}

// skipUnlessPopulated skips the test if a new mapping with MAP_POPULATE has no pages, as in QEMU's
// user mode, which ignores the flag.
func skipUnlessPopulated(t *testing.T) {
	t.Helper()
	fd, err := unix.MemfdCreate("populated", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, hugePageSize); err != nil {
		t.Fatal(err)
	}
	const flags = unix.MAP_SHARED | unix.MAP_POPULATE
	mem, err := unix.Mmap(fd, 0, hugePageSize, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	if _, err := unix.Seek(fd, 0, unix.SEEK_DATA); err != nil {
		t.Skip("this system ignores MAP_POPULATE")
	}
}

// TestUnneededHugePagesAreReleased checks which pages the file of huge pages contains while some of
// them are still mapped.
func TestUnneededHugePagesAreReleased(t *testing.T) {
	skipUnlessPopulated(t)
	order := []uint64{6, 2, 9, 5, 12, 4}
	k := installFakePool(t, order)
	var pagesWithData []int64
	k.Failures = []fakekernel.Failure{{Call: "close memfd", Before: func() {
		for fd, name := range k.OpenFiles {
			for page := range int64(len(order)) {
				data, err := unix.Seek(fd, page*hugePageSize, unix.SEEK_DATA)
				if name == "memfd" && err == nil && data == page*hugePageSize {
					pagesWithData = append(pagesWithData, page)
				}
			}
		}
	}}}
	mem, err := unix.Mmap(-1, 0, 3*hugePageSize, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	table, err := syscalls.open(pagemapPath, unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	if !makeContiguous(table, mem) {
		t.Fatal("makeContiguous found no contiguous pages, want 4, 5 and 6")
	}
	syscalls.close(table)
	if !slices.Equal(pagesWithData, []int64{0, 3, 5}) {
		t.Errorf("pages %v of the file have memory, want [0 3 5]", pagesWithData)
	}
}

// TestHostMemoryOfTheKernelsPoolIsContiguous uses the pool of huge pages of this machine. It needs
// root, who may read physical addresses, and a pool:
// `echo 200 >/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages`.
func TestHostMemoryOfTheKernelsPoolIsContiguous(t *testing.T) {
	const needed = 3 // huge pages
	free := func() (pages int) {
		text, _ := os.ReadFile("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
		fmt.Sscan(string(text), &pages)
		return pages
	}
	before := free()
	if before < 2*needed || os.Geteuid() != 0 {
		t.Skipf("needs root and %d free huge pages; %d are free", 2*needed, before)
	}
	installFakeSysfs(t)
	d := addEdu(t).open()
	a, err := d.Map(hostWindow(needed * hugePageSize))
	if err != nil {
		d.Close()
		after := free()
		if after != before || !strings.Contains(err.Error(), "not physically contiguous") {
			t.Errorf("Map failed: %v; %d huge pages are free, %d before", err, after, before)
		}
		t.Skip("no contiguous pages in the pool: ", err)
	}
	if left := free(); left != before-needed {
		t.Errorf("%d huge pages are free after Map, %d before, want %d fewer", left, before, needed)
	}
	for offset := uint64(0); offset < needed*hugePageSize; offset += 4096 {
		if v, _ := a.Load(uint32(offset), 8); v != 0 {
			t.Fatalf("new host memory has %#x at %#x, want 0", v, offset)
		}
		a.Store(uint32(offset), 8, offset)
	}
	for offset := uint64(0); offset < needed*hugePageSize; offset += 4096 {
		if v, _ := a.Load(uint32(offset), 8); v != offset {
			t.Fatalf("loaded %#x at %#x, want the stored %#x", v, offset, offset)
		}
	}
	d.Close()
	if after := free(); after != before {
		t.Errorf("%d huge pages are free after Close, %d before", after, before)
	}
}
