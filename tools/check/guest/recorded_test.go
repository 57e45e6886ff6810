package main

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// addReservedMemory adds 16 MiB of memory to the machine that the kernel does not use. The device
// tree declares that its contents survive a reset. The kernel makes it accessible as /dev/pmem0.
func (m *machine) addReservedMemory(t *testing.T) {
	t.Helper()
	const kernelMiB, first = "448", "5c000000" // memory starts at 1 GiB
	tree := filepath.Join(t.TempDir(), "tree.dtb")
	for _, line := range []string{
		"qemu-system-aarch64 -M virt,dumpdtb=" + tree + " -cpu cortex-a72 -smp 2 -m 512 -nic none",
		"fdtput -p -t s " + tree + " /pmem@" + first + " compatible pmem-region",
		"fdtput -t x " + tree + " /pmem@" + first + " reg 0 " + first + " 0 1000000",
	} {
		words := strings.Fields(line)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v, %s", line, err, out)
		}
	}
	m.kernelArgs += " mem=" + kernelMiB + "M"
	// QEMU uses the last action. Without it, QEMU would end at a reset, because of -no-reboot.
	m.extraArgs = append(m.extraArgs, "-dtb", tree, "-action", "reboot=reset")
}

// injector copies the console. When the guest prints "inject errors", the injector makes QEMU
// inject PCI errors of the device `network`.
type injector struct {
	monitor *qemuMonitor
	console strings.Builder
}

// Write implements io.Writer.
func (i *injector) Write(text []byte) (int, error) {
	i.console.Write(text)
	if !strings.HasSuffix(i.console.String(), "inside: inject errors\n") {
		return len(text), nil
	}
	for _, arguments := range []string{"network COMP_TIME", "-c network BAD_TLP"} {
		const command = `{"execute": "human-monitor-command", "arguments": ` +
			`{"command-line": "pcie_aer_inject_error %s"}}` + "\n"
		if _, err := fmt.Fprintf(i.monitor.to, command, arguments); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}

// TestRecordedFailureSurvivesAReset boots a machine that resets itself once, and checks that the
// recorded failure is still there. Then a device reports PCI errors, which are recorded, too.
func TestRecordedFailureSurvivesAReset(t *testing.T) {
	t.Parallel()
	var monitor qemuMonitor
	r := bootScenarios(t, "keeps-memory", "pci", func(m *machine) {
		m.addReservedMemory(t)
		m.addModules(t, "LM_GUEST_MODULES")
		m.extraArgs = append(m.extraArgs, "-device", "e1000e,addr=9,id=network,romfile=")
		m.extraArgs = append(m.extraArgs, monitor.start(t, m.dir)...)
		m.stdout = io.MultiWriter(m.stdout, &injector{monitor: &monitor})
		m.addFile(t, "/lm", buildForGuest(t, "lightmetal/tools/lm"))
		const wrong = `lightmetal 1
device edu 1234:11e8 bar0 1MiB
window regs bar0 offset 0x0 size 1MiB
main:
  write.4 regs+0x4 0x1
  expect.4 regs+0x0 == 0x010000ee
safe:
  write.4 regs+0x4 0x2
`
		m.addImage(t, "wrong", wrong)
		m.addImage(t, "network", `lightmetal 1
device network 8086:10d3 bar0 128KiB
rule all bar0 widths 4
window regs bar0 offset 0x0 size 128KiB
main:
  expect.4 regs+0x8 == 0x12345678
`)
	})
	r.requireAllPassed(t)
	if t.Failed() {
		t.Logf("QEMU's events: %s", monitor.events(t))
	}
	if strings.Count(r.console, "inside: resetting the machine") != 1 {
		t.Errorf("the machine was reset %d times, want once; the console:\n%s",
			strings.Count(r.console, "inside: resetting the machine"), r.console)
	}
}
