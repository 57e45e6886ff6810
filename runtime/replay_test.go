package runtime_test

import (
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/image/lmb/lmbtest"
)

func assembleImage(t testing.TB, source string) []byte { return lmbtest.File(t, source) }

// view verifies the image of a listing.
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
	code := mock.CopyAt(&a, gen.OpcodeCopyOut, offset, 1, gen.AccessExact, data)
	if code != hal.OK {
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
