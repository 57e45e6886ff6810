package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lightmetal/tools/check/pages"
)

// aDeviceOfYourOwn gives the commands of the page of that name up to the one that
// boots a kernel, in a folder, and gives that one's arguments.
func aDeviceOfYourOwn(t *testing.T) (folder string, qemu []string) {
	t.Helper()
	commands, err := pages.Read("../../capture/boardfile/README.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	folder = t.TempDir()
	if err := errors.Join(pages.Clone(folder, root),
		os.Mkdir(filepath.Join(folder, "build"), 0o755),
		os.Symlink(tool(t, "LM_GUEST_LM"), filepath.Join(folder, "build", "lm"))); err != nil {
		t.Fatal(err)
	}
	for _, c := range commands {
		if strings.HasPrefix(c.Text, "./build.sh qemu ") {
			return folder, c.Words()[2:]
		}
		if c.Elsewhere || strings.HasPrefix(c.Text, "go build") { // lm is there
			continue
		}
		if err := c.Give(folder); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("no ./build.sh qemu on the page")
	return "", nil
}

// TestGuestDeviceOfYourOwnReplaysAsItsPageSays: a kernel finds the recorded device
// by its ids and BARs, and a replay through a real mapping makes the recorded
// accesses, no others, or the served recording refuses it.
func TestGuestDeviceOfYourOwnReplaysAsItsPageSays(t *testing.T) {
	kernel, lmrun, qemu, lm := tool(t, "LM_GUEST_KERNEL"), tool(t, "LM_GUEST_LMRUN"),
		tool(t, "LM_GUEST_QEMU"), tool(t, "LM_GUEST_LM")
	folder, args := aDeviceOfYourOwn(t)
	if len(args) < 3 || args[1] != "--with" {
		t.Fatalf("the page says ./build.sh qemu %v", args)
	}
	t.Chdir(folder)
	trace := filepath.Join(folder, "trace")
	exit, err := run(append([]string{"-kernel", kernel, "-lmrun", lmrun, "-qemu", qemu, "-lm", lm,
		"-trace", trace, "-with", args[2], args[0], "--"}, args[3:]...))
	if exit != 0 || err != nil {
		t.Fatal(exit, err)
	}
	log, err := os.ReadFile(trace)
	if err != nil || strings.Count(string(log), "vfio_region_write") < 10 {
		t.Errorf("%v; QEMU saw\n%s", err, log)
	}
}

// TestGuestProgramOnAStrangersDeviceIsRecordedThroughQEMU runs a program in C in the
// guest, on a served device that no board has the ids of. What QEMU's trace of the
// device (vfio_region) becomes is what the recorder in the guest wrote becomes.
func TestGuestProgramOnAStrangersDeviceIsRecordedThroughQEMU(t *testing.T) {
	t.Parallel()
	folder, _ := aDeviceOfYourOwn(t)
	in := func(name string) string { return filepath.Join(folder, "build", name) }
	m, console := inside(t, func(m *machine) {
		withRecorder(t, m)
		m.addProgram(t, "../../capture/boardfile/testdata/adder.c")
		m.serveTo(t, "playback:"+in("adder.record")+","+in("adder.board"))
	}, "pci", "enable @slot8\nrecord /program /sys/bus/pci/devices/@slot8/resource0 "+
		"/sys/bus/pci/devices/@slot8/resource2\n")
	log, err := os.ReadFile(m.trace)
	if err != nil {
		t.Fatal(err)
	}
	device := regexp.MustCompile(`vfio_region_\w+  \((vfio-user:[^:]+):region`).FindSubmatch(log)
	if device == nil {
		t.Fatalf("QEMU's trace has no access to the device:\n%s", log)
	}
	t.Logf("QEMU's lines: %.200s", log)
	_, record := recordsOf(t, console)
	if err := os.WriteFile(in("guest.record"), record, 0o600); err != nil {
		t.Fatal(err)
	}
	var dumps [2]string
	for i, from := range [2][]string{{"--from", "qemu", "--region", string(device[1]), m.trace},
		{"--from", "record", in("guest.record")}} {
		image := in("guest.lmb")
		for _, args := range [][]string{
			append([]string{"import", "--board", in("adder.board"), "-o", image}, from...),
			{"replay", "--device", "playback:" + in("adder.record") + "," + in("adder.board"),
				image},
			{"dump", image},
		} {
			out, err := exec.Command(tool(t, "LM_GUEST_LM"), args...).CombinedOutput()
			if err != nil {
				t.Fatalf("lm %v: %v\n%s", args, err, out)
			}
			_, dumps[i], _ = strings.Cut(string(out), "\nmain:\n")
		}
	}
	if dumps[0] != dumps[1] || strings.Count(dumps[0], "\n") < 10 {
		t.Errorf("from QEMU's trace:\n%sfrom the recorder in the guest:\n%s", dumps[0], dumps[1])
	}
}
