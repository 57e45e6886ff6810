package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/fbs/gen"
	"lightmetal/tools/image/lmb"
	"lightmetal/tools/image/npy"

	"golang.org/x/sys/unix"
)

// twoopImage is the path of an image for a Wormhole that computes d = relu(a + b - 100).
var twoopImage = filepath.Join(testdata, "images", "wh.twoop.lmb")

// mustRun runs a command line that must succeed, with a file as standard input, and returns its
// standard output. With stdin "", standard input does not change.
func mustRun(t *testing.T, stdin string, args ...string) (stdout string) {
	t.Helper()
	exit, stdout, stderr := lmWithStdin(t, stdin, args...)
	if exit != 0 {
		t.Fatalf("lm %v exits %d: %s", args, exit, stderr)
	}
	return stdout
}

// lmWithStdin runs a command line with a file as standard input.
func lmWithStdin(t *testing.T, stdin string, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	if stdin != "" {
		file, err := os.Open(stdin)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		saved, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
		if err == nil {
			err = unix.Dup3(int(file.Fd()), 0, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(saved)
		defer unix.Dup3(saved, 0, 0)
	}
	return lm(t, args...)
}

// TestTensorsInTilesConvertToAndFromNpyMatrices converts a matrix of one row of two tiles to the
// bytes of such a tensor, and back.
func TestTensorsInTilesConvertToAndFromNpyMatrices(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	listing := "lightmetal 1\ndevice ivshmem 1af4:1110 bar2 4MiB\n" +
		"window m bar2 offset 0 size 1MiB\ntensor a input uint8[1x2x2x2x16x16]\n" +
		"tensor d output uint8[1x2x2x2x16x16]\nmain:\n  copy.8 m+0 <- a[:] bulk\n" +
		"  copy.8 d[:] <- m+0 bulk\n"
	var rows, tiles []byte
	for i := range 2048 {
		rows = append(rows, byte(i/64*3)^byte(i%64))
	}
	for tile := range 2 {
		for face := range 4 {
			for i := range 256 {
				row, column := face/2*16+i/16, 32*tile+face%2*16+i%16
				tiles = append(tiles, rows[64*row+column])
			}
		}
	}
	matrix := npy.Format(&npy.Array{Type: "|u1", Shape: []uint32{32, 64}, Data: rows})
	for name, content := range map[string][]byte{"t.lms": []byte(listing), "rows.npy": matrix} {
		if err := os.WriteFile(in(name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mustRun(t, "", "asm", in("t.lms"), "-o", in("t.lmb"))
	mustRun(t, "", "tensor", "--image", in("t.lmb"), "--name", "a", in("rows.npy"), in("tiles.bin"))
	if got, err := os.ReadFile(in("tiles.bin")); err != nil || !bytes.Equal(got, tiles) {
		t.Errorf("lm tensor wrote %d bytes (%v) that differ from the tiles", len(got), err)
	}
	mustRun(t, "", "replay", "--device", "mock:ivshmem", "--input", "a="+in("rows.npy"),
		"--output", "d="+in("back.npy"), in("t.lmb"))
	if got, err := os.ReadFile(in("back.npy")); err != nil || !bytes.Equal(got, matrix) {
		t.Errorf("lm replay wrote %d bytes (%v) that differ from the matrix", len(got), err)
	}
	own := npy.Format(&npy.Array{Type: "|u1", Shape: []uint32{1, 2, 2, 2, 16, 16}, Data: tiles})
	if err := os.WriteFile(in("own.npy"), own, 0o644); err != nil {
		t.Fatal(err)
	}
	mustRun(t, "", "tensor", "--image", in("t.lmb"), "--name", "a", in("own.npy"), in("again.npy"))
	if got, err := os.ReadFile(in("again.npy")); err != nil || !bytes.Equal(got, matrix) {
		t.Errorf("from an array of the tensor's own shape, lm tensor wrote %d bytes (%v) that "+
			"differ from the matrix", len(got), err)
	}
}

// TestTensorsAreReadAsNumbersTextAndNpy computes d = relu(a + b - 100) with a, b and d in every
// form.
func TestTensorsAreReadAsNumbersTextAndNpy(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	list := make([]string, 256)
	for i := range list {
		list[i] = "7"
	}
	data, err := npy.Values(gen.DTypeInt32, list)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"7.bin": data, "7.csv": []byte("# sevens\n" + strings.Join(list, ", ") + "\n"),
		"0.npy": npy.Format(&npy.Array{Type: "<i4", Shape: []uint32{0}}),
		"7.NPY": npy.Format(&npy.Array{Type: "<i4", Shape: []uint32{256}, Data: data}),
		"7.npy": npy.Format(&npy.Array{Type: "<i4", Shape: []uint32{256}, Data: data}),
	} {
		if err := os.WriteFile(in(name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range []string{"7", "0x7", "[" + strings.Join(list, ",") + "]",
		"[[" + strings.Join(list[1:], " ") + "], [7]]", in("7.bin"), in("7.csv"), in("7.npy"),
		in("7.NPY")} {
		mustRun(t, "", "replay", "--device", "mock:wormhole", "--input", "a="+a, "--input", "b=100",
			"--output", "d="+in("d.csv"), twoopImage)
		got, err := os.ReadFile(in("d.csv"))
		if err != nil || string(got) != strings.Join(list, ",")+"\n" {
			t.Errorf("--input a=%.20s: d is %.40s (%v), want 7 everywhere", a, got, err)
		}
	}
	for _, to := range []string{"7.bin", "7.npy", "7.csv"} {
		mustRun(t, "", "tensor", "--type", "int32", "--shape", "256", in("7.csv"), in("new-"+to))
		mustRun(t, "", "tensor", "--image", twoopImage, "--name", "a", in("new-"+to),
			in("back.bin"))
		if back, err := os.ReadFile(in("back.bin")); err != nil || !bytes.Equal(back, data) {
			t.Errorf("through new-%s: %x (%v), want %x", to, back, err, data)
		}
	}
	if exit, _, stderr := lm(t, "tensor", in("0.npy")); exit != 65 ||
		!strings.Contains(stderr, "no elements") {
		t.Errorf("exit status %d, want 65; stderr: %s", exit, stderr)
	}
	if got := mustRun(t, "", "tensor", in("7.npy")); got != strings.Join(list, ",")+"\n" {
		t.Errorf("lm tensor prints %.40s, want 7 everywhere", got)
	}
	mustRun(t, in("7.bin"), "tensor", "--type", "int32", "--shape", "64,4", "-", in("64.csv"))
	if got := string(mustRead(t, in("64.csv"))); got != strings.Repeat("7,7,7,7\n", 64) {
		t.Errorf("lm tensor writes %.40s, want 64 rows of 4 elements 7", got)
	}
}

func TestStatisticsExcludeWarmUpRuns(t *testing.T) {
	var got outcome
	text := mustRun(t, "", "replay", "--device", "mock:wormhole", "--loop", "100", "--warm-up", "3",
		"--stats", "--json", twoopImage)
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.Stats == nil ||
		got.Runs != 100 || got.Stats.WarmUp != 3 {
		t.Fatalf("error %v, output %s; want 100 runs and 3 warm-up runs", err, text)
	}
	for _, s := range []timeSpread{got.Stats.Device, got.Stats.Wall} {
		if !(0 < s.MinNs && s.MinNs <= s.MedianNs && s.MedianNs <= s.P99Ns && s.P99Ns <= s.MaxNs) {
			t.Errorf("times are not in order: %+v", s)
		}
	}
	if text := mustRun(t, "", "replay", "--device", "mock:wormhole", "--loop", "2", "--stats",
		twoopImage); !strings.Contains(text, "median") {
		t.Errorf("no median in %s", text)
	}
	trace := filepath.Join(t.TempDir(), "run.json")
	mustRun(t, "", "replay", "--device", "mock:wormhole", "--loop", "2", "--warm-up", "3",
		"--profile", trace, "--json", twoopImage)
	if profile, err := os.ReadFile(trace); err != nil ||
		!strings.Contains(string(profile), `"runs":2,`) {
		t.Errorf("want a profile of 2 runs without warm-up runs, got %.400s (%v)", profile, err)
	}
	times := make([]int64, 0, 200)
	for n := range int64(200) {
		times = append(times, 200-n)
	}
	if s := newTimeSpread(times); s != (timeSpread{1, 100, 198, 200}) {
		t.Errorf("spread of 1 to 200 ns: %+v, want 1, 100, 198, 200", s)
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestValuesOfATensorAreNotFileNames has files with the names of the values. Only a path that
// begins with ./ means such a file.
func TestValuesOfATensorAreNotFileNames(t *testing.T) {
	t.Chdir(t.TempDir())
	image := assemble(t, edu+`tensor x input float32[1]
tensor n input int32[1]
main:
  copy.4 r+0x4 <- x[:]
  copy.4 r+0x4 <- n[:]
`)
	for _, c := range []struct {
		text string
		bits uint32
	}{
		{"inf", 0x7f800000}, {"+Inf", 0x7f800000}, {"-inf", 0xff800000},
		{"-Infinity", 0xff800000}, {"nan", 0x7fc00000}, {"NaN", 0x7fc00000},
		{".5", 0x3f000000}, {"-1", 0xbf800000}, {"0x40490fdb", 0x40490fdb},
		{"0xffffffff", 0xffffffff}, {"5", 0x40a00000},
	} {
		if err := os.WriteFile("./"+c.text, []byte{1, 2, 3, 4}, 0o644); err != nil {
			t.Fatal(err)
		}
		value := func(spec string) uint32 {
			mustRun(t, "", "set", image, "x="+spec, "-o", "out.lmb")
			got, err := lmb.Decode(mustRead(t, "out.lmb"))
			if err != nil {
				t.Fatal(err)
			}
			return binary.LittleEndian.Uint32(got.Tensors[0].Data)
		}
		if got := value(c.text); got != c.bits {
			t.Errorf("x=%s: %#x, want %#x", c.text, got, c.bits)
		}
		if got := value("./" + c.text); got != 0x04030201 {
			t.Errorf("x=./%s: %#x, want 0x4030201 from the file", c.text, got)
		}
	}
	for _, spec := range []string{"n=inf", "n=nan", "n=99999999999999999999", "x=-nan",
		"x=1e999", "n=0xffffffffffffffffff"} {
		exit, _, stderr := lm(t, "set", image, spec, "-o", "out.lmb")
		if _, text, _ := strings.Cut(spec, "="); exit != 65 ||
			!strings.Contains(stderr, "must be a value of type") || !strings.Contains(stderr,
			"./"+text) {
			t.Errorf("%s: exit status %d, want 65; %s", spec, exit, stderr)
		}
	}
	// An output is a file, whatever its name.
	exit, _, stderr := lm(t, "replay", "--device", "mock:wormhole", "--output", "d=5",
		"--profile", "5", filepath.Join(repositoryRoot, "testdata", "images", "wh.twoop.lmb"))
	if exit != 64 || !strings.Contains(stderr, "output 5 is the same file as output 5") {
		t.Errorf("exit status %d, want 64; stderr: %s", exit, stderr)
	}
}
