package runtime_test

import (
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
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
