package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lightmetal/fbs"
	"lightmetal/fbs/gen"
	"lightmetal/hal"
	"lightmetal/tools/image/lmb"
)

// fromEnv returns the path in an environment variable that build.sh sets. If the variable is not
// set, the test is skipped, or fails if LM_GUEST_REQUIRED is 1.
func fromEnv(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	switch {
	case path != "":
		return path
	case os.Getenv("LM_GUEST_REQUIRED") == "1":
		t.Fatalf("%s is not set, but LM_GUEST_REQUIRED=1 requires it", variable)
	}
	t.Skipf("needs QEMU, an arm64 kernel and lmrun (%s is not set); run `./build.sh test guest`",
		variable)
	return ""
}

// bootTimeout is the time limit of a boot. On a busy host, a boot takes minutes.
const bootTimeout = 10 * time.Minute

// finishedBoot is a finished boot of a machine.
type finishedBoot struct {
	*machine
	exit    int
	console string
}

// bootAndReplay replays an image file in a guest, with flags of lmrun, and requires the exit status
// of the code `want`.
func bootAndReplay(t *testing.T, want hal.Code, path string, flags ...string) finishedBoot {
	t.Helper()
	var console bytes.Buffer
	dir := t.TempDir()
	m := &machine{
		kernel: fromEnv(t, "LM_GUEST_KERNEL"), lmrun: fromEnv(t, "LM_GUEST_LMRUN"),
		files: map[string][]byte{},
		dir:   dir, traceFile: filepath.Join(dir, "trace"), timeout: bootTimeout, stdout: &console,
	}
	exit, err := m.replay(path, flags)
	if err != nil {
		t.Fatal(err)
	}
	if exit != want.ExitStatus() {
		t.Fatalf("exit status %d, want %d (%v); the console:\n%s", exit, want.ExitStatus(),
			want, console.String())
	}
	return finishedBoot{m, exit, console.String()}
}

// writeImage writes an image to a temporary file, and returns its path.
func writeImage(t *testing.T, image *lmb.Image) string {
	t.Helper()
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	return writeTempImage(t, file)
}

// writeTempImage writes data to a temporary file image.lmb, and returns its path.
func writeTempImage(t *testing.T, file []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.lmb")
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// makeImage runs lm, which writes an image. It returns the path of the image and the decoded image.
func makeImage(t *testing.T, args ...string) (string, *lmb.Image) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.lmb")
	lm := exec.Command(fromEnv(t, "LM_GUEST_LM"), append(args, "-o", path)...)
	if out, err := lm.CombinedOutput(); err != nil {
		t.Fatalf("lm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	image, err := lmb.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	return path, image
}

// factorialImage returns an image for edu that checks edu's identification, computes 12! and
// expects the right result.
func factorialImage() *lmb.Image {
	return eduImage(
		mainSequence(expectCommand(0, 0x010000ed), writeCommand(8, 12),
			pollCommand(0x20, 1, 0, 10_000_000), expectCommand(8, 479001600)),
		lmb.Sequence{Name: "safe", Commands: []lmb.Command{writeCommand(0x64, 0xffffffff)}})
}

// xorshift32 returns bytes of the pattern of the listing language.
func xorshift32(seed uint32, size int) (data []byte) {
	for len(data) < size {
		seed ^= seed << 13
		seed ^= seed >> 17
		seed ^= seed << 5
		data = binary.LittleEndian.AppendUint32(data, seed)
	}
	return data
}

func TestGuestWritesExpectedSharedMemory(t *testing.T) {
	t.Parallel()
	path, _ := makeImage(t, "asm", "../../../testdata/listings/ivshmem-blocks.lms")
	block7 := filepath.Join(t.TempDir(), "block7")
	r := bootAndReplay(t, hal.OK, path, "-output", "block7="+block7)
	got, err := os.ReadFile(r.shmPath())
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, shmSize)
	f := mustLoad(t, readFile(t, path), ivshmem)
	f.memory = want
	f.requireRun(t, "main", nil)
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("byte %#x of the shared memory is %#x, want %#x", i, got[i], want[i])
		}
	}
	const block = 64 << 10
	for n := range 15 {
		if !bytes.Equal(got[n*block:(n+1)*block], xorshift32(0x1000+uint32(n), block)) {
			t.Errorf("block %d does not have the pattern of its seed", n)
		}
	}
	if output, err := os.ReadFile(block7); err != nil ||
		!bytes.Equal(output, xorshift32(0x1007, block)) {
		t.Errorf("output block7 has other data than block 7: %v", err)
	}
}

// setUpTraced enables QEMU's trace, and adds the images that the scenarios in access.txt replay.
func setUpTraced(t *testing.T, m *machine) {
	t.Helper()
	m.enableTrace()
	capture, _ := makeImage(t, "import", "--from", "qemu", "--region", "edu-mmio", "--base",
		"0x10000000", "--board", "edu", "../../../testdata/captures/edu.qemutrace")
	m.addFile(t, "/images/capture.lmb", capture)
	m.addListing(t, "edu-factorial", "")
	m.files["/input/6"] = binary.LittleEndian.AppendUint32(nil, 6)
	m.files["/golden/720"] = binary.LittleEndian.AppendUint32(nil, 720)
	m.addFile(t, "/images/identified.lmb", writeImage(t, factorialImage()))
	image := factorialImage()
	image.Sequences[0].Commands[3].Value++
	m.addFile(t, "/images/expects-wrong.lmb", writeImage(t, image))
	image = factorialImage()
	image.Sequences[0].Commands[2] = pollCommand(0x00, 0xff, 0x01, 20_000)
	m.addFile(t, "/images/polls-in-vain.lmb", writeImage(t, image))
	image = factorialImage()
	image.Sequences[0].Commands = append(image.Sequences[0].Commands, lmb.Command{
		Command: fbs.Command{
			Opcode: gen.OpcodeCopyIn, Width: 8, Mode: uint8(gen.AccessExact), Offset: 0x80,
			Amount: 8,
		},
		Data: []byte("payload."),
	})
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	envelope, payload := bytes.Clone(file), bytes.Clone(file)
	envelope[200] ^= 1
	payload[len(file)-1] ^= 1
	m.files["/bad/envelope.lmb"], m.files["/bad/payload.lmb"] = envelope, payload
	m.files["/bad/size.lmb"] = file[:len(file)-1]
}
