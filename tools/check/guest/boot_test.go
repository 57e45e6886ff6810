package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"lightmetal/hal"
	newc "lightmetal/tools/ship/bootimage/initramfs"
)

// bootImage makes a boot image with tools/ship/bootimage and returns its folder.
func bootImage(t *testing.T, args ...string) string {
	t.Helper()
	kernel, runner := tool(t, "LM_GUEST_KERNEL"), tool(t, "LM_GUEST_LMRUN")
	out := filepath.Join(t.TempDir(), "image")
	program := func(name string) string {
		return goBuild(t, runtime.GOARCH, "lightmetal/tools/"+name)
	}
	program("lmrun") // the verifier finds it next to itself
	c := exec.Command(program("ship/bootimage"),
		append([]string{"image", "--lmrun", runner, "--lminit", lminit(runner), "--verifier",
			program("lminit"),
			"--kernel", kernel, "--out", out}, args...)...)
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("bootimage %s: %v\n%s", strings.Join(args, " "), err, text)
	}
	return out
}

// booted is one boot of what bootimage made.
type booted struct {
	*machine
	exit    int
	console string
	down    string // reset or off
}

// bootFrom boots the kernel, the initramfs and the command line that lie in a
// folder, as they are.
func bootFrom(t *testing.T, folder string, extra ...string) booted {
	t.Helper()
	return bootWith(t, nil, folder, extra...)
}

// bootWith is bootFrom on a machine with drives, which has no other controller
// than theirs.
func bootWith(t *testing.T, drives []string, folder string, extra ...string) booted {
	t.Helper()
	var console bytes.Buffer
	m := machineFrom(t, folder, &console, extra...)
	m.drives = drives
	exit, err := m.boot()
	if err != nil {
		t.Fatal(err)
	}
	return booted{m, exit, console.String(), wentDown(t, m)}
}

func machineFrom(t *testing.T, folder string, console *bytes.Buffer, extra ...string) *machine {
	t.Helper()
	line, err := os.ReadFile(filepath.Join(folder, "cmdline.txt"))
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{
		kernel: filepath.Join(folder, "Image"), lmrun: tool(t, "LM_GUEST_LMRUN"),
		files: map[string][]byte{}, dir: t.TempDir(), timeout: bootLimit, stdout: console,
		// QEMU takes the last of each. These two make a panic end it.
		extra: append([]string{"-initrd", filepath.Join(folder, "initramfs.cpio.gz"), "-append",
			strings.TrimSpace(string(line)) + " loglevel=1 panic=-1",
			"-trace", "qemu_system_shutdown_request"}, extra...),
	}
	m.trace = filepath.Join(m.dir, "trace")
	return m
}

// wentDown tells how a machine ended. QEMU tells of a guest that switches off
// (ShutdownCause 6), and with -no-reboot ends silently on a reset.
func wentDown(t *testing.T, m *machine) string {
	t.Helper()
	trace, err := os.ReadFile(m.trace)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(trace, []byte("qemu_system_shutdown_request reason=6")) {
		return "off"
	}
	return "reset"
}

// says holds the console against lines; * stands for the rest of one.
func (b booted) says(t *testing.T, exit hal.Code, down string, lines ...string) {
	t.Helper()
	got := strings.Split(strings.TrimSpace(b.console), "\n")
	good := b.exit == exit.ExitStatus() && b.down == down && len(got) == len(lines)
	for i := 0; good && i < len(lines); i++ {
		start, any := strings.CutSuffix(lines[i], "*")
		good = got[i] == lines[i] || any && strings.HasPrefix(got[i], start)
	}
	if !good {
		t.Errorf("exit %d, want %d; machine %s, want %s; the console:\n%s\nwant\n%s", b.exit,
			exit.ExitStatus(), b.down, down, b.console, strings.Join(lines, "\n"))
	}
}

// configFile writes a configuration.
func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lmrun.conf")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// mistaken is identified with another factorial at its end.
func mistaken(t *testing.T) string {
	return written(t, eduImage(mainOf(write(8, 12), poll(0x20, 1, 0, 10_000_000), expect(8, 1))))
}

func TestBootImageReplaysTheCaptureOfEdu(t *testing.T) {
	t.Parallel()
	path, image := made(t, "import", "--from", "qemu", "--region", "edu-mmio", "--base",
		"0x10000000", "--board", "edu",
		"../../../testdata/captures/edu.qemutrace")
	b := bootFrom(t, bootImage(t, "--board", "qemu-virt", "--device", "pci:1234:11e8", "--seal",
		path))
	b.says(t, hal.OK, "off", "lminit: /lmrun.conf: images: 1", "lmrun: done: main of /image.lmb*",
		"lminit: poweroff")
	trace := b.qemuTrace(t, edu)
	if failed, _, err := expanded(t, image, "main").match(trace); failed != "" || err != nil {
		t.Errorf("failed at %q, %v", failed, err)
	}
}

func TestBootImageRestartsAndThenReboots(t *testing.T) {
	t.Parallel()
	b := bootFrom(t, bootImage(t, "--board", "qemu-virt", "--on-failure", "restart 2 reboot",
		mistaken(t)))
	failed := "lmrun: expect failed: main, command 2: *"
	b.says(t, hal.ExpectFailed, "reset", "lminit: /lmrun.conf: images: 1", failed,
		"lminit: restarting after exit status 76",
		failed, "lminit: restarting after exit status 76", failed, "lminit: reboot")
}

// TestBootImageWithoutAConsoleRestartsAndThenPowersOff names a console that the machine does
// not have: Linux then starts PID 1 without open files, so there is no output. QEMU shows
// that it ran twice and switched the machine off, which a panic does not.
func TestBootImageWithoutAConsoleRestartsAndThenPowersOff(t *testing.T) {
	t.Parallel()
	folder := bootImage(t, "--board", "qemu-virt", "--on-failure", "restart 1 poweroff",
		mistaken(t))
	for _, console := range []string{"console=none", "console=ttyS9,115200"} {
		if err := os.WriteFile(filepath.Join(folder, "cmdline.txt"), []byte(console+"\n"),
			0o644); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		m := machineFrom(t, folder, &said)
		if _, err := m.boot(); err == nil || !strings.Contains(err.Error(), "without a line") ||
			said.Len() != 0 {
			t.Errorf("%s: %v; it said %q", console, err, &said)
		}
		stores := 0
		for _, a := range m.qemuTrace(t, edu) {
			if a.store {
				stores++
			}
		}
		if down := wentDown(t, m); down != "off" || stores != 2 {
			t.Errorf("%s: machine %s, want off; %d stores, want 2", console, down, stores)
		}
	}
}

// TestBootImageReplaysSeveralImagesUpToAFailure also mounts a file system for an output, and
// reserves memory.
func TestBootImageReplaysSeveralImagesUpToAFailure(t *testing.T) {
	t.Parallel()
	bad, dir := mistaken(t), t.TempDir()
	factorial, _ := made(t, "asm", "../../../testdata/listings/edu-factorial.lms")
	second := filepath.Join(dir, "second.lmb")
	if err := os.Rename(factorial, second); err != nil {
		t.Fatal(err)
	}
	n := filepath.Join(dir, "n")
	if err := os.WriteFile(n, []byte{6, 0, 0, 0}, 0o644); err != nil {
		t.Fatal(err)
	}
	config := configFile(t, "on-success reboot\nhugepages 4\nmount none /out tmpfs\n"+
		"image second.lmb\nsequence compute\ninput n=n\noutput result=/out/result\nloop 2\n"+
		"image second.lmb\nimage /image.lmb\nimage second.lmb\n")
	b := bootFrom(t, bootImage(t, "--board", "qemu-virt", "--config", config, "--add", n, bad,
		second))
	b.says(t, hal.ExpectFailed, "off", "lminit: /lmrun.conf: images: 4",
		"lmrun: done: compute of second.lmb, 2 times*", "lmrun: done: main of second.lmb*",
		"lmrun: expect failed: main, command 2: *", "lminit: poweroff")
}

// TestBootImageLoadsModulesAndBindsADriver binds edu to VFIO, which needs modules, and opens
// it with that backend.
func TestBootImageLoadsModulesAndBindsADriver(t *testing.T) {
	t.Parallel()
	modules := tool(t, "LM_GUEST_MODULES")
	args, config := []string{"--board", "qemu-virt"}, "on-success reboot\n"
	for _, name := range []string{"vfio.ko", "vfio_virqfd.ko", "vfio_iommu_type1.ko",
		"vfio-pci-core.ko", "vfio-pci.ko"} {
		args = append(args, "--add", filepath.Join(modules, name)+"=/modules/"+name)
		config += "module /modules/" + name + "\n"
	}
	config += "bind vfio-pci 0000:00:02.0\nimage image.lmb\ndevice vfio:0000:00:02.0\nloop 3\n"
	args = append(args, "--config", configFile(t, config), written(t, identified()))
	b := bootFrom(t, bootImage(t, args...), "-M", "virt,iommu=smmuv3,gic-version=3")
	b.says(t, hal.OK, "reset", "lminit: /lmrun.conf: images: 1",
		"lmrun: done: main of image.lmb, 3 times*", "lminit: reboot")
}

// TestBadConfigurationIsSaidAndEndsAsConfigured packs configurations that bootimage rejects.
func TestBadConfigurationIsSaidAndEndsAsConfigured(t *testing.T) {
	t.Parallel()
	folder := bootImage(t, "--board", "qemu-virt", written(t, identified()))
	for _, test := range []struct{ text, says, then, down string }{
		{"on-failure reboot\n\nfrobnicate 1\nimage /image.lmb\n",
			"lminit: usage: /lmrun.conf:3: frobnicate is unknown, or must follow a line*",
			"lminit: reboot", "reset"},
		{"image /image.lmb\nloop x\n", "lminit: usage: /lmrun.conf:2: -loop takes*",
			"lminit: poweroff", "off"},
	} {
		repack(t, folder, test.text)
		bootFrom(t, folder).says(t, hal.Usage, test.down, test.says, test.then)
	}
}

// repack puts another configuration into an initramfs.
func repack(t *testing.T, folder, config string) {
	t.Helper()
	init, err := os.ReadFile(filepath.Join(folder, "root", "init"))
	if err != nil {
		t.Fatal(err)
	}
	runner, err := os.ReadFile(filepath.Join(folder, "root", "lmrun"))
	if err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(filepath.Join(folder, "root", "image.lmb"))
	if err != nil {
		t.Fatal(err)
	}
	var archive, packed bytes.Buffer
	err = errors.Join(newc.Pack(&archive, []newc.File{{Path: "/init", Mode: 0o755, Data: init},
		{Path: "/lmrun", Mode: 0o755, Data: runner},
		{Path: "/image.lmb", Data: image}, {Path: "/lmrun.conf", Data: []byte(config)}}),
		newc.Gzip(&packed, archive.Bytes()),
		os.WriteFile(filepath.Join(folder, "initramfs.cpio.gz"), packed.Bytes(), 0o644))
	if err != nil {
		t.Fatal(err)
	}
}

// TestFITStartsUnderUBoot boots the tree that bootimage makes for a board with
// U-Boot, on QEMU's U-Boot, with the device tree of QEMU's machine.
func TestFITStartsUnderUBoot(t *testing.T) {
	t.Parallel()
	uboot := os.Getenv("LM_GUEST_UBOOT")
	if uboot == "" {
		t.Skip("needs U-Boot for QEMU and mkimage (LM_GUEST_UBOOT is not set); run `./build.sh " +
			"test guest`")
	}
	dir := t.TempDir()
	tree := filepath.Join(dir, "board.dtb")
	board := []string{"-cpu", "cortex-a72", "-m", "1024", "-nographic", "-no-reboot", "-nic",
		"none", "-bios", uboot}
	if text, err := exec.Command("qemu-system-aarch64",
		append([]string{"-M", "virt,dumpdtb=" + tree}, board...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	const load, at = "0x44000000", "0x60000000" // RAM of QEMU's virt begins at 0x40000000
	folder := bootImage(t, "--board", "imx8mp", "--dtb", tree, "--load", load,
		written(t, identified()))
	limit := exec.Command("timeout",
		append([]string{"-k", "5", "600", "qemu-system-aarch64", "-M", "virt", "-device",
			"edu,addr=2",
			"-device", "loader,force-raw=on,addr=" + at + ",file=" +
				filepath.Join(folder, "image.itb")}, board...)...)
	console := converse(t, limit, "Hit any key", "\n", "=> ",
		"setenv bootargs console=ttyAMA0 loglevel=1 panic=-1\n", "=> ", "bootm "+at+"\n")
	for _, want := range []string{"Verifying Hash Integrity ... sha256+ OK",
		"lmrun: done: main of /image.lmb", "lmrun: exit 0"} {
		if !strings.Contains(console, want) {
			t.Errorf("%q is not on the console:\n%s", want, console)
		}
	}
}

// converse runs a program and answers, in order, each text that it waits for.
// It gives all that the program said.
func converse(t *testing.T, c *exec.Cmd, dialogue ...string) string {
	t.Helper()
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	seen, buffer := 0, make([]byte, 4096)
	for {
		n, err := out.Read(buffer)
		all.Write(buffer[:n])
		for len(dialogue) > 0 {
			at := strings.Index(all.String()[seen:], dialogue[0])
			if at < 0 {
				break
			}
			seen += at + len(dialogue[0])
			_, _ = in.Write([]byte(dialogue[1]))
			dialogue = dialogue[2:]
		}
		if err != nil {
			_ = c.Wait()
			return all.String()
		}
	}
}
