package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// skipUnlessTrials skips a trial, unless LM_RECORD_TRIALS is 1. A trial is a test of `lm record`
// in the guest that takes minutes.
func skipUnlessTrials(t *testing.T) {
	t.Helper()
	if os.Getenv("LM_RECORD_TRIALS") != "1" {
		t.Skip("takes minutes; ./build.sh record-trials runs it")
	}
}

// TestRecordedTrialsOfNestedQemu tests the statement of the page about board files on a card that
// QEMU passes through to a guest. The card is edu, and the host with an IOMMU is the guest of this
// test: in it, Debian's QEMU passes edu through to an inner guest. The trace of the inner QEMU
// must be equal to the trace of the outer one, and an image imported from it is replayed on the
// mock.
func TestRecordedTrialsOfNestedQemu(t *testing.T) {
	t.Parallel()
	skipUnlessTrials(t)
	program := filepath.Join(t.TempDir(), "program")
	c := exec.Command("aarch64-linux-gnu-gcc", "-O2", "-ffreestanding", "-mgeneral-regs-only",
		"-nostdlib", "-static", "-Wl,-N,--build-id=none,-Ttext=0x40100000",
		"-o", program, "../../capture/recorder/testdata/passed.c")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("aarch64-linux-gnu-gcc: %v\n%s", err, out)
	}
	m, console := runInside(t, func(m *machine) {
		m.machineType, m.kernel = iommuMachine, fromEnv(t, "LM_GUEST_NEW_KERNEL")
		m.addModules(t, "LM_GUEST_NEW_MODULES")
		m.addDebianPrograms(t, "/usr/bin/qemu-system-aarch64")
		m.addFile(t, "/program", program)
		m.enableTrace()
	}, "vfio", `ready edu
run 0 "" /usr/bin/qemu-system-aarch64 -M virt,highmem=off -accel tcg -cpu cortex-a53 -m 16 \
  -nodefaults -display none -device vfio-pci,host=@edu,x-no-mmap=on,addr=1,rombar=0 \
  -kernel /program -trace vfio_region_* -D /tmp/trace
show-file trace: /tmp/trace
`)
	var inner strings.Builder
	for line := range strings.Lines(console) {
		if text, ok := strings.CutPrefix(line, "trace: "); ok {
			inner.WriteString(text)
		}
	}
	name := regexp.MustCompile(`[0-9a-f:]+\.[0-7]`).FindString(inner.String())
	got, err := parseServedTrace(strings.NewReader(inner.String()), name+":region0+")
	if err != nil {
		t.Fatal(err)
	}
	outer, err := os.Open(m.traceFile)
	if err != nil {
		t.Fatal(err)
	}
	defer outer.Close()
	want, err := parseTrace(outer, edu)
	if err != nil {
		t.Fatalf("reading the outer QEMU's trace: %v", err)
	}
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Fatalf("the inner QEMU's trace has the accesses %v, want those of the outer's, at least "+
			"one: %v", got, want)
	}
	t.Logf("evidence: %d accesses in the inner QEMU's trace equal to the outer's", len(got))
	path, _ := makeImage(t, "import", "--from", "qemu", "--region", name, "--board", "edu",
		writeTempImage(t, []byte(inner.String())))
	if out, err := exec.Command(fromEnv(t, "LM_GUEST_LM"), "replay", "--device", "mock:edu",
		path).CombinedOutput(); err != nil {
		t.Errorf("lm replay: %v, want success; output:\n%s", err, out)
	}
}
