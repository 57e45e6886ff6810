package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lightmetal/fbs/gen"
)

// mmiotraceInit is PID 1 of the guest of TestRecordedTrialsOfMmiotrace. /page has the commands of
// the page. Afterwards the wrong order is tried: nop while cat reads. ttyS1 is a file of the host.
const mmiotraceInit = `#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
mount -t tracefs nodev /sys/kernel/tracing
modprobe() { if [ "$1" = -r ]; then rmmod $2; else insmod /$1.ko; fi; }
state() { echo "$1: status $?, $(cat current_tracer), processors: $(nproc)"; }
for m in mmc_core cqhci sdhci sdhci-pci; do modprobe $m; done

. /page
state "order of the page"
stty -F /dev/ttyS1 raw
cat /root/card.mmiotrace >/dev/ttyS1

echo mmiotrace >current_tracer
cat trace_pipe >/root/wrong &
until grep -q VERSION /root/wrong; do usleep 100000; done
echo nop >current_tracer
state "nop before the end of cat"
kill %1; wait %1
echo nop >current_tracer
state "nop after the end of cat"
poweroff -f
`

// TestRecordedTrialsOfMmiotrace runs the commands of RECORDING.md for mmiotrace in an amd64 guest
// with QEMU's SD host controller, whose driver is a module, and imports the trace.
func TestRecordedTrialsOfMmiotrace(t *testing.T) {
	t.Parallel()
	skipUnlessTrials(t)
	page, err := os.ReadFile("../../capture/RECORDING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, commands, _ := strings.Cut(string(page), "```sh\ncd /sys/kernel/tracing")
	commands, _, found := strings.Cut("cd /sys/kernel/tracing"+commands, "```")
	if !found {
		t.Fatal("RECORDING.md has no commands for mmiotrace")
	}
	modules := fromEnv(t, "LM_GUEST_AMD64_MODULES")
	m := &machine{initProgram: filepath.Join(t.TempDir(), "init"), files: map[string][]byte{
		"/page":  []byte(strings.ReplaceAll(commands, "DRIVER", "sdhci-pci")),
		"/root/": nil,
	}}
	if err := os.WriteFile(m.initProgram, []byte(mmiotraceInit), 0o755); err != nil {
		t.Fatal(err)
	}
	m.addFile(t, "/bin/busybox", filepath.Join(modules, "busybox"))
	for _, name := range []string{"mmc_core.ko", "cqhci.ko", "sdhci.ko", "sdhci-pci.ko"} {
		m.addFile(t, "/"+name, filepath.Join(modules, name))
	}
	console, trace := m.bootAmd64(t)
	for _, want := range []string{
		"order of the page: status 0, nop, processors: 2",
		"write error: Device or resource busy",
		"nop before the end of cat: status 1, mmiotrace, processors: 1",
		"nop after the end of cat: status 0, nop, processors: 2",
	} {
		if !strings.Contains(console, want) {
			t.Errorf("the guest's output has no line %q", want)
		}
	}
	_, image := makeImage(t, "import", "--device", "1b36:0007", "--board", "generic",
		"--rule", "0=1,2,4", trace)
	commandCounts := map[gen.Opcode]int{}
	for _, c := range image.Sequences[0].Commands {
		commandCounts[c.Opcode]++
	}
	t.Logf("evidence: the image has %v", commandCounts)
	if commandCounts[gen.OpcodeWrite] == 0 || commandCounts[gen.OpcodeExpect] == 0 {
		t.Errorf("the image has no stores or no loads")
	}
	if t.Failed() {
		t.Logf("output of the guest:\n%s", console)
	}
}

// bootAmd64 boots a PC with an SD host controller until it powers off. It returns the text of its
// console and the path of what it wrote to ttyS1.
func (m *machine) bootAmd64(t *testing.T) (console, serial string) {
	t.Helper()
	dir := t.TempDir()
	serial = filepath.Join(dir, "serial")
	if _, err := m.writeInitramfs(filepath.Join(dir, "initramfs")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	qemu := exec.CommandContext(ctx, "qemu-system-x86_64", "-M", "q35", "-accel", "tcg",
		"-smp", "2", "-m", "512", "-nodefaults", "-display", "none", "-no-reboot",
		"-device", "sdhci-pci", "-serial", "stdio", "-serial", "file:"+serial,
		"-kernel", fromEnv(t, "LM_GUEST_AMD64_KERNEL"), "-initrd", filepath.Join(dir, "initramfs"),
		"-append", "console=ttyS0 loglevel=1 panic=-1 mitigations=off")
	out, err := qemu.CombinedOutput()
	if err != nil {
		t.Fatalf("qemu-system-x86_64: %v\n%s", err, out)
	}
	return string(out), serial
}
