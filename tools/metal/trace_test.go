//go:build !nolightmetal

package metal_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"lightmetal/boards"
	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/metal"
)

// captureTrace captures a trace of the programs b = 3 a + 1 and c = 5 b + 2. It returns the id of
// the trace and the buffers.
func captureTrace(t *testing.T, r *rig) (id metal.TraceID, a, b, c *metal.Buffer) {
	t.Helper()
	a, b, c = r.createL1Buffer(64), r.createL1Buffer(64), r.createL1Buffer(64)
	one := r.scaleProgram("local.brisc", a, b, 3, 1)
	two := r.scaleProgram("local-at-4000.brisc", b, c, 5, 2)
	id, err := metal.BeginTraceCapture(r.q)
	ok(t, err)
	ok(t, metal.EnqueueProgram(r.q, one, false))
	ok(t, metal.EnqueueProgram(r.q, two, false))
	ok(t, metal.EndTraceCapture(r.q, id))
	return id, a, b, c
}

// readBuffer returns the numbers in a buffer of the device.
func (r *rig) readBuffer(b *metal.Buffer) []int32 {
	r.t.Helper()
	data := make([]byte, b.Size())
	ok(r.t, metal.EnqueueReadBuffer(r.q, b, data, true))
	return decodeInt32s(data)
}

// commandsOf returns the commands of the sequence with a name, or nil if there is no such sequence.
func commandsOf(image *lmb.Image, name string) []lmb.Command {
	at := slices.IndexFunc(image.Sequences, func(s lmb.Sequence) bool { return s.Name == name })
	if at < 0 {
		return nil
	}
	return image.Sequences[at].Commands
}

// storedBytes returns how many bytes of constant data the commands store.
func storedBytes(commands []lmb.Command) (n int) {
	for _, c := range commands {
		n += len(c.Data)
	}
	return n
}

func TestTraceCaptureLaunchesNothing(t *testing.T) {
	r := newMockRig(t)
	_, a, b, _ := captureTrace(t, r)
	ok(t, metal.EnqueueWriteBuffer(r.q, a, ascending(16), false))
	if got := r.readBuffer(b); !slices.Equal(got, make([]int32, 16)) {
		t.Errorf("b is %v before any replay, want zeros", got)
	}
	for _, call := range r.endCapture().Calls {
		if call.Name == "EnqueueProgram" {
			t.Error("EnqueueProgram of a trace is recorded as a call of the capture")
		}
	}
}

func TestReplayOfATraceTakesEffectEachTime(t *testing.T) {
	r := newMockRig(t)
	id, a, _, c := captureTrace(t, r)
	for _, data := range [][]byte{ascending(16), bytes.Repeat([]byte{4, 0, 0, 0}, 16)} {
		ok(t, metal.EnqueueWriteBuffer(r.q, a, data, false))
		ok(t, metal.ReplayTrace(r.q, id, false))
		if got, want := r.readBuffer(c)[0], 15*decodeInt32s(data)[0]+7; got != want {
			t.Errorf("c[0] = %d, want %d", got, want)
		}
	}
	outputs, result := replay(t, r.endCapture().Bytes(), mock.New(&boards.Wormhole), nil)
	if result.Code != hal.OK || decodeInt32s(outputs[fmt.Sprintf("buffer-%d.2", c.ID())])[0] != 67 {
		t.Errorf("result %+v, outputs %v; want 67 as the first word of the second output", result,
			outputs)
	}
}

func TestReplayStoresOnlyWhatMustChange(t *testing.T) {
	r := newMockRig(t)
	id, _, _, _ := captureTrace(t, r)
	ok(t, metal.ReplayTrace(r.q, id, false))
	ok(t, metal.ReplayTrace(r.q, id, false))
	image := r.endCapture().Image
	load, run := commandsOf(image, fmt.Sprintf("trace:%d:load", id)),
		commandsOf(image, fmt.Sprintf("trace:%d", id))
	// The two kernels and constants are loaded once. A launch stores its own state, the arguments
	// (both programs have them at the same address) and the first word that the core executes.
	if got, most := storedBytes(run), 2*(32+20)+4; got > most || got == 0 {
		t.Errorf("a replay stores %d bytes, want 1 to %d", got, most)
	}
	if storedBytes(load) < 3*storedBytes(run) {
		t.Errorf("the load stores %d bytes and a replay %d, want at least 3 times as many in "+
			"the load", storedBytes(load), storedBytes(run))
	}
	for _, c := range commandsOf(image, "main") {
		if c.Opcode == gen.OpcodeCopyIn {
			t.Errorf("main stores %d bytes, want 0", len(c.Data))
		}
	}
	if got := calledSequences(image); !slices.Equal(got, []uint16{1, 2, 2}) {
		t.Errorf("main calls %v, want one load and two replays", got)
	}
}

// calledSequences returns the indices of the sequences that main calls, in order.
func calledSequences(image *lmb.Image) (list []uint16) {
	for _, c := range commandsOf(image, "main") {
		if c.Opcode == gen.OpcodeCall {
			list = append(list, c.Index)
		}
	}
	return list
}

func TestTraceIsLoadedAgainWhenItsCoresWereUsed(t *testing.T) {
	r := newMockRig(t)
	id, a, b, c := captureTrace(t, r)
	ok(t, metal.EnqueueWriteBuffer(r.q, a, ascending(16), false))
	ok(t, metal.EnqueueProgram(r.q, r.scaleProgram("local.brisc", a, b, 9, 9), false))
	ok(t, metal.ReplayTrace(r.q, id, false))
	if got := r.readBuffer(c)[1]; got != 37 {
		t.Errorf("c[1] = %d, want 37", got)
	}
	binary := r.endCapture()
	if got := calledSequences(binary.Image); !slices.Equal(got, []uint16{1, 1, 2}) {
		t.Errorf("main calls %v, want load, load and replay", got)
	}
	if _, result := replay(t, binary.Bytes(), mock.New(&boards.Wormhole),
		nil); result.Code != hal.OK {
		t.Errorf("the replay's result is %+v", result)
	}
}

func TestTraceReplaysInAnotherProcess(t *testing.T) {
	r := newMockRig(t)
	a, b := r.createL1Buffer(64), r.createL1Buffer(64)
	id, err := metal.BeginTraceCapture(r.q)
	ok(t, err)
	ok(t, metal.EnqueueProgram(r.q, r.scaleProgram("local.brisc", a, b, 2, 5), false))
	ok(t, metal.EndTraceCapture(r.q, id))
	data, err := metal.CollectTrace(r.Device, id)
	ok(t, err)
	path := filepath.Join(t.TempDir(), "trace")
	ok(t, os.WriteFile(path, data, 0o644))
	other := exec.Command(os.Args[0])
	other.Dir = t.TempDir()
	other.Env = append(os.Environ(), "METAL_TEST_TRACE="+path)
	out, err := other.CombinedOutput()
	ok(t, err)
	if want := "[7 9 11 13 15 17 19 21 23 25 27 29 31 33 35 37]"; string(out) != want {
		t.Errorf("the other process printed %s, want %s", out, want)
	}
}

func TestLoadTraceRejectsInvalidTraces(t *testing.T) {
	r := newMockRig(t)
	id, a, _, _ := captureTrace(t, r)
	data, err := metal.CollectTrace(r.Device, id)
	ok(t, err)
	load := func(d *rig, data []byte) error {
		_, err := metal.LoadTrace(d.q, data)
		return err
	}
	wantError(t, load(r, nil), "bad image: trace:")
	wantError(t, load(r, data[:len(data)/2]), "bad image: trace:")
	wantError(t, load(newRig(t, &boards.Blackhole, nil), data),
		"the trace is for the board wormhole, but the device is the board blackhole")
	withCommand := func(c lmb.Command) []byte {
		image, err := lmb.Decode(data)
		ok(t, err)
		image.Sequences[1].Commands = append(image.Sequences[1].Commands, c)
		return must(lmb.Encode(image))
	}
	dram := fbs.TileRoute{Ordering: boards.OrderingDefault}.Pack()
	wantError(t, load(r, withCommand(lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeCall}})),
		"the trace calls a sequence")
	wantError(t, load(r, withCommand(lmb.Command{Command: fbs.Command{Opcode: gen.OpcodePoint,
		Mask: dram}})), "the trace uses core (0,0), which this device does not have")
	ok(t, metal.EnqueueWriteBuffer(r.q, a, ascending(16), false))
	wantError(t, load(r, r.endCapture().Bytes()), "the image is not a trace")
}

func TestReplayOfALoadedTraceIsCaptured(t *testing.T) {
	from := newMockRig(t)
	id, _, _, _ := captureTrace(t, from)
	data, err := metal.CollectTrace(from.Device, id)
	ok(t, err)
	r := newMockRig(t)
	a, _, c := r.createL1Buffer(64), r.createL1Buffer(64), r.createL1Buffer(64)
	loaded, err := metal.LoadTrace(r.q, data)
	ok(t, err)
	ok(t, metal.EnqueueWriteBuffer(r.q, a, ascending(16), false))
	ok(t, metal.EnqueueTrace(r.q, loaded, true))
	if got := r.readBuffer(c)[15]; got != 247 {
		t.Errorf("c[15] = %d, want 247", got)
	}
	outputs, result := replay(t, r.endCapture().Bytes(), mock.New(&boards.Wormhole), nil)
	if got := decodeInt32s(outputs[fmt.Sprintf("buffer-%d", c.ID())]); result.Code != hal.OK ||
		got[15] != 247 {
		t.Errorf("result %+v, c is %v; want c[15] = 247", result, got)
	}
}

func TestTraceMisuseIsRejected(t *testing.T) {
	r := newMockRig(t)
	a, b := r.createL1Buffer(64), r.createL1Buffer(64)
	p := r.scaleProgram("local.brisc", a, b, 1, 0)
	id, err := metal.BeginTraceCapture(r.q)
	ok(t, err)
	_, err = metal.BeginTraceCapture(r.q)
	wantError(t, err, "trace 5 is not complete")
	wantError(t, metal.EndTraceCapture(r.q, id), "trace 5 has no program")
	wantError(t, metal.EnqueueWriteBuffer(r.q, a, ascending(16), false),
		"a trace may contain only EnqueueProgram")
	wantError(t, metal.EnqueueReadBuffer(r.q, a, nil, false), "a trace may contain only "+
		"EnqueueProgram")
	wantError(t, metal.Finish(r.q), "a trace may contain only EnqueueProgram")
	wantError(t, metal.ReplayTrace(r.q, id, true), "trace 5 is not complete")
	_, err = metal.CollectTrace(r.Device, id)
	wantError(t, err, "trace 5 is not complete")
	_, err = metal.LightMetalEndCapture(r.Device)
	wantError(t, err, "trace 5 is not complete")
	wantError(t, metal.EndTraceCapture(r.q, 99), "trace 99 was not begun")
	ok(t, metal.EnqueueProgram(r.q, p, false))
	ok(t, metal.EndTraceCapture(r.q, id))
	wantError(t, metal.ReplayTrace(r.q, 99, true), "trace 99 is unknown")
	ok(t, metal.ReleaseTrace(r.Device, id))
	wantError(t, metal.ReleaseTrace(r.Device, id), "trace 5 was released")
	wantError(t, metal.EnqueueTrace(r.q, id, true), "trace 5 was released")
}
