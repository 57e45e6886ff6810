package runtime_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/image/listing"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/lmb/lmbtest"
)

// assembleImage assembles a listing.
func assembleImage(t testing.TB, source string) []byte { return lmbtest.File(t, source) }

// view assembles and verifies a listing.
func view(t testing.TB, source string) *fbs.View {
	return lmbtest.View(t, assembleImage(t, source))
}

// ivshmemHead begins a listing for ivshmem, which is plain memory, with a window m.
const ivshmemHead = `lightmetal 1
target ivshmem 1af4:1110 bar2 0x100000
window m bar2 offset 0x0 size 0x100000
`

// loadOnMock adds ivshmemHead to a listing and loads it on a mock.
func loadOnMock(t testing.TB, source string) (*runtime.Replay, *mock.Device) {
	t.Helper()
	device := mock.New(&boards.Ivshmem)
	replay, err := runtime.Load(view(t, ivshmemHead+source), runtime.AnyTLBWindow, device)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { replay.Close() })
	return replay, device
}

// readMemory maps the shared memory of the mock again and loads a range of it.
func readMemory(t testing.TB, device *mock.Device, offset, size uint64) []byte {
	t.Helper()
	a, err := device.Map(fbs.Window{Kind: gen.WindowKindBar, Bar: 2, Slot: fbs.AnySlot,
		Size: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, size)
	if code := a.Copy(gen.OpcodeCopyOut, offset, 1, gen.AccessExact, data); code != hal.OK {
		t.Fatalf("reading the memory of the mock: %v", code)
	}
	return data
}

// run runs the first sequence and checks the code that the run ends with.
func run(t testing.TB, r *runtime.Replay, want hal.Code) runtime.Result {
	t.Helper()
	result := r.Run(0)
	if result.Code != want {
		t.Fatalf("ended with %v at command %d, want %v", result.Code, result.Command, want)
	}
	return result
}

func TestStoresOfEveryWidthReachTheDevice(t *testing.T) {
	r, device := loadOnMock(t, `
main:
  write.1 m+0x0 0x11
  write.2 m+0x2 0x2222
  write.4 m+0x4 0x44444444
  write.8 m+0x8 0x8888888888888888
  write.4 m+0x4 0x00ff0000 mask 0x00ff0000
`)
	run(t, r, hal.OK)
	want := []byte{0x11, 0, 0x22, 0x22, 0x44, 0x44, 0xff, 0x44, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88,
		0x88, 0x88}
	if got := readMemory(t, device, 0, 16); !bytes.Equal(got, want) {
		t.Errorf("device has % x, want % x", got, want)
	}
}

func TestInputGoesInAndOutputComesBack(t *testing.T) {
	r, _ := loadOnMock(t, `
tensor a input int32[4] = int32 1 2 3 4
tensor d output int32[4]
main:
  copy.4 m+0x100 <- a[0:16]
  copy.4 d[0:8] <- m+0x108
  copy.4 d[8:16] <- m+0x100
`)
	words := func(data []byte) (list [4]int32) {
		for i := range list {
			list[i] = int32(binary.LittleEndian.Uint32(data[4*i:]))
		}
		return list
	}
	run(t, r, hal.OK)
	if got := words(r.Output(1)); got != [4]int32{3, 4, 1, 2} {
		t.Errorf("output for the default input: %v", got)
	}
	input := r.Input(0)
	if got := words(input); got != [4]int32{1, 2, 3, 4} {
		t.Errorf("Input returns %v before the caller writes to it, want the default 1 2 3 4", got)
	}
	binary.LittleEndian.PutUint32(input[4:], 99)
	run(t, r, hal.OK)
	if got := words(r.Output(1)); got != [4]int32{3, 4, 1, 99} {
		t.Errorf("output for the new input: %v", got)
	}
}

func TestMissingInputDataIsReportedBeforeTheFirstStore(t *testing.T) {
	r, device := loadOnMock(t, `
tensor a input int32[1]
main:
  write.4 m+0x0 0x1
  copy.4 m+0x100 <- a[0:4]
`)
	before := device.Operations()
	run(t, r, hal.InputMissing)
	if device.Operations() != before {
		t.Errorf("a run without input data made %d operations", device.Operations()-before)
	}
	r.Input(0) // from now on, the caller owns the data
	run(t, r, hal.OK)
}

func TestFailureRunsSafeAndDisables(t *testing.T) {
	r, device := loadOnMock(t, `
main:
  write.4 m+0x0 0x7
  expect.4 m+0x0 & 0xf == 0x8
  write.4 m+0x4 0x1
safe:
  write.4 m+0x8 0x5afe
`)
	result := run(t, r, hal.ExpectFailed)
	if result.Command != 1 || result.Got != 7 || result.Want != 8 || result.Mask != 0xf ||
		!result.SafeRan || result.SafeSequenceCode != hal.OK {
		t.Errorf("run ends with %+v, want command 1, got 7, want 8, mask 0xf, and safe", result)
	}
	want := []byte{7, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0x5a, 0, 0}
	if got := readMemory(t, device, 0, 12); !bytes.Equal(got, want) {
		t.Errorf("device has % x, want % x", got, want)
	}
	before := device.Operations()
	run(t, r, hal.Disabled)
	if device.Operations() != before {
		t.Errorf("a disabled replay made %d operations", device.Operations()-before)
	}
}

func TestIgnoredFailuresDoNotEndTheRun(t *testing.T) {
	r, device := loadOnMock(t, `
main:
  expect.4 m+0x0 == 0x1 else ignore
  compare.4 m+0x0 uint32 == hex 01000000 else ignore
  poll.4 m+0x0 == 0x2 within 10us else ignore
  write.4 m+0x4 0x9
  expect.4 m+0x0 == 0x3
`)
	result := run(t, r, hal.ExpectFailed)
	if result.Command != 4 || result.Want != 3 || result.IgnoredFailures != 3 {
		t.Errorf("run ends with %+v, want command 4 and 3 ignored failures", result)
	}
	if got := readMemory(t, device, 4, 1)[0]; got != 9 {
		t.Errorf("device has %d at 4, want 9: an ignored failure ended the run", got)
	}
}

func TestEveryConditionIsCheckedBothWays(t *testing.T) {
	for _, test := range []struct {
		condition string
		holds     bool
	}{
		{"& 0xff == 0x5a", true}, {"& 0xff == 0x5b", false},
		{"& 0xff != 0x5b", true}, {"& 0xff != 0x5a", false},
		{"any-set 0x12", true}, {"any-set 0x21", false},
		{"any-clear 0x20", true}, {"any-clear 0x5a", false},
		{"& 0xff reached 0x5a", true}, {"& 0xff reached 0x5b", false},
		{"& 0xff reached 0xdb", true}, {"& 0xff reached 0xda", false}, // 0x5a is past the overflow
		{"reached 0x1115a", true}, {"reached 0xffff1115", true}, {"reached 0x1115b", false},
	} {
		t.Run(test.condition, func(t *testing.T) {
			want := hal.ExpectFailed
			if test.holds {
				want = hal.OK
			}
			r, _ := loadOnMock(t, "main:\n  write.4 m+0x0 0x1115a\n"+
				"  expect.4 m+0x0 "+test.condition+"\n")
			run(t, r, want)
		})
	}
}

func TestPollWaitsUntilItsDeadline(t *testing.T) {
	const listing = "main:\n  poll.4 m+0x0 == 0x1 within 1ms every 100us\n"
	r, device := loadOnMock(t, listing)
	result := run(t, r, hal.DeadlinePassed)
	if result.Got != 0 || result.Want != 1 {
		t.Errorf("run ends with %+v, want got 0 and want 1", result)
	}
	// The poll loads once at the beginning and once after each of ten intervals. Loads take a
	// little time, too.
	if n := device.Operations(); n < 10 || n > 12 {
		t.Errorf("%d loads in 1 ms every 100 us, want 10 to 12", n)
	}
}

// TestPollWithAnIntervalEndsAtItsDeadline: the last wait ends at the deadline, also if the interval
// is longer than the time until the deadline.
func TestPollWithAnIntervalEndsAtItsDeadline(t *testing.T) {
	for _, times := range []string{"3ms every 2ms", "3ms every 60ms"} {
		t.Run(times, func(t *testing.T) {
			r, device := loadOnMock(t, "main:\n  poll.4 m+0x0 == 0x1 within "+times+"\n")
			run(t, r, hal.DeadlinePassed)
			if took := device.Now(); took < 3_000_000 || took > 3_010_000 {
				t.Errorf("poll within %s ended after %d ns, want 3 ms", times, took)
			}
		})
	}
}

// TestPollWithoutIntervalLoadsLessOftenTheLongerItWaits: the pause between two loads is a fraction
// of the time that the poll has waited. A long poll makes few loads, and a short one notices the
// value soon.
func TestPollWithoutIntervalLoadsLessOftenTheLongerItWaits(t *testing.T) {
	r, device := loadOnMock(t, "main:\n  poll.4 m+0x0 == 0x1 within 10s\n")
	run(t, r, hal.DeadlinePassed)
	if n, took := device.Operations(), device.Now(); n > 1000 || took < 10_000_000_000 ||
		took > 10_000_100_000 {
		t.Errorf("poll within 10 s made %d loads in %d ns, want at most 1000 in 10 s", n, took)
	}
	r, device = loadOnMock(t, "main:\n  poll.4 m+0x0 == 0x1 within 1us\n")
	run(t, r, hal.DeadlinePassed)
	if n := device.Operations(); n < 10 {
		t.Errorf("poll within 1 us made %d loads, want at least 10", n)
	}
}

func TestPollSeesALateBit(t *testing.T) {
	r, device := loadOnMock(t, "main:\n  write.4 m+0x0 0x1\n"+
		"  poll.4 m+0x0 & 0x1 == 0x1 within 1ms\n")
	device.Inject(mock.Fault{Kind: mock.Late, Place: mock.Place{Bar: 2}, Mask: 1, Loads: 20})
	run(t, r, hal.OK)
	if n := device.Operations(); n < 21 {
		t.Errorf("%d operations, want at least 21: the bit was not late", n)
	}
}

// TestCounterThatIsPastItsValueEndsThePoll: a replay that is slower than the device finds the
// counter beyond the value that it waits for. A poll for equality would wait out its deadline.
func TestCounterThatIsPastItsValueEndsThePoll(t *testing.T) {
	const past = "main:\n  write.4 m+0x0 0xd1b04\n  poll.4 m+0x0 "
	r, device := loadOnMock(t, past+"reached 0xd1004 within 1ms\n")
	run(t, r, hal.OK)
	if n := device.Operations(); n != 2 {
		t.Errorf("%d operations, want a store and one load", n)
	}
	r, _ = loadOnMock(t, past+"== 0xd1004 within 1ms\n")
	run(t, r, hal.DeadlinePassed)
	r, _ = loadOnMock(t, past+"& 0xfffff reached 0xd1b05 within 1ms\n")
	if result := run(t, r, hal.DeadlinePassed); result.Got != 0xd1b04 ||
		result.Want != 0xd1b05 || result.Mask != 0xfffff {
		t.Errorf("run ends with %+v, want got 0xd1b04, want 0xd1b05, mask 0xfffff", result)
	}
}

// TestGoneDeviceIsNoticedIfAllOnesSatisfyTheCondition: a counter of all ones has reached many
// values, but a device that is gone returns them, too.
func TestGoneDeviceIsNoticedIfAllOnesSatisfyTheCondition(t *testing.T) {
	const listing = "main:\n  write.4 m+0x0 0xffffffff\n  expect.4 m+0x0 reached 0xfffffff0\n"
	r, _ := loadOnMock(t, listing)
	run(t, r, hal.OK)
	r, device := loadOnMock(t, listing)
	device.Inject(mock.Fault{Kind: mock.AllOnes, Operation: 2})
	run(t, r, hal.DeviceGone)
}

func TestAllOnesInDataAreNotADeviceThatIsGone(t *testing.T) {
	for _, golden := range []string{"00ffffff", "ffffffff"} {
		t.Run(golden, func(t *testing.T) {
			r, _ := loadOnMock(t, "tensor d output uint8[4]\nmain:\n  copy.4 m+0x0 <- hex "+golden+
				"\n  copy.4 d[0:4] <- m+0x0\n  expect.4 m+0x0 & 0xff00 == 0xff00\n")
			run(t, r, hal.OK)
			if got := r.Output(0); got[3] != 0xff {
				t.Errorf("output % x, want ff as the last byte", got)
			}
		})
	}
}

func TestDeviceThatIsGoneIsReported(t *testing.T) {
	for _, body := range []string{
		"  expect.4 m+0x0 == 0x0\n",
		"  poll.4 m+0x0 == 0x0 within 1ms\n",
		"  copy.4 d[0:4] <- m+0x0\n",
		"  compare.4 m+0x0 uint32 == hex 00000000\n",
	} {
		t.Run(strings.TrimSpace(body), func(t *testing.T) {
			r, device := loadOnMock(t, "tensor d output uint32[1]\nmain:\n"+body+
				"  copy.4 d[0:4] <- m+0x0\n")
			device.Inject(mock.Fault{Kind: mock.AllOnes, Operation: 1})
			if result := r.Run(0); result.Code != hal.DeviceGone {
				t.Errorf("%q ends with %v, want %v", body, result.Code, hal.DeviceGone)
			}
		})
	}
}

func TestBusFaultIsReportedWithItsCommand(t *testing.T) {
	r, device := loadOnMock(t, "main:\n  write.4 m+0x0 0x1\n  write.4 m+0x4 0x1\n")
	device.Inject(mock.Fault{Kind: mock.BusFault, Operation: 2})
	if result := run(t, r, hal.BusFault); result.Command != 1 {
		t.Errorf("bus fault at command %d, want 1", result.Command)
	}
}

func TestCalledSequenceRunsInPlace(t *testing.T) {
	r, device := loadOnMock(t, `
main:
  write.1 m+0x0 0x1
  call sub
  write.1 m+0x2 0x3
sub:
  write.1 m+0x1 0x2
`)
	device.Record(true)
	run(t, r, hal.OK)
	var order []uint64
	for _, a := range device.Journal() {
		order = append(order, a.Place.Address)
	}
	if len(order) != 3 || order[0] != 0 || order[1] != 1 || order[2] != 2 {
		t.Errorf("stores at %v, want 0, 1, 2", order)
	}
}

func TestFailureInsideACalleeNamesTheCalleesCommand(t *testing.T) {
	r, _ := loadOnMock(t, "main:\n  call sub\nsub:\n  write.1 m+0x0 0x1\n  expect.1 m+0x0 == 0x2\n")
	if result := run(t, r, hal.ExpectFailed); result.Command != 3 {
		t.Errorf("command %d, want 3", result.Command)
	}
}

func TestCompareNamesTheFirstElementThatDiffers(t *testing.T) {
	for _, test := range []struct {
		width, golden string
		want          hal.Code
		element       uint64
		got, wanted   uint64
	}{
		{"4", "0100000002000000ffffffff", hal.OK, 0, 0, 0},
		{"4", "0100000003000000ffffffff", hal.CompareFailed, 1, 2, 3},
		{"1", "0100000002000000fffffffe", hal.CompareFailed, 11, 0xff, 0xfe},
		{"2", "0100000002000100fffffffe", hal.CompareFailed, 3, 0, 1},
	} {
		t.Run(test.width+" "+test.golden, func(t *testing.T) {
			r, device := loadOnMock(t, "main:\n  copy.4 m+0x0 <- hex 0100000002000000ffffffff\n"+
				"  compare."+test.width+" m+0x0 uint8 == hex "+test.golden+"\n")
			device.Record(true)
			result := r.Run(0)
			if result.Code != test.want || result.ElementIndex != test.element ||
				result.Got != test.got || result.Want != test.wanted {
				t.Errorf("compare.%s with %s: run ends with %+v, want %v, element %d, got %#x, "+
					"want %#x", test.width, test.golden, result, test.want, test.element, test.got,
					test.wanted)
			}
			// The comparison does not load elements after the first one that differs.
			last := device.Journal()[len(device.Journal())-1].Place.Address
			if test.want != hal.OK && last != uint64(test.width[0]-'0')*test.element {
				t.Errorf("compare.%s with %s: the last load is at %d, want it at element %d",
					test.width, test.golden, last, test.element)
			}
		})
	}
}

func TestImageForAnotherDeviceIsRejected(t *testing.T) {
	v := view(t, ivshmemHead+"main:\n  write.1 m+0x0 0x1\n")
	load := func(devices ...hal.Device) error {
		_, err := runtime.Load(v, runtime.AnyTLBWindow, devices...)
		return err
	}
	small := mock.New(&boards.Ivshmem)
	small.ResizeBAR(2, 1<<16)
	const source = "lightmetal 1\ntarget ivshmem 1af4:1110 subsystem 1af4:1100 bar2 1MiB\n" +
		"window m bar2 offset 0 size 1MiB\nmain:\n  write.1 m+0x0 0x1\n"
	loadOnSubsystem := func(subsystem uint32) error {
		device := mock.New(&boards.Ivshmem)
		device.SetSubsystem(subsystem)
		_, err := runtime.Load(view(t, source), runtime.AnyTLBWindow, device)
		return err
	}
	if err := loadOnSubsystem(0x11001af4); err != nil {
		t.Errorf("Load on the subsystem of the image: %v", err)
	}
	for _, test := range []struct {
		err  error
		code hal.Code
		want string
	}{
		{loadOnSubsystem(0x11011af4), hal.WrongDevice,
			"it is for subsystem 0x11001af4, but mock:ivshmem has 0x11011af4"},
		{loadOnSubsystem(0), hal.WrongDevice,
			"it is for subsystem 0x11001af4, but mock:ivshmem has 0x0"},
		{load(mock.New(&boards.Edu)), hal.WrongDevice,
			"it is for ivshmem (1af4:1110), but mock:edu is 1234:11e8"},
		{load(small), hal.WrongDevice,
			"needs 0x100000 bytes of BAR 2, but mock:ivshmem has 0x10000"},
		{load(), hal.Usage, "the image is for 1 device(s), but 0 were named"},
	} {
		t.Run(test.want, func(t *testing.T) {
			if hal.CodeOf(test.err) != test.code || !strings.Contains(test.err.Error(), test.want) {
				t.Errorf("Load: %v, want %q", test.err, test.want)
			}
		})
	}
}

// deviceHandle is one of several handles of a PCI function, opened by different names. It counts
// the windows that are mapped.
type deviceHandle struct {
	hal.Device
	name, address string
	mapped        *int
}

func (h deviceHandle) Identity() hal.Identity {
	identity := h.Device.Identity()
	identity.Name, identity.Address = h.name, h.address
	return identity
}

func (h deviceHandle) Map(w fbs.Window) (hal.Aperture, error) {
	*h.mapped++
	return h.Device.Map(w)
}

// TestTwoTargetsNeedTwoFunctions loads an image for two equal devices on one PCI function. Both
// targets would use the same TLB windows: a store to a tile of the first target would reach the
// tile to which the second target's window points.
func TestTwoTargetsNeedTwoFunctions(t *testing.T) {
	v := view(t,
		"lightmetal 1\ntarget wormhole 1e52:401e bar0 512MiB\ntarget wormhole 1e52:401e bar0 "+
			"512MiB\n"+
			"window a tlb size 1MiB\nwindow b tlb size 1MiB target 1\nmain:\n  point a tile 1,1 "+
			"address 0x0\n"+
			"  point b tile 9,9 address 0x0\n  write.4 a+0x0 0x1\n")
	mapped := 0
	newHandle := func(name, address string) hal.Device {
		return deviceHandle{mock.New(&boards.Wormhole), name, address, &mapped}
	}
	both := mock.New(&boards.Wormhole)
	for name, devices := range map[string][2]hal.Device{
		"one handle twice": {both, both},
		"by ids": {newHandle("pci:1e52:401e", "0000:01:00.0"),
			newHandle("pci:1e52:401e", "0000:01:00.0")},
		"by ids and by address": {newHandle("pci:1e52:401e", "0000:01:00.0"),
			newHandle("pci:0000:01:00.0", "0000:01:00.0")},
		"through two backends": {newHandle("vfio:0000:01:00.0", "0000:01:00.0"),
			newHandle("tt:/dev/tenstorrent/0", "0000:01:00.0")},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := runtime.Load(v, runtime.AnyTLBWindow, devices[0], devices[1])
			if hal.CodeOf(err) != hal.Usage ||
				!strings.Contains(err.Error(), "devices 0 and 1 are both ") ||
				!strings.Contains(err.Error(), "name two different devices") ||
				len(err.Error()) > 160 || mapped != 0 {
				t.Errorf("%s: Load: %v, %d windows mapped; want an error of at most 160 bytes "+
					"that names devices 0 and 1, and no window mapped", name, err, mapped)
			}
		})
	}
	for name, devices := range map[string][2]hal.Device{
		"two mocks": {mock.New(&boards.Wormhole), mock.New(&boards.Wormhole)},
		"two functions of a card": {newHandle("pci:0000:01:00.0", "0000:01:00.0"),
			newHandle("pci:0000:01:00.1", "0000:01:00.1")},
		"unknown addresses": {newHandle("a", ""), newHandle("b", "")},
	} {
		t.Run(name, func(t *testing.T) {
			replay, err := runtime.Load(v, runtime.AnyTLBWindow, devices[0], devices[1])
			if err != nil {
				t.Errorf("%s: Load: %v", name, err)
				return
			}
			replay.Close()
		})
	}
}

// TestRulesOfAnUnknownDeviceApplyToItsMock replays an image for an unknown device. The mock of the
// device has the rules of the image: it accepts all accesses that the rules allow, and rejects
// others.
func TestRulesOfAnUnknownDeviceApplyToItsMock(t *testing.T) {
	const source = "lightmetal 1\ntarget stranger ffff:0001 bar0 4KiB\n" +
		"rule registers bar0 size 64\nrule bells bar0 offset 1KiB size 64 widths 8\n" +
		"window r bar0 offset 0 size 4KiB\nmain:\n  write.4 r+0x4 0x5\n  write.8 r+0x408 0x6\n" +
		"  expect.4 r+0x4 == 0x5\n  expect.8 r+0x408 == 0x6\n"
	v := view(t, source)
	device := mock.New(v.Board(0))
	replay, err := runtime.Load(v, runtime.AnyTLBWindow, device)
	if err != nil {
		t.Fatal(err)
	}
	defer replay.Close()
	if result := replay.Run(0); result.Code != hal.OK || device.Operations() != 4 ||
		device.Refusal() != "" {
		t.Errorf("run ends with %+v after %d operations, and the mock rejected %q; want %v after 4",
			result, device.Operations(), device.Refusal(), hal.OK)
	}
	// The mock has only the registers that the rules name.
	port, err := device.Map(fbs.Window{Kind: gen.WindowKindBar, Slot: fbs.AnySlot, Size: 4096})
	if err != nil {
		t.Fatal(err)
	}
	for _, access := range []struct {
		offset uint64
		width  uint8
	}{{0x4, 8}, {0x40, 4}, {0x408, 4}} {
		t.Run(fmt.Sprintf("%d bytes at %#x", access.width, access.offset), func(t *testing.T) {
			if _, code := port.Load(uint32(access.offset), access.width); code != hal.Refused {
				t.Errorf("load of %d bytes at %#x: %v, want %v", access.width, access.offset, code,
					hal.Refused)
			}
		})
	}
}

func TestAccessThatTheBoardForbidsIsRejected(t *testing.T) {
	const edu = "lightmetal 1\ntarget edu 1234:11e8 bar0 0x100000\n" +
		"window r bar0 offset 0x0 size 0x100000\nmain:\n"
	for _, test := range []struct{ body, want string }{
		{"  write.8 r+0x8 0x1\n",
			"command 0: write: width 8 is not accepted by edu's BAR 0 at offset 0x8"},
		{"  write.4 r+0x0 0x1\n  write.2 r+0x8 0x1\n", "command 1: write: width 2 is not accepted"},
		{"  copy.8 r+0x100 <- hex 0011223344556677 bulk\n",
			"bulk access is only for memory that accepts every width, not for "},
		{"  fill.4 r+0x7c <- 0x1 size 8\n",
			"0x8 bytes at offset 0x7c extend beyond their access rule"},
	} {
		t.Run(test.body, func(t *testing.T) {
			if err := verifyListing(t, edu+test.body); err == nil ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("%q: Verify: %v, want %q", test.body, err, test.want)
			}
		})
	}
}

// verifyListing assembles a listing and returns the error of the verifier.
func verifyListing(t *testing.T, source string) error {
	t.Helper()
	image, err := listing.Parse("test.lms", []byte(source), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lmb.Encode(image) // which verifies
	return err
}

// TestStoreThatOpensHostMemoryIsRejected: a value that an image stores in the iATU would stay there
// after the run. Loads are allowed.
func TestStoreThatOpensHostMemoryIsRejected(t *testing.T) {
	for _, test := range []struct {
		target      string
		board       *boards.Board
		first, last uint64 // offsets of the iATU's registers in BAR 2
	}{
		{"wormhole 1e52:401e", &boards.Wormhole, 0x1200, 0x31fc},
		{"blackhole 1e52:b140", &boards.Blackhole, 0x1000, 0x2ffc},
	} {
		t.Run(test.target, func(t *testing.T) {
			source := "lightmetal 1\ntarget " + test.target +
				" bar2 1MiB\nwindow r bar2 offset 0x0 size 1MiB\ntensor d output uint8[4]\nmain:\n"
			middle := (test.first + test.last) / 2 &^ 3
			for _, at := range []uint64{test.first, middle, test.last} {
				load := fmt.Sprintf("  copy.4 d[0:4] <- r+%#x\n", at)
				for _, store := range []string{"write.4 r+%#x 0x1",
					"write.4 r+%#x 0x0 mask 0x80000000", "copy.4 r+%#x <- hex 01020304 fifo",
					"fill.4 r+%#x <- 0x0 size 8 fifo", "write.4 r+%#x bus(r)"} {
					source := source + load + fmt.Sprintf("  "+store+"\n", at)
					if err := verifyListing(t, source); err == nil ||
						!strings.Contains(err.Error(), ": images must not store to ") {
						t.Errorf("%s: Verify: %v, want the store rejected", source, err)
					}
				}
				r, err := runtime.Load(view(t, source+load), runtime.AnyTLBWindow,
					mock.New(test.board))
				if err != nil {
					t.Fatal(err)
				}
				r.Close()
			}
		})
	}
}

// TestWriteCombiningWindowOnRegistersIsRejected: a write-combining mapping merges stores, and the
// processor may load from it speculatively.
func TestWriteCombiningWindowOnRegistersIsRejected(t *testing.T) {
	const wormhole = "wormhole 1e52:401e bar0 512MiB"
	for _, test := range []struct {
		target, window string
		board          *boards.Board
		registers      bool // whether the range of the window has registers
	}{
		{wormhole, "bar0 offset 0x1fc00000 size 4KiB", &boards.Wormhole, true},
		{wormhole, "bar0 offset 0x0 size 0x1f000000", &boards.Wormhole, false},
		{"edu 1234:11e8 bar0 1MiB", "bar0 offset 0x0 size 1MiB", &boards.Edu, true},
		{"ivshmem 1af4:1110 bar2 1MiB", "bar2 offset 0x0 size 1MiB", &boards.Ivshmem, false},
	} {
		t.Run(test.window, func(t *testing.T) {
			for _, flag := range []string{"", " wc"} {
				source := "lightmetal 1\ntarget " + test.target + "\nwindow w " + test.window +
					flag + "\nmain:\n  read.4 w+0x8\n"
				err := verifyListing(t, source)
				const want = "is write-combining, but "
				if rejected := flag != "" && test.registers; rejected != (err != nil) ||
					rejected != (err != nil && strings.Contains(err.Error(), want)) {
					t.Errorf("window %s%s: Verify: %v; want an error with %q: %v", test.window,
						flag, err, want, rejected)
					continue
				}
				if err != nil {
					continue
				}
				r, err := runtime.Load(view(t, source), runtime.AnyTLBWindow, mock.New(test.board))
				if err != nil {
					t.Fatal(err)
				}
				r.Close()
			}
		})
	}
}

func TestArenaLargerThanAvailableMemoryIsRejected(t *testing.T) {
	v := view(t, ivshmemHead+"tensor a input uint8[1048576x1048576]\nmain:\n  write.1 m+0x0 0x1\n")
	_, err := runtime.Load(v, runtime.AnyTLBWindow, mock.New(&boards.Ivshmem))
	if hal.CodeOf(err) != hal.BadImage || !strings.Contains(err.Error(), "are available") {
		t.Errorf("Load: %v, want %q", err, "are available")
	}
}

func TestRelocationAddsTheBusAddress(t *testing.T) {
	r, device := loadOnMock(t, "main:\n  write.8 m+0x0 bus(m)+0x40\n")
	run(t, r, hal.OK)
	got, bus := binary.LittleEndian.Uint64(readMemory(t, device, 0, 8)), r.Aperture(0).BusAddress
	if got != bus+0x40 || bus == 0 {
		t.Errorf("stored 0x%x for bus address 0x%x plus 0x40", got, bus)
	}
	_, err := runtime.Load(view(t, ivshmemHead+"main:\n  write.4 m+0x0 bus(m)+0x0\n"),
		runtime.AnyTLBWindow, device)
	if hal.CodeOf(err) != hal.WrongDevice {
		t.Errorf("Load with a bus address beyond 4 bytes: %v, want code %d", err, hal.WrongDevice)
	}
}
