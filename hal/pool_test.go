//go:build !(notiles || backend_pci || backend_vfio || backend_tt)

package hal

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fakePool is a pool of huge pages that hands out frames in the order of a list, to memory that
// is mapped and to a file of huge pages alike. What is mapped elsewhere is ordinary memory.
type fakePool struct {
	*fakeKernel
	order  []uint64 // physical addresses, in huge pages
	region uint64   // where the huge pages of the last mmap begin
	size   uint64
}

func (p *fakePool) mmap(fd int, offset int64, length, prot, flags int) ([]byte, error) {
	mem, err := p.fakeKernel.mmap(fd, offset, length, prot, flags)
	if err == nil && flags&unix.MAP_HUGETLB != 0 {
		p.region, p.size = uint64(AddressOf(mem)), uint64(length)
	}
	return mem, err
}

// pread answers for pagemap: /proc/self/maps shows which pages of the file are mapped where.
func (p *fakePool) pread(fd int, data []byte, offset int64) (int, error) {
	if p.opened[fd] != pagemapPath {
		return p.fakeKernel.pread(fd, data, offset)
	}
	address := uint64(offset) / 8 * uint64(unix.Getpagesize())
	inside := address - p.region
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return -1, err
	}
	for line := range strings.Lines(string(maps)) {
		var first, end, at uint64
		var rights string
		fmt.Sscanf(line, "%x-%x %s %x", &first, &end, &rights, &at)
		if first <= address && address < end && strings.Contains(line, "/memfd:") {
			inside = at + address - first
		}
	}
	entry := uint64(0)
	if page := inside / hugePageSize; page < uint64(len(p.order)) {
		frame := p.order[page]*hugePageSize + inside%hugePageSize
		entry = frame/uint64(unix.Getpagesize()) | pagePresentBit
	}
	storeLittleEndian(data, entry)
	return len(data), nil
}

func TestHugePagesAreTakenFromThePoolUntilSomeLieSideBySide(t *testing.T) {
	for name, c := range map[string]struct {
		order []uint64
		first uint64 // of the three pages; 0: the window is refused
	}{
		"as they come":               {[]uint64{5, 6, 7}, 5},
		"from the last":              {[]uint64{7, 6, 5}, 5},
		"mixed":                      {[]uint64{6, 2, 9, 5, 12, 4}, 4},
		"a later range":              {[]uint64{1, 3, 5, 7, 11, 13, 12, 8}, 11},
		"joined by the last":         {[]uint64{20, 9, 18, 3, 19, 21}, 18},
		"two, and two":               {[]uint64{4, 3, 8, 9}, 0},
		"no two that are contiguous": {[]uint64{2, 4, 6, 8, 10}, 0},
		"fewer than are needed":      {[]uint64{8, 7}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			before := openMemfds(t)
			mapFromPool(t, c.order, c.first)
			if after := openMemfds(t); after != before {
				t.Errorf("%d files of huge pages open, %d before", after, before)
			}
		})
	}
}

// mapFromPool maps a window of two huge pages and a byte from a pool with this order of pages,
// and checks that it begins at a page, or is refused if that is 0.
func mapFromPool(t *testing.T, order []uint64, first uint64) {
	t.Helper()
	const size = 2*hugePageSize + 1
	fakeSysfs(t)
	use(&fakePool{fakeKernel: fakeSystem(t), order: order})
	d := addEdu(t).open()
	defer d.Close()
	a, err := d.Map(host(size))
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
	next := mustMap(t, d, host(16)) // the rest of the last huge page
	if next.BusAddress != a.BusAddress+2*hugePageSize+4096 {
		t.Errorf("the next window is at %#x", next.BusAddress)
	}
}

// openMemfds counts the files in memory that this process has open.
func openMemfds(t *testing.T) (count int) {
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

// needPopulate skips where a mapping with MAP_POPULATE has no pages yet, as in QEMU's user
// mode, which ignores the flag.
func needPopulate(t *testing.T) {
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
		t.Skip("MAP_POPULATE is ignored here")
	}
}

// TestPagesThatAreNotNeededGoBackToThePool looks at the file while it is mapped still.
func TestPagesThatAreNotNeededGoBackToThePool(t *testing.T) {
	needPopulate(t)
	k := &fakePool{fakeKernel: fakeSystem(t), order: []uint64{6, 2, 9, 5, 12, 4}}
	use(&keepingMemfd{fakePool: k})
	mem, err := unix.Mmap(-1, 0, 3*hugePageSize, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	k.substitute(pagemapPath, "")
	table, err := syscalls.open(pagemapPath, unix.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	if !makeContiguous(table, mem) {
		t.Fatal("none found")
	}
	syscalls.close(table)
	for fd, name := range k.opened {
		if name != "memfd" {
			continue
		}
		var held []int64
		for page := range int64(len(k.order)) {
			data, err := unix.Seek(fd, page*hugePageSize, unix.SEEK_DATA)
			if err == nil && data == page*hugePageSize {
				held = append(held, page)
			}
		}
		if !slices.Equal(held, []int64{0, 3, 5}) {
			t.Errorf("the file holds pages %v of the pool", held)
		}
		k.close(fd)
	}
}

// keepingMemfd keeps a file in memory open that hal closes.
type keepingMemfd struct{ *fakePool }

func (k *keepingMemfd) close(fd int) error {
	if k.opened[fd] == "memfd" {
		return nil
	}
	return k.fakePool.close(fd)
}

// TestHostMemoryOfTheKernelsPoolLiesSideBySide has the pool of this machine, if it has one and
// this user may know where its pages lie: `echo 200 >/proc/sys/vm/nr_hugepages`, as root.
func TestHostMemoryOfTheKernelsPoolLiesSideBySide(t *testing.T) {
	const needed = 3 // huge pages
	free := func() (pages int) {
		text, _ := os.ReadFile("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
		fmt.Sscan(string(text), &pages)
		return pages
	}
	before := free()
	if before < 2*needed || os.Geteuid() != 0 {
		t.Skipf("%d huge pages are free, or this is not root", before)
	}
	fakeSysfs(t)
	d := addEdu(t).open()
	a, err := d.Map(host(needed * hugePageSize))
	if err != nil {
		d.Close()
		after := free()
		if after != before || !strings.Contains(err.Error(), "not physically contiguous") {
			t.Errorf("%v; %d huge pages are free, %d were", err, after, before)
		}
		t.Skip("no contiguous pages in the pool: ", err)
	}
	if left := free(); left != before-needed {
		t.Errorf("%d huge pages are free, %d were, %d are needed", left, before, needed)
	}
	for offset := uint64(0); offset < needed*hugePageSize; offset += 4096 {
		if v, _ := a.Load(uint32(offset), 8); v != 0 {
			t.Fatalf("%#x at %#x", v, offset)
		}
		a.Store(uint32(offset), 8, offset)
	}
	for offset := uint64(0); offset < needed*hugePageSize; offset += 4096 {
		if v, _ := a.Load(uint32(offset), 8); v != offset {
			t.Fatalf("%#x at %#x", v, offset)
		}
	}
	d.Close()
	if after := free(); after != before {
		t.Errorf("%d huge pages are free after Close, %d before", after, before)
	}
}
