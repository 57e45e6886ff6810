package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lightmetal/testdata/workloads"
)

// workloadProgram is the directory of a program that captures workloads.
const workloadProgram = testdata + "/workloads/run"

// buildMain builds the main package of a directory and returns the path of the executable.
func buildMain(t *testing.T, folder string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", "build", "-o", out, ".")
	build.Dir = folder
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build in %s: %v\n%s", folder, err, text)
	}
	return out
}

func TestCaptureBuildsAndRunsAFolder(t *testing.T) {
	out := filepath.Join(t.TempDir(), "x.lmb")
	if exit := runSilently(t, "capture", workloadProgram, "loopback", "--board", "blackhole", "-o",
		out); exit != 0 {
		t.Fatalf("lm capture exits %d, want 0", exit)
	}
	if exit := runSilently(t, "verify", out); exit != 0 {
		t.Errorf("lm verify exits %d, want 0", exit)
	}
}

// TestCaptureRunsAProgramOfAnotherModule puts the program of tools/metal/README.md and the source
// of a kernel into a module of its own.
func TestCaptureRunsAProgramOfAnotherModule(t *testing.T) {
	readme, err := os.ReadFile("../metal/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "```go\n")
	program, _, closed := strings.Cut(rest, "```\n")
	if !ok || !closed {
		t.Fatal("tools/metal/README.md has no Go program")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("../../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	module := strings.Replace(string(ours), "module lightmetal", "module mine", 1) +
		"\nrequire lightmetal v0.0.0\nreplace lightmetal => " + root + "\n"
	folder := t.TempDir()
	for name, text := range map[string]string{"main.go": program, "go.mod": module,
		"go.sum": string(sums), "kernel.c": "int kernel;\n", "kernel.h": "\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(folder, "mine.lmb")
	if exit, text := lmStderr(t, "capture", folder, "--device", "mock:wormhole", "-o",
		out); exit != 0 {
		t.Fatalf("lm capture exits %d, want 0: %s", exit, text)
	}
	image, _ := decodeFile(out)
	if len(image.Tensors) != 1 || image.Tensors[0].Name != "x" || image.Origin.Source != "mine" {
		t.Errorf("the image has tensors %+v and source %q, want a tensor x and source mine",
			image.Tensors, image.Origin.Source)
	}
}

// TestImagesOfWorkloadsReplayInAFreshProcess shows that a replay needs nothing but the image:
// another program replays it, in an otherwise empty directory and without environment variables.
func TestImagesOfWorkloadsReplayInAFreshProcess(t *testing.T) {
	lm, program := buildMain(t, "."), buildMain(t, workloadProgram)
	if exit := runSilently(t, "capture", program, "--list"); exit != 0 {
		t.Errorf("lm capture --list exits %d, want 0", exit)
	}
	for _, chip := range []string{"wormhole", "blackhole"} {
		for _, w := range workloads.All {
			folder := t.TempDir()
			image := filepath.Join(folder, "image.lmb")
			if exit := runSilently(t, "capture", program, w.Name, "--device", "mock:"+chip, "-o",
				image); exit != 0 {
				t.Errorf("lm capture %s on %s exits %d, want 0", w.Name, chip, exit)
				continue
			}
			replay := exec.Command(lm, "replay", "--device", "mock:"+chip, "--check-golden",
				"image.lmb")
			replay.Dir, replay.Env = folder, []string{}
			if text, err := replay.CombinedOutput(); err != nil {
				t.Errorf("replay of %s on %s: %v\n%s", w.Name, chip, err, text)
			}
		}
	}
}

func TestCaptureRejectsProgramsThatItCannotRun(t *testing.T) {
	folder := t.TempDir()
	noProgram := filepath.Join(folder, "notes.txt")
	if err := os.WriteFile(noProgram, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	program := buildMain(t, workloadProgram)
	for _, test := range []struct {
		args string
		exit int
		want string
	}{
		{"", 64, "capture takes one program"},
		{"a b c", 64, "capture takes one program"},
		{filepath.Join(folder, "nothing"), 66, "no such file"},
		{noProgram, 64, "cannot be run"},
		{folder, 64, "go build in"},
		{"/bin/true", 65, "wrote no image"},
		{program, 64, "the name of a workload is missing; use one of: buffer-interleaved"},
		{program + " nothing --board wormhole", 64,
			`there is no workload "nothing"; use one of: buffer-interleaved`},
		{program + " loopback", 64, "with --device none, use --board"},
		{program + " loopback --board nothing", 64, `no board "nothing"`},
		{program + " loopback --device mock:nothing", 64, `no board "nothing"`},
		{program + " loopback --device mock:edu", 64, "the board must have a grid"},
		{program + " loopback --board blackhole --device mock:wormhole", 78,
			"mock:wormhole has PCI ids 1e52:401e"},
		{program + " loopback --device ttsim:/nothing", 69, "simulator library does not exist"},
	} {
		exit, text := lmStderr(t, append([]string{"capture"}, strings.Fields(test.args)...)...)
		if exit != test.exit || !strings.Contains(text, test.want) {
			t.Errorf("lm capture %s exits %d, want %d; stderr %q, want %q", test.args, exit,
				test.exit, text, test.want)
		}
	}
}

// lmStderr runs lm and returns its exit status and standard error.
func lmStderr(t *testing.T, args ...string) (exit int, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stderr")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stderr := os.Stderr
	os.Stderr = file
	exit = run(args)
	os.Stderr = stderr
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return exit, string(data)
}
