package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lightmetal/tools/check/pages"
)

// runBoardFilePage runs the commands on the page about board files, in a temporary directory, up
// to `./build.sh qemu`. It returns the directory and the arguments of `./build.sh qemu`.
func runBoardFilePage(t *testing.T) (dir string, qemu []string) {
	t.Helper()
	commands, err := pages.Read("../../capture/boardfile/README.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if err := errors.Join(pages.Clone(dir, root),
		os.Mkdir(filepath.Join(dir, "build"), 0o755),
		os.Symlink(fromEnv(t, "LM_GUEST_LM"), filepath.Join(dir, "build", "lm"))); err != nil {
		t.Fatal(err)
	}
	for _, c := range commands {
		if strings.HasPrefix(c.Text, "./build.sh qemu ") {
			return dir, c.Words()[2:]
		}
		if c.Elsewhere || strings.HasPrefix(c.Text, "go build") { // lm has been built already
			continue
		}
		if err := c.Give(dir); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("no ./build.sh qemu on the page")
	return "", nil
}

// TestCommandsOnBoardFilePageReplayACustomDevice serves the recorded device to a guest, whose
// kernel finds it by its ids and BARs, and replays the image on it. The served recording rejects
// any access that was not recorded.
func TestCommandsOnBoardFilePageReplayACustomDevice(t *testing.T) {
	kernel, lmrun, qemu, lm := fromEnv(t, "LM_GUEST_KERNEL"), fromEnv(t, "LM_GUEST_LMRUN"),
		fromEnv(t, "LM_GUEST_QEMU"), fromEnv(t, "LM_GUEST_LM")
	dir, args := runBoardFilePage(t)
	if len(args) < 3 || args[1] != "--with" {
		t.Fatalf("the page has the command ./build.sh qemu %v, without --with", args)
	}
	t.Chdir(dir)
	trace := filepath.Join(dir, "trace")
	m := &machine{files: map[string][]byte{}, stdout: io.Discard}
	exit, err := runGuest(append([]string{"-kernel", kernel, "-lmrun", lmrun, "-qemu", qemu,
		"-lm", lm, "-trace", trace, "-with", args[2], args[0], "--"}, args[3:]...), m)
	if exit != 0 || err != nil {
		t.Fatalf("guest %v: exit status %d, error %v", args, exit, err)
	}
	log, err := os.ReadFile(trace)
	if err != nil || strings.Count(string(log), "vfio_region_write") < 10 {
		t.Errorf("error %v, or fewer than 10 writes in QEMU's trace:\n%s", err, log)
	}
}

// TestProgramOnCustomDeviceIsRecordedThroughQEMU runs a C program in the guest, on a served device
// that has no board file in this repository. The images imported from QEMU's trace of the device
// (vfio_region) and from the record of `lm record` in the guest must be equal.
func TestProgramOnCustomDeviceIsRecordedThroughQEMU(t *testing.T) {
	t.Parallel()
	dir, _ := runBoardFilePage(t)
	buildPath := func(name string) string { return filepath.Join(dir, "build", name) }
	m, console := runInside(t, func(m *machine) {
		addRecorder(t, m)
		m.addProgram(t, "../../capture/boardfile/testdata/adder.c")
		m.addServed(t, "playback:"+buildPath("adder.record")+","+buildPath("adder.board"))
	}, "pci", "write /sys/bus/pci/devices/@slot8/enable 1\n"+
		"record /adder /sys/bus/pci/devices/@slot8/resource0 "+
		"/sys/bus/pci/devices/@slot8/resource2\n")
	log, err := os.ReadFile(m.traceFile)
	if err != nil {
		t.Fatal(err)
	}
	device := regexp.MustCompile(`vfio_region_\w+  \((vfio-user:[^:]+):region`).FindSubmatch(log)
	if device == nil {
		t.Fatalf("QEMU's trace has no access to the device:\n%s", log)
	}
	t.Logf("QEMU's lines: %.200s", log)
	_, record := recordsOnConsole(t, console)
	if err := os.WriteFile(buildPath("guest.record"), record, 0o600); err != nil {
		t.Fatal(err)
	}
	var dumps [2]string
	for i, from := range [2][]string{{"--from", "qemu", "--region", string(device[1]), m.traceFile},
		{"--from", "record", buildPath("guest.record")}} {
		image := buildPath("guest.lmb")
		for _, args := range [][]string{
			append([]string{"import", "--board", buildPath("adder.board"), "-o", image}, from...),
			{"replay", "--device",
				"playback:" + buildPath("adder.record") + "," + buildPath("adder.board"), image},
			{"dump", image},
		} {
			out, err := exec.Command(fromEnv(t, "LM_GUEST_LM"), args...).CombinedOutput()
			if err != nil {
				t.Fatalf("lm %v: %v\n%s", args, err, out)
			}
			_, dumps[i], _ = strings.Cut(string(out), "\nmain:\n")
		}
	}
	if dumps[0] != dumps[1] || strings.Count(dumps[0], "\n") < 10 {
		t.Errorf("the images differ, or are too short: from QEMU's trace:\n%sfrom the recorder "+
			"in the guest:\n%s", dumps[0], dumps[1])
	}
}
