package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/rand"
	"os"
	"os/signal"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"lightmetal/boards/chips"
	"lightmetal/fbs"
	"lightmetal/hal"
	"lightmetal/hal/mock"
	"lightmetal/runtime"
	"lightmetal/tools/capture/importer/traces"
	"lightmetal/tools/check/effort"
	"lightmetal/tools/devices/ttsim"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/lmb/lmbtest"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// lateSignalVariable is an environment variable. If it is set, the test program runs as lm and
// sends itself SIGTERM right before it ends.
const lateSignalVariable = "LM_TEST_LATE_SIGNAL"

// TestMain runs the tests, unless this program has the name lm, or an environment variable makes it
// the child of a test.
func TestMain(m *testing.M) {
	ttsim.ChildMain()
	if path := os.Getenv(peakFileVariable); path != "" {
		measureLM(path)
	}
	if os.Getenv(asLMVariable) != "" {
		main()
	}
	if os.Getenv(lateSignalVariable) != "" {
		exit := run(os.Args[1:])
		goruntime.LockOSThread() // a signal of this thread arrives before Tgkill returns
		_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGTERM)
		os.Exit(exit)
	}
	if path := os.Getenv(signalledVariable); path != "" {
		waitForSignal(path)
	}
	for _, s := range []os.Signal{unix.SIGINT, unix.SIGHUP} {
		if signal.Ignored(s) { // as of a shell's command with & or nohup; children inherit it
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	testscript.Main(testsWithPrograms{m}, map[string]func(){"lm": main})
}

// testsWithPrograms runs tests that build programs.
type testsWithPrograms struct{ *testing.M }

func (m testsWithPrograms) Run() int {
	var err error
	if buildFolder, err = os.MkdirTemp("", "lm-test"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(buildFolder)
	return m.M.Run()
}

// newInputs is the number of random inputs with which each capture is replayed.
const newInputs = 1000

// deviceOpeners returns functions that open a device for captures of a chip, by name: the mock,
// whose cores compute, and the vendor's simulator. The latter skips the test if no environment
// variable names the simulator's library.
func deviceOpeners(chip string) map[string]func(t *testing.T) hal.Device {
	return map[string]func(t *testing.T) hal.Device{
		"mock": func(*testing.T) hal.Device { return mock.New(chips.BoardByName(chip)) },
		"ttsim": func(t *testing.T) hal.Device {
			variable := map[string]string{"wormhole": "LM_TTSIM_WH",
				"blackhole": "LM_TTSIM_BH"}[chip]
			library := os.Getenv(variable)
			if library == "" {
				t.Skipf("skipped: %s does not name the vendor's simulator", variable)
			}
			device, err := ttsim.Open("ttsim:" + library)
			if err != nil {
				t.Fatal(err)
			}
			return device
		},
	}
}

// loadOnDevice loads a file on a device. slot is the TLB window that the image uses instead of the
// recorded one.
func loadOnDevice(t *testing.T, file []byte, device hal.Device, slot int) *runtime.Replay {
	t.Helper()
	view, err := fbs.Verify(file)
	if err != nil {
		t.Fatal(err)
	}
	replay, err := runtime.Load(view, slot, device)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		replay.Close()
		device.Close()
	})
	return replay
}

// mustReplay runs sequence 0 and ends the test if the run fails.
func mustReplay(t *testing.T, r *runtime.Replay, device hal.Device) {
	t.Helper()
	if result := r.Run(0); result.Code != hal.OK {
		t.Fatalf("the run ended with %v at command %d: %s", result.Code, result.Command,
			refusalReason([]hal.Device{device}))
	}
}

// computeTwoop returns d = relu(a + b - 100) of 256 int32 values, with overflow as in
// testdata/kernels/twoop.c.
func computeTwoop(inputs [][]byte) []byte {
	d := make([]byte, len(inputs[0]))
	for i := 0; i < len(d); i += 4 {
		sum := int32(binary.LittleEndian.Uint32(inputs[0][i:])) + int32(
			binary.LittleEndian.Uint32(inputs[1][i:]))
		binary.LittleEndian.PutUint32(d[i:], uint32(max(0, sum-100)))
	}
	return d
}

// mlpNetwork returns a function that computes the int8 network of testdata/kernels/mlp.c with the
// given weights: 64 -> 32 (relu, >> 7, at most 127) -> 10.
func mlpNetwork(weights map[string][]byte) func(inputs [][]byte) []byte {
	word := func(data []byte, i int) int32 { return int32(binary.LittleEndian.Uint32(data[4*i:])) }
	return func(inputs [][]byte) []byte {
		var hidden [32]int32
		for o := range hidden {
			sum := word(weights["b1"], o)
			for i := range 64 {
				sum += int32(int8(inputs[0][i])) * int32(int8(weights["w1"][64*o+i]))
			}
			hidden[o] = min(max(sum>>7, 0), 127)
		}
		y := make([]byte, 40)
		for o := range 10 {
			sum := word(weights["b2"], o)
			for i, h := range hidden {
				sum += h * int32(int8(weights["w2"][32*o+i]))
			}
			binary.LittleEndian.PutUint32(y[4*o:], uint32(sum))
		}
		return y
	}
}

// importCapture runs lm import and returns the image. The last argument is the name of a file in
// testdata/captures.
func importCapture(t *testing.T, args ...string) *lmb.Image {
	t.Helper()
	out := filepath.Join(t.TempDir(), "x.lmb")
	args[len(args)-1] = filepath.Join(testdata, "captures", args[len(args)-1])
	if exit, _, stderr := lm(t, append(append([]string{"import"}, args...), "-o",
		out)...); exit != 0 {
		t.Fatalf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
	file, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	image, err := lmb.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func encodeImage(t *testing.T, image *lmb.Image) []byte { return lmbtest.Encode(t, image) }

// mlpWeights imports a capture with its weights named as inputs, and returns the data of these
// inputs by name.
func mlpWeights(t *testing.T, format, capture, tile string) map[string][]byte {
	image := importCapture(t, "--from", format, "--input", "w1="+tile+",0x21000,int8,32x64",
		"--input", "b1="+tile+",0x22000,int32,32",
		"--input", "w2="+tile+",0x23000,int8,10x32", "--input", "b2="+tile+",0x24000,int32,10",
		capture)
	weights := map[string][]byte{}
	for _, tensor := range image.Tensors {
		weights[tensor.Name] = tensor.Data
	}
	return weights
}

// TestCapturesComputeNewOutputsForNewInputs replays each accelerator capture with its recorded data
// and then with random inputs. Every output must equal a computation in Go. The replays use other
// TLB windows than the recording.
func TestCapturesComputeNewOutputsForNewInputs(t *testing.T) {
	effort.SkipShort(t)
	for _, test := range []struct {
		image, chip string
		slots       []int
		compute     func([][]byte) []byte
	}{
		{"wh.twoop.lmb", "wormhole", []int{170, 7, 160}, computeTwoop},
		{"bh.twoop.lmb", "blackhole", []int{9, 203}, computeTwoop},
		{"wh.mlp.lmb", "wormhole", []int{184, 3},
			mlpNetwork(mlpWeights(t, "mmiotrace", "wh.mlp.mmiotrace", "1,1"))},
	} {
		file, err := os.ReadFile(filepath.Join(testdata, "images", test.image))
		if err != nil {
			t.Fatal(err)
		}
		for name, open := range deviceOpeners(test.chip) {
			t.Run(test.image+" on "+name, func(t *testing.T) {
				for _, slot := range test.slots {
					checkOutputs(t, file, open(t), slot, newInputs/len(test.slots)+1, test.compute)
				}
			})
		}
	}
}

// checkOutputs replays an image with its recorded data and with n random inputs. The last tensor is
// the output, all others are inputs.
func checkOutputs(t *testing.T, file []byte, device hal.Device, slot, n int,
	compute func([][]byte) []byte) {
	t.Helper()
	replay := loadOnDevice(t, file, device, slot)
	view := lmbtest.View(t, file)
	tensors := view.Tensors
	output := len(tensors) - 1
	mustReplay(t, replay, device)
	if golden := view.TensorData(&tensors[output]); !bytes.Equal(replay.Output(output), golden) {
		t.Fatalf("TLB window %d: the output for the recorded input is not the recorded output",
			slot)
	}
	random := rand.New(rand.NewSource(int64(slot)))
	for i := range n {
		inputs := make([][]byte, output)
		for j := range inputs {
			inputs[j] = replay.Input(j)
			random.Read(inputs[j])
		}
		mustReplay(t, replay, device)
		if !bytes.Equal(replay.Output(output), compute(inputs)) {
			t.Fatalf("TLB window %d, random input %d: the output is not what Go computes", slot, i)
		}
	}
}

// TestMulticastRecordingsReplayOnFourTiles replays recordings that stored program, arguments and
// weights to four tiles at once. Each tile has its own input and output.
func TestMulticastRecordingsReplayOnFourTiles(t *testing.T) {
	for _, test := range []struct {
		capture, chip string
		tiles         []string
		slot          int
	}{
		{"wh.mlp4.record", "wormhole", []string{"1,1", "2,1", "1,2", "2,2"}, 12},
		{"bh.mlp4.record", "blackhole", []string{"1,2", "2,2", "1,3", "2,3"}, 100},
	} {
		compute := mlpNetwork(mlpWeights(t, "record", test.capture, test.tiles[0]))
		args := []string{"--from", "record"}
		for i, tile := range test.tiles {
			args = append(args, "--input", string(rune('a'+i))+"="+tile+",0x20000,int8,64")
		}
		for i, tile := range test.tiles {
			args = append(args, "--output", string(rune('p'+i))+"="+tile+",0x25000,int32,10")
		}
		file := encodeImage(t, importCapture(t, append(args, test.capture)...))
		for name, open := range deviceOpeners(test.chip) {
			t.Run(test.capture+" on "+name, func(t *testing.T) {
				device := open(t)
				replay := loadOnDevice(t, file, device, test.slot)
				random := rand.New(rand.NewSource(1))
				for i := range 50 {
					for j := range test.tiles {
						// The first run uses the recorded data.
						if input := replay.Input(j); i > 0 {
							random.Read(input)
						}
					}
					mustReplay(t, replay, device)
					for j := range test.tiles {
						if !bytes.Equal(replay.Output(len(test.tiles)+j),
							compute([][]byte{replay.Input(j)})) {
							t.Fatalf("run %d: the output of tile %s is not what Go computes", i,
								test.tiles[j])
						}
					}
				}
			})
		}
	}
}

// TestRecordingsReplayThroughAnotherWindow replays recordings that compare every load with the
// recorded value.
func TestRecordingsReplayThroughAnotherWindow(t *testing.T) {
	for capture, test := range map[string]struct {
		chip string
		slot int
	}{
		"wh.twoop.record": {"wormhole", 44}, "bh.twoop.record": {"blackhole", 44},
		"wh.mlp4.record": {"wormhole", 180}, "bh.mlp4.record": {"blackhole", 200},
	} {
		file := encodeImage(t, importCapture(t, "--from", "record", capture))
		for name, open := range deviceOpeners(test.chip) {
			t.Run(capture+" on "+name, func(t *testing.T) {
				device := open(t)
				mustReplay(t, loadOnDevice(t, file, device, test.slot), device)
			})
		}
	}
}

func TestImportRecognizesTheFormatOfATrace(t *testing.T) {
	for _, trace := range []struct {
		from, name string
		flags      []string
	}{
		{"mmiotrace", "wh.twoop.mmiotrace", nil},
		{"record", "wh.twoop.record", nil},
		{"record", "wh.nocdram.record.gz", nil}, // compressed
		{"qemu", "edu.qemutrace", []string{"--region", "edu-mmio", "--base", "0x10000000",
			"--board", "edu"}},
	} {
		t.Run(trace.name, func(t *testing.T) {
			path := testdataPath(t, "captures", trace.name)
			explicit, recognized := filepath.Join(t.TempDir(), "explicit.lmb"),
				filepath.Join(t.TempDir(), "recognized.lmb")
			args := append([]string{"import", "--reproducible", path}, trace.flags...)
			mustRun(t, "", append(args, "--from", trace.from, "-o", explicit)...)
			mustRun(t, "", append(args, "-o", recognized)...)
			if !bytes.Equal(mustRead(t, explicit), mustRead(t, recognized)) {
				t.Error("the image differs from the one with --from")
			}
		})
	}
}

func TestSummaryIsTextUnlessJSONIsRequested(t *testing.T) {
	path := testdataPath(t, "captures", "edu.qemutrace")
	text := mustRun(t, "", "import", "--summary", path)
	if !strings.Contains(text, " loads, ") || strings.Contains(text, "{") {
		t.Errorf("lm import --summary prints %q, want text with loads", text)
	}
	var summary traces.Summary
	if err := json.Unmarshal([]byte(mustRun(t, "", "import", "--summary", "--json", path)),
		&summary); err != nil || len(summary.Regions) == 0 {
		t.Errorf("lm import --summary --json: %+v, %v; want regions", summary, err)
	}
}
