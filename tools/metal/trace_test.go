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

// traced captures b = 3 a + 1, c = 5 b + 2 as a trace, and gives its id.
func traced(t *testing.T, r *rig) (id metal.TraceID, a, b, c *metal.Buffer) {
	t.Helper()
	a, b, c = r.l1(64), r.l1(64), r.l1(64)
	one, two := r.local("local.brisc", a, b, 3, 1), r.local("local-at-4000.brisc", b, c, 5, 2)
	id, err := metal.BeginTraceCapture(r.q)
	ok(t, err)
	ok(t, metal.EnqueueProgram(r.q, one, false))
	ok(t, metal.EnqueueProgram(r.q, two, false))
	ok(t, metal.EndTraceCapture(r.q, id))
	return id, a, b, c
}

func (r *rig) read(b *metal.Buffer) []int32 {
	r.t.Helper()
	data := make([]byte, b.Size())
	ok(r.t, metal.EnqueueReadBuffer(r.q, b, data, true))
	return numbers(data)
}

func sequence(image *lmb.Image, name string) []lmb.Command {
	at := slices.IndexFunc(image.Sequences, func(s lmb.Sequence) bool { return s.Name == name })
	if at < 0 {
		return nil
	}
	return image.Sequences[at].Commands
}

// stored counts the bytes of constant data that a sequence stores.
func stored(commands []lmb.Command) (n int) {
	for _, c := range commands {
		n += len(c.Data)
	}
	return n
}

func TestTraceCaptureLaunchesNothing(t *testing.T) {
	r := mocked(t)
	_, a, b, _ := traced(t, r)
	ok(t, metal.EnqueueWriteBuffer(r.q, a, counted(16), false))
	if got := r.read(b); !slices.Equal(got, make([]int32, 16)) {
		t.Errorf("b is %v before any replay", got)
	}
	for _, call := range r.end().Calls {
		if call.Name == "EnqueueProgram" {
			t.Error("EnqueueProgram is recorded")
		}
	}
}

func TestReplayOfATraceTakesEffectEachTime(t *testing.T) {
	r := mocked(t)
	id, a, _, c := traced(t, r)
	for _, data := range [][]byte{counted(16), bytes.Repeat([]byte{4, 0, 0, 0}, 16)} {
		ok(t, metal.EnqueueWriteBuffer(r.q, a, data, false))
		ok(t, metal.ReplayTrace(r.q, id, false))
		if got, want := r.read(c)[0], 15*numbers(data)[0]+7; got != want {
			t.Errorf("c[0] = %d, want %d", got, want)
		}
	}
	outputs, result := replay(t, r.end().Bytes(), mock.New(&boards.Wormhole), nil)
	if result.Code != hal.OK || numbers(outputs[fmt.Sprintf("buffer-%d.2", c.ID())])[0] != 67 {
		t.Errorf("%+v %v", result, outputs)
	}
}

func TestReplayStoresOnlyWhatMustChange(t *testing.T) {
	r := mocked(t)
	id, _, _, _ := traced(t, r)
	ok(t, metal.ReplayTrace(r.q, id, false))
	ok(t, metal.ReplayTrace(r.q, id, false))
	image := r.end().Image
	load, run := sequence(image, fmt.Sprintf("trace:%d:load", id)),
		sequence(image, fmt.Sprintf("trace:%d", id))
	// Two kernels, and constants, are loaded once. A launch has its own state,
	// the arguments, which are in one place, and the word the core starts at.
	if got, most := stored(run), 2*(32+20)+4; got > most || got == 0 {
		t.Errorf("a replay stores %d bytes, more than %d", got, most)
	}
	if stored(load) < 3*stored(run) {
		t.Errorf("the load stores %d bytes, a replay %d", stored(load), stored(run))
	}
	for _, c := range sequence(image, "main") {
		if c.Opcode == gen.OpcodeCopyIn {
			t.Errorf("main stores %d bytes", len(c.Data))
		}
	}
	if got := calls(image); !slices.Equal(got, []uint16{1, 2, 2}) {
		t.Errorf("main calls %v, want one load and two replays", got)
	}
}

func calls(image *lmb.Image) (list []uint16) {
	for _, c := range sequence(image, "main") {
		if c.Opcode == gen.OpcodeCall {
			list = append(list, c.Index)
		}
	}
	return list
}

func TestTraceIsLoadedAgainWhenItsCoresWereUsed(t *testing.T) {
	r := mocked(t)
	id, a, b, c := traced(t, r)
	ok(t, metal.EnqueueWriteBuffer(r.q, a, counted(16), false))
	ok(t, metal.EnqueueProgram(r.q, r.local("local.brisc", a, b, 9, 9), false))
	ok(t, metal.ReplayTrace(r.q, id, false))
	if got := r.read(c)[1]; got != 37 {
		t.Errorf("c[1] = %d, want 37", got)
	}
	binary := r.end()
	if got := calls(binary.Image); !slices.Equal(got, []uint16{1, 1, 2}) {
		t.Errorf("main calls %v, want load, load and replay", got)
	}
	if _, result := replay(t, binary.Bytes(), mock.New(&boards.Wormhole),
		nil); result.Code != hal.OK {
		t.Errorf("%+v", result)
	}
}

func TestTraceReplaysInAnotherProcess(t *testing.T) {
	r := mocked(t)
	a, b := r.l1(64), r.l1(64)
	id, err := metal.BeginTraceCapture(r.q)
	ok(t, err)
	ok(t, metal.EnqueueProgram(r.q, r.local("local.brisc", a, b, 2, 5), false))
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
		t.Errorf("the other process prints %s, want %s", out, want)
	}
}

func TestLoadTraceRefusesWhatIsNoTraceForIt(t *testing.T) {
	r := mocked(t)
	id, a, _, _ := traced(t, r)
	data, err := metal.CollectTrace(r.Device, id)
	ok(t, err)
	load := func(d *rig, data []byte) error {
		_, err := metal.LoadTrace(d.q, data)
		return err
	}
	refused(t, load(r, nil), "bad image: trace:")
	refused(t, load(r, data[:len(data)/2]), "bad image: trace:")
	refused(t, load(newRig(t, &boards.Blackhole, nil), data),
		"the trace is for the board wormhole, but the device is the board blackhole")
	changed := func(c lmb.Command) []byte {
		image, err := lmb.Decode(data)
		ok(t, err)
		image.Sequences[1].Commands = append(image.Sequences[1].Commands, c)
		return must(lmb.Encode(image))
	}
	dram := fbs.TileRoute{Ordering: boards.OrderingDefault}.Pack()
	refused(t, load(r, changed(lmb.Command{Command: fbs.Command{Opcode: gen.OpcodeCall}})),
		"the trace calls a sequence")
	refused(t, load(r, changed(lmb.Command{Command: fbs.Command{Opcode: gen.OpcodePoint,
		Mask: dram}})), "the trace uses core (0,0), which this device does not have")
	ok(t, metal.EnqueueWriteBuffer(r.q, a, counted(16), false))
	refused(t, load(r, r.end().Bytes()), "the image is not a trace")
}

func TestReplayOfALoadedTraceIsCaptured(t *testing.T) {
	from := mocked(t)
	id, _, _, _ := traced(t, from)
	data, err := metal.CollectTrace(from.Device, id)
	ok(t, err)
	r := mocked(t)
	a, _, c := r.l1(64), r.l1(64), r.l1(64)
	loaded, err := metal.LoadTrace(r.q, data)
	ok(t, err)
	ok(t, metal.EnqueueWriteBuffer(r.q, a, counted(16), false))
	ok(t, metal.EnqueueTrace(r.q, loaded, true))
	if got := r.read(c)[15]; got != 247 {
		t.Errorf("c[15] = %d, want 247", got)
	}
	outputs, result := replay(t, r.end().Bytes(), mock.New(&boards.Wormhole), nil)
	if got := numbers(outputs[fmt.Sprintf("buffer-%d", c.ID())]); result.Code != hal.OK ||
		got[15] != 247 {
		t.Errorf("%+v %v", result, got)
	}
}

func TestTraceMisuseIsRefused(t *testing.T) {
	r := mocked(t)
	a, b := r.l1(64), r.l1(64)
	p := r.local("local.brisc", a, b, 1, 0)
	id, err := metal.BeginTraceCapture(r.q)
	ok(t, err)
	_, err = metal.BeginTraceCapture(r.q)
	refused(t, err, "trace 5 is not complete")
	refused(t, metal.EndTraceCapture(r.q, id), "trace 5 has no program")
	refused(t, metal.EnqueueWriteBuffer(r.q, a, counted(16), false), "a trace may contain only "+
		"EnqueueProgram")
	refused(t, metal.EnqueueReadBuffer(r.q, a, nil, false), "a trace may contain only "+
		"EnqueueProgram")
	refused(t, metal.Finish(r.q), "a trace may contain only EnqueueProgram")
	refused(t, metal.ReplayTrace(r.q, id, true), "trace 5 is not complete")
	_, err = metal.CollectTrace(r.Device, id)
	refused(t, err, "trace 5 is not complete")
	_, err = metal.LightMetalEndCapture(r.Device)
	refused(t, err, "trace 5 is not complete")
	refused(t, metal.EndTraceCapture(r.q, 99), "trace 99 was not begun")
	ok(t, metal.EnqueueProgram(r.q, p, false))
	ok(t, metal.EndTraceCapture(r.q, id))
	refused(t, metal.ReplayTrace(r.q, 99, true), "trace 99 is unknown")
	ok(t, metal.ReleaseTrace(r.Device, id))
	refused(t, metal.ReleaseTrace(r.Device, id), "trace 5 was released")
	refused(t, metal.EnqueueTrace(r.q, id, true), "trace 5 was released")
}
