package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"lightmetal/tools/capture/record"
)

// outerInit is PID 1 of the outer machine: it binds the card to vfio-pci, and records the inner
// machine with the command in /page. ttyS1 is a file of the host.
const outerInit = `#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs t /tmp
mkdir -p /dev/shm; mount -t tmpfs shm /dev/shm
for m in $(cat /modules/order); do insmod /modules/$m $(cat /modules/$m.options 2>/dev/null); done
cd /tmp
CARD=0000:00:08.0
. /page
echo "page: status $?"
stty -F /dev/ttyS1 raw; cat card.record >/dev/ttyS1
. /after
poweroff -f
`

// innerInit is PID 1 of the inner machine.
const innerInit = `#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs t /tmp
for m in $(cat /modules/order); do insmod /modules/$m; done
mkdir /dev/virtio-ports
for n in /sys/class/virtio-ports/*; do ln -s /dev/${n##*/} /dev/virtio-ports/$(cat $n/name); done
. /work
poweroff -f
`

// nestedQEMUFiles are the files of firmware that the inner QEMU opens.
var nestedQEMUFiles = []string{"qboot.rom", "kvmvapic.bin", "linuxboot_dma.bin"}

// rigTimeout is the limit of both machines: 2 minutes on an idle host.
const rigTimeout = 35 * time.Minute

// kernelDriverRig is a machine in which the recorded one runs.
type kernelDriverRig struct {
	card    []string // arguments of the outer QEMU
	modules []string // of the inner machine, in the order in which they are loaded
	work    string   // commands of the inner machine
	after   string   // commands of the outer machine, behind those of the page
	events  []string // of the outer QEMU's trace
	disk    string   // a file, which is zero when the machine starts
	dir     string
}

// addOrderedModules adds modules of the new amd64 kernel, and the list of their names.
func addOrderedModules(t *testing.T, m *machine, names ...string) {
	t.Helper()
	dir := fromEnv(t, "LM_GUEST_NEW_AMD64_MODULES")
	var order string
	for _, name := range names {
		name, options, _ := strings.Cut(name, " ")
		m.addFile(t, "/modules/"+name+".ko", filepath.Join(dir, name+".ko"))
		if order += name + ".ko\n"; options != "" {
			m.files["/modules/"+name+".ko.options"] = []byte(options)
		}
	}
	m.files["/modules/order"] = []byte(order)
	m.addFile(t, "/bin/busybox", filepath.Join(dir, "busybox"))
}

// addOwnProgram adds a program of this system, with its loader and libraries.
func addOwnProgram(t *testing.T, m *machine, path string) {
	t.Helper()
	m.addFile(t, path, path)
	out, err := exec.Command("ldd", path).Output()
	if err != nil {
		t.Fatalf("ldd %s: %v", path, err)
	}
	for _, library := range regexp.MustCompile(`(/\S+) \(0x`).FindAllStringSubmatch(
		string(out), -1) {
		m.addFile(t, library[1], library[1])
	}
}

func (r *kernelDriverRig) initramfs(t *testing.T, init string, fill func(*machine)) []byte {
	t.Helper()
	m := &machine{initProgram: filepath.Join(r.dir, "init"), files: map[string][]byte{}}
	if err := os.WriteFile(m.initProgram, []byte(init), 0o755); err != nil {
		t.Fatal(err)
	}
	fill(m)
	path := filepath.Join(r.dir, "initramfs")
	if _, err := m.writeInitramfs(path); err != nil {
		t.Fatal(err)
	}
	return readFile(t, path)
}

// run boots both machines, again if the outer QEMU's emulation of SVM fails. It returns the
// console, the recording and the outer QEMU's trace.
func (r *kernelDriverRig) run(t *testing.T) (console string, recording []byte, trace string) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the outer machine runs this system's QEMU, which must be of amd64")
	}
	kernel := fromEnv(t, "LM_GUEST_NEW_AMD64_KERNEL")
	r.dir = t.TempDir()
	inner := r.initramfs(t, innerInit, func(m *machine) {
		addOrderedModules(t, m, r.modules...)
		m.files["/work"] = []byte(r.work)
	})
	r.initramfs(t, outerInit, func(m *machine) {
		addOrderedModules(t, m, "irqbypass", "kvm", "ccp", "kvm-amd", "vfio", "vfio-pci-core",
			"vfio-pci", "vfio_iommu_type1 allow_unsafe_interrupts=1")
		addOwnProgram(t, m, "/usr/bin/qemu-system-x86_64")
		for _, name := range nestedQEMUFiles {
			path := "/usr/share/qemu/" + name
			m.addFile(t, path, path)
		}
		m.addFile(t, "/bin/lm", fromEnv(t, "LM_GUEST_LM"))
		m.addFile(t, "/vmlinuz", kernel)
		m.files["/initramfs"], m.files["/after"] = inner, []byte(r.after)
		m.files["/page"] = []byte(pageCommands(t))
	})
	serial := filepath.Join(r.dir, "serial")
	trace = filepath.Join(r.dir, "trace")
	args := append([]string{"-M", "q35",
		"-accel", "tcg,thread=multi", "-cpu", "max,-la57", "-smp", "2", "-m", "3G", "-nodefaults",
		"-display", "none", "-no-reboot", "-serial", "stdio", "-serial", "file:" + serial,
		"-device", "intel-iommu,intremap=on,caching-mode=on,aw-bits=48",
		"-trace", "memory_region_ops_*", "-D", trace,
		"-kernel", kernel, "-initrd", filepath.Join(r.dir, "initramfs"), "-append",
		"console=ttyS0 intel_iommu=on iommu=nopt loglevel=4 mitigations=off nokaslr nowatchdog " +
			"panic=-1"}, r.card...)
	for _, e := range r.events {
		args = append(args, "-trace", e)
	}
	const attempts = 3
	for attempt := 1; ; attempt++ {
		console, err := r.boot(t, args)
		if err == nil {
			return console, readFile(t, serial), trace
		}
		if !errors.Is(err, errStuck) || attempt == attempts {
			t.Fatalf("qemu-system-x86_64: %v\n%s", err, console)
		}
		t.Logf("the outer machine starts again: %v", err)
	}
}

// boot runs QEMU until the outer machine ends or is stuck, and returns the console.
func (r *kernelDriverRig) boot(t *testing.T, args []string) (console string, err error) {
	t.Helper()
	if r.disk != "" {
		if err := writeZeros(r.disk, nvmeSize); err != nil {
			t.Fatal(err)
		}
	}
	limit, end := context.WithTimeout(context.Background(), rigTimeout)
	defer end()
	ctx, cancel := context.WithCancelCause(limit)
	monitor := new(qemuMonitor)
	qemu := exec.CommandContext(ctx, "qemu-system-x86_64",
		append(slices.Clone(args), monitor.start(t, t.TempDir())...)...)
	var out bytes.Buffer
	qemu.Stdout, qemu.Stderr = &out, &out
	go func() {
		if err := monitor.waitUntilStuck(ctx, 2, 5*time.Second); err != nil {
			cancel(err)
		}
	}()
	began := time.Now()
	err = qemu.Run()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(nil)
	if err == nil {
		t.Logf("evidence: both machines ran for %v", time.Since(began).Round(time.Second))
	}
	return out.String(), err
}

// pageCommands returns the commands of the page, with the files of the outer machine.
func pageCommands(t *testing.T) string {
	t.Helper()
	_, commands, _ := strings.Cut(string(readFile(t, "../../capture/KERNELDRIVER.md")), "```sh\n")
	first, commands, _ := strings.Cut(commands, "\n")
	commands, _, found := strings.Cut(commands, "```")
	if !found || !strings.HasPrefix(first, "CARD=") {
		t.Fatal("KERNELDRIVER.md has no commands that begin with the address of the card")
	}
	return "KERNEL=/vmlinuz INITRD=/initramfs\n" +
		strings.Replace(commands, "quiet", "quiet mitigations=off nokaslr", 1)
}

// sectorWork writes and reads a sector of $disk.
const sectorWork = `
for i in $(seq 200); do [ -e $disk ] && break; sleep 0.3; done
head -c 4096 /dev/zero | tr '\0' A >/tmp/a
echo write >/dev/virtio-ports/lm
dd if=/tmp/a of=$disk bs=4096 seek=25 count=1 oflag=direct
echo read >/dev/virtio-ports/lm
dd if=$disk of=/tmp/b bs=4096 skip=25 count=1 iflag=direct
echo end >/dev/virtio-ports/lm
cmp /tmp/a /tmp/b && echo inner: read what was written
`

// sectorReplay replays the recording up to the written sector, with new data. Driver and controller
// both write pages: lm import names the bytes, which are the driver's.
const sectorReplay = `
set -- $(zcat card.record | grep -n '^HR [0-9a-f]* 4096 41414141' | cut -c1-40 | tr : ' ')
input=x=bus:0x$3@$1
import() {
  lm import $flags --input $input,uint8,4096 $* card.record -o card.lmb
}
import 2>errors || import $(sed -n 's/.*\(--as-data [^ ]*\).*/\1/p' errors)
cat errors
head -c 4096 /dev/zero | tr '\0' Z >x.bin
lm replay --device vfio:$CARD --input x=x.bin card.lmb
`

// nvmeReplay leaves out the SMART log, which counts commands from its byte 32 on. It begins with a
// temperature of 0x143 K, in a page of any buffer, which can later be that of the shadow doorbells.
const nvmeReplay = `
smart=0x$(zcat card.record | sed -n 's/^HW \([0-9a-f]*\) [0-9]* 004301.*/\1/p' | head -1)
flags="--part ..read --ignore bus:$(printf 0x%x-0x%x $((smart + 32)) $((smart + 511)))"
` + sectorReplay

// TestRecordedTrialsOfKernelDriver records Linux's nvme driver with the commands of the page, in a
// guest of a machine whose QEMU emulates SVM, an IOMMU and the card. The outer QEMU's trace is the
// oracle.
func TestRecordedTrialsOfKernelDriver(t *testing.T) {
	skipUnlessTrials(t)
	disk := filepath.Join(t.TempDir(), "disk")
	r := kernelDriverRig{modules: []string{"virtio-iommu", "nvme-auth", "nvme-core", "nvme"},
		disk: disk,
		work: "disk=/dev/nvme0n1" + sectorWork + "rmmod nvme\n", after: nvmeReplay,
		events: []string{"pci_nvme_admin_cmd", "pci_nvme_io_cmd"},
		card: []string{"-drive", "if=none,id=d,format=raw,file=" + disk,
			"-device", "nvme,serial=disk,drive=d,addr=8"}}
	records, part := r.requireRecorded(t, nvmeRegion, "QEMU NVMe Ctrl",
		"main of card.lmb, 1 run of")
	requireCommands(t, records, part)
	requireNewData(t, disk)
}

// requireNewData requires the data of sectorReplay on a disk.
func requireNewData(t *testing.T, disk string) {
	t.Helper()
	if data := readFile(t, disk)[25<<12:][:4096]; !bytes.Equal(data,
		bytes.Repeat([]byte("Z"), 4096)) {
		t.Errorf("the sector begins with %q, want the new data of the replay", data[:8])
	}
}

// requireRecorded runs both machines, and checks the recording with the outer QEMU's trace. answer
// is a text that the device writes to host memory. It returns the records and their part of the
// trace.
func (r *kernelDriverRig) requireRecorded(t *testing.T, traced region, answer string,
	wanted ...string) (records []record.Record, part []byte) {
	t.Helper()
	console, recording, tracePath := r.run(t)
	for _, want := range append(wanted, "inner: read what was written", "page: status 0") {
		if !strings.Contains(console, want) {
			t.Errorf("the console lacks %q", want)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the console:\n%s", console)
		}
	})
	capture, err := record.Read(bytes.NewReader(recording))
	if err != nil {
		t.Fatalf("the recording: %v", err)
	}
	part = recordedPart(t, capture.Records, traced, tracePath)
	requireNoAnswers(t, capture.Records, answer)
	return capture.Records, part
}

// recordedPart returns the part of the outer QEMU's trace from the first recorded access to a BAR
// to the last. The outer machine's firmware accesses the card before, and a replay afterwards.
func recordedPart(t *testing.T, records []record.Record, traced region,
	path string) (part []byte) {
	t.Helper()
	text := readFile(t, path)
	trace, err := parseTrace(bytes.NewReader(text), traced)
	if err != nil {
		t.Fatal(err)
	}
	for first := range trace {
		n, err := countEqualAccesses(records, traced, trace[first:])
		if err != nil {
			continue
		}
		t.Logf("evidence: %d recorded accesses are equal to the outer QEMU's trace", n)
		count := 0
		for line := range bytes.Lines(text) {
			if bytes.HasPrefix(line, []byte("memory_region_ops_")) &&
				traced.isNamedIn(strings.TrimSpace(string(line))) {
				count++
			}
			if count > first && count <= first+n {
				part = append(part, line...)
			}
		}
		return part
	}
	t.Fatalf("the outer QEMU's trace of %d accesses has no part that is equal to the recording",
		len(trace))
	return nil
}

// requireCommands requires that each command that the controller fetched is in the memory that the
// program stored, by its identifier and its opcode.
func requireCommands(t *testing.T, records []record.Record, part []byte) {
	t.Helper()
	stored := map[string]bool{}
	for _, r := range records {
		if r.Kind != record.HostRead {
			continue
		}
		for at := -r.Offset % 64; at+4 <= uint64(len(r.Data)); at += 64 {
			stored[string(r.Data[at:at+4])] = true
		}
	}
	lines := regexp.MustCompile(
		`(?m)^pci_nvme_(?:admin|io)_cmd cid (\d+) .*opc 0x([0-9a-f]+) `).FindAllStringSubmatch(
		string(part), -1)
	for _, line := range lines {
		var cid, opcode int
		_, _ = fmt.Sscanf(line[1]+" "+line[2], "%d %x", &cid, &opcode)
		if !stored[string([]byte{byte(opcode), 0, byte(cid), byte(cid >> 8)})] {
			t.Errorf("the controller fetched %s, which the program has not stored by the recording",
				line[0])
		}
	}
	if len(lines) == 0 {
		t.Error("the controller fetched no command")
	}
	t.Logf("evidence: all %d commands that the controller fetched are in the recording",
		len(lines))
}

// requireNoAnswers requires that a text that only the device knows is in what it wrote, and in
// nothing that the program stored.
func requireNoAnswers(t *testing.T, records []record.Record, text string) {
	t.Helper()
	has := func(k record.Kind) bool {
		return slices.ContainsFunc(records, func(r record.Record) bool {
			return r.Kind == k && bytes.Contains(r.Data, []byte(text))
		})
	}
	if !has(record.HostWrite) || has(record.HostRead) {
		t.Errorf("%q: written by the device %v, stored by the program %v; want true, false", text,
			has(record.HostWrite), has(record.HostRead))
	}
}
