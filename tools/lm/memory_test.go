package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"lightmetal/tools/check/effort"
	"lightmetal/tools/image/lmb/lmbtest"
)

// TestMemoryIsInProportionToTheFile runs every command that reads an image as a process of its own,
// on images of about 1 MB whose references add up to at least 500 MB. Each command must end with an
// exit status of lm, not with the one of a Go program without memory. Its peak memory must stay
// below a fixed part, for lm itself, plus a multiple of the size of the file. The size of the text
// that it prints is limited too.
func TestMemoryIsInProportionToTheFile(t *testing.T) {
	effort.SkipShort(t)
	const (
		payload       = 1 << 20
		base, perByte = 64 << 20, 64
		textPerByte   = 16
	)
	commands := effort.Cases(0, 500, 1500)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("a.bin", make([]byte, 64), 0o644); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key.pem")
	if out, err := exec.Command("openssl", "genpkey", "-algorithm", "ed25519", "-out",
		key).CombinedOutput(); err != nil {
		t.Logf("lm sign is not tested: openssl genpkey: %v %s", err, out)
		key = ""
	}
	for name, file := range lmbtest.Hostile(t, commands, payload) {
		const image, other = "image.lmb", "other.lmb"
		for _, path := range []string{image, other} {
			if err := os.WriteFile(path, file, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		device := "mock:ivshmem"
		if name == "points" {
			device = "mock:wormhole"
		}
		list := []string{
			"info", "info --json", "verify", "verify --together other.lmb", "dump", "dump --json",
			"trim --marks -o out.lmb", "trim --sequence main -o out.lmb", "set a=a.bin -o out.lmb",
			"report", "report --json", "report --sequence short", "report -o out.html",
			"diff other.lmb", "compare d=a.bin", "tensor",
			"replay --sequence short --device " + device,
			"replay --sequence short --device playback:image.lmb",
			"replay --sequence short --profile out.json --device " + device,
		}
		if key != "" {
			list = append(list, "sign --key "+key+" -o out.lmb")
		}
		for _, line := range list {
			args := strings.Fields(line)
			args = append(args[:1:1], append([]string{image}, args[1:]...)...)
			if args[0] == "tensor" {
				args = []string{"tensor", "a.bin", "out.csv", "--image", image, "--name", "a"}
			}
			most := base + perByte*len(file)
			peak, exit, text, errors := runLimited(t, self, args...)
			if exit < 0 || exit == 2 {
				t.Errorf("%s: lm %s ended with exit status %d, want one of lm: %.300s", name, line,
					exit, errors)
			}
			if peak > most {
				t.Errorf("%s, %d bytes: lm %s used %d MiB of memory, want at most %d", name,
					len(file), line, peak>>20, most>>20)
			}
			if text > textPerByte*len(file) {
				t.Errorf("%s, %d bytes: lm %s printed %d bytes, want at most %d", name, len(file),
					line, text, textPerByte*len(file))
			}
		}
	}
}

// runLimited runs lm with 8 GiB of address space, so that a command that allocates without a limit
// fails before the machine does. (The address space that an image reserves for tensors counts,
// although it takes no memory until it is used.) runLimited ends lm if it prints more than 256 MiB.
// It returns the peak of its memory in bytes, its exit status (-1 after a signal) and the size of
// its output.
func runLimited(t *testing.T, self string, args ...string) (peak, exit, printed int,
	errors string) {
	t.Helper()
	const most = 256 << 20
	c := exec.Command(self, args...)
	peakPath := filepath.Join(t.TempDir(), "peak")
	c.Env = append(os.Environ(), peakFileVariable+"="+peakPath)
	out := &countingWriter{most: most}
	var errs bytes.Buffer
	c.Stdout, c.Stderr = out, &errs
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(peakPath)
	if err != nil {
		t.Fatal(err)
	}
	if peak, err = strconv.Atoi(string(data)); err != nil {
		t.Fatal(err)
	}
	return peak, c.ProcessState.ExitCode(), out.size, errs.String()
}

// peakFileVariable is an environment variable with the path of a file. If it is set, the test
// program runs as measureLM and writes the peak of lm's memory, in bytes, to this file.
const peakFileVariable = "LM_TEST_PEAK"

// measureLM runs this process's command line as lm in a child with a limited address space, writes
// the child's peak memory to a file and exits with the child's status. The test does not start lm
// itself, because the kernel includes the memory of the starting process in the peak of the process
// that it starts (linux, fs/exec.c, setmax_mm_hiwater_rss). The test's process may be large after
// other tests; the process that runs measureLM is small.
func measureLM(peakPath string) {
	addresses := syscall.Rlimit{Cur: 8 << 30, Max: 8 << 30}
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &addresses); err != nil {
		panic(err)
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	c := exec.Command(self, os.Args[1:]...)
	c.Env = append(os.Environ(), peakFileVariable+"=", asLMVariable+"=1")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := c.Run(); err != nil && c.ProcessState == nil {
		panic(err)
	}
	peak := int(c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) << 10
	if err := os.WriteFile(peakPath, []byte(strconv.Itoa(peak)), 0o600); err != nil {
		panic(err)
	}
	os.Exit(c.ProcessState.ExitCode())
}

// countingWriter counts the bytes that are written, and returns an error after `most` bytes.
type countingWriter struct{ size, most int }

func (c *countingWriter) Write(data []byte) (int, error) {
	if c.size += len(data); c.size > c.most {
		return 0, syscall.EFBIG
	}
	return len(data), nil
}
