package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lightmetal/tools/check/pages"
)

// TestLinuxOwnDriverIsRecordedOnAServedDevice: Linux's NVMe driver writes and
// reads blocks of our NVMe device, by interrupts. The commands of the page about
// that make images of it, of the server's recording and of QEMU's trace, and
// replay one; that replays on QEMU's own controller, too.
func TestLinuxOwnDriverIsRecordedOnAServedDevice(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	m, _ := inside(t, func(m *machine) {
		// On two processors the driver may ring the doorbell for a new command before the one for
		// the previous completion. The mock fetches the command some time after the later doorbell,
		// so the recording has the command after its doorbell, and its image waits in vain.
		m.linuxNvme, m.processors = true, 1
		m.serveTo(t, "mock:nvme")
		m.with[0] = append(m.with[0], "--trace", filepath.Join(folder, "nvme.record"))
		m.trace = filepath.Join(folder, "nvme.trace")
	}, "pci", "blocks /sys/bus/pci/devices/@slot8/nvme/nvme*/nvme*n1 8192\n"+
		"unbind nvme @slot8\n")
	if m.served != nil {
		t.Error(m.served)
	}
	memory, ignore := servedDMA(t, folder, filepath.Join(folder, "nvme.record"))
	page := "../../devices/vfiouser/README.md"
	for _, command := range pageCommands(t, page, "import", "replay") {
		command.Text = strings.ReplaceAll(strings.ReplaceAll(command.Text, "/tmp/nvme.sock",
			m.sockets[0]), "HOST", memory)
		runIn(t, folder, tool(t, "LM_GUEST_LM"), command.Words()[1:]...)
	}
	other := append([]string{"import", "--from", "record", "nvme.record", "-o", "other.lmb"},
		ignore...)
	runIn(t, folder, tool(t, "LM_GUEST_LM"), other...)
	theirs := &machine{kernel: tool(t, "LM_GUEST_KERNEL"), lmrun: tool(t, "LM_GUEST_LMRUN"),
		files: map[string][]byte{}, kernelArgs: " hugepages=16",
		dir: t.TempDir(), timeout: bootLimit, stdout: io.Discard}
	if exit, err := theirs.replay(filepath.Join(folder, "other.lmb"), nil); err != nil ||
		exit != 0 {
		t.Errorf("on QEMU's controller: exit %d, %v", exit, err)
	}
	disk, err := os.ReadFile(filepath.Join(theirs.dir, "nvme.img"))
	if err != nil || !bytes.Equal(disk[8192:8192+4096], driverBlock()) {
		t.Errorf("QEMU's controller has other data on its disk, %v", err)
	}
}

// driverBlock is what the driver writes at 8192: inside/nvme.go.
func driverBlock() (data []byte) {
	for i := range 4096 {
		data = append(data, byte(i*7+i>>8))
	}
	return data
}

// pageCommands are those commands of lm on a page, as they stand there.
func pageCommands(t *testing.T, path string, names ...string) (list []pages.Command) {
	t.Helper()
	all, err := pages.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if words := c.Words(); words[0] == "lm" && slices.Contains(names, words[1]) {
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		t.Fatalf("%s has no commands", path)
	}
	return list
}

func runIn(t *testing.T, folder, program string, args ...string) {
	t.Helper()
	c := exec.Command(program, args...)
	c.Dir = folder
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// servedDMA reads what a served device did in memory: flags that give memory as
// it was in the end to an import, and flags that leave out what a device says of
// itself: how many queues it has, and every page that it wrote and that is not
// the driver's block.
func servedDMA(t *testing.T, folder, record string) (memory string, ignore []string) {
	t.Helper()
	file, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	pages := map[uint64][]byte{}
	for line := range strings.Lines(unzipped(t, file)) {
		f := strings.Fields(line)
		if f[0] != "MEM" && f[0] != "HR" && f[0] != "HW" {
			continue
		}
		address, _ := strconv.ParseUint(f[1], 16, 64) // as a test of the server holds it
		if f[0] == "MEM" {
			pages[address] = make([]byte, page)
			continue
		}
		data, _ := hex.DecodeString(f[3])
		copy(pages[address&^(page-1)][address%page:], data)
		identified := len(data) == page && !bytes.Equal(data, driverBlock())
		// what a completion tells of a number of queues, less one, where QEMU has more
		const queues = 0x0002_0002
		if f[0] == "HW" && (identified || binary.LittleEndian.Uint64(data) == queues) {
			ignore = append(ignore, "--ignore",
				fmt.Sprintf("bus:0x%x-0x%x", address, address+uint64(len(data))-1))
		}
	}
	for address, data := range pages {
		name := fmt.Sprintf("%x", address)
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		memory += fmt.Sprintf(" --host m%s=0x%[1]s,%[1]s", name)
	}
	if memory == "" || len(ignore) == 0 {
		t.Fatal("the device reached no memory")
	}
	return memory, ignore
}
