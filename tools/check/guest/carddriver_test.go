package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
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
echo "outer: $(wc -c <card.record) bytes"
stty -F /dev/ttyS1 raw; cat card.record >/dev/ttyS1
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
	page    string   // commands of the outer machine
	dir     string
}

// addOrderedModules adds modules of the new amd64 kernel, and the list of their names.
func addOrderedModules(t *testing.T, m *machine, names ...string) {
	t.Helper()
	dir := fromEnv(t, "LM_GUEST_NEW_AMD64_MODULES")
	for i, name := range names {
		name, options, _ := strings.Cut(name, " ")
		m.addFile(t, "/modules/"+name+".ko", filepath.Join(dir, name+".ko"))
		if names[i] = name + ".ko"; options != "" {
			m.files["/modules/"+name+".ko.options"] = []byte(options)
		}
	}
	m.files["/modules/order"] = []byte(strings.Join(names, "\n"))
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

// run boots both machines. It returns the console, the recording and the outer QEMU's trace.
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
		m.files["/initramfs"], m.files["/page"] = inner, []byte(r.page)
	})
	serial := filepath.Join(r.dir, "serial")
	trace = filepath.Join(r.dir, "trace")
	ctx, cancel := context.WithTimeout(context.Background(), rigTimeout)
	defer cancel()
	qemu := exec.CommandContext(ctx, "qemu-system-x86_64", append([]string{"-M", "q35",
		"-accel", "tcg,thread=multi", "-cpu", "max,-la57", "-smp", "2", "-m", "3G", "-nodefaults",
		"-display", "none", "-no-reboot", "-serial", "stdio", "-serial", "file:" + serial,
		"-device", "intel-iommu,intremap=on,caching-mode=on,aw-bits=48",
		"-trace", "memory_region_ops_*", "-D", trace,
		"-kernel", kernel, "-initrd", filepath.Join(r.dir, "initramfs"), "-append",
		"console=ttyS0 intel_iommu=on iommu=nopt loglevel=4 mitigations=off nokaslr nowatchdog " +
			"panic=-1"}, r.card...)...)
	var out bytes.Buffer
	qemu.Stdout, qemu.Stderr = &out, &out
	if path := os.Getenv("LM_RIG_CONSOLE"); path != "" {
		f, _ := os.Create(path)
		defer f.Close()
		qemu.Stdout = f
	}
	began := time.Now()
	if err := qemu.Run(); err != nil {
		t.Fatalf("qemu-system-x86_64: %v\n%s", err, out.String())
	}
	t.Logf("evidence: both machines ran for %v", time.Since(began).Round(time.Second))
	return out.String(), readFile(t, serial), trace
}

const nvmeWork = `
for i in $(seq 100); do [ -e /dev/nvme0n1 ] && break; sleep 0.3; done
head -c 4096 /dev/zero | tr '\0' A >/tmp/a
echo write >/dev/virtio-ports/lm
dd if=/tmp/a of=/dev/nvme0n1 bs=4096 seek=25 count=1 oflag=direct
echo read >/dev/virtio-ports/lm
dd if=/dev/nvme0n1 of=/tmp/b bs=4096 skip=25 count=1 iflag=direct
echo end >/dev/virtio-ports/lm
cmp /tmp/a /tmp/b && echo the inner machine read what it wrote
dmesg | grep -i nvme
rmmod nvme
`

const nvmePage = `
echo vfio-pci >/sys/bus/pci/devices/$CARD/driver_override
echo $CARD >/sys/bus/pci/drivers_probe
lm record --port-table port.aml
lm record -o card.record -- qemu-system-x86_64 -nodefaults -display none -no-reboot -serial stdio \
  -M q35,kernel-irqchip=split -accel kvm -cpu host -m 256 -bios qboot.rom \
  -device virtio-iommu-pci,addr=3,boot-bypass=off -acpitable file=port.aml \
  -device pcie-root-port,id=rp0,addr=1,chassis=1,slot=1 \
  -device vfio-pci,host=$CARD,bus=rp0,x-no-mmap=on,rombar=0 \
  -device virtio-serial-pci -chardev file,id=marks,path=marks \
  -device virtserialport,chardev=marks,name=lm \
  -kernel /vmlinuz -initrd /initramfs \
  -append "console=ttyS0 loglevel=4 mitigations=off nokaslr panic=-1 swiotlb=2048,force"
`

func TestRecordedTrialsOfKernelDrivers(t *testing.T) {
	skipUnlessTrials(t)
	disk := filepath.Join(t.TempDir(), "disk")
	if err := writeZeros(disk, nvmeSize); err != nil {
		t.Fatal(err)
	}
	r := kernelDriverRig{modules: []string{"virtio-iommu", "nvme-auth", "nvme-core", "nvme"},
		work: nvmeWork, page: nvmePage,
		card: []string{"-drive", "if=none,id=d,format=raw,file=" + disk,
			"-device", "nvme,serial=disk,drive=d,addr=8"}}
	console, recording, trace := r.run(t)
	fmt.Println(console, len(recording), trace)
	_ = os.WriteFile("/tmp/vmrig/card.record", recording, 0o644)
	_ = os.Rename(trace, "/tmp/vmrig/trace")
}
