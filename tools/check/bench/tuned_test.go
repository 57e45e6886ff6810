package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/runtime"
	"lightmetal/tools/check/bench/plain"
	"lightmetal/tools/check/effort"
	"lightmetal/tools/check/simulate/images"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/lmb/lmbtest"
)

const testdataDir = "../../../testdata"

// compileC builds the tuned loops in the directory c, and returns the path of the program.
func compileC(t *testing.T) (program string) {
	t.Helper()
	effort.SkipShort(t)
	if _, err := exec.LookPath("gcc"); err != nil {
		if os.Getenv("LM_TEST_REQUIRED") == "1" {
			t.Fatal("gcc is not installed")
		}
		t.Skip("gcc is not installed, so nothing can be compared with C (LM_TEST_REQUIRED=1 " +
			"makes this a failure)")
	}
	dir := t.TempDir()
	compile := exec.Command("tools/check/bench/c/build", dir)
	compile.Dir = "../../.."
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("tools/check/bench/c/build: %v\n%s", err, out)
	}
	return filepath.Join(dir, "bench-tuned")
}

// writeImageFile writes an image to a new file, and returns its path.
func writeImageFile(t *testing.T, image *lmb.Image) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.lmb")
	if err := os.WriteFile(path, lmbtest.Encode(t, image), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// replayResult is the result of a replay, and the memory after it.
type replayResult struct {
	status, command int64
	ignored         int64
	outputs         uint32
	memory          []byte
}

// loadImage loads an image on the devices that a function returns for it. The caller must call
// done.
func loadImage(t *testing.T, path string,
	devices func(view *fbs.View) []hal.Device) (replay *runtime.Replay, done func()) {
	t.Helper()
	file, err := runtime.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	view, err := file.Verify()
	if err != nil {
		t.Fatal(err)
	}
	replay, err = runtime.Load(view, runtime.AnyTLBWindow, devices(view)...)
	if err != nil {
		t.Fatal(err)
	}
	return replay, func() { replay.Close(); file.Close() }
}

// replayWithRuntime replays sequence 0 with the runtime.
func replayWithRuntime(t *testing.T, path string, before []byte) replayResult {
	t.Helper()
	m := newFilledMemory(t, before)
	var view *fbs.View
	replay, done := loadImage(t, path, func(v *fbs.View) []hal.Device {
		view = v
		return plain.Devices(v, m.bytes)
	})
	defer done()
	result := replay.Run(0)
	var outputs []byte
	for i := range view.Tensors {
		if view.Tensors[i].Role == gen.RoleOutput {
			outputs = append(outputs, replay.Output(i)...)
		}
	}
	return replayResult{int64(result.Code.ExitStatus()), int64(result.Command),
		int64(result.IgnoredFailures),
		fbs.Checksum(outputs), bytes.Clone(m.bytes)}
}

// newFilledMemory returns a memory that contains data.
func newFilledMemory(t *testing.T, data []byte) *memory {
	t.Helper()
	m := newMemory("device", len(data))
	t.Cleanup(m.close)
	copy(m.bytes, data)
	return m
}

// replayWithC replays sequence 0 with a program in C. way selects how the program copies data and
// dispatches commands, see compareSides.
func replayWithC(t *testing.T, program, path string, before []byte, way int) replayResult {
	t.Helper()
	m := newFilledMemory(t, before)
	s := startSide(m, path, program)
	// A failed run is a valid result here.
	answer := s.runSequence(0, 1, way)
	s.stop()
	return replayResult{answer.status, answer.command, answer.ignored, answer.outputs,
		bytes.Clone(m.bytes)}
}

// compareSides replays an image with the runtime and with C, from memory with the same bytes.
func compareSides(t *testing.T, program, path string, before []byte) replayResult {
	t.Helper()
	want := replayWithRuntime(t, path, before)
	for way, name := range ways {
		got := replayWithC(t, program, path, before, way)
		if got.status != want.status || got.command != want.command {
			t.Errorf("%s: C ends with %d at command %d, the runtime with %d at %d", name,
				got.status, got.command, want.status, want.command)
		}
		if got.ignored != want.ignored {
			t.Errorf("%s: C ignores %d failures, the runtime %d", name, got.ignored, want.ignored)
		}
		if got.outputs != want.outputs {
			t.Errorf("%s: the outputs of the two sides differ", name)
		}
		for i := range want.memory {
			if got.memory[i] != want.memory[i] {
				t.Errorf("%s: byte %#x of memory is %#x after C and %#x after the runtime", name, i,
					got.memory[i], want.memory[i])
				break
			}
		}
	}
	return want
}

// memorySize returns the size of the memory that the devices of an image need, or 0 if plain memory
// cannot replace them.
func memorySize(t *testing.T, path string) uint64 {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	view, err := fbs.Verify(data)
	if err != nil {
		t.Fatal(err)
	}
	return plain.Size(view)
}

func TestCAndRuntimeLeaveTheSameBytesForSamples(t *testing.T) {
	program := compileC(t)
	paths, _ := filepath.Glob(filepath.Join(testdataDir, "images", "*.lmb"))
	replayed := 0
	for _, path := range paths {
		bytes := memorySize(t, path)
		if bytes == 0 || bytes > 64<<20 {
			continue // images with tiles, or with BARs that are too large for a small machine
		}
		replayed++
		t.Run(filepath.Base(path), func(t *testing.T) {
			compareSides(t, program, path, make([]byte, bytes))
		})
	}
	if replayed < 3 {
		t.Errorf("only %d of %d samples can be replayed on plain memory, want at least 3", replayed,
			len(paths))
	}
}

// TestCAndRuntimeLeaveTheSameBytesForRandomImages replays images of random commands, of every kind
// that plain memory supports.
func TestCAndRuntimeLeaveTheSameBytesForRandomImages(t *testing.T) {
	program := compileC(t)
	ended := map[int64]int{}
	for seed := range uint64(effort.Cases(0, 20, 1000)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			path := writeImageFile(t, images.Random(random))
			before := make([]byte, memorySize(t, path))
			for i := range before {
				before[i] = byte(random.Uint32N(4)) // small, so that some checks pass and some fail
			}
			ended[compareSides(t, program, path, before).status]++
		})
	}
	if ended[0] == 0 || ended[76] == 0 || ended[75] == 0 {
		t.Errorf("number of runs by exit status: %v; want at least one with 0 (done), 76 (failed "+
			"check) and 75 (deadline passed)", ended)
	}
}
