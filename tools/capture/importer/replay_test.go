package importer

import (
	"bytes"
	"fmt"
	"testing"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/image/lmb"
)

func loadOnMock(t *testing.T, image *lmb.Image, slot int) (*runtime.Replay, *mock.Device) {
	t.Helper()
	board := chips.BoardByName(image.Devices[0].Board)
	device := mock.New(board)
	if chips.ForBoard(board).Grid != nil {
		device = mock.NewWith(board, mock.NewTiles(board))
	}
	return loadOn(t, image, slot, device), device
}

func loadOn(t *testing.T, image *lmb.Image, slot int, device hal.Device) *runtime.Replay {
	t.Helper()
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	replay, err := runtime.Load(view, slot, device)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { replay.Close() })
	return replay
}

func mustRun(t *testing.T, replay *runtime.Replay, device *mock.Device) {
	t.Helper()
	if r := replay.Run(0); r.Code != hal.OK {
		t.Fatalf("run failed with %v at command %d: got 0x%x, want 0x%x mask 0x%x; %s", r.Code,
			r.Command, r.Got, r.Want, r.Mask, device.Refusal())
	}
}

// TestCapturesReplayThroughAnyWindow: the mock runs the recorded program, so it computes the
// outputs. They equal the recorded ones in each run and through each free window.
func TestCapturesReplayThroughAnyWindow(t *testing.T) {
	for i, c := range captures {
		for _, slot := range []int{runtime.AnyTLBWindow, 166, 170, 184, 5, 100} {
			name := fmt.Sprintf("%s in window %d", c.name, slot)
			if slot != runtime.AnyTLBWindow && c.options.From == FromQemu {
				continue
			}
			t.Run(name, func(t *testing.T) {
				image, _ := mustImport(t, captureText(t, c.name), captureOptions(t, i))
				replay, device := loadOnMock(t, image, slot)
				for range 2 {
					mustRun(t, replay, device)
				}
				for j, tensor := range image.Tensors {
					if j >= len(c.inputs) && !bytes.Equal(replay.Output(j), tensor.Data) {
						t.Errorf("output %s differs from the recorded data", tensor.Name)
					}
				}
			})
		}
	}
}

// TestCapturesReplayWithoutOneOptionalPass leaves out each pass except lift and fold: without lift,
// stores that point windows are rejected, and without fold, a replay does not wait for the device.
func TestCapturesReplayWithoutOneOptionalPass(t *testing.T) {
	for i, c := range captures {
		for _, pass := range Passes {
			if pass == "lift" || pass == "fold" {
				continue
			}
			t.Run(c.name+" without "+pass, func(t *testing.T) {
				o := captureOptions(t, i)
				o.Without = []string{pass}
				image, _ := mustImport(t, captureText(t, c.name), o)
				replay, device := loadOnMock(t, image, runtime.AnyTLBWindow)
				mustRun(t, replay, device)
			})
		}
	}
}
