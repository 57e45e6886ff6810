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

// TestLinuxNVMeDriverIsRecordedOnAServedDevice records Linux's NVMe driver, which writes and reads
// blocks of the served NVMe mock and uses interrupts. Then it runs the commands on the page about
// this. They import the server's recording and QEMU's trace, and replay an image. Finally, it
// replays an image of the recording on QEMU's own controller.
func TestLinuxNVMeDriverIsRecordedOnAServedDevice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m, _ := runInside(t, func(m *machine) {
		// On two processors, the driver may ring the doorbell for a new command before the
		// doorbell for the previous completion. The mock fetches the command some time after the
		// later doorbell. Then the recording has the command after its doorbell, and polls of its
		// image time out.
		m.linuxDrivesNVMe, m.processors = true, 1
		m.addServed(t, "mock:nvme")
		m.servedDevices[0] = append(m.servedDevices[0], "--trace",
			filepath.Join(dir, "nvme.record"))
		m.traceFile = filepath.Join(dir, "nvme.trace")
	}, "pci", "blocks /sys/bus/pci/devices/@slot8/nvme/nvme*/nvme*n1 8192\n"+
		"write /sys/bus/pci/drivers/nvme/unbind @slot8\n")
	if m.serversErr != nil {
		t.Error(m.serversErr)
	}
	memory, ignore := readDMARecord(t, dir, filepath.Join(dir, "nvme.record"))
	page := "../../devices/vfiouser/README.md"
	for _, command := range commandsOnPage(t, page, "import", "replay") {
		if slices.Contains(command.Words(), "--find-frames") {
			continue // of the next test
		}
		command.Text = strings.ReplaceAll(strings.ReplaceAll(command.Text, "/tmp/nvme.sock",
			m.socketPaths[0]), "HOST", memory)
		runInDir(t, dir, fromEnv(t, "LM_GUEST_LM"), command.Words()[1:]...)
	}
	importArgs := append([]string{"import", "--from", "record", "nvme.record", "-o", "other.lmb"},
		ignore...)
	runInDir(t, dir, fromEnv(t, "LM_GUEST_LM"), importArgs...)
	qemuOnly := &machine{kernel: fromEnv(t, "LM_GUEST_KERNEL"), lmrun: fromEnv(t, "LM_GUEST_LMRUN"),
		files: map[string][]byte{}, kernelArgs: " hugepagesz=2M hugepages=16",
		dir: t.TempDir(), timeout: bootTimeout(), stdout: io.Discard}
	if exit, err := qemuOnly.replay(filepath.Join(dir, "other.lmb"), nil); err != nil ||
		exit != 0 {
		t.Errorf("replay on QEMU's controller: exit status %d, error %v", exit, err)
	}
	disk, err := os.ReadFile(filepath.Join(qemuOnly.dir, "nvme.img"))
	if err != nil || !bytes.Equal(disk[8192:8192+4096], driverBlock()) {
		t.Errorf("QEMU's controller has other data on its disk, or error %v", err)
	}
}

// TestFramesOfLinuxNVMeDriverAreReplayed records Linux's NVMe driver, which writes and reads a new
// page in turn on an I/O queue of 7 entries. The frame writes and reads 1,000 pages on QEMU's own
// controller: 285 laps of both queues, which also wrap between the write and the read.
func TestFramesOfLinuxNVMeDriverAreReplayed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	recorded, _ := runInside(t, func(m *machine) {
		m.linuxDrivesNVMe, m.processors = true, 1
		m.kernelArgs += " nvme.io_queue_depth=7"
		m.addServed(t, "mock:nvme")
		m.servedDevices[0] = append(m.servedDevices[0], "--trace",
			filepath.Join(dir, "nvme.record"))
	}, "pci", "blocks /sys/bus/pci/devices/@slot8/nvme/nvme*/nvme*n1 8192 24 4096\n"+
		"write /sys/bus/pci/drivers/nvme/unbind @slot8\n")
	if recorded.serversErr != nil {
		t.Error(recorded.serversErr)
	}
	_, ignore := readDMARecord(t, dir, filepath.Join(dir, "nvme.record"))
	for _, command := range commandsOnPage(t, "../../devices/vfiouser/README.md", "import") {
		text := strings.ReplaceAll(command.Text, "IGNORE", strings.Join(ignore, " "))
		if command.Text = text; slices.Contains(command.Words(), "--find-frames") {
			runInDir(t, dir, fromEnv(t, "LM_GUEST_LM"), command.Words()[1:]...)
		}
	}
	pages := xorshift32(80, 1000*4096)
	replayed, _ := runInside(t, func(m *machine) {
		m.machineType = iommuMachine
		m.addModules(t, "LM_GUEST_MODULES")
		m.addFile(t, "/frames.lmb", filepath.Join(dir, "frames.lmb"))
		m.files["/pages"] = pages
	}, "vfio", "ready nvme\npages-by-rings $nvme /frames.lmb /pages frame in0 in1 in2 out0\n")
	want := make([]byte, nvmeSize)
	const firstPage = 320 * 512 // of pages-by-rings
	copy(want[firstPage:], pages)
	if !bytes.Equal(readFile(t, filepath.Join(replayed.dir, "nvme.img")), want) {
		t.Error("the disk has other data than the pages")
	}
}

// driverBlock returns the data that inside/nvme.go writes to the block device at offset 8192.
func driverBlock() (data []byte) {
	for i := range 4096 {
		data = append(data, byte(i*7+i>>8))
	}
	return data
}

// commandsOnPage returns those lm commands on a page that have one of the names, such as "import".
func commandsOnPage(t *testing.T, path string, names ...string) (list []pages.Command) {
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
		t.Fatalf("%s has no lm command of %v", path, names)
	}
	return list
}

// runInDir runs a program in a directory, and requires the exit status 0.
func runInDir(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	c := exec.Command(program, args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// readDMARecord reads the accesses of a served device to host memory from a record. It writes the
// final contents of the memory to files in dir, and returns the flags of `lm import` that name
// these files. It also returns flags that ignore the data that a device reports about itself: the
// number of queues, and each page that the device wrote before the first command on an I/O queue.
func readDMARecord(t *testing.T, dir, record string) (memory string, ignore []string) {
	t.Helper()
	file, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	pages, begun := map[uint64][]byte{}, false
	for line := range strings.Lines(gunzip(t, file)) {
		f := strings.Fields(line)
		begun = begun || strings.HasPrefix(line, "W 0 1008 ")
		if f[0] != "MEM" && f[0] != "HR" && f[0] != "HW" {
			continue
		}
		address, _ := strconv.ParseUint(f[1], 16, 64) // a test of the server checks the syntax
		if f[0] == "MEM" {
			pages[address] = make([]byte, page)
			continue
		}
		data, _ := hex.DecodeString(f[3])
		copy(pages[address&^(page-1)][address%page:], data)
		identified := len(data) == page && !begun
		// The completion has the number of queues minus one. QEMU's controller has more queues.
		const queues = 0x0002_0002
		if f[0] == "HW" && (identified || binary.LittleEndian.Uint64(data) == queues) {
			ignore = append(ignore, "--ignore",
				fmt.Sprintf("bus:0x%x-0x%x", address, address+uint64(len(data))-1))
		}
	}
	for address, data := range pages {
		name := fmt.Sprintf("%x", address)
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		memory += fmt.Sprintf(" --host m%s=0x%[1]s,%[1]s", name)
	}
	if memory == "" || len(ignore) == 0 {
		t.Fatal("the device reached no memory")
	}
	return memory, ignore
}
