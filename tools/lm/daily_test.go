package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
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

func TestRowsOfACSVFileMatchTheLastDimension(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.csv")
	for _, c := range []struct{ text, shape, want string }{
		{"1,2\n3,4\n5,6\n", "2,3", "row 1 has 2 elements, but each row of the tensor has 3"},
		{"1\n2\n3\n", "3", ""},
		{"1,2\n3\n", "1,3", "row 1 has 2 elements"},
		{"1,2\n3\n4\n", "2,2", "row 2 has 1 elements"},
		{"1,2,3\n4,5,6\n", "2,3", ""},
		{"1,2,3,4,5,6\n", "2,3", ""},
		{"1\n2\n", "2,1", ""},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		exit, _, stderr := lm(t, "tensor", "--type", "int8", "--shape", c.shape, path)
		if c.want == "" && exit != 0 || c.want != "" &&
			(exit != 65 || !strings.Contains(stderr, c.want)) {
			t.Errorf("%q as %s: exit status %d, stderr: %s; want the error %q", c.text, c.shape,
				exit, stderr, c.want)
		}
	}
}

func TestFileNamedWithDigitsNeedsAPath(t *testing.T) {
	image, err := filepath.Abs(twoopImage)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("5", bytes.Repeat([]byte{6, 0, 0, 0}, 256), 0o644); err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]string{"a=5": "5,", "a=./5": "6,"} {
		mustRun(t, "", "replay", "--device", "mock:wormhole", "--input", spec, "--input", "b=100",
			"--output", "d=d.csv", image)
		if got, err := os.ReadFile("d.csv"); err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("--input %s: d is %.20s (%v), want %s...", spec, got, err, want)
		}
	}
}

// TestToolsReadImagesFromStandardInput passes an image to every command as standard input.
func TestToolsReadImagesFromStandardInput(t *testing.T) {
	want, err := os.ReadFile(twoopImage)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	keep := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(in(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return in(name)
	}
	listing := keep("x.lms", mustRun(t, twoopImage, "dump", "-"))
	mustRun(t, listing, "asm", "-", "-o", in("x.lmb"))
	if got, err := os.ReadFile(in("x.lmb")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("dump and asm through standard input made an image of %d bytes (%v), want the "+
			"same %d bytes", len(got), err, len(want))
	}
	for _, args := range [][]string{{"info", "-"}, {"verify", "-"}, {"report", "-"},
		{"diff", twoopImage, "-"}, {"replay", "--device", "mock:wormhole", "--check-golden", "-"}} {
		if out := mustRun(t, twoopImage, args...); out == "" {
			t.Errorf("lm %v prints nothing", args)
		}
	}
	mustRun(t, filepath.Join(testdata, "captures", "wh.twoop.record"), "import", "--from", "record",
		"-", "-o", in("r.lmb"))
	mustRun(t, twoopImage, "trim", "--marks", "-", "-o", in("t.lmb"))
}

func TestStandardInputServesOneArgument(t *testing.T) {
	sevens := filepath.Join(t.TempDir(), "sevens")
	if err := os.WriteFile(sevens, bytes.Repeat([]byte{7, 0, 0, 0}, 256), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "x.lmb")
	const twoArguments = "two arguments are `-`; only one can be standard input: " +
		"name a file for the other"
	const bothRead = " both read standard input; name a file for one of them"
	for _, c := range []struct {
		stdin, want string
		args        []string
	}{
		{sevens, "argument a=- and argument b=-" + bothRead,
			[]string{"set", twoopImage, "a=-", "b=-", "-o", out}},
		{sevens, "--input a=- and --input b=-" + bothRead,
			[]string{"replay", "--device", "mock:wormhole", "--input", "a=-", "--input", "b=-",
				twoopImage}},
		{twoopImage, twoArguments, []string{"verify", "--together", "-", "-"}},
		{twoopImage, twoArguments, []string{"diff", "-", "-"}},
	} {
		exit, _, stderr := lmWithStdin(t, c.stdin, c.args...)
		if exit != 64 || !strings.Contains(stderr, c.want) {
			t.Errorf("lm %v: exit status %d, want 64; %s", c.args, exit, stderr)
		}
	}
	key := filepath.Join(t.TempDir(), "key")
	mustRun(t, "", "sign", "--new-key", key)
	mustRun(t, "", "sign", "--key", key, twoopImage, "-o", out)
	mustRun(t, out, "verify", "--key", key+".pub", "-")
	mustRun(t, key+".pub", "verify", "--key", "-", "--together", out, out)
	if exit, _, stderr := lmWithStdin(t, filepath.Join(testdata, "captures", "wh.twoop.record"),
		"import", "--from", "mmiotrace", "-", "-o", out); exit != 65 ||
		!strings.Contains(stderr, "the trace looks like one for --from record") {
		t.Errorf("exit status %d, want 65; stderr: %s", exit, stderr)
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

// TestTrimRemovesWhatIsNamed also checks that the rest of the image does what it did before.
func TestTrimRemovesWhatIsNamed(t *testing.T) {
	image := assemble(t, edu+`tensor x input uint32[1]
tensor only input uint32[1]
tensor y output uint32[1]
main:
  mark "hello"
  call work
work:
  copy.4 r+0x4 <- x[:]
  copy.4 y[:] <- r+0x4
extra:
  copy.4 r+0x4 <- only[:]
`)
	exit, _, stderr := lm(t, "trim", "--in-place", "--sequence", "work", image)
	if exit != 64 || !strings.Contains(stderr, "main calls work") {
		t.Errorf("exit status %d, want 64; stderr: %s", exit, stderr)
	}
	exit, _, stderr = lm(t, "trim", "--in-place", "--sequence", "nope", image)
	if exit != 64 || !strings.Contains(stderr, `--sequence nope: there is no such sequence`) {
		t.Errorf("exit status %d, want 64; stderr: %s", exit, stderr)
	}
	small := filepath.Join(t.TempDir(), "small.lmb")
	mustRun(t, "", "trim", "--sequence", "extra", "--marks", image, "-o", small)
	left, _ := decodeFile(small)
	if len(left.Sequences) != 2 || len(left.Tensors) != 2 || left.Tensors[1].Name != "y" ||
		slices.ContainsFunc(left.Sequences[0].Commands,
			func(c lmb.Command) bool { return c.Opcode == lmb.OpcodeMark }) {
		t.Errorf("after lm trim the image is %+v, want sequences main and work without marks, and "+
			"tensors x and y", left)
	}
	if exit, _, stderr := lm(t, "replay", "--device", "mock:edu", small); exit != 64 ||
		!strings.Contains(stderr, "use --input x=FILE") {
		t.Errorf("exit status %d, want 64; stderr: %s", exit, stderr)
	}
	out := filepath.Join(t.TempDir(), "y.csv")
	mustRun(t, "", "replay", "--device", "mock:edu", "--input", "x=5", "--output", "y="+out, small)
	// The register of edu returns the complement.
	if got, err := os.ReadFile(out); err != nil || string(got) != "4294967290\n" {
		t.Errorf("y is %s (%v), want 4294967290", got, err)
	}
	golden := filepath.Join(t.TempDir(), "golden.lmb")
	mustRun(t, "", "trim", "--golden", twoopImage, "-o", golden)
	if exit, _, stderr := lm(t, "replay", "--device", "mock:wormhole", "--check-golden",
		golden); exit != 64 || !strings.Contains(stderr, "no output with golden data") {
		t.Errorf("exit status %d, want 64; stderr: %s", exit, stderr)
	}
}

func TestStaleGoldenDataAndLostSignatureAreReported(t *testing.T) {
	folder := t.TempDir()
	out, key := filepath.Join(folder, "x.lmb"), filepath.Join(folder, "key")
	if exit, _, stderr := lm(t, "set", twoopImage, "a=5", "-o", out); exit != 0 ||
		!strings.Contains(stderr, "the golden data belong to the old inputs") {
		t.Errorf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
	mustRun(t, "", "trim", "--in-place", "--golden", out)
	if exit, _, stderr := lm(t, "set", "--in-place", out, "a=6"); exit != 0 || stderr != "" {
		t.Errorf("exit status %d, want 0; stderr: %s", exit, stderr)
	}
	mustRun(t, "", "sign", "--new-key", key)
	mustRun(t, "", "sign", "--in-place", "--key", key, out)
	text := mustRun(t, "", "trim", "--in-place", "--marks", out)
	if !strings.Contains(text, "; the image is no longer signed: sign it again") {
		t.Errorf("lm trim does not report the lost signature: %s", text)
	}
	text = mustRun(t, "", "trim", "--in-place", "--marks", out)
	if strings.Contains(text, "sign") {
		t.Errorf("lm trim reports a lost signature of an image that had none: %s", text)
	}
}

func TestSetChangesOneDefault(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.lmb")
	mustRun(t, "", "set", twoopImage, "a=5", "-o", out)
	got, err := lmb.Decode(mustRead(t, out))
	if err != nil {
		t.Fatal(err)
	}
	want, err := lmb.Decode(mustRead(t, twoopImage))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(got.Tensors, func(t lmb.Tensor) bool { return t.Name == "a" })
	if !bytes.Equal(got.Tensors[i].Data, bytes.Repeat([]byte{5, 0, 0, 0}, 256)) {
		t.Errorf("a is %x, want 5 everywhere", got.Tensors[i].Data)
	}
	got.Tensors[i].Data = want.Tensors[i].Data
	if again, err := lmb.Encode(got); err != nil || !bytes.Equal(again, mustRead(t, twoopImage)) {
		t.Errorf("lm set changed more than the default of a (%v)", err)
	}
	for _, spec := range []string{"d=5", "a", "a=", "z=1"} {
		if exit, _, stderr := lm(t, "set", twoopImage, spec, "-o", out); exit != 64 ||
			!strings.Contains(stderr, "lm info lists the inputs") {
			t.Errorf("%s: exit status %d, want 64; %s", spec, exit, stderr)
		}
	}
}

func TestCompareUsesToleranceForSavedOutputs(t *testing.T) {
	folder := t.TempDir()
	saved := filepath.Join(folder, "d.csv")
	mustRun(t, "", "replay", "--device", "mock:wormhole", "--output", "d="+saved, twoopImage)
	mustRun(t, "", "compare", twoopImage, "d="+saved)
	words := strings.Split(strings.TrimSpace(string(mustRead(t, saved))), ",")
	words[1] = "465" // the golden value is 464
	if err := os.WriteFile(saved, []byte(strings.Join(words, ",")), 0o644); err != nil {
		t.Fatal(err)
	}
	if exit, _, stderr := lm(t, "compare", twoopImage, "d="+saved); exit != 76 ||
		!strings.Contains(stderr, "output d: 1 of 256 int32 elements differs from the golden "+
			"data; the first, [1], is 465 instead of 464; "+
			"the largest difference is 1 at [1]") {
		t.Errorf("exit status %d, want 76; stderr: %s", exit, stderr)
	}
	mustRun(t, "", "compare", "--absolute", "1", twoopImage, "d="+saved)
	mustRun(t, "", "compare", "--relative", "0.003", twoopImage, "d="+saved)
	if exit, _, _ := lm(t, "compare", "--relative", "0.002", twoopImage, "d="+saved); exit != 76 {
		t.Errorf("with --relative 0.002: exit status %d, want 76", exit)
	}
	if exit, _, stderr := lm(t, "compare", twoopImage, "a="+saved); exit != 64 ||
		!strings.Contains(stderr, "use one of: d") {
		t.Errorf("exit status %d, want 64; stderr: %s", exit, stderr)
	}
}

// mustRead returns the contents of a file.
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
		{"0xffffffff", 0xffffffff},
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
