//go:build !nolightmetal

package metal_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	kernels "lightmetal/testdata/kernels/metal"
	"lightmetal/tools/devices/ttsim"
	"lightmetal/tools/metal"
)

var allChips = []*boards.Board{&boards.Wormhole, &boards.Blackhole}

// TestMain runs the tests, unless this program was started as the simulator's child or as the
// second process of TestTraceReplaysInAnotherProcess.
func TestMain(m *testing.M) {
	ttsim.ChildMain()
	if path := os.Getenv("METAL_TEST_TRACE"); path != "" {
		replayTraceFile(path)
		return
	}
	os.Exit(m.Run())
}

// deviceOpeners returns functions that open a device with the chip of b, by name: the mock and, if
// an environment variable names its library, the vendor's simulator.
func deviceOpeners(t *testing.T, b *boards.Board) map[string]func() hal.Device {
	list := map[string]func() hal.Device{"mock": func() hal.Device { return mock.New(b) }}
	variable := map[*boards.Board]string{&boards.Wormhole: "LM_TTSIM_WH",
		&boards.Blackhole: "LM_TTSIM_BH"}[b]
	if library := os.Getenv(variable); library != "" {
		list["ttsim"] = func() hal.Device {
			d, err := ttsim.Open("ttsim:" + library)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	return list
}

// replay runs the sequence main of an image on a device and returns the outputs by name. inputs
// has the data of the inputs that do not keep their default.
func replay(t *testing.T, file []byte, device hal.Device,
	inputs map[string][]byte) (outputs map[string][]byte, result runtime.Result) {
	t.Helper()
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := runtime.Load(view, runtime.AnyTLBWindow, device)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := range view.Tensors {
		if data := inputs[view.Name(view.Tensors[i].Name)]; data != nil {
			copy(r.Input(i), data)
		}
	}
	result = r.Run(view.SequenceByName("main"))
	outputs = map[string][]byte{}
	for i := range view.Tensors {
		outputs[view.Name(view.Tensors[i].Name)] = append([]byte{}, r.Output(i)...)
	}
	return outputs, result
}

// decodeInt32s returns the little-endian 32-bit numbers in data.
func decodeInt32s(data []byte) (list []int32) {
	for ; len(data) >= 4; data = data[4:] {
		list = append(list, int32(binary.LittleEndian.Uint32(data)))
	}
	return list
}

// encodeInt32s returns the numbers of list in little-endian order.
func encodeInt32s(list []int32) (data []byte) {
	for _, v := range list {
		data = binary.LittleEndian.AppendUint32(data, uint32(v))
	}
	return data
}

// ascending returns the numbers 1 to n as int32 in little-endian order.
func ascending(n int) []byte {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(i + 1)
	}
	return encodeInt32s(list)
}

// must returns v, or panics if err is not nil.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// ok ends the test if err is not nil.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError fails the test unless err is an error whose message contains text.
func wantError(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want an error that contains %q", err, text)
	}
}

// rig is a device with a capture in progress, and its command queue.
type rig struct {
	*metal.Device
	q *metal.CommandQueue
	t *testing.T
}

// newRig creates a device of board b and begins a capture. If device is nil, there is no hardware.
func newRig(t *testing.T, b *boards.Board, device hal.Device) *rig {
	t.Helper()
	d, err := metal.CreateDevice(b, device)
	ok(t, err)
	ok(t, metal.LightMetalBeginCapture(d))
	return &rig{d, d.CommandQueue(), t}
}

func newMockRig(t *testing.T) *rig {
	return newRig(t, &boards.Wormhole, mock.New(&boards.Wormhole))
}

// endCapture ends the capture and returns its binary.
func (r *rig) endCapture() *metal.LightMetalBinary {
	r.t.Helper()
	b, err := metal.LightMetalEndCapture(r.Device)
	ok(r.t, err)
	return b
}

// createL1Buffer creates a buffer of one page in the L1 memory of core (0,0).
func (r *rig) createL1Buffer(size uint64) *metal.Buffer {
	r.t.Helper()
	b, err := metal.CreateBuffer(r.Device, metal.BufferConfig{Size: size, PageSize: size,
		Type: metal.L1, Layout: metal.HeightSharded,
		Shard: &metal.ShardSpec{Grid: metal.CoreCoord{}, Tensor: [2]int{1, 1},
			Shard: [2]int{1, 1}}})
	ok(r.t, err)
	return b
}

var brisc = metal.DataMovementConfig{Processor: metal.RISCV0}

// scaleProgram creates a program whose kernel, from the given file, computes
// to[i] = factor*from[i] + offset for 16 words.
func (r *rig) scaleProgram(file string, from, to *metal.Buffer,
	factor, offset uint32) *metal.Program {
	r.t.Helper()
	p := must(metal.CreateProgram(r.Device))
	k := must(metal.CreateKernel(p, kernels.ELF(file), metal.CoreCoord{}, brisc))
	ok(r.t, metal.SetRuntimeArgsBuffers(p, k, metal.CoreCoord{}, []metal.RuntimeArg{
		metal.Word(16), metal.AddressOf(from), metal.AddressOf(to), metal.Word(factor),
		metal.Word(offset)}))
	return p
}

func callNames(calls []metal.Call) (list []string) {
	for _, c := range calls {
		list = append(list, c.Name)
	}
	return list
}

// replayTraceFile loads a trace from a file, replays it on a new mock with a buffer of the numbers
// 1 to 16 as input, and prints the numbers in the output buffer.
func replayTraceFile(path string) {
	data := must(os.ReadFile(path))
	d := must(metal.CreateDevice(&boards.Wormhole, mock.New(&boards.Wormhole)))
	config := metal.BufferConfig{Size: 64, PageSize: 64, Type: metal.L1,
		Layout: metal.HeightSharded,
		Shard: &metal.ShardSpec{Grid: metal.CoreCoord{}, Tensor: [2]int{1, 1},
			Shard: [2]int{1, 1}}}
	a, b := must(metal.CreateBuffer(d, config)), must(metal.CreateBuffer(d, config))
	out := make([]byte, 64)
	for _, err := range []error{
		metal.EnqueueWriteBuffer(d.CommandQueue(), a, ascending(16), true),
		metal.ReplayTrace(d.CommandQueue(), must(metal.LoadTrace(d.CommandQueue(), data)), true),
		metal.EnqueueReadBuffer(d.CommandQueue(), b, out, true),
	} {
		if err != nil {
			panic(err)
		}
	}
	fmt.Print(decodeInt32s(out))
}
