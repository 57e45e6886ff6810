package hal

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/tools/check/fakekernel"
)

// register returns a register of 2 bytes in configuration space.
func (f *fakeFunction) register(offset uint64) uint64 { return f.valueAt("config", offset, 2) }

func TestInterruptsAreOffUntilClose(t *testing.T) {
	const msi, msix = 0x50 + capabilityControl, 0x70 + capabilityControl
	for name, c := range map[string]struct {
		found, atClose         uint16 // command register before Open and after Close
		vectors, vectorsAtOpen byte   // low byte of MSI's control, high byte of MSI-X's
		change                 func(k *fakeKernel, f *fakeFunction)
	}{
		"off":       {0, 0x2, 0, 0, nil},
		"INTx off":  {0x400, 0x402, 0, 0, nil},
		"MSI":       {2, 0x2, 0x81, 0x80, nil},
		"MSI alone": {2, 0x2, 0xff, 0x7e | 0x80, nil},
		"pending": {0, 0x402, 0, 0, func(_ *fakeKernel, f *fakeFunction) {
			f.patch("config", configStatusOffset, configStatusList|configStatusINTx)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			k := installFakeKernel(t)
			f := addEdu(t)
			f.addCapability(0x40, 1, 0x50)
			f.addCapability(0x50, capabilityMSI, 0x70)
			f.addCapability(0x70, capabilityMSIX, 0)
			f.SetCommand(c.found)
			f.patch("config", msi, c.vectors)
			f.patch("config", msix, 0, c.vectors)
			if c.change != nil {
				c.change(k, f)
			}
			d := f.open()
			low, high := byte(f.register(msi)), byte(f.register(msix)>>8)
			if f.Command() != 0x402 || low != c.vectors&^1 || high != c.vectors&^0x80 {
				t.Errorf("open: command register %#x, MSI %#x, MSI-X %#x; want 0x402, %#x, %#x",
					f.Command(), low, high, c.vectors&^1, c.vectors&^0x80)
			}
			d.Close()
			low, high = byte(f.register(msi)), byte(f.register(msix)>>8)
			if f.Command() != c.atClose || low != c.vectors || high != c.vectors {
				t.Errorf("closed: command register %#x, MSI %#x, MSI-X %#x; want %#x, %#x, %#x",
					f.Command(), low, high, c.atClose, c.vectors, c.vectors)
			}
		})
	}
}

func expectFault(t *testing.T, err error, code Code, text string) {
	t.Helper()
	if CodeOf(err) != code || !strings.Contains(fmt.Sprint(err), text) {
		t.Errorf("error %v, want code %v and %q", err, code, text)
	}
}

func TestVectorsAreEnabledUntilClose(t *testing.T) {
	const control = 0x50 + capabilityControl
	installFakeKernel(t)
	f := addEdu(t)
	f.addCapability(0x40, 1, 0x50)
	f.addCapability(0x50, capabilityMSIX, 0)
	f.patch("config", control, 3, 0) // 4 vectors
	d := f.open()
	expectFault(t, d.EnableVectors(gen.InterruptKindMsi, 1), NoDevice, "vfio:")
	expectFault(t, d.EnableVectors(gen.InterruptKindMsix, 5), WrongDevice,
		"has 4 interrupt vectors of the kind that the image declares, but the image needs 5")
	if err := d.EnableVectors(gen.InterruptKindMsix, 4); err != nil {
		t.Fatal(err)
	}
	if got := f.register(control); got != 0xc003 {
		t.Errorf("message control is %#x, want MSI-X enabled and masked, 0xc003", got)
	}
	d.Close()
	if got := f.register(control); got != 3 {
		t.Errorf("after Close, message control is %#x, want 3", got)
	}
}

func TestFunctionWithoutMSIXHasNoVectors(t *testing.T) {
	installFakeKernel(t)
	d := addEdu(t).open()
	expectFault(t, d.EnableVectors(gen.InterruptKindMsix, 1), WrongDevice, "has 0 interrupt")
	d.Close()
}

func TestVectorsThatCannotBeWrittenAreAFault(t *testing.T) {
	k := installFakeKernel(t)
	f := addEdu(t)
	f.addCapability(0x40, capabilityMSIX, 0)
	d := f.open()
	k.Fail("pwrite", unix.EPERM)
	expectFault(t, d.EnableVectors(gen.InterruptKindMsix, 1), Denied, "run as root")
	k.Failures = nil
	d.Close()
}

func TestVFIOEnablesVectors(t *testing.T) {
	k := installFakeKernel(t)
	f := addEdu(t)
	k.BindToVFIO(f.Function, "7")
	f.Vectors = [3]uint32{1, 2, 9}
	d := f.openVFIO()
	for kind, most := range map[gen.InterruptKind]uint16{
		gen.InterruptKindMsi: 2, gen.InterruptKindMsix: 9} {
		expectFault(t, d.EnableVectors(kind, most+1), WrongDevice, "interrupt vectors")
		if err := d.EnableVectors(kind, most); err != nil {
			t.Fatal(err)
		}
		if got := f.EnabledVectors[kind]; got != uint32(most) {
			t.Errorf("%d vectors of kind %d are enabled, want %d", got, kind, most)
		}
	}
	f.KernelVectors = 3
	expectFault(t, d.EnableVectors(gen.InterruptKindMsix, 4), NoDevice, "the kernel has only 3")
	for _, call := range []string{"ioctl 3b6e", "ioctl 3b6d"} {
		k.Fail(call, unix.EIO)
		expectFault(t, d.EnableVectors(gen.InterruptKindMsi, 1), NoDevice, "VFIO_DEVICE_")
	}
	k.Failures = nil
	syscalls.openEventPoller = func() (int, int, error) { return -1, -1, unix.EMFILE }
	expectFault(t, d.EnableVectors(gen.InterruptKindMsi, 1), NoDevice, "eventfd")
	d.Close()
}

// Each wait would take an hour. An interrupt before the wait ends one wait.
func TestInterruptEndsAWait(t *testing.T) {
	k := installFakeKernel(t)
	f := addEdu(t)
	k.BindToVFIO(f.Function, "7")
	f.Vectors[gen.InterruptKindMsix] = 1
	d := f.openVFIO()
	defer d.Close()
	if d.AwaitInterrupt(1) {
		t.Error("an interrupt arrived without a vector")
	}
	if err := d.EnableVectors(gen.InterruptKindMsix, 1); err != nil {
		t.Fatal(err)
	}
	const hour, shortest = 3600_000_000_000, 1_000_000
	one := []byte{1, 0, 0, 0, 0, 0, 0, 0}
	interrupt := func() { _, _ = unix.Write(f.EventFD, one) }
	interrupt()
	interrupt()
	if !d.AwaitInterrupt(hour) {
		t.Error("an interrupt before the wait does not end it")
	}
	begin := d.Now()
	if d.AwaitInterrupt(shortest) || d.Now()-begin < shortest {
		t.Error("an interrupt ends a second wait")
	}
	go interrupt()
	if !d.AwaitInterrupt(hour) {
		t.Error("an interrupt during the wait does not end it")
	}
	interrupt()
	if d.AwaitInterrupt(shortest - 1) {
		t.Error("a wait below 1 ms ends at an interrupt")
	}
	if allocated := testing.AllocsPerRun(100, func() {
		interrupt()
		d.AwaitInterrupt(hour)
	}); allocated != 0 {
		t.Errorf("a wait allocates %v times", allocated)
	}
}

// The list of capabilities is data of the device, which may be broken.
func TestBrokenCapabilityListsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		id, next byte
		status   byte
	}{
		"to itself":       {1, 0x40, configStatusList},
		"into the header": {1, 0x04, configStatusList},
		"all ones":        {0xff, 0xff, configStatusList},
		"no list":         {capabilityMSI, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			installFakeKernel(t)
			f := addEdu(t)
			f.addCapability(0x40, c.id, c.next)
			f.patch("config", configStatusOffset, c.status)
			f.patch("config", 0x42, 0xff, 0xff)
			f.patch("config", 0xfc, 0xff, 0xff)
			before := f.readAt("config", 8, 4088)
			f.open()
			if after := f.readAt("config", 8, 4088); string(after) != string(before) {
				t.Error("Map stored to configuration space")
			}
		})
	}
	t.Run("beyond what the user may read", func(t *testing.T) {
		installFakeKernel(t)
		f := addEdu(t)
		f.addCapability(0x40, capabilityMSI, 0)
		f.check(os.Truncate(f.path("config"), 64))
		f.open()
	})
}

func TestVFIODisablesINTx(t *testing.T) {
	k := installFakeKernel(t)
	f := addVFIOEdu(k)
	f.openVFIO()
	if f.Command() != 0x402 {
		t.Errorf("command register %#x, want 0x402", f.Command())
	}
}

// The ids of a virtual function read as all ones, and its BARs and memory decoding as 0 (SR-IOV
// 1.1, 3.4.1).
func TestVirtualFunctionsAreOpenedAndAlive(t *testing.T) {
	installFakePagemap(t, 0x4000_0000)
	f := addEdu(t)
	f.symlink("physfn", "0000:00:00.0")
	f.patch("config", 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0x10, 0)
	f.patch("config", configBar0Offset, 0, 0, 0, 0, 0, 0, 0, 0)
	f.StuckOff = configCommandMemoryBit
	d := f.open()
	a := mustMap(t, d, fbs.Window{Kind: gen.WindowKindBar, Size: 4096})
	if !d.Alive() || d.Diagnose() != OK || a.BusAddress != fakekernel.BarAddress(0) {
		t.Errorf("alive %v, Diagnose %v, bus address %#x; want true, OK, %#x", d.Alive(),
			d.Diagnose(), a.BusAddress, fakekernel.BarAddress(0))
	}
	f.Gone = true
	if d.Alive() || d.Diagnose() != DeviceGone {
		t.Errorf("a virtual function that does not answer: alive %v, Diagnose %v", d.Alive(),
			d.Diagnose())
	}
}

// A device that has reset itself has no addresses in its BARs, but the kernel still has them.
func TestADeviceWithoutItsBARsIsGone(t *testing.T) {
	reset := func(f *fakeFunction) {
		f.SetCommand(0)
		f.patch("config", configBar0Offset, 0xc, 0, 0, 0, 0, 0, 0, 0)
	}
	bridge := func(base byte) func(*fakeFunction) {
		return func(f *fakeFunction) {
			window := make([]byte, 64)
			window[configBridgeWindow+1] = base
			f.check(os.WriteFile(f.path("../config"), window, 0o600))
		}
	}
	capability := func(id byte) func(*fakeFunction) {
		return func(f *fakeFunction) { f.addCapability(0x40, id, 0) }
	}
	for name, c := range map[string]struct {
		change func(f *fakeFunction)
		code   Code
	}{
		"no bridge":                 {func(*fakeFunction) {}, DeviceGone},
		"a bridge":                  {bridge(0x40), DeviceGone},
		"a bridge to bus address 0": {bridge(0), OK},
		"Enhanced Allocation":       {capability(capabilityEA), OK},
		"another capability":        {capability(capabilityMSI), DeviceGone},
	} {
		t.Run(name, func(t *testing.T) {
			k := installFakeKernel(t)
			f := addEdu(t)
			reset(f)
			c.change(f)
			k.Calls = nil
			d, err := Open("pci:" + f.Address)
			if c.code == OK && err == nil {
				d.Close()
				return
			}
			wantFault(t, "Open", err, c.code, "BAR 0 has lost its address", "/remove`", "rescan")
			if strings.Contains(strings.Join(k.Calls, "\n"), "pwrite") {
				t.Errorf("stored to a device that has lost its BARs: %q", k.Calls)
			}
		})
	}
	t.Run("during a run", func(t *testing.T) {
		installFakeKernel(t)
		f := addEdu(t)
		d := f.open()
		f.patch("config", configBar0Offset, 0xc, 0, 0, 0, 0, 0, 0, 0)
		if d.Alive() || d.Diagnose() != DeviceGone {
			t.Errorf("alive %v, Diagnose %v; want false, %v", d.Alive(), d.Diagnose(), DeviceGone)
		}
	})
}

func TestABARWithoutAddressIsUnavailable(t *testing.T) {
	const unset = "0x0000000000000000 0x00000000000fffff 0x0000000020040200\n"
	const address = "address to BAR 0"
	rest := strings.Repeat(fakekernel.NoResource, 12)
	for name, c := range map[string]struct {
		resource string
		register byte
		enable   unix.Errno // error of switching the function on
		bar      uint8
		code     Code
		word     string
	}{
		"prefetchable":       {fakekernel.NoResource + rest, 0xc, 0, 0, NoDevice, address},
		"kept by the kernel": {unset + rest, 0, 0, 0, NoDevice, address},
		"cannot be enabled":  {unset + rest, 0, unix.EINVAL, 1, NoDevice, address},
		"another BAR":        {unset + rest, 0, 0, 1, WrongDevice, "BAR 1 cannot be mapped"},
		"I/O ports":          {fakekernel.NoResource + rest, 1, 0, 0, WrongDevice, "I/O ports"},
		"no such BAR":        {fakekernel.NoResource + rest, 0, 0, 0, WrongDevice, "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			k := installFakeKernel(t)
			f := addEdu(t)
			f.write("resource", c.resource)
			f.patch("config", configBar0Offset, c.register, 0, 0, 0, 0, 0, 0, 0)
			f.SetCommand(0)
			if c.enable != 0 {
				k.Fail("pwrite "+f.Path("enable"), c.enable)
			}
			d, err := Open("pci:" + f.Address)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			_, err = d.Map(fbs.Window{Kind: gen.WindowKindBar, Bar: c.bar, Size: 4096})
			wantFault(t, "Map", err, c.code, c.word)
			if c.code == NoDevice {
				wantFault(t, "Map", err, c.code, "dmesg | grep BAR", "pci=realloc")
			}
		})
	}
}
