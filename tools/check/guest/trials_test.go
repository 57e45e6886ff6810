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

// trial skips what takes minutes.
func trial(t *testing.T) {
	t.Helper()
	if os.Getenv("LM_RECORD_TRIALS") != "1" {
		t.Skip("trials of minutes: ./build.sh record-trials")
	}
}

// TestRecordedTrialsOfMemtool, Debian's, which maps its resource to read only, or
// physical memory: on registers of edu and of the NVMe controller. What is
// imported of what it reads last, edu's identification, holds on the mock.
func TestRecordedTrialsOfMemtool(t *testing.T) {
	t.Parallel()
	trial(t)
	for name, runs := range map[string][]string{
		"edu": {"mw -l ADDRESS+4 0x12345678", "md -l ADDRESS+8", "mw -l -d PATH 4 0x9abcdef0",
			"md -l -s PATH 0+8", "mw -q -d PATH 0x80 0x1122334455667788", "md -q -s PATH 0x80+8",
			"md -l ADDRESS+4"},
		"nvme": {"md -q ADDRESS+8", "md -l -s PATH 0+64", "mw -l ADDRESS+0x24 0x000f000f",
			"md -w -s PATH 0x24+4"},
	} {
		t.Run(name, func(t *testing.T) {
			of := map[string]region{"edu": edu, "nvme": nvmeBar}[name]
			file, _ := recordedIn(t, of, "resource0",
				func(m *machine) { m.addDebian(t, "/usr/bin/memtool") },
				strings.Fields("/usr/bin/memtool "+strings.Join(runs, " ; /usr/bin/memtool "))...)
			if name == "nvme" {
				return
			}
			path, _ := made(t, "import", "--from", "record", saved(t, file))
			if out, err := exec.Command(tool(t, "LM_GUEST_LM"), "replay", "--device", "mock:edu",
				path).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestRecordedTrialsThroughAnInnerQemu: what the page of board files says of a card
// that QEMU passes to a guest. The card is edu, the machine with the IOMMU this
// guest, in which Debian's QEMU passes it on. Its trace has what reached edu, and
// an image made of it does the same on the mock.
func TestRecordedTrialsThroughAnInnerQemu(t *testing.T) {
	t.Parallel()
	trial(t)
	program := filepath.Join(t.TempDir(), "program")
	c := exec.Command("aarch64-linux-gnu-gcc", "-O2", "-ffreestanding", "-mgeneral-regs-only",
		"-nostdlib", "-static", "-Wl,-N,--build-id=none,-Ttext=0x40100000",
		"-o", program, "../../capture/recorder/testdata/passed.c")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m, console := inside(t, func(m *machine) {
		m.virt, m.kernel = iommu, tool(t, "LM_GUEST_NEW_KERNEL")
		m.addModules(t, "LM_GUEST_NEW_MODULES")
		m.addDebian(t, "/usr/bin/qemu-system-aarch64")
		m.add(t, "/program", program)
		m.traceIt()
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
	got, err := parseServed(strings.NewReader(inner.String()), name+":region0+")
	if err != nil {
		t.Fatal(err)
	}
	outer, err := os.Open(m.trace)
	if err != nil {
		t.Fatal(err)
	}
	defer outer.Close()
	want, err := parseTrace(outer, edu)
	if err != nil || len(want) == 0 || !slices.Equal(got, want) {
		t.Fatalf("%v: the inner QEMU's trace has %v, the outer's %v", err, got, want)
	}
	t.Logf("evidence: %d accesses in the inner QEMU's trace equal to the outer's", len(got))
	path, _ := made(t, "import", "--from", "qemu", "--region", name, "--board", "edu",
		saved(t, []byte(inner.String())))
	if out, err := exec.Command(tool(t, "LM_GUEST_LM"), "replay", "--device", "mock:edu",
		path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
