package importer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/image/lmb"
)

// loadOnMock encodes an image and loads it on a mock of its device.
func loadOnMock(t *testing.T, image *lmb.Image, slot int) (*runtime.Replay, *mock.Device) {
	t.Helper()
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	board := chips.BoardByName(image.Devices[0].Board)
	device := mock.New(board)
	if chips.ForBoard(board).Grid != nil {
		device = mock.NewWith(board, mock.NewTiles(board))
	}
	replay, err := runtime.Load(view, slot, device)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { replay.Close() })
	return replay, device
}

// mustRun runs the first sequence of an image.
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

func TestReplayOfACaptureAcceptsNewInputs(t *testing.T) {
	for i := range 2 {
		image, _ := mustImport(t, captureText(t, captures[i].name), captureOptions(t, i))
		replay, device := loadOnMock(t, image, runtime.AnyTLBWindow)
		a, b := replay.Input(0), replay.Input(1)
		for j := range 256 {
			binary.LittleEndian.PutUint32(a[4*j:], uint32(j*j))
			binary.LittleEndian.PutUint32(b[4*j:], uint32(-1000*j))
		}
		mustRun(t, replay, device)
		for j := range 256 {
			want := uint32(max(j*j-1000*j-100, 0))
			if got := binary.LittleEndian.Uint32(replay.Output(2)[4*j:]); got != want {
				t.Fatalf("%s: d[%d] is %d, want %d", captures[i].name, j, got, want)
			}
		}
	}
}

// TestRecordingsOfSeveralTilesReplay imports recordings with four tiles, weights that are stored by
// multicast, and flags, of which three are already set at the first load.
func TestRecordingsOfSeveralTilesReplay(t *testing.T) {
	for _, c := range []struct {
		file   string
		x0, y0 int
	}{{"wh.mlp4.record", 1, 1}, {"bh.mlp4.record", 1, 2}} {
		o := Options{From: FromRecord,
			Inputs: []TensorSpec{mustTensor(t,
				fmt.Sprintf("w1=%d,%d,0x21000,int8,32x64", c.x0+1, c.y0))}}
		for i := range 4 {
			tile := fmt.Sprintf("%d,%d", c.x0+i%2, c.y0+i/2)
			o.Inputs = append(o.Inputs, mustTensor(t,
				fmt.Sprintf("x%d=%s,0x20000,int8,64", i, tile)))
			o.Outputs = append(o.Outputs, mustTensor(t,
				fmt.Sprintf("y%d=%s,0x25000,int32,10", i, tile)))
		}
		image, report, err := Import(strings.NewReader(captureText(t, c.file)), o)
		if err != nil {
			t.Fatal(err)
		}
		if got := passSummary(report, "fold"); !strings.HasSuffix(got,
			"; 3 single loads of registers that change by themselves became 3 polls") {
			t.Errorf("%s: summary of the pass fold: %s", c.file, got)
		}
		replay, device := loadOnMock(t, image, runtime.AnyTLBWindow)
		mustRun(t, replay, device)
		for i, tensor := range image.Tensors {
			if tensor.Role == gen.RoleOutput && !bytes.Equal(replay.Output(i), tensor.Data) {
				t.Errorf("%s: output %s differs from the recorded data", c.file, tensor.Name)
			}
		}
	}
}
