package main

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	scenarios["dma"] = func(args []string) int { return onLane(args[0], dma) }
	scenarios["peers"] = func(args []string) int { return onLane(args[0], peers) }
	scenarios["kill"] = func(args []string) int { return onLane(args[0], killed) }
	scenarios["once"] = func(args []string) int { return onLane(args[0], once) }
	scenarios["crypto"] = func(args []string) int { return onLane(args[0], encrypted) }
	scenarios["dma-errors"] = func(args []string) int { return onLane(args[0], dmaErrors) }
}

const (
	eduIDs     = "1234:11e8"
	ivshmemIDs = "1af4:1110"
	nvmeIDs    = "1b36:0010"
)

// bench is what the scenarios of DMA check with.
type bench struct {
	lane               string // pci or vfio
	edu, ivshmem, nvme string // names of devices
	failed             bool
}

// onLane makes the devices ready to be opened by one lane, and carries out a
// scenario.
func onLane(lane string, scenario func(*bench)) int {
	b := &bench{lane: lane}
	for ids, name := range map[string]*string{eduIDs: &b.edu, ivshmemIDs: &b.ivshmem,
		nvmeIDs: &b.nvme} {
		at, err := address(ids)
		if err != nil {
			fmt.Println("inside:", err)
			return 1
		}
		*name = lane + ":" + at
	}
	if err := b.prepare(); err != nil {
		fmt.Println("inside:", err)
		return 1
	}
	scenario(b)
	if b.failed {
		return 1
	}
	return 0
}

// reserveHugePages has the kernel reserve count huge pages of 2 MiB. A signal, such as Go's
// own for preemption, ends an attempt early and without an error.
func reserveHugePages(count int) error {
	const path, attempts = "/proc/sys/vm/nr_hugepages", 100
	got, want := "", strconv.Itoa(count)
	for range attempts {
		if err := os.WriteFile(path, []byte(want), 0); err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if got = strings.TrimSpace(string(text)); got == want {
			return nil
		}
	}
	return fmt.Errorf("%s: the kernel reserved %s pages of %s", path, got, want)
}

func (b *bench) prepare() error {
	if b.lane == "pci" {
		return reserveHugePages(8)
	}
	if err := insmod("vfio.ko", "vfio_virqfd.ko", "vfio_iommu_type1.ko", "vfio-pci-core.ko",
		"vfio-pci.ko"); err != nil {
		return err
	}
	for _, device := range []string{b.edu, b.ivshmem, b.nvme} {
		if err := bind("vfio-pci", strings.TrimPrefix(device, "vfio:")); err != nil {
			return fmt.Errorf("%s: %w", device, err)
		}
	}
	return nil
}

// lmrun replays an image of /images on devices, and wants an exit status and a
// text in what is said.
func (b *bench) lmrun(want int, text, image string, devices []string, flags ...string) {
	args := flags
	for _, device := range devices {
		args = append(args, "-device", device)
	}
	began := time.Now()
	if !expect(want, text, "/lmrun", append(args, filepath.Join("/images", image))...) {
		b.failed = true
		return
	}
	fmt.Printf("inside: %s: lmrun %s %s: %d after %v\n", b.lane, strings.Join(flags, " "), image,
		want, time.Since(began).Round(time.Millisecond))
}

// transfers replays new data, and wants them back.
func (b *bench) transfers(image string, devices []string, input, output string) {
	data, err := os.ReadFile("/input/" + input)
	if err != nil {
		b.fail("%v", err)
	}
	b.lmrun(0, "done", image, devices, "-sequence", "transfer", "-input", input+"=/input/"+input,
		"-output", output+"=/tmp/output")
	if got, err := os.ReadFile("/tmp/output"); err != nil || !bytes.Equal(got, data) {
		b.fail("%s: other data came back, %v", image, err)
	}
}

func (b *bench) fail(format string, args ...any) {
	fmt.Printf("inside: "+format+"\n", args...)
	b.failed = true
}

// dma moves data through host memory, recorded and new, and many frames.
func dma(b *bench) {
	b.lmrun(0, "done", "edu-dma.lmb", []string{b.edu})
	b.transfers("edu-dma.lmb", []string{b.edu}, "data", "result")
	b.lmrun(0, "done", "nvme.lmb", []string{b.nvme})
	b.lmrun(0, "100 times", "nvme.lmb", []string{b.nvme}, "-seal", "-loop", "100", "-sequence",
		"frames")
	b.transfers("nvme.lmb", []string{b.nvme}, "blocks", "result")
}

// once makes one run of each listing.
func once(b *bench) {
	b.lmrun(0, "done", "edu-dma.lmb", []string{b.edu})
	b.lmrun(0, "done", "nvme.lmb", []string{b.nvme})
	b.lmrun(0, "done", "nvme-p2p.lmb", []string{b.nvme, b.ivshmem})
}

// peers moves data from device to device.
func peers(b *bench) {
	devices := []string{b.nvme, b.ivshmem}
	b.lmrun(0, "done", "nvme-p2p.lmb", devices)
	b.lmrun(0, "10 times", "nvme-p2p.lmb", devices, "-seal", "-loop", "10", "-sequence", "frames")
	b.transfers("nvme-p2p.lmb", devices, "blocks", "result")
}

// encrypted has a device encrypt what the standard library does, too.
func encrypted(b *bench) {
	at, err := address("1af4:1054")
	if err == nil && b.lane == "vfio" {
		err = bind("vfio-pci", at)
	}
	if err != nil {
		b.fail("%v", err)
		return
	}
	device := []string{b.lane + ":" + at}
	b.lmrun(0, "done", "virtio-crypto.lmb", device)
	random := rand.NewChaCha8([32]byte{})
	for range 3 {
		flags := []string{"-sequence", "encrypt", "-output", "result=/tmp/result"}
		data := map[string][]byte{"key": make([]byte, 16), "iv": make([]byte, 16),
			"text": make([]byte, 64)}
		for name, content := range data {
			_, _ = random.Read(content)
			if err := os.WriteFile("/tmp/"+name, content, 0o600); err != nil {
				b.fail("%v", err)
			}
			flags = append(flags, "-input", name+"=/tmp/"+name)
		}
		b.lmrun(0, "done", "virtio-crypto.lmb", device, flags...)
		key, err1 := aes.NewCipher(data["key"])
		got, err2 := os.ReadFile("/tmp/result")
		if err := errors.Join(err1, err2); err != nil {
			b.fail("%v", err)
			return
		}
		want := make([]byte, 64)
		cipher.NewCBCEncrypter(key, data["iv"]).CryptBlocks(want, data["text"])
		if !bytes.Equal(got, want) {
			b.fail("the device encrypts to %x, the standard library to %x", got, want)
		}
	}
}

// killed ends lmrun while devices move data, and wants them usable at once.
func killed(b *bench) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		b.kill("edu-dma.lmb", b.edu, time.Duration(random.IntN(200))*time.Millisecond, "-loop",
			"1000")
		// not those of the transfer under way
		b.transfers("edu-dma.lmb", []string{b.edu}, "data", "result")
	}
	for range 5 {
		b.kill("nvme.lmb", b.nvme, time.Duration(random.IntN(50))*time.Millisecond, "-loop",
			"100000", "-sequence", "frames")
		b.transfers("nvme.lmb", []string{b.nvme}, "blocks", "result")
	}
}

// kill ends a replay some time after its first run has begun.
func (b *bench) kill(image, device string, after time.Duration, flags ...string) {
	c := b.sealed(image, device, flags...)
	if c == nil {
		return
	}
	time.Sleep(after)
	_ = c.Process.Kill()
	if got := finish(c); got != 128+9 {
		b.fail("%s: lmrun ended with %d before it was killed", image, got)
	}
}

// sealed starts a replay and waits until lmrun has sealed itself, which it does
// right before the first run.
func (b *bench) sealed(image, device string, flags ...string) *exec.Cmd {
	c, err := spawn("/lmrun", append(flags, "-seal", "-device", device,
		filepath.Join("/images", image))...)
	if err != nil {
		b.fail("%v", err)
		return nil
	}
	for end := time.Now().Add(runLimit); ; {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
		switch {
		case err != nil || strings.Contains(string(text), "\nState:\tZ") || time.Now().After(end):
			_ = c.Process.Kill()
			b.fail("%s: lmrun ended with %d before its first run", image, finish(c))
			return nil
		case strings.Contains(string(text), "\nSeccomp:\t2\n"): // SECCOMP_MODE_FILTER
			return c
		}
		time.Sleep(time.Millisecond)
	}
}

// mistakes are images in which one thing is wrong, with what lmrun ends with
// and says, by each backend: QEMU's devices set no bit of the PCI status register for a transfer
// that an IOMMU stops.
var mistakes = []struct {
	image  string
	device func(*bench) string
	want   end
	clear  byte // of the command register, behind lmrun's back, which polls it
}{
	// A transfer out of reach is noticed by what is missing: the controller reports
	// CSTS.CFS and not RDY, or takes zeros for what it cannot read and success
	// for what it cannot write, as QEMU's does, or a buffer is as it was before.
	{"edu-out-of-reach", onEdu,
		end{76, "golden mismatch: main, command 1: compare.1 w2+0x0: element 0: got 0xa5,"}, 0},
	{"queues-out-of-reach", onNvme,
		end{76, "expect failed: init, command 18: expect.4 w0+0x1c & 0x3 == 0x1: got 0x2 "}, 0},
	{"data-out-of-reach", onNvme,
		end{76, "golden mismatch: main, command 2: compare.8 w8+0x0: element 3584: got 0x0,"}, 0},
	{"too-small", onNvme,
		end{76, "golden mismatch: main, command 2: compare.8 w8+0x0: element 3584: got 0x0,"}, 0},
	{"nvme-no-master", onNvme, end{69, "bus mastering is off: init, command 18: expect.4"}, 4},
	{"edu-no-master", onEdu, end{69, "bus mastering is off: main, command 1: compare.1"}, 4},
	{"decoding-off", onNvme, end{71, "device gone: "}, 2},
	{"too-large", onEdu, end{65, "bad image: the image needs"}, 0},
}

func onNvme(b *bench) string { return b.nvme }
func onEdu(b *bench) string  { return b.edu }

// end is an exit status and a text in what is said.
type end struct {
	exit int
	text string
}

// dmaErrors makes mistakes and wants the devices usable after each.
func dmaErrors(b *bench) {
	for _, m := range mistakes {
		cleared := make(chan bool)
		go func() {
			if m.clear != 0 {
				b.untilMaster(m.device(b))
				b.command(m.device(b), m.clear, 0)
			}
			close(cleared)
		}()
		b.lmrun(m.want.exit, m.want.text, m.image+".lmb", []string{m.device(b)})
		<-cleared
		b.decode(true)
	}
	b.faultsLogged()
	b.lmrun(0, "done", "nvme.lmb", []string{b.nvme})
	b.lmrun(0, "done", "edu-dma.lmb", []string{b.edu})
	b.decodingOff()
	b.lmrun(0, "done", "nvme.lmb", []string{b.nvme})
	b.wrongLane()
}

// faultsLogged wants the IOMMU to have stopped what was out of reach: event
// 0x10 of an SMMU is a translation fault (Arm IHI 0070, section 7.3).
func (b *bench) faultsLogged() {
	text := make([]byte, 1<<20)
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, text)
	if got := strings.Contains(string(text[:max(n, 0)]), "event 0x10 received"); err != nil ||
		got != (b.lane == "vfio") {
		b.fail("an IOMMU fault in the kernel's log: %v, %v", got, err)
	}
}

// decodingOff takes a controller's memory away while frames run.
func (b *bench) decodingOff() {
	c := b.sealed("nvme.lmb", b.nvme, "-loop", "100000", "-sequence", "frames")
	if c == nil {
		return
	}
	b.decode(false)
	if got := finish(c); got != 71 {
		b.fail("memory decoding off: lmrun ended with %d", got)
	}
	b.decode(true)
}

// decode switches memory decoding of the controller behind lmrun's back.
func (b *bench) decode(on bool) {
	if on {
		b.command(b.nvme, 0, 2)
	} else {
		b.command(b.nvme, 2, 0)
	}
}

// untilMaster waits until a device masters the bus, which Load sees to last.
func (b *bench) untilMaster(device string) {
	began := time.Now()
	for seen := 0; seen < settled; time.Sleep(time.Millisecond) {
		if b.command(device, 0, 0)&4 != 0 {
			seen++
		} else if time.Since(began) > runLimit {
			b.fail("%s does not master the bus", device)
			return
		}
	}
}

// settled is how many looks find a device mastering the bus before it is taken
// for more than switched on: lmrun looks itself right after it did, and has the
// one processor between two looks.
const settled = 20

// command changes bits of the command register and gives what was there.
func (b *bench) command(device string, clear, set byte) byte {
	_, at, _ := strings.Cut(device, ":")
	config, err := os.OpenFile(filepath.Join(devices, at, "config"), os.O_RDWR, 0)
	if err != nil {
		b.fail("%v", err)
		return 0
	}
	defer config.Close()
	var command [2]byte
	_, err1 := config.ReadAt(command[:], 4)
	before, err2 := command[0], error(nil)
	if command[0] = before&^clear | set; command[0] != before {
		_, err2 = config.WriteAt(command[:], 4)
	}
	if err := errors.Join(err1, err2); err != nil {
		b.fail("command register: %v", err)
	}
	return before
}

// wrongLane opens devices by lanes that they are not ready for.
func (b *bench) wrongLane() {
	if b.lane == "pci" {
		b.lmrun(69, "no driver owns the device; bind vfio-pci", "edu-dma.lmb",
			[]string{"vfio:" + eduIDs})
		return
	}
	b.lmrun(69, "the kernel driver vfio-pci owns the device; open the device as `vfio:",
		"edu-dma.lmb", []string{"pci:" + eduIDs})
	for _, device := range []string{b.edu, b.ivshmem} {
		if err := os.WriteFile("/sys/bus/pci/drivers/vfio-pci/unbind",
			[]byte(strings.TrimPrefix(device, "vfio:")), 0); err != nil {
			b.fail("%v", err)
		}
	}
	b.lmrun(69, "no driver owns the device; bind vfio-pci", "edu-dma.lmb", []string{b.edu})
	b.lmrun(69, "an IOMMU translates the addresses of the device; open the device as `vfio:",
		"edu-dma.lmb", []string{"pci:" + eduIDs})
	b.lmrun(64, "open both as `pci:` or both as `vfio:`", "nvme-p2p.lmb",
		[]string{b.nvme, "pci:" + ivshmemIDs})
}
