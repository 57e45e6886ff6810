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

// TestMain lets this program be the simulator's child, and the other process of
// TestTraceReplaysInAnotherProcess.
func TestMain(m *testing.M) {
	ttsim.ChildMain()
	if path := os.Getenv("METAL_TEST_TRACE"); path != "" {
		replayTraceFile(path)
		return
	}
	os.Exit(m.Run())
}

// machines gives what a chip can be tried on: the mock, and the vendor's
// simulator where the environment names it.
func machines(t *testing.T, b *boards.Board) map[string]func() hal.Device {
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

// replay runs the sequence main of an image on a device, with other data for
// some inputs, and gives the outputs.
func replay(t *testing.T, file []byte, on hal.Device,
	inputs map[string][]byte) (outputs map[string][]byte, result runtime.Result) {
	t.Helper()
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := runtime.Load(view, runtime.AnyTLBWindow, on)
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

func numbers(data []byte) (list []int32) {
	for ; len(data) >= 4; data = data[4:] {
		list = append(list, int32(binary.LittleEndian.Uint32(data)))
	}
	return list
}

func encoded(list []int32) (data []byte) {
	for _, v := range list {
		data = binary.LittleEndian.AppendUint32(data, uint32(v))
	}
	return data
}

// counted is 1 to n, as int32.
func counted(n int) []byte {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(i + 1)
	}
	return encoded(list)
}

// must is for calls that have to work.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused wants an error of the caller's with a text in it.
func refused(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, want an error with %q", err, text)
	}
}

// rig is a device under capture.
type rig struct {
	*metal.Device
	q *metal.CommandQueue
	t *testing.T
}

func newRig(t *testing.T, b *boards.Board, on hal.Device) *rig {
	t.Helper()
	d, err := metal.CreateDevice(b, on)
	ok(t, err)
	ok(t, metal.LightMetalBeginCapture(d))
	return &rig{d, d.CommandQueue(), t}
}

// mocked is a rig on a Wormhole mock.
func mocked(t *testing.T) *rig { return newRig(t, &boards.Wormhole, mock.New(&boards.Wormhole)) }

func (r *rig) end() *metal.LightMetalBinary {
	r.t.Helper()
	b, err := metal.LightMetalEndCapture(r.Device)
	ok(r.t, err)
	return b
}

// l1 is a buffer of one page on core (0,0).
func (r *rig) l1(size uint64) *metal.Buffer {
	r.t.Helper()
	b, err := metal.CreateBuffer(r.Device, metal.BufferConfig{Size: size, PageSize: size,
		Type: metal.L1, Layout: metal.HeightSharded,
		Shard: &metal.ShardSpec{Grid: metal.CoreCoord{}, Tensor: [2]int{1, 1},
			Shard: [2]int{1, 1}}})
	ok(r.t, err)
	return b
}

var brisc = metal.DataMovementConfig{Processor: metal.RISCV0}

// local is a program that makes to = factor from + offset, with 16 words.
func (r *rig) local(file string, from, to *metal.Buffer, factor, offset uint32) *metal.Program {
	r.t.Helper()
	p := must(metal.CreateProgram(r.Device))
	k := must(metal.CreateKernel(p, kernels.ELF(file), metal.CoreCoord{}, brisc))
	ok(r.t, metal.SetRuntimeArgsBuffers(p, k, metal.CoreCoord{}, []metal.RuntimeArg{
		metal.Word(16), metal.AddressOf(from), metal.AddressOf(to), metal.Word(factor),
		metal.Word(offset)}))
	return p
}

func names(calls []metal.Call) (list []string) {
	for _, c := range calls {
		list = append(list, c.Name)
	}
	return list
}

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
		metal.EnqueueWriteBuffer(d.CommandQueue(), a, counted(16), true),
		metal.ReplayTrace(d.CommandQueue(), must(metal.LoadTrace(d.CommandQueue(), data)), true),
		metal.EnqueueReadBuffer(d.CommandQueue(), b, out, true),
	} {
		if err != nil {
			panic(err)
		}
	}
	fmt.Print(numbers(out))
}
