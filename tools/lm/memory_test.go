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

	"lightmetal/tools/image/lmb/lmbtest"
)

// TestMemoryIsInProportionToTheFile runs every command that reads an image as a process of its
// own, on images of about 1 MB whose references add up to gigabytes. Each must come to its end,
// with a code of its own and not that of a Go program without memory, and its peak must stay
// below a fixed part, for lm itself, and a multiple of the file. Text that it prints must too.
func TestMemoryIsInProportionToTheFile(t *testing.T) {
	const (
		commands, payload = 1500, 1 << 20
		base, perByte     = 64 << 20, 64
		textPerByte       = 16
	)
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
		t.Logf("lm sign is left out: %v %s", err, out)
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
			peak, exit, text, errors := limitedProcess(t, self, args...)
			if exit < 0 || exit == 2 {
				t.Errorf("%s: lm %s ended with %d: %.300s", name, line, exit, errors)
			}
			if peak > most {
				t.Errorf("%s, %d bytes: lm %s took %d MiB, at most %d are wanted", name, len(file),
					line, peak>>20, most>>20)
			}
			if text > textPerByte*len(file) {
				t.Errorf("%s, %d bytes: lm %s printed %d bytes", name, len(file), line, text)
			}
		}
	}
}

// limitedProcess runs lm with 8 GiB of address space, so that a command that wants all memory
// fails before the machine does (what an image reserves for tensors takes some of it, and no
// memory until it is used), and stops it when it has printed far too much. It returns the
// peak of its memory, its exit status, -1 for a signal, and the size of what it printed.
func limitedProcess(t *testing.T, self string, args ...string) (peak, exit, printed int,
	errors string) {
	t.Helper()
	const addresses, most = 8 << 20, 256 << 20 // KiB, bytes
	line := []string{"-c", "ulimit -v " + strconv.Itoa(addresses) + `; exec "$0" "$@"`, self}
	c := exec.Command("sh", append(line, args...)...)
	peakPath := filepath.Join(t.TempDir(), "peak")
	c.Env = append(os.Environ(), peakFile+"="+peakPath)
	out := &counted{most: most}
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

// peakFile names the file into which a process of this test writes the peak of the memory of
// the lm that it starts, in bytes.
const peakFile = "LM_TEST_PEAK"

// measureLm runs this process's command line as lm in a child, writes the child's peak into a
// file and exits with its status. The process between the test and lm is needed because the
// kernel counts the memory of the process that starts another to the peak of the new one
// (linux, fs/exec.c, setmax_mm_hiwater_rss), and other tests make this one large.
func measureLm(peakPath string) {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	c := exec.Command(self, os.Args[1:]...)
	c.Env = append(os.Environ(), peakFile+"=", asLm+"=1")
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

// counted counts what is written, and fails after most bytes.
type counted struct{ size, most int }

func (c *counted) Write(data []byte) (int, error) {
	if c.size += len(data); c.size > c.most {
		return 0, syscall.EFBIG
	}
	return len(data), nil
}
