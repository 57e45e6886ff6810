package hal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/fakekernel"
)

func TestOpenFindsAFunctionByIDsAndByAddress(t *testing.T) {
	installFakeSysfs(t)
	addFunction(t, "0000:00:00.0", 0x1b36, 0x0008, nil)
	f := addEdu(t)
	card := addFunction(t, "10000:e1:1f.7", 0xabcd, 0xef01, map[int]uint64{2: 2 * mib})
	card.write("modalias", fakekernel.Modalias(0xabcd, 0xef01, 0x1af4, 0x1100))
	cardIdentity := Identity{Address: "10000:e1:1f.7", Vendor: 0xabcd, Device: 0xef01,
		Subsystem: 0x11001af4,
		BarSizes:  [6]uint64{2: 2 * mib}}
	for name, want := range map[string]Identity{
		"pci:1234:11e8": {Address: "0000:00:01.0", Vendor: 0x1234, Device: 0x11e8,
			BarSizes: [6]uint64{mib}},
		"pci:0000:00:01.0": {Address: "0000:00:01.0", Vendor: 0x1234, Device: 0x11e8,
			BarSizes: [6]uint64{mib}},
		"pci:ABCD:EF01":     cardIdentity,
		"pci:10000:E1:1F.7": cardIdentity,
	} {
		t.Run(name, func(t *testing.T) {
			d, err := openAndAcquire(name)
			if err != nil {
				t.Error(err)
				return
			}
			want.Name = name
			if d.Identity() != want {
				t.Errorf("%s: identity %+v, want %+v", name, d.Identity(), want)
			}
			if !d.Alive() {
				t.Errorf("%s is not alive after Open", name)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if got := string(f.readAt("enable", 0, 2)); got != "1\n" {
		t.Errorf("file enable has %q, want 1", got)
	}
}

func TestInvalidDeviceNamesAreRejected(t *testing.T) {
	installFakeSysfs(t)
	for _, name := range []string{
		"", "pci", "pci:", "edu", "mock:edu", "vfio:", "vfio:0000:00:01", "tt:", "tt:0",
		"tt:1e52:401e", "tt:0000:01:00.0", "PCI:1234:11e8", "/dev/mem",
		"pci:1234", "pci:1234:", "pci:1234:11e", "pci:1234:11e88", "pci:123:11e8", "pci:+123:11e8",
		"pci:0x12:11e8", "pci:12_4:11e8", "pci:1234:11g8",
		"pci:1234:11e8:", "pci:1234:11e8.0", "pci:0000:00:01", "pci:00:01.0", "pci:0000:00:01.",
		"pci:0000:00:20.0", "pci:0000:00:01.8",
		"pci:0000:000:01.0", "pci:000:00:01.0", "pci:000000000:00:01.0", "pci:00000000:00:01.0",
		"pci:0000:00:1.0", "pci:0000:00:01.0:", "pci:0000:00:01.0.0",
		"pci:../..:00:01.0", "pci:0000:00:01.0/..", "pci: 234:11e8", "pci:1234:11e8\n",
	} {
		_, err := openAndAcquire(name)
		wantFault(t, fmt.Sprintf("%q", name), err, Usage, name, "pci:1234:11e8",
			"vfio:0000:01:00.0")
		_, err = ParseDeviceName(name)
		wantFault(t, fmt.Sprintf("ParseDeviceName(%q)", name), err, Usage, name)
	}
	sysfsDevicesDir += "/nothing"
	for _, name := range []string{"pci:1234:11E8", "vfio:0000:00:01.0", "tt:/dev/tenstorrent/7"} {
		if _, err := ParseDeviceName(name); err != nil {
			t.Errorf("ParseDeviceName(%s), a valid name of a device that does not exist: %v", name,
				err)
		}
	}
}

func TestNoMatchAndSeveralMatchesAreDifferentFaults(t *testing.T) {
	installFakeSysfs(t)
	_, err := openAndAcquire("pci:1234:11e8")
	wantFault(t, "empty directory", err, NoDevice, "pci:1234:11e8", "lists the devices")
	addFunction(t, "0000:03:00.0", 0x1234, 0x11e8, nil)
	addFunction(t, "0000:01:00.0", 0x1234, 0x11e8, nil)
	addFunction(t, "0000:02:00.0", 0x1234, 0x11e9, nil)
	_, err = openAndAcquire("pci:1234:11e7")
	wantFault(t, "other device", err, NoDevice, "pci:1234:11e7", "lists the devices")
	_, err = openAndAcquire("pci:0000:04:00.0")
	wantFault(t, "other address", err, NoDevice, "pci:0000:04:00.0", "lists the devices")
	_, err = openAndAcquire("pci:1234:11e8")
	wantFault(t, "two devices", err, Usage, "2 devices", "by its address:", " pci:0000:01:00.0",
		" pci:0000:03:00.0")
	sysfsDevicesDir += "/nothing"
	_, err = openAndAcquire("pci:1234:11e8")
	wantFault(t, "no sysfs", err, NoDevice, sysfsDevicesDir, "no such file or directory")
}

func TestDirectoryThatCannotBeReadIsAFault(t *testing.T) {
	installFakeSysfs(t)
	f := addEdu(t)
	defer func() { syscalls = realSyscalls }()
	syscalls.open = func(string, int) (int, error) {
		return realSyscalls.open(f.path("modalias"), unix.O_RDONLY)
	}
	_, err := ListDir(f.dir)
	wantFault(t, "a file", err, NoDevice, "getdents "+f.dir+": not a directory")
}

func TestLongDirectoryIsReadToItsEnd(t *testing.T) {
	installFakeSysfs(t)
	for i := range 300 { // one call of getdents does not return so many
		f := &fakeFunction{t: t, dir: filepath.Join(sysfsDevicesDir,
			fmt.Sprintf("%04x:00:00.0", i))}
		if err := os.Mkdir(f.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		f.write("modalias", fakekernel.Modalias(0x1234, uint16(i%150), 0, 0))
	}
	for _, id := range []uint16{0, 149} {
		_, err := openAndAcquire(fmt.Sprintf("pci:1234:%04x", id))
		wantFault(t, "ids", err, Usage, "by its address:", fmt.Sprintf(" pci:%04x:00:00.0", id),
			fmt.Sprintf(" pci:%04x:00:00.0", id+150))
	}
}

func TestAFunctionThatADriverOwnsIsRejected(t *testing.T) {
	for _, driver := range []string{"nvme", "vfio-pci"} {
		installFakeSysfs(t)
		f := addEdu(t)
		f.bind(driver)
		_, err := openAndAcquire("pci:1234:11e8")
		wantFault(t, driver, err, NoDevice, driver,
			"echo 0000:00:01.0 > /sys/bus/pci/drivers/"+driver+"/unbind")
		if got := string(f.readAt("enable", 0, 2)); got != "0\n" {
			t.Errorf("%s: file enable has %q, want it unchanged: 0", driver, got)
		}
	}
}

func TestFunctionBoundToPciStubIsOpenedIfItIsEnabled(t *testing.T) {
	installFakeSysfs(t)
	f := addEdu(t)
	f.bind("pci-stub")
	f.open().Close()
	f.patch("config", configCommandOffset, 0)
	_, err := openAndAcquire("pci:1234:11e8")
	wantFault(t, "memory decoding off", err, NoDevice, "pci-stub keeps memory decoding off",
		"drivers/pci-stub/unbind")
	if got := string(f.readAt("enable", 0, 2)); got != "0\n" {
		t.Errorf("file enable has %q, want it unchanged: 0", got)
	}
}

func TestAFunctionThatIsEnabledNeedsNoEnableFile(t *testing.T) {
	installFakeSysfs(t)
	f := addEdu(t)
	f.remove("enable")
	f.open()
}

func TestFunctionsThatCannotBeUsedAreRejected(t *testing.T) {
	const (
		line    = "0x0000000000000000 0x0000000000000fff 0x0000000000040200\n"
		missing = "no such file or directory"
	)
	writing := func(name, text string) func(*fakeFunction) {
		return func(f *fakeFunction) { f.write(name, text) }
	}
	for name, c := range map[string]struct {
		change func(*fakeFunction)
		code   Code
		words  []string
	}{
		"memory decoding stays off": {
			func(f *fakeFunction) {
				f.SetCommand(4)
				f.StuckOff = configCommandMemoryBit
			},
			NoDevice, []string{"memory decoding stays off"},
		},
		"all ones": {
			func(f *fakeFunction) { f.patch("config", 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) },
			DeviceGone, []string{"all ones", "rescan"},
		},
		"short configuration space": {
			writing("config", "\x34\x12\xe8\x11\x02"),
			NoDevice, []string{"config", "5 bytes"},
		},
		"empty resource": {writing("resource", ""), NoDevice,
			[]string{"resource", "line 1"}},
		"short resource": {
			writing("resource", strings.Repeat(line, 4)),
			NoDevice, []string{"resource", "line 5"},
		},
		"resource with a short line": {
			writing("resource", line+"0x0 0xfff\n"),
			NoDevice, []string{"resource", "line 2"},
		},
		"resource that ends before it begins": {
			writing("resource",
				strings.Replace(line, "0x0000000000000000", "0x0000000000001000", 1)),
			NoDevice, []string{"resource", "line 1"},
		},
		"resource without hex digits": {
			writing("resource", strings.Replace(line, "0fff", "0 ff", 1)),
			NoDevice, []string{"resource", "line 1"},
		},
		"short modalias": {
			writing("modalias", fakekernel.Modalias(1, 2, 3, 4)[:41]),
			NoDevice, []string{"modalias", "contains no PCI ids"},
		},
		"modalias of another bus": {
			writing("modalias", strings.Repeat("platform:", 6)),
			NoDevice, []string{"modalias", "contains no PCI ids"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			installFakeKernel(t)
			f := addEdu(t)
			c.change(f)
			_, err := openAndAcquire("pci:0000:00:01.0")
			wantFault(t, "open", err, c.code, c.words...)
		})
	}
}

func TestDecodingThatWasSwitchedOffIsSwitchedOnAgain(t *testing.T) {
	installFakeSysfs(t)
	f := addEdu(t)
	f.patch("config", configCommandOffset, 0)
	d := f.open()
	if f.Command() != 0x402 || !d.Alive() {
		t.Errorf("after Open: command register %#x, want 0x402; alive %v", f.Command(), d.Alive())
	}
}

func TestStoresLandInTheFileOfTheBar(t *testing.T) {
	installFakeSysfs(t)
	f := addFunction(t, "0000:00:01.0", 0x1234, 0x11e8, map[int]uint64{0: mib, 2: 2 * mib})
	d := f.open()
	for _, c := range []struct {
		bar   uint8
		flags uint8
		file  string
	}{{0, 0, "resource0"}, {0, fbs.FlagWriteCombining, "resource0_wc"}, {2, 0, "resource2"},
		{2, fbs.FlagWriteCombining, "resource2_wc"}} {
		t.Run(fmt.Sprint("BAR ", c.bar, " flags ", c.flags), func(t *testing.T) {
			a := mustMap(t, d, fbs.Window{Kind: gen.WindowKindBar, Bar: c.bar, Flags: c.flags,
				Offset: 0x12340, Size: 0x8000})
			busAddress := f.BarBusAddress(int(c.bar)) + 0x12340
			if a.Size != 0x8000 || a.TLBWindow != -1 || a.BusAddress != busAddress {
				t.Errorf("%s: size %#x, slot %d, bus address %#x; want 0x8000, -1, %#x", c.file,
					a.Size, a.TLBWindow, a.BusAddress, busAddress)
			}
			a.Store(8, 4, 0x11223344)
			copyBulk(a, 0x7ffd, "end")
			if got := f.readAt(c.file, 0x12348, 4); string(got) != "\x44\x33\x22\x11" {
				t.Errorf("%s has % x where 0x11223344 was stored", c.file, got)
			}
			if got := f.readAt(c.file, 0x1a33d, 3); string(got) != "end" {
				t.Errorf("%s has %q where \"end\" was copied", c.file, got)
			}
			f.patch(c.file, 0x12350, 1, 2, 3, 4, 5, 6, 7, 8)
			if v, code := a.Load(16, 8); v != 0x0807060504030201 || code != OK {
				t.Errorf("%s: loaded %#x, %v, want 0x807060504030201", c.file, v, code)
			}
		})
	}
}

func TestAWindowMapsThePagesItNeeds(t *testing.T) {
	k := installFakeKernel(t)
	f := addEdu(t)
	d := f.open()
	bar := fbs.Window{Kind: gen.WindowKindBar, Offset: 0x10000, Size: 0x10000}
	wide := mustMap(t, d, bar)
	bar.Offset, bar.Size = 0x1a5c4, 0x40
	narrow := mustMap(t, d, bar)
	narrow.Store(4, 4, 0xabcdef01)
	if v, _ := wide.Load(0xa5c8, 4); v != 0xabcdef01 {
		t.Errorf("store through one window, load through the other: %#x, want 0xabcdef01", v)
	}
	bar.Offset = 0x1afff // the window ends in the next page
	mustMap(t, d, bar)
	var mapped []uintptr
	for _, m := range k.Mappings {
		mapped = append(mapped, m.Size)
	}
	if want := []uintptr{0x10000, 0x604, 0x103f}; !slices.Equal(mapped, want) {
		t.Errorf("mappings have %#x bytes, want %#x", mapped, want)
	}
}

func TestABarWithoutWriteCombiningIsMappedUncached(t *testing.T) {
	installFakeSysfs(t)
	f := addEdu(t)
	f.remove("resource0_wc")
	d := f.open()
	a := mustMap(t, d, fbs.Window{Kind: gen.WindowKindBar, Flags: fbs.FlagWriteCombining,
		Size: 4096})
	copyBulk(a, 0, "data")
	if got := f.readAt("resource0", 0, 4); string(got) != "data" {
		t.Errorf("resource0 has %q, want \"data\"", got)
	}
}

func TestBarMayBeginInsideAPage(t *testing.T) {
	installFakeSysfs(t)
	f := addEdu(t)
	f.write("resource", "0x00000000febf0400 0x00000000febf05ff 0x0000000000040200\n"+
		strings.Repeat(fakekernel.NoResource, 12))
	f.patch("config", configBar0Offset, 0x00, 0x04, 0xbf, 0xfe, 0, 0, 0, 0)
	d := f.open()
	a := mustMap(t, d, fbs.Window{Kind: gen.WindowKindBar, Offset: 0x100, Size: 0x100})
	a.Store(0xfc, 4, 0x61626364)
	if got := f.readAt("resource0", 0x5fc, 4); string(got) != "dcba" {
		t.Errorf("resource0 has %q, want \"dcba\"", got)
	}
	if a.BusAddress != 0xfebf0500 {
		t.Errorf("bus address %#x, want 0xfebf0500", a.BusAddress)
	}
}

func TestBusAddressesComeFromConfigurationSpace(t *testing.T) {
	installFakeSysfs(t)
	f := addFunction(t, "0000:00:01.0", 0x1234, 0x11e8, map[int]uint64{0: mib, 2: mib, 4: mib})
	f.patch("config", configBar0Offset, 0, 0, 0, 0x40, 0, 0, 0, 0)         // a 32-bit BAR
	f.patch("config", configBar0Offset+8, make([]byte, 8)...)              // no address
	f.patch("config", configBar0Offset+16, 0xc, 0, 0x10, 0, 0x80, 0, 0, 0) // 64-bit, prefetchable
	f.patch("config", configBar0Offset+12, 1, 2, 3, 4)                     // no such BAR
	f.addCapability(0x40, capabilityEA, 0)
	d := f.open()
	for bar, want := range map[uint8]uint64{0: 0x40000000, 2: fakekernel.BarAddress(2),
		4: 0x80_00100000} {
		if a := mustMap(t, d, fbs.Window{Kind: gen.WindowKindBar, Bar: bar, Offset: 16,
			Size: 16}); a.BusAddress != want+16 {
			t.Errorf("BAR %d: bus address %#x, want %#x", bar, a.BusAddress, want+16)
		}
	}
}

func TestWindowsThatDoNotFitTheirBarAreRejected(t *testing.T) {
	installFakeSysfs(t)
	f := addEdu(t)
	f.write("resource", strings.Replace(string(f.readAt("resource", 0, 57*13)),
		strings.Repeat("0x0000000000000000 ", 2)+"0x0000000000000000\n",
		"0x000000000000c000 0x000000000000c0ff 0x0000000000040101\n", 1))
	d := f.open()
	for _, c := range []struct {
		bar          uint8
		offset, size uint64
		words        []string
	}{
		{0, 0, mib + 1, []string{"BAR 0 has 0x100000 bytes", "0x100001 at offset 0x0;"}},
		{0, mib, 1, []string{"0x1 at offset 0x100000"}},
		{0, mib + 1, 0, nil},
		{0, 0, 0, nil},
		{0, ^uint64(0), 2, nil},
		{0, 1, ^uint64(0), nil},
		{1, 0, 4, []string{"BAR 1", "has I/O ports"}},
		{2, 0, 4, []string{"BAR 2", "is missing"}},
		{6, 0, 4, []string{"BAR 6", "is missing"}},
		{255, 0, 4, []string{"BAR 255", "is missing"}},
	} {
		name := fmt.Sprintf("BAR %d, %#x bytes at %#x", c.bar, c.size, c.offset)
		t.Run(name, func(t *testing.T) {
			if c.bar == 0 {
				c.words = append(c.words, "check the size of the BAR with `lspci -v`")
			}
			_, err := d.Map(fbs.Window{Kind: gen.WindowKindBar, Bar: c.bar, Offset: c.offset,
				Size: c.size})
			words := append(c.words, fmt.Sprintf("BAR %d ", c.bar))
			wantFault(t, name, err, WrongDevice, words...)
		})
	}
}

func TestUnknownWindowsAreRejected(t *testing.T) {
	installFakeSysfs(t)
	d := addEdu(t).open()
	_, err := d.Map(fbs.Window{Size: 4096})
	wantFault(t, "invalid", err, Internal, "unknown kind of window: 0")
	_, err = d.Map(fbs.Window{Kind: gen.WindowKindTlb, Size: 4096, Slot: fbs.AnySlot})
	wantFault(t, "tlb", err, WrongDevice, "no TLB windows")
}

func TestConfigWindowsReadAndWriteConfigurationSpace(t *testing.T) {
	installFakeSysfs(t)
	f := addEdu(t)
	d := f.open()
	a := mustMap(t, d, fbs.Window{Kind: gen.WindowKindConfig, Size: 4096})
	again := mustMap(t, d, fbs.Window{Kind: gen.WindowKindConfig, Size: 256})
	for width, want := range map[uint8]uint64{1: 0x34, 2: 0x1234, 4: 0x11e81234} {
		if v, c := again.Load(0, width); v != want || c != OK {
			t.Errorf("load of %d bytes: %#x, %v, want %#x", width, v, c, want)
		}
	}
	for i, width := range []uint8{1, 2, 4} {
		offset := uint64(0xff0 + 4*i)
		if c := a.Store(uint32(offset), width, 0x55667788); c != OK {
			t.Errorf("store of %d bytes at %#x: %v", width, offset, c)
		}
		if got, want := f.valueAt("config", offset, 4),
			0x55667788&fbs.WidthMask(width); got != want {
			t.Errorf("store of %d bytes: the file has %#x, want %#x", width, got, want)
		}
	}
	if n := testing.AllocsPerRun(10,
		func() { a.Port.Store(0xf00, 4, 1); a.Port.Load(0xf00, 4) }); n != 0 {
		t.Errorf("Store and Load: %v allocations, want 0", n)
	}
	if a.Size != 4096 || again.Size != 256 || a.BusAddress != 0 {
		t.Errorf("windows of %d and %d bytes, bus address %#x; want 4096, 256 and none", a.Size,
			again.Size, a.BusAddress)
	}
	// A user who is not root can read only the first 64 bytes.
	if err := os.Truncate(f.path("config"), 64); err != nil {
		t.Fatal(err)
	}
	if _, c := a.Load(64, 4); c != Denied {
		t.Errorf("load after the end of the file: %v, want %v", c, Denied)
	}
	d.Close()
	d = f.open()
	_, err := d.Map(fbs.Window{Kind: gen.WindowKindConfig, Size: 4096})
	wantFault(t, "64 bytes", err, WrongDevice, "has 64 bytes", "needs 4096")
	d.Close()
	if _, c := a.Load(0, 4); c != IO {
		t.Errorf("load after Close: %v, want %v", c, IO)
	}
	if c := a.Store(0, 4, 1); c != IO {
		t.Errorf("store after Close: %v, want %v", c, IO)
	}
}

func TestAliveReadsVendorAndMemoryDecoding(t *testing.T) {
	installFakeSysfs(t)
	f := addEdu(t)
	d := f.open()
	for _, c := range []struct {
		header []byte
		alive  bool
	}{
		{[]byte{0x34, 0x12, 0xe8, 0x11, 2, 0}, true},
		{[]byte{0x34, 0x12, 0xe8, 0x11, 0, 0}, false},
		{[]byte{0x34, 0x12, 0xe8, 0x11, 6, 1}, true},
		{[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, false},
	} {
		t.Run(fmt.Sprintf("% x", c.header), func(t *testing.T) {
			f.patch("config", 0, c.header...)
			if d.Alive() != c.alive {
				t.Errorf("header % x: alive %v, want %v", c.header, d.Alive(), c.alive)
			}
		})
	}
	f.patch("config", 0, 0x34, 0x12, 0xe8, 0x11, 2, 0)
	if n := testing.AllocsPerRun(10, func() { d.Alive() }); n != 0 {
		t.Errorf("Alive: %v allocations, want 0", n)
	}
	d.Close()
	if d.Alive() {
		t.Error("alive after Close")
	}
}

// TestSearchByIDsSkipsRemovedFunctions removes functions after the search has listed their
// directories: when the search opens the file with their ids, or when it reads that file.
func TestSearchByIDsSkipsRemovedFunctions(t *testing.T) {
	for _, atRead := range []bool{false, true} {
		k := installFakeKernel(t)
		// functions whose addresses are before and after the address of the edu
		others := []string{"0000:00:00.0", "0000:00:02.0", "0000:7f:00.0"}
		for _, address := range others {
			f := addFunction(t, address, 0x1af4, 0x1110, nil)
			remove := fakekernel.Failure{Call: "open " + f.Path("modalias"),
				Before: func() { os.RemoveAll(f.dir) }}
			if atRead {
				// The error for a removed node (Linux, fs/kernfs/file.c, kernfs_seq_start).
				remove.Call, remove.Errno = "read "+f.Path("modalias"), unix.ENODEV
			}
			k.Failures = append(k.Failures, remove)
		}
		addEdu(t)
		d, err := Open("pci:1234:11e8")
		if err != nil {
			t.Errorf("functions removed at read %v: Open: %v", atRead, err)
			continue
		}
		if got := d.(*device).pciFunction.Address; got != "0000:00:01.0" {
			t.Errorf("functions removed at read %v: opened %s, want 0000:00:01.0", atRead, got)
		}
		d.Close()
		_, err = Open("pci:1af4:1110")
		wantFault(t, "all are removed", err, NoDevice, "pci:1af4:1110: no such device")
	}
}
