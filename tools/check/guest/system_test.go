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

// tool gives the path in an environment variable that build.sh sets. Without
// it there is no machine to test on, which only LM_GUEST_REQUIRED makes a
// failure.
func tool(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	switch {
	case path != "":
		return path
	case os.Getenv("LM_GUEST_REQUIRED") == "1":
		t.Fatalf("%s is not set, and LM_GUEST_REQUIRED=1 asks for it", variable)
	}
	t.Skipf("needs QEMU, an arm64 kernel and lmrun (%s is not set); run `./build.sh test guest`",
		variable)
	return ""
}

// bootLimit ends a machine that hangs. One of a busy host takes minutes.
const bootLimit = 10 * time.Minute

// replayed is one finished boot.
type replayed struct {
	*machine
	exit    int
	console string
}

// replayOn boots the machine with an image file, and wants an exit status.
func replayOn(t *testing.T, want hal.Code, path string, flags ...string) replayed {
	t.Helper()
	var console bytes.Buffer
	dir := t.TempDir()
	m := &machine{
		kernel: tool(t, "LM_GUEST_KERNEL"), lmrun: tool(t, "LM_GUEST_LMRUN"),
		files: map[string][]byte{},
		dir:   dir, trace: filepath.Join(dir, "trace"), timeout: bootLimit, stdout: &console,
	}
	exit, err := m.replay(path, flags)
	if err != nil {
		t.Fatal(err)
	}
	if exit != want.ExitStatus() {
		t.Fatalf("exit status %d, want %d (%v); the console says:\n%s", exit, want.ExitStatus(),
			want,
			console.String())
	}
	return replayed{m, exit, console.String()}
}

// written encodes an image into a file.
func written(t *testing.T, image *lmb.Image) string {
	t.Helper()
	file, err := lmb.Encode(image)
	if err != nil {
		t.Fatal(err)
	}
	return saved(t, file)
}

func saved(t *testing.T, file []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.lmb")
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// made has lm write an image, and gives its path and what is in it.
func made(t *testing.T, args ...string) (string, *lmb.Image) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.lmb")
	lm := exec.Command(tool(t, "LM_GUEST_LM"), append(args, "-o", path)...)
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

// identified is an image that knows edu, computes 12! and looks at the result.
func identified() *lmb.Image {
	return eduImage(mainOf(expect(0, 0x010000ed), write(8, 12), poll(0x20, 1, 0, 10_000_000),
		expect(8, 479001600)),
		lmb.Sequence{Name: "safe", Commands: []lmb.Command{write(0x64, 0xffffffff)}})
}

// xorshift32 is the pattern of the listing language.
func xorshift32(seed uint32, size int) (data []byte) {
	for len(data) < size {
		seed ^= seed << 13
		seed ^= seed >> 17
		seed ^= seed << 5
		data = binary.LittleEndian.AppendUint32(data, seed)
	}
	return data
}

func TestGuestFillsSharedMemoryByteByByte(t *testing.T) {
	t.Parallel()
	path, image := made(t, "asm", "../../../testdata/listings/ivshmem-blocks.lms")
	block7 := filepath.Join(t.TempDir(), "block7")
	r := replayOn(t, hal.OK, path, "-output", "block7="+block7)
	got, err := os.ReadFile(r.shm())
	if err != nil {
		t.Fatal(err)
	}
	p, err := expand(image, "main", ivshmem, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, shmSize)
	if err := p.apply(want); err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("byte %#x of the shared memory is %#x, want %#x", i, got[i], want[i])
		}
	}
	const block = 64 << 10
	for n := range 15 {
		if !bytes.Equal(got[n*block:(n+1)*block], xorshift32(0x1000+uint32(n), block)) {
			t.Errorf("block %d is not the pattern of its seed", n)
		}
	}
	if output, err := os.ReadFile(block7); err != nil ||
		!bytes.Equal(output, xorshift32(0x1007, block)) {
		t.Errorf("output block7 is not block 7: %v", err)
	}
}

// addTraced puts in what the scenarios of access.txt replay.
func addTraced(t *testing.T, m *machine) {
	t.Helper()
	m.traceIt()
	capture, _ := made(t, "import", "--from", "qemu", "--region", "edu-mmio", "--base",
		"0x10000000", "--board", "edu", "../../../testdata/captures/edu.qemutrace")
	m.add(t, "/images/capture.lmb", capture)
	m.addListing(t, "edu-factorial", "")
	m.files["/input/6"] = binary.LittleEndian.AppendUint32(nil, 6)
	m.files["/golden/720"] = binary.LittleEndian.AppendUint32(nil, 720)
	m.add(t, "/images/identified.lmb", written(t, identified()))
	image := identified()
	image.Sequences[0].Commands[3].Value++
	m.add(t, "/images/expects-wrong.lmb", written(t, image))
	image = identified()
	image.Sequences[0].Commands[2] = poll(0x00, 0xff, 0x01, 20_000)
	m.add(t, "/images/polls-in-vain.lmb", written(t, image))
	image = identified()
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
