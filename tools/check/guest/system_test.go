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

// reached gives what QEMU saw of a region.
func (r replayed) reached(t *testing.T, of region) []access {
	t.Helper()
	log, err := os.Open(r.trace)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	trace, err := parseTrace(log, of)
	if err != nil {
		t.Fatal(err)
	}
	return trace
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

// checkFailure holds a failed run against the plan: main up to the command
// that failed, then all of safe.
func checkFailure(t *testing.T, r replayed, image *lmb.Image, want string) {
	t.Helper()
	failed, rest, err := expanded(t, image, "main").match(r.reached(t, edu))
	if err != nil || failed != want {
		t.Fatalf("main ended at %q, %v, want %s", failed, err, want)
	}
	if failed, rest, err = expanded(t, image, "safe").match(rest); failed != "" || len(rest) > 0 ||
		err != nil {
		t.Errorf("safe: failed at %q, %v left over, %v", failed, rest, err)
	}
}

func TestGuestReplaysTheCaptureOfEduAccessByAccess(t *testing.T) {
	t.Parallel()
	path, image := made(t, "import", "--from", "qemu", "--region", "edu-mmio", "--base",
		"0x10000000", "--board", "edu",
		"../../../testdata/captures/edu.qemutrace")
	r := replayOn(t, hal.OK, path, "-device", "pci:1234:11e8")
	trace := r.reached(t, edu)
	if failed, _, err := expanded(t, image, "main").match(trace); failed != "" || err != nil {
		t.Fatalf("failed at %q, %v", failed, err)
	}
	// The capture computes three factorials, whatever its image looks like.
	var started []uint64
	for _, a := range trace {
		if a.store && a.offset == 8 {
			started = append(started, a.value)
		}
	}
	if len(started) != 3 || started[0] != 5 || started[1] != 10 || started[2] != 12 {
		t.Errorf("started the factorials of %v, want 5, 10, 12", started)
	}
}

func TestGuestComputesAFactorialOfNewInput(t *testing.T) {
	t.Parallel()
	path, image := made(t, "asm", "../../../testdata/listings/edu-factorial.lms")
	dir := t.TempDir()
	n, result := filepath.Join(dir, "n"), filepath.Join(dir, "result")
	input := binary.LittleEndian.AppendUint32(nil, 6)
	if err := os.WriteFile(n, input, 0o644); err != nil {
		t.Fatal(err)
	}
	r := replayOn(t, hal.OK, path, "-sequence", "compute", "-input", "n="+n, "-output",
		"result="+result)
	p, err := expand(image, "compute", edu, map[string][]byte{"n": input})
	if err != nil {
		t.Fatal(err)
	}
	if failed, _, err := p.match(r.reached(t, edu)); failed != "" || err != nil {
		t.Fatalf("failed at %q, %v", failed, err)
	}
	got, err := os.ReadFile(result)
	if want := binary.LittleEndian.AppendUint32(nil, 720); err != nil || !bytes.Equal(got, want) ||
		!bytes.Equal(got, p.outputs["result"]) {
		t.Errorf("output %x, %v, want %x; QEMU saw %x", got, err, want, p.outputs["result"])
	}
}

func TestGuestRunsTheEduListingAccessByAccess(t *testing.T) {
	t.Parallel()
	path, image := made(t, "asm", "../../../testdata/listings/edu-factorial.lms")
	r := replayOn(t, hal.OK, path, "-seal", "-loop", "3")
	p := expanded(t, image, "main")
	p.steps = append(append(p.steps, p.steps...), p.steps...)
	if failed, _, err := p.match(r.reached(t, edu)); failed != "" || err != nil {
		t.Fatalf("failed at %q, %v", failed, err)
	}
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

func TestGuestReportsAnExpectThatFails(t *testing.T) {
	t.Parallel()
	image := identified()
	image.Sequences[0].Commands[3].Value = 479001601
	r := replayOn(t, hal.ExpectFailed, written(t, image))
	checkFailure(t, r, image, "main[3]")
	if !strings.Contains(r.console, "0x1c8cfc00") { // 12!
		t.Errorf("the value that was loaded is not on the console:\n%s", r.console)
	}
}

func TestGuestReportsAPollThatCannotSucceed(t *testing.T) {
	t.Parallel()
	image := identified()
	image.Sequences[0].Commands[2] = poll(0x00, 0xff, 0x01, 20_000)
	checkFailure(t, replayOn(t, hal.DeadlinePassed, written(t, image)), image, "main[2]")
}

func TestGuestRefusesTheWrongDevice(t *testing.T) {
	t.Parallel()
	r := replayOn(t, hal.WrongDevice, written(t, identified()), "-device", "pci:1b36:0010")
	if trace := r.reached(t, edu); len(trace) > 0 {
		t.Errorf("edu was accessed: %v", trace)
	}
}

func TestGuestReportsADeviceThatIsNotThere(t *testing.T) {
	t.Parallel()
	replayOn(t, hal.NoDevice, written(t, identified()), "-device", "pci:1e52:401e")
}

// Every part of a file is changed once: what is not whole never reaches the
// device.
func TestGuestRefusesACorruptImageBeforeTheFirstStore(t *testing.T) {
	t.Parallel()
	image := identified()
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
	for name, change := range map[string]func([]byte) []byte{
		"envelope": func(f []byte) []byte { f[200] ^= 1; return f },
		"payload":  func(f []byte) []byte { f[len(f)-1] ^= 1; return f },
		"size":     func(f []byte) []byte { return f[:len(f)-1] },
	} {
		t.Run(name, func(t *testing.T) {
			r := replayOn(t, hal.BadImage, saved(t, change(bytes.Clone(file))), "-device",
				"pci:1234:11e8")
			if trace := r.reached(t, edu); len(trace) > 0 {
				t.Errorf("edu was accessed: %v", trace)
			}
		})
	}
}

func TestGuestBringsTheRunnersUsageErrorBack(t *testing.T) {
	t.Parallel()
	replayOn(t, hal.Usage, written(t, identified()), "-sequence", "none")
}
