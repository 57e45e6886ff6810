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

// skipUnlessTrials skips a trial, unless LM_RECORD_TRIALS is 1. A trial is a test of `lm record` in
// the guest that takes minutes.
func skipUnlessTrials(t *testing.T) {
	t.Helper()
	if os.Getenv("LM_RECORD_TRIALS") != "1" {
		t.Skip("takes minutes; ./build.sh record-trials runs it")
	}
}

// TestRecordedTrialsOfMemtool records Debian's memtool while it accesses registers of edu and of
// the NVMe controller. memtool maps either the resource file, read-only for loads, or physical
// memory. For each device, the record must have the same accesses as QEMU's trace. The accesses to
// edu are also imported as an image, whose replay on the mock must succeed.
func TestRecordedTrialsOfMemtool(t *testing.T) {
	t.Parallel()
	skipUnlessTrials(t)
	for name, runs := range map[string][]string{
		"edu": {"mw -l ADDRESS+4 0x12345678", "md -l ADDRESS+8", "mw -l -d PATH 4 0x9abcdef0",
			"md -l -s PATH 0+8", "mw -q -d PATH 0x80 0x1122334455667788", "md -q -s PATH 0x80+8",
			"md -l ADDRESS+4"},
		"nvme": {"md -q ADDRESS+8", "md -l -s PATH 0+64", "mw -l ADDRESS+0x24 0x000f000f",
			"md -w -s PATH 0x24+4"},
	} {
		t.Run(name, func(t *testing.T) {
			traced := map[string]region{"edu": edu, "nvme": nvmeBar}[name]
			file, _ := recordPrograms(t, traced, "resource0",
				func(m *machine) { m.addDebianPrograms(t, "/usr/bin/memtool") },
				strings.Fields("/usr/bin/memtool "+strings.Join(runs, " ; /usr/bin/memtool "))...)
			if name == "nvme" {
				return
			}
			path, _ := makeImage(t, "import", "--from", "record", writeTempImage(t, file))
			if out, err := exec.Command(fromEnv(t, "LM_GUEST_LM"), "replay", "--device", "mock:edu",
				path).CombinedOutput(); err != nil {
				t.Errorf("lm replay: %v, want success; output:\n%s", err, out)
			}
		})
	}
}

// TestRecordedTrialsOfNestedQemu tests the statement of the page about board files on a card that
// QEMU passes through to a guest. The card is edu, and the host with an IOMMU is the guest of this
// test: in it, Debian's QEMU passes edu through to an inner guest. The trace of the inner QEMU must
// be equal to the trace of the outer one, and an image imported from it is replayed on the mock.
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
