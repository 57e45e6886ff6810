//go:build nolightmetal

package metal

import (
	"os"
	"testing"

	"lightmetal/boards"
	"lightmetal/hal/mock"
	"lightmetal/tools/devices/ttsim"
)

func TestMain(m *testing.M) {
	ttsim.ChildMain()
	os.Exit(m.Run())
}

// TestCallsTakeEffectButAreNotRecordedWhenRecordingIsOff checks that a buffer is written and
// read in a program built with the tag nolightmetal, and that the capture is empty.
func TestCallsTakeEffectButAreNotRecordedWhenRecordingIsOff(t *testing.T) {
	d, err := CreateDevice(&boards.Wormhole, mock.New(&boards.Wormhole))
	if err != nil {
		t.Fatal(err)
	}
	b, _ := CreateBuffer(d, BufferConfig{Size: 64, PageSize: 64, Type: DRAM})
	data, q := make([]byte, 64), d.CommandQueue()
	for _, err := range []error{
		LightMetalBeginCapture(d),
		EnqueueWriteBuffer(q, b, append(make([]byte, 63), 7), true),
		EnqueueReadBuffer(q, b, data, true),
		LightMetalCompareToCapture(q, b, Exact()),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if binary, err := LightMetalEndCapture(d); err != nil || !binary.IsEmpty() || data[63] != 7 {
		t.Errorf("LightMetalEndCapture: binary %v, error %v; want an empty binary, and 7 as the "+
			"last byte that was read, not %d", binary, err, data[63])
	}
}
