package main

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// bootTimeout is the time limit of a boot. On a busy host, a boot takes minutes, and the log of
// instructions makes it several times slower.
func bootTimeout() time.Duration {
	if coverageDir != "" {
		return 40 * time.Minute
	}
	return 10 * time.Minute
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

// makeImage runs lm, which writes an image. It returns the path of the image and the decoded
// image.
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

// addServed adds devices that `lm serve` serves.
func (m *machine) addServed(t *testing.T, devices ...string) {
	t.Helper()
	m.qemu, m.lmProgram = fromEnv(t, "LM_GUEST_QEMU"), fromEnv(t, "LM_GUEST_LM")
	for _, device := range devices {
		m.servedDevices = append(m.servedDevices, []string{device})
	}
}

// enableTrace makes QEMU trace the accesses to devices.
func (m *machine) enableTrace() { m.traceFile = filepath.Join(m.dir, "trace") }
